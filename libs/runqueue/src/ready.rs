//! Threads that are ready to run on one processor, in the order of [`Class`]es, and the scale of their virtual time.
use super::{Fifo, Heap, Priorities, Store};

/// Least lead in virtual time at which the running thread is preempted by another fair one.
pub const GRANULARITY_NS: u64 = 1_000_000;
/// Time for which a fair thread that wakes preempted [`PREEMPTIONS_MAX`] times runs on although one wakes that preempts it.
pub const PROTECTED_NS: u64 = 100_000;
/// Number of preemptions, with no block between them, from which a fair thread is protected. Of two threads that wake each
/// other, the one that uses less time is always behind, and runs after each call of the other. That is well if the other would
/// block for it next, as then neither blocks; a writer goes on, and its reader should run once for many writes.
pub const PREEMPTIONS_MAX: u32 = 8;
/// The longest virtual time by which a thread that woke is behind the others: sleeping earns no more than this.
pub const SLEEPER_CREDIT_NS: u64 = 3_000_000;

/// The class in which a thread is queued; the greater class goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// The class of threads that run only while no other thread is queued, in turns.
    pub const SUNK: Class = Class(0);
    /// The class of fair threads, by smallest virtual time.
    pub const FAIR: Class = Class(1);

    /// Returns the class for a real-time priority (1 to 127); 0 stands for fair.
    #[inline(always)]
    pub const fn of(priority: u8) -> Class {
        Class(1 + (priority & 127))
    }

    /// Returns whether a running thread of this class gives way, at a tick, to the best queued one, which is of class `other`.
    /// `is_turn_over` tells whether it gives way to its equals.
    pub fn gives_way(self, other: Class, is_turn_over: impl FnOnce() -> bool) -> bool {
        other > self || other == self && (self == Class::SUNK || is_turn_over())
    }
}

/// The place at which a real-time thread is queued among its equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before its equals, because it was preempted.
    Front,
    /// After its equals.
    Back,
}

/// A run queue.
#[derive(Clone, Copy, Debug)]
pub struct Ready<K> {
    fair: Heap<K>,
    real_time: Priorities<K>,
    next: Option<K>,
    sunk: Fifo<K>,
    /// Period of the last [`Ready::raise`].
    period: u64,
    smallest_ns: u64,
}

impl<K: Copy> Ready<K> {
    /// Makes an empty queue.
    pub const fn new() -> Ready<K> {
        Ready {
            fair: Heap::new(),
            real_time: Priorities::new(),
            next: None,
            sunk: Fifo::new(),
            period: 0,
            smallest_ns: 0,
        }
    }
}

impl<K: Copy> Default for Ready<K> {
    fn default() -> Self {
        Ready::new()
    }
}

impl<K: Copy + Eq> Ready<K> {
    /// Queues `item`, which is in no queue, in `class`. A fair class uses `virtual_ns`, a real-time class uses `place`.
    pub fn insert(
        &mut self,
        store: &mut impl Store<K>,
        item: K,
        class: Class,
        virtual_ns: u64,
        place: Place,
    ) {
        let node = store.node(item);
        (node.class, node.key) = (class, virtual_ns);
        match (class, place) {
            (Class::SUNK, _) => self.sunk.push_back(store, item),
            (Class::FAIR, _) => self.fair.insert(store, item),
            (Class(above), Place::Front) => self.real_time.push_front(store, above - 1, item),
            (Class(above), Place::Back) => self.real_time.push_back(store, above - 1, item),
        }
    }

    /// Queues `item`, a fair one, before all other fair items, unless another one is queued so. Returns whether it did.
    #[inline(always)]
    pub fn insert_next(&mut self, item: K) -> bool {
        let is_free = self.next.is_none();
        if is_free {
            self.next = Some(item);
        }
        is_free
    }

    /// Returns the item that was queued by [`Ready::insert_next`].
    #[inline(always)]
    pub fn next(&self) -> Option<K> {
        self.next
    }

    /// Removes [`Ready::next`].
    #[inline(always)]
    pub fn remove_next(&mut self) {
        self.next = None;
    }

