//! Random options and control messages of datagram sockets: whatever they are, the socket answers, and goes on.
//!
//! `SKERRY_FUZZ_COUNT` is the number of sockets (2,000 by default), `SKERRY_FUZZ_SEED` the first seed. `./x campaign packets` uses more.
use super::*;
use crate::socket::{
    interface::{Outgoing, Receive, Socket},
    internet::test_support::{
        READ, SENT, for_each_seed, given, input_of, nobody, random_option, random_value, stack,
    },
};
use inet::Inet;
use interfaces::sockets::{Network, SocketProtocol};
use std::{vec, vec::Vec};
use vfs::{
    Credentials,
    file::File,
    io::{SliceSink, SliceSource},
};
use xorshift::Xorshift;

const COUNT: u64 = 2000;
/// Options that are set, and messages that are sent, of one socket.
const STEPS: usize = 12;

fn random_socket(inet: &Inet, numbers: &mut Xorshift) -> Arc<InternetDatagram> {
    let family = [AddressFamily::V4, AddressFamily::V6][numbers.below(2)];
    let (kind, protocol) = match numbers.below(5) {
        0 | 1 => (SocketKind::Datagram, DatagramProtocol::Udp),
        2 => (SocketKind::Datagram, DatagramProtocol::UdpLite),
        3 => (SocketKind::Datagram, DatagramProtocol::Ping),
        _ => (SocketKind::Raw, DatagramProtocol::Raw([1, 58, 200, 255][numbers.below(4)])),
    };
    InternetDatagram::open(inet, (family, kind), protocol, nobody()).unwrap()
}

/// Returns control messages whose lengths are mostly right.
fn random_control(numbers: &mut Xorshift) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..numbers.below(3) {
        let ((level, kind), value) = random_option(numbers);
        let length = match numbers.below(12) {
            0 => numbers.below(40) as u64,
            1 => numbers.next(),
            _ => 16 + value.len() as u64,
        };
        all.extend(length.to_le_bytes());
        all.extend([level, kind].map(u32::to_le_bytes).concat());
        all.extend(value);
        all.resize(all.len().next_multiple_of(8), 0);
    }
    if numbers.chance(1, 8) {
        all.truncate(numbers.below(all.len() + 1));
    }
    all
}

#[test]
fn random_requests_of_a_datagram_socket_do_no_harm() {
    let inet = stack();
    for_each_seed(COUNT, |numbers| {
        let (socket, peer) = (random_socket(&inet, numbers), random_socket(&inet, numbers));
        for _ in 0..STEPS {
            let one = if numbers.chance(1, 2) { &socket } else { &peer };
            let (option, value) = random_option(numbers);
            let who = Credentials::root();
            // Most are refused. What matters is that each is answered.
            let _ = one.set_internet_option(&who, option, &input_of(&value));
            let _ = one.internet_option(option, numbers.below(300));
            let _ = one.connect_to(&peer.name());
            let control = random_control(numbers);
            let to = given("127.0.0.1:9");
            let message = Outgoing {
                control: &control,
                may_send_raw: numbers.chance(1, 2),
                to: numbers.chance(1, 2).then_some(&to),
                ..Outgoing::default()
            };
            let data = random_value(numbers);
            let _ = one.send_datagram(&mut SliceSource::new(&data), &message, SENT);
            for is_error_queue in [false, true] {
                let how = Receive { is_error_queue, ..READ };
                let mut bytes = vec![0; 300];
                let sink = &mut SliceSink::new(&mut bytes);
                let _ = peer.receive_datagram(sink, how, None);
            }
        }
        socket.closed();
        peer.closed();
    });
    let protocols =
        [SocketProtocol::Udp, SocketProtocol::UdpLite, SocketProtocol::Raw, SocketProtocol::Ping];
    for protocol in protocols {
        assert!(inet.administration().sockets(protocol).is_empty(), "sockets are left");
    }
}
