//! Another traffic on journals: the requests of a trace in place of the recorded ones.

use std::path::{Path, PathBuf};

use clap::Args;
use seam::replay::retrial::{Import, Imported};
use seam::trace::{KV_SCALE, KvModel, Mix, SPEEDUP, Traffic};

use crate::number::number;
use crate::table::{count, paragraph};

/// Which requests to ask of journals.
#[derive(Args)]
pub(super) struct Requests {
    /// Ask the journals the requests of this trace (Mooncake, Azure or ServeGen) in place of the
    /// recorded ones: each node that routes is asked all of them.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The model that turns the trace's tokens into KV bytes.
    #[arg(long, value_name = "NAME", requires = "trace", default_value_t = KvModel::default())]
    model: KvModel,
    /// How much faster than the trace the requests come, 0.1 to 10000.
    #[arg(long, value_name = "X", requires = "trace", default_value_t = 1.0, allow_negative_numbers = true,
        value_parser = number(SPEEDUP))]
    speedup: f64,
    /// What their KV bytes are multiplied by, 1e-9 to 1000: for hosts smaller than the model's.
    #[arg(long, value_name = "X", requires = "trace", default_value_t = 1.0, allow_negative_numbers = true,
        value_parser = number(KV_SCALE))]
    kv_scale: f64,
    /// Their classes and how often each comes.
    #[arg(long, value_name = "CLASS=SHARE,…", requires = "trace", default_value_t = Mix::default())]
    mix: Mix,
}

impl Requests {
    /// The trace, if one is given.
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    pub(super) fn import(&self, seed: u64) -> Option<Import> {
        let traffic =
            Traffic { model: self.model, speedup: self.speedup, kv_scale: self.kv_scale, mix: self.mix.clone(), seed };
        self.trace.clone().map(|trace| Import { trace, traffic })
    }
}

/// What is said of a trace's requests.
pub(super) fn text(imported: &Imported) -> String {
    let lives = |number: u64| if number == 1 { "1 life".to_owned() } else { format!("{number} lives") };
    if imported.lives == 0 {
        return "No node in these journals routes, so nobody was asked: give those of prefill hosts or routers.\n"
            .to_owned();
    }
    let each = if imported.lives == 1 { "" } else { ", each of them all: a request counts once for each" };
    let mut text = paragraph(
        &format!(
            "The requests are the trace's, asked of {} of nodes that route{each}. Paths and load are as recorded: \
             what these requests would have done to either is not in it, so every line is an estimate.",
            lives(imported.lives)
        ),
        0,
    );
    if imported.cut_short > 0 {
        let ended = lives(imported.cut_short);
        text.push_str(&format!("The trace went on when {ended} had ended; --speedup makes it shorter.\n"));
    }
    if let Some(first) = &imported.first_refusal {
        let which = count(imported.refused as usize, "request");
        let said = format!("Refused as asked: {which}. The first: {first}; --kv-scale and --mix change what is asked.");
        text.push_str(&paragraph(&said, 0));
    }
    text
}
