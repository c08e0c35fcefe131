//! The run queue of one processor: which thread runs next, what the running one is charged, and when it gives way.
use super::{
    Class, Entity, Load, Place, Ready, Store,
    entity::{Mode, add},
    period, preempted_at, rebased_ns, virtual_ns, weight,
};
use core::sync::atomic::Ordering::Relaxed;
use program::{Policy, Turn};

/// Time between ticks of a busy processor.
pub const TICK_NS: u64 = 4_000_000;
/// Ticks of a round-robin slice.
const ROUND_ROBIN_TICKS: u32 = (Policy::SLICE_NS / TICK_NS) as u32;

/// The world of a run queue: the threads by their names, and the clock.
pub trait Entities<K>: Store<K> {
    /// Returns the scheduling state of a thread.
    fn entity(&self, of: K) -> &Entity;
    /// Returns the time.
    fn now_ns(&self) -> u64;
    /// Notes that a thread is the first in this period that must wait because its component's share is used up.
    fn note_over_share(&self, of: K);
}

/// The cause of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The running thread blocked, yielded or ended.
    Blocked,
    /// Another thread should run.
    Preempted,
}

/// The result of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The class of the thread to which the running one should give way.
    pub gives_way_to: Option<Class>,
    /// Whether both are fair. A fair thread gives way to its equals when that is convenient.
    pub is_lazy: bool,
    /// Whether a thread waits for a processor.
    pub is_contended: bool,
}

/// The state of a run queue, guarded by the processor's lock.
#[derive(Debug)]
pub struct QueueState<K> {
    ready: Ready<K>,
    current: K,
    idle: K,
    /// Time at which `current` was last charged.
    charged_at_ns: u64,
}

impl<K: Copy> QueueState<K> {
    /// Makes an empty queue, whose idle thread runs.
    pub fn new(idle: K, now_ns: u64) -> QueueState<K> {
        QueueState { ready: Ready::new(), current: idle, idle, charged_at_ns: now_ns }
    }
}

/// A processor's run queue while its lock is held. Most operations consume it, so that it is passed in registers.
#[derive(Debug)]
pub struct RunQueue<'a, K, E> {
    state: &'a mut QueueState<K>,
    load: &'a Load,
    entities: E,
}

