//! Segment descriptors, gates, and the operand that names a table of them.
//!
//! Source: Intel SDM volume 3, 3.4.5, 6.14.1 and 8.2.3.

/// Flat segments, accessed: code and data of ring 0; 32-bit code, data and 64-bit code of ring 3, in the order that
/// `sysret` wants.
pub const SEGMENTS: [u64; 5] = [
    0x00af_9b00_0000_ffff,
    0x00cf_9300_0000_ffff,
    0x00cf_7b00_0000_ffff,
    0x00cf_f300_0000_ffff,
    0x00af_fb00_0000_ffff,
];

/// Kernel code.
pub const KERNEL_CODE: u16 = 0x10;
/// Kernel data.
pub const KERNEL_DATA: u16 = 0x18;
/// User 32-bit code: the selector from which `sysret` counts. It is not present, because `syscall` in 32-bit code would enter the
/// kernel at another address (IA32_CSTAR).
pub const USER_32_CODE: u16 = 0x20 | 3;
/// User data.
pub const USER_DATA: u16 = 0x28 | 3;
/// User 64-bit code.
pub const USER_CODE: u16 = 0x30 | 3;
/// The task state segment.
pub const TASK_STATE: u16 = 0x40;

/// A descriptor table with [`SEGMENTS`] at these selectors; the two words for a task state segment are empty.
///
/// Selectors are Linux's, so that a program that looks at CS or SS sees what it expects, and so
/// that `sysret` (base [`USER_32_CODE`]) finds data and code behind each other.
pub const TABLE: [u64; 10] = {
    let [code, data, user_32_code, user_data, user_code] = SEGMENTS;
    [0, 0, code, data, user_32_code, user_data, user_code, 0, 0, 0]
};

/// The task state segment. In long mode only stack pointers and the offset of the ports' permission map matter.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub struct TaskState {
    reserved: u32,
    /// Stack pointers that interrupts start with, by ring.
    pub rsp: [u64; 3],
    reserved2: u64,
    /// The interrupt stack table.
    pub ist: [u64; 7],
    reserved3: u64,
    reserved4: u16,
    /// Offset of the ports' permission map from the beginning of this segment.
    pub io_map_base: u16,
}

impl TaskState {
    /// A segment without stacks and map.
    pub const NEW: TaskState = TaskState {
        reserved: 0,
        rsp: [0; 3],
        reserved2: 0,
        ist: [0; 7],
        reserved3: 0,
        reserved4: 0,
        io_map_base: u16::MAX,
    };
}

const _: () = assert!(size_of::<TaskState>() == 104);

/// Returns the two words of an available task state segment of `bytes` bytes at `base`.
pub const fn task_state(base: u64, bytes: usize) -> [u64; 2] {
    let limit = bytes as u64 - 1;
    let (low, high) = (base & 0xff_ffff, base >> 24 & 0xff);
    [limit & 0xffff | low << 16 | 0x89 << 40 | (limit >> 16 & 0xf) << 48 | high << 56, base >> 32]
}

/// The privilege level that an `int` through a gate needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateLevel {
    /// Level 0.
    Kernel,
    /// Level 3.
    User,
}

/// Returns the two words of an interrupt gate to `code` in segment `selector`, on entry `stack` of the interrupt
/// stack table (0 for none). User mode may use it by `int` if its `level` says so.
pub const fn gate(code: u64, selector: u16, stack: u8, level: GateLevel) -> [u64; 2] {
    let kind = match level {
        GateLevel::Kernel => 0x8e,
        GateLevel::User => 0xee,
    };
    let place = code & 0xffff | (code >> 16 & 0xffff) << 48;
    [place | (selector as u64) << 16 | (stack as u64) << 32 | kind << 40, code >> 32]
}

/// The operand of `lgdt` and `lidt`.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct TablePointer {
    limit: u16,
    base: u64,
}

impl TablePointer {
    /// Makes the operand for the table of `bytes` bytes at `base`.
    pub const fn new(base: u64, bytes: usize) -> TablePointer {
        TablePointer { limit: bytes as u16 - 1, base }
    }
}

const _: () = assert!(size_of::<TablePointer>() == 10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_flat_and_of_their_ring_and_none_of_32_bits_is_code_to_run() {
        let rings = SEGMENTS.map(|segment| segment >> 45 & 3);
        assert_eq!(rings, [0, 0, 3, 3, 3]);
        let is_long = SEGMENTS.map(|segment| segment >> 53 & 1);
        assert_eq!(is_long, [1, 0, 0, 0, 1]);
        let is_code = SEGMENTS.map(|segment| segment >> 43 & 1);
        assert_eq!(is_code, [1, 0, 1, 0, 1]);
        let limit = |segment: u64| segment & 0xffff | segment >> 32 & 0xf_0000;
        assert!(SEGMENTS.iter().all(|&segment| limit(segment) == 0xf_ffff));
        let is_present = SEGMENTS.map(|segment| segment >> 47 & 1);
        assert_eq!(is_present, [1, 1, 0, 1, 1]);
    }

    #[test]
    fn selectors_name_their_segments() {
        let of = |selector: u16| TABLE[usize::from(selector / 8)];
        let selectors = [KERNEL_CODE, KERNEL_DATA, USER_32_CODE, USER_DATA, USER_CODE];
        assert_eq!(selectors.map(of), SEGMENTS);
        // The ring of a selector is its segment's.
        assert!(
            selectors.iter().all(|&selector| u64::from(selector & 3) == of(selector) >> 45 & 3)
        );
        assert_eq!((of(TASK_STATE), usize::from(TASK_STATE / 8) + 2), (0, TABLE.len()));
    }

    #[test]
    fn a_task_state_is_spread_over_its_descriptor() {
        let [low, high] = task_state(0xffff_ffff_8123_4567, 104);
        assert_eq!((low, high), (0x8100_8923_4567_0067, 0xffff_ffff));
        let [low, _] = task_state(0, 0x2_2001);
        assert_eq!(low, 0x0002_8900_0000_2000);
    }

    #[test]
    fn a_gate_is_spread_over_its_descriptor() {
        let [low, high] = gate(0xffff_ffff_8123_4560, 0x10, 2, GateLevel::Kernel);
        assert_eq!((low, high), (0x8123_8e02_0010_4560, 0xffff_ffff));
        assert_eq!(gate(0, 0x10, 0, GateLevel::User)[0] >> 40 & 0xff, 0xee);
    }

    #[test]
    fn a_table_is_named_by_its_last_byte() {
        let TablePointer { limit, base } = TablePointer::new(0x1000, 256 * 16);
        assert_eq!((limit, base), (0xfff, 0x1000));
    }
}
