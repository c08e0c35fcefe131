//! The requests of the device file (`TUN*` of `if_tun.h`), in the order of checks of Linux (`__tun_chr_ioctl`).
use super::{
    TunnelFile,
    device::{CONTROL, QueueEnd, QueueOrigin, TunnelDevice, flag},
    format::VNET_BYTES,
    steering::{AddressFilter, GroupFrames},
};
use crate::socket::internet;
use alloc::sync::Arc;
use bpf::{INSTRUCTIONS_MAX, PacketProgram};
use core::sync::atomic::Ordering;
use interfaces::{
    nic::Offloads,
    sockets::{LinkChange, LinkRecord, NetworkChange, TunnelLayer},
};
use labels::SecrecyId;
use memory::AddressSpace;
use netadmin::route::is_valid_name;
use process::Task;
use vfs::security;
use vfs::{Capabilities, Errno, credentials::Credentials};

/// Numbers of requests.
mod command {
    pub(super) const SET_NO_CHECKSUM: u32 = 0x4004_54c8;
    pub(super) const SET_DEBUG: u32 = 0x4004_54c9;
    pub(super) const SET_INTERFACE: u32 = 0x4004_54ca;
    pub(super) const SET_PERSISTENT: u32 = 0x4004_54cb;
    pub(super) const SET_OWNER: u32 = 0x4004_54cc;
    pub(super) const SET_LINK: u32 = 0x4004_54cd;
    pub(super) const SET_GROUP: u32 = 0x4004_54ce;
    pub(super) const GET_FEATURES: u32 = 0x8004_54cf;
    pub(super) const SET_OFFLOAD: u32 = 0x4004_54d0;
    pub(super) const SET_ADDRESSES: u32 = 0x4004_54d1;
    pub(super) const GET_INTERFACE: u32 = 0x8004_54d2;
    pub(super) const GET_SEND_SPACE: u32 = 0x8004_54d3;
    pub(super) const SET_SEND_SPACE: u32 = 0x4004_54d4;
    pub(super) const ATTACH_FILTER: u32 = 0x4010_54d5;
    pub(super) const DETACH_FILTER: u32 = 0x4010_54d6;
    pub(super) const GET_HEADER_SIZE: u32 = 0x8004_54d7;
    pub(super) const SET_HEADER_SIZE: u32 = 0x4004_54d8;
    pub(super) const SET_QUEUE: u32 = 0x4004_54d9;
    pub(super) const SET_NUMBER: u32 = 0x4004_54da;
    pub(super) const GET_FILTER: u32 = 0x8010_54db;
    pub(super) const SET_LITTLE_ENDIAN: u32 = 0x4004_54dc;
    pub(super) const GET_LITTLE_ENDIAN: u32 = 0x8004_54dd;
    pub(super) const SET_STEERING: u32 = 0x8004_54e0;
    pub(super) const SET_EXTENDED_FILTER: u32 = 0x8004_54e1;
    pub(super) const SET_CARRIER: u32 = 0x4004_54e2;
    pub(super) const GET_NAMESPACE: u32 = 0x54e3;
    /// `SIOCSIFHWADDR`, `SIOCGIFHWADDR`, `SIOCGSKNS`, and the type of requests of sockets.
    pub(super) const SET_HARDWARE: u32 = 0x8924;
    pub(super) const GET_HARDWARE: u32 = 0x8927;
    pub(super) const GET_SOCKET_NAMESPACE: u32 = 0x894c;
    pub(super) const OF_SOCKETS: u32 = 0x89;
}

