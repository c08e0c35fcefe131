//! The secrecy of packets: what an interface may carry, and the options that tell it (CIPSO, CALIPSO).
//!
//! A packet of an interface with one secrecy costs a compare where its path is looked for. Where packets tell their secrecy, the
//! option is put in front of the packet's other options, and taken from there.
use super::{
    path::{HeaderExtension, Path, SendError, SendRequest},
    stack::{Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::Family,
        buffer::Buffer,
        packets::{Arrival, Departure},
    },
    tables::interface::{Interface, InterfaceIndex},
};
use alloc::{vec, vec::Vec};
use interfaces::sockets::{LabelFault, LabelOption, LinkLabel};
use labels::{
    SecrecyId,
    wire::{calipso, cipso},
};
use packet::{
    ipv4::{Ipv4, OPTIONS_MAX},
    ipv6::{HEADER_LENGTH, Ipv6Header, Walk},
    protocol,
};

/// Bytes by which a packet tells its secrecy, at most: the room of options of IPv4.
const LABEL_MAX: usize = OPTIONS_MAX;
/// Next header and length of an extension header.
const EXTENSION_FRONT: usize = 2;
/// Types of ICMPv6 by which hosts find their neighbours and groups (RFC 2710, RFC 3810, RFC 4861).
const NEIGHBOURS: core::ops::RangeInclusive<u8> = 130..=137;
const GROUPS2: u8 = 143;

/// The words of a packet about its secrecy.
enum PacketTells<'p> {
    /// The option that tells it.
    Label(&'p [u8], LabelOption),
    /// Nothing: it is a message between stacks.
    OfStack,
    /// Nothing.
    Nothing,
}

/// Returns the bytes in front of a packet of `family` that carry an option: of IPv6 a hop-by-hop header, whose first byte is to name
/// the header behind it.
fn carried(family: Family, option: &[u8]) -> Vec<u8> {
    match family {
        Family::V4 => {
            let mut bytes = Vec::from(option);
            bytes.resize(option.len().next_multiple_of(4), 0);
            bytes
        }
        Family::V6 => {
            let length = (EXTENSION_FRONT + option.len()).next_multiple_of(8);
            let mut bytes = vec![0, (length / 8 - 1) as u8];
            bytes.extend_from_slice(option);
            // One option of padding.
            let padding = length - bytes.len();
            match padding {
                0 => {}
                1 => bytes.push(0),
                _ => {
                    bytes.extend([1, (padding - 2) as u8]);
                    bytes.resize(length, 0);
                }
            }
            bytes
        }
    }
}

/// Returns the first option of `kind` of a hop-by-hop header, with its kind and its length.
fn find_hop_option(head: &[u8], kind: u8) -> Option<&[u8]> {
    let header = Ipv6Header::parse_quoted(head).ok()?;
    let behind = head.get(HEADER_LENGTH..)?;
    if header.next_header != protocol::HOP_BY_HOP {
        return None;
    }
    let length = usize::from(*behind.get(1)?) * 8 + 8;
    let mut rest = behind.get(EXTENSION_FRONT..length)?;
    loop {
        rest = match *rest {
            [0, ..] => rest.get(1..)?,
            [found, data, ..] => {
                let end = 2 + usize::from(data);
                if found == kind {
                    return rest.get(..end);
                }
                rest.get(end..)?
            }
            _ => return None,
        };
    }
}

