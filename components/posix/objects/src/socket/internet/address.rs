//! Addresses of the Internet families in a program's format: `struct sockaddr_in` (ip(7)) and `struct sockaddr_in6` (ipv6(7)).
//!
//! An IPv4 address on a socket of AF_INET6 is mapped (`::ffff:a.b.c.d`, RFC 4291 section 2.5.5.2) for the program alone: the stack
//! is given and gives the plain one.
use crate::socket::interface::SocketAddress;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use linux_raw_sys::net;
use vfs::Errno;

const INET: u16 = net::AF_INET as u16;
const INET6: u16 = net::AF_INET6 as u16;
/// Bytes of `struct sockaddr_in`.
const BYTES4: usize = 16;
/// Bytes of `struct sockaddr_in6`, and of that of RFC 2133, which lacks the scope.
const BYTES6: usize = 28;
const BYTES6_OLD: usize = 24;

/// The family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFamily {
    /// AF_INET.
    V4,
    /// AF_INET6.
    V6,
}

impl AddressFamily {
    /// Returns the number of Linux.
    pub fn number(self) -> u16 {
        match self {
            AddressFamily::V4 => INET,
            AddressFamily::V6 => INET6,
        }
    }
    /// Returns the address that stands for all, with port 0.
    pub fn unspecified(self) -> SocketAddr {
        match self {
            AddressFamily::V4 => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            AddressFamily::V6 => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        }
    }
}

/// The purpose of an address, on which the checks depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressUse {
    /// bind(2).
    Bind,
    /// connect(2) of a stream.
    Connect,
    /// connect(2) of a datagram socket.
    Associate,
    /// sendto(2).
    Send,
}

/// Writes `address` for a socket of `family`.
pub(super) fn encode(family: AddressFamily, address: SocketAddr) -> SocketAddress {
    let port = address.port().to_be_bytes();
    match (family, address) {
        (AddressFamily::V4, SocketAddr::V4(address)) => {
            SocketAddress::of_parts(&[&INET.to_le_bytes(), &port, &address.ip().octets(), &[0; 8]])
        }
        (AddressFamily::V4, SocketAddr::V6(_)) => encode(family, family.unspecified()),
        (AddressFamily::V6, _) => {
            let (ip, scope) = match address {
                SocketAddr::V4(address) => (address.ip().to_ipv6_mapped(), 0),
                SocketAddr::V6(address) => (*address.ip(), address.scope_id()),
            };
            SocketAddress::of_parts(&[
                &INET6.to_le_bytes(),
                &port,
                &[0; 4],
                &ip.octets(),
                &scope.to_le_bytes(),
            ])
        }
    }
}

/// Returns the `N` bytes from `at` on; zeroes where there are none.
pub(super) fn bytes<const N: usize>(all: &[u8], at: usize) -> [u8; N] {
    let found = all.get(at..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().unwrap_or([0; N])
}

fn read4(all: &[u8]) -> SocketAddr {
    let ip = Ipv4Addr::from(bytes::<4>(all, 4));
    SocketAddr::new(ip.into(), u16::from_be_bytes(bytes(all, 2)))
}

fn read6(all: &[u8]) -> SocketAddrV6 {
    let ip = Ipv6Addr::from(bytes::<16>(all, 8));
    // Only a link-local address has a scope.
    let has_scope = all.len() >= BYTES6 && is_link_local(&ip);
    let scope = if has_scope { u32::from_le_bytes(bytes(all, 24)) } else { 0 };
    SocketAddrV6::new(ip, u16::from_be_bytes(bytes(all, 2)), 0, scope)
}

/// Returns whether an address has a meaning on one link alone: link-local, or a group of that scope.
pub(super) fn is_link_local(ip: &Ipv6Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 0xfe && second & 0xc0 == 0x80 || first == 0xff && matches!(second & 0xf, 1 | 2)
}

/// An address that a program gave, in the stack's form, and whether it was of AF_INET6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenAddress {
    /// The address; a mapped one is plain.
    pub(super) address: SocketAddr,
    /// It was an IPv4 address in the form of IPv6.
    pub(super) is_mapped: bool,
}

/// Reads an address that a program gives to a socket of `family`. `Ok(None)`: one of AF_UNSPEC, which stands for none.
///
/// # Errors
/// `EINVAL` if it is too short, `EAFNOSUPPORT`.
pub(super) fn parse(
    family: AddressFamily,
    given: &SocketAddress,
    purpose: AddressUse,
) -> Result<Option<GivenAddress>, Errno> {
    let all = given.bytes();
    let told = given.family().ok_or(Errno::EINVAL)?;
    let plain = |address| GivenAddress { address, is_mapped: false };
    let is_datagram = matches!(purpose, AddressUse::Associate | AddressUse::Send);
    match family {
        AddressFamily::V4 => {
            if all.len() < BYTES4 {
                return Err(Errno::EINVAL);
            }
            let address = read4(all);
            let is_taken = match purpose {
                _ if told == INET => true,
                AddressUse::Bind => told == 0 && address.ip().is_unspecified(),
                AddressUse::Send => told == 0,
                _ => false,
            };
            if is_taken { Ok(Some(plain(address))) } else { Err(Errno::EAFNOSUPPORT) }
        }
        AddressFamily::V6 if is_datagram && told == 0 && purpose == AddressUse::Send => Ok(None),
        AddressFamily::V6 if is_datagram && told == INET => match all.len() < BYTES4 {
            true => Err(Errno::EINVAL),
            false => Ok(Some(GivenAddress { address: read4(all), is_mapped: true })),
        },
        AddressFamily::V6 if all.len() < BYTES6_OLD => Err(Errno::EINVAL),
        AddressFamily::V6 if told != INET6 && purpose == AddressUse::Send => Err(Errno::EINVAL),
        AddressFamily::V6 if told != INET6 => Err(Errno::EAFNOSUPPORT),
        AddressFamily::V6 => {
            let address = read6(all);
            Ok(Some(match address.ip().to_ipv4_mapped() {
                Some(ip) => GivenAddress {
                    address: SocketAddr::new(ip.into(), address.port()),
                    is_mapped: true,
                },
                None => plain(address.into()),
            }))
        }
    }
}