/// Flags of requests that are none of a device.
const EXCLUSIVE: u32 = 0x8000;
const NAPI: u32 = 0x10;
const NAPI_FRAGMENTS: u32 = 0x20;
const ATTACH_QUEUE: u32 = 0x200;
const DETACH_QUEUE: u32 = 0x400;
/// `IFF_NOFILTER`, which has the number of `IFF_NO_PI`.
const NO_FILTER: u32 = 0x1000;
/// `TUN_F_*`.
const CHECKSUM: u64 = 1;
const TCP4: u64 = 2;
const TCP6: u64 = 4;
const ECN: u64 = 8;
const UDP_FRAGMENTS: u64 = 16;
/// `TUN_FLT_ALLMULTI`.
const ALL_GROUPS: u16 = 1;
/// Bytes of `struct ifreq`, of the name at its begin, and the bits of an offset within it.
const REQUEST_BYTES: usize = 40;
const NAME_BYTES: usize = 16;
const VALUE_AT: usize = NAME_BYTES;
/// Bytes of an address on a link.
const MAC_BYTES: usize = 6;
/// The most memory of a filter, in bytes, as of one of a socket.
const FILTER_MAX: usize = 20_480;
/// A user or a group that is none.
const NOBODY: u32 = u32::MAX;

type RequestBytes = [u8; REQUEST_BYTES];

/// Returns the name in a request; its last byte counts as zero.
fn name_of(request: &RequestBytes) -> &[u8] {
    let name = request.get(..NAME_BYTES - 1).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.get(..end).unwrap_or_default()
}

fn flags_of(request: &RequestBytes) -> u32 {
    let bytes = request.get(VALUE_AT..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes).into())
}