impl<B: Buffer> Stack<B> {
    /// Checks that an interface may carry a packet. Returns the bytes by which the packet tells its secrecy.
    ///
    /// # Errors
    /// [`SendError::Prohibited`].
    #[inline]
    pub(super) fn label_length(
        &self,
        run: &StackRun<'_, B>,
        request: &SendRequest,
        interface: &Interface,
    ) -> Result<u8, SendError> {
        match request.label == interface.label.of_packets() {
            true => Ok(0),
            false => self.other_label_length(run, request, interface),
        }
    }
    #[cold]
    fn other_label_length(
        &self,
        run: &StackRun<'_, B>,
        request: &SendRequest,
        interface: &Interface,
    ) -> Result<u8, SendError> {
        // A message of the stack to its neighbours has no secrecy, and no packet of loopback leaves the host.
        if request.label == SecrecyId::NONE || interface.is_loopback() {
            return Ok(0);
        }
        let bytes = self.label_bytes(run, request, interface);
        let length = bytes.map(|bytes| bytes.len()).filter(|length| *length <= LABEL_MAX);
        length.map(|length| length as u8).ok_or_else(|| {
            self.dropped(DropReason::LabelSent);
            SendError::Prohibited
        })
    }
    /// Returns the bytes by which a packet tells its secrecy; `None` if the interface may not carry it, or nothing can tell it.
    fn label_bytes(
        &self,
        run: &StackRun<'_, B>,
        request: &SendRequest,
        interface: &Interface,
    ) -> Option<Vec<u8>> {
        let LinkLabel::Told { low, high, domain } = interface.label else { return None };
        let labels = run.configuration.labels();
        if !labels.dominates(request.label, low) || !labels.dominates(high, request.label) {
            return None;
        }
        let family = Family::of(request.destination);
        let option = match family {
            Family::V4 => LabelOption::Cipso,
            Family::V6 => LabelOption::Calipso,
        };
        let option = labels.get()?.written(request.label, domain, option)?;
        Some(carried(family, &option))
    }
    /// Puts the label of a packet in front of it. Returns the path and the request of the packet with it.
    fn with_label(
        &self,
        run: &StackRun<'_, B>,
        (path, request): (&Path, &SendRequest),
        packet: &mut Departure<B>,
        first: Option<u8>,
    ) -> Result<(Path, SendRequest), SendError> {
        let interface = run.configuration.interface(path.interface).ok_or(SendError::NoRoute)?;
        let bytes = self.label_bytes(run, request, interface);
        // The policy may have changed since the path was found.
        let mut bytes = bytes
            .filter(|bytes| bytes.len() == usize::from(path.label_length))
            .ok_or_else(|| {
                self.dropped(DropReason::LabelSent);
                SendError::Prohibited
            })?;
        if let (Some(first), Some(place)) = (first, bytes.first_mut()) {
            *place = first;
        }
        packet.headers.prepend(&bytes)?;
        let HeaderExtension { bytes: others, repeated, .. } = request.extension;
        let added = u16::from(path.label_length);
        let extension = HeaderExtension {
            bytes: others + added,
            first: protocol::HOP_BY_HOP,
            repeated: repeated + added,
        };
        let path = Path { mtu: path.mtu + u32::from(added), label_length: 0, ..*path };
        Ok((path, SendRequest { extension, ..*request }))
    }
    /// Puts the label of a packet of IPv4 in front of its other options.
    pub(super) fn label4(
        &self,
        run: &StackRun<'_, B>,
        (path, request): (&Path, &SendRequest),
        packet: &mut Departure<B>,
    ) -> Result<(Path, SendRequest), SendError> {
        let options = usize::from(request.extension.bytes) + usize::from(path.label_length);
        if options > OPTIONS_MAX {
            self.dropped(DropReason::LabelSent);
            return Err(SendError::Prohibited);
        }
        self.with_label(run, (path, request), packet, None)
    }
    /// Puts a hop-by-hop header with the label of a packet of IPv6 in front of its other extension headers.
    pub(super) fn label6(
        &self,
        run: &StackRun<'_, B>,
        (path, request): (&Path, &SendRequest),
        packet: &mut Departure<B>,
    ) -> Result<(Path, SendRequest), SendError> {
        let has_others = request.extension.bytes > 0;
        let first = if has_others { request.extension.first } else { request.protocol };
        if first == protocol::HOP_BY_HOP && has_others {
            self.dropped(DropReason::LabelSent);
            return Err(SendError::Prohibited);
        }
        self.with_label(run, (path, request), packet, Some(first))
    }
    /// Returns the secrecy that a packet of IPv4 tells; `None` if it is dropped.
    pub(crate) fn told4(
        &self,
        run: &StackRun<'_, B>,
        link: InterfaceIndex,
        packet: &Ipv4<'_>,
    ) -> Option<SecrecyId> {
        let mut at = 0;
        let found = packet.options().find_map(|option| {
            let option = option.ok()?;
            let length = if option.kind == packet::ipv4::option::NOTHING {
                1
            } else {
                option.data.len() + 2
            };
            let bytes = packet.options.get(at..at + length);
            at += length;
            bytes.filter(|_| option.kind == cipso::KIND)
        });
        let told = match found {
            Some(bytes) => PacketTells::Label(bytes, LabelOption::Cipso),
            None if packet.header.protocol == protocol::IGMP => PacketTells::OfStack,
            None => PacketTells::Nothing,
        };
        self.told(run, link, told)
    }
    /// Returns the secrecy that a packet of IPv6 tells; `None` if it is dropped.
    pub(crate) fn told6(
        &self,
        run: &StackRun<'_, B>,
        link: InterfaceIndex,
        packet: &Arrival<'_, B>,
    ) -> Option<SecrecyId> {
        let head = packet.head();
        let found = find_hop_option(head, calipso::KIND);
        let is_of_stack = || {
            let walk = Walk::of(head).ok().filter(|walk| walk.protocol == protocol::ICMPV6)?;
            head.get(walk.payload).map(|kind| NEIGHBOURS.contains(kind) || *kind == GROUPS2)
        };
        let told = match found {
            Some(bytes) => PacketTells::Label(bytes, LabelOption::Calipso),
            None if is_of_stack() == Some(true) => PacketTells::OfStack,
            None => PacketTells::Nothing,
        };
        self.told(run, link, told)
    }
    /// Returns the secrecy that the option of a packet tells, or the least of the interface for a message between stacks.
    fn told(
        &self,
        run: &StackRun<'_, B>,
        link: InterfaceIndex,
        told: PacketTells<'_>,
    ) -> Option<SecrecyId> {
        let interface = run.configuration.interface(link)?;
        let LinkLabel::Told { low, high, domain } = interface.label else {
            return Some(interface.label.of_packets());
        };
        let labels = run.configuration.labels();
        let read = match told {
            PacketTells::OfStack => return Some(low),
            PacketTells::Nothing => None,
            PacketTells::Label(bytes, kind) => {
                labels.get().map(|answers| answers.read(bytes, domain, kind))
            }
        };
        let reason = match read {
            Some(Ok(label)) if labels.dominates(label, low) && labels.dominates(high, label) => {
                return Some(label);
            }
            None => DropReason::LabelMissing,
            Some(Ok(_) | Err(LabelFault::Full)) => DropReason::LabelRange,
            Some(Err(LabelFault::Domain)) => DropReason::LabelDomain,
            Some(Err(LabelFault::Malformed)) => DropReason::LabelMalformed,
        };
        self.dropped(reason);
        None
    }
    /// Returns the secrecy of a packet that was sent by an interface: the interface's, or what `told` finds in the packet.
    pub(crate) fn label_of_sent(
        &self,
        run: &StackRun<'_, B>,
        link: InterfaceIndex,
        told: impl FnOnce(InterfaceIndex) -> Option<SecrecyId>,
    ) -> Option<SecrecyId> {
        match run.configuration.interface(link)?.label.of_packets() {
            SecrecyId::TOLD => told(link),
            label => Some(label),
        }
    }
}
