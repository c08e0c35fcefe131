//! Interrupt remapping, and the queue of flush commands that it needs.
//!
//! ```text
//! table        256 entries of 16 bytes, by vector: the destination of the message, and the function that may send it
//!   low        0 present | 4 level | 16 vector | 40 local APIC
//!   high       0 function | 18 the function is verified
//! message      address 0xfee00000 | 4 remappable | 5 entry; data 0
//! queue        256 commands of 16 bytes; each is followed by one that writes its number to the status frame
//! ```
//! Messages in the old format, which contain their vector themselves, are blocked (CFIS is 0). Source: Intel
//! VT-d 3.4, chapters 5, 6.5 and 9.10; APIC ids have 8 bits (EIME is 0).
use crate::{
    Coherency, Machine,
    entries::{self, register},
    get, set,
};

/// Number of commands in the queue.
const COMMANDS: u64 = 256;
/// Size field of IRTA: the table has two to the power of this plus one entries.
const TABLE_SIZE: u64 = 7;
/// The address to which interrupt messages are written.
const MESSAGES: u64 = 0xfee0_0000;
const REMAPPABLE: u64 = 1 << 4;

/// Command that flushes the contexts (6.5.2).
pub(crate) const FORGET_CONTEXTS: u64 = 1 | 1 << 4;
pub(crate) const FORGET_ALL: u64 = 2 | 1 << 4 | DRAIN;
const DRAIN: u64 = 1 << 6 | 1 << 7;
const FORGET_INTERRUPTS: u64 = 4;

/// Returns the command that flushes the entries of `domain`.
pub(crate) const fn forget_domain(domain: u16) -> u64 {
    2 | 2 << 4 | DRAIN | (domain as u64) << 16
}

/// Returns the command that flushes entry `index`.
const fn forget_entry(index: u8) -> u64 {
    FORGET_INTERRUPTS | 1 << 4 | (index as u64) << 32
}

/// Returns the command that writes `number` to the status frame.
const fn tell(number: u32) -> u64 {
    5 | 1 << 5 | (number as u64) << 32
}

/// An interrupt that a device may raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The vector, which is also the number of its entry.
    pub vector: u8,
    /// The local APIC to which it goes.
    pub destination: u8,
    /// The interrupt is level-triggered.
    pub is_level: bool,
    /// The function that may raise it, if that is known.
    pub sender: Option<u16>,
}

impl Route {
    /// Returns the address of the interrupt's message, whose data are 0.
    pub const fn message(vector: u8) -> u64 {
        MESSAGES | REMAPPABLE | (vector as u64) << 5
    }

    /// Returns the interrupt's entry.
    fn entry(self) -> [u64; 2] {
        const VERIFY: u64 = 1 << 18;
        let Route { vector, destination, is_level, sender } = self;
        let low = 1 | u64::from(is_level) << 4 | u64::from(vector) << 16;
        let high = sender.map_or(0, |sender| VERIFY | u64::from(sender));
        [low | u64::from(destination) << 40, high]
    }
}

/// The table and the queue of a unit. The owner of the unit keeps other threads from it.
#[derive(Debug)]
pub(crate) struct Remapping {
    table: u32,
    queue: u32,
    status: u32,
    /// Number of commands given so far.
    given: u32,
    coherency: Coherency,
}

impl Remapping {
    /// Makes the tables for the remapping of `machine`; `None` without memory.
    pub(crate) fn new(machine: &impl Machine, coherency: Coherency) -> Option<Remapping> {
        let mut frames = [0; 3];
        for at in 0..frames.len() {
            let Some(frame) = machine.allocate() else {
                frames.iter().take(at).for_each(|&frame| machine.free(frame));
                return None;
            };
            frames[at] = frame;
        }
        let [table, queue, status] = frames;
        Some(Remapping { table, queue, status, given: 0, coherency })
    }

    /// Tells `machine` the address of the queue, which must then be enabled.
    pub(crate) fn set_queue(&self, machine: &impl Machine) {
        machine.write(register::QUEUE_TAIL, 8, 0);
        machine.write(register::QUEUE, 8, u64::from(self.queue) << 12);
    }

    /// Tells `machine` the address of the table.
    pub(crate) fn set_table(&self, machine: &impl Machine) {
        machine.write(register::INTERRUPT_TABLE, 8, u64::from(self.table) << 12 | TABLE_SIZE);
    }

    /// Gives a command. Returns the value that the status frame holds once the command is done.
    #[must_use]
    pub(crate) fn give(&mut self, machine: &impl Machine, command: u64) -> u32 {
        self.given = self.given.wrapping_add(1);
        let status = u64::from(self.status) << 12;
        for [low, high] in [[command, 0], [tell(self.given), status]] {
            // The hardware has done all earlier commands, so there is room.
            let tail = machine.read(register::QUEUE_TAIL, 8) >> 4;
            set(machine, self.coherency, self.queue, 2 * tail as usize, low);
            set(machine, self.coherency, self.queue, 2 * tail as usize + 1, high);
            machine.write(register::QUEUE_TAIL, 8, ((tail + 1) % COMMANDS) << 4);
        }
        self.given
    }

    /// Returns whether the command with `number` is done.
    pub(crate) fn is_done(&self, machine: &impl Machine, number: u32) -> bool {
        get(machine, self.status, 0) as u32 == number
    }

    /// Sets entry `vector` to `route`, or makes it absent. Returns the command that must then be given.
    pub(crate) fn set(&self, machine: &impl Machine, vector: u8, route: Option<Route>) -> u64 {
        let [low, high] = route.map_or([0, 0], Route::entry);
        let at = 2 * usize::from(vector);
        // The entry is absent while it changes, so that the hardware never uses a half of it.
        for (index, word) in [(at, 0), (at + 1, high), (at, low)] {
            set(machine, self.coherency, self.table, index, word);
        }
        forget_entry(vector)
    }
}

/// Returns whether the hardware can remap interrupts, from its register of extended capabilities.
pub(crate) const fn is_able(extended: u64) -> bool {
    const QUEUE: u64 = 1 << 1;
    const REMAPS: u64 = 1 << 3;
    extended & (QUEUE | REMAPS) == QUEUE | REMAPS
}

/// Command that flushes all interrupt entries.
pub(crate) const ALL_ENTRIES: u64 = FORGET_INTERRUPTS;

/// Bits of COMMAND and STATUS, in the order in which they are set: queue, table, remapping.
pub(crate) const STEPS: [u64; 3] = [1 << 26, 1 << 24, 1 << 25];

const _: () = assert!(entries::KEPT & STEPS[0] != 0 && entries::KEPT & STEPS[1] == 0);
