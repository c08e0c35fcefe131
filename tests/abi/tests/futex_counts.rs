//! futex: invalid counts, words that are not mapped, the waiters that each operation wakes, and the order
//! of errors.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    jobs::limited,
    tasks::{is_asleep, own_id},
    *,
};
use std::{
    ptr::{null, null_mut},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

const PAGE: usize = 4096;
const WAIT: i32 = libc::FUTEX_WAIT;
const WAKE: i32 = libc::FUTEX_WAKE;
const REQUEUE: i32 = libc::FUTEX_REQUEUE;
const CMP_REQUEUE: i32 = libc::FUTEX_CMP_REQUEUE;
const WAKE_OP: i32 = libc::FUTEX_WAKE_OP;
const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;
const REAL_TIME: i32 = libc::FUTEX_CLOCK_REALTIME;
/// Adds nothing to the second word, and compares it with 0: equal.
const ADD_NOTHING: u32 = 1 << 28;

/// Makes the raw call: word, operation, value, time or second value, second word, third value.
fn futex(
    word: usize,
    operation: i32,
    value: i32,
    fourth: usize,
    second: usize,
    last: u32,
) -> Result<i64, i32> {
    check(unsafe { libc::syscall(libc::SYS_futex, word, operation, value, fourth, second, last) })
}

fn at(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word) as usize
}

