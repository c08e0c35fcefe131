//! The ioctls.
use super::*;
use crate::{
    NetErrno,
    ioctl::{self, IoctlCaller},
};

const CALLER: IoctlCaller = IoctlCaller { family: 2, may_administer: true };

fn ifreq(name: &str) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn get(number: u32, name: &str) -> Result<[u8; 24], NetErrno> {
    let mut bytes = ifreq(name);
    ioctl::request(&FakeNetwork::default(), CALLER, number, &mut bytes, None)?;
    Ok(bytes[16..].try_into().unwrap())
}

fn set(number: u32, name: &str, value: &[u8]) -> Result<Vec<NetworkChange>, NetErrno> {
    let network = FakeNetwork::default();
    let mut bytes = ifreq(name);
    bytes[16..16 + value.len()].copy_from_slice(value);
    ioctl::request(&network, CALLER, number, &mut bytes, None)?;
    Ok(network.changes.into_inner().unwrap())
}

#[test]
fn properties_are_told() {
    assert_eq!(get(0x8913, "eth0").unwrap()[..2], [0x43, 0x10]);
    assert_eq!(get(0x8921, "eth0").unwrap()[..4], 1500u32.to_le_bytes());
    assert_eq!(get(0x8927, "eth0").unwrap()[..8], [1, 0, 0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    assert_eq!(get(0x8933, "lo").unwrap()[0], 1);
    assert_eq!(get(0x8915, "eth0").unwrap()[..8], [2, 0, 0, 0, 10, 0, 2, 15]);
    assert_eq!(get(0x891b, "eth0").unwrap()[4..8], [255, 255, 255, 0]);
    assert_eq!(get(0x8919, "eth0").unwrap()[4..8], [10, 0, 2, 255]);
    assert_eq!(get(0x8915, "eth1"), Err(NetErrno::ENODEV));
    assert_eq!(get(0x8915, "eth0:1"), Err(NetErrno::EADDRNOTAVAIL));
    let mut bytes = [0; 40];
    bytes[16] = 2;
    ioctl::request(&FakeNetwork::default(), CALLER, 0x8910, &mut bytes, None).unwrap();
    assert_eq!(&bytes[..5], b"eth0\0");
}

#[test]
fn an_address_takes_the_place_of_another() {
    let changes = set(0x8916, "eth0", &[2, 0, 0, 0, 192, 168, 1, 5]).unwrap();
    let [NetworkChange::RemoveAddress(old), NetworkChange::Address(fresh, _)] = changes.as_slice()
    else {
        panic!("{changes:?}")
    };
    assert_eq!(old.address, Some(ip("10.0.2.15")));
    assert_eq!((fresh.address, fresh.prefix_length), (ip("192.168.1.5"), 24));
    assert_eq!(fresh.broadcast, Some("192.168.1.255".parse().unwrap()));
    let changes = set(0x8916, "eth0", &[2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert!(matches!(changes.as_slice(), [NetworkChange::RemoveAddress(_)]));
    let changes = set(0x891c, "eth0", &[2, 0, 0, 0, 255, 0, 0, 0]).unwrap();
    let NetworkChange::Address(fresh, _) = &changes[1] else { panic!() };
    assert_eq!(fresh.prefix_length, 8);
    assert_eq!(fresh.broadcast, Some("10.255.255.255".parse().unwrap()));
    assert_eq!(set(0x891c, "eth0", &[2, 0, 0, 0, 255, 0, 255, 0]), Err(NetErrno::EINVAL));
}

#[test]
fn an_alias_ends_when_it_is_switched_off() {
    assert_eq!(set(0x8914, "eth0:1", &[0, 0]), Err(NetErrno::EADDRNOTAVAIL));
    let changes = set(0x8914, "eth0", &[0x43, 0x10]).unwrap();
    let [NetworkChange::Link(change)] = changes.as_slice() else { panic!() };
    assert_eq!(change.flags.map(|(flags, _)| flags), Some(0x1043));
}

#[test]
fn changes_need_the_right() {
    let nobody = IoctlCaller { may_administer: false, ..CALLER };
    let mut bytes = ifreq("eth0");
    let network = FakeNetwork::default();
    for number in [0x8914, 0x8916, 0x8922, 0x8923, 0x8924, 0x8943, 0x890b, 0x8953, 0x8955] {
        let mut bytes = [0; 120];
        bytes[..4].copy_from_slice(b"eth0");
        let refused = ioctl::request(&network, nobody, number, &mut bytes, None);
        assert_eq!(refused, Err(NetErrno::EPERM), "{number:x}");
    }
    assert_eq!(ioctl::request(&network, nobody, 0x8913, &mut bytes, None), Ok(()));
}

#[test]
fn a_route_is_added_as_route_does() {
    let network = FakeNetwork::default();
    let mut bytes = [0; 120];
    bytes[8] = 2;
    bytes[24..32].copy_from_slice(&[2, 0, 0, 0, 10, 0, 2, 2]);
    bytes[40] = 2;
    bytes[56] = 3;
    bytes[80] = 1;
    ioctl::request(&network, CALLER, 0x890b, &mut bytes, Some("eth0")).unwrap();
    let changes = network.changes.into_inner().unwrap();
    let [NetworkChange::Route(route, EntryMode::Prepend)] = changes.as_slice() else { panic!() };
    assert_eq!((route.gateway, route.interface), (Some(ip("10.0.2.2")), Some(2)));
    assert_eq!((route.prefix_length, route.metric, route.scope), (0, 0, 0));
}

#[test]
fn neighbours_are_told_and_set() {
    let network = FakeNetwork::default();
    let mut bytes = [0; 68];
    bytes[..8].copy_from_slice(&[2, 0, 0, 0, 10, 0, 2, 2]);
    bytes[52..56].copy_from_slice(b"eth0");
    ioctl::request(&network, CALLER, 0x8954, &mut bytes, None).unwrap();
    assert_eq!(bytes[18..24], [0x52, 0x55, 10, 0, 2, 2]);
    assert_eq!(bytes[32], 2);
    bytes[7] = 3;
    let missing = ioctl::request(&network, CALLER, 0x8954, &mut bytes, None);
    assert_eq!(missing, Err(NetErrno::ENXIO));
}

#[test]
fn groups_of_a_link_are_added_and_removed() {
    let value = [0, 0, 1, 0, 0x5e, 0, 0, 9];
    let address = [1, 0, 0x5e, 0, 0, 9];
    let changes = set(0x8931, "eth0", &value).unwrap();
    assert_eq!(changes, [NetworkChange::LinkGroup { interface: 2, address }]);
    let changes = set(0x8932, "eth0", &value).unwrap();
    assert_eq!(changes, [NetworkChange::RemoveLinkGroup { interface: 2, address }]);
    assert_eq!(set(0x8931, "eth0", &[1]), Err(NetErrno::EINVAL), "of a family");
    assert_eq!(set(0x8931, "eth1", &value), Err(NetErrno::ENODEV));
}

#[test]
fn ethtool_knows_the_driver() {
    let mut bytes = [0; ioctl::ETHTOOL_BYTES_MAX];
    bytes[0] = 3;
    let network = FakeNetwork::default();
    let length = ioctl::ethtool(&network, CALLER, ("eth0", "6.1.0"), &mut bytes).unwrap();
    assert_eq!((length, &bytes[4..15]), (196, b"virtio_net\0".as_slice()));
    bytes[0] = 0x4c;
    bytes[15] = 0;
    ioctl::ethtool(&network, CALLER, ("eth0", "6.1.0"), &mut bytes).unwrap();
    assert_eq!(bytes[15] as i8, -3);
    assert_eq!(ioctl::addresses(&network).len(), 80);
}

#[test]
fn ethtool_lists_the_counts_of_a_card() {
    let network = FakeNetwork::default();
    let ask = |name: &str, number: u8, argument: &[u8]| {
        let mut bytes = [0; ioctl::ETHTOOL_BYTES_MAX];
        bytes[0] = number;
        bytes[4..][..argument.len()].copy_from_slice(argument);
        let length = ioctl::ethtool(&network, CALLER, (name, "6.1.0"), &mut bytes);
        length.map(|length| bytes[..length].to_vec())
    };
    let mask = [0, 0, 0, 0, 0xff];
    assert_eq!(ask("lo", 0x37, &mask).unwrap(), [&[0x37][..], &[0; 15]].concat());
    let sets = ask("eth0", 0x37, &mask).unwrap();
    assert_eq!((sets[8], sets[16], sets.len()), (2, 7, 20));
    let names = ask("eth0", 0x1b, &[1]).unwrap();
    assert_eq!(
        (names[8], &names[12..23], names.len()),
        (7, b"rx_packets\0".as_slice(), 12 + 7 * 32)
    );
    assert_eq!(ask("eth0", 0x1d, &[7]).unwrap().len(), 8 + 7 * 8);
    assert_eq!(ask("eth0", 0x3c, &[]).unwrap().len(), 36);
    assert_eq!(ask("lo", 0x1d, &[7]), Err(crate::NetErrno::EOPNOTSUPP));
}
