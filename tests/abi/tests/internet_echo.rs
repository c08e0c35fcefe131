//! Answers to echo requests (icmp(7)): `icmp_echo_ignore_all` and `icmp_echo_ignore_broadcasts`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, ipc::Setting};
use libc::{EINVAL, SO_BROADCAST};
use std::net::SocketAddr;

const IGNORE_ALL: &str = "net/ipv4/icmp_echo_ignore_all";
const IGNORE_GROUPS: &str = "net/ipv4/icmp_echo_ignore_broadcasts";
/// Types of messages, and the bytes of the header of IPv4.
const REPLY: u8 = 0;
const REQUEST: u8 = 8;
const HEADER: usize = 20;

/// Returns the sum of the words of a message, as its checksum is.
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Asks a host for an echo.
fn ask(fd: i32, to: [u8; 4], number: u8) {
    let mut message = vec![REQUEST, 0, 0, 0, 0, 77, 0, number];
    let sum = checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    send_to(fd, &message, v4(to, 0)).unwrap();
}

/// Receives messages up to the answer with a number. Returns the numbers of all answers.
fn answers_until(fd: i32, last: u8) -> Vec<u8> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        await_events(fd, POLLIN);
        let packet = receive(fd, 200, 0).unwrap();
        if packet[HEADER] == REPLY {
            numbers.push(packet[HEADER + 7]);
        }
    }
    numbers
}

fn icmp() -> i32 {
    let fd = try_socket(AF_INET, SOCK_RAW, libc::IPPROTO_ICMP).unwrap();
    switch_on(fd, SOL_SOCKET, SO_BROADCAST);
    fd
}

#[test]
fn requests_are_answered_as_the_settings_say() {
    networked(|| {
        const HERE: [u8; 4] = [127, 0, 0, 1];
        let fd = icmp();
        let all = Setting::set(IGNORE_ALL, "0").unwrap();
        ask(fd, HERE, 1);
        assert_eq!(answers_until(fd, 1), [1]);
        all.change("1").unwrap();
        assert_eq!(all.text(), "1\n");
        ask(fd, HERE, 2);
        all.change("0").unwrap();
        ask(fd, HERE, 3);
        assert_eq!(answers_until(fd, 3), [3]);
        for wrong in ["2", "-1"] {
            assert_eq!(all.change(wrong), Err(EINVAL));
        }
    });
}

#[test]
fn requests_to_all_hosts_are_answered_as_the_settings_say() {
    networked(|| {
        // The address for all hosts of the network of loopback.
        const ALL: [u8; 4] = [127, 255, 255, 255];
        let fd = icmp();
        let groups = Setting::set(IGNORE_GROUPS, "1").unwrap();
        ask(fd, ALL, 1);
        groups.change("0").unwrap();
        ask(fd, ALL, 2);
        await_events(fd, POLLIN);
        let mut from: Option<SocketAddr> = None;
        let mut numbers = Vec::new();
        while from.is_none() {
            let (packet, sender) = receive_from(fd, 200, 0).unwrap();
            if packet[HEADER] == REPLY {
                numbers.push(packet[HEADER + 7]);
                from = Some(sender);
            }
        }
        assert_eq!(numbers, [2]);
        assert_eq!(from, Some(v4([127, 0, 0, 1], 0)));
    });
}
