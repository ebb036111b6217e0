//! A recorded history, decided again: by Seam, and by the policies that it is compared with.
//!
//! [`replay`] reads a CSV request trace: one row a candidate of a request, adjacent rows of one
//! request id one request. It streams: it holds one request at a time, and what it remembers beyond
//! that is bounded. A candidate's state comes straight from its row ([`state_of`]), so the result
//! depends on the trace and the settings alone. `docs/replay.md` describes the format and what is
//! counted.
//!
//! ```
//! use seam::model::Profile;
//! use seam::replay::{Settings, replay};
//!
//! let trace = "\
//! timestamp,request_id,workload_type,pool_id,latency_ms,jitter_ms,drop_rate,occupancy,max_capacity,\
//! soft_capacity_fraction,criticality,sla_ms,jitter_tolerance,is_release_path,is_prefill_decode_strict,alternate_count
//! 2026-05-02T09:00:00Z,r1,interactive,a,2.8,3.3,0.0,1,8,0.75,0.8,30,0.25,false,true,1
//! 2026-05-02T09:00:00Z,r1,interactive,b,4.7,0.2,0.0,6,8,0.75,0.8,30,0.25,false,true,1
//! ";
//! let summary = replay("trace.csv", trace.as_bytes(), Settings::of(Profile::Reference), &mut ())?;
//! assert_eq!(summary.strict_workloads_protected_by_seam, 1);
//! # Ok::<(), seam::replay::ReplayError>(())
//! ```

mod choices;
mod columns;
mod fields;
pub mod journal;
mod judge;
mod known;
mod outcomes;
mod requests;
pub mod retrial;
mod summary;
pub(crate) mod timestamp;

use std::io::Read;

pub use choices::ChoicesCsv;
pub use judge::state_of;
pub use known::{MAX_POOLS, REMEMBERED_REQUESTS};
pub use requests::MAX_CANDIDATES;
pub use summary::{Metrics, STRICT_CLASSES, Summary, TOLERANT_CLASS, TOLERANT_UP_TO};

use crate::health::Thresholds;
use crate::health::score::ThresholdError;
use crate::model::{InvalidName, Outcome, Profile, WorkloadName};
use crate::policy::decide::{Candidate, Decision, MAX_EXCLUDED_FRACTION, Terms, decide};
use crate::rivals::{Ask, Choosable, Finished, Policy, Rival, Sight};
use crate::trace::TraceError;
use known::{Pools, RequestIds};
use outcomes::{Losses, Ms, Outcomes, UnderWay};
use requests::{Request, Requests};
use summary::{Facts, Tally, Totals};

/// How a history is decided again.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// By whose rules Seam decides, and which pools are admissible.
    pub profile: Profile,
    /// Their numbers.
    pub thresholds: Thresholds,
    /// The policies compared, in this order, each once. If there are none: all of them, without those
    /// that need prefix blocks where the history has none.
    pub policies: Vec<Policy>,
    /// Which pools the policies beside Seam choose from.
    pub rivals_see: Choosable,
    /// What the policies that draw draw from, and what of their choices fails.
    pub seed: u64,
}

impl Settings {
    /// All policies under `profile`'s own thresholds, in the published replay's view.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let (policies, rivals_see) = (Vec::new(), Choosable::AdmissibleOnly);
        Self { profile, thresholds: Thresholds::of(profile), policies, rivals_see, seed: 1 }
    }
}

/// Hears of each request as soon as it is decided.
pub trait Sink {
    /// One request and where each policy placed it.
    ///
    /// # Errors
    /// Those of whatever it writes to; they end the replay.
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()>;
}

/// Listens to nothing.
impl Sink for () {
    fn placed(&mut self, _: &Placed<'_>) -> std::io::Result<()> {
        Ok(())
    }
}

/// One request and where each policy placed it.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The request.
    pub request_id: &'a str,
    /// Its class.
    pub workload: &'a WorkloadName,
    /// Rows that it had: its candidates.
    pub rows: usize,
    /// How Seam's own decision ended, whether Seam is among the policies or not.
    pub outcome: Outcome,
    /// The policies.
    pub policies: &'a [Policy],
    /// The pool that each of them chose, if any.
    pub chosen: &'a [Option<&'a str>],
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A trace cannot be read on.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A threshold is out of range.
    #[error("thresholds.{0}")]
    Threshold(#[from] ThresholdError),
    /// A name of Seam's own is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// What listened could not write.
    #[error("{0}")]
    Sink(std::io::Error),
}

