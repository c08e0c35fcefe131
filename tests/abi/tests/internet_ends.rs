//! Ends of TCP connections: shutdown, close, resets, SO_LINGER, and the events that poll and epoll tell of them.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{sleepers::Sleeper, *},
    jobs::ignore,
    *,
};
use libc::{EAGAIN, ECONNRESET, EINVAL, ENOTCONN, EPIPE, SO_LINGER, SO_RCVBUF, SO_SNDBUF};
use std::thread;

/// The events of these tests: the rest follows from them.
const EVENTS: i16 = POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR;

/// Returns those of [`EVENTS`] that a socket has.
fn events(fd: i32) -> i16 {
    polled(fd, EVENTS) & EVENTS
}

/// Makes close send a reset.
fn reset_by_close(fd: i32) {
    set(fd, SOL_SOCKET, SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
    close(fd);
}

/// An epoll instance with one descriptor.
struct Watch(i32);

impl Watch {
    fn new(fd: i32, events: i32) -> Watch {
        let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
        let mut event = libc::epoll_event { events: events as u32, u64: 7 };
        must(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) });
        Watch(epoll)
    }
    /// Returns the events, 0 if there are none within the time.
    fn next(&self, timeout_ms: i32) -> i32 {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        match must(unsafe { libc::epoll_wait(self.0, &mut event, 1, timeout_ms) }) {
            0 => 0,
            _ => event.events as i32,
        }
    }
    /// Waits for these events, level by level or edge by edge.
    fn until(&self, events: i32) -> i32 {
        let mut all = 0;
        while all & events != events {
            all |= self.next(-1);
        }
        all
    }
}

#[test]
fn half_a_connection_goes_on() {
    networked(|| {
        ignore(libc::SIGPIPE);
        let (client, server) = tcp_pair();
        send(client, b"last", 0).unwrap();
        assert_eq!(shut_down(client, SHUT_WR), Ok(0));
        assert_eq!(send(client, b"x", 0), Err(EPIPE));
        assert_eq!(receive_all(server, 9), b"last");
        assert_eq!(receive(server, 9, 0), Ok(vec![]), "again and again");
        assert_eq!(send(server, b"answer", 0), Ok(6));
        assert_eq!(receive(client, 9, 0), Ok(b"answer".to_vec()));
        assert_eq!(shut_down(client, SHUT_WR), Ok(0), "a second time");
        assert_eq!(shut_down(server, SHUT_WR), Ok(0));
        assert_eq!(receive(client, 9, 0), Ok(vec![]));
    });
}

#[test]
fn shutdown_checks_its_argument_first() {
    networked(|| {
        let (client, _server) = tcp_pair();
        for how in [3, -1, i32::MAX] {
            assert_eq!(shut_down(client, how), Err(EINVAL));
            assert_eq!(shut_down(tcp(), how), Err(EINVAL));
        }
        assert_eq!(shut_down(tcp(), SHUT_RD), Err(ENOTCONN));
        assert_eq!(shut_down(udp(), SHUT_RD), Err(ENOTCONN));
    });
}

#[test]
fn a_reader_that_is_shut_down_reads_what_comes_nevertheless() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(client, b"before", 0).unwrap();
        await_events(server, POLLIN);
        assert_eq!(shut_down(server, SHUT_RD), Ok(0));
        assert_eq!(events(server), POLLIN | POLLOUT | POLLRDHUP);
        assert_eq!(receive(server, 9, 0), Ok(b"before".to_vec()));
        assert_eq!(receive(server, 9, 0), Ok(vec![]), "no waiting");
        // TCP does not tell the peer.
        assert_eq!(send(client, b"after", 0), Ok(5));
        while ask_number(server, FIONREAD) != Ok(5) {
            thread::yield_now();
        }
        assert_eq!(receive(server, 9, 0), Ok(b"after".to_vec()));
        assert_eq!(send(server, b"x", 0), Ok(1));
    });
}

#[test]
fn shutdown_wakes_a_reader() {
    networked(|| {
        let (_client, server) = tcp_pair();
        let sleeper = Sleeper::start(move || receive(server, 9, 0));
        assert_eq!(shut_down(server, SHUT_RD), Ok(0));
        assert_eq!(sleeper.answer(), Ok(vec![]));
        let (client, server) = tcp_pair();
        let sleeper = Sleeper::start(move || receive(server, 9, 0));
        assert_eq!(shut_down(client, SHUT_WR), Ok(0));
        assert_eq!(sleeper.answer(), Ok(vec![]));
        let (client, server) = tcp_pair();
        let sleeper = Sleeper::start(move || receive(server, 9, 0));
        reset_by_close(client);
        assert_eq!(sleeper.answer(), Err(ECONNRESET));
    });
}

