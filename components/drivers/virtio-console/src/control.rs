//! Control messages (section 5.3.6.2), and their two queues.
//!
//! ```text
//! message  0 port 4 | 4 event 2 | 6 value 2 | payload: a name, or columns 2 and rows 2
//! ```
use crate::slots::BufferSlots;
use alloc::{collections::VecDeque, string::String};
use virtio::Error;

/// Greatest length of a message.
pub(crate) const MESSAGE_BYTES: usize = 256;
const HEADER_BYTES: usize = 8;

mod event {
    pub(super) const DEVICE_READY: u16 = 0;
    pub(super) const DEVICE_ADD: u16 = 1;
    pub(super) const DEVICE_REMOVE: u16 = 2;
    pub(super) const PORT_READY: u16 = 3;
    pub(super) const CONSOLE_PORT: u16 = 4;
    pub(super) const RESIZE: u16 = 5;
    pub(super) const PORT_OPEN: u16 = 6;
    pub(super) const PORT_NAME: u16 = 7;
}

/// A message from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceMessage {
    Add,
    Remove,
    IsConsole,
    Resize { rows: u16, columns: u16 },
    Open(bool),
    Name(String),
}

/// A message from the driver: port, event, value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tell {
    port: u32,
    event: u16,
    value: u16,
}

impl Tell {
    pub(crate) const DRIVER_READY: Tell = Tell { port: 0, event: event::DEVICE_READY, value: 1 };

    pub(crate) fn port_ready(port: u32) -> Tell {
        Tell { port, event: event::PORT_READY, value: 1 }
    }

    pub(crate) fn port_open(port: u32) -> Tell {
        Tell { port, event: event::PORT_OPEN, value: 1 }
    }

    fn encode(self) -> [u8; HEADER_BYTES] {
        let word = u64::from(self.port) | u64::from(self.event) << 32 | u64::from(self.value) << 48;
        word.to_le_bytes()
    }
}

/// Decodes a message into its port and contents; `None` if it is invalid.
pub(crate) fn decode(message: &[u8]) -> Option<(u32, DeviceMessage)> {
    let (header, payload) = message.split_first_chunk::<HEADER_BYTES>()?;
    let word = u64::from_le_bytes(*header);
    let (port, kind, value) = (word as u32, (word >> 32) as u16, (word >> 48) as u16);
    let told = match kind {
        event::DEVICE_ADD => DeviceMessage::Add,
        event::DEVICE_REMOVE => DeviceMessage::Remove,
        event::CONSOLE_PORT => DeviceMessage::IsConsole,
        event::RESIZE => {
            let [c0, c1, r0, r1] = *payload.first_chunk::<4>()?;
            let (columns, rows) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([r0, r1]));
            DeviceMessage::Resize { rows, columns }
        }
        event::PORT_OPEN => DeviceMessage::Open(value != 0),
        event::PORT_NAME => {
            let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
            DeviceMessage::Name(String::from_utf8_lossy(payload.get(..end)?).into_owned())
        }
        _ => return None,
    };
    Some((port, told))
}

/// Both control queues.
pub(crate) struct ControlQueues {
    pub(crate) input: BufferSlots,
    pub(crate) output: BufferSlots,
    waiting: VecDeque<Tell>,
}

impl ControlQueues {
    pub(crate) fn new(input: BufferSlots, output: BufferSlots) -> ControlQueues {
        ControlQueues { input, output, waiting: VecDeque::new() }
    }

    /// Sends a message now, or when there is room.
    pub(crate) fn tell(&mut self, tell: Tell) {
        self.waiting.push_back(tell);
    }

    /// Takes back sent buffers and sends waiting messages.
    pub(crate) fn pump(&mut self) -> Result<(), Error> {
        self.output.reclaim()?;
        while let Some(tell) = self.waiting.front() {
            if self.output.put(&tell.encode()) > 0 {
                self.waiting.pop_front();
                continue;
            }
            self.output.publish();
            if !self.output.arm() || !self.output.reclaim()? {
                break;
            }
        }
        self.output.publish();
        Ok(())
    }

    /// Returns whether the device has taken all messages.
    pub(crate) fn is_heard(&mut self) -> Result<bool, Error> {
        self.output.reclaim()?;
        Ok(self.waiting.is_empty() && self.output.has_all())
    }

    /// Takes the next valid message of the device.
    pub(crate) fn receive(&mut self) -> Result<Option<(u32, DeviceMessage)>, Error> {
        while let Some(filled) = self.input.take()? {
            let mut message = [0; MESSAGE_BYTES];
            let bytes = filled.bytes.min(MESSAGE_BYTES);
            let told = message.get_mut(..bytes).and_then(|message| {
                self.input.read(filled, 0, message);
                decode(message)
            });
            self.input.recycle(filled.slot);
            self.input.offer_all();
            if told.is_some() {
                return Ok(told);
            }
        }
        Ok(None)
    }
}
