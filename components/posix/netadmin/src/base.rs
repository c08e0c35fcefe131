//! [`NetErrno`], and helpers of all formats.
use alloc::{format, string::String, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::sockets::{AdministrationError, LinkRecord, NetworkAdministration};

/// AF_UNSPEC.
pub(crate) const UNSPEC: u8 = 0;
/// AF_INET.
pub(crate) const INET: u8 = 2;
/// AF_INET6.
pub(crate) const INET6: u8 = 10;
/// Bytes of a name of an interface, with its final zero (`IFNAMSIZ`).
pub(crate) const NAME_BYTES: usize = 16;

/// Metric of a route of IPv6 without one.
pub(crate) const METRIC6: u32 = 1024;
/// `ATF_*`.
pub(crate) mod arp {
    pub(crate) const COMPLETE: u32 = 2;
    pub(crate) const PERMANENT: u32 = 4;
}

/// Returns the text of an address of Ethernet.
pub fn colons(mac: [u8; 6]) -> String {
    let [a, b, c, d, e, f] = mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// An error number of Linux x86-64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NetErrno(pub u32);

macro_rules! numbers {
    ($($name:ident = $number:literal)+) => {
        #[allow(missing_docs, reason = "the names are Linux's")]
        impl NetErrno {
            $(pub const $name: NetErrno = NetErrno($number);)+
            /// All of them.
            pub const ALL: &[NetErrno] = &[$(NetErrno::$name),+];
        }
    };
}
numbers! {
    EPERM = 1
    ENOENT = 2
    ESRCH = 3
    EIO = 5
    ENXIO = 6
    EACCES = 13
    EBUSY = 16
    EEXIST = 17
    ENODEV = 19
    EINVAL = 22
    ENOTTY = 25
    ERANGE = 34
    EOPNOTSUPP = 95
    EPFNOSUPPORT = 96
    EAFNOSUPPORT = 97
    EADDRNOTAVAIL = 99
    ENETDOWN = 100
    ENETUNREACH = 101
    ENOBUFS = 105
    EHOSTUNREACH = 113
    ESTALE = 116
}

/// An error of a netlink request, with the text that programs show beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExplainedErrno {
    pub(crate) number: NetErrno,
    pub(crate) text: Option<&'static str>,
}

impl NetErrno {
    /// Returns the error with a text.
    pub(crate) fn saying(self, text: &'static str) -> ExplainedErrno {
        ExplainedErrno { number: self, text: Some(text) }
    }
}

impl From<NetErrno> for ExplainedErrno {
    fn from(number: NetErrno) -> ExplainedErrno {
        ExplainedErrno { number, text: None }
    }
}

impl From<AdministrationError> for ExplainedErrno {
    fn from(error: AdministrationError) -> ExplainedErrno {
        let text = match error {
            AdministrationError::PrefixInvalid => Some("Invalid prefix for given prefix length"),
            AdministrationError::GatewayLocal => Some("Gateway can not be a local address"),
            AdministrationError::GatewayUnbound => Some("Egress device not specified"),
            AdministrationError::MtuSmall => Some("mtu less than device minimum"),
            AdministrationError::MtuGreat => Some("mtu greater than device maximum"),
            AdministrationError::NoLinkAddress => Some("No link layer address given"),
            _ => None,
        };
        ExplainedErrno { number: error.into(), text }
    }
}

impl From<AdministrationError> for NetErrno {
    fn from(error: AdministrationError) -> NetErrno {
        match error {
            AdministrationError::Exists => NetErrno::EEXIST,
            AdministrationError::NoAddress => NetErrno::EADDRNOTAVAIL,
            AdministrationError::NoRoute => NetErrno::ESRCH,
            AdministrationError::NoEntry => NetErrno::ENOENT,
            AdministrationError::NoDevice => NetErrno::ENODEV,
            AdministrationError::Invalid
            | AdministrationError::PrefixInvalid
            | AdministrationError::SourceInvalid
            | AdministrationError::GatewayInvalid
            | AdministrationError::GatewayLocal
            | AdministrationError::GatewayUnbound
            | AdministrationError::MtuSmall
            | AdministrationError::MtuGreat
            | AdministrationError::NoLinkAddress => NetErrno::EINVAL,
            AdministrationError::Range => NetErrno::ERANGE,
            AdministrationError::Busy => NetErrno::EBUSY,
            AdministrationError::NetworkDown => NetErrno::ENETDOWN,
            AdministrationError::NetworkUnreachable | AdministrationError::GatewayUnreachable => {
                NetErrno::ENETUNREACH
            }
            AdministrationError::HostUnreachable => NetErrno::EHOSTUNREACH,
            AdministrationError::Forbidden => NetErrno::EACCES,
            AdministrationError::NotPermitted => NetErrno::EPERM,
            AdministrationError::Unsupported => NetErrno::EOPNOTSUPP,
            AdministrationError::NoMemory => NetErrno::ENOBUFS,
            AdministrationError::Device | AdministrationError::Restarted => NetErrno::EIO,
        }
    }
}

/// Returns the family of an address.
pub(crate) fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { INET } else { INET6 }
}

/// Returns the bytes of an address, in the order of the network.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the address of a family in `bytes`, which may be longer; `None` if they are too few.
pub(crate) fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        INET => bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into()),
        INET6 => bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into()),
        _ => None,
    }
}

/// Returns the unspecified address of a family.
pub(crate) fn unspecified(family: u8) -> IpAddr {
    if family == INET6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Returns the mask of an IPv4 prefix.
pub(crate) fn mask4(length: u8) -> u32 {
    u32::MAX.checked_shl(32u32.saturating_sub(length.into())).unwrap_or(0)
}

/// Returns whether two addresses of a family share their first `length` bits.
pub(crate) fn is_in(address: IpAddr, network: IpAddr, length: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()) & mask4(length) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(length.into())).unwrap_or(0);
            (one.to_bits() ^ other.to_bits()) & mask == 0
        }
        _ => false,
    }
}

/// Returns the text before the first zero.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(bytes.get(..end)?).ok()
}

/// Returns the interface of a name.
///
/// # Errors
/// `ENODEV`.
pub fn link_named(network: &dyn NetworkAdministration, name: &str) -> Result<LinkRecord, NetErrno> {
    network.links().into_iter().find(|link| link.name == name).ok_or(NetErrno::ENODEV)
}

/// Returns the interface of a number.
///
/// # Errors
/// `ENODEV`.
pub fn link_numbered(
    network: &dyn NetworkAdministration,
    index: u32,
) -> Result<LinkRecord, NetErrno> {
    network.links().into_iter().find(|link| link.index == index).ok_or(NetErrno::ENODEV)
}
