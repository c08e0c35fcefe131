//! The control queue (section 5.1.6.5): one command at a time, and the acknowledgement of an announcement beside it.
//!
//! ```text
//! memory   0 class 1 | 1 command 1 | 2 data, up to 400     512 answer 1
//!       1024 class 1 | 1025 command 1                     1536 answer 1
//! ```
use alloc::vec::Vec;
use interfaces::nic::{ADDRESSES_MAX, Filter, MacAddress, NicError};
use rt::device::DmaBuffer;
use virtio::{Buffer, BufferAccess, Error, Queue};

/// Entries of the queue: of a command without indirect tables, and of an acknowledgement.
pub(crate) const QUEUE_SIZE: u16 = 4;
/// Buffers of a chain: command, answer.
pub(crate) const CHAIN: u16 = 2;
const MEMORY_BYTES: usize = 2048;
const DATA_MAX: usize = 4 + 4 + 6 * ADDRESSES_MAX;
const ANSWER: usize = 512;
const ANNOUNCEMENT: usize = 1024;
const _: () = assert!(2 + DATA_MAX <= ANSWER);

const ANSWER_GOOD: u8 = 0;

/// A command: its class, its number in the class, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    class: u8,
    number: u8,
    data: Vec<u8>,
}

impl Command {
    fn new(class: u8, number: u8, data: &[u8]) -> Command {
        Command { class, number, data: data.to_vec() }
    }

    /// Makes the commands that set a filter.
    pub(crate) fn filter(filter: &Filter) -> [Command; 3] {
        let mut table = Vec::new();
        for addresses in [&filter.unicast, &filter.multicast] {
            table.extend((addresses.len() as u32).to_le_bytes());
            table.extend(addresses.as_flattened());
        }
        [
            Command::new(1, 0, &table),
            Command::new(0, 1, &[filter.is_all_multicast.into()]),
            Command::new(0, 0, &[filter.is_promiscuous.into()]),
        ]
    }
    pub(crate) fn mac(mac: &MacAddress) -> Command {
        Command::new(1, 1, mac)
    }
    pub(crate) fn pairs(pairs: u16) -> Command {
        Command::new(4, 0, &pairs.to_le_bytes())
    }
    pub(crate) fn offloads(features: u64) -> Command {
        Command::new(5, 0, &features.to_le_bytes())
    }
    fn announced() -> Command {
        Command::new(3, 0, &[])
    }
}

/// A chain in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlChain {
    Command(u64),
    Announcement,
}

/// The command queue and its memory.
pub(crate) struct ControlQueue {
    queue: Queue<ControlChain>,
    memory: DmaBuffer,
    /// Number of the last command.
    number: u64,
    /// The device has a command, perhaps one that its caller gave up.
    is_busy: bool,
    /// The device has an acknowledgement.
    is_announcing: bool,
    /// The last answer, and the number of its command.
    answer: Option<(u64, Result<(), NicError>)>,
}

impl ControlQueue {
    pub(crate) fn new(queue: Queue<ControlChain>) -> Result<ControlQueue, Error> {
        let memory = DmaBuffer::allocate(MEMORY_BYTES)?;
        let (number, is_busy, is_announcing, answer) = (0, false, false, None);
        Ok(ControlQueue { queue, memory, number, is_busy, is_announcing, answer })
    }

    /// Gives the device a command. Returns the command's number; `None` if the device still has an earlier one.
    pub(crate) fn begin(&mut self, command: &Command) -> Option<u64> {
        if self.is_busy || command.data.len() > DATA_MAX {
            return None;
        }
        let number = self.number + 1;
        self.put(0, command, ControlChain::Command(number))?;
        (self.number, self.is_busy, self.answer) = (number, true, None);
        Some(number)
    }

    /// Tells the device that the announcement was made, unless it still has the note of an earlier one.
    pub(crate) fn announced(&mut self) {
        if !self.is_announcing {
            let command = Command::announced();
            self.is_announcing =
                self.put(ANNOUNCEMENT, &command, ControlChain::Announcement).is_some();
        }
    }

    fn put(&mut self, at: usize, command: &Command, chain: ControlChain) -> Option<()> {
        let Command { class, number, data } = command;
        let mut bytes = Vec::with_capacity(2 + data.len());
        bytes.extend([*class, *number]);
        bytes.extend(data);
        self.memory.write(at, &bytes);
        self.memory.store64(at + ANSWER, u64::MAX);
        let address = self.memory.device_address() + at as u64;
        let length = bytes.len() as u32;
        let told = Buffer { address, bytes: length, access: BufferAccess::Read };
        let address = address + ANSWER as u64;
        let answer = Buffer { address, bytes: 1, access: BufferAccess::Write };
        self.queue.add(&[told, answer], chain).ok()?;
        self.queue.publish();
        Some(())
    }

    /// Takes the device's answers, and asks for an interrupt at the next one.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn take_all(&mut self) -> Result<(), Error> {
        loop {
            while let Some(used) = self.queue.take()? {
                match used.payload {
                    ControlChain::Announcement => self.is_announcing = false,
                    ControlChain::Command(number) => {
                        let is_good = self.memory.load64(ANSWER) as u8 == ANSWER_GOOD;
                        let result = if is_good { Ok(()) } else { Err(NicError::Refused) };
                        self.is_busy = false;
                        self.answer = Some((number, result));
                    }
                }
            }
            if !self.queue.arm() {
                return Ok(());
            }
        }
    }

    /// Returns the answer to command `number`, if it came.
    pub(crate) fn answer(&self, number: u64) -> Option<Result<(), NicError>> {
        let (of, result) = self.answer?;
        (of == number).then_some(result)
    }
}
