//! The ioctls of interfaces (netdevice(7)), routes, ARP (arp(7)) and ethtool(8), as functions of their argument's bytes.
mod address;
mod device;
mod ethtool;
mod routes;

pub use ethtool::{BYTES_MAX as ETHTOOL_BYTES_MAX, ethtool};

use crate::{
    NetErrno,
    base::{INET, INET6, NAME_BYTES, text},
};
use alloc::vec::Vec;
use interfaces::sockets::NetworkAdministration;

/// Numbers of requests (`SIOC*`).
pub mod command {
    /// `SIOCADDRT`.
    pub const ADD_ROUTE: u32 = 0x890b;
    /// `SIOCDELRT`.
    pub const DELETE_ROUTE: u32 = 0x890c;
    /// `SIOCGIFCONF`.
    pub const GET_ADDRESSES: u32 = 0x8912;
    /// `SIOCETHTOOL`.
    pub const ETHTOOL: u32 = 0x8946;
    pub(crate) const GET_NAME: u32 = 0x8910;
    pub(crate) const GET_FLAGS: u32 = 0x8913;
    pub(crate) const SET_FLAGS: u32 = 0x8914;
    pub(crate) const GET_ADDRESS: u32 = 0x8915;
    pub(crate) const SET_ADDRESS: u32 = 0x8916;
    pub(crate) const GET_PEER: u32 = 0x8917;
    pub(crate) const SET_PEER: u32 = 0x8918;
    pub(crate) const GET_BROADCAST: u32 = 0x8919;
    pub(crate) const SET_BROADCAST: u32 = 0x891a;
    pub(crate) const GET_MASK: u32 = 0x891b;
    pub(crate) const SET_MASK: u32 = 0x891c;
    pub(crate) const GET_METRIC: u32 = 0x891d;
    pub(crate) const SET_METRIC: u32 = 0x891e;
    pub(crate) const GET_MTU: u32 = 0x8921;
    pub(crate) const SET_MTU: u32 = 0x8922;
    pub(crate) const SET_NAME: u32 = 0x8923;
    pub(crate) const SET_HARDWARE: u32 = 0x8924;
    pub(crate) const GET_HARDWARE: u32 = 0x8927;
    pub(crate) const GET_SLAVE: u32 = 0x8929;
    pub(crate) const SET_SLAVE: u32 = 0x8930;
    pub(crate) const ADD_GROUP: u32 = 0x8931;
    pub(crate) const DELETE_GROUP: u32 = 0x8932;
    pub(crate) const GET_INDEX: u32 = 0x8933;
    pub(crate) const DELETE_ADDRESS: u32 = 0x8936;
    pub(crate) const SET_HARDWARE_BROADCAST: u32 = 0x8937;
    pub(crate) const GET_QUEUE: u32 = 0x8942;
    pub(crate) const SET_QUEUE: u32 = 0x8943;
    pub(crate) const DELETE_NEIGHBOUR: u32 = 0x8953;
    pub(crate) const GET_NEIGHBOUR: u32 = 0x8954;
    pub(crate) const SET_NEIGHBOUR: u32 = 0x8955;
    pub(crate) const GET_MAP: u32 = 0x8970;
    pub(crate) const SET_MAP: u32 = 0x8971;
}

/// Bytes of `struct ifreq`.
pub const REQUEST_BYTES: usize = 40;
/// Bytes of `struct rtentry`, and of its form for IPv6.
const ROUTE_BYTES: usize = 120;
const ROUTE6_BYTES: usize = 80;
/// Offset of the pointer to the name of the interface in `struct rtentry`.
pub const ROUTE_DEVICE_AT: usize = 88;
/// Bytes of `struct in6_ifreq`.
const ADDRESS6_BYTES: usize = 24;
/// Bytes of `struct arpreq`.
const NEIGHBOUR_BYTES: usize = 68;

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlCaller {
    /// Family of the socket.
    pub family: u16,
    /// It may change the network (CAP_NET_ADMIN).
    pub may_administer: bool,
}

impl IoctlCaller {
    /// Checks the right to change the network.
    ///
    /// # Errors
    /// `EPERM`.
    fn check(&self) -> Result<(), NetErrno> {
        if self.may_administer { Ok(()) } else { Err(NetErrno::EPERM) }
    }
    fn is(&self, family: u8) -> bool {
        self.family == family.into()
    }
}

