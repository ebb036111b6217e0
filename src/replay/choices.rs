//! Every choice as a line of CSV.

use std::io::Write;

use super::{Placed, Sink};

/// Writes each request on a line of its own: `request_id`, `workload`, the pool that each policy chose
/// under the policy's name (empty if none), and `seam_outcome`.
pub struct ChoicesCsv<W: Write> {
    out: csv::Writer<W>,
    begun: bool,
}

impl<W: Write> ChoicesCsv<W> {
    /// Nothing is written before the first request.
    pub fn new(out: W) -> Self {
        Self { out: csv::Writer::from_writer(out), begun: false }
    }

    /// Hands back what was written to, complete.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(self) -> std::io::Result<W> {
        self.out.into_inner().map_err(|error| error.into_error())
    }
}

impl<W: Write> Sink for ChoicesCsv<W> {
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()> {
        if !self.begun {
            self.begun = true;
            let policies = placed.policies.iter().map(|policy| policy.as_str());
            self.out.write_record(["request_id", "workload"].into_iter().chain(policies).chain(["seam_outcome"]))?;
        }
        let chosen = placed.chosen.iter().map(|pool| pool.unwrap_or_default());
        let first = [placed.request_id, placed.workload.as_str()];
        self.out.write_record(first.into_iter().chain(chosen).chain([placed.outcome.as_str()]))?;
        Ok(())
    }
}
