//! From one core's outputs to another's inputs, as the agent wires them.

use super::event::{Event, Heard, Rumour};
use super::node::{LedgerQuestion, PolicyQuestion};
use super::world::World;
use crate::core::Core;
use crate::health;
use crate::ledger::{self, Stage};
use crate::mesh::{self, chunk_paths};
use crate::model::{LeaseCall, LeaseId, ObservedPath, PathState};
use crate::policy;

/// The mesh is told of paths at most once in this many milliseconds.
const TELL_INTERVAL_MS: u64 = 200;

/// One of a node's cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoreName {
    Health,
    Policy,
    Ledger,
    Mesh,
}

impl CoreName {
    pub(super) const ALL: [Self; 4] = [Self::Health, Self::Policy, Self::Ledger, Self::Mesh];

    fn tick(self) -> CoreInput {
        match self {
            Self::Health => CoreInput::Health(health::Input::Tick),
            Self::Policy => CoreInput::Policy(policy::Input::Tick),
            Self::Ledger => CoreInput::Ledger(ledger::Input::Tick),
            Self::Mesh => CoreInput::Mesh(mesh::Input::Tick),
        }
    }
}

/// What one of a node's cores is told.
#[derive(Clone)]
pub(super) enum CoreInput {
    Health(health::Input),
    Policy(policy::Input),
    Ledger(ledger::Input),
    Mesh(mesh::Input),
}

impl World {
    /// Puts an input behind those that wait for this node's cores.
    pub(super) fn tell(&mut self, node: usize, input: CoreInput) {
        if let Some(cores) = self.cores_mut(node) {
            cores.inbox.push_back(input);
        }
    }

    /// Lets the cores of a node act on all that waits for them.
    pub(super) fn drain(&mut self, node: usize) {
        while let Some(input) = self.cores_mut(node).and_then(|cores| cores.inbox.pop_front()) {
            match input {
                CoreInput::Health(input) => self.step_health(node, input),
                CoreInput::Policy(input) => self.step_policy(node, input),
                CoreInput::Ledger(input) => self.step_ledger(node, input),
                CoreInput::Mesh(input) => self.step_mesh(node, input),
            }
        }
        self.follow_paths(node);
        self.set_ticks(node);
    }

    /// A tick that was set has come.
    pub(super) fn tick(&mut self, node: usize, core: CoreName) {
        let now = self.now_of(node);
        let Some(cores) = self.cores_mut(node) else { return };
        if let Some(tick) = cores.ticks.get_mut(core as usize) {
            *tick = None;
        }
        if cores.deadline(core as usize).is_some_and(|deadline| deadline <= now.mono) {
            cores.inbox.push_back(core.tick());
        }
    }

    fn set_ticks(&mut self, node: usize) {
        let now_ns = self.now_ns;
        let Some((life, cores)) = self.nodes.get_mut(node).and_then(|n| Some((n.life, n.cores.as_mut()?))) else {
            return;
        };
        for core in CoreName::ALL {
            let Some(deadline) = cores.deadline(core as usize) else { continue };
            let at_ns = deadline.0.max(now_ns);
            let Some(tick) = cores.ticks.get_mut(core as usize) else { continue };
            if tick.is_none_or(|tick| tick > at_ns) {
                *tick = Some(at_ns);
                self.queue.push(at_ns, Event::At { node, life, heard: Heard::Tick(core) });
            }
        }
    }

    fn step_health(&mut self, node: usize, input: health::Input) {
        let now = self.now_of(node);
        let mut out = Vec::new();
        let kept = self.tapes_of(node).is_some_and(|tapes| tapes.health.note(now, &input));
        let Some(cores) = self.cores_mut(node) else { return };
        cores.health.step(now, input, &mut out);
        if kept && let Some(tapes) = self.tapes_of(node) {
            tapes.health.outputs.extend(out.iter().cloned());
        }
        for output in out {
            match output {
                health::Output::Report(report) => {
                    self.tell_mesh(node);
                    self.tell(node, CoreInput::Policy(policy::Input::Report(report)));
                }
                health::Output::Transition { path, from, to } => {
                    if let Some(cores) = self.cores_mut(node) {
                        cores.untold = true;
                    }
                    let fault = self.is_faulty(&path);
                    self.audit.transition(self.now_ns, path, from, to, fault);
                }
                health::Output::Gone(_) => {
                    if let Some(cores) = self.cores_mut(node) {
                        cores.untold = true;
                    }
                    self.tell_mesh(node);
                }
                health::Output::Discarded { reason, .. } => self.audit.discarded(reason),
                health::Output::Refused(_) => self.audit.settings_refused += 1,
                health::Output::Canary(canary) => self.canary(node, canary),
                health::Output::Frozen(frozen) => self.audit.frozen(self.now_ns, node, frozen),
            }
        }
    }

