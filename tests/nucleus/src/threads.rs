//! Tests of threads, waits, timers and scheduling.
use crate::suite::in_threads;
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use nucleus::{
    arch::{percpu, smp},
    thread::{self, Policy, Sleep},
    time,
};
use sync::Outcome;

/// Starts and ends a hundred threads, several times.
pub fn start_and_end() {
    for _ in 0..4 {
        let sum = Arc::new(AtomicU32::new(0));
        let own = sum.clone();
        in_threads(100, move |index| {
            own.fetch_add(index, SeqCst);
        });
        assert_eq!(sum.load(SeqCst), 4950);
    }
}

/// Tests that a token given before the park is not lost, and that two tokens count as one.
pub fn park_keeps_a_token() {
    let me = thread::current_number();
    thread::unpark(me);
    thread::unpark(me);
    assert_eq!(thread::park(None, Sleep::Uninterruptible), Outcome::Signalled);
    assert_eq!(
        thread::park(Some(time::now_ns() + 1_000_000), Sleep::Uninterruptible),
        Outcome::TimedOut
    );
    thread::unpark(u64::MAX);
}

/// Tests that a deadline ends a wait not before its time, and not long after.
pub fn deadline_ends_a_wait() {
    in_threads(8, |index| {
        let word = AtomicU32::new(0);
        for round in 0..20 {
            let wait_ns = u64::from(index * 20 + round + 1) * 20_000;
            let start_ns = time::now_ns();
            assert_eq!(
                thread::wait_on(&word, 0, Some(start_ns + wait_ns), Sleep::Uninterruptible),
                Outcome::TimedOut
            );
            let waited_ns = time::now_ns() - start_ns;
            assert!(waited_ns >= wait_ns, "woken {} ns early", wait_ns - waited_ns);
            assert!(waited_ns < wait_ns + 500_000_000, "woken {} ns late", waited_ns - wait_ns);
        }
    });
}

/// Tests that pairs of threads wake each other without a lost wake-up.
pub fn no_wake_up_is_lost() {
    let balls: Arc<[AtomicU32; 4]> = Arc::new([const { AtomicU32::new(0) }; 4]);
    in_threads(8, move |index| {
        let ball = &balls[index as usize / 2];
        for round in 0..2000 {
            let mine = round * 2 + index % 2;
            loop {
                let now = ball.load(SeqCst);
                if now == mine {
                    break;
                }
                thread::wait_on(ball, now, None, Sleep::Uninterruptible);
            }
            ball.store(mine + 1, SeqCst);
            thread::wake(ball, 1);
        }
    });
}

/// Tests a kick before, during and without an interruptible wait.
pub fn kick_is_kept() {
    let me = thread::current_number();
    let word = AtomicU32::new(0);
    thread::kick(me);
    assert_eq!(
        thread::wait_on(&word, 0, Some(time::now_ns() + 1_000_000), Sleep::Uninterruptible),
        Outcome::TimedOut
    );
    assert_eq!(thread::wait_on(&word, 0, None, Sleep::Interruptible), Outcome::Kicked);
    assert!(!thread::take_kick());
    thread::kick(me);
    assert!(thread::take_kick());
    for round in 0..200 {
        in_threads(1, move |_| {
            if round % 2 == 0 {
                thread::yield_now();
            }
            thread::kick(me);
        });
        assert_eq!(thread::wait_on(&word, 0, None, Sleep::Interruptible), Outcome::Kicked);
    }
}

/// Tests that looping threads share their processor with one that must stop them.
pub fn loops_are_preempted() {
    let stop = Arc::new(AtomicU32::new(0));
    let own = stop.clone();
    let loops = smp::online() as u32 * 2;
    in_threads(loops + 1, move |index| {
        if index == loops {
            thread::park(Some(time::now_ns() + 30_000_000), Sleep::Uninterruptible);
            own.store(1, SeqCst);
        }
        while own.load(SeqCst) == 0 {
            core::hint::spin_loop();
        }
    });
    let times = thread::cpu_time(thread::current_number()).expect("we are alive");
    assert!(times.voluntary_switches > 0);
}

/// Tests moving from processor to processor.
pub fn affinity_is_obeyed() {
    let online = smp::online();
    in_threads(4, move |index| {
        let me = thread::current_number();
        for round in 0..50 {
            let cpu = (index as usize + round) % online;
            assert!(thread::set_affinity(me, 1 << cpu));
            assert_eq!(percpu::cpu(), cpu);
        }
        assert!(!thread::set_affinity(me, 0));
    });
}

/// Tests that of two threads on one processor the one with the higher priority is served first.
pub fn real_time_goes_first() {
    let order = Arc::new(AtomicU64::new(0));
    let me = thread::current_number();
    thread::set_affinity(me, 1);
    thread::set_policy(me, Policy::Fifo(99));
    let left = Arc::new(AtomicU32::new(3));
    for (policy, mark) in
        [(Policy::Fair { nice: 0 }, 1), (Policy::Fifo(10), 2), (Policy::RoundRobin(50), 3)]
    {
        let (order, left) = (order.clone(), left.clone());
        let body: thread::Body = Box::new(Box::new(move || {
            order.fetch_update(SeqCst, SeqCst, |now| Some(now * 10 + mark)).expect("always some");
            left.fetch_sub(1, SeqCst);
            thread::wake(&left, 1);
        }));
        let number = thread::spawn("order", policy, body).expect("no memory for a test's thread");
        thread::set_affinity(number, 1);
    }
    while left.load(SeqCst) > 0 {
        let now = left.load(SeqCst);
        thread::wait_on(&left, now, None, Sleep::Uninterruptible);
    }
    thread::set_policy(me, Policy::Fair { nice: 0 });
    thread::set_affinity(me, u64::MAX);
    if smp::online() == 1 {
        assert_eq!(order.load(SeqCst), 321);
    }
}

/// Calls itself until the stack ends; the depth is more than the stack can hold.
#[inline(never)]
pub fn use_up_stack(depth: u64) -> u64 {
    let frame = core::hint::black_box([depth; 16]);
    if frame[0] == u64::MAX {
        depth
    } else {
        use_up_stack(depth + 1) + core::hint::black_box(frame)[1]
    }
}