    /// Removes `item`, which is queued here.
    pub fn remove(&mut self, store: &mut impl Store<K>, item: K) {
        if self.next == Some(item) {
            return self.remove_next();
        }
        match store.node(item).class {
            Class::SUNK => self.sunk.remove(store, item),
            Class::FAIR => self.fair.remove(store, item),
            Class(above) => self.real_time.remove(store, above - 1, item),
        }
    }

    /// Returns the item that should run next.
    pub fn best(&self) -> Option<K> {
        let fair = || self.fair.peek().or_else(|| self.sunk.first());
        self.real_time.first().or(self.next).or_else(fair)
    }

    /// Returns the class in which `item`, which is queued here, is.
    pub fn class_of(&self, store: &mut impl Store<K>, item: K) -> Class {
        if self.next == Some(item) { Class::FAIR } else { store.node(item).class }
    }

    /// If `period` is a new one, removes all sunk items and returns them; the caller queues them again.
    pub fn raise(&mut self, period: u64) -> Fifo<K> {
        if core::mem::replace(&mut self.period, period) == period {
            return Fifo::new();
        }
        core::mem::take(&mut self.sunk)
    }

    /// Returns the best item for which `accept` returns `true`; of the fair items only those near the front are asked.
    pub fn find(&self, store: &mut impl Store<K>, accept: impl Fn(K) -> bool) -> Option<K> {
        let real_time = self.real_time.find(store, &accept).map(|(_, item)| item);
        let next = || self.next.filter(|&item| accept(item));
        let fair_or_next = real_time.or_else(next).or_else(|| self.fair.find(store, &accept));
        fair_or_next.or_else(|| self.sunk.find(store, &accept))
    }

    /// Returns the highest priority of a queued item.
    #[inline(always)]
    pub fn highest(&self) -> Option<u8> {
        self.real_time.highest()
    }

    /// Returns the smallest virtual time of a queued item.
    pub fn first_ns(&self, store: &mut impl Store<K>) -> Option<u64> {
        self.fair.peek().map(|first| store.node(first).key)
    }

    /// Returns the smallest virtual time of the queue: no fair item that runs or is queued is far behind it. It only grows.
    #[inline(always)]
    pub fn smallest_ns(&self) -> u64 {
        self.smallest_ns
    }

    /// Updates the smallest virtual time when a fair item at `next_ns` is about to run.
    pub fn note_smallest(&mut self, store: &mut impl Store<K>, next_ns: u64) {
        let queued_ns = self.first_ns(store).unwrap_or(next_ns);
        self.smallest_ns = self.smallest_ns.max(next_ns.min(queued_ns));
    }

    /// Returns the virtual time for an item that waited long, without credit for that, at `virtual_ns`.
    pub fn waited_ns(&self, virtual_ns: u64) -> u64 {
        virtual_ns.max(self.smallest_ns.saturating_sub(SLEEPER_CREDIT_NS))
    }

    /// Returns the virtual time for an item that woke, from its time `virtual_ns` on the scale of a queue whose smallest was
    /// `from_ns`.
    pub fn woken_ns(&self, virtual_ns: u64, from_ns: u64) -> u64 {
        self.waited_ns(rebased_ns(virtual_ns, from_ns, self.smallest_ns))
    }

    /// Returns whether an item at `virtual_ns` may overtake waiting items: it did not run far ahead of them.
    #[inline(always)]
    pub fn may_overtake(&self, virtual_ns: u64) -> bool {
        virtual_ns < self.smallest_ns + GRANULARITY_NS
    }

    /// Returns the virtual time for a thread that runs in the place of one at `virtual_ns`. A server works for its client, but
    /// a client that ran far ahead must not keep its server from others for long.
    #[inline(always)]
    pub fn lent_ns(&self, virtual_ns: u64) -> u64 {
        virtual_ns.min(self.smallest_ns + GRANULARITY_NS)
    }
}