impl<'a, K: Copy + Eq, E: Entities<K>> RunQueue<'a, K, E> {
    /// Makes the queue of its parts.
    #[inline(always)]
    pub fn new(state: &'a mut QueueState<K>, load: &'a Load, entities: E) -> RunQueue<'a, K, E> {
        RunQueue { state, load, entities }
    }

    /// Returns whether `thread` runs.
    #[inline(always)]
    pub fn is_running(self, thread: K) -> bool {
        self.state.current == thread
    }

    /// Returns the idle thread.
    #[inline(always)]
    pub fn idle(self) -> K {
        self.state.idle
    }

    /// Makes `next` the running thread instead of the present one, which blocked and works for it, or for which it works. Time
    /// is not charged: the next tick charges the thread that runs then.
    #[inline(always)]
    pub fn pass(&mut self, next: K) {
        add(&self.load.switches, 1);
        self.state.current = next;
    }

    /// Returns the time at which the running thread was last charged.
    #[inline(always)]
    pub fn charged_at_ns(self) -> u64 {
        self.state.charged_at_ns
    }

    /// Returns the smallest virtual time of the queue ([`Ready::smallest_ns`]).
    #[inline(always)]
    pub fn smallest_ns(self) -> u64 {
        self.state.ready.smallest_ns()
    }

    /// Returns the virtual time for a thread that runs in the place of `me` ([`Ready::lent_ns`]).
    #[inline(always)]
    pub fn lent_ns(self, me: &Entity) -> u64 {
        self.state.ready.lent_ns(me.virtual_ns.load(Relaxed))
    }

    /// Charges the running thread for its time until now. A thread is charged at every tick. A time of more than two ticks was
    /// not all the thread's (a host took the processor away), so it neither ages the thread nor is counted.
    pub fn charge(mut self, now_ns: u64) {
        self.charge_current(now_ns);
    }

    #[inline(always)]
    fn charge_current(&mut self, now_ns: u64) {
        let used_ns = now_ns.saturating_sub(self.state.charged_at_ns);
        self.state.charged_at_ns = now_ns;
        if self.state.current == self.state.idle {
            return add(&self.load.idle_ns, used_ns);
        }
        let entity = self.entities.entity(self.state.current);
        add(&self.load.busy_ns, used_ns);
        let ran_ns = entity.run_ns.load(Relaxed);
        entity.run_ns.store(ran_ns + used_ns, Relaxed);
        let used_ns = used_ns.min(2 * TICK_NS);
        if let Policy::Fair { nice } = entity.policy() {
            add(&entity.virtual_ns, virtual_ns(used_ns, weight(nice)));
        }
        if let Some(share) = &entity.share {
            share.charge(now_ns, ran_ns, used_ns);
        }
    }

    #[inline(always)]
    fn count_queued(&self, by: i32) {
        let queued = self.load.queued.load(Relaxed);
        self.load.queued.store(queued.wrapping_add_signed(by), Relaxed);
    }

    /// Queues `thread`.
    pub fn enqueue(mut self, thread: K, place: Place) {
        self.insert(thread, place);
    }

    #[inline(always)]
    fn insert(&mut self, thread: K, place: Place) {
        let entity = self.entities.entity(thread);
        let class = entity.class(|| self.entities.now_ns());
        let virtual_ns = entity.virtual_ns.load(Relaxed);
        if class == Class::SUNK && !self.load.is_idle() {
            self.refuse(thread);
        }
        self.state.ready.insert(&mut self.entities, thread, class, virtual_ns, place);
        self.count_queued(1);
    }

    #[cold]
    fn refuse(&self, thread: K) {
        let share = self.entities.entity(thread).share.as_ref();
        if share.is_some_and(|share| share.refuse(self.entities.now_ns())) {
            self.entities.note_over_share(thread);
        }
    }

    /// Queues `thread`, a fair one, before all other fair threads, unless another one was queued so or it ran far ahead of
    /// waiting threads. Returns whether it did.
    #[inline(always)]
    pub fn enqueue_next(&mut self, thread: K) -> bool {
        let virtual_ns = self.entities.entity(thread).virtual_ns.load(Relaxed);
        let is_queued =
            self.state.ready.may_overtake(virtual_ns) && self.state.ready.insert_next(thread);
        if is_queued {
            self.count_queued(1);
        }
        is_queued
    }

    /// Removes `thread`, which is queued here.
    #[inline]
    pub fn dequeue(&mut self, thread: K) {
        self.state.ready.remove(&mut self.entities, thread);
        self.count_queued(-1);
    }

    /// Removes the thread that was queued by [`RunQueue::enqueue_next`] and returns it, if it may run next and `may_leave`
    /// returns `true`.
    #[inline(always)]
    pub fn take_next(&mut self, may_leave: impl FnOnce() -> bool) -> Option<K> {
        let next = self.state.ready.next()?;
        if !may_leave() || self.has_real_time() {
            return None;
        }
        self.state.ready.remove_next();
        self.count_queued(-1);
        Some(next)
    }

    /// Returns whether a real-time thread is queued.
    #[inline(always)]
    pub fn has_real_time(&self) -> bool {
        self.state.ready.highest().is_some()
    }

    /// Returns whether no queued thread has a higher real-time priority than `thread`.
    #[inline]
    pub fn may_go_first(self, thread: K) -> bool {
        let priority = self.entities.entity(thread).real_time();
        self.state.ready.highest().is_none_or(|highest| highest <= priority)
    }

    /// Returns the queued thread that should run next. Threads whose share was used up since they were queued sink.
    #[inline]
    fn best(&mut self) -> Option<K> {
        let best = self.state.ready.best()?;
        let is_over = self.entities.entity(best).is_over_share(|| self.entities.now_ns());
        if is_over { self.best_but_sunk() } else { Some(best) }
    }

    #[cold]
    fn best_but_sunk(&mut self) -> Option<K> {
        loop {
            let best = self.state.ready.best()?;
            let is_over = self.entities.entity(best).is_over_share(|| self.entities.now_ns());
            if !is_over || self.state.ready.class_of(&mut self.entities, best) == Class::SUNK {
                return Some(best);
            }
            self.dequeue(best);
            self.insert(best, Place::Back);
        }
    }

    /// Removes the thread that should run next and returns it.
    #[inline]
    pub fn take_best(&mut self) -> Option<K> {
        let best = self.best()?;
        self.dequeue(best);
        Some(best)
    }

    /// Removes the best thread that another processor accepts, whose queue's smallest virtual time is `to_ns`.
    pub fn take_for(mut self, to_ns: u64, accept: impl Fn(K) -> bool) -> Option<K> {
        let found = self.state.ready.find(&mut self.entities, accept)?;
        self.dequeue(found);
        let virtual_ns = &self.entities.entity(found).virtual_ns;
        virtual_ns.store(
            rebased_ns(virtual_ns.load(Relaxed), self.state.ready.smallest_ns(), to_ns),
            Relaxed,
        );
        Some(found)
    }

    /// Queues sunk threads again in a new period. They get no compensation for the time of others.
    fn raise(&mut self, now_ns: u64) {
        let mut sunk = self.state.ready.raise(period(now_ns));
        while let Some(thread) = sunk.first() {
            sunk.remove_first(&mut self.entities, thread);
            self.count_queued(-1);
            let virtual_ns = &self.entities.entity(thread).virtual_ns;
            virtual_ns.store(self.state.ready.waited_ns(virtual_ns.load(Relaxed)), Relaxed);
            self.insert(thread, Place::Back);
        }
    }

    /// Sets the virtual time of `thread`, which woke. `from_ns` is the smallest virtual time of the queue that it was in
    /// last; `None` if that is this one.
    pub fn admit(self, thread: K, from_ns: Option<u64>) {
        let virtual_ns = &self.entities.entity(thread).virtual_ns;
        let from_ns = from_ns.unwrap_or(self.state.ready.smallest_ns());
        virtual_ns.store(self.state.ready.woken_ns(virtual_ns.load(Relaxed), from_ns), Relaxed);
    }

    /// Returns the time from which `thread`, which was queued now, should run instead of the running one: 0 for at once, `None`
    /// for the time of the next tick or later.
    pub fn preempted_at(self, thread: K) -> Option<u64> {
        let both = [thread, self.state.current].map(|one| self.entities.entity(one));
        match both.map(|one| one.class(|| self.entities.now_ns())) {
            _ if self.load.is_idle() => Some(0),
            [Class::FAIR, Class::FAIR] => {
                let times = [self.state.charged_at_ns, self.entities.now_ns()];
                let preemptions = both[1].preemptions.load(Relaxed);
                preempted_at(both.map(|one| one.virtual_ns.load(Relaxed)), times, preemptions)
            }
            [new, old] => (new > old).then_some(0),
        }
    }

    /// Returns the place at which the running thread is queued again, and begins a new slice.
    pub fn place_of(self, running: K, reason: Reason) -> Place {
        let entity = self.entities.entity(running);
        let slice_ticks = entity.slice_ticks.load(Relaxed);
        entity.slice_ticks.store(0, Relaxed);
        match (reason, entity.policy()) {
            (Reason::Preempted, Policy::Fifo(_)) => Place::Front,
            (Reason::Preempted, Policy::RoundRobin(_)) if slice_ticks < ROUND_ROBIN_TICKS => {
                Place::Front
            }
            _ => Place::Back,
        }
    }

    /// Makes `next` the running thread instead of `from`. Returns whether it is not the idle thread.
    #[inline]
    pub fn begin(&mut self, from: K, next: K, reason: Reason) -> bool {
        let is_busy = next != self.state.idle;
        self.load.is_busy.store(is_busy, Relaxed);
        add(&self.load.switches, 1);
        let (from, entity) = (self.entities.entity(from), self.entities.entity(next));
        match reason {
            Reason::Blocked => {
                from.count_voluntary();
                from.preemptions.store(0, Relaxed);
            }
            Reason::Preempted => {
                add(&from.forced_switches, 1);
                from.preemptions.store(from.preemptions.load(Relaxed) + 1, Relaxed);
            }
        }
        let (priority, virtual_ns) = (entity.real_time(), entity.virtual_ns.load(Relaxed));
        self.state.current = next;
        if is_busy && priority == 0 {
            self.state.ready.note_smallest(&mut self.entities, virtual_ns);
        }
        is_busy
    }

    /// Ages `me`, which yields, beyond the first of the fair threads, and ends its slice.
    pub fn step_back(mut self, me: K) {
        let first_ns = self.state.ready.first_ns(&mut self.entities);
        let entity = self.entities.entity(me);
        entity.slice_ticks.store(ROUND_ROBIN_TICKS, Relaxed);
        if let Some(first_ns) = first_ns {
            entity.virtual_ns.fetch_max(first_ns + 1, Relaxed);
        }
    }

    /// Handles a tick that interrupted the running thread `me` in `mode`.
    pub fn tick(mut self, me: K, mode: Mode, now_ns: u64) -> Tick {
        self.entities.entity(me).ticks.count(mode);
        self.load.ticks.count(mode);
        self.charge_current(now_ns);
        self.raise(now_ns);
        let best = self.best();
        let queued = best.map(|best| (best, self.state.ready.class_of(&mut self.entities, best)));
        let entity = self.entities.entity(me);
        let slice = entity.slice_ticks.load(Relaxed) + 1;
        entity.slice_ticks.store(slice, Relaxed);
        let class = entity.class(|| self.entities.now_ns());
        let gives_way = |&(best, other): &(K, Class)| {
            let best_ns = self.entities.entity(best).virtual_ns.load(Relaxed);
            let is_behind = best_ns < entity.virtual_ns.load(Relaxed);
            let turn = Turn { is_behind, is_slice_over: slice >= ROUND_ROBIN_TICKS };
            class.gives_way(other, || entity.policy().is_turn_over(turn))
        };
        // A thread over its share looks for one within its share on other processors, too.
        let sunk = (class == Class::SUNK).then_some(class);
        let gives_way_to = queued.filter(gives_way).map(|(_, other)| other).or(sunk);
        let is_lazy = gives_way_to == Some(Class::FAIR) && class == Class::FAIR;
        Tick { gives_way_to, is_lazy, is_contended: best.is_some() }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
