//! The episodes of the published experiments: operation logs, and what a profile or a rival makes
//! of them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

use crate::core::Mono;
use crate::health::score::ThresholdField;
use crate::health::window::Point;
use crate::health::{ProfileTrack, SAMPLES_APART_MS, Settings, Thresholds};
use crate::model::{Capacity, PathState, PoolName, Profile, Workload};
use crate::policy::decide::{Candidate, Decision, MAX_EXCLUDED_FRACTION, Target, Terms, decide};
use crate::rivals::{Ask, Choosable, Finished, Policy, Rival, Sight};

const EPISODES: &[u8] = include_bytes!("data/experiments.jsonl.gz");
/// Between two episodes as a rival sees them, in milliseconds: what one taught is old in the next.
const EPISODES_APART_MS: f64 = 3_600_000.0;

/// What is wrong with an episode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("episode {line}: {what}")]
pub struct BadEpisode {
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// One operation log.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Episode {
    /// The experiment that it belongs to.
    pub experiment: String,
    /// Its number within the experiment, from 0.
    pub trial: u32,
    /// What differs from the default thresholds.
    pub thresholds: BTreeMap<String, f64>,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Vec<Value>")]
pub enum Op {
    /// A pool of so many sessions, and the share of them from which it is soft saturated.
    Pool(String, u32, f64),
    /// A latency in milliseconds and a drop rate, measured on the path to a pool.
    Sample(String, f64, f64),
    /// So many sessions of a pool are in use.
    Active(String, u32),
    /// A request of this class is routed.
    Route(Box<Workload>),
    /// The session that the last request took is free again.
    Release,
}

impl TryFrom<Vec<Value>> for Op {
    type Error = String;

    fn try_from(fields: Vec<Value>) -> Result<Self, String> {
        let at = |index: usize| fields.get(index).cloned().unwrap_or_default();
        let text = |index: usize| serde_json::from_value::<String>(at(index)).map_err(|error| error.to_string());
        let number = |index: usize| serde_json::from_value::<f64>(at(index)).map_err(|error| error.to_string());
        let whole = |index: usize| serde_json::from_value::<u32>(at(index)).map_err(|error| error.to_string());
        match text(0)?.as_str() {
            "pool" => Ok(Self::Pool(text(1)?, whole(2)?, number(3)?)),
            "sample" => Ok(Self::Sample(text(1)?, number(2)?, number(3)?)),
            "active" => Ok(Self::Active(text(1)?, whole(2)?)),
            "route" => serde_json::from_value(at(1)).map(Self::Route).map_err(|error| error.to_string()),
            "release" => Ok(Self::Release),
            other => Err(format!("operation: found {other:?}, allowed pool, sample, active, route, release")),
        }
    }
}

/// The 326 published episodes, in order.
///
/// # Errors
/// Names the first that cannot be read.
pub fn published() -> Result<Vec<Episode>, BadEpisode> {
    let lines = BufReader::new(GzDecoder::new(EPISODES)).lines().enumerate();
    let parse = |(index, line): (usize, std::io::Result<String>)| {
        let bad = |what: String| BadEpisode { line: index + 1, what };
        let line = line.map_err(|error| bad(error.to_string()))?;
        serde_json::from_str(&line).map_err(|error| bad(error.to_string()))
    };
    lines.map(parse).collect()
}

/// What a profile made of an episode.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// The state after each sample.
    pub states: Vec<PathState>,
    /// Every request.
    pub routes: Vec<Routed>,
}

/// One request and where it went.
#[derive(Clone, Debug)]
pub struct Routed {
    /// What asked.
    pub workload: Workload,
    /// What there was.
    pub candidates: Vec<Candidate>,
    /// What Seam made of it.
    pub decision: Decision,
    /// Where the request went: Seam's choice, or the rival's.
    pub chosen: Option<usize>,
}

