//! The answers of a machine that has no more than addresses: ARP (RFC 826), neighbour solicitations (RFC 4861, section 4.3), echo
//! requests (RFC 792, RFC 4443) and datagrams to the echo port (RFC 862).
//!
//! ```text
//! Ethernet  0 to 6 | 6 from 6 | 12 type 2 | 14 packet
//! ARP       0 kinds 8, request 1 or reply 2 at 6 | 8 sender's Ethernet 6, IPv4 4 | 18 target's Ethernet 6, IPv4 4
//! IPv4      0 version and words of the header 1 | 2 length 2 | 6 fragment 2 | 8 TTL 1 | 9 protocol 1 | 10 sum 2 | 12 from 4 | 16 to 4
//! IPv6      0 version 4 bits | 4 length of the rest 2 | 6 protocol 1 | 7 hop limit 1 | 8 from 16 | 24 to 16
//! ICMP      0 type 1 | 1 code 1 | 2 sum 2 | solicitation: 8 target 16 | advertisement: 4 flags 4, 8 target 16, 24 option 8
//! UDP       0 from 2 | 2 to 2 | 4 length 2 | 6 sum 2
//! ```
use alloc::vec::Vec;
use interfaces::nic::MacAddress;

const ETHERNET: usize = 14;
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// The port of the echo service.
const ECHO_PORT: u16 = 7;
const HOPS: u8 = 64;
/// Hop limit of a packet of neighbour discovery, which so cannot come from another network.
const HOPS_MAX: u8 = 255;
const EVERYBODY: MacAddress = [0xff; 6];
/// Length of an ARP packet between IPv4 and Ethernet.
const ARP_BYTES: usize = 28;
/// Length of the header of IPv6.
const HEADER6: usize = 40;

/// The addresses of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The Ethernet address.
    pub mac: MacAddress,
    /// The IPv4 address.
    pub v4: [u8; 4],
    /// The IPv6 address.
    pub v6: [u8; 16],
}

/// The meaning of a packet for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The packet was turned into its answer.
    Answered,
    /// It takes no answer.
    Silence,
    /// It is for another machine, so a card that filters would not have let it pass.
    Stranger,
}

impl Addresses {
    /// Returns the group to which a neighbour's solicitation goes (RFC 4291, section 2.7.1).
    fn group(&self) -> [u8; 16] {
        let [.., a, b, c] = self.v6;
        [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]
    }

    /// Returns the Ethernet address of that group (RFC 2464, section 7).
    pub fn group_mac(&self) -> MacAddress {
        let [.., a, b, c] = self.v6;
        [0x33, 0x33, 0xff, a, b, c]
    }

    /// Turns `packet` into its answer, if it takes one; otherwise its contents mean nothing afterwards.
    pub fn answer(&self, packet: &mut Vec<u8>) -> Meaning {
        let Some((to, from)) = array::<6>(packet, 0).zip(array::<6>(packet, 6)) else {
            return Meaning::Silence;
        };
        if ![self.mac, EVERYBODY, self.group_mac()].contains(&to) {
            return Meaning::Stranger;
        }
        let answered = match word(packet, 12) {
            Some(ARP) => self.answer_arp(packet),
            Some(IPV4) if to == self.mac => self.answer_v4(packet),
            Some(IPV6) if to != EVERYBODY => self.answer_v6(packet),
            _ => None,
        };
        if answered
            .and_then(|()| put(packet, 0, &from))
            .and_then(|()| put(packet, 6, &self.mac))
            .is_none()
        {
            return Meaning::Silence;
        }
        Meaning::Answered
    }

    fn answer_arp(&self, packet: &mut Vec<u8>) -> Option<()> {
        const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
        let asker: [u8; 10] = array(packet, ETHERNET + 8)?;
        let target: [u8; 4] = array(packet, ETHERNET + 24)?;
        if array(packet, ETHERNET)? != REQUEST || target != self.v4 {
            return None;
        }
        packet.truncate(ETHERNET + ARP_BYTES);
        put(packet, ETHERNET + 7, &[2])?;
        put(packet, ETHERNET + 8, &self.mac)?;
        put(packet, ETHERNET + 14, &self.v4)?;
        put(packet, ETHERNET + 18, &asker)
    }

    fn answer_v4(&self, packet: &mut Vec<u8>) -> Option<()> {
        let first = *packet.get(ETHERNET)?;
        let header = usize::from(first & 15) * 4;
        let length = usize::from(word(packet, ETHERNET + 2)?);
        let from: [u8; 4] = array(packet, ETHERNET + 12)?;
        let is_whole = word(packet, ETHERNET + 6)? & 0x3fff == 0;
        let body = ETHERNET + header;
        let is_sound = first >> 4 == 4
            && header >= 20
            && (header..=packet.len() - ETHERNET).contains(&length)
            && sum(&[packet.get(ETHERNET..body)?]) == 0
            && array(packet, ETHERNET + 16)? == self.v4
            && is_whole;
        if !is_sound {
            return None;
        }
        packet.truncate(ETHERNET + length);
        match *packet.get(ETHERNET + 9)? {
            ICMP => turn_echo(packet, body, (8, 0), &[])?,
            UDP => {
                let rest = (length - header) as u16;
                let pseudo = [&from[..], &self.v4, &[0, UDP], &rest.to_be_bytes()].concat();
                turn_datagram(packet, body, &pseudo)?;
            }
            _ => return None,
        }
        put(packet, ETHERNET + 8, &[HOPS])?;
        put(packet, ETHERNET + 12, &self.v4)?;
        put(packet, ETHERNET + 16, &from)?;
        put_sum(packet, ETHERNET + 10, |packet| Some(sum(&[packet.get(ETHERNET..body)?])))
    }

