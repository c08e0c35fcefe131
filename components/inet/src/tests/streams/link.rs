//! Streams between two hosts over a link that loses, repeats, reorders and damages frames; damage of routers' messages.
use super::world::*;
use crate::*;
use interfaces::sockets::{CloseKind, SocketError, StreamState};
use packet::{icmp::IcmpMessage, ipv4::Ipv4};
use zerocopy::IntoBytes;

/// Carries `total` bytes in both directions at the same time, and checks each.
fn transfer(seed: u64, weather: Weather, total: usize, server_end: &str) {
    let mut pair = Pair::new(seed, weather);
    let families = if server_end.starts_with('[') {
        interfaces::sockets::SocketFamilies::V6
    } else {
        interfaces::sockets::SocketFamilies::V4
    };
    let server = Server::of(Program::with(&pair.hosts[1].inet, families), server_end, 5);
    let client = Program::with(&pair.hosts[0].inet, families);
    client.socket.connect(at(server_end)).unwrap();
    let is_there = pair.until(600, |_| server.waiting() > 0 && client.is(StreamState::CONNECTED));
    assert!(is_there, "seed {seed}: no connection");
    let mut ends = [End::new(client), End::new(server.accept().unwrap())];
    let data: Vec<u8> = (0..total).map(byte).collect();
    let is_done = pair.until(3600, |_| {
        ends.iter_mut().for_each(|end| end.work(&data));
        ends.iter().all(End::is_done)
    });
    for end in &ends {
        let error = end.program.stream.take_error();
        let info = end.program.socket.info();
        assert!(is_done && end.got == data, "seed {seed}: {} {error:?} {info:?}", end.got.len());
    }
    drop(server);
    ends.iter().for_each(|end| end.program.socket.close(CloseKind::Orderly));
    drop(ends);
    pair.wait(700 * S);
    for host in &pair.hosts {
        assert_eq!(host.counts(), (0, 0, 0), "seed {seed}");
        assert_eq!(host.inet.streams().waiting.count(), 0);
    }
}

#[test]
fn a_clean_link_carries_every_byte() {
    transfer(1, Weather::default(), 1_000_000, "10.0.0.2:80");
    transfer(1, Weather::default(), 100_000, "[fd00::2]:80");
}

#[test]
fn a_bad_link_carries_every_byte() {
    let weather = Weather { loss: 40, repeats: 20, damage: 20, jitter_ms: 10 };
    (1..6).for_each(|seed| transfer(seed, weather, 200_000, "10.0.0.2:80"));
    transfer(9, weather, 100_000, "[fd00::2]:80");
}

#[test]
fn a_flood_of_syns_is_answered_by_cookies_which_open_connections() {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 4);
    let first = pair.hosts[0].connect("10.0.0.2:80");
    assert!(pair.until(10, |_| server.waiting() == 1) && first.is(StreamState::CONNECTED));
    let first = server.accept().unwrap();
    let take = |pair: &Pair, host: usize| -> Vec<Vec<u8>> {
        std::mem::take(&mut *pair.cables[host].frames.lock().unwrap()).into()
    };
    let clients: Vec<Program> = (0..10).map(|_| pair.hosts[0].connect("10.0.0.2:80")).collect();
    take(&pair, 0).iter().for_each(|syn| pair.give(1, syn));
    // Only the last answer arrives: for it nothing is stored.
    let answers = take(&pair, 1);
    assert_eq!((answers.len(), server.waiting()), (10, 0));
    pair.give(0, answers.last().unwrap());
    let last = clients.last().unwrap();
    assert!(last.is(StreamState::CONNECTED));
    last.write(b"by cookie");
    take(&pair, 0).iter().for_each(|frame| pair.give(1, frame));
    let child = server.accept().unwrap();
    assert_eq!(child.read(100), b"by cookie");
    let info = child.socket.info();
    assert_eq!((info.options & 7, info.snd_mss), (7, 1448), "the cookie kept the options");
    drop((first, clients, child));
}