#[test]
fn both_directions_that_are_shut_down_are_a_hangup() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(events(client), POLLOUT);
        shut_down(client, SHUT_WR).unwrap();
        assert_eq!(events(client), POLLOUT, "the writer's own end is no event");
        assert_eq!(await_events(server, POLLRDHUP) & EVENTS, POLLIN | POLLOUT | POLLRDHUP);
        shut_down(server, SHUT_WR).unwrap();
        let all = POLLIN | POLLOUT | POLLRDHUP | POLLHUP;
        assert_eq!(await_events(client, POLLHUP) & EVENTS, all);
        assert_eq!(await_events(server, POLLHUP) & EVENTS, all);
        assert_eq!(pending_error(client), 0);
        assert_eq!(shut_down(client, SHUT_RDWR), Err(ENOTCONN), "it is in TIME_WAIT");
        let (one, _other) = tcp_pair();
        shut_down(one, SHUT_RDWR).unwrap();
        assert_eq!(events(one), all, "at once");
    });
}

#[test]
fn a_close_is_an_end_of_the_peers_reading() {
    networked(|| {
        ignore(libc::SIGPIPE);
        let (client, server) = tcp_pair();
        send(client, b"last", 0).unwrap();
        close(client);
        assert_eq!(await_events(server, POLLRDHUP) & EVENTS, POLLIN | POLLOUT | POLLRDHUP);
        assert_eq!(receive(server, 9, 0), Ok(b"last".to_vec()));
        assert_eq!(receive(server, 9, 0), Ok(vec![]));
        assert!(peer(server).is_ok(), "the connection is half there");
        // Bytes for a peer that reads no longer bring a reset.
        assert_eq!(send(server, b"x", 0), Ok(1));
        await_events(server, POLLHUP);
        assert_eq!(events(server), EVENTS);
        assert_eq!(peer(server), Err(ENOTCONN));
        assert_eq!(send(server, b"x", 0), Err(EPIPE));
        assert_eq!(events(server), EVENTS & !POLLERR, "the error was told");
    });
}

#[test]
fn a_close_with_unread_bytes_is_a_reset() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(server, b"to be read first", 0).unwrap();
        await_events(client, POLLIN);
        send(client, b"unread", 0).unwrap();
        await_events(server, POLLIN);
        close(server);
        assert_eq!(await_events(client, POLLHUP) & EVENTS, EVENTS);
        // The bytes from before the reset are read first, then the error.
        assert_eq!(receive(client, 99, 0), Ok(b"to be read first".to_vec()));
        assert_eq!(receive(client, 99, 0), Err(ECONNRESET));
        assert_eq!(receive(client, 99, 0), Ok(vec![]));
        assert_eq!(events(client), EVENTS & !POLLERR);
    });
}

#[test]
fn lingering_for_no_time_is_a_reset() {
    networked(|| {
        ignore(libc::SIGPIPE);
        let (client, server) = tcp_pair();
        reset_by_close(client);
        assert_eq!(await_events(server, POLLHUP) & EVENTS, EVENTS);
        assert_eq!(pending_error(server), ECONNRESET);
        assert_eq!(pending_error(server), 0);
        assert_eq!(receive(server, 9, 0), Ok(vec![]));
        assert_eq!(send(server, b"x", 0), Err(EPIPE));
        assert_eq!(peer(server), Err(ENOTCONN));
        assert_eq!(shut_down(server, SHUT_WR), Err(ENOTCONN));
        assert!(name(server).is_ok());
    });
}

#[test]
fn a_reset_leaves_the_port_free() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let (client, server) = connection_to(fd);
        close(fd);
        reset_by_close(server);
        await_events(client, POLLHUP);
        assert_eq!(bind(tcp(), at), Ok(0), "there is no TIME_WAIT");
    });
}

