//! The monitor of invariants: it judges information flows anew where information moves, in builds with the feature `check`.
//!
//! A thread that works for a task says so ([`act_as`]). A function that moves information names the object's label ([`reads`],
//! [`writes`], [`tells`], [`moves`]). The rules of the lattice are applied to the contexts themselves: neither the bits of labels nor a
//! decision of the reference monitor counts. So a choke point without a check, or with a wrong one, shows when information passes it.
//! A flow that is forbidden ends the machine.
//!
//! Without the feature the functions are empty, and their arguments are not evaluated. They take no lock, so that they can be called
//! anywhere.
#[cfg(feature = "check")]
pub(super) use judge::Facts;

/// A label, by whose context flows are judged.
pub trait Judged: 'static {
    /// Returns the properties of the context; `None` without a monitor, or if the context was not looked for.
    #[cfg(feature = "check")]
    #[doc(hidden)]
    fn facts(&'static self) -> Option<&'static judge::Facts>;
}

/// Tells the label of the process for which the calling thread works from now on.
#[inline(always)]
pub fn act_as<L: Judged>(label: impl FnOnce() -> &'static L) {
    #[cfg(feature = "check")]
    judge::act_as(label().facts());
    #[cfg(not(feature = "check"))]
    let _ = label;
}

/// Tells that the calling thread works for no process from now on: its flows are not judged.
#[inline(always)]
pub fn act_for_nobody() {
    #[cfg(feature = "check")]
    judge::act_as(None);
}

/// Judges a flow from an object with a label to the calling thread's process. There is none if `from` finds no object.
///
/// # Panics
/// The lattice forbids it.
#[inline(always)]
pub fn reads<L: Judged>(from: impl FnOnce() -> Option<&'static L>) {
    with_acting(FlowKind::Read, from);
}

/// Judges a flow from the calling thread's process to an object with a label: secrecy, and integrity.
///
/// # Panics
/// The lattice forbids it.
#[inline(always)]
pub fn writes<L: Judged>(to: impl FnOnce() -> Option<&'static L>) {
    with_acting(FlowKind::Write, to);
}

/// Judges a flow of nothing but the fact that the calling thread's process uses an object: an access time, an event, a count.
///
/// # Panics
/// The secrecies forbid it.
#[inline(always)]
pub fn tells<L: Judged>(to: impl FnOnce() -> Option<&'static L>) {
    with_acting(FlowKind::Use, to);
}

/// The kinds of flows between a process and an object.
#[derive(Clone, Copy)]
enum FlowKind {
    /// From the object to the process.
    Read,
    /// From the process to the object.
    Write,
    /// The fact of a use, from the process to the object.
    Use,
}

#[inline(always)]
fn with_acting<L: Judged>(flow: FlowKind, object: impl FnOnce() -> Option<&'static L>) {
    #[cfg(feature = "check")]
    judge::with_acting(flow, object);
    #[cfg(not(feature = "check"))]
    let _ = (flow, object);
}

/// Judges a flow between two objects, which the kernel brings about: from the first label to the second.
///
/// # Panics
/// The secrecies forbid it.
#[inline(always)]
pub fn moves<L: Judged>(labels: impl FnOnce() -> (&'static L, &'static L)) {
    #[cfg(feature = "check")]
    judge::between(labels());
    #[cfg(not(feature = "check"))]
    let _ = labels;
}

/// The rules, and the threads' processes.
#[cfg(feature = "check")]
pub mod judge {
    use super::{FlowKind, Judged};
    use alloc::string::{String, ToString};
    use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
    use interfaces::monitor::{Monitor, Privileges};
    use labels::{ContextId, SecrecyRange};
    use rt::{sync::StaticRef, thread};

    /// The number of threads whose processes can be known at a time: two threads of one slot share it by turns.
    const SLOTS: usize = 4096;
    /// No thread.
    const NO_THREAD: u64 = u64::MAX;

    /// Properties of a context by which flows are judged.
    #[derive(Debug)]
    pub struct Facts {
        text: String,
        range: SecrecyRange,
        /// An object with this context serves each secrecy in its range.
        is_shared: bool,
        grade: AtomicU8,
        privileges: AtomicU32,
    }

    /// The process for which a thread works.
    struct Slot {
        thread: AtomicU64,
        subject: StaticRef<Facts>,
    }

