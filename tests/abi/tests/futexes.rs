//! Futexes that pass on priority, and waiting for any of several words.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    tasks::{is_asleep, own_id},
    *,
};
use std::{
    fs,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const WAIT: i32 = libc::FUTEX_WAIT;
const LOCK: i32 = libc::FUTEX_LOCK_PI;
const LOCK_2: i32 = 13;
const TRY_LOCK: i32 = libc::FUTEX_TRYLOCK_PI;
const UNLOCK: i32 = libc::FUTEX_UNLOCK_PI;
const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;
const REAL_TIME: i32 = libc::FUTEX_CLOCK_REALTIME;
const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;
const SECOND_NS: u64 = 1_000_000_000;

fn call(word: &AtomicU32, operation: i32, deadline: Option<u64>) -> Result<i64, i32> {
    let time = deadline
        .map(|ns| libc::timespec { tv_sec: (ns / SECOND_NS) as _, tv_nsec: (ns % SECOND_NS) as _ });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    check(unsafe { libc::syscall(libc::SYS_futex, word, operation | PRIVATE, 0, time, 0, 0) })
}

fn lock(word: &AtomicU32) -> Result<i64, i32> {
    call(word, LOCK, None)
}

fn unlock(word: &AtomicU32) -> Result<i64, i32> {
    call(word, UNLOCK, None)
}

/// Checks until `is_so` returns `true`. It sleeps in between, because it may run at the priority of a thread that
/// waits for it.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn set_policy(policy: i32, priority: i32) {
    let mut parameter: libc::sched_param = unsafe { zeroed() };
    parameter.sched_priority = priority;
    let id = own_id();
    must(unsafe { libc::syscall(libc::SYS_sched_setscheduler, id, policy, &parameter) });
}

/// Returns the priority at which thread `id` runs now, as `/proc` shows it: 20 for the usual, -1 - N for real-time
/// priority N.
fn priority_of(id: u32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
    let rest = stat.rsplit(") ").next().unwrap();
    rest.split(' ').nth(15).unwrap().parse().unwrap()
}

type Lock = Arc<AtomicU32>;

fn new_lock() -> Lock {
    Arc::new(AtomicU32::new(0))
}

/// Starts a thread that takes `word`, at a real-time priority. Returns its id once it waits or has the word.
fn waiter<T: Send + 'static>(
    word: &Lock,
    priority: i32,
    then: impl FnOnce(Result<i64, i32>) -> T + Send + 'static,
) -> (u32, JoinHandle<T>) {
    let (word, (tell, told)) = (word.clone(), mpsc::channel());
    let thread = thread::spawn(move || {
        if priority > 0 {
            set_policy(libc::SCHED_FIFO, priority);
        }
        tell.send(own_id()).unwrap();
        then(lock(&word))
    });
    let id = told.recv().unwrap();
    until(|| is_asleep(id));
    (id, thread)
}

#[test]
fn a_free_lock_is_taken_and_given_back() {
    isolated(|| {
        let word = AtomicU32::new(0);
        let own = own_id();
        assert_eq!(lock(&word), Ok(0));
        assert_eq!(word.load(SeqCst), own);
        assert_eq!(lock(&word), Err(libc::EDEADLK));
        assert_eq!(call(&word, TRY_LOCK, None), Err(libc::EDEADLK));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(call(&word, TRY_LOCK, None), Err(libc::EAGAIN));
                assert_eq!(unlock(&word), Err(libc::EPERM));
            });
        });
        assert_eq!(unlock(&word), Ok(0));
        assert_eq!(word.load(SeqCst), 0);
        assert_eq!(unlock(&word), Err(libc::EPERM));
        assert_eq!(call(&word, TRY_LOCK, None), Ok(0));
        assert_eq!(word.load(SeqCst), own);
        assert_eq!(call(&word, LOCK_2, None), Err(libc::EDEADLK));
    });
}

#[test]
fn words_and_owners_are_checked() {
    isolated(|| {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let misaligned = (&raw const words[0]).addr() + 1;
        let odd = unsafe { libc::syscall(libc::SYS_futex, misaligned, LOCK, 0, 0, 0, 0) };
        assert_eq!(check(odd), Err(libc::EINVAL));
        let nowhere = unsafe { libc::syscall(libc::SYS_futex, 4096usize, LOCK, 0, 0, 0, 0) };
        assert_eq!(check(nowhere), Err(libc::EFAULT));
        let ended = thread::spawn(own_id).join().unwrap();
        until(|| !fs::exists(format!("/proc/self/task/{ended}")).unwrap());
        words[0].store(ended, SeqCst);
        assert_eq!(lock(&words[0]), Err(libc::ESRCH));
        assert_eq!(words[0].load(SeqCst) & TID_MASK, ended, "it stays as it is");
        words[1].store(OWNER_DIED, SeqCst);
        assert_eq!(lock(&words[1]), Ok(0));
        assert_eq!(words[1].load(SeqCst), own_id() | OWNER_DIED, "the user is to mend it");
        assert_eq!(unlock(&words[1]), Ok(0));
        assert_eq!(words[1].load(SeqCst), 0);
    });
}

