//! Random addresses for the parts of a program (address space layout randomisation, as Linux's).
use memory::{PAGE, map::GUARD_GAP, region::page_of};
use rt::user::USER_END;

/// The start of movable programs: two thirds of the addresses.
const PROGRAM_BASE: u64 = USER_END / 3 * 2;
/// Least and greatest room that is kept for the stack.
const STACK_ROOM: (u64, u64) = (128 << 20, USER_END / 6 * 5);
const STACK_RANDOM_PAGES: u64 = 1 << 22;
const MAP_RANDOM_PAGES: u64 = 1 << 28;
const HEAP_RANDOM_PAGES: u64 = (32 << 20) / PAGE;
/// Pages between the stack and the end of the addresses for the vDSO.
const VDSO_PAGES: u64 = 8;

/// The addresses of a program's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePlace {
    /// Load address of a movable program.
    pub program: u64,
    /// Address below which mappings are placed.
    pub search_top: u64,
    /// First address after the stack.
    pub stack_end: u64,
    /// First address of the vDSO's pages.
    pub vdso: u64,
    /// Distance of the heap from the program's end.
    pub heap_gap: u64,
    /// Number of unused bytes below the stack's end, which randomise the lowest address bits.
    pub stack_offset: u64,
}

/// Number of sixteen-byte units within two pages, by which the stack pointer varies.
const STACK_OFFSETS: u64 = 2 * PAGE / 16;

impl ImagePlace {
    /// Chooses the positions at random. `stack_limit` is `RLIMIT_STACK`.
    pub fn random(stack_limit: u64) -> ImagePlace {
        let mut random = [[0; 8]; 6];
        rt::entropy::fill(random.as_flattened_mut());
        ImagePlace::shifted(random, stack_limit)
    }
    /// The positions that programs have without randomisation.
    pub fn usual(stack_limit: u64) -> ImagePlace {
        ImagePlace::shifted([[0; 8]; 6], stack_limit)
    }
    fn shifted(random: [[u8; 8]; 6], stack_limit: u64) -> ImagePlace {
        let [program, map, stack, vdso, heap, offset] = random.map(u64::from_le_bytes);
        let end = USER_END - stack % STACK_RANDOM_PAGES * PAGE;
        let stack_end = end - VDSO_PAGES * PAGE;
        let room = stack_limit.clamp(STACK_ROOM.0, STACK_ROOM.1);
        let top = USER_END - room - GUARD_GAP - STACK_RANDOM_PAGES * PAGE;
        ImagePlace {
            program: page_of(PROGRAM_BASE) + program % MAP_RANDOM_PAGES * PAGE,
            search_top: page_of(top.saturating_sub(map % MAP_RANDOM_PAGES * PAGE)),
            stack_end,
            vdso: stack_end + (1 + vdso % 3) * PAGE,
            heap_gap: heap % HEAP_RANDOM_PAGES * PAGE,
            stack_offset: offset % STACK_OFFSETS * 16,
        }
    }
}