/// Returns `peer`, or loopback in the place of an address that stands for all, as connect(2) takes it: the address of the socket
/// itself if it is bound to one of IPv4.
pub(super) fn or_loopback(peer: SocketAddr, local: impl FnOnce() -> SocketAddr) -> SocketAddr {
    if !peer.ip().is_unspecified() {
        return peer;
    }
    let ip: IpAddr = match (peer.ip(), local().ip()) {
        (IpAddr::V4(ip), IpAddr::V4(own)) if ip.is_unspecified() && !own.is_unspecified() => {
            own.into()
        }
        (IpAddr::V4(ip), _) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // A socket that is bound to an address of IPv4 goes on with IPv4.
        (IpAddr::V6(ip), IpAddr::V4(own)) if ip.is_unspecified() && !own.is_unspecified() => {
            Ipv4Addr::LOCALHOST.into()
        }
        (IpAddr::V6(ip), _) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => return peer,
    };
    SocketAddr::new(ip, peer.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(bytes: &[u8]) -> SocketAddress {
        SocketAddress::of_parts(&[bytes])
    }
    fn parsed(
        family: AddressFamily,
        bytes: &[u8],
        purpose: AddressUse,
    ) -> Result<SocketAddr, Errno> {
        parse(family, &given(bytes), purpose).map(|found| found.unwrap().address)
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (family, text) in [
            (AddressFamily::V4, "127.0.0.1:80"),
            (AddressFamily::V6, "[::1]:80"),
            (AddressFamily::V6, "10.1.2.3:65535"),
            (AddressFamily::V6, "[fe80::1%7]:1"),
        ] {
            let address: SocketAddr = text.parse().unwrap();
            let written = encode(family, address);
            assert_eq!(parsed(family, written.bytes(), AddressUse::Bind), Ok(address));
        }
        let mapped = encode(AddressFamily::V6, "10.1.2.3:1".parse().unwrap());
        assert_eq!(mapped.bytes()[18..24], [0xff, 0xff, 10, 1, 2, 3]);
    }

    #[test]
    fn lengths_and_families_are_checked_in_the_order_of_linux() {
        use AddressUse::{Associate, Bind, Connect, Send};
        let four =
            |family: u16| [&family.to_le_bytes()[..], &[0, 9, 127, 0, 0, 1], &[0; 22]].concat();
        let of = |family, length| four(family)[..length].to_vec();
        let (v4, v6) = (AddressFamily::V4, AddressFamily::V6);
        for purpose in [Bind, Connect, Associate, Send] {
            assert_eq!(parsed(v4, &of(INET, 15), purpose), Err(Errno::EINVAL));
            assert_eq!(parsed(v4, &of(INET6, 28), purpose), Err(Errno::EAFNOSUPPORT));
            assert!(parsed(v4, &of(INET, 16), purpose).is_ok());
        }
        assert_eq!(parsed(v4, &of(0, 16), Bind), Err(Errno::EAFNOSUPPORT));
        assert!(parsed(v4, &[0; 16], Bind).is_ok());
        assert_eq!(parsed(v6, &of(INET, 16), Bind), Err(Errno::EINVAL));
        assert_eq!(parsed(v6, &of(INET, 28), Connect), Err(Errno::EAFNOSUPPORT));
        assert!(parsed(v6, &of(INET, 16), Associate).is_ok());
        assert_eq!(parsed(v6, &of(INET6, 23), Send), Err(Errno::EINVAL));
        assert!(parsed(v6, &of(INET6, 24), Send).is_ok());
        assert_eq!(parse(v6, &given(&[0, 0]), Send), Ok(None));
        assert_eq!(parse(v6, &given(&[1]), Bind), Err(Errno::EINVAL));
    }

    #[test]
    fn all_addresses_are_reached_by_loopback() {
        let (any, any6) = ("0.0.0.0:7".parse().unwrap(), "[::]:7".parse().unwrap());
        let own: SocketAddr = "10.0.0.1:1".parse().unwrap();
        assert_eq!(or_loopback(any, || any), "127.0.0.1:7".parse().unwrap());
        assert_eq!(or_loopback(any, || own), "10.0.0.1:7".parse().unwrap());
        assert_eq!(or_loopback(any6, || any6), "[::1]:7".parse().unwrap());
        assert_eq!(or_loopback(any6, || own), "127.0.0.1:7".parse().unwrap());
        assert_eq!(or_loopback(own, || any), own);
    }
}
