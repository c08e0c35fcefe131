//! Threads: shared memory and descriptors, futexes, exit of one and of all.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    os::unix::thread::JoinHandleExt,
    sync::{
        Arc, Barrier, Condvar, Mutex, RwLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

#[test]
fn threads_share_memory_and_are_joined() {
    isolated(|| {
        let sum = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..16u64)
            .map(|n| {
                let sum = sum.clone();
                thread::spawn(move || {
                    for _ in 0..1000 {
                        sum.fetch_add(n, SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sum.load(SeqCst), 1000 * (0..16).sum::<u64>());
    });
}

#[test]
fn a_mutex_excludes() {
    isolated(|| {
        let shared = Arc::new(Mutex::new((0u64, 0u64)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..5000 {
                        let mut pair = shared.lock().unwrap();
                        pair.0 += 1;
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*shared.lock().unwrap(), (20_000, 20_000));
    });
}

#[test]
fn a_condition_variable_passes_the_word() {
    isolated(|| {
        let turn = Arc::new((Mutex::new(0u32), Condvar::new()));
        let other = turn.clone();
        let thread = thread::spawn(move || {
            for round in 0..500 {
                let guard = other
                    .1
                    .wait_while(other.0.lock().unwrap(), |turn| *turn != 2 * round + 1)
                    .unwrap();
                *{ guard } += 1;
                other.1.notify_all();
            }
        });
        for round in 0..500 {
            let guard =
                turn.1.wait_while(turn.0.lock().unwrap(), |turn| *turn != 2 * round).unwrap();
            *{ guard } += 1;
            turn.1.notify_all();
        }
        thread.join().unwrap();
        assert_eq!(*turn.0.lock().unwrap(), 1000);
    });
}

#[test]
fn readers_and_writers_alternate() {
    isolated(|| {
        let shared = Arc::new(RwLock::new([0u64; 8]));
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..2000 {
                        if n == 0 {
                            shared.write().unwrap().iter_mut().for_each(|one| *one += 1);
                        } else {
                            let now = shared.read().unwrap();
                            assert!(now.iter().all(|&one| one == now[0]));
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_barrier_holds_until_all_are_there() {
    isolated(|| {
        let (barrier, arrived) = (Arc::new(Barrier::new(6)), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (0..6)
            .map(|_| {
                let (barrier, arrived) = (barrier.clone(), arrived.clone());
                thread::spawn(move || {
                    for round in 1..=50 {
                        arrived.fetch_add(1, SeqCst);
                        barrier.wait();
                        assert!(arrived.load(SeqCst) >= 6 * round);
                        barrier.wait();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn channels_carry_everything_in_order() {
    isolated(|| {
        let (sender, receiver) = mpsc::sync_channel(4);
        let thread = thread::spawn(move || (0..5000u32).for_each(|n| sender.send(n).unwrap()));
        assert!((0..5000).all(|n| receiver.recv() == Ok(n)));
        thread.join().unwrap();
    });
}

fn futex(
    word: &AtomicU32,
    operation: i32,
    value: u32,
    timeout: Option<&libc::timespec>,
) -> Result<i64, i32> {
    let timeout = timeout.map_or(std::ptr::null(), |time| time as *const _);
    // SAFETY: a live word and a whole timespec or none.
    check(unsafe { libc::syscall(libc::SYS_futex, word, operation, value, timeout, 0, 0) })
}

#[test]
fn a_futex_checks_its_word_and_its_time() {
    isolated(|| {
        let word = AtomicU32::new(5);
        assert_eq!(futex(&word, libc::FUTEX_WAIT, 4, None), Err(libc::EAGAIN));
        let soon = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let start = Instant::now();
        assert_eq!(futex(&word, libc::FUTEX_WAIT, 5, Some(&soon)), Err(libc::ETIMEDOUT));
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!(futex(&word, libc::FUTEX_WAKE, 1, None), Ok(0));
        let bad = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000_000 };
        assert_eq!(futex(&word, libc::FUTEX_WAIT, 5, Some(&bad)), Err(libc::EINVAL));
        // SAFETY: addresses the kernel must refuse.
        unsafe {
            assert_eq!(
                check(libc::syscall(libc::SYS_futex, 1usize, libc::FUTEX_WAIT, 0, 0)),
                Err(libc::EINVAL)
            );
            assert_eq!(
                check(libc::syscall(libc::SYS_futex, 4096usize, libc::FUTEX_WAIT, 0, 0)),
                Err(libc::EFAULT)
            );
            assert_eq!(
                check(libc::syscall(
                    libc::SYS_futex,
                    0xffff_8000_0000_0000usize,
                    libc::FUTEX_WAIT,
                    0,
                    0
                )),
                Err(libc::EFAULT)
            );
        }
    });
}

#[test]
fn a_futex_in_shared_memory_wakes_another_process() {
    isolated(|| {
        // SAFETY: a fresh shared page, used as two words.
        let words = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            &*at.cast::<[AtomicU32; 2]>()
        };
        let child = fork(|| {
            while words[0].load(SeqCst) == 0 {
                let _ = futex(&words[0], libc::FUTEX_WAIT, 0, None);
            }
            words[1].store(1, SeqCst);
        });
        words[0].store(1, SeqCst);
        futex(&words[0], libc::FUTEX_WAKE, 1, None).unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(words[1].load(SeqCst), 1);
    });
}

#[test]
fn exit_of_one_thread_ends_all() {
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                for _ in 0..3 {
                    thread::spawn(|| {
                        loop {
                            thread::park();
                        }
                    });
                }
                thread::spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                });
                // SAFETY: ends the process.
                unsafe { libc::_exit(9) }
            })),
            Ended::Exited(9)
        );
    });
}

#[test]
fn a_fatal_signal_in_one_thread_ends_all() {
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                thread::spawn(|| {
                    // SAFETY: meant to fault.
                    unsafe { std::ptr::write_volatile(8 as *mut u8, 1) }
                });
                loop {
                    thread::park();
                }
            })),
            Ended::Signalled(libc::SIGSEGV)
        );
    });
}

#[test]
fn exec_in_a_threaded_process_leaves_one_thread() {
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                thread::spawn(|| {
                    loop {
                        thread::park();
                    }
                });
                let words = [c("/bin/sh"), c("-c"), c("exit $(ls /proc/self/task | wc -l)")];
                let pointers =
                    [words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), std::ptr::null()];
                // SAFETY: NUL-terminated words.
                unsafe { libc::execv(words[0].as_ptr(), pointers.as_ptr()) };
            })),
            Ended::Exited(1)
        );
    });
}