/// Returns the number of bytes of a request's argument; `None` if it is none of these. `SIOCGIFCONF` and `SIOCETHTOOL` have functions
/// of their own: [`addresses`], [`ethtool()`].
pub fn argument_bytes(number: u32, family: u16) -> Option<usize> {
    let is_version6 = family == INET6.into();
    let is_version4 = family == INET.into();
    match number {
        command::ADD_ROUTE | command::DELETE_ROUTE if is_version4 => Some(ROUTE_BYTES),
        command::ADD_ROUTE | command::DELETE_ROUTE if is_version6 => Some(ROUTE6_BYTES),
        command::SET_ADDRESS | command::SET_PEER | command::DELETE_ADDRESS if is_version6 => {
            Some(ADDRESS6_BYTES)
        }
        command::DELETE_NEIGHBOUR..=command::SET_NEIGHBOUR if is_version4 => Some(NEIGHBOUR_BYTES),
        command::GET_ADDRESS..=command::SET_MASK if is_version4 => Some(REQUEST_BYTES),
        command::GET_NAME
        | command::GET_FLAGS
        | command::SET_FLAGS
        | command::GET_METRIC
        | command::SET_METRIC
        | command::GET_MTU..=command::SET_HARDWARE
        | command::GET_HARDWARE
        | command::GET_SLAVE
        | command::SET_SLAVE..=command::GET_INDEX
        | command::SET_HARDWARE_BROADCAST
        | command::GET_QUEUE
        | command::SET_QUEUE
        | command::GET_MAP
        | command::SET_MAP => Some(REQUEST_BYTES),
        _ => None,
    }
}

/// Returns whether a request writes its argument back.
pub fn is_answered(number: u32) -> bool {
    matches!(
        number,
        command::GET_NAME
            | command::GET_FLAGS
            | command::GET_ADDRESS
            | command::GET_PEER
            | command::GET_BROADCAST
            | command::GET_MASK
            | command::GET_METRIC
            | command::GET_MTU
            | command::GET_HARDWARE
            | command::GET_INDEX
            | command::GET_QUEUE
            | command::GET_NEIGHBOUR
            | command::GET_MAP
    )
}

/// Does a request. `device` is the name of the interface that a `struct rtentry` points to.
///
/// # Errors
/// `EPERM`, `ENODEV`, `EINVAL`, `EADDRNOTAVAIL`, `ENOTTY` for a number that is none of these, and those of the change.
pub fn request(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    number: u32,
    argument: &mut [u8],
    device: Option<&str>,
) -> Result<(), NetErrno> {
    match number {
        command::ADD_ROUTE | command::DELETE_ROUTE => {
            caller.check()?;
            let adds =
                if number == command::ADD_ROUTE { routes::Way::Add } else { routes::Way::Delete };
            if caller.is(INET6) {
                routes::change6(network, adds, argument)
            } else {
                routes::change4(network, adds, argument, device)
            }
        }
        command::DELETE_NEIGHBOUR..=command::SET_NEIGHBOUR => {
            routes::neighbour(network, caller, number, argument)
        }
        command::SET_ADDRESS | command::SET_PEER | command::DELETE_ADDRESS if caller.is(INET6) => {
            address::change6(network, caller, number, argument)
        }
        command::GET_ADDRESS..=command::SET_MASK if caller.is(INET) => {
            address::request(network, caller, number, argument)
        }
        command::SET_FLAGS if caller.is(INET) && device::alias(argument).is_some() => {
            address::set_flags(network, caller, argument)
        }
        _ => device::request(network, caller, number, argument),
    }
}

/// Returns the name at the begin of a `struct ifreq`.
fn name(argument: &[u8]) -> Result<&str, NetErrno> {
    let bytes = argument.get(..NAME_BYTES - 1).ok_or(NetErrno::EINVAL)?;
    text(bytes).ok_or(NetErrno::ENODEV)
}

/// Writes `bytes` into an argument at `at`, as far as it is long.
fn put(argument: &mut [u8], at: usize, bytes: &[u8]) {
    let place = argument.get_mut(at..).unwrap_or_default();
    place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

/// Returns the answer to `SIOCGIFCONF`: a `struct ifreq` for each address of IPv4.
pub fn addresses(network: &dyn NetworkAdministration) -> Vec<u8> {
    let links = network.links();
    let mut bytes = Vec::new();
    for one in network.addresses() {
        let core::net::IpAddr::V4(address) = one.address else { continue };
        let link = links.iter().find(|link| link.index == one.interface);
        let label = if one.label.is_empty() {
            link.map_or("", |link| link.name.as_str())
        } else {
            one.label.as_str()
        };
        let mut entry = [0; REQUEST_BYTES];
        put(&mut entry, 0, label.as_bytes());
        put(&mut entry, NAME_BYTES, &[INET, 0, 0, 0]);
        put(&mut entry, NAME_BYTES + 4, &address.octets());
        bytes.extend_from_slice(&entry);
    }
    bytes
}
