//! Internet sockets of several processes and threads: fork, exec, descriptors in messages, the end of a process, and what is left
//! behind.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, sleepers::Sleeper, *},
    *,
};
use libc::{ECONNRESET, ENOTCONN, SCM_RIGHTS};
use std::{
    fs,
    os::fd::{FromRawFd, OwnedFd},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

/// Returns the number of open files of this process.
fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Makes a pair of local sockets.
fn local_pair() -> (i32, i32) {
    let mut ends = [-1; 2];
    must(unsafe { libc::socketpair(libc::AF_UNIX, SOCK_STREAM, 0, ends.as_mut_ptr()) });
    (ends[0], ends[1])
}

/// Sends a descriptor.
fn pass(through: i32, fd: i32) {
    let control = number_control(SOL_SOCKET, SCM_RIGHTS, fd);
    assert_eq!(send_message(through, &[b"f"], None, &[control], 0), Ok(1));
}

/// Receives a descriptor.
fn take(from: i32) -> i32 {
    let got = receive_message(from, 1, 0).unwrap();
    got.number_of(SOL_SOCKET, SCM_RIGHTS).expect("a descriptor")
}

#[test]
fn a_child_has_its_parents_sockets() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let child = start_child(|| {
            let (served, from) = accept_from(fd, 0).unwrap();
            assert_eq!(peer(served), Ok(from));
            let request = receive_all(served, 4);
            send(served, &request, 0).unwrap();
        });
        let client = tcp();
        connect(client, at).unwrap();
        send(client, b"echo", 0).unwrap();
        assert_eq!(receive_all(client, 9), b"echo", "and then the end");
        assert_eq!(wait(child), Ended::Exited(0));
        let next = tcp();
        assert_eq!(connect(next, at), Ok(0), "the listener is open here");
    });
}

#[test]
fn a_connection_ends_when_the_last_process_closes_it() {
    networked(|| {
        let (client, server) = tcp_pair();
        let (hears, tells) = pipe();
        let child = start_child(|| {
            close(tells);
            assert_eq!(read(hears, 1), Ok(vec![]), "the parent has closed");
            send(server, b"from the child", 0).unwrap();
        });
        close(server);
        assert_eq!(polled(client, POLLRDHUP), 0);
        close(tells);
        assert_eq!(receive_all(client, 99), b"from the child");
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn the_end_of_a_process_ends_its_connections() {
    networked(|| {
        for (has_unread, wanted) in [(false, Ok(vec![])), (true, Err(ECONNRESET))] {
            let (client, server) = tcp_pair();
            let child = start_child(|| {
                close(client);
                loop {
                    unsafe { libc::pause() };
                }
            });
            close(server);
            if has_unread {
                send(client, b"unread", 0).unwrap();
                while ask_number(client, SIOCOUTQ) != Ok(0) {
                    thread::yield_now();
                }
            }
            assert_eq!(polled(client, POLLRDHUP), 0);
            must(unsafe { libc::kill(child, libc::SIGKILL) });
            assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
            await_events(client, POLLRDHUP);
            assert_eq!(receive(client, 9, 0), wanted);
        }
    });
}

#[test]
fn a_program_writes_to_a_connection() {
    networked(|| {
        let (client, server) = tcp_pair();
        let output = unsafe { OwnedFd::from_raw_fd(server) };
        let mut program = Command::new("/bin/sh");
        program.args(["-c", "echo by a shell; cat"]).stdin(Stdio::null());
        let status = program.stdout(Stdio::from(output)).status().unwrap();
        assert!(status.success());
        drop(program);
        assert_eq!(receive_all(client, 99), b"by a shell\n");
    });
}

#[test]
fn exec_closes_the_sockets_that_are_marked() {
    networked(|| {
        let fd = tcp();
        let keeps = must(unsafe { libc::fcntl(fd, libc::F_DUPFD, 70) }) as i32;
        let loses = must(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 80) }) as i32;
        let output = Command::new("/bin/sh")
            .args(["-c", "ls /proc/self/fd"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let has = |fd: i32| text.split_whitespace().any(|name| name == fd.to_string());
        assert!(has(keeps) && !has(loses), "{keeps} but not {loses}: {text}");
    });
}

#[test]
fn a_listener_and_a_connection_are_passed_to_another_process() {
    networked(|| {
        let (here, there) = local_pair();
        let (fd, at) = listener(LOCAL);
        let (client, server) = connection_to(fd);
        let child = start_child(|| {
            for fd in [fd, client, server, here] {
                close(fd);
            }
            let (listener, connection) = (take(there), take(there));
            assert_eq!(name(listener), Ok(at));
            send(connection, b"from afar", 0).unwrap();
            close(connection);
            let served = accept(listener).unwrap();
            send(served, b"accepted afar", 0).unwrap();
        });
        pass(here, fd);
        pass(here, server);
        close(fd);
        close(server);
        assert_eq!(receive_all(client, 99), b"from afar");
        let next = tcp();
        connect(next, at).unwrap();
        assert_eq!(receive_all(next, 99), b"accepted afar");
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_socket_in_a_message_that_is_dropped_is_closed() {
    networked(|| {
        let (here, there) = local_pair();
        let (client, server) = tcp_pair();
        pass(here, server);
        close(server);
        assert_eq!(polled(client, POLLRDHUP), 0, "it is under way");
        send(client, b"x", 0).unwrap();
        close(there);
        close(here);
        await_events(client, POLLHUP);
        assert_eq!(receive(client, 9, 0), Err(ECONNRESET), "with a byte unread");
    });
}

#[test]
fn each_connection_is_accepted_by_one_thread() {
    networked(|| {
        const CLIENTS: usize = 60;
        let (fd, at) = listener(LOCAL);
        let served = AtomicUsize::new(0);
        let mut names = Vec::new();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut names = Vec::new();
                        while let Ok((child, from)) = accept_from(fd, 0) {
                            send(child, b"served", 0).unwrap();
                            close(child);
                            names.push(from);
                            served.fetch_add(1, SeqCst);
                        }
                        names
                    })
                })
                .collect();
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                let client = tcp();
                connect(client, at).unwrap();
                clients.push(name(client).unwrap());
                assert_eq!(receive_all(client, 9), b"served");
                close(client);
            }
            while served.load(SeqCst) < CLIENTS {
                thread::yield_now();
            }
            shut_down(fd, SHUT_RD).unwrap();
            for worker in workers {
                names.extend(worker.join().unwrap());
            }
            names.sort_unstable();
            clients.sort_unstable();
            assert_eq!(names, clients);
        });
    });
}

