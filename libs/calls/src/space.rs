//! Kernel calls about the spaces of programs: [`SpaceOperation`]s, and the words of [`Call::Run`](crate::Call).
//!
//! ```text
//! Space    rdi space | rsi operation | rdx, r10, r8, r9 arguments    ->  rdi, rsi values | rdx pages charged to the component
//! Run      rdi context | rsi space  ->  rax RUN_SYSCALL, or Status; if that is Ok: rdi, rsi, rdx the words of a trap
//! ```
use crate::Status;
use program::{Access, CloneMode, Page, Protection, Registers, Trap, USER_END};

/// Answer of [`Call::Run`](crate::Call) in rax: the program made a system call.
pub const RUN_SYSCALL: u64 = 0x100;
/// The greatest number of pages of an [`SpaceOperation::Map`], [`SpaceOperation::Present`] or [`SpaceOperation::Pages`].
pub const PAGE_LIST_MAX: usize = 64;
/// The greatest number of entries of a table of fix-ups.
pub const FIXUPS_MAX: usize = 64;

const PAGE: u64 = 4096;

/// An operation on the space of a program; `start` and `end` are page-aligned, and `end` is not before `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceOperation {
    /// (start, list, count, protection) -> (pages): maps pages of the component's own memory, whose addresses are in the list of
    /// at most [`PAGE_LIST_MAX`], at those of the pages from `start` that are not present.
    Map(u64, u64, usize, Protection),
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
    Present(u64, u64, u64, usize),
    /// (start, end, list, count) -> (count): looks at present pages. Writes three words of each to the list: its address, the words
    /// of the page, the references.
    Pages(u64, u64, u64, usize),
    /// (address, own address, bytes, 1 to the space, 0 from it) -> (bytes): copies as far as both are present.
    Copy(u64, u64, u64, Access),
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

/// The numbers of the operations.
#[allow(missing_docs, reason = "SpaceOperation says it")]
pub mod number {
    pub const MAP: u64 = 0;
    pub const MAP_ZEROED: u64 = 1;
    pub const MAP_LARGE: u64 = 2;
    pub const UNMAP: u64 = 3;
    pub const PROTECT: u64 = 4;
    pub const CLONE: u64 = 5;
    pub const MOVE: u64 = 6;
    pub const MAKE_WRITABLE: u64 = 7;
    pub const QUERY: u64 = 8;
    pub const PRESENT: u64 = 9;
    pub const COPY: u64 = 10;
    pub const EXCHANGE: u64 = 11;
    pub const COUNTS: u64 = 12;
    pub const ENTER: u64 = 13;
    pub const OWN_PAGE: u64 = 14;
    pub const PAGES: u64 = 15;
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

impl SpaceOperation {
    /// Returns the operation that `registers` ask for.
    ///
    /// # Errors
    /// [`Status::Invalid`] if there is no such operation, or an argument is none.
    pub fn of(registers: &Registers) -> Result<SpaceOperation, Status> {
        let Registers { rdx: first, r10: second, r8: third, r9: fourth, .. } = *registers;
        let address = || if first < USER_END { Ok(first) } else { Err(Status::Invalid) };
        let pages = || range(first, second);
        let number = registers.rsi;
        Ok(match number {
            number::MAP => {
                behind(first, third)?;
                SpaceOperation::Map(first, second, listed(third)?, protection(fourth)?)
            }
            number::MAP_ZEROED
            | number::UNMAP
            | number::PROTECT
            | number::CLONE
            | number::PRESENT
            | number::PAGES => {
                let (start, end) = pages()?;
                match number {
                    number::MAP_ZEROED => SpaceOperation::MapZeroed(start, end, protection(third)?),
                    number::UNMAP => SpaceOperation::Unmap(start, end),
                    number::PROTECT => SpaceOperation::Protect(start, end, protection(third)?),
                    number::CLONE => SpaceOperation::Clone(start, end, third, mode(fourth)),
                    number::PAGES => SpaceOperation::Pages(start, end, third, listed(fourth)?),
                    _ => SpaceOperation::Present(start, end, third, listed(fourth)?),
                }
            }
            number::MAP_LARGE => {
                behind(first, LARGE_PAGES)?;
                let is_aligned = first.is_multiple_of(LARGE_PAGES * PAGE);
                SpaceOperation::MapLarge(
                    first,
                    protection(third).and_then(|protection| {
                        if is_aligned { Ok(protection) } else { Err(Status::Invalid) }
                    })?,
                )
            }
            number::MOVE => {
                let (start, end) = pages()?;
                let to_end = third.checked_add(end - start).ok_or(Status::Invalid)?;
                let (to, to_end) = range(third, to_end)?;
                if start < to_end && to < end {
                    return Err(Status::Invalid);
                }
                SpaceOperation::Move(start, end, to)
            }
            number::MAKE_WRITABLE => {
                SpaceOperation::MakeWritable(address()?, protection(third)? | Protection::WRITE)
            }
            number::QUERY => SpaceOperation::Query(address()?),
            number::COPY => {
                let access = if fourth == 0 { Access::Read } else { Access::Write };
                SpaceOperation::Copy(first, second, third, access)
            }
            number::EXCHANGE => SpaceOperation::Exchange(address()?, second as u32, third as u32),
            number::COUNTS => SpaceOperation::Counts,
            number::ENTER => SpaceOperation::Enter,
            number::OWN_PAGE => SpaceOperation::OwnPage(first),
            _ => return Err(Status::Invalid),
        })
    }
}

fn mode(number: u64) -> CloneMode {
    if number == 0 { CloneMode::Pages } else { CloneMode::Tables }
}

/// Pages of a large page.
const LARGE_PAGES: u64 = 512;

/// Flag of a [`page_word`]: the page was accessed.
pub const ACCESSED: u64 = 1 << 8;
/// Flag of a [`page_word`]: the page was written.
pub const DIRTY: u64 = 1 << 9;
/// Flag of a [`page_word`]: the page is a part of a large page.
pub const LARGE: u64 = 1 << 10;

/// Packs `page` into a word: the number of its frame above bit 32, its flags below.
pub fn page_word(page: &Page) -> u64 {
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    u64::from(page.frame) << 32
        | u64::from(page.protection.bits())
        | flag(page.is_accessed, ACCESSED)
        | flag(page.is_dirty, DIRTY)
        | flag(page.is_large, LARGE)
}

/// The first of the [`trap_words`] of a kick.
pub const KICKED: u64 = 0;
/// The first of the [`trap_words`] of a page fault, with the access above bit 8 and the presence above bit 16.
pub const PAGE_FAULT: u64 = 1;
/// The first of the [`trap_words`] of another exception.
pub const EXCEPTION: u64 = 2;

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(operation: u64, arguments: [u64; 4]) -> Result<SpaceOperation, Status> {
        let [rdx, r10, r8, r9] = arguments;
        SpaceOperation::of(&Registers { rsi: operation, rdx, r10, r8, r9, ..Registers::default() })
    }

