//! The program that a component's thread enters by [`Call::Run`](crate::Call), and the kicks that must end it.
//!
//! The way in is fast if the thread comes with the context and the space of the last time (`arch::run` in the nucleus looks at the
//! fields). Otherwise the thread is prepared ([`Entered::prepare`]) and comes again. Two things must not be missed: the roots are
//! those of the space that the thread is in, and a kick is answered before the program runs (`tests/entered.rs`, with loom).
//!
//! A kick is a flag of the thread and an interrupt. It is consumed wherever the thread finds it, in a wait, too; until a run
//! answers it, it is *kept* here.

/// The program that a thread entered last.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Entered {
    /// Address of the context in the component's memory.
    pub context: u64,
    /// Handle of the space.
    pub space: u64,
    /// The kernel's address of the context; null if the next call must be prepared.
    pub registers: u64,
    /// Physical address of the program's root, and of the one with the component's memory.
    pub roots: [u64; 2],
    /// A kick was consumed and is still to be answered.
    pub is_kicked: bool,
}

impl Entered {
    /// Returns whether the thread works for a program that it entered.
    pub fn is_prepared(&self) -> bool {
        self.registers != 0
    }

    /// Returns whether a call with this context and space needs no preparation.
    pub fn is_for(&self, context: u64, space: u64) -> bool {
        self.is_prepared() && (self.context, self.space) == (context, space)
    }

    /// Makes the next call be prepared.
    pub fn forget(&mut self) {
        self.registers = 0;
    }

    /// Keeps a kick for the next call.
    pub fn keep_kick(&mut self) {
        self.forget();
        self.is_kicked = true;
    }

    /// Prepares the thread to enter the program of `new`, into whose space `enter` moves it. Returns `false` if a kick is to be
    /// answered instead, which was kept or is consumed by `take_kick`.
    pub fn prepare(
        &mut self,
        new: Entered,
        enter: impl FnOnce(),
        take_kick: impl FnOnce() -> bool,
    ) -> bool {
        // The roots of the space before may go with it.
        self.forget();
        enter();
        if core::mem::take(&mut self.is_kicked) | take_kick() {
            return false;
        }
        *self = new;
        true
    }
}
