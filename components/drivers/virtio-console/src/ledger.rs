//! State that outlives the driver of a device: its queues and buffers, and its positions in them.
//!
//! ```text
//! page  0       word 0 phase: 1 salvaged, 2 live; else there was no driver before
//! page  1 + 11N port N:
//!       0       word  0 announced 1, open 2
//!                     1 input:  position 48 | used index 16   handed over before that buffer
//!                     2 output: position 48 | used index 16   at the device before that buffer
//!                     3 input, 4 output: position as salvaged
//!                     5 entries of the queue of input, 6 of output
//!                     7 positions are not the client's yet 1
//!                     8 to 11   input buffers left by drivers before: position 48 | bytes 16, or 0
//!                    16 to 19   output buffers: position behind each
//!       1, 2    queues of input and output
//!       3 to 6  input buffers
//!       7 to 10 output buffers
//! ```
//! While the phase is *live* the queues are valid. A successor, whose device is reset, first records the state of the queues
//! (input that was not handed over stays in its buffers). Then it sets the phase to *salvaged*, in which the queues are not
//! valid, clears them, and sets the phase to *live* again. It may die between any two stores: its successor writes the same
//! values, or continues. Words 1 and 2 are advanced before a buffer is used again. Positions are the client's. All contents
//! are checked like outside input. The device's thread changes word 0 and the client word 7, so neither undoes the other's
//! change; words 1 and 8 to 11 change under the port's `input`, 2 and 16 to 19 under its `output`.
use crate::port::BUFFER_BYTES;
use alloc::vec::Vec;
use rt::device::DmaBuffer;
use virtio::left_behind;

const PAGE: usize = 4096;
/// Number of buffers in each direction.
pub(crate) const BUFFERS: u16 = 4;
const PORT_PAGES: usize = 3 + 2 * BUFFERS as usize;
const _: () = assert!(PORT_PAGES == 11 && BUFFER_BYTES == PAGE);

const SALVAGED: u64 = 1;
const LIVE: u64 = 2;
const ANNOUNCED: u64 = 1;
const OPEN: u64 = 2;

mod word {
    pub(super) const STATE: usize = 0;
    pub(super) const INPUT: usize = 1;
    pub(super) const OUTPUT: usize = 2;
    pub(super) const INPUT_END: usize = 3;
    pub(super) const OUTPUT_END: usize = 4;
    pub(super) const INPUT_SIZE: usize = 5;
    pub(super) const OUTPUT_SIZE: usize = 6;
    pub(super) const FRESH: usize = 7;
    pub(super) const LEFT: usize = 8;
    pub(super) const BEHIND: usize = 16;
    pub(super) const END: usize = 20;
}

/// The ledger of a device.
#[derive(Debug)]
pub(crate) struct Ledger {
    head: DmaBuffer,
    ports: Vec<PortLedger>,
}

impl Ledger {
    /// Opens the ledger for `count` ports of a device that is reset, and salvages the state of the last driver. Returns `None`
    /// if the memory is too short.
    pub(crate) fn open(memory: &DmaBuffer, count: u32) -> Option<Ledger> {
        let head = memory.part(0, PAGE)?;
        let port = |number: usize| {
            let part = memory.part((1 + number * PORT_PAGES) * PAGE, PORT_PAGES * PAGE);
            part.map(PortLedger)
        };
        let ports = (0..count as usize).map(port).collect::<Option<Vec<PortLedger>>>()?;
        let ledger = Ledger { head, ports };
        match ledger.head.load64(0) {
            SALVAGED => {}
            LIVE => ledger.ports.iter().for_each(PortLedger::salvage),
            _ => ledger.ports.iter().for_each(PortLedger::clear),
        }
        ledger.head.store64(0, SALVAGED);
        Some(ledger)
    }

    /// Returns the ledger of the port with that number.
    pub(crate) fn port(&self, number: u32) -> Option<PortLedger> {
        self.ports.get(number as usize).cloned()
    }

    /// Sets the phase to *live*: the queues are set up and valid from now on.
    pub(crate) fn go_live(&self) {
        self.head.store64(0, LIVE);
    }

    /// Returns the numbers of the ports that were announced to the last driver.
    pub(crate) fn announced(&self) -> impl Iterator<Item = u32> {
        let is_announced = |port: &PortLedger| port.load(word::STATE) & ANNOUNCED != 0;
        (0..).zip(&self.ports).filter(move |(_, port)| is_announced(port)).map(|(number, _)| number)
    }
}

/// A buffer of input that was filled for an earlier driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) slot: u16,
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

/// The part of one port.
#[derive(Clone, Debug)]
pub(crate) struct PortLedger(DmaBuffer);

fn pack(position: u64, low: u16) -> u64 {
    position << 16 | u64::from(low)
}

fn unpack(word: u64) -> (u64, u16) {
    (word >> 16, word as u16)
}

impl PortLedger {
    fn load(&self, word: usize) -> u64 {
        self.0.load64(word * 8)
    }

    fn store(&self, word: usize, value: u64) {
        self.0.store64(word * 8, value);
    }

    fn clear(&self) {
        (0..word::END).for_each(|word| self.store(word, 0));
        self.store(word::FRESH, 1);
    }