    fn answer_v6(&self, packet: &mut Vec<u8>) -> Option<()> {
        let length = usize::from(word(packet, ETHERNET + 4)?);
        let [protocol, hops]: [u8; 2] = array(packet, ETHERNET + 6)?;
        let from: [u8; 16] = array(packet, ETHERNET + 8)?;
        let to: [u8; 16] = array(packet, ETHERNET + 24)?;
        let body = ETHERNET + HEADER6;
        let is_ours = to == self.v6 || to == self.group();
        let is_group = matches!(from, [0xff, ..]) || from == [0; 16];
        if packet.get(ETHERNET)? >> 4 != 6 || length > packet.len() - body || !is_ours || is_group {
            return None;
        }
        packet.truncate(body + length);
        let pseudo = |to: &[u8; 16], length: usize| {
            let length = length as u32;
            [&from[..], to, &length.to_be_bytes(), &[0, 0, 0, protocol]].concat()
        };
        let mut hops_then = HOPS;
        match (protocol, *packet.get(body)?) {
            (ICMPV6, 128) if to == self.v6 => {
                turn_echo(packet, body, (128, 129), &pseudo(&to, length))?;
            }
            (ICMPV6, 135) if hops == HOPS_MAX => {
                let is_right = sum(&[&pseudo(&to, length), packet.get(body..)?]) == 0;
                let target: [u8; 16] = array(packet, body + 8)?;
                if !is_right || target != self.v6 {
                    return None;
                }
                hops_then = HOPS_MAX;
                packet.truncate(body);
                self.advertise(packet, |length| pseudo(&self.v6, length))?;
            }
            (UDP, _) if to == self.v6 => {
                if word(packet, body + 6)? == 0 {
                    return None;
                }
                turn_datagram(packet, body, &pseudo(&to, length))?;
            }
            _ => return None,
        }
        put(packet, ETHERNET + 7, &[hops_then])?;
        put(packet, ETHERNET + 8, &self.v6)?;
        put(packet, ETHERNET + 24, &from)
    }

    /// Appends an advertisement of the address, and writes its length.
    fn advertise(&self, packet: &mut Vec<u8>, pseudo: impl Fn(usize) -> Vec<u8>) -> Option<()> {
        // Solicited, and it overrides.
        const START: [u8; 8] = [136, 0, 0, 0, 0x60, 0, 0, 0];
        const OPTION: [u8; 2] = [2, 1];
        let body = packet.len();
        let bytes = [&START[..], &self.v6, &OPTION, &self.mac].concat();
        packet.extend_from_slice(&bytes);
        put(packet, ETHERNET + 4, &(bytes.len() as u16).to_be_bytes())?;
        let pseudo = pseudo(bytes.len());
        put_sum(packet, body + 2, |packet| Some(sum(&[&pseudo, packet.get(body..)?])))
    }
}

/// Turns the echo request behind `at` into its reply.
fn turn_echo(
    packet: &mut [u8],
    at: usize,
    (request, reply): (u8, u8),
    pseudo: &[u8],
) -> Option<()> {
    let is_right = packet.len() >= at + 8 && sum(&[pseudo, packet.get(at..)?]) == 0;
    if !is_right || array(packet, at)? != [request, 0] {
        return None;
    }
    put(packet, at, &[reply])?;
    put_sum(packet, at + 2, |packet| Some(sum(&[pseudo, packet.get(at..)?])))
}

/// Swaps the ports of the datagram behind `at`, which changes no sum.
fn turn_datagram(packet: &mut [u8], at: usize, pseudo: &[u8]) -> Option<()> {
    let [from, to, length, told] = [0, 2, 4, 6].map(|field| word(packet, at + field));
    let is_whole = usize::from(length?) == packet.len() - at;
    let is_right = told? == 0 || sum(&[pseudo, packet.get(at..)?]) == 0;
    if !is_whole || !is_right || to? != ECHO_PORT || from? == ECHO_PORT {
        return None;
    }
    put(packet, at, &ECHO_PORT.to_be_bytes())?;
    put(packet, at + 2, &from?.to_be_bytes())
}

fn array<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..at + N)?.try_into().ok()
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    array(packet, at).map(u16::from_be_bytes)
}

fn put(packet: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    packet.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    Some(())
}

/// Writes the sum that `make` makes of the packet with a field of zero.
fn put_sum(packet: &mut [u8], at: usize, make: impl Fn(&[u8]) -> Option<u16>) -> Option<()> {
    put(packet, at, &[0, 0])?;
    let sum = make(packet)?;
    put(packet, at, &sum.to_be_bytes())
}

/// Returns the complement of the sum of 16-bit words (RFC 1071) of `parts`, of which only the last may have an odd length. It is
/// zero for a packet with its right sum.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let values = words.map(|word| match word {
        [high, low] => u32::from(*high) << 8 | u32::from(*low),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut all: u32 = values.sum();
    while all > 0xffff {
        all = (all & 0xffff) + (all >> 16);
    }
    !(all as u16)
}