/// Returns the time at which a fair thread that woke preempts the running one: 0 for at once, `None` if the running one goes on.
///
/// `virtual_ns` are the virtual times of the woken and of the running one, `times` the time at which the running one was chosen
/// and the time now. `preemptions` tells how often it was preempted since it blocked.
pub fn preempted_at(virtual_ns: [u64; 2], times: [u64; 2], preemptions: u32) -> Option<u64> {
    let ([woken_ns, running_ns], [chosen_ns, now_ns]) = (virtual_ns, times);
    let ran_ns = now_ns.saturating_sub(chosen_ns);
    let is_protected = preemptions >= PREEMPTIONS_MAX && ran_ns < PROTECTED_NS;
    let is_behind = woken_ns + GRANULARITY_NS < running_ns + ran_ns;
    is_behind.then_some(if is_protected { chosen_ns + PROTECTED_NS } else { 0 })
}

/// Converts `virtual_ns` from the scale of a queue whose smallest is `from_ns` to one whose smallest is `to_ns`.
pub fn rebased_ns(virtual_ns: u64, from_ns: u64, to_ns: u64) -> u64 {
    let ahead_ns = virtual_ns as i64 - from_ns as i64;
    (to_ns as i64 + ahead_ns).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, heap::Nodes};

    fn nodes() -> Nodes {
        Nodes(vec![Node::new(); 8])
    }

    /// Removes all items, the best first.
    fn drain(ready: &mut Ready<usize>, nodes: &mut Nodes) -> Vec<usize> {
        core::iter::from_fn(|| {
            let best = ready.best()?;
            ready.remove(nodes, best);
            Some(best)
        })
        .collect()
    }

    #[test]
    fn the_best_is_real_time_then_next_then_fair_by_virtual_time() {
        let (mut nodes, mut ready) = (nodes(), Ready::new());
        ready.insert(&mut nodes, 0, Class::FAIR, 20, Place::Front);
        ready.insert(&mut nodes, 1, Class::FAIR, 10, Place::Back);
        ready.insert(&mut nodes, 2, Class::of(1), 0, Place::Back);
        ready.insert(&mut nodes, 3, Class::of(9), 0, Place::Back);
        ready.insert(&mut nodes, 4, Class::of(9), 0, Place::Front);
        assert!(ready.insert_next(5) && !ready.insert_next(6));
        assert_eq!((ready.highest(), ready.first_ns(&mut nodes)), (Some(9), Some(10)));
        assert_eq!(drain(&mut ready, &mut nodes), [4, 3, 2, 5, 1, 0]);
        assert_eq!(ready.next(), None);
    }

    #[test]
    fn who_is_sunk_goes_last_and_in_turns_until_the_next_period() {
        let (mut nodes, mut ready) = (nodes(), Ready::new());
        assert_eq!(ready.raise(3).first(), None);
        for (item, place) in [(0, Place::Back), (1, Place::Front), (2, Place::Back)] {
            ready.insert(&mut nodes, item, Class::SUNK, 0, place);
        }
        ready.insert(&mut nodes, 3, Class::FAIR, u64::MAX, Place::Back);
        assert_eq!(ready.find(&mut nodes, |item| item == 1), Some(1));
        ready.remove(&mut nodes, 1);
        assert_eq!(ready.raise(3).first(), None, "the same period");
        assert_eq!(drain(&mut ready, &mut nodes), [3, 0, 2]);
        ready.insert(&mut nodes, 4, Class::SUNK, 0, Place::Back);
        ready.insert(&mut nodes, 5, Class::FAIR, 0, Place::Back);
        assert_eq!(ready.raise(4).first(), Some(4));
        assert_eq!(drain(&mut ready, &mut nodes), [5]);
    }

    #[test]
    fn who_goes_on_next_is_fair_whatever_it_was() {
        let (mut nodes, mut ready) = (nodes(), Ready::new());
        ready.insert(&mut nodes, 0, Class::SUNK, 0, Place::Back);
        assert_eq!(ready.class_of(&mut nodes, 0), Class::SUNK);
        ready.remove(&mut nodes, 0);
        ready.insert_next(0);
        assert_eq!(ready.class_of(&mut nodes, 0), Class::FAIR);
    }

    #[test]
    fn who_gives_way_at_a_tick() {
        let (fair, sunk) = (Class::FAIR, Class::SUNK);
        assert!(fair.gives_way(fair, || true) && !fair.gives_way(fair, || false));
        assert!(fair.gives_way(Class::of(1), || false) && !fair.gives_way(sunk, || true));
        assert!(sunk.gives_way(sunk, || false) && sunk.gives_way(fair, || false));
        let real_time = Class::of(5);
        assert!(
            real_time.gives_way(real_time, || true) && !real_time.gives_way(real_time, || false)
        );
        assert!(real_time.gives_way(Class::of(6), || false));
        assert!(!real_time.gives_way(Class::of(4), || true));
    }

    #[test]
    fn who_is_not_accepted_is_passed_by() {
        let (mut nodes, mut ready) = (nodes(), Ready::new());
        ready.insert(&mut nodes, 0, Class::of(5), 0, Place::Back);
        ready.insert(&mut nodes, 1, Class::FAIR, 0, Place::Back);
        ready.insert_next(2);
        assert_eq!(ready.find(&mut nodes, |_| true), Some(0));
        assert_eq!(ready.find(&mut nodes, |item| item != 0), Some(2));
        assert_eq!(ready.find(&mut nodes, |item| item == 1), Some(1));
        assert_eq!(ready.find(&mut nodes, |_| false), None);
    }

    #[test]
    fn the_smallest_virtual_time_only_grows() {
        let (mut nodes, mut ready) = (nodes(), Ready::new());
        ready.note_smallest(&mut nodes, 50);
        ready.insert(&mut nodes, 0, Class::FAIR, 70, Place::Back);
        ready.note_smallest(&mut nodes, 90);
        assert_eq!(ready.smallest_ns(), 70);
        ready.note_smallest(&mut nodes, 10);
        assert_eq!(ready.smallest_ns(), 70);
    }

    #[test]
    fn sleeping_earns_little_and_lends_little() {
        let (mut nodes, mut ready) = (nodes(), Ready::<usize>::new());
        ready.note_smallest(&mut nodes, 10_000_000);
        assert_eq!(ready.woken_ns(0, 10_000_000), 10_000_000 - SLEEPER_CREDIT_NS);
        assert_eq!(ready.woken_ns(10_500_000, 10_000_000), 10_500_000);
        // An item from another queue is as far ahead here as it was there.
        assert_eq!(ready.woken_ns(5_000_007, 5_000_000), 10_000_007);
        assert_eq!(ready.lent_ns(9_000_000), 9_000_000);
        assert_eq!(ready.lent_ns(90_000_000), 10_000_000 + GRANULARITY_NS);
        assert_eq!(rebased_ns(3, 9, 4), 0);
    }

    #[test]
    fn a_thread_that_was_preempted_often_runs_for_a_while() {
        let (far, chosen_ns) = ([0, GRANULARITY_NS + 1], 50);
        let end_ns = chosen_ns + PROTECTED_NS;
        let at = |now_ns, preemptions| preempted_at(far, [chosen_ns, now_ns], preemptions);
        assert_eq!(at(chosen_ns, PREEMPTIONS_MAX - 1), Some(0));
        assert_eq!(at(chosen_ns, PREEMPTIONS_MAX), Some(end_ns));
        assert_eq!(at(end_ns - 1, u32::MAX), Some(end_ns));
        assert_eq!(at(end_ns, u32::MAX), Some(0));
    }

    #[test]
    fn a_thread_is_preempted_by_one_that_is_behind_by_the_granularity() {
        // The running thread has aged by 9 since it was chosen.
        assert_eq!(preempted_at([7, GRANULARITY_NS - 2], [50, 59], 0), None);
        assert_eq!(preempted_at([7, GRANULARITY_NS - 1], [50, 59], 0), Some(0));
        assert_eq!(preempted_at([7, GRANULARITY_NS - 2], [50, 59], u32::MAX), None);
        assert_eq!(
            preempted_at([7, GRANULARITY_NS + 7], [50, 40], 0),
            None,
            "a clock that goes back"
        );
    }
}
