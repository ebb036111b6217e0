//! What one node knew, under the rules that decided or under others: its path health and its view,
//! fed with what was recorded.

use std::sync::Arc;

use super::Rules;
use crate::core::{Core, Mono, Now};
use crate::health::{self, HealthCore};
use crate::journal::{Part, Snapshot};
use crate::policy::record::DecisionRecord;
use crate::policy::{self, Policy, RouteProblem};

/// A decision, or why there is none.
pub(super) type Answer = Result<Arc<DecisionRecord>, RouteProblem>;

/// One node's knowledge.
///
/// Health is judged anew from the recorded samples, and the policy reads what comes of that. What
/// the node did because of its decisions (leases, transfers) is not done again: a decision here is
/// a dry run on what was known.
pub(super) struct World {
    rules: Rules,
    health: Option<HealthCore>,
    policy: Option<Policy>,
    now: Mono,
    reports: Vec<health::Output>,
    answers: Vec<policy::Output>,
}

impl World {
    pub(super) fn new(rules: Rules) -> Self {
        let (reports, answers) = (Vec::new(), Vec::new());
        Self { rules, health: None, policy: None, now: Mono::default(), reports, answers }
    }

    /// Begins from a recorded state, unless it knows better already.
    pub(super) fn begin(&mut self, now: Now, snapshot: &Snapshot) {
        match snapshot {
            Snapshot::Health(snapshot) if self.health.is_none() => {
                let rules = self.rules.health(snapshot.settings.clone());
                let mut core = HealthCore::restore((**snapshot).clone());
                if rules != snapshot.settings {
                    let now = self.forward(now);
                    core.step(now, health::Input::Configure(rules), &mut self.reports);
                    self.reports.clear();
                }
                self.health = Some(core);
            }
            Snapshot::Policy(snapshot) if self.policy.is_none() => {
                let mut core = (**snapshot).clone();
                core.forget_requests();
                let rules = self.rules.policy(core.settings().clone());
                core.step(self.forward(now), policy::Input::Configure(Box::new(rules)), &mut self.answers);
                self.answers.clear();
                self.policy = Some(core);
            }
            _ => {}
        }
    }

    /// Forgets a core whose tape is interrupted.
    pub(super) fn interrupted(&mut self, part: Part) {
        match part {
            Part::Health => self.health = None,
            Part::Policy => self.policy = None,
            Part::Ledger | Part::Mesh => {}
        }
    }

    pub(super) fn health(&mut self, now: Now, input: health::Input) {
        let now = self.forward(now);
        let Some(core) = &mut self.health else { return };
        let input = match input {
            health::Input::Configure(settings) => health::Input::Configure(self.rules.health(settings)),
            other => other,
        };
        core.step(now, input, &mut self.reports);
        for report in self.reports.drain(..) {
            if let (health::Output::Report(report), Some(policy)) = (report, &mut self.policy) {
                policy.step(now, policy::Input::Report(report), &mut self.answers);
            }
        }
        self.answers.clear();
    }

    /// Tells the policy what is no question of a request and no answer to one.
    pub(super) fn policy(&mut self, now: Now, input: policy::Input) {
        let now = self.forward(now);
        let Some(core) = &mut self.policy else { return };
        let input = match input {
            policy::Input::Report(_) if self.health.is_some() => return,
            policy::Input::Configure(settings) => policy::Input::Configure(Box::new(self.rules.policy(*settings))),
            policy::Input::Route { .. }
            | policy::Input::LeaseAnswer { .. }
            | policy::Input::TransferStart { .. }
            | policy::Input::TransferFailed { .. }
            | policy::Input::TransferEnded { .. }
            | policy::Input::TransferWaited { .. }
            | policy::Input::Release { .. }
            | policy::Input::Renewed { .. }
            | policy::Input::Cancel { .. } => return,
            told @ (policy::Input::Peer { .. }
            | policy::Input::PeerGone { .. }
            | policy::Input::Load { .. }
            | policy::Input::Paths { .. }
            | policy::Input::Report(_)
            | policy::Input::Override { .. }
            | policy::Input::Withdraw { .. }
            | policy::Input::Tick) => told,
        };
        core.step(now, input, &mut self.answers);
        self.answers.clear();
    }

    /// Whether the node has a path of its own and has heard of that and of a host's load: before, it
    /// has just started, and can only refuse.
    pub(super) fn routes(&self, now: Now) -> bool {
        let heard = |policy: &Policy| {
            let view = policy.view();
            view.paths(now).any(|path| path.age_ms.is_some()) && view.loads(now).next().is_some()
        };
        self.health.is_some() && self.policy.as_ref().is_some_and(heard)
    }

    /// What would be chosen for a question, or why it is refused; none while too little is known to
    /// answer it.
    pub(super) fn decide(&mut self, now: Now, question: &policy::Input) -> Option<Answer> {
        let now = self.forward(now);
        let policy::Input::Route { key, request_id, request, traceparent } = question.clone() else { return None };
        let request = crate::api::RouteRequest { dry_run: true, ..request };
        let core = self.policy.as_mut()?;
        core.step(now, policy::Input::Route { key, request_id, request, traceparent }, &mut self.answers);
        self.answers.drain(..).find_map(|output| match output {
            policy::Output::Answer { result, .. } => Some(result),
            _ => None,
        })
    }

    /// The turns of different cores reach the journal with microseconds of disorder; a core's time
    /// never goes back.
    fn forward(&mut self, now: Now) -> Now {
        self.now = self.now.max(now.mono);
        Now { mono: self.now, ..now }
    }
}