/// Decides one trace again. `name` stands for it in errors.
///
/// # Errors
/// Names the file, line and column at fault, what was found and what is allowed.
pub fn replay(
    name: &str,
    input: impl Read + Send + 'static,
    settings: Settings,
    sink: &mut impl Sink,
) -> Result<Summary, ReplayError> {
    let mut replay = Replay::new(settings)?;
    replay.feed(name, input, sink)?;
    Ok(replay.finish())
}

/// One history, in one file or in several that follow one another.
pub struct Replay {
    settings: Settings,
    players: Vec<Player>,
    /// The players' policies; of those that were not named it is known from the first file on which
    /// they are.
    policies: Vec<Policy>,
    pools: Pools,
    ids: RequestIds,
    outcomes: Outcomes,
    chosen: u64,
    clock: Clock,
    totals: Totals,
}

/// A policy and what came of it.
struct Player {
    /// None for Seam itself.
    rival: Option<Box<dyn Rival + Send>>,
    tally: Tally,
    losses: Losses,
}

impl Player {
    fn new(rival: Option<Box<dyn Rival + Send>>, seed: u64) -> Self {
        Self { rival, tally: Tally::default(), losses: Losses::new(seed) }
    }
}

/// Time as the rivals are told: from the first request on, and never backwards.
#[derive(Default)]
struct Clock {
    first_ms: Option<f64>,
    now_ms: f64,
}

impl Clock {
    fn at(&mut self, came_ms: f64) -> f64 {
        let first_ms = *self.first_ms.get_or_insert(came_ms);
        self.now_ms = self.now_ms.max(came_ms - first_ms);
        self.now_ms
    }
}

impl Replay {
    /// A replay that has read nothing yet.
    ///
    /// # Errors
    /// Names the threshold that is out of range.
    pub fn new(settings: Settings) -> Result<Self, ReplayError> {
        settings.thresholds.validate()?;
        Ok(Self {
            settings,
            players: Vec::new(),
            policies: Vec::new(),
            pools: Pools::default(),
            ids: RequestIds::new(REMEMBERED_REQUESTS),
            outcomes: Outcomes::default(),
            chosen: 0,
            clock: Clock::default(),
            totals: Totals::default(),
        })
    }

    /// Decides the requests of one more file, which come after those of the files before it: request
    /// ids are unique and the policies' memory goes on. After an error the replay is of no more use.
    ///
    /// # Errors
    /// Names the file, line and column at fault, what was found and what is allowed.
    pub fn feed(
        &mut self,
        name: &str,
        input: impl Read + Send + 'static,
        sink: &mut impl Sink,
    ) -> Result<(), ReplayError> {
        let mut requests = Requests::open(name, input)?;
        self.seat(&requests)?;
        let mut request = Request::empty()?;
        let mut candidates: Vec<Candidate> = Vec::new();
        while requests.next_request(self.totals.requests + 1, &mut request, &mut self.pools, &mut self.ids)? {
            candidates.clear();
            for row in &request.rows {
                let pool = self.pools.get(row.pool);
                candidates.extend(pool.map(|pool| judge::candidate(&self.settings.thresholds, row, pool)));
            }
            let terms = Terms {
                max_excluded_fraction: MAX_EXCLUDED_FRACTION,
                // Any 64 bits of the hash break ties alike.
                tie: request.hash as u64 ^ self.settings.seed,
                ..Terms::new(self.settings.profile, &self.settings.thresholds, &request.workload)
            };
            let decision = decide(&terms, &candidates);
            let prefix_blocks = requests.have_prefix_blocks().then_some(request.prefix_blocks.as_slice());
            let chosen = self.play(&request, prefix_blocks, &candidates, &decision);
            sink.placed(&Placed {
                request_id: &request.id,
                workload: &request.workload.name,
                rows: request.rows.len(),
                outcome: decision.choice.outcome,
                policies: &self.policies,
                chosen: &chosen,
            })
            .map_err(ReplayError::Sink)?;
        }
        Ok(())
    }

    /// What came of all that was fed.
    #[must_use]
    pub fn finish(self) -> Summary {
        let totals = self.totals;
        let metrics = self.players.iter().map(|player| player.tally.metrics(&totals));
        Summary {
            profile: self.settings.profile,
            rivals_see: self.settings.rivals_see,
            seed: self.settings.seed,
            policy_metrics: self.policies.iter().copied().zip(metrics).collect(),
            replay_requests: totals.requests,
            replay_rows: totals.rows,
            pools: self.pools.len() as u64,
            strict_requests: totals.strict,
            tolerant_requests: totals.tolerant,
            // A request is never both.
            neither_requests: totals.requests - totals.strict - totals.tolerant,
            strict_workloads_protected_by_seam: totals.protected_by_seam,
            headroom_preserved_by_seam: totals.preserved_by_seam,
            strict_protected_extra_ms: totals.protected_extra_ms(),
            headroom_preserved_extra_ms: totals.preserved_extra_ms(),
            no_pool_by_seam: totals.not_placed_by_seam,
            unlisted_alternates: totals.unlisted_alternates,
        }
    }

