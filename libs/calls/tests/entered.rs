//! Tests of the way into programs with a thread that runs them, one that kicks it, and the processor between them: every
//! interleaving with loom (`RUSTFLAGS="--cfg loom" cargo test -p calls --release`), one run of each without.
//!
//! [`Machine`] stands for the thread's part of the nucleus: the flag of kicks (`thread::kick`), the interrupt that follows it, and
//! `PerCpu::ready_space`. The thread looks for the interrupt where the processor would take it: in user mode.
use calls::entered::Entered;
#[cfg(loom)]
use loom::{
    sync::{Arc, atomic::AtomicBool},
    thread,
};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
#[cfg(not(loom))]
use std::{
    sync::{Arc, atomic::AtomicBool},
    thread,
};

fn model(body: impl Fn() + Sync + Send + 'static) {
    #[cfg(loom)]
    loom::model(body);
    #[cfg(not(loom))]
    body();
}

/// The words of a thread of the nucleus, and of its processor, that others write.
#[derive(Debug, Default)]
struct Machine {
    is_kicked: AtomicBool,
    interrupt: AtomicBool,
}

impl Machine {
    fn kick(&self) {
        self.is_kicked.store(true, SeqCst);
        self.interrupt.store(true, SeqCst);
    }

    fn consume_kick(&self) -> bool {
        self.is_kicked.load(Acquire) && self.is_kicked.swap(false, SeqCst)
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    /// The program made a system call.
    Called,
    Kicked,
}

/// The thread that runs programs. A space is the number of its roots.
#[derive(Debug, Default)]
struct Runner {
    entered: Entered,
    /// The space that it is in.
    space: u64,
    is_ready: bool,
}

impl Runner {
    /// Gets user mode ready, as `domain::run::ready` does.
    fn ready(&mut self, machine: &Machine) {
        while !self.is_ready {
            if machine.is_kicked.load(Relaxed) {
                machine.consume_kick();
                self.entered.keep_kick();
            } else {
                self.is_ready = true;
            }
        }
    }

    /// Is in user mode for a moment. Returns whether an interrupt came.
    fn interrupted(&mut self, machine: &Machine) -> bool {
        let has_come = machine.interrupt.load(SeqCst) && machine.interrupt.swap(false, SeqCst);
        self.is_ready &= !has_come;
        has_come
    }

    /// Moves to another space, as `thread::enter_program` does.
    fn enter(&mut self, space: u64) {
        self.space = space;
        self.is_ready = false;
    }

    /// Runs the program in `space`, whose system call comes at once.
    fn run(&mut self, machine: &Machine, space: u64) -> Ran {
        loop {
            self.ready(machine);
            // The component is in user mode here, and calls.
            if self.interrupted(machine) {
                continue;
            }
            let Entered { space: last, registers, roots, .. } = self.entered;
            if self.is_ready && last == space && registers != 0 {
                assert_eq!(roots, [self.space; 2], "roots of another space are loaded");
                if !self.interrupted(machine) {
                    return Ran::Called;
                }
                continue;
            }
            let new = Entered { space, registers: 1, roots: [space; 2], ..Entered::default() };
            let mut entered = std::mem::take(&mut self.entered);
            let is_prepared = entered.prepare(new, || self.enter(space), || machine.consume_kick());
            self.entered = entered;
            if !is_prepared {
                return Ran::Kicked;
            }
        }
    }

    /// Waits for a word without being ended by a kick, as `Call::Wait` does: a kick that comes is kept.
    fn wait(&mut self, machine: &Machine) {
        if machine.consume_kick() {
            self.entered.keep_kick();
        }
    }
}

/// Has a thread `act` and another kick it once. Checks that one run is answered with the kick, at the latest the first after it came.
fn kicks(act: fn(&mut Runner, &Machine) -> usize) {
    model(move || {
        let machine = Arc::new(Machine::default());
        let theirs = machine.clone();
        let kicker = thread::spawn(move || theirs.kick());
        let mut runner = Runner::default();
        let before = act(&mut runner, &machine);
        kicker.join().unwrap();
        let after = usize::from(runner.run(&machine, 1) == Ran::Kicked);
        assert_eq!(before + after, 1, "a kick is answered once");
        assert_eq!(runner.run(&machine, 1), Ran::Called);
    });
}

fn run(runner: &mut Runner, machine: &Machine, space: u64) -> usize {
    usize::from(runner.run(machine, space) == Ran::Kicked)
}

#[test]
fn a_kick_ends_one_run() {
    kicks(|runner, machine| run(runner, machine, 1) + run(runner, machine, 1));
}

#[test]
fn a_kick_while_the_space_changes_leaves_no_roots_behind() {
    kicks(|runner, machine| {
        run(runner, machine, 1) + run(runner, machine, 2) + run(runner, machine, 1)
    });
}

#[test]
fn a_kick_in_a_wait_ends_the_next_run() {
    kicks(|runner, machine| {
        let first = run(runner, machine, 1);
        runner.wait(machine);
        first
    });
}

#[test]
fn a_thread_that_is_moved_by_another_call_is_prepared_again() {
    kicks(|runner, machine| {
        let first = run(runner, machine, 1);
        runner.entered.forget();
        runner.enter(2);
        first + run(runner, machine, 1)
    });
}
