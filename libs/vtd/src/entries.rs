//! The layout of table entries and registers.
//!
//! ```text
//! root           0 present | 12 context table
//! context, low   0 present | 2 type: 0 by window, 2 all of memory | 12 root of the window
//! context, high  0 levels less 2 | 8 domain
//! window         0 read | 1 write | 12 frame | 52 (leaves) number of loans, 10 bits
//! ```
use crate::{Access, Coherency, Fault};

/// Offsets of the registers (11.4).
pub(crate) mod register {
    pub(crate) const CAPABILITY: usize = 0x08;
    pub(crate) const EXTENDED_CAPABILITY: usize = 0x10;
    pub(crate) const COMMAND: usize = 0x18;
    pub(crate) const STATUS: usize = 0x1c;
    pub(crate) const ROOT_TABLE: usize = 0x20;
    pub(crate) const CONTEXT_COMMAND: usize = 0x28;
    pub(crate) const FAULT_STATUS: usize = 0x34;
    pub(crate) const FAULT_CONTROL: usize = 0x38;
    pub(crate) const FAULT_DATA: usize = 0x3c;
    pub(crate) const FAULT_ADDRESS: usize = 0x40;
    pub(crate) const FAULT_ADDRESS_HIGH: usize = 0x44;
    pub(crate) const QUEUE_TAIL: usize = 0x88;
    pub(crate) const QUEUE: usize = 0x90;
    pub(crate) const INTERRUPT_TABLE: usize = 0xb8;
}

/// Bit of COMMAND and STATUS: translation is enabled.
pub(crate) const TRANSLATE: u64 = 1 << 31;
pub(crate) const SET_ROOT: u64 = 1 << 30;
/// Bits of STATUS that must be written to COMMAND again: all but those of one-shot commands. Bit 23 is left out, too,
/// so messages in the old format stay blocked.
pub(crate) const KEPT: u64 = 0x967f_ffff;

/// Value for CONTEXT_COMMAND: flush every context entry.
pub(crate) const FORGET_CONTEXTS: u64 = 1 << 63 | 1 << 61;
/// Bit of IOTLB and CONTEXT_COMMAND: the command is not done yet.
pub(crate) const IS_BUSY: u64 = 1 << 63;
/// Bits of IOTLB: flush, after accesses under way are done.
const FORGET: u64 = 1 << 63 | 1 << 49 | 1 << 48;
pub(crate) const FORGET_ALL: u64 = FORGET | 1 << 60;

/// Returns the value for IOTLB that flushes the entries of `domain`.
pub(crate) const fn forget(domain: u16) -> u64 {
    FORGET | 2 << 60 | (domain as u64) << 32
}

/// Bit of FAULT_STATUS: records were lost; written to clear.
pub(crate) const OVERFLOW: u64 = 1;

const PRESENT: u64 = 1;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const COUNT: u32 = 52;
const COUNT_MAX: u64 = 0x3ff;

/// The capabilities of the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Levels of a window's tables.
    pub(crate) levels: u8,
    /// Levels of the tables that stand for all of memory.
    pub(crate) levels_most: u8,
    /// Number of domains.
    pub(crate) domains: u32,
    /// The hardware may cache that an entry was absent.
    pub(crate) remembers_nothing: bool,
    /// The hardware sees the processors' caches.
    pub(crate) coherency: Coherency,
    /// Offset of the register IOTLB.
    pub(crate) tlb: usize,
    /// Offset of the first fault record, and the number of records.
    pub(crate) records: usize,
    pub(crate) record_count: usize,
}

impl Capabilities {
    /// Decodes the two registers, for frames below `frames`.
    ///
    /// # Errors
    /// A description of the missing capability.
    pub(crate) fn of(low: u64, extended: u64, frames: u32) -> Result<Capabilities, &'static str> {
        const LEAST_LEVELS: u8 = 3;
        let sizes = (low >> 8 & 0x1f) as u8;
        let has = |levels: &u8| sizes & 1 << (levels - 2) != 0;
        let reaches = |levels: &u8| 9 * u32::from(*levels) >= 32 - frames.leading_zeros();
        if low & 1 << 4 != 0 {
            return Err("it needs its write buffers flushed");
        }
        if extended & 1 << 6 == 0 {
            return Err("it cannot let a device pass");
        }
        let levels = (LEAST_LEVELS..=4).find(|levels| has(levels) && reaches(levels));
        let capabilities = Capabilities {
            levels: levels.ok_or("its tables do not reach all of memory")?,
            levels_most: (LEAST_LEVELS..=4).rfind(has).unwrap_or(LEAST_LEVELS),
            domains: 16 << (2 * (low & 7)),
            remembers_nothing: low & 1 << 7 != 0,
            coherency: if extended & 1 != 0 { Coherency::Cached } else { Coherency::Uncached },
            tlb: 16 * (extended >> 8 & 0x3ff) as usize + 8,
            records: 16 * (low >> 24 & 0x3ff) as usize,
            record_count: (low >> 40 & 0xff) as usize + 1,
        };
        Ok(capabilities)
    }
}

/// Returns the entry that names the table in `frame`, with the rights of `access`.
pub(crate) const fn table(frame: u32, access: u64) -> u64 {
    (frame as u64) << 12 | access
}

/// Returns the frame that an entry names; `None` if there is none.
pub(crate) const fn frame_of(entry: u64) -> Option<u32> {
    if entry & PRESENT == 0 { None } else { Some(((entry & ADDRESS) >> 12) as u32) }
}

/// Returns the root's entry for a bus.
pub(crate) const fn root(contexts: u32) -> u64 {
    table(contexts, PRESENT)
}

/// Returns the context of a function that reaches the window whose root is `root`.
pub(crate) const fn by_window(root: u32, levels: u8, domain: u16) -> [u64; 2] {
    [table(root, PRESENT), (levels as u64 - 2) | (domain as u64) << 8]
}

/// Returns the context of a function that reaches all of memory.
pub(crate) const fn passing(levels: u8, domain: u16) -> [u64; 2] {
    [2 << 2 | PRESENT, (levels as u64 - 2) | (domain as u64) << 8]
}

/// Returns a leaf's entry for `frame` after one more loan; rights of several loans add up. Returns `None` if there are
/// too many loans to count.
pub(crate) const fn lent(entry: u64, frame: u32, access: Access) -> Option<u64> {
    let count = entry >> COUNT & COUNT_MAX;
    if count == COUNT_MAX {
        return None;
    }
    let rights = entry & Access::Both as u64 | access as u64;
    Some((count + 1) << COUNT | (frame as u64) << 12 | rights)
}

/// Returns a leaf's entry after one loan was taken back: 0 after the last.
pub(crate) const fn taken_back(entry: u64) -> u64 {
    if entry >> COUNT & COUNT_MAX <= 1 { 0 } else { entry - (1 << COUNT) }
}

/// Decodes the fault of a record, if it holds one.
pub(crate) const fn fault(low: u64, high: u64) -> Option<Fault> {
    if high & IS_FAULT == 0 {
        return None;
    }
    let reason = (high >> 32) as u8;
    Some(Fault {
        function: high as u16,
        address: if reason < crate::INTERRUPTS { low & !0xfff } else { low >> 48 },
        is_write: high & 1 << 62 == 0,
        reason,
    })
}

/// Bit of a record's high half: the record holds a fault; written to clear.
pub(crate) const IS_FAULT: u64 = 1 << 63;
