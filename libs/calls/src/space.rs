//! Kernel calls about the spaces of programs: [`Operation`]s, and the words of [`Call::Run`](crate::Call).
//!
//! ```text
//! Space    rdi space | rsi operation | rdx, r10, r8, r9 arguments    ->  rdi, rsi values | rdx pages charged to the component
//! Run      rdi context | rsi space  ->  rax RUN_SYSCALL, or Status; if that is Ok: rdi, rsi, rdx the words of a trap
//! ```
use crate::Status;
use program::{Access, CloneMode, Page, Protection, Registers, Trap, USER_END, Unshared};

/// Answer of [`Call::Run`](crate::Call) in rax: the program made a system call.
pub const RUN_SYSCALL: u64 = 0x100;
/// The greatest number of pages of an [`Operation::Map`], and of addresses of an [`Operation::Present`].
pub const PAGE_LIST_MAX: usize = 64;
/// The greatest number of entries of a table of fix-ups.
pub const FIXUPS_MAX: usize = 64;

const PAGE: u64 = 4096;

/// An operation on the space of a program; `start` and `end` are page-aligned, and `end` is not before `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// (start, list, count, protection) -> (pages): maps pages of the component's own memory, whose addresses are in the list of
    /// at most [`PAGE_LIST_MAX`], at those of the pages from `start` that are not present.
    Map {
        /// First address.
        start: u64,
        /// Address of the list.
        list: u64,
        /// Its length.
        count: usize,
        /// Protection of the pages.
        protection: Protection,
    },
    /// (start, end, protection) -> (pages): maps new zeroed pages where none is present.
    MapZeroed(u64, u64, Protection),
    /// (start, protection) -> (1 if it is mapped): maps a new zeroed large page.
    MapLarge(u64, Protection),
    /// (start, end) -> (pages): removes pages.
    Unmap(u64, u64),
    /// (start, end, protection): sets the protection of the present pages.
    Protect(u64, u64, Protection),
    /// (start, end, other space, 1 for whole tables) -> (pages): shares the present pages with the other space.
    Clone(u64, u64, u64, CloneMode),
    /// (start, end, to) -> (pages): moves the present pages to `to`, which has as much room.
    Move(u64, u64, u64),
    /// (address, protection) -> (0 reused, 1 copied, 2 absent): makes a page writable.
    MakeWritable(u64, Protection),
    /// (address) -> (words of a page, references): looks at a page. [`Status::NotFound`] if none is present.
    Query(u64),
    /// (start, end, list, count) -> (count): writes the addresses of present pages to the list.
    Present {
        /// First address.
        start: u64,
        /// First address behind.
        end: u64,
        /// Address of the list.
        list: u64,
        /// Its greatest length.
        count: usize,
    },
    /// (address, own address, bytes, 1 to the space, 0 from it) -> (bytes): copies as far as both are present.
    Copy {
        /// Address in the space.
        address: u64,
        /// Address in the component's memory.
        own: u64,
        /// Length.
        bytes: u64,
        /// Access to the space.
        access: Access,
    },
    /// (address, old, new) -> (value found): compares and exchanges a word of 32 bits.
    Exchange(u64, u32, u32),
    /// () -> (pages present, tables, the most tables): counts.
    Counts,
    /// (): makes the space that of the calling thread, which has extended state from now on. [`NO_HANDLE`](crate::NO_HANDLE) as
    /// the space only gives it the state.
    Enter,
    /// (address) -> (words of a page, references): looks at a page of the component's own memory. The space is not looked at.
    OwnPage(u64),
}