    /// Tells the mesh what is not healthy, once something has changed and some time has passed.
    fn tell_mesh(&mut self, node: usize) {
        let now = self.now_of(node);
        let Some(cores) = self.cores_mut(node) else { return };
        if !cores.untold || cores.told_paths.is_some_and(|told| now.mono < told.plus_ms(TELL_INTERVAL_MS)) {
            return;
        }
        let unhealthy = cores.health.paths().filter(|(_, health)| health.state != PathState::Healthy);
        let observed: Vec<ObservedPath> =
            unhealthy.map(|(path, health)| ObservedPath { path: path.clone(), health }).collect();
        cores.untold = false;
        cores.told_paths = Some(now.mono);
        let chunks = chunk_paths(&observed);
        if cores.mesh.is_some() {
            self.tell(node, CoreInput::Mesh(mesh::Input::PublishPaths(chunks)));
        } else {
            self.publish_paths(node, chunks);
        }
    }

    fn step_policy(&mut self, node: usize, input: policy::Input) {
        let now = self.now_of(node);
        let mut out = Vec::new();
        let kept = self.tapes_of(node).is_some_and(|tapes| tapes.policy.note(now, &input));
        let Some(cores) = self.cores_mut(node) else { return };
        cores.policy.step(now, input, &mut out);
        if kept && let Some(tapes) = self.tapes_of(node) {
            tapes.policy.outputs.extend(out.iter().cloned());
        }
        for output in out {
            match output {
                policy::Output::Decided(record) => {
                    let chosen = record.chosen.as_ref().and_then(|chosen| chosen.path.as_ref());
                    let fault = chosen.is_some_and(|path| self.is_faulty(path));
                    self.audit.decided(self.now_ns, record, fault);
                }
                policy::Output::Answer { key, result } => {
                    let asked = self.cores_mut(node).and_then(|cores| cores.asked_policy.remove(&key));
                    if let Some(PolicyQuestion::Route(request)) = asked {
                        self.routed(node, request, result);
                    }
                }
                policy::Output::Plan { key, result } => {
                    let asked = self.cores_mut(node).and_then(|cores| cores.asked_policy.remove(&key));
                    if let Some(PolicyQuestion::Plan(transfer)) = asked {
                        self.planned(node, transfer, result);
                    }
                }
                policy::Output::Ask { node: host, ask, timeout_ms } => self.ask_lease(node, &host, ask, timeout_ms),
                policy::Output::Renew { lease, ttl_ms } => {
                    self.hand_back(node, &lease, LeaseCall::Renew { lease: lease.clone(), ttl_ms });
                }
                policy::Output::GiveBack(lease) => self.hand_back(node, &lease, LeaseCall::Release(lease.clone())),
                policy::Output::GiveUp(lease) => self.hand_back(node, &lease, LeaseCall::GiveUp(lease.clone())),
                policy::Output::Stop { transfer, lease, cancelled } => {
                    self.stop_write(node, &transfer, &lease, cancelled);
                }
                policy::Output::Done { .. } | policy::Output::OverrideEnded(_) => {}
            }
        }
    }