    /// Makes the players when the first file is known, and holds the others to what they need.
    fn seat(&mut self, requests: &Requests) -> Result<(), ReplayError> {
        let has_blocks = requests.have_prefix_blocks();
        if self.players.is_empty() {
            let named = &self.settings.policies;
            let wanted = if named.is_empty() { Policy::ALL } else { named };
            for &policy in wanted {
                let left_out = named.is_empty() && policy.needs_prefix_blocks() && !has_blocks;
                if !left_out && !self.policies.contains(&policy) {
                    self.policies.push(policy);
                    self.players.push(Player::new(policy.rival(self.settings.seed), self.settings.seed));
                }
            }
        }
        match self.policies.iter().find(|policy| policy.needs_prefix_blocks() && !has_blocks) {
            None => Ok(()),
            Some(policy) => {
                let found = format!("no column {}", columns::PREFIX_BLOCKS);
                Err(requests.malformed("the header", &found, &format!("that column, which {policy} needs")).into())
            }
        }
    }

    /// Lets every player choose, counts what it chose and names it.
    fn play<'a>(
        &mut self,
        request: &Request,
        prefix_blocks: Option<&[u64]>,
        candidates: &'a [Candidate],
        decision: &Decision,
    ) -> Vec<Option<&'a str>> {
        let at_ms = self.clock.at(request.came_ms);
        self.tell_outcomes(at_ms);
        let state = |index: usize| candidates.get(index).map(|candidate| candidate.health.state);
        let facts = Facts::of(&request.workload, candidates, decision);
        self.totals.rows += request.rows.len() as u64;
        self.totals.unlisted_alternates += u64::from(!request.alternates_listed);
        self.totals.count(&facts, decision.choice.chosen.and_then(|index| candidates.get(index)));

        let (seen, sights) = self.view(candidates, decision);
        let ask = Ask { at_ms, prefix_blocks };
        let mut names = Vec::with_capacity(self.players.len());
        for (number, player) in self.players.iter_mut().enumerate() {
            let chosen = match &mut player.rival {
                None => decision.choice.chosen,
                Some(_) if sights.is_empty() => None,
                Some(rival) => rival.choose(&ask, &sights).and_then(|index| seen.get(index).copied()),
            };
            player.tally.count(&facts, chosen.and_then(state));
            names.push(chosen.and_then(|index| candidates.get(index)).map(|one| one.target.pool.as_str()));
            let row = chosen.and_then(|index| request.rows.get(index)).filter(|_| player.rival.is_some());
            if let Some(row) = row
                && let Some(pool) = self.pools.get(row.pool)
            {
                self.chosen += 1;
                self.outcomes.add(UnderWay {
                    ends: Ms::new(at_ms + row.latency_ms),
                    number: self.chosen,
                    player: number,
                    pool: row.pool,
                    elapsed: Ms::new(row.latency_ms),
                    ideal: Ms::new(pool.ideal_ms),
                    ok: !player.losses.lost(row.drop_rate),
                });
            }
        }
        names
    }

    /// What the rivals may choose from: candidates by index, and what is seen of each.
    fn view<'a>(&self, candidates: &'a [Candidate], decision: &Decision) -> (Vec<usize>, Vec<Sight<'a>>) {
        let judged = candidates.iter().zip(&decision.assessments).enumerate();
        let view = self.settings.rivals_see;
        let seen = judged.filter(|(_, (candidate, assessment))| view.includes(candidate, &assessment.verdict));
        seen.map(|(index, (candidate, _))| (index, Sight::of(candidate))).unzip()
    }

    /// Tells the rivals what came of the choices that have ended by now.
    fn tell_outcomes(&mut self, at_ms: f64) {
        while let Some(ended) = self.outcomes.next_ended(at_ms) {
            let rival = self.players.get_mut(ended.player).and_then(|player| player.rival.as_mut());
            if let (Some(rival), Some(pool)) = (rival, self.pools.get(ended.pool)) {
                rival.finished(&Finished {
                    at_ms: ended.ends.get(),
                    name: pool.target.pool.as_str(),
                    elapsed_ms: ended.elapsed.get(),
                    ideal_ms: ended.ideal.get(),
                    ok: ended.ok,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