#[test]
fn a_lock_is_handed_over() {
    isolated(|| {
        let word = new_lock();
        lock(&word).unwrap();
        let seen = word.clone();
        let (id, thread) = waiter(&word, 0, move |taken| (taken, seen.load(SeqCst), unlock(&seen)));
        assert_eq!(word.load(SeqCst), own_id() | WAITERS);
        assert_eq!(unlock(&word), Ok(0));
        assert_eq!(thread.join().unwrap(), (Ok(0), id | WAITERS, Ok(0)));
        assert_eq!(word.load(SeqCst), 0);
    });
}

#[test]
fn one_thread_at_a_time_has_a_lock() {
    isolated(|| {
        let word = AtomicU32::new(0);
        let (count, inside) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own = own_id();
                    for round in 0..2000 {
                        if word.compare_exchange(0, own, SeqCst, SeqCst).is_err() {
                            lock(&word).unwrap();
                        }
                        assert!(!inside.swap(true, SeqCst));
                        count.store(count.load(SeqCst) + 1, SeqCst);
                        if round % 64 == 0 {
                            thread::yield_now();
                        }
                        inside.store(false, SeqCst);
                        if word.compare_exchange(own, 0, SeqCst, SeqCst).is_err() {
                            unlock(&word).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!((count.load(SeqCst), word.load(SeqCst)), (8000, 0));
    });
}

#[test]
fn who_is_more_urgent_gets_the_lock_first() {
    isolated(|| {
        let word = new_lock();
        lock(&word).unwrap();
        let (tell, told) = mpsc::channel();
        let threads: Vec<_> = [0, 10, 30, 20, 0, 30]
            .into_iter()
            .enumerate()
            .map(|(at, priority)| {
                let (word, tell) = (word.clone(), tell.clone());
                let own = word.clone();
                waiter(&own, priority, move |taken| {
                    taken.unwrap();
                    tell.send((priority, at)).unwrap();
                    unlock(&word).unwrap();
                })
            })
            .collect();
        unlock(&word).unwrap();
        threads.into_iter().for_each(|(_, thread)| thread.join().unwrap());
        let order: Vec<_> = told.try_iter().collect();
        assert_eq!(order, [(30, 2), (30, 5), (20, 3), (10, 1), (0, 0), (0, 4)]);
    });
}

#[test]
fn an_owner_runs_at_the_priority_of_who_waits_for_it() {
    isolated(|| {
        let word = new_lock();
        let own = own_id();
        lock(&word).unwrap();
        assert_eq!(priority_of(own), 20);
        let free = |word: &Lock| {
            let word = word.clone();
            move |taken: Result<i64, i32>| {
                taken.unwrap();
                unlock(&word).unwrap();
            }
        };
        let (_, one) = waiter(&word, 30, free(&word));
        assert_eq!(priority_of(own), -31);
        let (_, two) = waiter(&word, 10, free(&word));
        assert_eq!(priority_of(own), -31);
        let (_, three) = waiter(&word, 40, free(&word));
        assert_eq!(priority_of(own), -41);
        unlock(&word).unwrap();
        assert_eq!(priority_of(own), 20, "what it had from others it has no more");
        [one, two, three].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn priority_goes_along_a_chain_of_owners() {
    isolated(|| {
        let (first, second) = (new_lock(), new_lock());
        let own = own_id();
        lock(&first).unwrap();
        let (ready, wanted) = (Arc::new(Barrier::new(2)), first.clone());
        let (had, is_ready) = (second.clone(), ready.clone());
        let (tell, told) = mpsc::channel();
        let middle = thread::spawn(move || {
            lock(&had).unwrap();
            tell.send(own_id()).unwrap();
            is_ready.wait();
            lock(&wanted).unwrap();
            unlock(&wanted).unwrap();
            unlock(&had).unwrap();
        });
        let middle_id = told.recv().unwrap();
        ready.wait();
        until(|| first.load(SeqCst) & WAITERS != 0);
        assert_eq!((priority_of(middle_id), priority_of(own)), (20, 20));
        let word = second.clone();
        let (_, last) = waiter(&second, 25, move |taken| {
            taken.unwrap();
            unlock(&word).unwrap();
        });
        assert_eq!((priority_of(middle_id), priority_of(own)), (-26, -26));
        unlock(&first).unwrap();
        assert_eq!(priority_of(own), 20);
        middle.join().unwrap();
        last.join().unwrap();
    });
}

#[test]
fn who_would_wait_for_itself_is_told() {
    isolated(|| {
        let (first, second) = (new_lock(), new_lock());
        lock(&first).unwrap();
        let (had, wanted) = (second.clone(), first.clone());
        let (tell, told) = mpsc::channel();
        let other = thread::spawn(move || {
            lock(&had).unwrap();
            tell.send(()).unwrap();
            lock(&wanted).unwrap();
            unlock(&wanted).unwrap();
            unlock(&had).unwrap();
        });
        told.recv().unwrap();
        until(|| first.load(SeqCst) & WAITERS != 0);
        // Its wait is registered once the word shows it and this error comes.
        assert_eq!(lock(&second), Err(libc::EDEADLK));
        unlock(&first).unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_wait_for_a_lock_ends_in_time() {
    isolated(|| {
        let word = new_lock();
        lock(&word).unwrap();
        let other = word.clone();
        let thread = thread::spawn(move || {
            let own = own_id();
            let past = clock_ns(libc::CLOCK_REALTIME) - SECOND_NS;
            assert_eq!(call(&other, LOCK, Some(past)), Err(libc::ETIMEDOUT));
            let start = clock_ns(libc::CLOCK_MONOTONIC);
            let soon = clock_ns(libc::CLOCK_REALTIME) + SECOND_NS / 50;
            assert_eq!(call(&other, LOCK, Some(soon)), Err(libc::ETIMEDOUT));
            assert!(clock_ns(libc::CLOCK_MONOTONIC) - start >= SECOND_NS / 50 - SECOND_NS / 1000);
            let soon = clock_ns(libc::CLOCK_MONOTONIC) + SECOND_NS / 50;
            assert_eq!(call(&other, LOCK_2, Some(soon)), Err(libc::ETIMEDOUT));
            let soon = clock_ns(libc::CLOCK_REALTIME) + SECOND_NS / 50;
            assert_eq!(call(&other, LOCK_2 | REAL_TIME, Some(soon)), Err(libc::ETIMEDOUT));
            assert_eq!(call(&other, LOCK | REAL_TIME, Some(soon)), Err(libc::ENOSYS));
            assert_eq!(call(&other, WAIT | REAL_TIME, Some(soon)), Err(libc::ENOSYS));
            own
        });
        let id = thread.join().unwrap();
        assert_ne!(word.load(SeqCst) & TID_MASK, id);
        assert_eq!(unlock(&word), Ok(0), "nobody waits any more");
        assert_eq!(word.load(SeqCst), 0);
    });
}

#[test]
fn a_lock_goes_on_to_who_waits_when_its_owner_ends() {
    isolated(|| {
        let word = new_lock();
        let (go, ready) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (had, may_go, is_ready) = (word.clone(), go.clone(), ready.clone());
        let owner = thread::spawn(move || {
            lock(&had).unwrap();
            is_ready.wait();
            may_go.wait();
        });
        ready.wait();
        let seen = word.clone();
        let (id, heir) = waiter(&word, 0, move |taken| {
            let found = seen.load(SeqCst);
            (taken, found, unlock(&seen))
        });
        go.wait();
        owner.join().unwrap();
        let (taken, found, given) = heir.join().unwrap();
        assert_eq!((taken, given), (Ok(0), Ok(0)));
        assert_eq!(found & (TID_MASK | OWNER_DIED), id | OWNER_DIED);
    });
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn note_signal(_: i32) {
    HANDLED.fetch_add(1, SeqCst);
}

#[test]
fn a_handler_does_not_end_the_wait_for_a_lock() {
    isolated(|| {
        handle(libc::SIGUSR1, note_signal, 0);
        let word = new_lock();
        lock(&word).unwrap();
        let own = word.clone();
        let (id, thread) = waiter(&word, 0, move |taken| (taken, unlock(&own)));
        for round in 1..4 {
            let group = std::process::id();
            must(unsafe { libc::syscall(libc::SYS_tgkill, group, id, libc::SIGUSR1) });
            until(|| HANDLED.load(SeqCst) == round);
            until(|| is_asleep(id));
        }
        unlock(&word).unwrap();
        assert_eq!(thread.join().unwrap(), (Ok(0), Ok(0)));
    });
}

#[test]
fn processes_share_a_lock_in_shared_memory() {
    isolated(|| {
        let (flags, both) =
            (libc::MAP_SHARED | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, both, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let word = unsafe { &*at.cast::<AtomicU32>() };
        let shared = |operation: i32| {
            let (zero, null) = (0, std::ptr::null::<u8>());
            check(unsafe {
                libc::syscall(libc::SYS_futex, word, operation, zero, null, null, zero)
            })
        };
        shared(LOCK).unwrap();
        let child = fork(|| {
            assert_eq!(shared(UNLOCK), Err(libc::EPERM));
            assert_eq!(shared(TRY_LOCK), Err(libc::EAGAIN));
            assert_eq!(shared(LOCK), Ok(0));
            assert_eq!(word.load(SeqCst) & TID_MASK, own_id());
            // The thread ends with the lock held.
        });
        until(|| word.load(SeqCst) & WAITERS != 0);
        shared(UNLOCK).unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(
            shared(LOCK),
            Err(libc::ESRCH),
            "without a robust list nobody says that it ended"
        );
    });
}

/// `struct futex_waitv`.
#[repr(C)]
struct Wanted {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

const SIZE_32: u32 = 2;

fn wanted(word: &AtomicU32, value: u32) -> Wanted {
    let address = (&raw const *word).addr() as u64;
    Wanted { value: value.into(), address, flags: SIZE_32 | PRIVATE as u32, reserved: 0 }
}

fn wait_for(words: &[Wanted], deadline: Option<u64>) -> Result<i64, i32> {
    let time = deadline
        .map(|ns| libc::timespec { tv_sec: (ns / SECOND_NS) as _, tv_nsec: (ns % SECOND_NS) as _ });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (at, count, clock) = (words.as_ptr(), words.len(), libc::CLOCK_MONOTONIC);
    check(unsafe { libc::syscall(libc::SYS_futex_waitv, at, count, 0, time, clock) })
}

fn wake(word: &AtomicU32) -> i64 {
    let operation = libc::FUTEX_WAKE | PRIVATE;
    must(unsafe { libc::syscall(libc::SYS_futex, word, operation, 1, 0, 0, 0) })
}

#[test]
fn any_of_several_words_wakes_who_waits_for_them() {
    isolated(|| {
        let words: Arc<Vec<AtomicU32>> = Arc::new((0..8).map(AtomicU32::new).collect());
        for woken in [0, 3, 7] {
            let (own, (tell, told)) = (words.clone(), mpsc::channel());
            let thread = thread::spawn(move || {
                tell.send(own_id()).unwrap();
                let all: Vec<_> = own.iter().zip(0..).map(|(word, n)| wanted(word, n)).collect();
                wait_for(&all, None)
            });
            let id = told.recv().unwrap();
            until(|| is_asleep(id));
            until(|| wake(&words[woken]) == 1);
            assert_eq!(thread.join().unwrap(), Ok(woken as i64));
            assert!(words.iter().all(|word| wake(word) == 0), "it waits nowhere any more");
        }
    });
}

#[test]
fn waiting_for_several_words_is_checked() {
    isolated(|| {
        let words = [AtomicU32::new(1), AtomicU32::new(2)];
        let soon = || Some(clock_ns(libc::CLOCK_MONOTONIC) + SECOND_NS / 50);
        let both = || [wanted(&words[0], 1), wanted(&words[1], 2)];
        assert_eq!(wait_for(&both(), soon()), Err(libc::ETIMEDOUT));
        assert_eq!(wait_for(&both(), Some(0)), Err(libc::ETIMEDOUT));
        assert_eq!(
            wait_for(&[wanted(&words[0], 1), wanted(&words[1], 3)], None),
            Err(libc::EAGAIN)
        );
        assert_eq!(wake(&words[0]), 0);
        assert_eq!(wait_for(&[], soon()), Err(libc::EINVAL));
        let many: Vec<_> = (0..129).map(|_| wanted(&words[0], 1)).collect();
        assert_eq!(wait_for(&many, soon()), Err(libc::EINVAL));
        assert_eq!(wait_for(&many[..128], soon()), Err(libc::ETIMEDOUT));
        let odd = |change: &dyn Fn(&mut Wanted)| {
            let mut all = both();
            change(&mut all[1]);
            wait_for(&all, soon())
        };
        assert_eq!(odd(&|wanted| wanted.flags = 0), Err(libc::EINVAL));
        assert_eq!(odd(&|wanted| wanted.flags |= 0x10), Err(libc::EINVAL));
        assert_eq!(odd(&|wanted| wanted.reserved = 1), Err(libc::EINVAL));
        assert_eq!(odd(&|wanted| wanted.address += 1), Err(libc::EINVAL));
        assert_eq!(odd(&|wanted| wanted.address = 4096), Err(libc::EFAULT));
        let all = both();
        let bad = unsafe { libc::syscall(libc::SYS_futex_waitv, all.as_ptr(), 2, 1, 0, 0) };
        assert_eq!(check(bad), Err(libc::EINVAL), "it has no flags");
    });
}

const WAIT_TO_LOCK: i32 = libc::FUTEX_WAIT_REQUEUE_PI;
const REQUEUE_TO_LOCK: i32 = libc::FUTEX_CMP_REQUEUE_PI;

fn wait_to_lock(
    word: &AtomicU32,
    value: u32,
    lock: &AtomicU32,
    deadline: Option<u64>,
) -> Result<i64, i32> {
    let time = deadline
        .map(|ns| libc::timespec { tv_sec: (ns / SECOND_NS) as _, tv_nsec: (ns % SECOND_NS) as _ });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    check(unsafe {
        libc::syscall(libc::SYS_futex, word, WAIT_TO_LOCK | PRIVATE, value, time, lock, 0)
    })
}

fn requeue_to_lock(
    word: &AtomicU32,
    lock: &AtomicU32,
    (wake, most): (u32, u32),
    value: u32,
) -> Result<i64, i32> {
    let operation = REQUEUE_TO_LOCK | PRIVATE;
    check(unsafe {
        libc::syscall(libc::SYS_futex, word, operation, wake, most as usize, lock, value)
    })
}

#[test]
fn who_waits_for_a_condition_is_given_the_lock_or_made_wait_for_it() {
    isolated(|| {
        let words = Arc::new([AtomicU32::new(5), AtomicU32::new(0)]);
        let (tell, told) = mpsc::channel();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (own, tell) = (words.clone(), tell.clone());
                thread::spawn(move || {
                    tell.send(own_id()).unwrap();
                    wait_to_lock(&own[0], 5, &own[1], None).unwrap();
                    assert_eq!(own[1].load(SeqCst) & TID_MASK, own_id());
                    thread::yield_now();
                    unlock(&own[1]).unwrap();
                })
            })
            .collect();
        for _ in 0..3 {
            let id = told.recv().unwrap();
            until(|| is_asleep(id));
        }
        assert_eq!(requeue_to_lock(&words[0], &words[1], (1, 9), 4), Err(libc::EAGAIN));
        assert_eq!(requeue_to_lock(&words[0], &words[1], (2, 9), 5), Err(libc::EINVAL));
        assert_eq!(requeue_to_lock(&words[0], &words[0], (1, 9), 5), Err(libc::EINVAL));
        let mut moved = requeue_to_lock(&words[0], &words[1], (1, 0), 5).unwrap();
        assert_eq!(moved, 1, "the lock was free");
        moved += requeue_to_lock(&words[0], &words[1], (1, 9), 5).unwrap();
        assert_eq!(moved, 3);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(requeue_to_lock(&words[0], &words[1], (1, 9), 5), Ok(0));
        assert_eq!(call(&words[1], TRY_LOCK, None), Ok(0));
    });
}

#[test]
fn waiting_to_be_given_a_lock_is_checked_and_ends_in_time() {
    isolated(|| {
        let words = Arc::new([AtomicU32::new(5), AtomicU32::new(0)]);
        let soon = || Some(clock_ns(libc::CLOCK_MONOTONIC) + SECOND_NS / 50);
        assert_eq!(wait_to_lock(&words[0], 4, &words[1], soon()), Err(libc::EAGAIN));
        assert_eq!(wait_to_lock(&words[0], 5, &words[0], soon()), Err(libc::EINVAL));
        assert_eq!(wait_to_lock(&words[0], 5, &words[1], soon()), Err(libc::ETIMEDOUT));
        lock(&words[1]).unwrap();
        let (own, (tell, told)) = (words.clone(), mpsc::channel());
        let late = clock_ns(libc::CLOCK_MONOTONIC) + SECOND_NS / 2;
        let thread = thread::spawn(move || {
            tell.send(own_id()).unwrap();
            wait_to_lock(&own[0], 5, &own[1], Some(late))
        });
        let id = told.recv().unwrap();
        until(|| is_asleep(id));
        assert_eq!(requeue_to_lock(&words[0], &words[1], (1, 1), 5), Ok(1));
        assert_eq!(words[1].load(SeqCst), own_id() | WAITERS);
        assert_eq!(thread.join().unwrap(), Err(libc::ETIMEDOUT), "behind the lock, too");
        unlock(&words[1]).unwrap();
        assert_eq!(words[1].load(SeqCst), 0);
    });
}