fn put(request: &mut RequestBytes, at: usize, bytes: &[u8]) {
    let place = request.get_mut(at..).unwrap_or_default();
    place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

fn put_name(request: &mut RequestBytes, name: &str) {
    put(request, 0, &[0; NAME_BYTES]);
    put(request, 0, name.as_bytes());
}

/// Returns the interface of a device.
fn link_of(device: &TunnelDevice) -> Result<LinkRecord, Errno> {
    internet::link_numbered(device.tunnel()?.index()).ok_or(Errno::EBADFD)
}

/// Checks the right to be at the end of a device (`tun_not_capable`).
fn check_owner(device: &TunnelDevice, who: &Credentials) -> Result<(), Errno> {
    let settings = device.settings.lock();
    let is_other = settings.owner.is_some_and(|owner| owner != who.user.effective);
    let is_foreign = settings.group.is_some_and(|group| {
        who.group.effective != group && who.groups.binary_search(&group).is_err()
    });
    match (is_other || is_foreign) && !who.has(Capabilities::NET_ADMIN) {
        true => Err(Errno::EPERM),
        false => Ok(()),
    }
}

impl TunnelFile {
    /// Answers an ioctl.
    ///
    /// # Errors
    /// `EBADFD` without an interface, `EINVAL` for an unknown request, `EFAULT`, `EPERM`, and those of the request.
    pub fn ioctl(
        &self,
        task: &Task,
        memory: &AddressSpace,
        command: u32,
        argument: u64,
    ) -> Result<u64, Errno> {
        let of_sockets = command >> 8 & 0xff == command::OF_SOCKETS;
        let is_namespace = command == command::GET_SOCKET_NAMESPACE;
        let mut request = [0; REQUEST_BYTES];
        if matches!(command, command::SET_INTERFACE | command::SET_QUEUE)
            || of_sockets && !is_namespace
        {
            memory.read_bytes(argument, &mut request)?;
        }
        match command {
            command::GET_FEATURES => {
                let known = flag::NETWORK | flag::LINK | flag::NO_CARRIER | flag::CHOSEN;
                memory.write(argument, &known)?;
            }
            command::SET_QUEUE => self.set_queue(flags_of(&request))?,
            command::GET_SOCKET_NAMESPACE => return refuse_namespace(task),
            command::SET_INTERFACE => {
                self.set_interface(task, &mut request)?;
                memory.write_bytes(argument, &request)?;
            }
            command::SET_NUMBER => self.set_number(memory, argument)?,
            _ => {
                let device = self.device()?;
                return self.ask(&device, (task, memory), (command, argument), &mut request);
            }
        }
        Ok(0)
    }
    /// Sets the number of the interface to be made.
    fn set_number(&self, memory: &AddressSpace, argument: u64) -> Result<(), Errno> {
        if self.device().is_ok() {
            return Err(Errno::EPERM);
        }
        let number = memory.read::<u32>(argument)?;
        if number as i32 <= 0 && number != 0 {
            return Err(Errno::EINVAL);
        }
        self.number.store(number, Ordering::Relaxed);
        Ok(())
    }
    /// Makes an interface, or goes to the end of one (`tun_set_iff`). Its name is written into the request.
    fn set_interface(&self, task: &Task, request: &mut RequestBytes) -> Result<(), Errno> {
        let _control = CONTROL.lock();
        if self.device().is_ok() {
            return Err(Errno::EEXIST);
        }
        let (flags, who) = (flags_of(request), task.credentials());
        let may_administer = security::may_configure_network(&who);
        if flags & NAPI_FRAGMENTS != 0 {
            if !may_administer {
                return Err(Errno::EPERM);
            }
            if flags & NAPI == 0 || flags & (flag::NETWORK | flag::LINK) != flag::LINK {
                return Err(Errno::EINVAL);
            }
        }
        let found = internet::link_named(name_of(request));
        let device = match found {
            Some(link) => self.join(&link, flags, &who)?,
            None if !may_administer => return Err(Errno::EPERM),
            None => self.make(flags, name_of(request), who.subject.label().secrecy())?,
        };
        *self.attached.write() = Some(Arc::clone(&device));
        self.is_disabled.store(false, Ordering::Relaxed);
        let link = link_of(&device)?;
        put_name(request, &link.name);
        Ok(())
    }
    /// Goes to the end of an interface that is there.
    fn join(
        &self,
        link: &LinkRecord,
        flags: u32,
        who: &Credentials,
    ) -> Result<Arc<TunnelDevice>, Errno> {
        if flags & EXCLUSIVE != 0 {
            return Err(Errno::EBUSY);
        }
        let device = TunnelDevice::of_interface(link.index).ok_or(Errno::EINVAL)?;
        let wanted = match flags {
            flags if flags & flag::NETWORK != 0 => Some(TunnelLayer::Network),
            flags if flags & flag::LINK != 0 => Some(TunnelLayer::Link),
            _ => None,
        };
        let has_queues = flags & flag::HAS_QUEUES != 0;
        let is_of_layer = wanted == Some(device.layer())
            || flags & flag::LINK != 0 && device.layer() == TunnelLayer::Link;
        if !is_of_layer || has_queues != device.has(flag::HAS_QUEUES) {
            return Err(Errno::EINVAL);
        }
        check_owner(&device, who)?;
        device.attach(&self.queue, QueueOrigin::New)?;
        let tunnel = device.tunnel()?;
        let (queues, disabled) = device.queue_counts();
        if !has_queues || queues + disabled <= 1 {
            device.set_flags(flag::CHOSEN, flags);
        }
        tunnel.announce();
        if !has_queues || queues + disabled <= 1 {
            tunnel.set_carrier(flags & flag::NO_CARRIER == 0);
        }
        Ok(device)
    }
    /// Makes an interface.
    fn make(&self, flags: u32, name: &[u8], label: SecrecyId) -> Result<Arc<TunnelDevice>, Errno> {
        let (layer, kind, template) = match flags {
            flags if flags & flag::NETWORK != 0 => (TunnelLayer::Network, flag::NETWORK, "tun%d"),
            flags if flags & flag::LINK != 0 => (TunnelLayer::Link, flag::LINK, "tap%d"),
            _ => return Err(Errno::EINVAL),
        };
        let name = match name {
            [] => template,
            name => core::str::from_utf8(name).map_err(|_| Errno::EINVAL)?,
        };
        if !is_valid_name(name) {
            return Err(Errno::EINVAL);
        }
        let flags = kind | flags & (flag::CHOSEN | flag::NO_CARRIER);
        let number = Some(self.number.load(Ordering::Relaxed)).filter(|number| *number != 0);
        TunnelDevice::make((name, number, label), layer, flags, &self.queue)
    }
    /// Takes the queue out of use, or puts it into use again (`tun_set_queue`).
    fn set_queue(&self, flags: u32) -> Result<(), Errno> {
        let _control = CONTROL.lock();
        let device = self.device().map_err(|_| Errno::EINVAL)?;
        let is_disabled = self.is_disabled.load(Ordering::Relaxed);
        if flags & ATTACH_QUEUE != 0 {
            if !is_disabled {
                return Err(Errno::EINVAL);
            }
            device.attach(&self.queue, QueueOrigin::Disabled)?;
            self.is_disabled.store(false, Ordering::Relaxed);
        } else if flags & DETACH_QUEUE != 0 {
            if is_disabled || !device.has(flag::HAS_QUEUES) {
                return Err(Errno::EINVAL);
            }
            device.detach(&self.queue, QueueEnd::Disabled);
            self.is_disabled.store(true, Ordering::Relaxed);
        } else {
            return Err(Errno::EINVAL);
        }
        device.tunnel()?.announce();
        Ok(())
    }
    /// Does a request about the device.
    fn ask(
        &self,
        device: &Arc<TunnelDevice>,
        (task, memory): (&Task, &AddressSpace),
        (command, argument): (u32, u64),
        request: &mut RequestBytes,
    ) -> Result<u64, Errno> {
        match command {
            command::GET_INTERFACE => {
                self.describe(device, request)?;
                memory.write_bytes(argument, request)?;
            }
            command::SET_NO_CHECKSUM | command::SET_DEBUG => {}
            command::SET_PERSISTENT => set_persistent(device, argument)?,
            command::SET_OWNER | command::SET_GROUP => set_owner(device, command, argument as u32)?,
            command::SET_LINK => {
                let tunnel = device.tunnel()?;
                // The only other error is that of an interface that is gone.
                tunnel.set_hardware(argument as u16).map_err(|_| Errno::EBUSY)?;
            }
            command::SET_OFFLOAD => device.tunnel()?.set_offloads(offloads(argument)?),
            command::SET_ADDRESSES => return set_addresses(device, memory, argument),
            command::GET_HARDWARE => {
                let link = link_of(device)?;
                put(request, VALUE_AT, &link.hardware.to_le_bytes());
                put(request, VALUE_AT + 2, &[0; 14]);
                put(request, VALUE_AT + 2, &link.mac);
                memory.write_bytes(argument, request)?;
            }
            command::SET_HARDWARE => set_hardware(device, request)?,
            command::ATTACH_FILTER | command::DETACH_FILTER | command::GET_FILTER => {
                filter(device, memory, (command, argument))?;
            }
            command::SET_STEERING | command::SET_EXTENDED_FILTER => {
                // There are no programs of the extended language to be set, but none can be.
                if memory.read::<i32>(argument)? != -1 {
                    return Err(Errno::EINVAL);
                }
            }
            command::SET_CARRIER => set_carrier(device, memory.read::<u32>(argument)?)?,
            command::GET_NAMESPACE => return refuse_namespace(task),
            _ => ask_number(device, memory, (command, argument))?,
        }
        Ok(0)
    }
    /// Writes the name and the flags of the interface into a request.
    fn describe(&self, device: &TunnelDevice, request: &mut RequestBytes) -> Result<(), Errno> {
        let mut flags = device.shown_flags();
        if self.is_disabled.load(Ordering::Relaxed) {
            flags |= DETACH_QUEUE;
        }
        if self.queue.filter.get().is_none() {
            flags |= NO_FILTER;
        }
        put_name(request, &link_of(device)?.name);
        put(request, VALUE_AT, &(flags as u16).to_le_bytes());
        Ok(())
    }
}

/// Does a request that reads or writes one number.
fn ask_number(
    device: &TunnelDevice,
    memory: &AddressSpace,
    (command, argument): (u32, u64),
) -> Result<(), Errno> {
    match command {
        command::GET_SEND_SPACE => {
            let space = device.settings.lock().send_space;
            memory.write(argument, &space)?;
        }
        command::SET_SEND_SPACE => {
            let space = memory.read::<i32>(argument)?;
            if space <= 0 {
                return Err(Errno::EINVAL);
            }
            device.settings.lock().send_space = space;
        }
        command::GET_HEADER_SIZE => {
            memory.write(argument, &device.vnet_bytes.load(Ordering::Relaxed))?;
        }
        command::SET_HEADER_SIZE => {
            let bytes = memory.read::<i32>(argument)?;
            let bytes = u32::try_from(bytes).ok().filter(|it| *it as usize >= VNET_BYTES);
            device.vnet_bytes.store(bytes.ok_or(Errno::EINVAL)?, Ordering::Relaxed);
        }
        command::GET_LITTLE_ENDIAN => {
            memory.write(argument, &u32::from(device.has(flag::LITTLE_ENDIAN)))?;
        }
        command::SET_LITTLE_ENDIAN => {
            let value = memory.read::<u32>(argument)?;
            device.set_flags(flag::LITTLE_ENDIAN, if value != 0 { u32::MAX } else { 0 });
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Refuses a descriptor of the network's namespace: there is one namespace, which no descriptor names.
fn refuse_namespace(task: &Task) -> Result<u64, Errno> {
    let may_ask = task.credentials().has(Capabilities::NET_ADMIN);
    Err(if may_ask { Errno::EINVAL } else { Errno::EPERM })
}

fn set_persistent(device: &TunnelDevice, argument: u64) -> Result<(), Errno> {
    let _control = CONTROL.lock();
    if device.has(flag::PERSISTS) != (argument != 0) {
        device.set_flags(flag::PERSISTS, if argument != 0 { u32::MAX } else { 0 });
        device.tunnel()?.announce();
    }
    Ok(())
}

fn set_owner(device: &TunnelDevice, command: u32, id: u32) -> Result<(), Errno> {
    if id == NOBODY {
        return Err(Errno::EINVAL);
    }
    {
        let mut settings = device.settings.lock();
        match command {
            command::SET_OWNER => settings.owner = Some(id),
            _ => settings.group = Some(id),
        }
    }
    device.tunnel()?.announce();
    Ok(())
}

/// Returns the offloads that a program asks for (`set_offload`).
///
/// # Errors
/// `EINVAL` for one that it cannot have.
fn offloads(mut wanted: u64) -> Result<Offloads, Errno> {
    let mut all = Offloads::empty();
    if wanted & CHECKSUM != 0 {
        all |= Offloads::SEND_CHECKSUM;
        wanted &= !CHECKSUM;
        if wanted & (TCP4 | TCP6) != 0 {
            all.set(Offloads::SEND_ECN, wanted & ECN != 0);
            all.set(Offloads::SEND_TCP4, wanted & TCP4 != 0);
            all.set(Offloads::SEND_TCP6, wanted & TCP6 != 0);
            wanted &= !(ECN | TCP4 | TCP6);
        }
        wanted &= !UDP_FRAGMENTS;
    }
    if wanted == 0 { Ok(all) } else { Err(Errno::EINVAL) }
}

/// Sets the receivers of frames that are wanted. Returns the number of those that are compared whole.
fn set_addresses(
    device: &TunnelDevice,
    memory: &AddressSpace,
    argument: u64,
) -> Result<u64, Errno> {
    if device.layer() != TunnelLayer::Link {
        return Err(Errno::EINVAL);
    }
    let [flags, count] = memory.read::<[u16; 2]>(argument)?;
    if count == 0 {
        device.set_addresses(None);
        return Ok(0);
    }
    let bytes = usize::from(count) * MAC_BYTES;
    let addresses = memory.read_array::<u8>(argument.wrapping_add(4), bytes)?;
    let groups = if flags & ALL_GROUPS != 0 { GroupFrames::All } else { GroupFrames::Listed };
    let made = AddressFilter::new(&addresses, groups);
    device.set_addresses(made.map(|(filter, _)| filter));
    Ok(made.map_or(0, |(_, exact)| exact as u64))
}

fn set_hardware(device: &TunnelDevice, request: &RequestBytes) -> Result<(), Errno> {
    let link = link_of(device)?;
    if device.layer() == TunnelLayer::Network {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags_of(request) != u32::from(link.hardware) {
        return Err(Errno::EINVAL);
    }
    let mac = request.get(VALUE_AT + 2..).and_then(|rest| rest.first_chunk()).copied();
    let change = LinkChange { index: link.index, mac, ..LinkChange::default() };
    change_link(change)
}

fn set_carrier(device: &TunnelDevice, value: u32) -> Result<(), Errno> {
    let index = device.tunnel()?.index();
    change_link(LinkChange { index, has_carrier: Some(value != 0), ..LinkChange::default() })
}

fn change_link(change: LinkChange) -> Result<(), Errno> {
    let network = internet::administration().ok_or(Errno::ENODEV)?;
    let result = network.change(&NetworkChange::Link(change));
    result.map_err(|error| crate::socket::netlink::ioctl_number(error.into()))
}

/// Does the requests about the filter, which only devices of frames have.
fn filter(
    device: &TunnelDevice,
    memory: &AddressSpace,
    (command, argument): (u32, u64),
) -> Result<(), Errno> {
    if device.layer() != TunnelLayer::Link {
        return Err(Errno::EINVAL);
    }
    match command {
        command::ATTACH_FILTER => {
            let given = memory.read::<[u64; 2]>(argument)?;
            let program = program_of(memory, given)?;
            device.settings.lock().filter = Some((Arc::clone(&program), given));
            device.each_queue(|queue| drop(queue.filter.set(Some(Arc::clone(&program)))));
        }
        command::DETACH_FILTER => {
            device.settings.lock().filter = None;
            device.each_queue(|queue| drop(queue.filter.set(None)));
        }
        _ => {
            let given = device.settings.lock().filter.as_ref().map_or([0; 2], |(_, given)| *given);
            memory.write(argument, &given)?;
        }
    }
    Ok(())
}

/// Returns the program that a `struct sock_fprog` names.
fn program_of(memory: &AddressSpace, [count, at]: [u64; 2]) -> Result<Arc<PacketProgram>, Errno> {
    let count = usize::from(count as u16);
    if at == 0 || !(1..=INSTRUCTIONS_MAX).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let words = memory.read_array::<u64>(at, count)?;
    let program = PacketProgram::new(&words).map_err(|_| Errno::EINVAL)?;
    if program.memory() > FILTER_MAX {
        return Err(Errno::ENOMEM);
    }
    Ok(Arc::new(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_need_checksums_and_unknown_offloads_are_refused() {
        let sums = Offloads::SEND_CHECKSUM;
        assert_eq!(offloads(0), Ok(Offloads::empty()));
        assert_eq!(offloads(1), Ok(sums));
        assert_eq!(offloads(0x11), Ok(sums));
        assert_eq!(offloads(3), Ok(sums | Offloads::SEND_TCP4));
        let all = sums | Offloads::SEND_TCP4 | Offloads::SEND_TCP6 | Offloads::SEND_ECN;
        assert_eq!(offloads(0xf), Ok(all));
        for wrong in [2, 4, 8, 9, 16, 0x21, 1 << 40] {
            assert_eq!(offloads(wrong), Err(Errno::EINVAL), "{wrong:#x}");
        }
    }

    #[test]
    fn a_request_has_a_name_of_fifteen_letters() {
        let mut request = [b'a'; REQUEST_BYTES];
        assert_eq!(name_of(&request).len(), 15);
        put_name(&mut request, "tun0");
        assert_eq!((name_of(&request), flags_of(&request)), (&b"tun0"[..], 0x6161));
    }
}