impl Routed {
    /// The chosen candidate.
    #[must_use]
    pub fn on(&self) -> Option<&Candidate> {
        self.chosen.and_then(|index| self.candidates.get(index))
    }
}

/// Who chooses, from one episode to the next.
///
/// A rival may choose every pool that is neither quarantined nor full, as the published baselines
/// did. Before each request it learns from the samples taken until then as from requests of its own:
/// in the order of their times, the paths in turn.
pub struct Chooser {
    rival: Option<Box<dyn Rival + Send>>,
    began_ms: f64,
}

impl Chooser {
    /// One that has learned nothing yet; `seed` is for those that draw.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self { rival: policy.rival(seed), began_ms: 0.0 }
    }
}

impl Episode {
    /// Plays the log under the rules of `profile`; `chooser` chooses.
    ///
    /// # Errors
    /// Says which operation makes no sense.
    pub fn play(&self, profile: Profile, chooser: &mut Chooser) -> Result<Played, String> {
        let settings = Settings { profile, thresholds: self.thresholds_under(profile)?, ..Settings::default() };
        let began_ms = chooser.began_ms + EPISODES_APART_MS;
        chooser.began_ms = began_ms;
        let rival = chooser.rival.as_deref_mut();
        let mut stage =
            Stage { settings, pools: Vec::new(), rival, ideal_ms: self.ideal_ms(), began_ms, untold: Vec::new() };
        let mut played = Played::default();
        let mut taken = None;
        for op in &self.ops {
            match op {
                Op::Pool(name, max, soft) => stage.pools.push(Pool::new(profile, name, *max, *soft)?),
                Op::Sample(name, latency_ms, drop_rate) => {
                    played.states.push(stage.sample(name, *latency_ms, *drop_rate)?);
                }
                Op::Active(name, count) => stage.pool(name)?.1.capacity.active_sessions = *count,
                Op::Route(workload) => {
                    let routed = stage.route(workload, u64::from(self.trial));
                    if let Some(pool) = routed.chosen.and_then(|index| stage.pools.get_mut(index)) {
                        pool.capacity.active_sessions += 1;
                    }
                    taken = routed.chosen;
                    played.routes.push(routed);
                }
                // The log names what the prototype took; what is given back is what was taken here.
                Op::Release => {
                    if let Some(pool) = taken.take().and_then(|index: usize| stage.pools.get_mut(index)) {
                        pool.capacity.active_sessions -= 1;
                    }
                }
            }
        }
        Ok(played)
    }

    /// The lowest latency that any path shows: what a request would take on an idle, sound one.
    fn ideal_ms(&self) -> f64 {
        let latency = |op: &Op| if let Op::Sample(_, latency_ms, _) = op { Some(*latency_ms) } else { None };
        self.ops.iter().filter_map(latency).reduce(f64::min).unwrap_or(1.0)
    }

    fn thresholds_under(&self, profile: Profile) -> Result<Thresholds, String> {
        let mut thresholds = Thresholds::of(profile);
        for (name, value) in &self.thresholds {
            let field = ThresholdField::ALL.iter().find(|field| field.name == name);
            let field = field.ok_or_else(|| format!("thresholds.{name}: unknown"))?;
            field.set(&mut thresholds, *value).map_err(|error| format!("thresholds.{name}: {}", error.allowed))?;
        }
        Ok(thresholds)
    }
}

/// The pools of one episode.
struct Stage<'a> {
    settings: Settings,
    pools: Vec<Pool>,
    rival: Option<&'a mut (dyn Rival + Send + 'static)>,
    ideal_ms: f64,
    began_ms: f64,
    /// Samples that the rival has not heard of yet.
    untold: Vec<Untold>,
}

/// A sample that the rival has not heard of yet.
struct Untold {
    /// Its number among those of its path, from 1: its time.
    number: u64,
    /// The pool, by its place.
    pool: usize,
    latency_ms: f64,
    drop_rate: f64,
}