#[test]
fn linger_is_kept_as_it_was_set() {
    networked(|| {
        let fd = tcp();
        let told = || {
            let told = unsafe { option_of::<libc::linger>(fd, SOL_SOCKET, SO_LINGER) }.unwrap();
            (told.l_onoff, told.l_linger)
        };
        assert_eq!(told(), (0, 0));
        for (l_onoff, l_linger, wanted) in [(1, 5, (1, 5)), (7, 0, (1, 0)), (0, 9, (0, 0))] {
            set(fd, SOL_SOCKET, SO_LINGER, libc::linger { l_onoff, l_linger }).unwrap();
            assert_eq!(told(), wanted);
        }
        assert_eq!(set(fd, SOL_SOCKET, SO_LINGER, 1i32), Err(EINVAL), "half of it");
    });
}

#[test]
fn a_lingering_close_returns_when_all_is_acknowledged() {
    networked(|| {
        let (client, server) = tcp_pair();
        let linger = libc::linger { l_onoff: 1, l_linger: 60 };
        set(client, SOL_SOCKET, SO_LINGER, linger).unwrap();
        send(client, b"all of it", 0).unwrap();
        close(client);
        assert_eq!(receive(server, 99, MSG_DONTWAIT), Ok(b"all of it".to_vec()), "it is there");
    });
}

#[test]
fn a_copy_of_the_descriptor_keeps_the_connection() {
    networked(|| {
        let (client, server) = tcp_pair();
        let copy = must(unsafe { libc::dup(client) }) as i32;
        close(client);
        assert_eq!(events(server), POLLOUT);
        assert_eq!(send(copy, b"x", 0), Ok(1));
        assert_eq!(receive(server, 9, 0), Ok(b"x".to_vec()));
        // A shutdown is for all copies.
        let other = must(unsafe { libc::dup(copy) }) as i32;
        shut_down(other, SHUT_WR).unwrap();
        assert_eq!(send(copy, b"x", libc::MSG_NOSIGNAL), Err(EPIPE));
        assert_eq!(receive(server, 9, 0), Ok(vec![]));
    });
}

#[test]
fn a_socket_without_a_connection_hangs() {
    networked(|| {
        assert_eq!(events(tcp()), POLLOUT | POLLHUP);
        assert_eq!(events(bound(SOCK_STREAM, LOCAL).0), POLLOUT | POLLHUP);
        assert_eq!(events(listener(LOCAL).0), 0);
        assert_eq!(events(udp()), POLLOUT);
        let watch = Watch::new(tcp(), libc::EPOLLIN | libc::EPOLLOUT);
        assert_eq!(watch.next(0), libc::EPOLLOUT | libc::EPOLLHUP);
    });
}

#[test]
fn a_level_is_told_until_it_is_gone() {
    networked(|| {
        let (client, server) = tcp_pair();
        let watch = Watch::new(server, libc::EPOLLIN | libc::EPOLLRDHUP);
        assert_eq!(watch.next(0), 0);
        send(client, b"ab", 0).unwrap();
        assert_eq!((watch.next(-1), watch.next(-1)), (libc::EPOLLIN, libc::EPOLLIN));
        receive(server, 1, 0).unwrap();
        assert_eq!(watch.next(0), libc::EPOLLIN);
        receive(server, 9, 0).unwrap();
        assert_eq!(watch.next(0), 0);
        shut_down(client, SHUT_WR).unwrap();
        assert_eq!(watch.until(libc::EPOLLRDHUP), libc::EPOLLIN | libc::EPOLLRDHUP);
        assert_eq!(watch.next(0), libc::EPOLLIN | libc::EPOLLRDHUP);
    });
}

#[test]
fn an_edge_is_told_once_for_each_arrival() {
    networked(|| {
        let (client, server) = tcp_pair();
        let watch = Watch::new(server, libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET);
        assert_eq!(watch.next(0), 0);
        send(client, b"ab", 0).unwrap();
        assert_eq!(watch.next(-1), libc::EPOLLIN);
        assert_eq!(watch.next(0), 0, "it was told");
        receive(server, 1, 0).unwrap();
        assert_eq!(watch.next(0), 0, "a read is no arrival");
        send(client, b"c", 0).unwrap();
        assert_eq!(watch.next(-1), libc::EPOLLIN, "though bytes were there");
        shut_down(client, SHUT_WR).unwrap();
        assert_eq!(watch.until(libc::EPOLLRDHUP), libc::EPOLLIN | libc::EPOLLRDHUP);
        assert_eq!(watch.next(0), 0);
        assert_eq!(receive_all(server, 9), b"bc");
    });
}

