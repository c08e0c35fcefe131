//! The messages to the driver of a network interface: its description, the rings, settings.
use super::{
    ADDRESSES_MAX, Filter, LinkState, MTU_MIN, MacAddress, NicError, NicInfo, NicStatistics,
    Offloads, PAYLOAD_OFFSET, SEGMENTS_MAX, entries::SENDS,
};
use crate::{
    AttachError,
    call::Failure,
    wire::{Bytes, Name, Wire},
};
use alloc::string::ToString;
use interfaces_macro::interface;
use rt::{memory::Region, message::Error};

const ADDRESS_BYTES: usize = size_of::<MacAddress>();

/// An address in the form of a message.
pub type MacBytes = [u8; ADDRESS_BYTES];

/// [`NicInfo`] in the form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct NicDescription {
    name: Name,
    mac: MacBytes,
    mtu: u16,
    is_up: bool,
    speed: Option<u32>,
    offloads: u32,
    pairs: u16,
    pairs_max: u16,
    max_segments: usize,
    depth: usize,
    buffers: usize,
}

impl NicDescription {
    /// Describes `info`; a long name is cut.
    pub fn of(info: &NicInfo) -> NicDescription {
        NicDescription {
            name: Name::cut(&info.name),
            mac: info.mac,
            mtu: info.mtu,
            is_up: info.link == LinkState::Up,
            speed: info.speed,
            offloads: info.offloads.bits(),
            pairs: info.pairs,
            pairs_max: info.pairs_max,
            max_segments: info.max_segments,
            depth: info.depth,
            buffers: info.buffers,
        }
    }
    /// Converts the description to [`NicInfo`]. Returns `None` if no interface can be like that, so clients need not check
    /// again.
    pub fn info(&self) -> Option<NicInfo> {
        let name = self.name.as_str();
        let is_sound = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && self.mtu >= MTU_MIN
            && (1..=self.pairs_max).contains(&self.pairs)
            && self.max_segments > 0
            && self.depth > 0
            && self.buffers > 0;
        let offloads = Offloads::from_bits(self.offloads)?;
        is_sound.then(|| NicInfo {
            name: name.to_string(),
            mac: self.mac,
            mtu: self.mtu,
            link: if self.is_up { LinkState::Up } else { LinkState::Down },
            speed: self.speed,
            offloads,
            pairs: self.pairs,
            pairs_max: self.pairs_max,
            max_segments: self.max_segments.min(SEGMENTS_MAX),
            headroom: PAYLOAD_OFFSET,
            depth: self.depth.min(SENDS),
            buffers: self.buffers,
        })
    }
}

/// [`Filter`] in the form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct FilterMessage {
    is_promiscuous: bool,
    is_all_multicast: bool,
    unicast: usize,
    /// The addresses, those of groups behind the others.
    addresses: Bytes<{ ADDRESSES_MAX * ADDRESS_BYTES }>,
}

impl FilterMessage {
    /// Describes `filter`; `None` if it has too many addresses.
    pub fn of(filter: &Filter) -> Option<FilterMessage> {
        let mut addresses = filter.unicast.as_flattened().to_vec();
        addresses.extend_from_slice(filter.multicast.as_flattened());
        Some(FilterMessage {
            is_promiscuous: filter.is_promiscuous,
            is_all_multicast: filter.is_all_multicast,
            unicast: filter.unicast.len(),
            addresses: Bytes::new(&addresses)?,
        })
    }
    /// Converts the message to a [`Filter`]; `None` if it makes no sense.
    pub fn filter(&self) -> Option<Filter> {
        let (addresses, rest) = self.addresses.as_slice().as_chunks::<ADDRESS_BYTES>();
        let (unicast, multicast) = addresses.split_at_checked(self.unicast)?;
        rest.is_empty().then(|| Filter {
            is_promiscuous: self.is_promiscuous,
            is_all_multicast: self.is_all_multicast,
            unicast: unicast.to_vec(),
            multicast: multicast.to_vec(),
        })
    }
}

impl From<Failure> for NicError {
    fn from(failure: Failure) -> NicError {
        match failure {
            Failure::Lost(Error::TimedOut) => NicError::TimedOut,
            _ => NicError::Restarted,
        }
    }
}

/// A network interface whose packets go through rings.
#[interface(number = 5)]
pub trait NicControl: Send + Sync {
    /// The description of its interface.
    #[idempotent]
    fn describe(&self) -> Option<NicDescription>;
    /// Uses no rings any more when it answers. `None` if something came through them: then the driver must be ended, because its
    /// device has buffers of the client.
    #[idempotent]
    fn detach(&self) -> Option<()>;
    /// Sends what comes through the rings in `rings`, which are new, from now on, and puts there what is received.
    #[idempotent]
    fn attach(&self, rings: Region) -> Result<(), AttachError>;
    /// Whether the packet with tag `tag` waits for the device. The driver also looks again for ends and packets.
    #[idempotent]
    fn is_sending(&self, tag: u64) -> Option<bool>;
    /// Changes the interface's address.
    #[idempotent]
    fn set_mac(&self, mac: MacBytes) -> Result<(), NicError>;
    /// Sets the packets that the interface receives.
    #[deadline_ns(5_000_000_000)]
    #[idempotent]
    fn set_filter(&self, filter: FilterMessage) -> Result<(), NicError>;
    /// Sets the offloads of reception.
    #[idempotent]
    fn set_offloads(&self, offloads: u32) -> Result<(), NicError>;
    /// Sets the number of queue pairs in use.
    #[idempotent]
    fn set_pairs(&self, pairs: u16) -> Result<(), NicError>;
    /// The counts since the driver's start.
    #[idempotent]
    fn statistics(&self) -> Option<NicStatistics>;
}
