//! Calls on memory with lengths that overflow, of zero length, and over holes: their answers and effects, case by case (`./x
//! campaign arguments` found these).
use abi::{
    cases::{KERNEL, all, map, no, of, room},
    identity::as_user,
    isolated,
};
use libc::*;

const PAGE: i64 = 4096;
const USER: u32 = 1000;

/// Maps private pages.
fn pages(count: i64) -> i64 {
    map((count * PAGE) as usize, MAP_PRIVATE | MAP_ANONYMOUS, -1) as i64
}

#[test]
fn a_length_that_overflows_with_its_last_page_is_none() {
    let start = pages(1);
    for call in [SYS_mlock, SYS_mlock2, SYS_munlock, SYS_msync] {
        all(&[
            (call, of([KERNEL, 0, 0]), 0),
            (call, of([1 << 60, 0, 0]), 0),
            (call, of([start, -1, 0]), 0),
            (call, of([KERNEL, -1, 0]), 0),
        ]);
    }
    all(&[
        (SYS_mlock, of([start + 1, -1]), 0),
        (SYS_munlock, of([start + 1, -PAGE]), 0),
        (SYS_munlock, of([start, -PAGE]), no(EINVAL)),
        (SYS_msync, of([start, -PAGE, 0]), no(ENOMEM)),
        (SYS_madvise, of([KERNEL, 0, 0]), 0),
        (SYS_madvise, of([KERNEL, PAGE, 0]), no(ENOMEM)),
        (SYS_madvise, of([start, -1, 0]), no(EINVAL)),
        (SYS_madvise, of([start, -PAGE, 0]), no(EINVAL)),
        (SYS_pkey_mprotect, of([start, 0, 1, 5]), 0),
        (SYS_munmap, of([start, PAGE]), 0),
    ]);
}

/// Returns whether `/proc/self/smaps` says that the page at `address` is locked.
fn is_locked(address: i64) -> bool {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("a text");
    let mut is_inside = false;
    for line in text.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let range = range.and_then(|(start, end)| {
            let number = |text| i64::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?)
        });
        if let Some(range) = range {
            is_inside = range.contains(&address);
        }
        if is_inside && line.starts_with("VmFlags:") {
            return line.split(' ').any(|flag| flag == "lo");
        }
    }
    false
}

#[test]
fn behind_a_hole_nothing_is_locked() {
    isolated(|| {
        let start = pages(5);
        let hole = start + 2 * PAGE;
        all(&[(SYS_munmap, of([hole, PAGE]), 0), (SYS_mlock, of([hole, 3 * PAGE]), no(ENOMEM))]);
        assert!(!is_locked(hole + PAGE));
        all(&[(SYS_mlock, of([start, 5 * PAGE]), no(ENOMEM))]);
        assert!(is_locked(start + PAGE) && !is_locked(hole + PAGE));
        all(&[
            (SYS_mlock, of([hole + PAGE, PAGE]), 0),
            (SYS_munlock, of([start, 5 * PAGE]), no(ENOMEM)),
        ]);
        assert!(!is_locked(start) && is_locked(hole + PAGE));
    });
}

#[test]
fn mincore_tells_what_stands_before_a_hole() {
    let start = pages(4);
    let mut told = [7u8; 4];
    let place = room(&mut told);
    all(&[
        (SYS_munmap, of([start + 2 * PAGE, PAGE]), 0),
        (SYS_mincore, of([start, 4 * PAGE, KERNEL]), no(EFAULT)),
        (SYS_mincore, of([start, 0, KERNEL]), no(EFAULT)),
        (SYS_mincore, of([start, 4 * PAGE, 0]), no(EFAULT)),
        (SYS_mincore, of([start + 2 * PAGE, 2 * PAGE, 0]), no(ENOMEM)),
        (SYS_mincore, of([start, 4 * PAGE, place]), no(ENOMEM)),
    ]);
    assert_eq!(told, [0, 0, 7, 7]);
    all(&[(SYS_munmap, of([start, 4 * PAGE]), 0)]);
}

#[test]
fn pages_are_entered_only_for_what_the_memory_allows() {
    let start = pages(3);
    all(&[
        (SYS_mprotect, of([start + PAGE, PAGE, PROT_READ.into()]), 0),
        (SYS_mprotect, of([start + 2 * PAGE, PAGE, 0]), 0),
        (SYS_madvise, of([start, 2 * PAGE, MADV_POPULATE_READ.into()]), 0),
        (SYS_madvise, of([start, PAGE, MADV_POPULATE_WRITE.into()]), 0),
        (SYS_madvise, of([start, 2 * PAGE, MADV_POPULATE_WRITE.into()]), no(EINVAL)),
        (SYS_madvise, of([start, 3 * PAGE, MADV_POPULATE_READ.into()]), no(EINVAL)),
        // The range has no room for a large page.
        (SYS_madvise, of([start, PAGE, 25]), no(EINVAL)),
        (SYS_munmap, of([start, 3 * PAGE]), 0),
    ]);
}

#[test]
fn mremap_looks_for_its_memory_before_its_place() {
    let start = pages(2);
    all(&[
        (SYS_mremap, of([KERNEL, PAGE, PAGE, 0, 0]), no(EFAULT)),
        (SYS_mremap, of([KERNEL, PAGE, 0, 0, 0]), no(EINVAL)),
        (SYS_mremap, of([KERNEL + 1, PAGE, PAGE, 0, 0]), no(EINVAL)),
        (SYS_mremap, of([KERNEL, PAGE, PAGE, MREMAP_FIXED.into(), 0]), no(EINVAL)),
        (SYS_mremap, of([start, 0, 1 << 47, 0, 0]), no(EINVAL)),
        (SYS_munmap, of([start, 2 * PAGE]), 0),
    ]);
}

#[test]
fn a_place_that_is_too_low_is_refused_before_the_kind_is_looked_at() {
    const FIXED: i64 = (MAP_FIXED | MAP_ANONYMOUS) as i64;
    as_user(USER, &[], || {
        all(&[
            (SYS_mmap, [0, PAGE, 0, FIXED, -1, 0], no(EPERM)),
            (
                SYS_mmap,
                [0, PAGE, 0, (MAP_FIXED_NOREPLACE | MAP_ANONYMOUS).into(), -1, 0],
                no(EPERM),
            ),
            (SYS_mmap, [0, PAGE, 0, MAP_FIXED.into(), 1000, 0], no(EBADF)),
            (SYS_mmap, [0, 0, 0, FIXED, -1, 0], no(EINVAL)),
            (SYS_mmap, [1, PAGE, 0, FIXED, -1, 0], no(EINVAL)),
        ]);
    });
}
