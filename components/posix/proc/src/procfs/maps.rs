//! `/proc/PID/maps`, `smaps` and `smaps_rollup`: the regions of a process, and the use of their present pages.
use super::{process::Subject, report::path_text};
use alloc::{format, vec::Vec};
use memory::{
    AddressSpace, Flags, Label,
    report::{Name, PageUsage, RegionReport, SHARE_ONE},
};
use rt::user::Protection;
use vfs::{
    Errno, Path,
    digits::{write_decimal, write_hex},
};

const PAGE_KIB: u64 = 4;
const NAME_COLUMN: usize = 73;
/// Typical length of a line, with a name that is not long.
const LINE_BYTES: usize = 128;

/// Returns one line for each region.
pub fn maps(subject: &Subject, memory: Option<&AddressSpace>) -> Result<Vec<u8>, Errno> {
    let Some(memory) = memory else { return Ok(Vec::new()) };
    let root = root(subject);
    let regions = memory.regions();
    let mut text = Vec::with_capacity(regions.len() * LINE_BYTES);
    for region in regions {
        write_region(&mut text, &region, root.as_ref());
    }
    Ok(text)
}

/// Returns the regions, each with its present pages. Pages that processes share through one page table count as
/// private.
pub fn details(subject: &Subject, memory: Option<&AddressSpace>) -> Result<Vec<u8>, Errno> {
    let Some(memory) = memory else { return Ok(Vec::new()) };
    let root = root(subject);
    let mut text = Vec::new();
    for (region, usage) in memory.usages() {
        write_region(&mut text, &region, root.as_ref());
        let kib = (region.end - region.start) / 1024;
        write_sizes(
            &mut text,
            &[("Size", kib), ("KernelPageSize", PAGE_KIB), ("MMUPageSize", PAGE_KIB)],
        );
        let is_locked = region.flags.contains(Flags::LOCKED);
        write_usage(&mut text, &usage, if is_locked { usage.share } else { 0 });
        text.extend(
            format!("THPeligible:    {}\nVmFlags:", u8::from(region.takes_large)).into_bytes(),
        );
        for (_, word) in words(&region).into_iter().filter(|(is_so, _)| *is_so) {
            text.push(b' ');
            text.extend_from_slice(word.as_bytes());
        }
        text.extend_from_slice(b" \n");
    }
    Ok(text)
}

/// Returns the sums over all regions.
pub fn sums(_: &Subject, memory: Option<&AddressSpace>) -> Result<Vec<u8>, Errno> {
    let Some(memory) = memory else { return Err(Errno::ESRCH) };
    let usages = memory.usages();
    let (first, last) = match usages.as_slice() {
        [] => (0, 0),
        [(only, _)] => (only.start, only.end),
        [(first, _), .., (last, _)] => (first.start, last.end),
    };
    let sum = usages.iter().fold(PageUsage::default(), |sum, (_, usage)| sum.plus(usage));
    let line = format!("{first:08x}-{last:08x} ---p 00000000 00:00 0 ");
    let mut text = format!("{line:<NAME_COLUMN$}[rollup]\n").into_bytes();
    write_usage(&mut text, &sum, 0);
    Ok(text)
}

fn root(subject: &Subject) -> Option<Path> {
    subject.task().map(|task| task.fs().root())
}

