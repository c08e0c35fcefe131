//! Sending frames.
use super::{
    PacketSocket,
    address::{BYTES_AT, LinkAddress},
    receive::option_bit,
    transmit::{FrameStart, GivenFrame},
    zeroes,
};
use crate::socket::{
    interface::{SocketAddress, SocketKind},
    internet::errno,
};
use alloc::vec::Vec;
use interfaces::{
    nic::MacAddress,
    sockets::{SentFrame, SocketError},
};
use vfs::{Errno, io::Source};

/// The longest frame that is copied at all: more than any interface takes.
const FRAME_MAX: usize = 1 << 17;

/// The place that frames are sent to.
struct FrameTarget {
    interface: u32,
    protocol: u16,
    destination: Option<MacAddress>,
}

impl PacketSocket {
    /// Sends a frame, or the frames of the ring.
    ///
    /// # Errors
    /// `EINVAL` for an address or a frame that is too short, `ENXIO` without an interface, `ENETDOWN`, `EMSGSIZE`, `EFAULT`.
    pub(super) fn send_frame(
        &self,
        source: &mut dyn Source,
        to: Option<&SocketAddress>,
    ) -> Result<usize, Errno> {
        let target = self.target(to)?;
        if self.control.lock().transmit.is_some() {
            return self.send_ring(&target);
        }
        if target.interface == 0 {
            return Err(Errno::ENXIO);
        }
        let length = source.remaining();
        if length > FRAME_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let mut bytes = zeroes(length)?;
        if length > 0 {
            source.take_whole(&mut bytes)?;
        }
        self.transmit(&target, bytes)?;
        Ok(length)
    }
    fn transmit(&self, target: &FrameTarget, bytes: Vec<u8>) -> Result<(), Errno> {
        let frame = SentFrame {
            interface: target.interface,
            protocol: target.protocol,
            destination: target.destination,
            bytes,
        };
        let tap = match &self.control.lock().fanout {
            Some(place) => place.tap().clone(),
            None => self.tap.clone(),
        };
        tap.send(frame).map_err(|error| match error {
            SocketError::NoInterface => Errno::ENXIO,
            error => errno(error),
        })
    }
    /// Returns the place that an address, or the binding, stands for.
    fn target(&self, to: Option<&SocketAddress>) -> Result<FrameTarget, Errno> {
        let is_plain = self.common.kind() == SocketKind::Datagram;
        let Some(to) = to else {
            let control = self.control.lock();
            // Without an address there is no receiver. Loopback needs none.
            let destination = match (is_plain, control.interface) {
                (false, _) => None,
                (true, 0 | 1) => Some([0; 6]),
                (true, _) => return Err(Errno::EINVAL),
            };
            let (interface, protocol) = (control.interface, control.protocol);
            return Ok(FrameTarget { interface, protocol, destination });
        };
        let address = LinkAddress::decode(to)?;
        if to.bytes().len() < BYTES_AT + usize::from(address.length) {
            return Err(Errno::EINVAL);
        }
        let destination = address.bytes.first_chunk().copied().filter(|_| is_plain);
        Ok(FrameTarget { interface: address.interface, protocol: address.protocol, destination })
    }
    /// Sends the frames that the program has put into the ring. Returns the number of their bytes.
    fn send_ring(&self, target: &FrameTarget) -> Result<usize, Errno> {
        if target.interface == 0 {
            return Err(Errno::ENXIO);
        }
        // A frame stays in the ring until it was sent.
        let _sending = self.sending.lock();
        let mut sent = 0;
        loop {
            let Some(given) = self.next_given() else { return Ok(sent) };
            sent += self.transmit_given(target, given)?;
        }
    }
    fn next_given(&self) -> Option<GivenFrame> {
        let start = match self.common.kind() {
            _ if !self.receiver.is_on(option_bit::HAS_OFFSET) => FrameStart::BehindHeader,
            SocketKind::Datagram => FrameStart::AtNetwork,
            _ => FrameStart::AtLink,
        };
        self.control.lock().transmit.as_ref().and_then(|ring| ring.next(start))
    }
    /// Sends a frame of the ring. With PACKET_LOSS a frame that cannot be sent is dropped.
    fn transmit_given(&self, target: &FrameTarget, mut given: GivenFrame) -> Result<usize, Errno> {
        let bytes = core::mem::replace(&mut given.bytes, Err(Errno::EINVAL));
        let result = bytes.and_then(|bytes| {
            let length = bytes.len();
            self.transmit(target, bytes).map(|()| length)
        });
        let mut control = self.control.lock();
        let Some(ring) = &mut control.transmit else { return result };
        match result {
            Err(error) if !self.receiver.is_on(option_bit::LOSS) => {
                ring.refuse(&given);
                Err(error)
            }
            result => {
                ring.finish(&given);
                Ok(result.unwrap_or(0))
            }
        }
    }
}