/// Defines the numbers of the operations.
macro_rules! numbers {
    ($($name:ident = $number:literal,)+) => {
        /// The number of an [`Operation`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        #[allow(missing_docs, reason = "Operation says it")]
        pub enum OperationNumber {
            $($name = $number,)+
        }
        impl OperationNumber {
            const fn of(number: u64) -> Option<OperationNumber> {
                match number {
                    $($number => Some(OperationNumber::$name),)+
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    Map = 0,
    MapZeroed = 1,
    MapLarge = 2,
    Unmap = 3,
    Protect = 4,
    Clone = 5,
    Move = 6,
    MakeWritable = 7,
    Query = 8,
    Present = 9,
    Copy = 10,
    Exchange = 11,
    Counts = 12,
    Enter = 13,
    OwnPage = 14,
}

fn protection(word: u64) -> Result<Protection, Status> {
    u8::try_from(word).ok().and_then(Protection::from_bits).ok_or(Status::Invalid)
}

/// Returns the end of `pages` pages from `start`, if all are a program's.
fn behind(start: u64, pages: u64) -> Result<u64, Status> {
    let end = pages.checked_mul(PAGE).and_then(|bytes| start.checked_add(bytes));
    let is_good = |end: &u64| start.is_multiple_of(PAGE) && *end <= USER_END;
    end.filter(is_good).ok_or(Status::Invalid)
}

/// Checks a range of a program's pages.
fn range(start: u64, end: u64) -> Result<(u64, u64), Status> {
    let bytes = end.checked_sub(start).filter(|bytes| bytes.is_multiple_of(PAGE));
    behind(start, bytes.ok_or(Status::Invalid)? / PAGE).map(|end| (start, end))
}

fn listed(count: u64) -> Result<usize, Status> {
    usize::try_from(count).ok().filter(|&count| count <= PAGE_LIST_MAX).ok_or(Status::Invalid)
}

impl Operation {
    /// Returns the operation that `registers` ask for.
    ///
    /// # Errors
    /// [`Status::Invalid`] if there is no such operation, or an argument is none.
    pub fn of(registers: &Registers) -> Result<Operation, Status> {
        let Registers { rdx: first, r10: second, r8: third, r9: fourth, .. } = *registers;
        let address = || if first < USER_END { Ok(first) } else { Err(Status::Invalid) };
        Ok(match OperationNumber::of(registers.rsi).ok_or(Status::Invalid)? {
            OperationNumber::Map => {
                let (list, count, protection) = (second, listed(third)?, protection(fourth)?);
                behind(first, third)?;
                Operation::Map { start: first, list, count, protection }
            }
            OperationNumber::MapZeroed => {
                let (start, end) = range(first, second)?;
                Operation::MapZeroed(start, end, protection(third)?)
            }
            OperationNumber::MapLarge => {
                behind(first, LARGE_PAGES)?;
                let is_aligned = first.is_multiple_of(LARGE_PAGES * PAGE);
                let protection = protection(third)?;
                if is_aligned {
                    Operation::MapLarge(first, protection)
                } else {
                    return Err(Status::Invalid);
                }
            }
            OperationNumber::Unmap => {
                range(first, second).map(|(start, end)| Operation::Unmap(start, end))?
            }
            OperationNumber::Protect => {
                let (start, end) = range(first, second)?;
                Operation::Protect(start, end, protection(third)?)
            }
            OperationNumber::Clone => {
                let (start, end) = range(first, second)?;
                let mode = if fourth == 0 { CloneMode::Pages } else { CloneMode::Tables };
                Operation::Clone(start, end, third, mode)
            }
            OperationNumber::Move => {
                let (start, end) = range(first, second)?;
                let (to, to_end) =
                    range(third, third.checked_add(end - start).ok_or(Status::Invalid)?)?;
                if start < to_end && to < end {
                    return Err(Status::Invalid);
                }
                Operation::Move(start, end, to)
            }
            OperationNumber::MakeWritable => {
                Operation::MakeWritable(address()?, protection(third)? | Protection::WRITE)
            }
            OperationNumber::Query => Operation::Query(address()?),
            OperationNumber::Present => {
                let (start, end) = range(first, second)?;
                Operation::Present { start, end, list: third, count: listed(fourth)? }
            }
            OperationNumber::Copy => {
                let access = if fourth == 0 { Access::Read } else { Access::Write };
                Operation::Copy { address: first, own: second, bytes: third, access }
            }
            OperationNumber::Exchange => {
                Operation::Exchange(address()?, second as u32, third as u32)
            }
            OperationNumber::Counts => Operation::Counts,
            OperationNumber::Enter => Operation::Enter,
            OperationNumber::OwnPage => Operation::OwnPage(first),
        })
    }
}

/// Pages of a large page.
const LARGE_PAGES: u64 = 512;

/// Returns the number that stands for the result of a [`Operation::MakeWritable`].
pub const fn unshared_number(unshared: Unshared) -> u64 {
    match unshared {
        Unshared::Reused => 0,
        Unshared::Copied => 1,
        Unshared::Absent => 2,
    }
}

/// Returns the result of a [`Operation::MakeWritable`] that `number` stands for.
pub const fn unshared_of(number: u64) -> Unshared {
    match number {
        0 => Unshared::Reused,
        1 => Unshared::Copied,
        _ => Unshared::Absent,
    }
}

const ACCESSED: u64 = 1 << 8;
const DIRTY: u64 = 1 << 9;
const LARGE: u64 = 1 << 10;

/// Packs `page` into a word: the number of its frame above bit 32, its flags below.
pub fn page_word(page: &Page) -> u64 {
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    u64::from(page.frame) << 32
        | u64::from(page.protection.bits())
        | flag(page.is_accessed, ACCESSED)
        | flag(page.is_dirty, DIRTY)
        | flag(page.is_large, LARGE)
}

/// Unpacks [`page_word`].
pub fn page_of(word: u64) -> Page {
    Page {
        frame: (word >> 32) as u32,
        protection: Protection::from_bits_truncate(word as u8),
        is_accessed: word & ACCESSED != 0,
        is_dirty: word & DIRTY != 0,
        is_large: word & LARGE != 0,
    }
}

const KICKED: u64 = 0;
const PAGE_FAULT: u64 = 1;
const EXCEPTION: u64 = 2;

/// Packs a trap that is no system call into the words in which [`Call::Run`](crate::Call) returns it.
pub fn trap_words(trap: Trap) -> [u64; 3] {
    match trap {
        Trap::Syscall | Trap::Kicked => [KICKED, 0, 0],
        Trap::PageFault { address, access, is_present } => {
            let access = match access {
                Access::Read => 0,
                Access::Write => 1,
                Access::Execute => 2,
            };
            [PAGE_FAULT | access << 8 | u64::from(is_present) << 16, address, 0]
        }
        Trap::Exception { vector, error_code } => [EXCEPTION, vector.into(), error_code],
    }
}

/// Unpacks [`trap_words`].
#[inline]
pub fn trap_of([kind, first, second]: [u64; 3]) -> Trap {
    match kind & 0xff {
        PAGE_FAULT => {
            let access = match kind >> 8 & 0xff {
                0 => Access::Read,
                1 => Access::Write,
                _ => Access::Execute,
            };
            Trap::PageFault { address: first, access, is_present: kind >> 16 != 0 }
        }
        EXCEPTION => Trap::Exception { vector: first as u8, error_code: second },
        _ => Trap::Kicked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(operation: OperationNumber, arguments: [u64; 4]) -> Result<Operation, Status> {
        let [rdx, r10, r8, r9] = arguments;
        Operation::of(&Registers {
            rsi: operation as u64,
            rdx,
            r10,
            r8,
            r9,
            ..Registers::default()
        })
    }

    #[test]
    fn ranges_are_aligned_and_of_a_program() {
        let unmap = |start, end| asked(OperationNumber::Unmap, [start, end, 0, 0]);
        assert_eq!(unmap(0x1000, 0x3000), Ok(Operation::Unmap(0x1000, 0x3000)));
        assert_eq!(unmap(0x1000, 0x1000), Ok(Operation::Unmap(0x1000, 0x1000)));
        assert_eq!(unmap(0, USER_END), Ok(Operation::Unmap(0, USER_END)));
        for (start, end) in [
            (0x1001, 0x3000),
            (0x1000, 0x3001),
            (0x3000, 0x1000),
            (0, USER_END + PAGE),
            (1 << 63, 1 << 63),
        ] {
            assert_eq!(unmap(start, end), Err(Status::Invalid), "{start:x} {end:x}");
        }
    }

    #[test]
    fn a_move_goes_to_a_place_of_its_own() {
        let moved = |to| asked(OperationNumber::Move, [0x4000, 0x6000, to, 0]);
        assert_eq!(moved(0x6000), Ok(Operation::Move(0x4000, 0x6000, 0x6000)));
        assert_eq!(moved(0x2000), Ok(Operation::Move(0x4000, 0x6000, 0x2000)));
        for to in [0x5000, 0x3000, 0x4000, USER_END - PAGE, u64::MAX & !0xfff] {
            assert_eq!(moved(to), Err(Status::Invalid), "{to:x}");
        }
    }

    #[test]
    fn lists_and_large_pages_have_their_limits() {
        let map = |start, count| asked(OperationNumber::Map, [start, 8, count, 1]);
        assert!(map(0, 64).is_ok());
        assert_eq!(map(0, 65), Err(Status::Invalid));
        assert_eq!(map(USER_END - PAGE, 2), Err(Status::Invalid));
        assert_eq!(asked(OperationNumber::Map, [0, 8, 1, 8]), Err(Status::Invalid));
        assert!(asked(OperationNumber::MapLarge, [0x20_0000, 0, 3, 0]).is_ok());
        assert_eq!(asked(OperationNumber::MapLarge, [0x10_0000, 0, 3, 0]), Err(Status::Invalid));
    }

    proptest! {
        #[test]
        fn any_registers_are_decoded_to_addresses_of_programs(words in any::<[u64; 5]>(), small in 0u64..20) {
            let [_, rdx, r10, r8, r9] = words;
            let registers = Registers { rsi: small, rdx, r10, r8, r9, ..Registers::default() };
            if let Ok(Operation::Unmap(start, end) | Operation::MapZeroed(start, end, _)) = Operation::of(&registers) {
                prop_assert!(start <= end && end <= USER_END && start % PAGE == 0 && end % PAGE == 0);
            }
        }

        #[test]
        fn pages_and_traps_survive_their_words(frame in any::<u32>(), bits in 0u8..8, flags in any::<[bool; 3]>(), address in any::<u64>(), code in any::<u64>()) {
            let [is_accessed, is_dirty, is_large] = flags;
            let page = Page { frame, protection: Protection::from_bits_truncate(bits), is_accessed, is_dirty, is_large };
            prop_assert_eq!(page_of(page_word(&page)), page);
            for access in [Access::Read, Access::Write, Access::Execute] {
                let trap = Trap::PageFault { address, access, is_present: is_dirty };
                prop_assert_eq!(trap_of(trap_words(trap)), trap);
            }
            let trap = Trap::Exception { vector: bits, error_code: code };
            prop_assert_eq!(trap_of(trap_words(trap)), trap);
            prop_assert_eq!(trap_of(trap_words(Trap::Kicked)), Trap::Kicked);
        }
    }

    #[test]
    fn results_of_unsharing_survive_their_numbers() {
        for unshared in [Unshared::Reused, Unshared::Copied, Unshared::Absent] {
            assert_eq!(unshared_of(unshared_number(unshared)), unshared);
        }
    }
}
