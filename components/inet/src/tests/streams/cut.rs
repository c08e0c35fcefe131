//! Streams over links that cut packets of many segments in software.
use super::world::*;
use crate::*;
use interfaces::sockets::{CloseKind, SocketFamilies, StreamState};
use packet::ipv4::{Cutting, Ipv4};

/// Sends `total` bytes to `end` in writes of `size` bytes by a card with `offloads`, and ends the stream. Returns the frames and the
/// number of segments by `tcp_info`.
fn frames(end: &str, offloads: LinkOffloads, (total, size): (usize, usize)) -> (Vec<Vec<u8>>, u32) {
    let mut pair = Pair::new(1, Weather::default());
    pair.set_card(0, offloads);
    let families = if end.starts_with('[') { SocketFamilies::V6 } else { SocketFamilies::V4 };
    let server = Server::of(Program::with(&pair.hosts[1].inet, families), end, 5);
    let client = Program::with(&pair.hosts[0].inet, families);
    client.socket.connect(at(end)).unwrap();
    assert!(pair.until(60, |_| server.waiting() > 0 && client.is(StreamState::CONNECTED)));
    let child = server.accept().unwrap();
    let (mut sent, mut got, mut frames) = (0, Vec::new(), Vec::new());
    let data: Vec<u8> = (0..total).map(byte).collect();
    let is_done = pair.until(600, |pair| {
        got.extend(child.read(100_000));
        if sent < total {
            sent += client.write(&data[sent..total.min(sent + size)]);
            if sent == total {
                client.socket.shut_down_send();
            }
        }
        // Each is on its way after the next step.
        frames.extend(pair.cables[0].frames.lock().unwrap().iter().cloned());
        child.is(StreamState::RECEIVE_ENDED) && got.len() == total
    });
    assert!(is_done && got == data, "{} of {total}", got.len());
    let count = client.socket.info().segs_out;
    client.socket.close(CloseKind::Orderly);
    (frames, count)
}

/// Removes what differs on purpose: the identification of packets of IPv4 that nobody may cut, and the checksum over it.
fn without_number(mut frame: Vec<u8>) -> Vec<u8> {
    let ip = Ipv4::parse(&frame[14..34], frame.len() - 14);
    if ip.is_ok_and(|ip| ip.header.cutting() == Cutting::Forbidden) {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

#[test]
fn a_link_that_cuts_in_software_sends_the_same_bytes_as_segments_one_by_one() {
    for end in ["10.0.0.2:80", "[fd00::2]:80"] {
        for how in [(300_000, 60_000), (100_000, 8_191), (5_000, 5_000), (1, 1)] {
            let (one_by_one, segments) = frames(end, LinkOffloads::empty(), how);
            let (cut, of_cut) = frames(end, LinkOffloads::CUT_TCP, how);
            assert_eq!(of_cut, segments, "{end} {how:?}");
            assert_eq!(cut.len(), one_by_one.len(), "{end} {how:?}");
            for (number, (cut, one)) in cut.into_iter().zip(one_by_one).enumerate() {
                let (cut, one) = (without_number(cut), without_number(one));
                assert_eq!(cut, one, "frame {number} {end} {how:?}");
            }
        }
    }
}

#[test]
fn a_bad_link_that_cuts_in_software_carries_every_byte() {
    let weather = Weather { loss: 40, repeats: 20, damage: 20, jitter_ms: 10 };
    for seed in 1..4 {
        let mut pair = Pair::new(seed, weather);
        pair.set_card(0, LinkOffloads::CUT_TCP);
        let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
        let client = pair.hosts[0].connect("10.0.0.2:80");
        assert!(pair.until(600, |_| server.waiting() > 0 && client.is(StreamState::CONNECTED)));
        let mut ends = [End::new(client), End::new(server.accept().unwrap())];
        let data: Vec<u8> = (0..200_000).map(byte).collect();
        let is_done = pair.until(3600, |_| {
            ends.iter_mut().for_each(|end| end.work(&data));
            ends.iter().all(End::is_done)
        });
        assert!(is_done && ends.iter().all(|end| end.got == data), "seed {seed}");
    }
}
