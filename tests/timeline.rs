//! An incident as a picture: whole, legible, bounded, and the same every time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "timeline/incident.rs"]
mod incident;
#[path = "timeline/xml.rs"]
mod xml;

use std::path::Path;
use std::process::{Command, Output};

use incident::{Incident, write};

fn seamctl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seamctl")).arg("timeline").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_command_draws_the_journals_of_several_nodes_as_svg_and_as_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let journals = dir.path().join("journals");
    write(&journals, &Incident::small(), &["p0", "p1", "d0"]);
    let journals = journals.to_str().unwrap();
    for name in ["incident.svg", "incident.html"] {
        let out = dir.path().join(name);
        let output = seamctl(&[journals, "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        if let Ok(keep) = std::env::var("SEAM_TIMELINE_KEEP") {
            std::fs::copy(&out, Path::new(&keep).join(name)).unwrap();
        }
        println!("{}", text(&output.stdout));
    }
}