    #[test]
    fn ranges_are_aligned_and_of_a_program() {
        let unmap = |start, end| asked(number::UNMAP, [start, end, 0, 0]);
        assert_eq!(unmap(0x1000, 0x3000), Ok(SpaceOperation::Unmap(0x1000, 0x3000)));
        assert_eq!(unmap(0x1000, 0x1000), Ok(SpaceOperation::Unmap(0x1000, 0x1000)));
        assert_eq!(unmap(0, USER_END), Ok(SpaceOperation::Unmap(0, USER_END)));
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
        let moved = |to| asked(number::MOVE, [0x4000, 0x6000, to, 0]);
        assert_eq!(moved(0x6000), Ok(SpaceOperation::Move(0x4000, 0x6000, 0x6000)));
        assert_eq!(moved(0x2000), Ok(SpaceOperation::Move(0x4000, 0x6000, 0x2000)));
        for to in [0x5000, 0x3000, 0x4000, USER_END - PAGE, !0xfff] {
            assert_eq!(moved(to), Err(Status::Invalid), "{to:x}");
        }
    }

    #[test]
    fn lists_and_large_pages_have_their_limits() {
        let map = |start, count| asked(number::MAP, [start, 8, count, 1]);
        assert!(map(0, 64).is_ok());
        assert_eq!(map(0, 65), Err(Status::Invalid));
        assert_eq!(map(USER_END - PAGE, 2), Err(Status::Invalid));
        assert_eq!(asked(number::MAP, [0, 8, 1, 8]), Err(Status::Invalid));
        assert!(asked(number::MAP_LARGE, [0x20_0000, 0, 3, 0]).is_ok());
        assert_eq!(asked(number::MAP_LARGE, [0x10_0000, 0, 3, 0]), Err(Status::Invalid));
    }

    proptest! {
        #[test]
        fn any_registers_are_decoded_to_addresses_of_programs(words in any::<[u64; 5]>(), small in 0u64..20) {
            let [_, rdx, r10, r8, r9] = words;
            let registers = Registers { rsi: small, rdx, r10, r8, r9, ..Registers::default() };
            if let Ok(SpaceOperation::Unmap(start, end) | SpaceOperation::MapZeroed(start, end, _)) = SpaceOperation::of(&registers) {
                prop_assert!(start <= end && end <= USER_END && start % PAGE == 0 && end % PAGE == 0);
            }
        }
    }
}
