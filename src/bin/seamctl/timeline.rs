//! `seamctl timeline`: the picture of an incident.

mod journals;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use seam::timeline::{Example, Options, Picture, WIDTH, WIDTHS, parse_time};

use crate::exit::{Failure, print};
use crate::number::whole;
use crate::output::{self, Output};
use crate::shell;
use crate::table::count;

/// What to draw.
#[derive(Args)]
pub(crate) struct Timeline {
    /// Journals, of one node or of many: their files, or the folders that they are in.
    #[arg(value_name = "JOURNAL", required = true)]
    journals: Vec<PathBuf>,
    /// The picture: an .svg file, or an .html file that adds a magnifier and details where the
    /// pointer is.
    #[arg(long, value_name = "FILE", value_parser = drawable)]
    out: PathBuf,
    /// From when: a date such as 2026-05-02T09:00:03.25Z, or milliseconds since 1970; from the first
    /// entry on if absent.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = parse_time)]
    from: Option<u64>,
    /// Until when; until the last entry if absent.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = parse_time)]
    to: Option<u64>,
    /// Only paths with this in their name: a host, a rail, p0>d1/r0/quic.
    #[arg(long, value_name = "PART")]
    paths: Option<String>,
    /// How wide the picture is, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = WIDTH, allow_negative_numbers = true, value_parser = whole(WIDTHS))]
    width: u32,
}

impl Timeline {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let options = Options { from_ms: self.from, to_ms: self.to, paths: self.paths, width: self.width };
        let mut timeline = seam::timeline::Timeline::new(options).map_err(Failure::usage)?;
        let history = crate::replay::journals(&self.journals)?;
        let segments = history.lives().iter().flat_map(|life| &life.segments);
        let inputs: Vec<PathBuf> = segments.map(|segment| segment.path.to_path_buf()).collect();
        let output = Output::file(&self.out, &inputs)?;
        let damaged = journals::feed(&history, &mut timeline);
        let picture = timeline.draw().map_err(Failure::usage)?;
        let html = has_extension(&self.out, "html");
        let mut file = output.begin()?;
        let text = if html { picture.html() } else { picture.svg.clone() };
        file.write_all(text.as_bytes()).map_err(|error| output::cannot(&self.out, &self.out, &error))?;
        output.finish(vec![file])?;
        for damage in damaged {
            eprintln!("seamctl: {damage}");
        }
        print(&closing(&picture, &self.out, &shell::journals(&self.journals, &inputs)))
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn drawable(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match has_extension(&path, "svg") || has_extension(&path, "html") {
        true => Ok(path),
        false => Err("allowed a name that ends in .svg or .html".to_owned()),
    }
}

fn closing(picture: &Picture, out: &Path, journals: &str) -> String {
    let many = |number: u64, what: &str| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let mut text = format!(
        "{}: {} ({} refused) and {} ({} failed),\n{} with trouble, {} healthy throughout.\nwrote {}\n",
        picture.when,
        many(picture.decisions, "decision"),
        picture.refused,
        many(picture.transfers, "transfer"),
        picture.failed,
        many(picture.lanes + picture.crowded_out, "path"),
        picture.folded,
        out.display(),
    );
    if picture.left_out > 0 {
        let facts = many(picture.left_out, "fact");
        text.push_str(&format!("Note: {facts} had no room; --from and --to draw a shorter time whole\n"));
    }
    // Of a time alone a replay can say nothing.
    let next = match &picture.example {
        Some(Example { request, at }) => format!("--at {at} --explain {request}"),
        None => "--verify".to_owned(),
    };
    text + &format!("Next: seamctl replay {journals} {next}\n")
}