#[test]
fn a_host_that_is_not_there_times_out() {
    let mut pair = Pair::new(1, Weather::default());
    let client = pair.hosts[0].connect("10.0.0.9:80");
    pair.wait(200 * S);
    // The neighbour does not answer, as on Linux.
    assert_eq!(client.stream.take_error(), Some(SocketError::HostUnreachable));
    assert_eq!(pair.hosts[0].counts(), (0, 0, 0));
    let client = pair.hosts[0].connect("10.0.0.2:81");
    pair.wait(S);
    assert_eq!(client.stream.take_error(), Some(SocketError::Refused));
}

#[test]
fn a_card_that_cuts_and_sums_gets_whole_segments() {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    let offloads = LinkOffloads::CHECKSUM | LinkOffloads::TCP4;
    let cable = Cable::new(offloads);
    let client = pair.hosts[0].connect("10.0.0.2:80");
    assert!(pair.until(10, |_| server.waiting() > 0));
    pair.wait(S);
    pair.hosts[0].inet.set_link(CARD, Some(cable.clone()));
    // The path is found again with the new card.
    pair.hosts[0].inet.stack().configure(|_| Ok::<_, ()>(())).unwrap();
    assert_eq!(client.write(&[7; 60_000]), 60_000);
    let frames: Vec<_> = std::mem::take(&mut *cable.frames.lock().unwrap()).into();
    assert!(frames.iter().any(|frame| frame.len() > 10_000), "segments are not cut");
    let whole = Ipv4::parse_quoted(&frames[0][14..]).unwrap();
    assert_eq!(whole.header.total_length(), frames[0].len() - 14);
    // The card would give this to the other host, with a checksum that it vouches for.
    for frame in frames {
        let mut payload = BufferChain::default();
        for part in frame.chunks(4096) {
            payload.append(BufferChain::copy_of(part).unwrap());
        }
        let frame = ReceivedFrame {
            payload,
            checksum: TransportChecksum::Verified,
            segment: Some(1448),
            acks: 0,
        };
        pair.hosts[1].inet.received(CARD, &mut vec![frame]);
    }
    let child = server.accept().unwrap();
    let got = child.read(100_000);
    assert!(got.len() > 10_000 && got.iter().all(|byte| *byte == 7));
}

/// Returns a frame from a router to the host 10.0.0.1 which says that `frame` is too long for `mtu`.
fn too_big(frame: &[u8], mtu: u16) -> Vec<u8> {
    let message = IcmpMessage::Unreachable { code: 4, mtu }.header();
    let mut icmp = [message.as_bytes(), &frame[14..14 + 28]].concat();
    let sum = packet::Sum::of(&icmp).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    ip[2..4].copy_from_slice(&((20 + icmp.len()) as u16).to_be_bytes());
    let sum = packet::Sum::of(&ip).checksum();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &icmp].concat()
}

#[test]
fn a_router_that_tells_a_smaller_mtu_is_believed_for_bytes_in_flight_alone() {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    let client = pair.hosts[0].connect("10.0.0.2:80");
    assert!(pair.until(10, |_| server.waiting() > 0));
    pair.wait(S);
    let child = server.accept().unwrap();
    client.write(&[1; 5000]);
    let frames: Vec<_> = std::mem::take(&mut *pair.cables[0].frames.lock().unwrap()).into();
    assert_eq!(frames[0].len(), 1514);
    let mut forged = too_big(&frames[0], 1000);
    // The sequence number of another segment.
    let place = forged.len() - 4;
    forged[place..].copy_from_slice(&[1, 2, 3, 4]);
    let sum_at = 14 + 20;
    forged[sum_at + 2..sum_at + 4].fill(0);
    let sum = packet::Sum::of(&forged[sum_at..]).checksum();
    forged[sum_at + 2..sum_at + 4].copy_from_slice(&sum.to_be_bytes());
    pair.give(0, &forged);
    assert_eq!(client.socket.info().pmtu, 1500);
    pair.give(0, &too_big(&frames[0], 1000));
    let again: Vec<_> = std::mem::take(&mut *pair.cables[0].frames.lock().unwrap()).into();
    assert_eq!(client.socket.info().pmtu, 1000);
    assert_eq!(
        again.iter().map(Vec::len).max(),
        Some(1014),
        "sent again at once, in shorter segments"
    );
    again.iter().for_each(|frame| pair.give(1, frame));
    pair.wait(5 * S);
    assert_eq!(child.read(10_000), [1; 5000]);
}