#[test]
fn thread_local_values_stay_apart() {
    thread_local!(static VALUE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    isolated(|| {
        let threads: Vec<_> = (1..8u64)
            .map(|n| {
                thread::spawn(move || {
                    VALUE.set(n);
                    for _ in 0..100 {
                        thread::yield_now();
                        assert_eq!(VALUE.get(), n);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(VALUE.get(), 0);
    });
}

#[test]
fn descriptors_are_shared_safely() {
    isolated(|| {
        let (x, y) = (
            open("/dev/null", libc::O_RDONLY, 0).unwrap(),
            open("/dev/zero", libc::O_RDONLY, 0).unwrap(),
        );
        let threads: Vec<_> = [(x, y), (y, x)]
            .into_iter()
            .map(|(from, to)| {
                thread::spawn(move || {
                    for _ in 0..2000 {
                        // SAFETY: plain numbers (M9: dup2(x,y) against dup2(y,x)).
                        assert_eq!(check(unsafe { libc::dup2(from, to) }), Ok(to.into()));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(read(x, 1).is_ok() && read(y, 1).is_ok());
    });
}

#[test]
fn mapping_and_unmapping_beside_each_other_is_safe() {
    isolated(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..3u8)
            .map(|n| {
                let stop = stop.clone();
                thread::spawn(move || {
                    while !stop.load(SeqCst) {
                        // SAFETY: a mapping of the thread's own.
                        unsafe {
                            let at = libc::mmap(
                                std::ptr::null_mut(),
                                65536,
                                libc::PROT_READ | libc::PROT_WRITE,
                                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                                -1,
                                0,
                            )
                            .cast::<u8>();
                            for page in 0..16 {
                                assert_eq!(at.add(page * 4096).read_volatile(), 0);
                                at.add(page * 4096).write_volatile(n + 1);
                            }
                            assert!(
                                (0..16).all(|page| at.add(page * 4096).read_volatile() == n + 1)
                            );
                            must(libc::munmap(at.cast(), 65536));
                        }
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(200));
        stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_signal_goes_to_the_thread_it_names() {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn take(_: i32) {
        // SAFETY: no arguments.
        TAKEN.store(unsafe { libc::gettid() } as u32, SeqCst);
    }
    isolated(|| {
        handle(libc::SIGUSR1, take, libc::SA_RESTART);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // SAFETY: no arguments.
            sender.send(unsafe { libc::gettid() }).unwrap();
            loop {
                thread::park();
            }
        });
        let id = receiver.recv().unwrap();
        // SAFETY: plain numbers.
        must(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR1) });
        while TAKEN.load(SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(TAKEN.load(SeqCst), id as u32);
    });
}

/// Returns field 39 of `/proc/self/stat`, the last processor.
fn last_processor() -> usize {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = text.rsplit_once(") ").unwrap();
    fields.split(' ').nth(36).unwrap().parse().unwrap()
}

#[test]
fn affinity_and_policies_read_back() {
    isolated(|| {
        // SAFETY: processor sets are plain bits.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            must(libc::sched_getaffinity(0, std::mem::size_of_val(&set), &mut set));
            assert!(libc::CPU_COUNT(&set) >= 1);
            for cpu in (0..64).filter(|&cpu| libc::CPU_ISSET(cpu, &set)) {
                let mut one: libc::cpu_set_t = zeroed();
                libc::CPU_SET(cpu, &mut one);
                must(libc::sched_setaffinity(0, std::mem::size_of_val(&one), &one));
                assert_eq!(libc::sched_getcpu(), cpu as i32);
                assert_eq!(last_processor(), cpu, "as proc(5) counts");
            }
            assert_eq!(
                check(libc::syscall(libc::SYS_sched_getscheduler, 0)),
                Ok(libc::SCHED_OTHER.into())
            );
            assert_eq!(
                check(libc::sched_setaffinity(0, 8, zeroed::<[u64; 16]>().as_ptr().cast())),
                Err(libc::EINVAL)
            );
        }
    });
}

/// The creator sets the processor between clone and the thread's first step.
#[test]
fn who_is_bound_before_its_first_step_stays_there() {
    isolated(|| {
        // SAFETY: processor sets are plain bits.
        let mut allowed: libc::cpu_set_t = unsafe { zeroed() };
        let size = std::mem::size_of_val(&allowed);
        // SAFETY: as above.
        must(unsafe { libc::sched_getaffinity(0, size, &mut allowed) });
        // SAFETY: as above.
        let cpus = (0..64).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &allowed) });
        let cpus: Vec<usize> = cpus.collect();
        for &cpu in cpus.iter().cycle().take(60) {
            let (bind, bound) = mpsc::channel();
            let thread = thread::spawn(move || {
                bound.recv().unwrap();
                // SAFETY: they take nothing.
                (0..50)
                    .all(|_| unsafe { (libc::sched_getcpu(), libc::sched_yield()).0 } == cpu as i32)
            });
            let id = thread.as_pthread_t() as libc::pthread_t;
            // SAFETY: as above; the thread is not joined yet.
            unsafe {
                let mut one: libc::cpu_set_t = zeroed();
                libc::CPU_SET(cpu, &mut one);
                assert_eq!(libc::pthread_setaffinity_np(id, size, &one), 0);
            }
            bind.send(()).unwrap();
            assert!(thread.join().unwrap(), "bound to {cpu}");
        }
    });
}

/// The threads are moved while they wait, are woken, run and are queued.
#[test]
fn who_is_moved_all_the_time_loses_nothing() {
    isolated(|| {
        const ROUNDS: u32 = 1000;
        // SAFETY: processor sets are plain bits.
        let mut allowed: libc::cpu_set_t = unsafe { zeroed() };
        let size = std::mem::size_of_val(&allowed);
        // SAFETY: as above.
        must(unsafe { libc::sched_getaffinity(0, size, &mut allowed) });
        // SAFETY: as above.
        let cpus = (0..64).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &allowed) });
        let cpus: Vec<usize> = cpus.collect();
        let players = (0..3).flat_map(|_| {
            let ((to, at), (back, home)) = (mpsc::channel(), mpsc::channel());
            let hit = thread::spawn(move || {
                (0..ROUNDS).for_each(|round| {
                    to.send(round).unwrap();
                    assert_eq!(home.recv(), Ok(round));
                });
            });
            let returned =
                thread::spawn(move || at.iter().for_each(|ball| back.send(ball).unwrap()));
            [hit, returned]
        });
        let players: Vec<_> = players.collect();
        for turn in 0.. {
            if players.iter().all(|player| player.is_finished()) {
                break;
            }
            for (number, player) in players.iter().enumerate() {
                let id = player.as_pthread_t() as libc::pthread_t;
                // SAFETY: as above; none is joined yet.
                unsafe {
                    let mut one: libc::cpu_set_t = zeroed();
                    libc::CPU_SET(cpus[(turn + number) % cpus.len()], &mut one);
                    let outcome = libc::pthread_setaffinity_np(id, size, &one);
                    assert!([0, libc::ESRCH].contains(&outcome), "{outcome}");
                }
            }
        }
        players.into_iter().for_each(|player| player.join().unwrap());
    });
}
