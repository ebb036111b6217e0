//! `seamctl doctor`: what this host can do.

use std::path::PathBuf;

use clap::Args;
use seam::config::Config;
use seam::doctor::{Finding, Verdict, examine};

use crate::exit::{Failure, print, print_json};
use crate::paint;
use crate::table::{count, paragraph, table};

/// What to look at.
#[derive(Args)]
pub(crate) struct Doctor {
    /// An agent's configuration: what it asks of this host is looked at as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the findings as one JSON array.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = self.config.as_deref().map(Config::load).transpose().map_err(Failure::usage)?;
        let findings = examine(config.as_ref());
        if self.json {
            print_json(&findings)?;
        } else {
            print(&text(&findings, self.config.is_some()))?;
        }
        match findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count() {
            0 => Ok(()),
            failed => Err(Failure::failed(anyhow::anyhow!("{} to mend", count(failed, "finding")))),
        }
    }
}

fn text(findings: &[Finding], configured: bool) -> String {
    let row = |finding: &Finding| {
        let verdict = finding.verdict.as_str().to_owned();
        [finding.what.clone(), verdict, finding.found.clone()]
    };
    let mut text = table(["what", "is", "found"], findings.iter().map(row));
    if paint::colour() {
        text = paint::states(&text);
    }
    for finding in findings {
        if let Some(remedy) = &finding.remedy {
            text.push('\n');
            text.push_str(&paragraph(&format!("{}: {remedy}", finding.what), 0));
        }
    }
    text.push_str(match configured {
        true => "\nNext: seam-agent --config FILE --check, then start it\n",
        false => "\nNext: seamctl doctor --config FILE looks at what a configuration asks of this host\n",
    });
    text
}
