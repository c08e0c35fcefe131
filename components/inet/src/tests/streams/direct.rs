//! Bytes that go from one end of a connection to the other without a segment.
use super::world::*;
use crate::{ip::events::PacketEvent, service::streams::records};
use interfaces::sockets::{CloseKind, MoreData, SocketEvents, StreamOptions, StreamState};
use rt::NoMemory;
use std::sync::atomic::Ordering;

fn pair(host: &Host) -> (Program, Program) {
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    (client, server.accept().expect("a child"))
}

/// Returns the segments and the bytes of packets that a host has counted.
fn counted(host: &Host) -> (u64, u64) {
    let of = |event| host.inet.stack().events.get(event);
    let [(segments, octets), _] = records::uncounted(&host.inet);
    (of(PacketEvent::LocalSegments4) + segments, of(PacketEvent::LocalOctets4) + octets)
}

#[test]
fn bytes_are_acknowledged_within_the_call_and_counted_as_segments() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    for _ in 0..3 {
        client.write(b"a");
        child.write(b"b");
    }
    let (before, told) = (counted(&host), client.socket.info());
    for turn in 0..100u8 {
        child.told.take();
        assert_eq!(client.write(&[turn]), 1);
        assert_eq!(client.stream.unacknowledged(), 0);
        assert!(child.told.take().contains(SocketEvents::READABLE));
        child.write(&[turn, turn]);
        assert_eq!(child.stream.unacknowledged(), 0);
    }
    let after = counted(&host);
    assert_eq!(after.0 - before.0, 200);
    assert_eq!(after.1 - before.1, 200 * (20 + 20 + 12) + 300);
    let now = client.socket.info();
    assert_eq!(now.segs_out - told.segs_out, 100);
    assert_eq!(now.data_segs_in - told.data_segs_in, 100);
    assert_eq!(now.bytes_received - told.bytes_received, 200);
    assert_eq!((now.unacked, now.notsent_bytes, now.retrans), (0, 0, 0));
    let all: Vec<u8> = (0..100).flat_map(|turn| [turn, turn]).collect();
    assert_eq!(client.read(1000), [&b"bbb"[..], &all].concat());
    assert_eq!(child.read(1000)[3..], (0..100).collect::<Vec<u8>>());
    client.socket.close(CloseKind::Orderly);
    assert!(child.is(StreamState::RECEIVE_ENDED));
    child.socket.close(CloseKind::Orderly);
    assert_eq!(counted(&host).0 - after.0, 4, "two FINs and their acknowledgements");
}

#[test]
fn a_window_that_is_full_opens_again() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    let data: Vec<u8> = (0..400_000).map(byte).collect();
    let (mut sent, mut got) = (0, Vec::new());
    for turn in 0.. {
        assert!(turn < 1000, "{} of {sent}", got.len());
        // The writer fills what it can, then the reader takes all of it.
        while sent < data.len() {
            match client.write(&data[sent..(sent + 700).min(data.len())]) {
                0 => break,
                count => sent += count,
            }
        }
        host.wait(MS);
        got.extend(child.read(1_000_000));
        if got.len() == data.len() {
            break;
        }
    }
    assert!(got == data);
    // An acknowledgement may be delayed. Then nothing is under way again.
    host.wait(100 * MS);
    client.write(b"end");
    assert_eq!(child.read(10), b"end");
    assert_eq!(client.stream.unacknowledged(), 0);
}

/// Writes bytes that more will follow.
fn write_more(program: &Program, data: &[u8]) {
    let copy = |frames: &[rt::memory::Frame], offset: usize, length: usize| {
        Ok::<_, NoMemory>(frames.first().map_or(0, |frame| frame.write(offset, &data[..length])))
    };
    program.stream.write(data.len(), copy).unwrap();
    program.socket.written(MoreData::Soon);
}

#[test]
fn held_bytes_go_with_those_behind_them() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    for turn in 0..20 {
        client.write(b"one ");
        write_more(&client, b"two ");
        assert_eq!(child.read(100), b"one ");
        client.write(b"three");
        assert_eq!(child.read(100), b"two three", "turn {turn}");
        child.write(b"answer");
        assert_eq!(client.read(100), b"answer");
    }
}

#[test]
fn bytes_that_an_option_lets_go_go_without_a_segment() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    let set = |cork| client.socket.configure(&StreamOptions { cork, ..StreamOptions::default() });
    for turn in 0..20 {
        set(true);
        client.write(b"head ");
        client.write(b"body");
        assert!(child.read(100).is_empty(), "turn {turn}");
        set(false);
        assert_eq!(client.stream.unacknowledged(), 0, "turn {turn}");
        assert_eq!(child.read(100), b"head body");
        child.write(b"answer");
        assert_eq!(client.read(100), b"answer");
    }
    set(true);
    client.write(b"last");
    host.wait(250 * MS);
    assert_eq!(child.read(100), b"last", "corked bytes wait for 200 ms");
}