/// Threads that wait for words which hold 0.
#[derive(Default)]
struct Waiters {
    woken: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Waiters {
    /// Starts `count` more threads that wait for the word at `address`; they sleep when this returns.
    fn add(&mut self, count: usize, address: usize, scope: i32) {
        for _ in 0..count {
            let (woken, id) = (self.woken.clone(), Arc::new(AtomicU32::new(0)));
            let own = id.clone();
            self.threads.push(thread::spawn(move || {
                own.store(own_id(), SeqCst);
                while futex(address, WAIT | scope, 0, 0, 0, 0) == Err(libc::EINTR) {}
                woken.fetch_add(1, SeqCst);
            }));
            while id.load(SeqCst) == 0 || !is_asleep(id.load(SeqCst)) {
                thread::yield_now();
            }
        }
    }
    /// Wakes the remaining waiters at `address`, which must be `count`, and waits for all threads.
    fn end(self, address: usize, scope: i32, count: i64) {
        assert_eq!(futex(address, WAKE | scope, i32::MAX, 0, 0, 0), Ok(count));
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Maps memory of `pages` pages.
fn map(pages: usize, protection: i32, flags: i32, fd: i32) -> usize {
    let at = unsafe { libc::mmap(null_mut(), pages * PAGE, protection, flags, fd, 0) };
    assert_ne!(at, libc::MAP_FAILED, "mmap: {}", errno());
    at as usize
}

const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Returns a range of addresses that is not mapped.
fn hole() -> usize {
    let at = map(1, BOTH, ANONYMOUS, -1);
    must(unsafe { libc::munmap(at as *mut _, PAGE) });
    at
}

#[test]
fn a_requeue_refuses_negative_counts_first() {
    isolated(|| {
        let word = AtomicU32::new(0);
        for operation in [REQUEUE, CMP_REQUEUE] {
            for scope in [0, PRIVATE] {
                let call = |word: usize, wake: i32, move_: i32, expected: u32| {
                    futex(word, operation | scope, wake, move_ as usize, word, expected)
                };
                for (wake, moved) in [(-1, 0), (0, -1), (i32::MIN, 1), (1, i32::MIN), (-1, -1)] {
                    assert_eq!(call(at(&word), wake, moved, 0), Err(libc::EINVAL));
                    assert_eq!(call(at(&word), wake, moved, 1), Err(libc::EINVAL), "before EAGAIN");
                    assert_eq!(call(usize::MAX & !3, wake, moved, 0), Err(libc::EINVAL));
                }
                assert_eq!(call(usize::MAX & !3, 0, 0, 0), Err(libc::EFAULT));
                assert_eq!(call(at(&word), 0, 0, 0), Ok(0));
                assert_eq!(call(at(&word), i32::MAX, i32::MAX, 0), Ok(0));
            }
        }
        let pi = libc::FUTEX_CMP_REQUEUE_PI;
        let other = AtomicU32::new(0);
        for (wake, moved) in [(-1, 0), (1, -1), (0, 0), (2, 0)] {
            let result = futex(at(&word), pi, wake, moved as usize, at(&other), 1);
            assert_eq!(result, Err(libc::EINVAL), "{wake} {moved}");
        }
        assert_eq!(futex(at(&word), pi, 1, 0, at(&other), 1), Err(libc::EAGAIN));
    });
}

#[test]
fn a_requeue_counts_those_it_moved() {
    limited(|| {
        let words = [const { AtomicU32::new(0) }; 2];
        let [first, second] = [at(&words[0]), at(&words[1])];
        for operation in [REQUEUE, CMP_REQUEUE] {
            let mut waiters = Waiters::default();
            waiters.add(4, first, PRIVATE);
            assert_eq!(futex(first, operation | PRIVATE, 1, 2, second, 0), Ok(3));
            assert_eq!(futex(first, operation | PRIVATE, 0, 0, second, 0), Ok(0));
            assert_eq!(futex(first, WAKE | PRIVATE, 9, 0, 0, 0), Ok(1));
            waiters.end(second, PRIVATE, 2);
        }
    });
}

#[test]
fn a_wake_of_none_or_fewer_wakes_one() {
    limited(|| {
        let word = AtomicU32::new(0);
        for count in [0, -1, i32::MIN] {
            for operation in [WAKE, libc::FUTEX_WAKE_BITSET] {
                let mut waiters = Waiters::default();
                waiters.add(2, at(&word), PRIVATE);
                assert_eq!(futex(at(&word), operation | PRIVATE, count, 0, 0, 1), Ok(1));
                waiters.end(at(&word), PRIVATE, 1);
            }
        }
        // An operation on the second word counts in the same way.
        let other = AtomicU32::new(0);
        for count in [0, -1] {
            let (mut one, mut two) = (Waiters::default(), Waiters::default());
            one.add(2, at(&word), PRIVATE);
            two.add(2, at(&other), PRIVATE);
            let operation = WAKE_OP | PRIVATE;
            let result =
                futex(at(&word), operation, count, count as usize, at(&other), ADD_NOTHING);
            assert_eq!(result, Ok(2));
            one.end(at(&word), PRIVATE, 1);
            two.end(at(&other), PRIVATE, 1);
        }
    });
}

#[test]
fn a_shared_word_must_be_there() {
    isolated(|| {
        let good = map(1, BOTH, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        let none = map(1, BOTH, ANONYMOUS, -1);
        unsafe { *(none as *mut u32) = 0 };
        must(unsafe { libc::mprotect(none as *mut _, PAGE, libc::PROT_NONE) });
        let never = map(1, libc::PROT_NONE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        for bad in [hole(), none, never] {
            for operation in [WAKE, WAIT, libc::FUTEX_WAKE_BITSET, libc::FUTEX_WAIT_BITSET] {
                assert_eq!(futex(bad, operation, 1, 0, 0, 1), Err(libc::EFAULT), "{operation}");
            }
            for operation in [REQUEUE, CMP_REQUEUE, WAKE_OP] {
                assert_eq!(futex(bad, operation, 1, 1, good, 0), Err(libc::EFAULT));
                assert_eq!(futex(good, operation, 1, 1, bad, 0), Err(libc::EFAULT));
            }
            for operation in [libc::FUTEX_LOCK_PI, libc::FUTEX_TRYLOCK_PI, libc::FUTEX_UNLOCK_PI] {
                assert_eq!(futex(bad, operation, 0, 0, 0, 0), Err(libc::EFAULT), "{operation}");
            }
            // A private word is only its address; only operations that read it need it to be mapped.
            assert_eq!(futex(bad, WAKE | PRIVATE, 1, 0, 0, 0), Ok(0));
            assert_eq!(futex(bad, REQUEUE | PRIVATE, 1, 1, good, 0), Ok(0));
            assert_eq!(futex(good, CMP_REQUEUE | PRIVATE, 1, 1, bad, 0), Ok(0));
            assert_eq!(futex(bad, WAIT | PRIVATE, 1, 0, 0, 0), Err(libc::EFAULT));
            assert_eq!(futex(bad, CMP_REQUEUE | PRIVATE, 1, 1, good, 0), Err(libc::EFAULT));
            assert_eq!(futex(good, WAKE_OP | PRIVATE, 1, 1, bad, 0), Err(libc::EFAULT));
        }
        // Behind the end of a file nothing is mapped either.
        let scratch = Scratch::in_memory();
        let file = open(scratch.file("f", &[0; PAGE]), libc::O_RDWR, 0).unwrap();
        let two = map(2, BOTH, libc::MAP_SHARED, file);
        assert_eq!(futex(two, WAKE, 1, 0, 0, 0), Ok(0));
        assert_eq!(futex(two + PAGE, WAKE, 1, 0, 0, 0), Err(libc::EFAULT));
    });
}

#[test]
fn a_shared_word_may_be_read_only_in_a_file() {
    limited(|| {
        let private = map(1, libc::PROT_READ, ANONYMOUS, -1);
        assert_eq!(futex(private, WAKE, 1, 0, 0, 0), Err(libc::EFAULT), "nobody could change it");
        assert_eq!(futex(private, WAIT, 1, 0, 0, 0), Err(libc::EFAULT));
        assert_eq!(futex(private, WAKE | PRIVATE, 1, 0, 0, 0), Ok(0));
        assert_eq!(futex(private, WAIT | PRIVATE, 1, 0, 0, 0), Err(libc::EAGAIN));
        let scratch = Scratch::in_memory();
        let file = open(scratch.file("f", &[0; PAGE]), libc::O_RDWR, 0).unwrap();
        let writable = map(1, BOTH, libc::MAP_SHARED, file);
        for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
            let readable = map(1, libc::PROT_READ, flags, file);
            let mut waiters = Waiters::default();
            waiters.add(1, readable, 0);
            waiters.end(writable, 0, 1);
            let mut waiters = Waiters::default();
            waiters.add(1, writable, 0);
            waiters.end(readable, 0, 1);
            assert_eq!(futex(readable, libc::FUTEX_TRYLOCK_PI, 0, 0, 0, 0), Err(libc::EFAULT));
        }
        // A private mapping that may be written to is a word of its own.
        let own = map(1, BOTH, libc::MAP_PRIVATE, file);
        let mut waiters = Waiters::default();
        waiters.add(1, own, 0);
        assert_eq!(futex(writable, WAKE, 1, 0, 0, 0), Ok(0));
        waiters.end(own, 0, 1);
    });
}

#[test]
fn shared_and_private_waiters_do_not_meet() {
    limited(|| {
        let stack = AtomicU32::new(0);
        let shared = map(1, BOTH, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        for word in [at(&stack), map(1, BOTH, ANONYMOUS, -1), shared] {
            for scope in [0, PRIVATE] {
                let mut waiters = Waiters::default();
                waiters.add(2, word, scope);
                let other = scope ^ PRIVATE;
                assert_eq!(futex(word, WAKE | other, 9, 0, 0, 0), Ok(0), "{scope}");
                assert_eq!(futex(word, REQUEUE | other, 9, 9, word + 4, 0), Ok(0), "{scope}");
                waiters.end(word, scope, 2);
            }
        }
        // Two entries of a vector for one word, one shared and one private, are distinguished.
        let both = [(0x02, 0u64), (0x02 | 0x80, 0)];
        let vector: Vec<[u64; 3]> =
            both.iter().map(|(flags, value)| [*value, at(&stack) as u64, *flags]).collect();
        let (pointer, id) = (vector.as_ptr() as usize, Arc::new(AtomicU32::new(0)));
        let own = id.clone();
        let waiter = thread::spawn(move || {
            own.store(own_id(), SeqCst);
            check(unsafe { libc::syscall(libc::SYS_futex_waitv, pointer, 2, 0, null::<u8>(), 0) })
        });
        while id.load(SeqCst) == 0 || !is_asleep(id.load(SeqCst)) {
            thread::yield_now();
        }
        assert_eq!(futex(at(&stack), WAKE | PRIVATE, 1, 0, 0, 0), Ok(1));
        assert_eq!(waiter.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_time_that_is_wrong_is_told_before_the_clock() {
    isolated(|| {
        let word = AtomicU32::new(0);
        let wrong = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        let negative = libc::timespec { tv_sec: -1, tv_nsec: 0 };
        let right = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let time = |time: &libc::timespec| std::ptr::from_ref(time) as usize;
        for operation in [WAIT, libc::FUTEX_LOCK_PI] {
            for scope in [0, PRIVATE] {
                let call = |fourth: usize, word: usize| {
                    futex(word, operation | REAL_TIME | scope, 1, fourth, 0, 0)
                };
                assert_eq!(call(8, at(&word)), Err(libc::EFAULT), "{operation}");
                assert_eq!(call(time(&wrong), at(&word)), Err(libc::EINVAL), "{operation}");
                assert_eq!(call(time(&negative), at(&word)), Err(libc::EINVAL), "{operation}");
                assert_eq!(call(time(&right), at(&word)), Err(libc::ENOSYS), "{operation}");
                assert_eq!(call(0, at(&word)), Err(libc::ENOSYS), "{operation}");
                assert_eq!(call(0, 1), Err(libc::ENOSYS), "before the word");
            }
        }
        // Commands without a time ignore the argument.
        for operation in [WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, 8, 7, 10, 12] {
            let result = futex(at(&word), operation | REAL_TIME, 1, 8, at(&word), 0);
            assert_eq!(result, Err(libc::ENOSYS), "{operation}");
        }
        for operation in [libc::FUTEX_WAIT_BITSET, 11, 13] {
            let result = futex(at(&word), operation | REAL_TIME, 1, time(&wrong), at(&word), 1);
            assert_eq!(result, Err(libc::EINVAL), "{operation}");
            assert_eq!(futex(1, operation, 1, 8, at(&word), 1), Err(libc::EFAULT));
        }
        for operation in [2, 14, 99] {
            assert_eq!(futex(at(&word), operation, 1, 8, 0, 0), Err(libc::ENOSYS), "{operation}");
        }
        // An empty set is refused after the time, before the word.
        let bits = libc::FUTEX_WAIT_BITSET;
        assert_eq!(futex(at(&word), bits, 1, 8, 0, 0), Err(libc::EFAULT));
        assert_eq!(futex(at(&word), bits, 1, 0, 0, 0), Err(libc::EINVAL));
    });
}