fn write_region(text: &mut Vec<u8>, region: &RegionReport, root: Option<&Path>) {
    let flag = |wanted, letter| if region.protection.contains(wanted) { letter } else { b'-' };
    let (device, inode, name) = match &region.name {
        Name::None => ((0, 0), 0, Vec::new()),
        Name::Heap => ((0, 0), 0, b"[heap]".to_vec()),
        Name::Stack => ((0, 0), 0, b"[stack]".to_vec()),
        Name::System(label) => ((0, 0), 0, label_text(*label).to_vec()),
        // Linux keeps segments on its first memory file system, device 0:1.
        Name::Segment(key, id) => {
            ((0, 1), *id as u64, format!("/SYSV{key:08x} (deleted)").into_bytes())
        }
        Name::File(file) => {
            let name = root.map(|root| path_text(file.path(), root)).unwrap_or_default();
            let status = file.path().status();
            (status.device, status.attributes.inode, name)
        }
    };
    let start = text.len();
    write_hex(text, region.start, 8);
    text.push(b'-');
    write_hex(text, region.end, 8);
    text.extend_from_slice(&[
        b' ',
        flag(Protection::READ, b'r'),
        flag(Protection::WRITE, b'w'),
        flag(Protection::EXECUTE, b'x'),
        if region.is_shared { b's' } else { b'p' },
        b' ',
    ]);
    write_hex(text, region.offset, 8);
    text.push(b' ');
    write_hex(text, device.0.into(), 2);
    text.push(b':');
    write_hex(text, device.1.into(), 2);
    text.push(b' ');
    write_decimal(text, inode);
    text.push(b' ');
    if !name.is_empty() {
        let column = text.len().max(start + NAME_COLUMN);
        text.resize(column, b' ');
    }
    text.extend(name);
    text.push(b'\n');
}

fn label_text(label: Label) -> &'static [u8] {
    match label {
        Label::Vdso => b"[vdso]",
        Label::Vvar => b"[vvar]",
        Label::SharedAnonymous => b"/dev/zero (deleted)",
    }
}

fn write_sizes(text: &mut Vec<u8>, lines: &[(&str, u64)]) {
    for (name, kib) in lines {
        text.extend(format!("{:<16}{kib:>8} kB\n", format!("{name}:")).into_bytes());
    }
}

/// Writes the use of pages; `locked_share` is the share of locked ones.
fn write_usage(text: &mut Vec<u8>, usage: &PageUsage, locked_share: u64) {
    let share_kib = |share: u64| share * PAGE_KIB / SHARE_ONE;
    let kib = |pages: u64| pages * PAGE_KIB;
    let lines = [
        ("Rss", kib(usage.pages)),
        ("Pss", share_kib(usage.share)),
        ("Pss_Dirty", share_kib(usage.dirty_share)),
        ("Shared_Clean", kib(usage.shared_clean)),
        ("Shared_Dirty", kib(usage.shared_dirty)),
        ("Private_Clean", kib(usage.private_clean)),
        ("Private_Dirty", kib(usage.private_dirty)),
        ("Referenced", kib(usage.accessed)),
        ("Anonymous", kib(usage.anonymous)),
        ("LazyFree", 0),
        ("AnonHugePages", kib(usage.large)),
        ("ShmemPmdMapped", 0),
        ("FilePmdMapped", 0),
        ("Shared_Hugetlb", 0),
        ("Private_Hugetlb", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", share_kib(locked_share)),
    ];
    write_sizes(text, &lines);
}

/// Returns the words of `VmFlags`, each with whether it applies.
fn words(region: &RegionReport) -> [(bool, &'static str); 17] {
    let (allows, is) =
        (|what| region.protection.contains(what), |flag| region.flags.contains(flag));
    let may = |what| region.allowed.contains(what);
    [
        (allows(Protection::READ), "rd"),
        (allows(Protection::WRITE), "wr"),
        (allows(Protection::EXECUTE), "ex"),
        // As on Linux, a region that can never be written does not count as shared either.
        (region.is_shared && may(Protection::WRITE), "sh"),
        (may(Protection::READ), "mr"),
        (may(Protection::WRITE), "mw"),
        (may(Protection::EXECUTE), "me"),
        (region.is_shared, "ms"),
        (is(Flags::GROWS_DOWN), "gd"),
        (is(Flags::LOCKED), "lo"),
        (is(Flags::DONT_FORK), "dc"),
        (is(Flags::WAS_WRITABLE) && !is(Flags::NO_RESERVE), "ac"),
        (is(Flags::NO_RESERVE), "nr"),
        (is(Flags::WIPE_ON_FORK), "wf"),
        (is(Flags::DONT_DUMP), "dd"),
        (is(Flags::LARGE), "hg"),
        (is(Flags::NO_LARGE), "nh"),
    ]
}