    fn step_ledger(&mut self, node: usize, input: ledger::Input) {
        let now = self.now_of(node);
        let mut out = Vec::new();
        let kept = self.tapes_of(node).is_some_and(|tapes| tapes.ledger.note(now, &input));
        let Some(ledger) = self.cores_mut(node).and_then(|cores| cores.ledger.as_mut()) else { return };
        ledger.step(now, input, &mut out);
        if kept && let Some(tapes) = self.tapes_of(node) {
            tapes.ledger.outputs.extend(out.iter().cloned());
        }
        for output in out {
            match output {
                ledger::Output::Reply { key, reply } => {
                    if let Some(LedgerQuestion::Call { ticket }) = self.ledger_question(node, key) {
                        self.reply_lease(node, ticket, reply);
                    }
                }
                ledger::Output::Opened { key, lease: _, result } => {
                    if let Some(LedgerQuestion::Open { write }) = self.ledger_question(node, key) {
                        self.opened(node, write, result);
                    }
                }
                ledger::Output::Accepted { key, result } => {
                    if let Some(LedgerQuestion::Delivered { write }) = self.ledger_question(node, key) {
                        self.accepted(node, write, result);
                    }
                }
                ledger::Output::Staged { lease, from, to } => self.staged(node, lease, from, to),
                ledger::Output::Longest(longest) => {
                    if let Some(host) = self.nodes.get_mut(node) {
                        host.longest_lease = Some(longest);
                    }
                }
                ledger::Output::Load(record) => self.publish_load(node, record),
            }
        }
    }

    fn ledger_question(&mut self, node: usize, key: u64) -> Option<LedgerQuestion> {
        self.cores_mut(node)?.asked_ledger.remove(&key)
    }

    /// Asks the ledger of a node; its answer is matched with `question`.
    pub(super) fn ask_ledger(
        &mut self,
        node: usize,
        question: LedgerQuestion,
        input: impl FnOnce(u64) -> ledger::Input,
    ) {
        let key = self.next_id();
        if let Some(cores) = self.cores_mut(node) {
            cores.asked_ledger.insert(key, question);
            cores.inbox.push_back(CoreInput::Ledger(input(key)));
        }
    }

    fn staged(&mut self, node: usize, lease: LeaseId, from: Option<Stage>, to: Option<Stage>) {
        if from.is_none() && to == Some(Stage::Granted) {
            self.audit_sessions(node);
            self.audit_pages(node, &lease);
        }
        if matches!(to, Some(Stage::Fenced) | None) {
            self.void_write(node, &lease);
        }
        if to.is_none()
            && let Some(host) = self.nodes.get_mut(node)
        {
            host.engine.freed(&lease);
        }
        self.audit.staged(self.now_ns, lease, from, to);
    }

    fn publish_load(&mut self, node: usize, record: crate::model::LoadRecord) {
        let Some((name, generation)) = self.nodes.get(node).map(|n| (n.name.clone(), n.generation)) else { return };
        let own = policy::Input::Load { node: name, generation, record: record.clone() };
        self.tell(node, CoreInput::Policy(own));
        if self.cores_mut(node).is_some_and(|cores| cores.mesh.is_some()) {
            self.tell(node, CoreInput::Mesh(mesh::Input::PublishLoad(record)));
        } else {
            self.publish(node, Rumour::Load(record));
        }
    }

    fn step_mesh(&mut self, node: usize, input: mesh::Input) {
        let now = self.now_of(node);
        let mut out = Vec::new();
        let kept = self.tapes_of(node).is_some_and(|tapes| tapes.mesh.note(now, &input));
        let Some(mesh) = self.cores_mut(node).and_then(|cores| cores.mesh.as_mut()) else { return };
        mesh.step(now, input, &mut out);
        if kept && let Some(tapes) = self.tapes_of(node) {
            tapes.mesh.outputs.extend(out.iter().cloned());
        }
        for output in out {
            self.carry_out(node, output);
        }
    }

    /// Another node is there, or has said something, or is gone.
    pub(super) fn learn(&mut self, node: usize, event: mesh::MeshEvent) {
        let mut told = Vec::new();
        if let Some(cores) = self.cores_mut(node) {
            cores.directory.learn(event, &mut told);
            let decodes = cores.ledger.is_some();
            cores.inbox.extend(told.into_iter().filter(|input| decodes || !matches!(input, CoreInput::Ledger(_))));
        }
    }
}