    fn pages(&self, first: usize, count: usize) -> Option<DmaBuffer> {
        self.0.part(first * PAGE, count * PAGE)
    }

    pub(crate) fn input_queue(&self) -> Option<DmaBuffer> {
        self.pages(1, 1)
    }

    pub(crate) fn output_queue(&self) -> Option<DmaBuffer> {
        self.pages(2, 1)
    }

    pub(crate) fn input_buffers(&self) -> Option<DmaBuffer> {
        self.pages(3, BUFFERS.into())
    }

    pub(crate) fn output_buffers(&self) -> Option<DmaBuffer> {
        self.pages(3 + usize::from(BUFFERS), BUFFERS.into())
    }

    fn salvage(&self) {
        if self.try_salvage().is_none() {
            log::warn!("virtio-console: what the last driver left of a port makes no sense");
            self.clear();
        }
    }

    fn try_salvage(&self) -> Option<()> {
        let (mut position, index) = unpack(self.load(word::INPUT));
        let size = u16::try_from(self.load(word::INPUT_SIZE)).ok()?;
        let start = self.input_buffers()?.device_address();
        for (address, bytes) in left_behind(&self.input_queue()?, size, index)? {
            let bytes = u16::try_from(bytes).ok().filter(|&bytes| bytes <= PAGE as u16)?;
            self.store(word::LEFT + slot(start, address)?, pack(position, bytes));
            position += u64::from(bytes);
        }
        self.store(word::INPUT_END, position);
        let (mut position, index) = unpack(self.load(word::OUTPUT));
        let size = u16::try_from(self.load(word::OUTPUT_SIZE)).ok()?;
        let start = self.output_buffers()?.device_address();
        for (address, _) in left_behind(&self.output_queue()?, size, index)? {
            position = position.max(self.load(word::BEHIND + slot(start, address)?));
        }
        self.store(word::OUTPUT_END, position);
        Some(())
    }

    /// Notes that the queues have so many entries and start anew. This takes effect when the ledger goes live.
    pub(crate) fn begin(&self, input_size: u16, output_size: u16) {
        self.store(word::INPUT_SIZE, input_size.into());
        self.store(word::OUTPUT_SIZE, output_size.into());
        self.store(word::INPUT, pack(self.input_end(), 0));
        self.store(word::OUTPUT, pack(self.output_end(), 0));
    }

    /// Returns the position of the first input that no earlier driver was given.
    pub(crate) fn input_end(&self) -> u64 {
        self.load(word::INPUT_END)
    }

    /// Returns the position up to which the device took output from earlier drivers.
    pub(crate) fn output_end(&self) -> u64 {
        self.load(word::OUTPUT_END)
    }

    /// Returns the input buffers of earlier drivers, in order.
    pub(crate) fn left(&self) -> Vec<Left> {
        let left = (0..BUFFERS).map(|slot| {
            let (position, bytes) = unpack(self.load(word::LEFT + usize::from(slot)));
            Left { slot, position, bytes: usize::from(bytes).min(PAGE) }
        });
        let mut left: Vec<Left> = left.filter(|left| left.bytes > 0).collect();
        left.sort_unstable_by_key(|left| left.position);
        left
    }

    /// Notes that a buffer of an earlier driver was handed over.
    pub(crate) fn forget(&self, slot: u16) {
        self.store(word::LEFT + usize::from(slot % BUFFERS), 0);
    }

    /// Notes that all input before `position`, and all buffers filled before `index`, were handed over.
    pub(crate) fn handed_over(&self, position: u64, index: u16) {
        self.store(word::INPUT, pack(position, index));
    }

    /// Notes that an output buffer ends at `position`.
    pub(crate) fn set_behind(&self, slot: u16, position: u64) {
        self.store(word::BEHIND + usize::from(slot % BUFFERS), position);
    }

    /// Notes that the device took the output buffers before `index`, up to `position`.
    pub(crate) fn taken(&self, position: u64, index: u16) {
        self.store(word::OUTPUT, pack(position, index));
    }

    /// Returns whether the host had the port open when a driver last recorded it.
    pub(crate) fn was_open(&self) -> bool {
        self.load(word::STATE) & OPEN != 0
    }

    /// Notes that the port was announced.
    pub(crate) fn set_announced(&self) {
        self.store(word::STATE, self.load(word::STATE) | ANNOUNCED);
    }

    /// Notes whether the host has the port open.
    pub(crate) fn set_open(&self, is_open: bool) {
        let state = self.load(word::STATE) & !OPEN;
        self.store(word::STATE, state | if is_open { OPEN } else { 0 });
    }

    /// Returns whether no client has given its position yet, so that positions count from the first driver on. From now on
    /// they are the client's.
    pub(crate) fn take_fresh(&self) -> bool {
        let was_fresh = self.load(word::FRESH) != 0;
        self.store(word::FRESH, 0);
        was_fresh
    }
}

/// Returns the number of the buffer at `address`, among those from `start` on.
fn slot(start: u64, address: u64) -> Option<usize> {
    let slot = usize::try_from(address.checked_sub(start)?).ok()? / PAGE;
    (slot < usize::from(BUFFERS)).then_some(slot)
}
