//! Tests of shares: a component loops in many threads, and its share of the processors' time limits it.
use crate::{
    derivations,
    domains::{self, does, first, second},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use calls::{Call, Grants, IMAGE_BASE, SERVICE};
use core::{
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst},
};
use nucleus::{
    arch::smp,
    capability::{Capability, Region},
    domain::Domain,
    memory::space::Protection,
    thread::{self, Endpoint, Policy, Sleep},
    time, trace,
};
use runqueue::PERIOD_NS;

/// Number of loops on each processor.
const LOOPS: usize = 2;
/// Time of the measurement: five periods.
const MEASURED_NS: u64 = 5 * PERIOD_NS;

/// Starts a thread at `entry` with `mask` in rdi and the best policy granted, from a thread that has no other registers set.
fn spawn(entry: u64, mask: u32) -> Vec<u8> {
    let [a, b, c, d] = mask.to_le_bytes();
    // mov edx, mask; mov r9, -1
    let rest = [0xba, a, b, c, d, 0x49, 0xc7, 0xc1, 0xff, 0xff, 0xff, 0xff];
    [&first(entry)[..], &rest, &does(Call::Spawn)].concat()
}

/// Returns code that loops for ever, [`LOOPS`] times on each processor, and the offset at which a loop begins.
fn loops() -> (Vec<u8>, u64) {
    // The bytes are: mov esi, edi
    let begin = [&[0x89, 0xfe][..], &does(Call::Current), &does(Call::SetAffinity)].concat();
    // The bytes are: jmp to itself
    let body = [&begin[..], &[0xeb, 0xfe]].concat();
    let masks = (1..LOOPS * smp::online()).map(|index| 1 << (index % smp::online()));
    let spawns = masks.flat_map(|mask| spawn(IMAGE_BASE, mask));
    let code = [body.clone(), spawns.collect(), first(1).into(), body.clone()].concat();
    (code, IMAGE_BASE + body.len() as u64)
}

/// Starts the looping component.
fn start(policy: Policy, share_percent: u8) -> Arc<Domain> {
    let threads = LOOPS * smp::online();
    let grants = Grants { threads, policy, share_percent, ..domains::grants(0) };
    let domain = Domain::new("loops", grants).expect("no memory for a domain");
    let protection = Protection::READ | Protection::EXECUTE;
    let (code, entry) = loops();
    domain.load(IMAGE_BASE, 1, &code, protection).expect("no memory for a domain");
    domain.start(entry).expect("no memory for a domain");
    domain
}

/// Returns the processor time of thread `number`.
fn run_ns(number: u64) -> u64 {
    thread::cpu_time(number).map_or(0, |used| used.user_ns + used.system_ns)
}

/// A thread that is busy on each processor, until it is dropped.
struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<u64>,
}

impl Busy {
    fn start() -> Busy {
        let is_over = Arc::new(AtomicBool::new(false));
        let spawn = |cpu| {
            let own = is_over.clone();
            let body = move || {
                while !own.load(SeqCst) {
                    core::hint::spin_loop();
                }
            };
            let body: thread::Body = Box::new(Box::new(body));
            let fair = Policy::Fair { nice: 0 };
            let number = thread::spawn("busy", fair, body).expect("no memory for a thread");
            thread::set_affinity(number, 1u64 << cpu);
            number
        };
        let threads = (0..smp::online()).map(spawn).collect();
        Busy { is_over, threads }
    }

    /// Returns the threads' processor time.
    fn run_ns(&self) -> u64 {
        self.threads.iter().map(|&number| run_ns(number)).sum()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
    }
}

/// Returns the percentage of the processors' time that busy threads have beside the looping component, and the number of
/// periods in which that had to wait.
fn beside(policy: Policy, share_percent: u8) -> (u64, u32) {
    let busy = Busy::start();
    let domain = start(policy, share_percent);
    // The measurement starts at the beginning of a period.
    thread::park(Some(time::now_ns().next_multiple_of(PERIOD_NS)), Sleep::Uninterruptible);
    let (start_ns, before_ns) = (time::now_ns(), busy.run_ns());
    thread::park(Some(start_ns + MEASURED_NS), Sleep::Uninterruptible);
    let elapsed_ns = time::now_ns() - start_ns;
    let percent = (busy.run_ns() - before_ns) * 100 / (elapsed_ns * smp::online() as u64);
    let refused = domain.usage().refused;
    domain.kill("test");
    assert!(refused.iter().all(|&(name, _)| name == "share"), "{refused:?}");
    log::info!(
        "share of {share_percent} %, {policy:?}: others have {percent} %, refused {refused:?}"
    );
    let refused = refused.first().map_or(0, |&(_, count)| count);
    // The period in which it began and the one in which it ended count, too.
    assert!(u64::from(refused) <= elapsed_ns / PERIOD_NS + 2, "refused {refused} times");
    (percent, refused)
}

