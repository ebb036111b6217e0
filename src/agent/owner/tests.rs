use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::*;
use crate::agent::journal::Tape;
use crate::agent::supervisor;

/// Rings once, so long after the last question as that asked for; answers with what it has seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Bell {
    due: Option<Mono>,
    rung: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Input {
    RingIn { key: u64, ms: u64 },
    Silent { key: u64 },
    Break,
    Tick,
}

#[derive(Clone, Debug, PartialEq)]
enum Output {
    Rang(Mono),
    Answer { key: u64, rung: u32 },
}

impl Core for Bell {
    type Input = Input;
    type Output = Output;
    type Snapshot = Self;

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        if self.due.is_some_and(|due| due <= now.mono) {
            self.due = None;
            self.rung += 1;
            out.push(Output::Rang(now.mono));
        }
        match input {
            Input::RingIn { key, ms } => {
                self.due = Some(now.mono.plus_ms(ms));
                out.push(Output::Answer { key, rung: self.rung });
            }
            Input::Break => panic!("on purpose"),
            Input::Silent { key: _ } | Input::Tick => {}
        }
    }

    fn deadline(&self) -> Option<Mono> {
        self.due
    }

    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn restore(snapshot: Self) -> Self {
        snapshot
    }
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Mono>>>);

impl Effects for Heard {
    type Core = Bell;
    type Answer = u32;

    fn tick() -> Input {
        Input::Tick
    }

    fn perform(&mut self, _: &Bell, _: Now, output: Output) -> Option<(u64, u32)> {
        match output {
            Output::Rang(at) => {
                self.0.lock().unwrap().push(at);
                None
            }
            Output::Answer { key, rung } => Some((key, rung)),
        }
    }
}

/// A supervisor that survives the failure of what it supervises.
struct Failures;

impl Failures {
    async fn start() -> ActorRef<()> {
        Actor::spawn(None, Self, ()).await.unwrap().0
    }
}

impl Actor for Failures {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        _: ractor::SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<String>>>);

impl Written {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Tape<Bell> for Written {
    fn begin(&mut self, core: &Bell, _: Now, input: &Input) {
        self.add(format!("{} rung, {input:?}", core.rung));
    }

    fn end(&mut self, outputs: &[Output]) {
        self.add(format!("{} outputs", outputs.len()));
    }

    fn panicked(&mut self) {
        self.add("panicked".to_owned());
    }
}

async fn owner(limit: usize) -> (Owner<Heard>, Heard, Clock) {
    let (clock, heard) = (Clock::start(), Heard::default());
    let (supervisor, _) = supervisor::start().await.unwrap();
    let owner =
        Owner::spawn(supervisor.get_cell(), clock, (Bell::default(), None), heard.clone(), limit).await.unwrap();
    (owner, heard, clock)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_fires_on_time_also_when_an_earlier_one_moves_away_or_a_later_one_moves_near() {
    let (owner, heard, clock) = owner(10).await;
    let asked = clock.now().mono;
    for ms in [100, 500, 200] {
        owner.ask(move |key| Input::RingIn { key, ms }).await.unwrap().unwrap();
    }
    tokio::time::sleep(Duration::from_millis(199)).await;
    assert!(heard.0.lock().unwrap().is_empty(), "the alarm that was set for 100 ms is no deadline any more");
    tokio::time::sleep(Duration::from_millis(2)).await;
    let late_ms = heard.0.lock().unwrap()[0].ms_since(asked.plus_ms(200));
    assert_eq!(late_ms, 0);
    assert_eq!(owner.ask(|key| Input::RingIn { key, ms: 1 }).await, Ok(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn who_offers_hears_what_the_core_says_to_it_and_a_full_mailbox_refuses() {
    let (owner, _, _) = owner(1).await;
    let said = owner.hear(Input::RingIn { key: 7, ms: 1 }, <[Output]>::to_vec).await;
    assert_eq!(said, Ok(Some(vec![Output::Answer { key: 7, rung: 0 }])));
    let asking = owner.clone();
    let waiting = tokio::spawn(async move { asking.ask(|key| Input::Silent { key }).await });
    tokio::task::yield_now().await;
    assert_eq!(owner.hear(Input::Tick, <[Output]>::len).await, Err(Full { limit: 1 }));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn open_questions_are_bounded_until_they_are_answered_and_what_must_be_told_is_not() {
    let (owner, _, _) = owner(2).await;
    let silent = |owner: Owner<Heard>| tokio::spawn(async move { owner.ask(|key| Input::Silent { key }).await });
    let waiting = [silent(owner.clone()), silent(owner.clone())];
    tokio::task::yield_now().await;
    assert_eq!(owner.ask(|key| Input::RingIn { key, ms: 1 }).await, Err(Full { limit: 2 }));
    assert_eq!(owner.offer(Input::Tick), Err(Full { limit: 2 }));
    owner.tell(Input::Tick);
    assert!(owner.turn().await, "whoever asks whether it lives waits for its turn");
    for question in waiting {
        question.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn every_turn_is_on_the_tape_before_its_outputs_are_acted_on_and_a_panic_too() {
    let (supervisor, written) = (Failures::start().await, Written::default());
    let core = (Bell::default(), Some(Box::new(written.clone()) as Box<dyn Tape<Bell>>));
    let owner = Owner::spawn(supervisor.get_cell(), Clock::start(), core, Heard::default(), 10).await.unwrap();
    assert_eq!(owner.ask(|key| Input::RingIn { key, ms: 1 }).await, Ok(Some(0)));
    tokio::time::sleep(Duration::from_millis(5)).await;
    owner.tell(Input::Break);
    assert!(!owner.turn().await, "a core that has panicked takes no turn");
    let expected =
        ["0 rung, RingIn { key: 1, ms: 1 }", "1 outputs", "0 rung, Tick", "1 outputs", "1 rung, Break", "panicked"];
    assert_eq!(*written.0.lock().unwrap(), expected);
}