#[test]
fn both_ends_send_at_once() {
    const ROUNDS: usize = 20_000;
    let host = Host::new(1);
    let (client, child) = pair(&host);
    let work = |program: &Program| {
        let (mut sent, mut got, mut turns) = (0, 0, 0);
        while sent < ROUNDS || got < ROUNDS {
            turns += 1;
            assert!(turns < 100 * ROUNDS, "{sent} sent, {got} received");
            if sent < ROUNDS {
                sent += program.write(&[byte(sent)]);
            }
            for value in program.read(100) {
                assert_eq!(value, byte(got));
                got += 1;
            }
            // Nagle's algorithm may wait for an acknowledgement that is delayed.
            host.time.0.fetch_add(MS, Ordering::Relaxed);
            host.inet.poll();
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&client));
        scope.spawn(|| work(&child));
    });
}

/// The segments that a connection cut leave a rest in flight, whose acknowledgement is delayed. It comes with the next write.
#[test]
fn an_acknowledgement_that_waits_does_not_keep_bytes_from_going_without_a_segment() {
    const WRITE: usize = 65_536;
    let host = Host::new(1);
    let (client, child) = pair(&host);
    client.stream.set_send_limit(40 * WRITE);
    child.stream.set_receive_limit_max(6 << 20);
    let data: Vec<u8> = (0..WRITE).map(byte).collect();
    let mut direct = 0;
    for round in 0..20 {
        let mut got = Vec::new();
        for _ in 0..10 {
            assert_eq!(client.write(&data), WRITE);
            host.time.0.fetch_add(20_000, Ordering::Relaxed);
            direct += usize::from(round >= 10 && client.stream.unacknowledged() == 0);
        }
        loop {
            let part = child.read(WRITE);
            host.time.0.fetch_add(20_000, Ordering::Relaxed);
            if part.is_empty() {
                break;
            }
            got.extend(part);
        }
        assert!(got == data.repeat(10), "round {round}");
    }
    assert_eq!(direct, 100, "writes that were acknowledged within the call");
}

#[test]
fn bytes_that_waited_for_the_window_go_without_a_segment_when_the_program_reads() {
    const WRITE: usize = 65_536;
    let host = Host::new(1);
    let (client, child) = pair(&host);
    client.stream.set_send_limit(20 * WRITE);
    let data: Vec<u8> = (0..40 * WRITE).map(byte).collect();
    let (mut sent, mut got) = (0, Vec::new());
    let mut waited = 0;
    while got.len() < data.len() {
        while sent < data.len() && client.stream.room() > 0 {
            sent += client.write(&data[sent..(sent + WRITE).min(data.len())]);
        }
        waited += usize::from(client.socket.info().notsent_bytes > 0);
        client.told.take();
        let part = child.read(50_000);
        assert!(!part.is_empty(), "{} of {sent}", got.len());
        got.extend(part);
        assert_eq!(client.socket.info().unacked, 0, "segments in flight after {}", got.len());
    }
    assert!(got == data);
    assert!(waited > 10, "{waited}");
    assert_eq!((client.stream.unacknowledged(), client.socket.info().retrans), (0, 0));
    host.wait(1000 * MS);
    assert_eq!(client.socket.info().probes, 0);
}

#[test]
fn a_writer_that_waits_for_room_is_woken_when_the_reader_takes_its_bytes() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    let mut sent = 0;
    while client.stream.room() > 0 {
        sent += client.write(&[7; 16_384]);
    }
    let mut got = 0;
    client.told.take();
    while !client.told.take().contains(SocketEvents::WRITABLE) {
        let part = child.read(16_384);
        assert!(!part.is_empty(), "{got} of {sent}");
        got += part.len();
    }
    assert!(client.stream.is_writable() && got < sent);
}

#[test]
fn bytes_that_wait_for_the_window_of_a_reader_who_never_reads_are_probed_for() {
    let host = Host::new(1);
    let (client, child) = pair(&host);
    while client.stream.room() > 0 {
        client.write(&[7; 16_384]);
    }
    assert!(client.socket.info().notsent_bytes > 0);
    let before = child.socket.info().segs_out;
    host.wait(2000 * MS);
    assert!(child.socket.info().segs_out > before, "no probe was answered");
}
