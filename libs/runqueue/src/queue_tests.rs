//! Tests of a run queue on threads by index, with a clock that the tests set.
use super::*;
use crate::{
    GRANULARITY_NS, Node, PERIOD_NS, Share, Told,
    entity::Ticks,
    heap::Nodes,
    ready::{PREEMPTIONS_MAX, PROTECTED_NS, SLEEPER_CREDIT_NS},
};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

const IDLE: usize = 0;
const NS: u64 = 1_000;

/// Threads, of which the first is idle.
struct World {
    entities: Vec<Entity>,
    nodes: RefCell<Nodes>,
    now_ns: Cell<u64>,
    over: RefCell<Vec<usize>>,
}

impl World {
    fn new(policies: &[Policy]) -> World {
        World::with_share(policies, None)
    }

    fn with_share(policies: &[Policy], share: Option<Arc<Share>>) -> World {
        let entity = |policy: &Policy| Entity::new(*policy, share.clone());
        let idle = Entity::new(Policy::Fair { nice: 19 }, None);
        World {
            nodes: RefCell::new(Nodes(vec![Node::new(); policies.len() + 1])),
            entities: [idle].into_iter().chain(policies.iter().map(entity)).collect(),
            now_ns: Cell::new(NS),
            over: RefCell::default(),
        }
    }

    fn virtual_ns(&self, thread: usize) -> u64 {
        self.entities[thread].virtual_ns.load(Relaxed)
    }

    fn age(&self, thread: usize, virtual_ns: u64) {
        self.entities[thread].virtual_ns.store(virtual_ns, Relaxed);
    }
}

/// The world, with its links borrowed as long as a queue is used.
struct View<'a> {
    world: &'a World,
    nodes: std::cell::RefMut<'a, Nodes>,
}

impl Store<usize> for View<'_> {
    fn node(&mut self, of: usize) -> &mut Node<usize> {
        self.nodes.node(of)
    }
}

impl Entities<usize> for View<'_> {
    fn entity(&self, of: usize) -> &Entity {
        &self.world.entities[of]
    }
    fn now_ns(&self) -> u64 {
        self.world.now_ns.get()
    }
    fn note_over_share(&self, of: usize) {
        self.world.over.borrow_mut().push(of);
    }
}

/// A processor of a test.
struct Cpu<'a> {
    world: &'a World,
    state: QueueState<usize>,
    load: Load,
}

