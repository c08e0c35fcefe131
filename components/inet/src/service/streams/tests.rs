//! What threads see of each other's locks.
use super::{flows::FlowOwner, socket::TcpSocket};
use crate::tests::streams::world::*;
use interfaces::sockets::CloseKind;
use std::{sync::Arc, thread};

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
