//! Prefixes and scopes of addresses.
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::marshal::Marshal;
use packet::ethernet::ethertype;

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of `address`.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
    /// Returns the number of bits of an address.
    pub fn bits(self) -> u8 {
        if self == Family::V4 { 32 } else { 128 }
    }
    /// Returns the EtherType of its packets.
    pub fn ethertype(self) -> u16 {
        match self {
            Family::V4 => ethertype::IPV4,
            Family::V6 => ethertype::IPV6,
        }
    }
    /// Returns the address of loopback.
    pub fn loopback(self) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        }
    }
    /// Returns the unspecified address.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// Returns the bits of `address`, the first one highest of 128.
pub fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns a mask with the first `length` of 128 bits set.
pub fn mask(length: u8) -> u128 {
    match length {
        0 => 0,
        1..128 => u128::MAX << (128 - length),
        _ => u128::MAX,
    }
}

/// Returns the number of first bits that two addresses share.
pub fn common_bits(one: IpAddr, other: IpAddr) -> u8 {
    (bits(one) ^ bits(other)).leading_zeros() as u8
}

/// A range of addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Returns the prefix of the first `length` bits of `address`; `None` if it has fewer.
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        let family = Family::of(address);
        let kept = bits(address) & mask(length);
        let address = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from_bits((kept >> 96) as u32)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(kept)),
        };
        (length <= family.bits()).then_some(Prefix { address, length })
    }
    /// Returns the prefix of `address` alone.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, length: Family::of(address).bits() }
    }
    /// Returns the prefix of all addresses of a family.
    pub fn all(family: Family) -> Prefix {
        Prefix { address: family.unspecified(), length: 0 }
    }
    /// Returns the first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }
    /// Returns the number of bits.
    pub fn length(&self) -> u8 {
        self.length
    }
    /// Returns whether it is one address alone.
    pub fn is_host(&self) -> bool {
        self.length == Family::of(self.address).bits()
    }
    /// Returns the last address, as the first of its 128 bits.
    pub fn last_bits(&self) -> u128 {
        bits(self.address) | !mask(self.length)
    }
    /// Returns whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == Family::of(self.address)
            && (bits(address) ^ bits(self.address)) & mask(self.length) == 0
    }
    /// Returns the last address, if it is one for all stations of an IPv4 network.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(address) if self.length < 31 => {
                Some(Ipv4Addr::from_bits(address.to_bits() | !(mask(self.length) >> 96) as u32))
            }
            _ => None,
        }
    }
}

impl Marshal for Prefix {
    fn put(&self, out: &mut Vec<u8>) {
        (self.address, self.length).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Prefix> {
        let (address, length) = Marshal::take(from)?;
        Prefix::new(address, length)
    }
}

/// The part of the world in which an address is unique (RFC 4291, RFC 4007), from the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Marshal)]
pub enum AddressScope {
    /// The host.
    Host,
    /// A link.
    Link,
    /// A site.
    Site,
    /// An organisation.
    Organisation,
    /// The world.
    Global,
}

impl AddressScope {
    /// Returns the scope of an address, also of a group. IPv4 addresses have the scopes of RFC 6724, section 3.2.
    pub fn of(address: IpAddr) -> AddressScope {
        match address {
            IpAddr::V4(address) if address.is_loopback() => AddressScope::Host,
            IpAddr::V4(address) if address.is_link_local() => AddressScope::Link,
            IpAddr::V4(address) if matches!(address.octets(), [224, 0, 0, _]) => AddressScope::Link,
            IpAddr::V4(_) => AddressScope::Global,
            IpAddr::V6(address) => AddressScope::of6(address),
        }
    }
    fn of6(address: Ipv6Addr) -> AddressScope {
        let [first, second, ..] = address.octets();
        match (first, second) {
            (0xff, scope) => match scope & 0xf {
                0 | 1 => AddressScope::Host,
                2 | 3 => AddressScope::Link,
                4..=7 => AddressScope::Site,
                8..=0xd => AddressScope::Organisation,
                _ => AddressScope::Global,
            },
            _ if address.is_unicast_link_local() => AddressScope::Link,
            // RFC 4291 has loopback in the scope of a link; what matters is that it stays in the host.
            _ if address.is_loopback() => AddressScope::Host,
            (0xfe, 0xc0..) => AddressScope::Site,
            _ => AddressScope::Global,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn a_prefix_contains_what_has_its_bits() {
        let net = prefix("10.1.2.3", 22);
        assert_eq!(net.address(), IpAddr::from([10, 1, 0, 0]));
        assert!(net.contains(IpAddr::from([10, 1, 3, 255])));
        assert!(!net.contains(IpAddr::from([10, 1, 4, 0])));
        assert!(!Prefix::all(Family::V4).contains("::1".parse().unwrap()));
        assert_eq!(net.broadcast(), Some(Ipv4Addr::new(10, 1, 3, 255)));
        assert_eq!(prefix("10.1.2.3", 31).broadcast(), None);
        assert_eq!(prefix("10.1.2.3", 0).broadcast(), Some(Ipv4Addr::BROADCAST));
        assert_eq!(Prefix::new(IpAddr::from([10, 0, 0, 0]), 33), None);
        assert!(prefix("fd00::1", 64).contains("fd00::2".parse().unwrap()));
        assert!(Prefix::host("fd00::1".parse().unwrap()).contains("fd00::1".parse().unwrap()));
    }

    #[test]
    fn scopes_are_those_of_rfc_6724() {
        let scope = |text: &str| AddressScope::of(text.parse().unwrap());
        assert_eq!(scope("127.0.0.1"), AddressScope::Host);
        assert_eq!(scope("169.254.1.1"), AddressScope::Link);
        assert_eq!(scope("10.0.0.1"), AddressScope::Global);
        assert_eq!(scope("fe80::1"), AddressScope::Link);
        assert_eq!(scope("fd00::1"), AddressScope::Global);
        assert_eq!(scope("ff02::1"), AddressScope::Link);
        assert_eq!(scope("ff0e::1"), AddressScope::Global);
    }
}