impl<'a> Cpu<'a> {
    fn new(world: &'a World) -> Cpu<'a> {
        let state = QueueState::new(IDLE, world.now_ns.get());
        Cpu { world, state, load: Load::default() }
    }

    fn queue(&mut self) -> RunQueue<'_, usize, View<'a>> {
        let view = View { world: self.world, nodes: self.world.nodes.borrow_mut() };
        RunQueue::new(&mut self.state, &self.load, view)
    }

    /// Runs the best thread, or the idle one, instead of the running one, which blocked.
    fn switch(&mut self) -> usize {
        let from = self.state.current;
        let now_ns = self.world.now_ns.get();
        self.queue().charge(now_ns);
        let next = self.queue().take_best().unwrap_or(IDLE);
        self.queue().begin(from, next, Reason::Blocked);
        next
    }

    fn run(&mut self, thread: usize) {
        self.queue().enqueue(thread, Place::Back);
        assert_eq!(self.switch(), thread);
    }

    fn pass(&self, ns: u64) -> u64 {
        self.world.now_ns.set(self.world.now_ns.get() + ns);
        self.world.now_ns.get()
    }

    fn tick(&mut self) -> Tick {
        let (now_ns, current) = (self.pass(TICK_NS), self.state.current);
        self.queue().tick(current, Mode::User, now_ns)
    }
}

const FAIR: Policy = Policy::Fair { nice: 0 };

#[test]
fn time_is_charged_to_the_thread_that_ran_by_its_weight() {
    let world = World::new(&[FAIR, Policy::Fair { nice: 5 }, Policy::Fifo(1)]);
    let mut cpu = Cpu::new(&world);
    cpu.pass(500);
    for thread in 1..=3 {
        cpu.run(thread);
        cpu.pass(1024);
    }
    assert_eq!(cpu.switch(), IDLE);
    let times =
        |thread: usize| (world.entities[thread].run_ns.load(Relaxed), world.virtual_ns(thread));
    assert_eq!(times(1), (1024, 1024));
    assert_eq!(times(2), (1024, 1024 * 1024 / 335));
    assert_eq!(times(3), (1024, 0), "a real-time thread does not age");
    let all = cpu.load.times();
    assert_eq!((all.idle_ns, all.user_ns + all.system_ns, all.switches), (500, 3 * 1024, 4));
}

#[test]
fn time_that_a_host_took_does_not_age_a_thread() {
    let world = World::new(&[FAIR]);
    let mut cpu = Cpu::new(&world);
    cpu.run(1);
    let now_ns = cpu.pass(1_000_000_000);
    cpu.queue().charge(now_ns);
    assert_eq!(world.virtual_ns(1), 2 * TICK_NS);
    assert_eq!(world.entities[1].run_ns.load(Relaxed), 1_000_000_000);
    cpu.queue().charge(now_ns - 1);
    assert_eq!(world.virtual_ns(1), 2 * TICK_NS, "a clock that goes back");
}

#[test]
fn the_load_tells_who_runs_and_who_waits() {
    let world = World::new(&[FAIR; 3]);
    let mut cpu = Cpu::new(&world);
    assert!(cpu.load.is_free() && cpu.load.runnable() == 0);
    cpu.queue().enqueue(1, Place::Back);
    assert!(cpu.load.is_idle() && !cpu.load.is_free());
    assert!(cpu.queue().enqueue_next(2));
    assert!(!cpu.queue().enqueue_next(3), "one thread goes next");
    assert_eq!((cpu.switch(), cpu.load.runnable()), (2, 2));
    cpu.queue().dequeue(1);
    assert_eq!((cpu.load.queued(), cpu.load.runnable()), (0, 1));
    assert_eq!(cpu.switch(), IDLE);
    assert!(cpu.load.is_free() && cpu.queue().is_running(IDLE));
}

#[test]
fn who_ran_far_ahead_does_not_overtake() {
    let world = World::new(&[FAIR; 2]);
    let mut cpu = Cpu::new(&world);
    world.age(1, GRANULARITY_NS);
    assert!(!cpu.queue().enqueue_next(1));
    world.age(1, GRANULARITY_NS - 1);
    assert!(cpu.queue().enqueue_next(1));
    assert_eq!(cpu.queue().take_next(|| false), None);
    assert_eq!(cpu.queue().take_next(|| true), Some(1));
    assert_eq!(cpu.queue().take_next(|| true), None);
    assert_eq!(cpu.load.queued(), 0);
}

#[test]
fn who_uses_up_its_share_sinks_until_the_next_period() {
    let share = Arc::new(Share::new(10, 1).unwrap());
    let world = World::with_share(&[FAIR, Policy::Fifo(9)], Some(share));
    let mut cpu = Cpu::new(&world);
    cpu.run(1);
    cpu.queue().enqueue(2, Place::Back);
    let (mut now_ns, mut ticks) = (0, 0);
    while !world.entities[1].is_over_share(|| now_ns) {
        now_ns = cpu.pass(TICK_NS);
        cpu.queue().charge(now_ns);
        ticks += 1;
    }
    assert!((2..=3).contains(&ticks));
    // The real-time thread was queued before the share was used up, and sinks when it is found.
    let best = cpu.queue().take_best();
    assert_eq!((best, &*world.over.borrow()), (Some(2), &vec![2]));
    cpu.queue().enqueue(2, Place::Back);
    cpu.queue().enqueue(1, Place::Back);
    assert_eq!(*world.over.borrow(), [2], "noted once a period");
    world.entities[1].is_attending.store(true, Relaxed);
    assert!(!world.entities[1].is_over_share(|| now_ns), "it attends to others");
    world.entities[1].is_attending.store(false, Relaxed);
    let now_ns = cpu.pass(PERIOD_NS);
    cpu.queue().raise(now_ns);
    assert_eq!(cpu.load.queued(), 2);
    assert_eq!([(); 2].map(|()| cpu.queue().take_best()), [Some(2), Some(1)]);
}

#[test]
fn a_thread_over_its_share_gives_way_at_each_tick() {
    let share = Arc::new(Share::new(10, 1).unwrap());
    let world = World::with_share(&[FAIR], Some(share));
    let mut cpu = Cpu::new(&world);
    cpu.run(1);
    let ways = [(); 4].map(|()| cpu.tick().gives_way_to);
    // It may be the only thread here, but another processor may have one that is within its share.
    assert_eq!(ways, [None, None, Some(Class::SUNK), Some(Class::SUNK)]);
}

#[test]
fn a_woken_thread_is_put_on_the_scale_of_its_queue() {
    let world = World::new(&[FAIR; 3]);
    let (mut cpu, mut other) = (Cpu::new(&world), Cpu::new(&world));
    world.age(1, 50_000_000);
    cpu.run(1);
    assert_eq!(cpu.queue().smallest_ns(), 50_000_000);
    cpu.queue().admit(2, None);
    assert_eq!(world.virtual_ns(2), 50_000_000 - SLEEPER_CREDIT_NS);
    world.age(2, 7);
    cpu.queue().admit(2, Some(0));
    assert_eq!(world.virtual_ns(2), 50_000_007);
    // A thread that another processor takes is as far ahead there.
    cpu.queue().enqueue(2, Place::Back);
    cpu.queue().enqueue(3, Place::Back);
    let to_ns = other.queue().smallest_ns();
    assert_eq!(cpu.queue().take_for(to_ns, |thread| thread == 2), Some(2));
    assert_eq!(world.virtual_ns(2), 7);
    assert_eq!(cpu.queue().take_for(to_ns, |thread| thread == 2), None);
}

#[test]
fn a_woken_thread_preempts_by_class_and_by_virtual_time() {
    let world = World::new(&[FAIR, FAIR, Policy::Fifo(5), Policy::Fifo(6)]);
    let mut cpu = Cpu::new(&world);
    assert_eq!(cpu.queue().preempted_at(1), Some(0), "an idle processor");
    cpu.run(1);
    assert_eq!([2, 3].map(|thread| cpu.queue().preempted_at(thread)), [None, Some(0)]);
    world.age(1, 2 * GRANULARITY_NS);
    assert_eq!(cpu.queue().preempted_at(2), Some(0));
    // A thread that was preempted often is protected for a while.
    let now_ns = world.now_ns.get();
    for _ in 0..PREEMPTIONS_MAX {
        cpu.queue().begin(1, 2, Reason::Preempted);
        cpu.queue().begin(2, 1, Reason::Blocked);
    }
    assert_eq!(cpu.queue().preempted_at(2), Some(now_ns + PROTECTED_NS));
    let mut cpu = Cpu::new(&world);
    cpu.run(3);
    assert_eq!([1, 3, 4].map(|thread| cpu.queue().preempted_at(thread)), [None, None, Some(0)]);
    assert!(!cpu.queue().has_real_time());
    cpu.queue().enqueue(4, Place::Back);
    assert_eq!([1, 3, 4].map(|thread| cpu.queue().may_go_first(thread)), [false, false, true]);
}

#[test]
fn a_preempted_thread_keeps_its_place_for_its_slice() {
    let world = World::new(&[FAIR, Policy::Fifo(1), Policy::RoundRobin(1)]);
    let mut cpu = Cpu::new(&world);
    let place = |cpu: &mut Cpu<'_>, thread, reason| cpu.queue().place_of(thread, reason);
    assert_eq!(place(&mut cpu, 1, Reason::Preempted), Place::Back);
    assert_eq!(place(&mut cpu, 2, Reason::Preempted), Place::Front);
    assert_eq!(place(&mut cpu, 2, Reason::Blocked), Place::Back);
    cpu.run(3);
    assert_eq!(place(&mut cpu, 3, Reason::Preempted), Place::Front);
    (0..ROUND_ROBIN_TICKS).for_each(|_| _ = cpu.tick());
    assert_eq!(place(&mut cpu, 3, Reason::Preempted), Place::Back);
    assert_eq!(place(&mut cpu, 3, Reason::Preempted), Place::Front, "a new slice");
    cpu.queue().step_back(3);
    assert_eq!(place(&mut cpu, 3, Reason::Preempted), Place::Back, "it yielded");
}

#[test]
fn who_yields_goes_behind_the_first() {
    let world = World::new(&[FAIR; 2]);
    let mut cpu = Cpu::new(&world);
    cpu.run(1);
    cpu.queue().step_back(1);
    assert_eq!(world.virtual_ns(1), 0, "nobody waits");
    world.age(2, 70);
    cpu.queue().enqueue(2, Place::Back);
    cpu.queue().step_back(1);
    assert_eq!(world.virtual_ns(1), 71);
}

#[test]
fn a_tick_tells_whether_the_running_thread_gives_way() {
    let world = World::new(&[FAIR, FAIR, Policy::RoundRobin(1), Policy::RoundRobin(1)]);
    let mut cpu = Cpu::new(&world);
    cpu.run(1);
    let alone = Tick { gives_way_to: None, is_lazy: false, is_contended: false };
    assert_eq!(cpu.tick(), alone);
    cpu.queue().enqueue(2, Place::Back);
    let lazily = Tick { gives_way_to: Some(Class::FAIR), is_lazy: true, is_contended: true };
    assert_eq!(cpu.tick(), lazily);
    cpu.queue().enqueue(3, Place::Back);
    let at_once = Tick { gives_way_to: Some(Class::of(1)), is_lazy: false, is_contended: true };
    assert_eq!(cpu.tick(), at_once);
    assert_eq!(cpu.switch(), 3);
    cpu.queue().enqueue(4, Place::Back);
    let goes_on = Tick { is_contended: true, ..alone };
    (1..ROUND_ROBIN_TICKS).for_each(|_| assert_eq!(cpu.tick(), goes_on));
    assert_eq!(cpu.tick(), at_once, "the slice is over");
    let time = world.entities[3].cpu_time(100);
    assert_eq!((time.user_ns, time.system_ns), (100, 0), "all ticks came in user mode");
    assert_eq!(cpu.load.times().system_ns, 0);
}

#[test]
fn a_server_has_its_clients_policy_until_it_takes_its_own() {
    let world = World::new(&[FAIR, Policy::Fair { nice: 5 }, Policy::Fifo(5), Policy::Fifo(4)]);
    let lend = |client: usize, server: usize| {
        world.entities[client].lend_policy(&world.entities[server]);
        world.entities[server].policy()
    };
    assert_eq!(lend(2, 1), FAIR);
    assert_eq!(lend(1, 2), FAIR);
    assert_eq!(lend(3, 4), Policy::Fifo(5));
    assert_eq!(lend(1, 4), Policy::Fifo(5));
    world.entities[4].take_own_policy();
    assert_eq!(world.entities[4].policy(), Policy::Fifo(4));
}

#[test]
fn ticks_are_counted_by_mode() {
    let ticks = Ticks::default();
    [Mode::User, Mode::System, Mode::User].into_iter().for_each(|mode| ticks.count(mode));
    assert_eq!(ticks.split(30), (20, 10));
}

#[test]
fn the_next_waits_for_real_time_threads() {
    let world = World::new(&[FAIR, Policy::Fifo(1)]);
    let mut cpu = Cpu::new(&world);
    assert!(cpu.queue().enqueue_next(1));
    cpu.queue().enqueue(2, Place::Back);
    assert_eq!(cpu.queue().take_next(|| true), None);
    assert_eq!(cpu.switch(), 2);
    assert_eq!(cpu.queue().take_next(|| true), Some(1));
}

#[test]
fn who_is_woken_may_wait_if_it_is_alike_and_not_far_behind() {
    let world = World::new(&[FAIR, FAIR, Policy::Fair { nice: 1 }, Policy::Fifo(1)]);
    let may_follow = |woken: usize| world.entities[1].may_be_followed_by(&world.entities[woken]);
    world.age(1, SLEEPER_CREDIT_NS + GRANULARITY_NS);
    assert_eq!([2, 3].map(may_follow), [true, false]);
    world.age(1, SLEEPER_CREDIT_NS + GRANULARITY_NS + 1);
    assert!(!may_follow(2));
    assert!(!world.entities[4].may_be_followed_by(&world.entities[4]), "not fair");
}

#[test]
fn threads_that_work_for_each_other_share_their_time() {
    let world = World::new(&[FAIR; 2]);
    let mut cpu = Cpu::new(&world);
    world.age(1, GRANULARITY_NS / 2);
    assert_eq!(cpu.queue().lent_ns(&world.entities[1]), GRANULARITY_NS / 2);
    world.entities[2].catch_up(&world.entities[1]);
    world.entities[1].catch_up(&world.entities[2]);
    assert_eq!([1, 2].map(|thread| world.virtual_ns(thread)), [GRANULARITY_NS / 2; 2]);
    world.age(1, 2 * GRANULARITY_NS);
    assert_eq!(cpu.queue().lent_ns(&world.entities[1]), GRANULARITY_NS, "it ran far ahead");
    cpu.run(1);
    cpu.queue().pass(2);
    assert!(cpu.queue().is_running(2));
    assert_eq!(cpu.load.times().switches, 2);
}

#[test]
fn who_asks_is_told_of_moves_and_preemptions() {
    let told = Told::default();
    told.note_preempted();
    assert!(!told.tell(3), "it did not ask");
    told.set(Some(3));
    assert!(!told.tell(3) && told.tell(4) && !told.tell(4));
    told.note_preempted();
    assert!(told.tell(4) && !told.tell(4));
    told.set(None);
    assert!(!told.tell(5));
}