/// Tests that a part of the time is left to others, whatever the component's policy, and that a wait is counted once a period
/// and traced.
pub fn loops_leave_the_rest_to_others() {
    let me = thread::current_number();
    // This is set before the loops start, which take all processors.
    thread::set_policy(me, Policy::Fifo(99));
    for policy in [Policy::Fair { nice: -20 }, Policy::Fifo(50)] {
        let (percent, refused) = beside(policy, 100);
        assert!(percent < 40, "{policy:?} with all time leaves others {percent} %");
        assert_eq!(refused, 0);
        let start_ns = time::now_ns();
        // It is 87 % on a quiet host; on a host that takes processors away, more tries are made.
        let mut tries = (0..3).map(|_| beside(policy, 10));
        let (_, refused) = tries.find(|&(percent, _)| percent >= 60).expect("a rest for others");
        assert!(refused >= 4, "refused {refused} times in five periods");
        let is_told =
            |record: program::TraceRecord| record.name == "over-share" && record.at_ns >= start_ns;
        assert!(trace::last(64).any(is_told), "nothing is traced");
    }
    thread::set_policy(me, Policy::Fair { nice: 0 });
}

/// The processor time that a handler needs, and the thread that computes beside it.
const HANDLER_NS: u64 = 30_000_000;
static BESIDE_NS: AtomicU64 = AtomicU64::new(0);
static BESIDE: AtomicU64 = AtomicU64::new(0);

/// Returns a bell whose handler needs [`HANDLER_NS`].
pub fn bell() -> &'static Region {
    static BELL: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
    derivations::bell(&BELL, || {
        let (me, beside) = (thread::current_number(), BESIDE.load(SeqCst));
        let (until_ns, before_ns) = (run_ns(me) + HANDLER_NS, run_ns(beside));
        while run_ns(me) < until_ns {
            core::hint::spin_loop();
        }
        BESIDE_NS.fetch_max(run_ns(beside) - before_ns, SeqCst);
    })
}

/// Tests that a component that rings a bell again and again sinks in between, but not while it does work that others may wait
/// for.
pub fn handler_does_not_sink() {
    let me = thread::current_number();
    thread::set_policy(me, Policy::Fifo(99));
    let busy = Busy::start();
    BESIDE.store(busy.threads[0], SeqCst);
    BESIDE_NS.store(0, SeqCst);
    let pinned = [&does(Call::Current)[..], &second(1), &does(Call::SetAffinity)].concat();
    // add rdi, 8; mov rbp, rdi
    let word = [0x48, 0x83, 0xc7, 0x08, 0x48, 0x89, 0xfd];
    let mapped = [&first(SERVICE)[..], &does(Call::MapRegion), &word].concat();
    // The bytes are: mov rdi, rbp
    let ring = [&[0x48, 0x89, 0xef][..], &second(1), &does(Call::Wake)].concat();
    let back = (-(ring.len() as i8) - 2) as u8;
    let code = [pinned, mapped, ring, [0xeb, back].into()].concat();
    let policy = Policy::Fair { nice: -20 };
    let grants = Grants { policy, share_percent: 1, ..domains::grants(0) };
    let domain = Domain::new("rings", grants).expect("no memory for a domain");
    let protection = Protection::READ | Protection::EXECUTE;
    domain.load(IMAGE_BASE, 1, &code, protection).expect("no memory for a domain");
    domain.grant(Capability::Region(bell().clone())).expect("no room in a table");
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    let (start_ns, before_ns) = (time::now_ns(), run_ns(busy.threads[0]));
    thread::park(Some(start_ns + 2 * MEASURED_NS), Sleep::Uninterruptible);
    let percent = (run_ns(busy.threads[0]) - before_ns) * 100 / (time::now_ns() - start_ns);
    domain.kill("test");
    let beside_ns = BESIDE_NS.load(SeqCst);
    log::info!("beside who rings: {percent} %, and {beside_ns} ns while it attends");
    assert!(beside_ns <= HANDLER_NS, "a handler sank for {beside_ns} ns");
    // 70 where each period begins with a handler.
    assert!((40..90).contains(&percent), "others have {percent} % beside who rings");
    thread::set_policy(me, Policy::Fair { nice: 0 });
}

/// Tests that other components call each other and end while a component loops beyond its share.
pub fn loops_disturb_nobody() {
    let looping = start(Policy::Fair { nice: -20 }, 10);
    let endpoint = Arc::new(Endpoint::new());
    let serving = domains::start(&domains::server(), 0, [domains::serve(&endpoint)].into());
    let client = domains::start(&domains::client(2000), 0, [domains::call(&endpoint)].into());
    assert_eq!(client.wait_end(None).expect("an end").cause, "its last thread ended");
    assert!(serving.usage().refused.is_empty() && looping.wait_end(Some(0)).is_none());
    serving.kill("test");
    looping.kill("test");
}

/// Tests that a component gets time that no other thread wants, even beyond its share.
pub fn idle_time_is_anybodys() {
    let domain = start(Policy::Fair { nice: 0 }, 1);
    let start_ns = time::now_ns();
    thread::park(Some(start_ns + MEASURED_NS), Sleep::Uninterruptible);
    let (used_ns, elapsed_ns) = (domain.usage().cpu_ns, time::now_ns() - start_ns);
    domain.kill("test");
    let all_ns = elapsed_ns * smp::online() as u64;
    assert!(used_ns > all_ns / 2, "{used_ns} ns of {all_ns} were idle");
}
