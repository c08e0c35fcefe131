//! Options of SOL_PACKET.
use super::{
    KeptMembership, PacketSocket,
    fanout::FanoutPlace,
    receive::option_bit,
    ring::{ReceiveRing, RingRequest, RingVersion},
    transmit::TransmitRing,
};
use crate::socket::{internet::link_numbered, option_input::OptionInput};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::sockets::LinkMembership;
use vfs::Errno;

/// SOL_PACKET.
pub(super) const LEVEL: u32 = 263;
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
const RX_RING: u32 = 5;
const STATISTICS: u32 = 6;
const COPY_THRESHOLD: u32 = 7;
/// PACKET_AUXDATA, also the kind of its control message.
pub(super) const AUXDATA: u32 = 8;
const ORIGINAL_DEVICE: u32 = 9;
const VERSION: u32 = 10;
/// PACKET_HDRLEN, which reads a version.
pub(super) const HEADER_LENGTH: u32 = 11;
const RESERVE: u32 = 12;
const TX_RING: u32 = 13;
const LOSS: u32 = 14;
const TIMESTAMP: u32 = 17;
const FANOUT: u32 = 18;
const TX_HAS_OFFSET: u32 = 19;
const BYPASS: u32 = 20;
const ROLLOVER_STATISTICS: u32 = 21;
/// PACKET_FANOUT_DATA: the program of a group that chooses by one.
pub(super) const FANOUT_DATA: u32 = 22;
const IGNORE_OUTGOING: u32 = 23;

/// Types of memberships (`PACKET_MR_*`).
const GROUP: u16 = 0;
const PROMISCUOUS: u16 = 1;
const ALL_GROUPS: u16 = 2;
const UNICAST: u16 = 3;
/// Bytes of an address of Ethernet.
const MAC_BYTES: u16 = 6;
/// Offset of the address in `struct packet_mreq`, and the bytes of all.
const MEMBERSHIP_ADDRESS: usize = 8;
const MEMBERSHIP_BYTES: usize = 16;

/// Returns the bit of an option that is a flag.
fn bit_of(number: u32) -> Option<u32> {
    Some(match number {
        AUXDATA => option_bit::AUXDATA,
        ORIGINAL_DEVICE => option_bit::ORIGINAL,
        LOSS => option_bit::LOSS,
        TX_HAS_OFFSET => option_bit::HAS_OFFSET,
        BYPASS => option_bit::BYPASS,
        IGNORE_OUTGOING => option_bit::IGNORE_SENT,
        _ => return None,
    })
}

/// The direction of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingSide {
    Receive,
    Transmit,
}