    static NOBODY: Facts = Facts {
        text: String::new(),
        range: SecrecyRange::ALL,
        is_shared: false,
        grade: AtomicU8::new(0),
        privileges: AtomicU32::new(0),
    };
    static ACTING: [Slot; SLOTS] =
        [const { Slot { thread: AtomicU64::new(NO_THREAD), subject: StaticRef::new(&NOBODY) } };
            SLOTS];

    impl Facts {
        /// Returns the properties of a context.
        pub(in crate::base::security) fn of(monitor: &dyn Monitor, number: ContextId) -> Facts {
            let context = monitor.context(number);
            let range = *context.range();
            let is_shared = !range.is_single() && !monitor.is_subject(&context);
            let (grade, privileges) = (AtomicU8::new(0), AtomicU32::new(0));
            Facts { text: context.to_string(), range, is_shared, grade, privileges }
        }
        /// Asks for the properties that a policy changes.
        pub(in crate::base::security) fn renew(&self, monitor: &dyn Monitor, number: ContextId) {
            self.grade.store(monitor.grade(number) as u8, Ordering::Relaxed);
            let privileges = monitor.rights(number).privileges;
            self.privileges.store(privileges.bits(), Ordering::Relaxed);
        }
        fn has(&self, privileges: Privileges) -> bool {
            Privileges::from_bits_truncate(self.privileges.load(Ordering::Relaxed))
                .intersects(privileges)
        }
        fn is_read_by(&self, subject: &Facts) -> bool {
            let (own, secrecy) = (&subject.range, self.range.low());
            self.is_shared && self.range.contains(own.low())
                || own.low().dominates(secrecy)
                || subject.has(Privileges::SEE_ALL)
                || subject.has(Privileges::READ_UP) && own.high().dominates(secrecy)
        }
        fn is_told_by(&self, subject: &Facts) -> bool {
            const EXCEPTIONS: Privileges =
                Privileges::WRITE_RANGE.union(Privileges::DOWNGRADE).union(Privileges::SEE_ALL);
            self.range.low().dominates(subject.range.low())
                || self.is_shared && self.range.contains(subject.range.low())
                || subject.has(EXCEPTIONS)
        }
        fn is_written_by(&self, subject: &Facts) -> bool {
            let grade = |facts: &Facts| facts.grade.load(Ordering::Relaxed);
            self.is_told_by(subject)
                && (grade(self) <= grade(subject) || subject.has(Privileges::RAISE_INTEGRITY))
        }
    }

    fn slot() -> (u64, Option<&'static Slot>) {
        let thread = thread::current().0;
        (thread, ACTING.get(thread as usize % SLOTS))
    }

    pub(super) fn act_as(subject: Option<&'static Facts>) {
        let (thread, Some(slot)) = slot() else { return };
        match subject {
            Some(subject) => {
                slot.subject.set(subject);
                slot.thread.store(thread, Ordering::Relaxed);
            }
            None => slot.thread.store(NO_THREAD, Ordering::Relaxed),
        }
    }

    fn acting() -> Option<&'static Facts> {
        let (thread, slot) = slot();
        let slot = slot.filter(|slot| slot.thread.load(Ordering::Relaxed) == thread)?;
        Some(slot.subject.get())
    }

    /// Judges a flow between the calling thread's process and an object.
    pub(super) fn with_acting<L: Judged>(
        flow: FlowKind,
        object: impl FnOnce() -> Option<&'static L>,
    ) {
        if let Some(subject) = acting()
            && let Some(object) = object().and_then(Judged::facts)
        {
            check(match flow {
                FlowKind::Read => (object.is_read_by(subject), [object, subject]),
                FlowKind::Write => (object.is_written_by(subject), [subject, object]),
                FlowKind::Use => (object.is_told_by(subject), [subject, object]),
            });
        }
    }

    pub(super) fn between<L: Judged>((from, to): (&'static L, &'static L)) {
        if let (Some(from), Some(to)) = (from.facts(), to.facts()) {
            check((to.range.low().dominates(from.range.low()), [from, to]));
        }
    }

    fn check((is_allowed, [from, to]): (bool, [&Facts; 2])) {
        if !is_allowed {
            // The machine ends: what it does until then is not judged.
            act_as(None);
            panic!("forbidden flow: from {} to {}", from.text, to.text);
        }
    }
}
