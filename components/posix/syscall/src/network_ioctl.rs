//! The ioctls of interfaces, routes and neighbours, on a socket of any family (netdevice(7), arp(7)).
use linux_raw_sys::net;
use memory::AddressSpace;
use netadmin::ioctl::{
    self, ETHTOOL_BYTES_MAX, IoctlCaller, REQUEST_BYTES, ROUTE_DEVICE_AT, command,
};
use objects::socket::{Socket, internet, netlink::ioctl_number};
use process::call::Call;
use vfs::Errno;
use vfs::security;

/// Bytes of the name of an interface, with its final zero.
const NAME_BYTES: usize = 16;
/// Offset of the pointer in `struct ifconf` and in the `struct ifreq` of `SIOCETHTOOL`.
const LIST_AT: u64 = 8;
const DATA_AT: u64 = 16;
/// Bytes of the longest argument.
const ARGUMENT_MAX: usize = 128;

/// Does a request. Returns `None` if it is none of these.
///
/// # Errors
/// `EFAULT`, `EINVAL`, `EPERM`, `ENODEV`, `EOPNOTSUPP`, and those of the request.
pub fn request(
    call: &Call<'_>,
    socket: &dyn Socket,
    number: u32,
    argument: u64,
) -> Result<Option<u64>, Errno> {
    let credentials = call.task.credentials();
    let Some(network) = internet::administration_for(&credentials.subject) else {
        return Ok(None);
    };
    let caller = IoctlCaller {
        family: family_of(socket),
        may_administer: security::may_configure_network(&credentials),
    };
    let memory = call.memory;
    match number {
        command::GET_ADDRESSES => list(memory, argument, &ioctl::addresses(&*network))?,
        command::ETHTOOL => {
            let name = name_at(memory, argument)?;
            let data = memory.read::<u64>(argument.wrapping_add(DATA_AT))?;
            let mut bytes = [0; ETHTOOL_BYTES_MAX];
            read_most(memory, data, &mut bytes)?;
            let release = process::system::RELEASE;
            let length = ioctl::ethtool(&*network, caller, (text(&name), release), &mut bytes)
                .map_err(ioctl_number)?;
            memory.write_bytes(data, bytes.get(..length).unwrap_or_default())?;
        }
        _ => {
            let Some(length) = ioctl::argument_bytes(number, caller.family) else {
                return Ok(None);
            };
            let mut bytes = [0; ARGUMENT_MAX];
            let bytes = bytes.get_mut(..length).ok_or(Errno::EINVAL)?;
            memory.read_bytes(argument, bytes)?;
            let is_route = matches!(number, command::ADD_ROUTE | command::DELETE_ROUTE);
            let device = match device_at(bytes).filter(|_| is_route) {
                Some(at) => Some(name_at(memory, at)?),
                None => None,
            };
            let device = device.as_ref().map(text);
            ioctl::request(&*network, caller, number, bytes, device).map_err(ioctl_number)?;
            if ioctl::is_answered(number) {
                memory.write_bytes(argument, bytes)?;
            }
        }
    }
    Ok(Some(0))
}

/// Returns the family by which requests are read. Sockets of AF_PACKET take those of AF_INET, as on Linux (`packet_ioctl`).
fn family_of(socket: &dyn Socket) -> u16 {
    match u32::from(socket.family()) {
        net::AF_PACKET => net::AF_INET as u16,
        _ => socket.family(),
    }
}

/// Returns the address of the interface's name in a `struct rtentry`, if it has one.
fn device_at(bytes: &[u8]) -> Option<u64> {
    let pointer = bytes.get(ROUTE_DEVICE_AT..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*pointer)).filter(|at| *at != 0)
}

fn name_at(memory: &AddressSpace, at: u64) -> Result<[u8; NAME_BYTES], Errno> {
    let mut name = [0; NAME_BYTES];
    // As in Linux, the last byte counts as zero.
    memory.read_bytes(at, name.get_mut(..NAME_BYTES - 1).unwrap_or_default())?;
    Ok(name)
}

fn text(name: &[u8; NAME_BYTES]) -> &str {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    core::str::from_utf8(name.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// Reads as many bytes as a program has there, in words.
fn read_most(memory: &AddressSpace, at: u64, bytes: &mut [u8]) -> Result<(), Errno> {
    const WORD: usize = 4;
    for (place, word) in (0u64..).step_by(WORD).zip(bytes.chunks_mut(WORD)) {
        match memory.read_bytes(at.wrapping_add(place), word) {
            Ok(()) => {}
            // The number of the request must be there.
            Err(error) if place == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(())
}

/// Does `SIOCGIFCONF`: a program without a buffer is told the length, and one with a buffer gets as many entries as fit.
fn list(memory: &AddressSpace, argument: u64, entries: &[u8]) -> Result<(), Errno> {
    let room = memory.read::<i32>(argument)?;
    let buffer = memory.read::<u64>(argument.wrapping_add(LIST_AT))?;
    let length = if buffer == 0 {
        entries.len()
    } else {
        let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
        let length = entries.len().min(room / REQUEST_BYTES * REQUEST_BYTES);
        memory.write_bytes(buffer, entries.get(..length).unwrap_or_default())?;
        length
    };
    memory.write(argument, &(length as i32))
}