impl PacketSocket {
    /// Sets an option.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL`, `EBUSY` with a ring, `ENODEV`, `ENOMEM`, `EFAULT`, and those of [`PacketSocket::join_fanout`].
    pub(super) fn set_packet_option(&self, number: u32, input: &OptionInput) -> Result<(), Errno> {
        match number {
            ADD_MEMBERSHIP | DROP_MEMBERSHIP => return self.set_membership(number, input),
            RX_RING => return self.set_ring(RingSide::Receive, input),
            TX_RING => return self.set_ring(RingSide::Transmit, input),
            FANOUT => return self.join_fanout(input),
            FANOUT_DATA => return self.set_fanout_program(input),
            _ => {}
        }
        let is_known = bit_of(number).is_some()
            || matches!(number, VERSION | RESERVE | COPY_THRESHOLD | TIMESTAMP);
        if !is_known {
            return Err(Errno::ENOPROTOOPT);
        }
        // These take a number of exactly four bytes, the others of four at least.
        let is_exact = matches!(number, VERSION | RESERVE | LOSS | COPY_THRESHOLD | TIMESTAMP)
            || matches!(number, TX_HAS_OFFSET | BYPASS | IGNORE_OUTGOING);
        if is_exact && input.length != 4 {
            return Err(Errno::EINVAL);
        }
        let value = u32::from_le_bytes(input.bytes()?);
        let mut control = self.control.lock();
        let has_ring = control.transmit.is_some() || self.receiver.state.lock().ring.is_some();
        match number {
            VERSION => {
                let version = RingVersion::of(value).ok_or(Errno::EINVAL)?;
                if has_ring {
                    return Err(Errno::EBUSY);
                }
                control.version = version;
            }
            RESERVE if i32::try_from(value).is_err() => return Err(Errno::EINVAL),
            RESERVE | LOSS if has_ring => return Err(Errno::EBUSY),
            RESERVE => control.reserved = value,
            COPY_THRESHOLD => self.receiver.copy_threshold.store(value, Ordering::Relaxed),
            TIMESTAMP => control.timestamp = value,
            IGNORE_OUTGOING if value > 1 => return Err(Errno::EINVAL),
            // With rings Linux ignores this one.
            TX_HAS_OFFSET if has_ring => {}
            _ => {
                let bit = bit_of(number).unwrap_or(0);
                match value {
                    0 => self.receiver.options.fetch_and(!bit, Ordering::Relaxed),
                    _ => self.receiver.options.fetch_or(bit, Ordering::Relaxed),
                };
            }
        }
        Ok(())
    }
    /// Adds or drops a membership (`struct packet_mreq`).
    fn set_membership(&self, number: u32, input: &OptionInput) -> Result<(), Errno> {
        let all: [u8; MEMBERSHIP_BYTES] = input.bytes()?;
        let [i0, i1, i2, i3, t0, t1, l0, l1, a0, a1, a2, a3, a4, a5, ..] = all;
        let interface = u32::from_le_bytes([i0, i1, i2, i3]);
        let (kind, length) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([l0, l1]));
        let address = [a0, a1, a2, a3, a4, a5];
        if input.length < MEMBERSHIP_ADDRESS + usize::from(length) {
            return Err(Errno::EINVAL);
        }
        let membership = match kind {
            PROMISCUOUS => Some(LinkMembership::Promiscuous),
            ALL_GROUPS => Some(LinkMembership::AllGroups),
            GROUP | UNICAST if length == MAC_BYTES => Some(LinkMembership::Address(address)),
            _ => None,
        };
        let kept = |membership| KeptMembership { interface, membership, kind, length, count: 1 };
        if number == DROP_MEMBERSHIP {
            // One that cannot be there is ignored as one that is not.
            membership.into_iter().for_each(|one| self.leave(&kept(one)));
            return Ok(());
        }
        link_numbered(interface).ok_or(Errno::ENODEV)?;
        let membership = membership.filter(|_| length <= MAC_BYTES).ok_or(Errno::EINVAL)?;
        self.join(kept(membership))
    }
    /// Makes or removes a ring (`packet_set_ring`).
    fn set_ring(&self, side: RingSide, input: &OptionInput) -> Result<(), Errno> {
        let mut control = self.control.lock();
        let version = control.version;
        let mut request = RingRequest::default();
        let words: [u8; 16] = input.bytes()?;
        let word = |at: usize| {
            let bytes = words.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        request.block_bytes = word(0);
        request.blocks = word(4);
        request.frame_bytes = word(8);
        request.frames = word(12);
        if version == RingVersion::Three {
            let all: [u8; 28] = input.bytes()?;
            let [.., p0, p1, p2, p3, _, _, _, _] = all;
            request.private_bytes = u32::from_le_bytes([p0, p1, p2, p3]);
        }
        if control.mapped.as_ref().is_some_and(|pages| Arc::strong_count(pages) > 1) {
            return Err(Errno::EBUSY);
        }
        control.mapped = None;
        if request.blocks == 0 {
            if request.frames != 0 {
                return Err(Errno::EINVAL);
            }
            match side {
                RingSide::Receive => drop(self.receiver.state.lock().ring.take()),
                RingSide::Transmit => control.transmit = None,
            }
            return Ok(());
        }
        let has_ring = match side {
            RingSide::Receive => self.receiver.state.lock().ring.is_some(),
            RingSide::Transmit => control.transmit.is_some(),
        };
        if has_ring {
            return Err(Errno::EBUSY);
        }
        request.check(version, control.reserved)?;
        match side {
            RingSide::Receive => {
                let ring = ReceiveRing::new(&request, version, control.reserved)?;
                self.receiver.state.lock().ring = Some(ring);
            }
            RingSide::Transmit => control.transmit = Some(TransmitRing::new(request, version)?),
        }
        Ok(())
    }
    /// Returns the value of an option.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL` for counts that the socket does not have.
    pub(super) fn packet_option(&self, number: u32) -> Result<Vec<u8>, Errno> {
        let control = self.control.lock();
        let value = match number {
            STATISTICS => return Ok(self.statistics(control.version)),
            VERSION => control.version as u32,
            RESERVE => control.reserved,
            TIMESTAMP => control.timestamp,
            COPY_THRESHOLD => self.receiver.copy_threshold(),
            FANOUT => control.fanout.as_ref().map_or(0, FanoutPlace::value),
            ROLLOVER_STATISTICS => {
                let counts = control.fanout.as_ref().and_then(FanoutPlace::rollover);
                let counts = counts.ok_or(Errno::EINVAL)?;
                return Ok(counts.iter().flat_map(|count| count.to_le_bytes()).collect());
            }
            number => {
                let bit = bit_of(number).ok_or(Errno::ENOPROTOOPT)?;
                u32::from(self.receiver.is_on(bit))
            }
        };
        Ok(value.to_le_bytes().to_vec())
    }
    /// Returns the counts since the last call (`struct tpacket_stats`). The first one counts all frames.
    fn statistics(&self, version: RingVersion) -> Vec<u8> {
        let counts = self.receiver.take_counts();
        let mut bytes = Vec::new();
        bytes.extend(counts.seen.to_le_bytes());
        bytes.extend(counts.dropped.to_le_bytes());
        if version == RingVersion::Three {
            bytes.extend(counts.frozen.to_le_bytes());
        }
        bytes
    }
    /// Returns the value of PACKET_HDRLEN for a version.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(super) fn header_length(version: i32) -> Result<Vec<u8>, Errno> {
        let version = u32::try_from(version).ok().and_then(RingVersion::of).ok_or(Errno::EINVAL)?;
        Ok((version.header() as u32).to_le_bytes().to_vec())
    }
}