#[test]
fn many_threads_talk_at_once() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok(child) = accept(fd) {
                    scope.spawn(move || {
                        loop {
                            let data = receive(child, 500, 0).unwrap();
                            if data.is_empty() {
                                break close(child);
                            }
                            send(child, &data, 0).unwrap();
                        }
                    });
                }
            });
            let clients: Vec<_> = (0..8u8)
                .map(|number| {
                    scope.spawn(move || {
                        for round in 0..10u8 {
                            let client = tcp();
                            connect(client, at).unwrap();
                            let data = vec![number * 10 + round; 1 + 97 * usize::from(round)];
                            send(client, &data, 0).unwrap();
                            assert_eq!(receive_all(client, data.len()), data);
                            close(client);
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            shut_down(fd, SHUT_RD).unwrap();
        });
    });
}

#[test]
fn a_close_does_not_wake_a_reader() {
    networked(|| {
        let (client, server) = tcp_pair();
        let copy = must(unsafe { libc::dup(server) }) as i32;
        let reader = Sleeper::start(move || receive(server, 9, 0));
        close(server);
        assert!(!reader.has_ended());
        send(client, b"still", 0).unwrap();
        assert_eq!(reader.answer(), Ok(b"still".to_vec()), "the call holds the socket");
        assert_eq!(receive(server, 9, 0), Err(libc::EBADF));
        close(copy);
        await_events(client, POLLRDHUP);
    });
}

#[test]
fn dup2_over_a_socket_closes_it() {
    networked(|| {
        let (client, server) = tcp_pair();
        let (one, _other) = tcp_pair();
        must(unsafe { libc::dup2(one, server) });
        await_events(client, POLLRDHUP);
        assert_eq!(receive(client, 9, 0), Ok(vec![]));
        assert_eq!(peer(server), peer(one), "it is the other one now");
    });
}

#[test]
fn a_loop_of_connections_leaves_nothing_behind() {
    networked(|| {
        let (fd, _) = listener(LOCAL);
        let lines = || fs::read_to_string("/proc/net/tcp").unwrap().lines().count();
        let used = || {
            let text = fs::read_to_string("/proc/net/sockstat").unwrap();
            let first = text.lines().next().unwrap().to_owned();
            first.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
        };
        let round = || {
            let (client, server) = connection_to(fd);
            send(client, b"x", 0).unwrap();
            receive(server, 9, 0).unwrap();
            // A reset, so that no TIME_WAIT is left.
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            set(client, SOL_SOCKET, libc::SO_LINGER, linger).unwrap();
            close(client);
            await_events(server, POLLHUP);
            assert_eq!(peer(server), Err(ENOTCONN));
            close(server);
            let (one, other) = udp_pair();
            send(one, b"x", 0).unwrap();
            close(one);
            close(other);
        };
        round();
        let before = (open_files(), lines(), used());
        for _ in 0..200 {
            round();
        }
        // A closed socket may take a moment to be freed.
        while used() > before.2 {
            thread::yield_now();
        }
        assert_eq!((open_files(), lines()), (before.0, before.1));
    });
}

#[test]
fn refused_connections_leave_nothing_behind() {
    networked(|| {
        let (_fd, at) = bound(SOCK_STREAM, LOCAL);
        let before = open_files();
        for _ in 0..200 {
            let client = tcp();
            assert_eq!(connect(client, at), Err(libc::ECONNREFUSED));
            close(client);
        }
        let text = fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X} ", at.port());
        assert!(!text.contains(&port), "{text}");
        assert_eq!(open_files(), before);
    });
}
