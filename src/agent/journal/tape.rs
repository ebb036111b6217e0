//! What whoever owns a core tells of each turn.

use crate::core::{Core, Now};

/// Keeps the turns of one core.
pub trait Tape<C: Core>: Send {
    /// A turn begins: `core` is as the turns before have left it.
    fn begin(&mut self, core: &C, now: Now, input: &C::Input);

    /// The turn that began last has come to these outputs, all of them.
    fn end(&mut self, outputs: &[C::Output]);

    /// The turn that began last panicked.
    fn panicked(&mut self);
}

/// The tape of a core, if one is kept.
pub type TapeOf<C> = Option<Box<dyn Tape<C>>>;

/// A turn under way. Dropped by a panic, it still reaches the tape.
pub struct Turn<'t, C: Core> {
    tape: Option<&'t mut (dyn Tape<C> + 'static)>,
}

impl<'t, C: Core> Turn<'t, C> {
    /// Begins a turn; costs nothing where no tape is kept.
    pub fn begin(tape: &'t mut TapeOf<C>, core: &C, now: Now, input: &C::Input) -> Self {
        let mut tape = tape.as_deref_mut();
        if let Some(tape) = &mut tape {
            tape.begin(core, now, input);
        }
        Self { tape }
    }

    /// Ends it.
    pub fn end(mut self, outputs: &[C::Output]) {
        if let Some(tape) = self.tape.take() {
            tape.end(outputs);
        }
    }
}

impl<C: Core> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(tape) = self.tape.take()
        {
            tape.panicked();
        }
    }
}