#[test]
fn one_shot_is_told_once_until_it_is_armed_again() {
    networked(|| {
        let (client, server) = tcp_pair();
        let watch = Watch::new(server, libc::EPOLLIN | libc::EPOLLONESHOT);
        send(client, b"a", 0).unwrap();
        assert_eq!(watch.next(-1), libc::EPOLLIN);
        send(client, b"b", 0).unwrap();
        assert_eq!(watch.next(0), 0);
        let events = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        let mut event = libc::epoll_event { events, u64: 7 };
        must(unsafe { libc::epoll_ctl(watch.0, libc::EPOLL_CTL_MOD, server, &mut event) });
        assert_eq!(watch.next(-1), libc::EPOLLIN, "what is there counts");
    });
}

#[test]
fn a_reset_wakes_epoll_with_all_events() {
    networked(|| {
        let (client, server) = tcp_pair();
        let wanted = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let watch = Watch::new(server, wanted);
        assert_eq!(watch.next(-1), libc::EPOLLOUT);
        reset_by_close(client);
        let events = watch.until(libc::EPOLLHUP | libc::EPOLLERR);
        let all = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLHUP;
        assert_eq!(events, all | libc::EPOLLERR);
        let only = Watch::new(server, 0);
        assert_eq!(only.next(0), libc::EPOLLHUP | libc::EPOLLERR, "these need not be asked for");
    });
}

#[test]
fn a_full_queue_can_be_written_when_a_third_of_it_is_free() {
    networked(|| {
        let (fd, _) = bound(SOCK_STREAM, LOCAL);
        set(fd, SOL_SOCKET, SO_RCVBUF, 16_384i32).unwrap();
        listen(fd, 1).unwrap();
        let (client, server) = connection_to(fd);
        set(client, SOL_SOCKET, SO_SNDBUF, 100_000i32).unwrap();
        let watch = Watch::new(client, libc::EPOLLOUT | libc::EPOLLET);
        assert_eq!(watch.next(-1), libc::EPOLLOUT);
        let mut sent = 0;
        loop {
            match send(client, &[1; 1000], MSG_DONTWAIT) {
                Ok(count) => sent += count,
                Err(EAGAIN) if polled(client, POLLOUT) == 0 => break,
                Err(EAGAIN) => {}
                Err(error) => panic!("{error}"),
            }
        }
        while watch.next(0) != 0 {}
        // Each byte that is taken frees room in the end, and only much room is an event.
        let mut taken = 0;
        while watch.next(0) == 0 {
            taken += receive(server, 1000, MSG_DONTWAIT).map_or(0, |bytes| bytes.len());
            assert!(taken < sent, "an event before all is read");
        }
        assert!(taken > 1000, "{taken} of {sent}");
        await_events(client, POLLOUT);
        let more = std::iter::from_fn(|| send(client, &[1; 1000], MSG_DONTWAIT).ok()).count();
        assert!(more > 1, "there is room for more than a piece");
    });
}

#[test]
fn a_poll_of_many_sockets_finds_those_with_events() {
    networked(|| {
        let pairs = [(); 50].map(|()| tcp_pair());
        let chosen = [3usize, 17, 49];
        for at in chosen {
            send(pairs[at].0, b"x", 0).unwrap();
            await_events(pairs[at].1, POLLIN);
        }
        let mut entries = pairs.map(|(_, fd)| libc::pollfd { fd, events: POLLIN, revents: 0 });
        assert_eq!(must(unsafe { libc::poll(entries.as_mut_ptr(), 50, -1) }), 3);
        let found = entries.iter().enumerate().filter(|(_, entry)| entry.revents == POLLIN);
        assert_eq!(found.map(|(at, _)| at).collect::<Vec<_>>(), chosen);
        let mut set: libc::fd_set = unsafe { zeroed() };
        pairs.iter().for_each(|(_, fd)| unsafe { libc::FD_SET(*fd, &mut set) });
        let none = std::ptr::null_mut();
        let most = pairs[49].1 + 1;
        assert_eq!(must(unsafe { libc::select(most, &mut set, none, none, none.cast()) }), 3);
        assert!(unsafe { libc::FD_ISSET(pairs[17].1, &set) });
    });
}