struct Pool {
    target: Arc<Target>,
    track: ProfileTrack,
    capacity: Capacity,
    samples: u64,
}

impl Pool {
    fn new(profile: Profile, name: &str, max_capacity: u32, soft_fraction: f64) -> Result<Self, String> {
        let pool = PoolName::new(name).map_err(|error| error.to_string())?;
        Ok(Self {
            target: Arc::new(Target { pool, node: None, path: None }),
            track: ProfileTrack::new(profile),
            capacity: Capacity { active_sessions: 0, max_capacity, soft_fraction },
            samples: 0,
        })
    }
}

impl Stage<'_> {
    /// A pool and its place.
    fn pool(&mut self, name: &str) -> Result<(usize, &mut Pool), String> {
        let mut pools = self.pools.iter_mut().enumerate();
        pools.find(|(_, pool)| pool.target.pool.as_str() == name).ok_or_else(|| format!("pool {name:?}: unknown"))
    }

    fn sample(&mut self, name: &str, latency_ms: f64, drop_rate: f64) -> Result<PathState, String> {
        let (place, found) = self.pool(name)?;
        found.samples += 1;
        let number = found.samples;
        self.untold.push(Untold { number, pool: place, latency_ms, drop_rate });
        let Some(found) = self.pools.get_mut(place) else { return Ok(PathState::Healthy) };
        let at = Mono(0).plus_ms(number * SAMPLES_APART_MS);
        Ok(found.track.feed(&self.settings, at, Point { latency_ms, drop_rate, bytes: 0 }).state)
    }

    /// Tells the rival of every sample until now, and says what is now.
    fn tell(&mut self) -> f64 {
        self.untold.sort_by_key(|sample| (sample.number, sample.pool));
        let newest = self.pools.iter().map(|pool| pool.samples).max().unwrap_or(0);
        let at_ms = |number: u64| self.began_ms + (number * SAMPLES_APART_MS) as f64;
        if let Some(rival) = &mut self.rival {
            for sample in &self.untold {
                let Some(pool) = self.pools.get(sample.pool) else { continue };
                rival.finished(&Finished {
                    at_ms: at_ms(sample.number),
                    name: pool.target.pool.as_str(),
                    elapsed_ms: sample.latency_ms,
                    ideal_ms: self.ideal_ms,
                    ok: sample.drop_rate < self.settings.thresholds.drop_quarantine,
                });
            }
        }
        let now_ms = at_ms(newest);
        self.untold.clear();
        now_ms
    }

    fn route(&mut self, workload: &Workload, tie: u64) -> Routed {
        let now_ms = self.tell();
        let thresholds = &self.settings.thresholds;
        let candidate = |pool: &Pool| Candidate {
            health_age_ms: Some(0),
            ..Candidate::new(Arc::clone(&pool.target), pool.track.health(thresholds), pool.capacity)
        };
        let candidates: Vec<Candidate> = self.pools.iter().map(candidate).collect();
        let terms = Terms {
            max_excluded_fraction: MAX_EXCLUDED_FRACTION,
            tie,
            ..Terms::new(self.settings.profile, thresholds, workload)
        };
        let decision = decide(&terms, &candidates);
        let chosen = match &mut self.rival {
            None => decision.choice.chosen,
            Some(rival) => {
                let judged = candidates.iter().zip(&decision.assessments).enumerate();
                let open = judged.filter(|(_, (one, found))| Choosable::UpAndNotFull.includes(one, &found.verdict));
                let (open, sights): (Vec<usize>, Vec<Sight<'_>>) =
                    open.map(|(index, (one, _))| (index, Sight::of(one))).unzip();
                let ask = Ask { at_ms: now_ms, prefix_blocks: None };
                rival.choose(&ask, &sights).and_then(|index| open.get(index).copied())
            }
        };
        Routed { workload: workload.clone(), candidates, decision, chosen }
    }
}
