//! Descriptors shared by threads, under stress (M5, M9), and directories of very many names.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

#[test]
fn a_read_in_progress_outlives_the_close_of_its_descriptor() {
    isolated(|| {
        let (reader, writer) = pipe();
        let waiting = thread::spawn(move || read(reader, 10));
        thread::sleep(Duration::from_millis(50));
        close(reader);
        let other = open("/dev/zero", libc::O_RDONLY, 0).unwrap();
        assert_eq!(other, reader);
        write(writer, b"late").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"late");
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        assert_eq!(write(writer, b"nobody"), Err(libc::EPIPE));
    });
}

#[test]
fn opening_and_closing_beside_each_other_loses_no_descriptor() {
    isolated(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let stop = stop.clone();
                thread::spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let one = open("/dev/null", libc::O_RDWR, 0).unwrap();
                        let two = must(unsafe { libc::dup(one) }) as i32;
                        assert_ne!(one, two);
                        assert_eq!(write(two, b"x"), Ok(1));
                        close(one);
                        close(two);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let rounds: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(rounds > 0);
        let open_now = std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open_now < 10, "{open_now} descriptors are left");
    });
}

#[test]
fn rings_of_dup2_keep_every_descriptor_open() {
    isolated(|| {
        const RING: i32 = 6;
        let first = 100;
        for at in 0..RING {
            let (reader, writer) = pipe();
            must(unsafe { libc::dup2(reader, first + at) });
            close(reader);
            close(writer);
        }
        let threads: Vec<_> = (0..RING)
            .map(|at| {
                thread::spawn(move || {
                    for _ in 0..3000 {
                        let (from, to) = (first + at, first + (at + 1) % RING);
                        assert_eq!(check(unsafe { libc::dup2(from, to) }), Ok(i64::from(to)));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for at in 0..RING {
            assert_eq!(read(first + at, 1).unwrap(), b"");
        }
    });
}

#[test]
fn forks_beside_changes_of_the_table_get_a_whole_one() {
    isolated(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let changing = {
            let stop = stop.clone();
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let one = open("/dev/null", libc::O_RDONLY, 0).unwrap();
                    must(unsafe { libc::dup2(one, 50) });
                    close(one);
                    close(50);
                }
            })
        };
        for _ in 0..50 {
            match must(unsafe { libc::fork() }) as i32 {
                0 => unsafe {
                    // Each descriptor of the table can be closed once and is then closed for all.
                    for fd in 3..60 {
                        if libc::close(fd) == 0 && libc::close(fd) == 0 {
                            libc::_exit(1);
                        }
                    }
                    libc::_exit(0)
                },
                child => assert_eq!(wait(child), Ended::Exited(0)),
            }
        }
        stop.store(true, Ordering::Relaxed);
        changing.join().unwrap();
    });
}

#[test]
fn locks_of_a_threads_process_are_one_owners() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let path = path.clone();
                thread::spawn(move || {
                    let fd = open(path, libc::O_RDWR, 0).unwrap();
                    let mut lock: libc::flock = unsafe { zeroed() };
                    lock.l_type = libc::F_WRLCK as i16;
                    for _ in 0..500 {
                        assert_eq!(check(unsafe { libc::fcntl(fd, libc::F_SETLK, &lock) }), Ok(0));
                    }
                    fd
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| close(thread.join().unwrap()));
    });
}

/// Returns names as getdents64 gives them, with the position behind each.
fn entries(fd: i32) -> Vec<(String, i64)> {
    let mut buffer = vec![0u8; 32768];
    let mut found = Vec::new();
    loop {
        let count = must(unsafe {
            libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len())
        });
        if count == 0 {
            return found;
        }
        let mut at = 0;
        while at < count as usize {
            let next = i64::from_ne_bytes(buffer[at + 8..at + 16].try_into().unwrap());
            let length =
                usize::from(u16::from_ne_bytes(buffer[at + 16..at + 18].try_into().unwrap()));
            let name = &buffer[at + 19..at + length];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            found.push((String::from_utf8(name[..end].to_vec()).unwrap(), next));
            at += length;
        }
    }
}

#[test]
fn positions_in_a_large_directory_last() {
    isolated(|| {
        const NAMES: usize = 20_000;
        let scratch = Scratch::new();
        let base = scratch.file("file", b"");
        std::fs::create_dir(scratch.path("many")).unwrap();
        let mut target = base.clone();
        for at in 0..NAMES {
            // A file has at most 65,000 names on ext4.
            if at % 10_000 == 0 {
                target = scratch.file(&format!("file{at}"), b"");
            }
            std::fs::hard_link(&target, scratch.path(&format!("many/name-{at}"))).unwrap();
        }
        let fd = open(scratch.path("many"), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let all = entries(fd);
        let names: HashSet<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((all.len(), names.len()), (NAMES + 2, NAMES + 2));
        for at in [0, 1, 77, NAMES / 2, NAMES - 1] {
            must(unsafe { libc::lseek(fd, all[at].1, libc::SEEK_SET) });
            let rest = entries(fd);
            assert_eq!(rest.len(), all.len() - at - 1);
            assert_eq!(rest[0], all[at + 1]);
        }
        // Removed names do not move the others.
        for (name, _) in all.iter().skip(3).step_by(2).filter(|(name, _)| name.starts_with("name"))
        {
            std::fs::remove_file(scratch.path(&format!("many/{name}"))).unwrap();
        }
        must(unsafe { libc::lseek(fd, all[NAMES / 2].1, libc::SEEK_SET) });
        let kept: HashSet<String> = entries(fd).into_iter().map(|(name, _)| name).collect();
        for (name, _) in all[NAMES / 2 + 1..].iter() {
            let is_there = scratch.path(&format!("many/{name}")).exists();
            assert_eq!(kept.contains(name), is_there, "{name}");
        }
        must(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) });
        assert_eq!(entries(fd)[..2].len(), 2);
    });
}

#[test]
fn attributes_of_scheduling_read_back() {
    isolated(|| {
        // size, policy, flags, nice, priority, runtime, deadline, period
        let mut attributes = [0u32; 12];
        let get = |attributes: &mut [u32; 12]| {
            check(unsafe {
                libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), 48, 0)
            })
        };
        let set = |attributes: &[u32; 12]| {
            check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attributes.as_ptr(), 0) })
        };
        get(&mut attributes).unwrap();
        assert_eq!((attributes[0], attributes[1], attributes[4]), (48, 0, 0));
        (attributes[0], attributes[1], attributes[4]) = (48, libc::SCHED_BATCH as u32, 5);
        set(&attributes).unwrap();
        get(&mut attributes).unwrap();
        assert_eq!((attributes[1], attributes[4]), (libc::SCHED_BATCH as u32, 5));
        assert_eq!(must(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }), 5);
        attributes[1] = 99;
        assert_eq!(set(&attributes), Err(libc::EINVAL));
    });
}
