//! Tests of threads at once: backlogs and flows under the locks of others.
use super::{
    flows::FlowOwner,
    socket::{SocketRole, TcpSocket},
};
use crate::tests::streams::world::*;
use interfaces::sockets::{CloseKind, StreamOptions};
use rt::NoMemory;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Returns the live socket whose local port is `port`.
fn live(host: &Host, port: u16) -> Arc<TcpSocket> {
    let all = host.inet.streams().flows.all();
    let owner = all.into_iter().find(|(flow, _)| flow.local_port == port).unwrap().1;
    let FlowOwner::Live(socket) = owner else { panic!("no connection") };
    socket
}

/// Returns a client and a child of a server on port 80.
fn pair(host: &Host) -> (Program, Program) {
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    let child = server.accept().unwrap();
    server.program.socket.close(CloseKind::Orderly);
    (client, child)
}

#[test]
fn a_segment_that_came_during_a_look_is_taken_after_it() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    let socket = live(&host, 80);
    socket.look(&host.inet, |_| {
        thread::scope(|scope| _ = scope.spawn(|| client.write(b"x")).join());
        assert_eq!(child.stream.readable(), 0, "the lock is held");
    });
    assert_eq!(child.stream.readable(), 1);
    let (_, has_backlog) = socket.look_within(|_| {
        thread::scope(|scope| _ = scope.spawn(|| client.write(b"y")).join());
    });
    assert!(has_backlog);
    host.inet.pass(|passage| passage.outside.awaited.push(socket.clone()));
    assert_eq!(child.read(10), b"xy");
    assert!(!socket.look_within(|_| ()).1);
}

#[test]
fn a_socket_that_has_lost_a_flow_gives_its_segments_back() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    client.socket.configure(&StreamOptions { no_delay: true, ..StreamOptions::default() });
    let (here, there) = (live(&host, client.socket.local().port()), live(&host, 80));
    let known = |change: Option<&Arc<TcpSocket>>| {
        host.inet.pass(|passage| {
            here.with(&host.inet, passage, |state, _| {
                let SocketRole::Live(live) = &mut state.role else { panic!("no connection") };
                if let Some(socket) = change {
                    live.peer_socket = Arc::downgrade(socket);
                }
                live.peer_socket.upgrade()
            })
        })
    };
    assert!(known(None).is_none());
    client.write(b"x");
    assert!(Arc::ptr_eq(&known(None).unwrap(), &there));
    // The client's own socket has another flow.
    known(Some(&here));
    client.write(b"y");
    assert_eq!(child.read(10), b"xy");
    assert_eq!(client.stream.readable(), 0);
}

#[test]
fn time_wait_ends_not_before_its_flow_is_free() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    let local = client.socket.local();
    client.socket.close(CloseKind::Orderly);
    child.socket.close(CloseKind::Orderly);
    let all = host.inet.streams().flows.all();
    let [(flow, FlowOwner::Waiting(waiting))] = all.as_slice() else { panic!("one in TIME-WAIT") };
    assert_eq!(flow.local_port, local.port());
    host.time.0.fetch_add(61 * S, std::sync::atomic::Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| host.inet.poll());
        host.inet.streams().flows.freeze(waiting.hash, || {
            assert!(waiting.state.try_lock().is_none(), "it ended, and its flow leads to it");
        });
    });
    assert_eq!(waiting.deadline_ns(), None);
    assert_eq!(host.counts(), (0, 0, 0));
}

#[test]
fn reads_are_told_only_where_they_open_the_window() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    // Nagle's algorithm would hold bytes back.
    client.socket.configure(&StreamOptions { no_delay: true, ..StreamOptions::default() });
    for _ in 0..100 {
        client.write(b"x");
        assert_eq!(child.read(10), b"x");
        assert!(!child.stream.is_read_awaited());
    }
    let sent: usize = (0..100).map(|_| client.write(&[0; 4000])).sum();
    assert!(child.stream.readable() < sent, "the window is closed");
    child.stream.read(1 << 20, |_, _, length| Ok::<_, NoMemory>(length)).unwrap();
    assert!(child.stream.is_read_awaited());
    child.socket.read();
    assert!(child.stream.readable() > 0, "it is open again");
}

/// Time stands still, so that no timer repairs what a writer or a reader missed of the other.
#[test]
fn a_writer_and_a_reader_at_once_miss_nothing_of_each_other() {
    const TOTAL: usize = 8 << 20;
    let host = Host::new(1);
    let (client, child) = pair(&host);
    client.socket.configure(&StreamOptions { no_delay: true, ..StreamOptions::default() });
    let end = Instant::now() + Duration::from_secs(120);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (data, mut sent) = (vec![7; 9000], 0);
            while sent < TOTAL && Instant::now() < end {
                let count = client.write(&data[..data.len().min(TOTAL - sent)]);
                sent += count;
                if count == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut got = 0;
        while got < TOTAL {
            let count = child.read(5000).len();
            got += count;
            if count == 0 {
                assert!(Instant::now() < end, "stuck after {got} bytes");
                thread::yield_now();
            }
        }
    });
}
