//! smoltcp is the second opinion about streams.
use super::world::*;
use interfaces::sockets::{CloseKind, StreamState};
use std::time::Duration;
use wire::{Addresses, Peer, end::End};

/// The port of the peer's echo.
const ECHO: u16 = 7;

/// Brings frames between a host's cable and the peer for `ms` milliseconds.
fn exchange(pair: &mut Pair, peer: &mut Peer, ms: u64) {
    let end = now(pair) + ms * MS;
    while now(pair) < end {
        let at = Duration::from_nanos(now(pair));
        let frames = std::mem::take(&mut *pair.cables[1].frames.lock().unwrap());
        frames.iter().for_each(|frame| _ = peer.hear(frame, at));
        while let Some(frame) = peer.say(at).unwrap() {
            pair.give(1, &frame);
        }
        pair.hosts.iter().for_each(|host| host.wait(MS));
    }
}

fn now(pair: &Pair) -> u64 {
    use crate::InetClock;
    pair.hosts[1].time.now_ns()
}

#[test]
fn smoltcp_echoes_what_a_program_writes() {
    let mut pair = Pair::new(1, Weather::default());
    let (mut peer, _handle) = Peer::new(&Addresses::of(1), 1).unwrap();
    let client = pair.hosts[1].connect(&format!("10.0.0.1:{ECHO}"));
    exchange(&mut pair, &mut peer, 2000);
    assert!(client.is(StreamState::CONNECTED));
    let data: Vec<u8> = (0..100_000).map(byte).collect();
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..2000 {
        if sent < data.len() {
            sent += client.write(&data[sent..]);
        }
        exchange(&mut pair, &mut peer, 10);
        got.extend(client.read(100_000));
        if got.len() == data.len() {
            break;
        }
    }
    assert!(got == data, "{} of {sent}", got.len());
    client.socket.shut_down_send();
    exchange(&mut pair, &mut peer, 3000);
    assert!(client.is(StreamState::RECEIVE_ENDED));
}

#[test]
fn smoltcp_connects_and_hears_its_echo() {
    let mut pair = Pair::new(1, Weather::default());
    let (mut peer, handle) = Peer::new(&Addresses::of(1), 1).unwrap();
    let server = Server::new(&pair.hosts[1].inet, "0.0.0.0:77", 5);
    let stream = wire::Stream::Pattern { seed: 5, length: 50_000 };
    let talk = handle.connect_to_echo(at("10.0.0.2:77"), stream);
    let mut child = None;
    for _ in 0..3000 {
        exchange(&mut pair, &mut peer, 10);
        child = child.or_else(|| server.accept());
        let Some(child) = &child else { continue };
        let bytes = child.read(20_000);
        assert_eq!(child.write(&bytes), bytes.len());
        if child.is(StreamState::RECEIVE_ENDED) && child.stream.readable() == 0 {
            child.socket.close(CloseKind::Orderly);
            break;
        }
    }
    exchange(&mut pair, &mut peer, 5000);
    assert_eq!(handle.outcome(talk), Some(Ok(50_000)));
}
