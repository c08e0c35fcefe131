//! [`Queues`]: the device of smoltcp: the frames that were heard and those to be said.
use crate::{lane::HEADER, line::MTU};
use smoltcp::{
    phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken},
    time::Instant,
};
use std::collections::VecDeque;

/// The frames of a peer.
#[derive(Default)]
pub struct Queues {
    /// Frames that came.
    pub heard: VecDeque<Vec<u8>>,
    /// Frames that go.
    pub said: VecDeque<Vec<u8>>,
}

/// A frame that came.
pub struct Heard(Vec<u8>);

/// Room for a frame that goes.
pub struct Said<'q>(&'q mut VecDeque<Vec<u8>>);

impl RxToken for Heard {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Said<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut frame = vec![0; length];
        let result = write(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Queues {
    type RxToken<'q> = Heard;
    type TxToken<'q> = Said<'q>;

    fn receive(&mut self, _now: Instant) -> Option<(Heard, Said<'_>)> {
        let frame = self.heard.pop_front()?;
        Some((Heard(frame), Said(&mut self.said)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Said<'_>> {
        Some(Said(&mut self.said))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = HEADER + MTU;
        capabilities
    }
}
