//! epoll: exclusive waiters, epolls in epolls, and the rules of nesting.
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
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

const ADD: i32 = libc::EPOLL_CTL_ADD;
const IN: u32 = libc::EPOLLIN as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
const EDGE: u32 = libc::EPOLLET as u32;

fn epoll() -> i32 {
    must(unsafe { libc::epoll_create1(0) }) as i32
}

fn control(epoll: i32, operation: i32, fd: i32, events: u32) -> Result<i64, i32> {
    let mut event = libc::epoll_event { events, u64: fd as u64 };
    check(unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) })
}

fn wait_for(epoll: i32, timeout_ms: i32) -> Result<i64, i32> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 4, timeout_ms) })
}

fn event_file() -> i32 {
    must(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) }) as i32
}

/// Threads that wait at one epoll each until one wakes; each adds itself to the count then.
struct Waiters {
    woken: Arc<AtomicU32>,
    threads: Vec<JoinHandle<()>>,
}

impl Waiters {
    /// Starts one thread for each of `epolls`; all sleep when this returns.
    fn start(epolls: &[i32]) -> Waiters {
        let woken = Arc::new(AtomicU32::new(0));
        let mut threads = Vec::new();
        for &epoll in epolls {
            let (woken, id) = (woken.clone(), Arc::new(AtomicU32::new(0)));
            let own = id.clone();
            threads.push(thread::spawn(move || {
                own.store(own_id(), SeqCst);
                assert_eq!(wait_for(epoll, -1), Ok(1));
                woken.fetch_add(1, SeqCst);
            }));
            while id.load(SeqCst) == 0 || !is_asleep(id.load(SeqCst)) {
                thread::yield_now();
            }
        }
        Waiters { woken, threads }
    }
    /// Waits until `count` of them have woken.
    fn until(&self, count: u32) {
        while self.woken.load(SeqCst) < count {
            thread::yield_now();
        }
    }
    /// Returns the number of threads that woke, after a pause for those that are waking.
    fn settled(&self) -> u32 {
        thread::sleep(std::time::Duration::from_millis(100));
        self.woken.load(SeqCst)
    }
    fn join(self) {
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Makes epolls that each watch `fd`.
fn watching(fd: i32, count: usize, events: u32) -> Vec<i32> {
    let made: Vec<i32> = (0..count).map(|_| epoll()).collect();
    for &one in &made {
        must(control(one, ADD, fd, events).map_or(-1, |value| value));
    }
    made
}

fn ring(fd: i32) {
    assert_eq!(write(fd, &1u64.to_ne_bytes()), Ok(8));
}

#[test]
fn a_wake_reaches_one_exclusive_epoll() {
    limited(|| {
        let fd = event_file();
        let epolls = watching(fd, 4, IN | EXCLUSIVE | EDGE);
        let waiters = Waiters::start(&epolls);
        for count in 1..=4 {
            ring(fd);
            waiters.until(count);
            assert_eq!(waiters.settled(), count, "one waiter a wake");
        }
        waiters.join();
    });
}

#[test]
fn a_wake_reaches_every_epoll_that_is_not_exclusive() {
    limited(|| {
        let fd = event_file();
        let mut epolls = watching(fd, 3, IN | EXCLUSIVE | EDGE);
        epolls.extend(watching(fd, 2, IN | EDGE));
        let waiters = Waiters::start(&epolls);
        ring(fd);
        waiters.until(3);
        assert_eq!(waiters.settled(), 3, "both plain ones and one of the others");
        ring(fd);
        waiters.until(4);
        ring(fd);
        waiters.join();
    });
}

#[test]
fn an_exclusive_epoll_that_nobody_waits_at_passes_the_wake_on() {
    limited(|| {
        let fd = event_file();
        let idle = watching(fd, 2, IN | EXCLUSIVE | EDGE);
        let busy = watching(fd, 1, IN | EXCLUSIVE | EDGE);
        let waiters = Waiters::start(&busy);
        ring(fd);
        waiters.join();
        // The threads that were not woken find it ready nevertheless.
        for epoll in idle {
            assert_eq!(wait_for(epoll, 0), Ok(1));
        }
    });
}

#[test]
fn an_exclusive_interest_is_neither_modified_nor_odd() {
    limited(|| {
        let (fd, one) = (event_file(), epoll());
        let modify = libc::EPOLL_CTL_MOD;
        assert_eq!(
            control(one, ADD, fd, IN | EXCLUSIVE | libc::EPOLLONESHOT as u32),
            Err(libc::EINVAL)
        );
        assert_eq!(control(one, ADD, fd, EXCLUSIVE | libc::EPOLLPRI as u32), Err(libc::EINVAL));
        assert_eq!(control(one, ADD, fd, IN | EXCLUSIVE), Ok(0));
        assert_eq!(control(one, ADD, fd, IN | EXCLUSIVE), Err(libc::EEXIST));
        assert_eq!(control(one, modify, fd, IN), Err(libc::EINVAL));
        assert_eq!(control(one, modify, fd, IN | EXCLUSIVE), Err(libc::EINVAL));
        assert_eq!(control(one, libc::EPOLL_CTL_DEL, fd, 0), Ok(0));
        assert_eq!(control(one, ADD, fd, IN), Ok(0));
        assert_eq!(control(one, modify, fd, IN | EXCLUSIVE), Err(libc::EINVAL));
        assert_eq!(control(epoll(), ADD, one, IN | EXCLUSIVE), Err(libc::EINVAL), "no epoll");
    });
}

/// Makes a chain of epolls, each of which watches the one before; the first watches an event file.
fn chain(length: usize) -> Result<Vec<i32>, (usize, i32)> {
    let mut made = vec![epoll()];
    assert_eq!(control(made[0], ADD, event_file(), IN), Ok(0));
    for at in 1..length {
        let next = epoll();
        control(next, ADD, made[at - 1], IN).map_err(|error| (at, error))?;
        made.push(next);
    }
    Ok(made)
}

#[test]
fn epolls_nest_five_deep() {
    limited(|| {
        assert!(chain(5).is_ok());
        assert_eq!(chain(6), Err((5, libc::ELOOP)));
        // Chains can also be joined from above: an epoll that already watches others is put below
        // another.
        let (low, high) = (chain(3).unwrap(), chain(3).unwrap());
        assert_eq!(control(high[0], ADD, low[2], IN), Err(libc::ELOOP));
        let (low, high) = (chain(3).unwrap(), chain(2).unwrap());
        assert_eq!(control(high[0], ADD, low[2], IN), Ok(0));
        assert_eq!(control(epoll(), ADD, high[1], IN), Err(libc::ELOOP));
    });
}

#[test]
fn epolls_do_not_watch_in_a_circle() {
    limited(|| {
        let three = chain(3).unwrap();
        for one in [0, 1] {
            assert_eq!(control(three[one], ADD, three[2], IN), Err(libc::ELOOP));
        }
        assert_eq!(control(three[0], ADD, three[0], IN), Err(libc::EINVAL));
        // Adding an epoll that is watched already makes no cycle.
        assert_eq!(control(three[2], ADD, three[1], IN), Err(libc::EEXIST));
        // Two paths to one epoll are not a cycle.
        let top = epoll();
        assert_eq!(control(top, ADD, three[0], IN), Ok(0));
        assert_eq!(control(top, ADD, three[1], IN), Ok(0));
    });
}

#[test]
fn a_wake_passes_through_nested_epolls() {
    limited(|| {
        let fd = event_file();
        let (inner, outer) = (epoll(), epoll());
        assert_eq!(control(inner, ADD, fd, IN), Ok(0));
        assert_eq!(control(outer, ADD, inner, IN), Ok(0));
        assert_eq!(wait_for(outer, 0), Ok(0));
        let waiters = Waiters::start(&[outer]);
        ring(fd);
        waiters.join();
        assert_eq!(wait_for(inner, 0), Ok(1));
        // An epoll without watchers still reports what was ready before.
        let late = epoll();
        assert_eq!(control(late, ADD, inner, IN), Ok(0));
        assert_eq!(wait_for(late, 0), Ok(1));
        assert_eq!(read(fd, 8).map(|bytes| bytes.len()), Ok(8));
        assert_eq!((wait_for(late, 0), wait_for(outer, 0)), (Ok(0), Ok(0)));
    });
}
