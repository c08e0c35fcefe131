//! Tests of the answers. `tests/systems/echo.toml` tests the rest.
use super::*;
use proptest::prelude::*;

const OWN: Addresses = Addresses { mac: MAC, v4: V4, v6: V6 };
const PEER: MacAddress = [2, 0, 0, 0, 0, 1];

/// Returns `text`, hexadecimal digits and spaces, as bytes.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn answered(text: &str) -> (Meaning, Vec<u8>) {
    let mut packet = hex(text);
    (OWN.answer(&mut packet), packet)
}

const PING: &str = "020000000022 020000000001 0800 4500001f00010000400166db0a0000010a000002 0800339b00010001616263";
const PING6: &str = "020000000022 020000000001 86dd 60000000000b3a40 fd000000000000000000000000000001 fd000000000000000000000000000002 8000c15000010001616263";
const DATAGRAM: &str = "020000000022 020000000001 0800 4500001f00010000401166cb0a0000010a000002 9c400007000b8b2b616263";
const SOLICITATION: &str = "3333ff000002 020000000001 86dd 6000000000203aff fd000000000000000000000000000001 ff0200000000000000000001ff000002 87007d9700000000fd000000000000000000000000000002 0101020000000001";

#[test]
fn arp_requests_for_the_own_address_are_answered() {
    let request = "ffffffffffff 020000000001 0806 0001080006040001 020000000001 0a000001 000000000000 0a000002";
    // The padding goes.
    let (meaning, reply) = answered(&format!("{request} 0000000000000000"));
    let expected = "020000000001 020000000022 0806 0001080006040002 020000000022 0a000002 020000000001 0a000001";
    assert_eq!((meaning, reply), (Meaning::Answered, hex(expected)));
    let other = request.replace("0a000002", "0a000003");
    assert_eq!(answered(&other).0, Meaning::Silence);
}

#[test]
fn pings_datagrams_and_solicitations_are_answered() {
    let cases = [
        (
            PING,
            "020000000001 020000000022 0800 4500001f00010000400166db0a0000020a000001 00003b9b00010001616263",
        ),
        (
            PING6,
            "020000000001 020000000022 86dd 60000000000b3a40 fd000000000000000000000000000002 fd000000000000000000000000000001 8100c05000010001616263",
        ),
        (
            DATAGRAM,
            "020000000001 020000000022 0800 4500001f00010000401166cb0a0000020a000001 00079c40000b8b2b616263",
        ),
        (
            SOLICITATION,
            "020000000001 020000000022 86dd 6000000000203aff fd000000000000000000000000000002 fd000000000000000000000000000001 88001c7a60000000fd000000000000000000000000000002 0201020000000022",
        ),
    ];
    for (request, reply) in cases {
        assert_eq!(answered(request), (Meaning::Answered, hex(reply)), "{request}");
    }
}

#[test]
fn a_packet_to_another_machine_is_a_stranger() {
    let other = PING.replacen("020000000022", "020000000099", 1);
    assert_eq!(answered(&other).0, Meaning::Stranger);
    assert_eq!(answered("ffffffffffff 020000000001 88b5").0, Meaning::Silence);
}

proptest! {
    #[test]
    fn no_flipped_bit_of_what_a_sum_covers_is_answered(which in 0_usize..4, draw in any::<usize>()) {
        let mut packet = hex([PING, PING6, DATAGRAM, SOLICITATION][which]);
        // The header of IPv6 has no sum before the addresses.
        let start = if which % 2 == 1 { 22 } else { 14 };
        let bit = start * 8 + draw % ((packet.len() - start) * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(OWN.answer(&mut packet), Meaning::Silence);
    }

    #[test]
    fn any_bytes_are_taken(which in 0_usize..5, cut in 0_usize..200, changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..8)) {
        let mut packet = match which {
            4 => [&MAC[..], &PEER, &[8, 0]].concat(),
            _ => hex([PING, PING6, DATAGRAM, SOLICITATION][which]),
        };
        packet.truncate(cut);
        for (at, byte) in changes {
            let length = packet.len().max(1);
            if let Some(place) = packet.get_mut(at % length) {
                *place = byte;
            }
        }
        OWN.answer(&mut packet);
    }
}
