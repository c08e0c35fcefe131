//! State that outlives the driver of a device: its queues and buffers, and how far it had come with them.
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
//! While the phase is *live* the queues count. A successor, whose device is reset, first writes down what it finds in
//! them (input that was not handed over stays in its buffers), then says *salvaged*, from when on the queues do not
//! count, clears them, and says *live* again. It may die between any two stores: its successor writes the same, or goes
//! on. Words 1 and 2 move on before a buffer is used again. Positions are the client's. All of it is checked like what
//! comes from outside. Word 0 is the device's thread's to change and word 7 the client's, so neither undoes the other's; words
//! 1 and 8 to 11 change under the port's `input`, 2 and 16 to 19 under its `output`.
use crate::port::BUFFER_BYTES;
use alloc::vec::Vec;
use rt::device::DmaBuffer;
use virtio::left_behind;

const PAGE: usize = 4096;
/// Buffers each way.
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

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Ledger {
    head: DmaBuffer,
    ports: Vec<PortLedger>,
}

impl Ledger {
    /// For `count` ports of a device that is reset: salvages what its last driver left. `None` where memory is too short.
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

    /// The port of that number.
    pub(crate) fn port(&self, number: u32) -> Option<PortLedger> {
        self.ports.get(number as usize).cloned()
    }

    /// The queues are set up and count from now on.
    pub(crate) fn go_live(&self) {
        self.head.store64(0, LIVE);
    }

    /// Numbers of the ports that were announced to the last driver.
    pub(crate) fn announced(&self) -> impl Iterator<Item = u32> {
        let is_announced = |port: &PortLedger| port.load(word::STATE) & ANNOUNCED != 0;
        (0..).zip(&self.ports).filter(move |(_, port)| is_announced(port)).map(|(number, _)| number)
    }
}

/// A buffer of input that was filled for a driver before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) slot: u16,
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

/// One port's part.
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

    /// The queues have so many entries and begin anew, which counts when the ledger goes live.
    pub(crate) fn begin(&self, input_size: u16, output_size: u16) {
        self.store(word::INPUT_SIZE, input_size.into());
        self.store(word::OUTPUT_SIZE, output_size.into());
        self.store(word::INPUT, pack(self.input_end(), 0));
        self.store(word::OUTPUT, pack(self.output_end(), 0));
    }

    /// Position of the first input that no driver before was given.
    pub(crate) fn input_end(&self) -> u64 {
        self.load(word::INPUT_END)
    }

    /// Position up to which the device took output from drivers before.
    pub(crate) fn output_end(&self) -> u64 {
        self.load(word::OUTPUT_END)
    }

    /// Buffers of input from before, in order.
    pub(crate) fn left(&self) -> Vec<Left> {
        let left = (0..BUFFERS).map(|slot| {
            let (position, bytes) = unpack(self.load(word::LEFT + usize::from(slot)));
            Left { slot, position, bytes: usize::from(bytes).min(PAGE) }
        });
        let mut left: Vec<Left> = left.filter(|left| left.bytes > 0).collect();
        left.sort_unstable_by_key(|left| left.position);
        left
    }

    /// A buffer from before was handed over.
    pub(crate) fn forget(&self, slot: u16) {
        self.store(word::LEFT + usize::from(slot % BUFFERS), 0);
    }

    /// All input before `position` was handed over, and what the device filled before `index`.
    pub(crate) fn handed_over(&self, position: u64, index: u16) {
        self.store(word::INPUT, pack(position, index));
    }

    /// An output buffer ends at `position`.
    pub(crate) fn set_behind(&self, slot: u16, position: u64) {
        self.store(word::BEHIND + usize::from(slot % BUFFERS), position);
    }

    /// The device took the output buffers before `index`, up to `position`.
    pub(crate) fn taken(&self, position: u64, index: u16) {
        self.store(word::OUTPUT, pack(position, index));
    }

    /// Whether the host had the port open when a driver last knew.
    pub(crate) fn was_open(&self) -> bool {
        self.load(word::STATE) & OPEN != 0
    }

    /// The port was announced.
    pub(crate) fn set_announced(&self) {
        self.store(word::STATE, self.load(word::STATE) | ANNOUNCED);
    }

    /// Whether the host has the port open.
    pub(crate) fn set_open(&self, is_open: bool) {
        let state = self.load(word::STATE) & !OPEN;
        self.store(word::STATE, state | if is_open { OPEN } else { 0 });
    }

    /// No client has said where it stands, so that positions count from the first driver on; from now on they are the
    /// client's.
    pub(crate) fn take_fresh(&self) -> bool {
        let was_fresh = self.load(word::FRESH) != 0;
        self.store(word::FRESH, 0);
        was_fresh
    }
}

/// The number of the buffer at `address`, of those from `start` on.
fn slot(start: u64, address: u64) -> Option<usize> {
    let slot = usize::try_from(address.checked_sub(start)?).ok()? / PAGE;
    (slot < usize::from(BUFFERS)).then_some(slot)
}
