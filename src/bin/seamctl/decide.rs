//! `seamctl decide`: JSON lines in, decision records out, without any agent.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use clap::Args;
use seam::model::Profile;
use seam::whatif::{MAX_LINE_BYTES, decide_line};

use crate::exit::{Failure, print_json};

/// What-if.
#[derive(Args)]
pub(crate) struct Decide {
    /// Where the lines are; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// The rules that decide.
    #[arg(long, default_value_t = Profile::default())]
    profile: Profile,
}

impl Decide {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.input.as_os_str() == "-" {
            return decide(&mut std::io::stdin().lock(), self.profile, "standard input");
        }
        let name = self.input.display().to_string();
        let file = File::open(&self.input).map_err(|error| Failure::usage(anyhow::anyhow!("{name}: {error}")))?;
        decide(&mut BufReader::new(file), self.profile, &name)
    }
}

/// Stops at the first line that cannot be decided: what was printed stands for the lines before.
fn decide(input: &mut impl BufRead, profile: Profile, name: &str) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        let refuse = |detail: String| Failure::usage(anyhow::anyhow!("{name}:{number}: {detail}"));
        bytes.clear();
        // One byte past the limit is enough to tell.
        let limit = MAX_LINE_BYTES as u64 + 2;
        let read = input.take(limit).read_until(b'\n', &mut bytes).map_err(|error| refuse(error.to_string()))?;
        if read == 0 {
            return Ok(());
        }
        let line = std::str::from_utf8(&bytes).map_err(|error| refuse(format!("not UTF-8: {error}")))?;
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        print_json(&decide_line(line, profile, number).map_err(|error| refuse(error.to_string()))?)?;
    }
}
