//! Every type comes back from its bytes as it was, and bytes that nobody encoded are refused.
use super::samples::{Sample, Source, variants};
use crate::{
    marshal::{Marshal, decode, encode},
    sockets::*,
};
use alloc::{borrow::Cow, format, string::String, sync::Arc, vec, vec::Vec};
use core::{fmt::Debug, net::IpAddr, net::SocketAddr};
use proptest::prelude::*;

fn comes_back<T: Sample + Marshal + PartialEq + Debug>(from: &mut Source<'_>) {
    let value = T::sample(from);
    let bytes = encode(&value);
    assert_eq!(decode::<T>(&bytes).as_ref(), Some(&value));
    for length in 0..bytes.len() {
        assert!(decode::<T>(&bytes[..length]).is_none(), "{length} bytes of {value:?}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(decode::<T>(&longer).is_none(), "a byte more than {value:?}");
}

/// Each value has one encoding, so bytes that are decoded are those of the value.
fn is_no_other<T: Marshal>(bytes: &[u8]) {
    if let Some(value) = decode::<T>(bytes) {
        assert_eq!(encode(&value), bytes);
    }
}

macro_rules! each_type {
    ($function:ident($argument:expr)) => {
        $function::<(u8, u16, u32, u64)>($argument);
        $function::<(usize, isize, bool)>($argument);
        $function::<(i8, i16, i32, i64)>($argument);
        $function::<Result<String, Option<u128>>>($argument);
        $function::<Vec<Vec<(IpAddr, Cow<'static, str>)>>>($argument);
        $function::<([i64; 3], SocketAddr)>($argument);
        $function::<(DatagramProtocol, SocketFamilies, SocketOwner)>($argument);
        $function::<(CloseKind, MoreData, QuickAcknowledge)>($argument);
        $function::<(SocketError, FrameChecksum)>($argument);
        $function::<(StreamInfo, Membership)>($argument);
        $function::<StreamOptions>($argument);
        $function::<Option<ErrorCarrier>>($argument);
        $function::<(TapBinding, LinkMembership)>($argument);
        $function::<(RouteQuery, NetworkParameter)>($argument);
        $function::<(NetworkChange, AdministrationError)>($argument);
        $function::<NetworkNotice>($argument);
        $function::<Vec<(MembershipRecord, TableRecord)>>($argument);
        $function::<(SocketProtocol, Vec<SocketRecord>)>($argument);
    };
}

fn head_comes_back<T: Sample + Debug>(
    from: &mut Source<'_>,
    put: fn(&T, &mut Vec<u8>),
    take: fn(&mut &[u8], Payload) -> Option<T>,
) {
    let value = T::sample(from);
    let mut bytes = Vec::new();
    put(&value, &mut bytes);
    let length = bytes.len();
    bytes.extend_from_slice(b"tail");
    let mut rest = &bytes[..];
    let payload = || Payload::Bytes(b"payload"[..].into());
    let taken = take(&mut rest, payload()).unwrap();
    assert_eq!(rest, b"tail");
    // All but the payload is the same.
    let text = |value: &T| {
        let text = format!("{value:?}");
        text.split("payload:").next().map(String::from)
    };
    assert_eq!(text(&taken), text(&value));
    assert!(format!("{taken:?}").contains(&format!("{:?}", payload())));
    assert!((0..length).all(|length| take(&mut &bytes[..length], payload()).is_none()));
}

proptest! {
    #[test]
    fn every_type_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let source = &mut Source(&bytes);
        each_type!(comes_back(source));
        head_comes_back(source, SentDatagram::put_head, SentDatagram::take_head);
        head_comes_back(source, ReceivedDatagram::put_head, ReceivedDatagram::take_head);
        head_comes_back(source, ErrorReport::put_head, ErrorReport::take_head);
    }

    #[test]
    fn a_value_has_one_encoding(
        bytes in prop::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..300)
    ) {
        each_type!(is_no_other(&bytes));
    }

    #[test]
    fn changed_bytes_are_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        fn change<T: Sample + Marshal>((bytes, changes): (&[u8], &[(u16, u8)])) {
            let mut encoded = encode(&T::sample(&mut Source(bytes)));
            for (place, byte) in changes {
                let place = usize::from(*place) % encoded.len();
                encoded[place] = *byte;
            }
            is_no_other::<T>(&encoded);
        }
        each_type!(change((&bytes, &changes)));
    }
}

#[test]
fn variants_have_the_bytes_from_zero_on() {
    fn count<T: Marshal>() -> usize {
        let all = variants::<T>();
        for (place, (byte, value)) in all.iter().enumerate() {
            assert_eq!(usize::from(*byte), place);
            assert_eq!(encode(value), [*byte]);
        }
        all.len()
    }
    assert_eq!(count::<ConnectionState>(), 11);
    assert_eq!(count::<AdministrationError>(), AdministrationError::Restarted as usize + 1);
    assert_eq!(count::<SocketError>(), SocketError::NetworkDown as usize + 1);
    assert_eq!(count::<InterfaceParameter>(), InterfaceParameter::RetransmitMs6 as usize + 1);
}

#[test]
fn encodings_are_the_documented_ones() {
    let version6: SocketAddr = "[fe80::1%3]:258".parse().unwrap();
    let version6_bytes =
        [6, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0, 0, 0, 0, 3, 0, 0, 0];
    assert_eq!(encode(&version6), version6_bytes);
    let version4: SocketAddr = "10.0.0.1:80".parse().unwrap();
    assert_eq!(encode(&version4), [4, 10, 0, 0, 1, 80, 0]);
    assert_eq!(encode(&String::from("ab")), [2, 0, 0, 0, b'a', b'b']);
    assert_eq!(encode(&Some(1_u16)), [1, 1, 0]);
    assert_eq!(encode(&LinkMembership::Address([1; 6])), [2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(encode(&Err::<(), _>(SocketError::HostUnreachable)), [1, 2]);
    assert_eq!(encode(&(SocketEvents::READABLE | SocketEvents::URGENT)), [17]);
    let list: Arc<[u8]> = Arc::from([7, 8]);
    assert_eq!(encode(&list), [2, 0, 0, 0, 7, 8]);
}

#[test]
fn senseless_values_are_refused() {
    assert!(decode::<bool>(&[2]).is_none());
    assert!(decode::<Option<u8>>(&[2, 0]).is_none());
    assert!(decode::<IpAddr>(&[5, 0, 0, 0, 0]).is_none());
    assert!(decode::<String>(&[1, 0, 0, 0, 0xff]).is_none());
    assert!(decode::<SocketEvents>(&[32]).is_none());
    assert!(decode::<EntryMode>(&[5]).is_none());
    // A length that is none neither takes memory nor time.
    assert!(decode::<Vec<()>>(&[0xff; 4]).is_none());
    assert!(decode::<Vec<StreamInfo>>(&[0xff; 400]).is_none());
    assert!(decode::<String>(&vec![0xff; 400]).is_none());
}
