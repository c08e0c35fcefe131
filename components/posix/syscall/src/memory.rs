//! The mmap family: mapping, protection, the break, advice, locking (handlers of [`memory`]).
use super::entry::Entry;
use alloc::sync::Arc;
use interfaces::monitor::ObjectAccess;
use linux_raw_sys::general as raw;
use memory::{
    AddressSpace, Advice, Flags, MapFlags, MapRequest, MappingPlace, MappingSource, Origin, PAGE,
    RemapFlags,
    lock::{Entering, LaterMappings},
    map::lowest,
    region::round_up,
    transfer::check_place,
};
use process::{call::Call, exec};
use rt::user::{Access, Protection, USER_END};
use vfs::{Capabilities, Errno, MountFlags, OpenFile, file::SyncKind, security};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(raw::__NR_mmap, "mmap", "MAP_HUGETLB, MAP_SYNC", mmap),
    Entry::whole(raw::__NR_munmap, "munmap", munmap),
    Entry::whole(raw::__NR_mprotect, "mprotect", mprotect),
    Entry::partial(raw::__NR_pkey_mprotect, "pkey_mprotect", "protection keys", pkey_mprotect),
    Entry::whole(raw::__NR_mremap, "mremap", mremap),
    Entry::whole(raw::__NR_brk, "brk", brk),
    Entry::whole(raw::__NR_msync, "msync", msync),
    Entry::partial(raw::__NR_madvise, "madvise", "MADV_HWPOISON, MADV_SOFT_OFFLINE", madvise),
    Entry::whole(raw::__NR_mincore, "mincore", mincore),
    Entry::whole(raw::__NR_mlock, "mlock", mlock),
    Entry::whole(raw::__NR_mlock2, "mlock2", mlock2),
    Entry::whole(raw::__NR_munlock, "munlock", munlock),
    Entry::whole(raw::__NR_mlockall, "mlockall", mlockall),
    Entry::whole(raw::__NR_munlockall, "munlockall", munlockall),
];

/// Number of pages that mincore reports at once.
const MINCORE_PAGES: u64 = 4096;
/// Flags without effect, here as on Linux.
const IGNORED: u32 = raw::MAP_DENYWRITE | raw::MAP_EXECUTABLE | raw::MAP_STACK | raw::MAP_NONBLOCK;
/// Mask of the size of huge pages, at `MAP_HUGE_SHIFT`.
const HUGE_SIZE: u32 = 0x3f << 26;
const PROT_KNOWN: u32 = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC | PROT_SEM;
const PROT_SEM: u32 = 8;
/// Advice of newer kernels and of CONFIG_KSM.
const MADV_DONTNEED_LOCKED: u32 = 24;

/// The caller's memory, told the limits as they are now.
pub(super) fn limited_memory(call: &Call<'_>) -> Arc<AddressSpace> {
    let task = call.task;
    let memory = task.memory();
    let mut limits = exec::limits_of(&task.process);
    if task.credentials().has(Capabilities::IPC_LOCK) {
        limits.locked = u64::MAX;
    }
    memory.set_limits(limits);
    memory
}

fn protection_of(bits: u32) -> Protection {
    let mut protection = Protection::empty();
    protection.set(Protection::READ, bits & raw::PROT_READ != 0);
    protection.set(Protection::WRITE, bits & raw::PROT_WRITE != 0);
    protection.set(Protection::EXECUTE, bits & raw::PROT_EXEC != 0);
    protection
}

fn mmap(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (address, bytes, flags, offset) = (call.word(0), call.word(1), call.uint(3), call.word(5));
    if !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let protection = protection_of(call.uint(2));
    let source = if flags & raw::MAP_ANONYMOUS != 0 {
        check_low(call)?;
        anonymous_source(flags)?
    } else {
        let file = call.file(4)?;
        if bytes == 0 {
            return Err(Errno::EINVAL);
        }
        check_extent(bytes, offset)?;
        check_low(call)?;
        let source = file_source(file, protection, flags, (offset / PAGE, bytes))?;
        limited_by_label(call, source, protection)?
    };
    if flags & raw::MAP_HUGETLB != 0 {
        return Err(Errno::ENOMEM);
    }
    limited_memory(call).map(&MapRequest {
        place: place_of(address, flags),
        bytes,
        protection,
        flags: map_flags_of(flags),
        source,
    })
}

/// Refuses a fixed place that is too low, before the kind of the mapping is checked.
fn check_low(call: &Call<'_>) -> Result<(), Errno> {
    let (address, bytes) = (call.word(0), call.word(1));
    let is_fixed = call.uint(3) & (raw::MAP_FIXED | raw::MAP_FIXED_NOREPLACE) != 0;
    let is_sized = (1..=USER_END).contains(&bytes);
    let is_low = is_fixed && is_sized && address.is_multiple_of(PAGE) && address < lowest();
    if is_low { Err(Errno::EPERM) } else { Ok(()) }
}

fn place_of(address: u64, flags: u32) -> MappingPlace {
    if flags & raw::MAP_FIXED_NOREPLACE != 0 {
        MappingPlace::FixedFree(address)
    } else if flags & raw::MAP_FIXED != 0 {
        MappingPlace::Fixed(address)
    } else if address != 0 {
        MappingPlace::Hint(address)
    } else {
        MappingPlace::Anywhere
    }
}

fn map_flags_of(flags: u32) -> MapFlags {
    let mut wanted = MapFlags::empty();
    wanted.set(MapFlags::NO_RESERVE, flags & raw::MAP_NORESERVE != 0);
    wanted.set(MapFlags::GROWS_DOWN, flags & raw::MAP_GROWSDOWN != 0);
    wanted.set(MapFlags::LOCKED, flags & raw::MAP_LOCKED != 0);
    wanted.set(MapFlags::LOW, flags & raw::MAP_32BIT != 0);
    let populates = flags & (raw::MAP_POPULATE | raw::MAP_NONBLOCK) == raw::MAP_POPULATE;
    wanted.set(MapFlags::POPULATE, populates);
    wanted
}

fn anonymous_source(flags: u32) -> Result<MappingSource, Errno> {
    match flags & raw::MAP_TYPE {
        raw::MAP_PRIVATE => Ok(MappingSource::Anonymous),
        raw::MAP_SHARED if flags & raw::MAP_GROWSDOWN == 0 => Ok(MappingSource::SharedAnonymous),
        _ => Err(Errno::EINVAL),
    }
}

/// Checks that the file's offset at the end of the mapping is a valid position.
fn check_extent(bytes: u64, offset: u64) -> Result<(), Errno> {
    let length = round_up(bytes).filter(|length| *length <= USER_END).ok_or(Errno::ENOMEM)?;
    match offset.checked_add(length) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(Errno::EOVERFLOW),
    }
}

fn file_source(
    file: Arc<OpenFile>,
    protection: Protection,
    flags: u32,
    (first, bytes): (u64, u64),
) -> Result<MappingSource, Errno> {
    let is_shared = match flags & raw::MAP_TYPE {
        raw::MAP_PRIVATE => false,
        raw::MAP_SHARED => true,
        raw::MAP_SHARED_VALIDATE => {
            check_known(flags)?;
            true
        }
        _ => return Err(Errno::EINVAL),
    };
    if file.is_path_only() {
        return Err(Errno::EBADF);
    }
    let is_stored_to = is_shared && protection.contains(Protection::WRITE);
    if !file.is_readable() || is_stored_to && !file.is_writable() {
        return Err(Errno::EACCES);
    }
    let mut allowed = Protection::all();
    if is_shared && !file.is_writable() {
        allowed.remove(Protection::WRITE);
    }
    if file.path().mount.flags().contains(MountFlags::NO_EXECUTE) {
        if protection.contains(Protection::EXECUTE) {
            return Err(Errno::EPERM);
        }
        allowed.remove(Protection::EXECUTE);
    }
    if flags & raw::MAP_GROWSDOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let object = file.file().mappable()?;
    file.file().check_mapping(first, bytes)?;
    if file.vnode().is_regular() {
        file.touch_accessed();
    }
    Ok(MappingSource::Object { object, first, origin: Origin::File(file), allowed, is_shared })
}

/// Takes the right to execute from a mapping of a file whose instructions the caller may not run because of its label: neither
/// mmap nor mprotect gives it then.
///
/// # Errors
/// `EACCES` if the mapping is to be executed.
fn limited_by_label(
    call: &Call<'_>,
    mut source: MappingSource,
    protection: Protection,
) -> Result<MappingSource, Errno> {
    if security::is_enforced()
        && let MappingSource::Object { origin: Origin::File(file), allowed, .. } = &mut source
    {
        let (vnode, who) = (file.vnode(), call.task.credentials());
        if protection.contains(Protection::EXECUTE) {
            vnode.admit(&who, ObjectAccess::Execute)?;
        } else if !vnode.is_admitted(&who, ObjectAccess::Execute) {
            allowed.remove(Protection::EXECUTE);
        }
    }
    Ok(source)
}

/// Refuses unknown flags of `MAP_SHARED_VALIDATE`.
fn check_known(flags: u32) -> Result<(), Errno> {
    let known = raw::MAP_TYPE
        | raw::MAP_FIXED
        | raw::MAP_FIXED_NOREPLACE
        | raw::MAP_ANONYMOUS
        | raw::MAP_NORESERVE
        | raw::MAP_GROWSDOWN
        | raw::MAP_LOCKED
        | raw::MAP_POPULATE
        | raw::MAP_HUGETLB
        | raw::MAP_32BIT
        | HUGE_SIZE
        | IGNORED;
    if flags & !known != 0 { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

fn munmap(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.memory.unmap(call.word(0), call.word(1))?;
    Ok(0)
}

fn mprotect(call: &mut Call<'_>) -> Result<u64, Errno> {
    let grows = call.uint(2) & (raw::PROT_GROWSDOWN | raw::PROT_GROWSUP);
    let bits = call.uint(2) & !grows;
    let (mut start, mut bytes) = (call.word(0), call.word(1));
    if grows == (raw::PROT_GROWSDOWN | raw::PROT_GROWSUP) || !start.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if bytes == 0 {
        return Ok(0);
    }
    if bits & !PROT_KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let memory = limited_memory(call);
    match grows {
        raw::PROT_GROWSDOWN => {
            let lowest = memory.growing_start(start)?;
            bytes = bytes.checked_add(start - lowest).ok_or(Errno::ENOMEM)?;
            start = lowest;
        }
        raw::PROT_GROWSUP => return Err(Errno::EINVAL),
        _ => {}
    }
    memory.protect(start, bytes, protection_of(bits))?;
    Ok(0)
}

fn pkey_mprotect(call: &mut Call<'_>) -> Result<u64, Errno> {
    // The first key belongs to all memory; for an empty range every key is valid.
    let has_key = !matches!(call.int(3), -1 | 0) && call.word(1) != 0;
    if has_key { Err(Errno::EINVAL) } else { mprotect(call) }
}

fn mremap(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = u32::try_from(call.word(3)).ok().and_then(RemapFlags::from_bits);
    let flags = flags.ok_or(Errno::EINVAL)?;
    let (old, old_bytes, new_bytes) = (call.word(0), call.word(1), call.word(2));
    limited_memory(call).remap(old, old_bytes, new_bytes, flags, call.word(4))
}

fn brk(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(limited_memory(call).set_break(call.word(0)))
}

fn msync(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(2);
    let is_known = flags & !(raw::MS_ASYNC | raw::MS_INVALIDATE | raw::MS_SYNC) == 0;
    let is_both = flags & (raw::MS_ASYNC | raw::MS_SYNC) == raw::MS_ASYNC | raw::MS_SYNC;
    if !is_known || is_both || !call.word(0).is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let files = match flags & raw::MS_INVALIDATE {
        0 => call.memory.files_to_sync(call.word(0), call.word(1))?,
        _ => call.memory.files_to_invalidate(call.word(0), call.word(1))?,
    };
    if flags & raw::MS_SYNC != 0 {
        for file in files {
            file.file().sync(SyncKind::Data)?;
        }
    }
    Ok(0)
}

fn madvise(call: &mut Call<'_>) -> Result<u64, Errno> {
    let advice = advice_of(call.uint(2))?;
    call.memory.advise(call.word(0), call.word(1), advice)?;
    Ok(0)
}

fn advice_of(number: u32) -> Result<Advice, Errno> {
    let mark = |set, clear| Advice::Mark { set, clear };
    let none = Flags::empty();
    Ok(match number {
        raw::MADV_NORMAL
        | raw::MADV_RANDOM
        | raw::MADV_SEQUENTIAL
        | raw::MADV_MERGEABLE
        | raw::MADV_UNMERGEABLE
        | raw::MADV_COLD
        | raw::MADV_PAGEOUT => Advice::Nothing,
        raw::MADV_COLLAPSE => Advice::Collapse,
        raw::MADV_WILLNEED => Advice::WillNeed,
        raw::MADV_DONTNEED => Advice::DontNeed { with_locked: false },
        MADV_DONTNEED_LOCKED => Advice::DontNeed { with_locked: true },
        raw::MADV_FREE => Advice::Free,
        raw::MADV_REMOVE => Advice::Remove,
        raw::MADV_DONTFORK => mark(Flags::DONT_FORK, none),
        raw::MADV_DOFORK => mark(none, Flags::DONT_FORK),
        raw::MADV_WIPEONFORK => mark(Flags::WIPE_ON_FORK, none),
        raw::MADV_KEEPONFORK => mark(none, Flags::WIPE_ON_FORK),
        raw::MADV_DONTDUMP => mark(Flags::DONT_DUMP, none),
        raw::MADV_DODUMP => mark(none, Flags::DONT_DUMP),
        raw::MADV_HUGEPAGE => mark(Flags::LARGE, Flags::NO_LARGE),
        raw::MADV_NOHUGEPAGE => mark(Flags::NO_LARGE, Flags::LARGE),
        raw::MADV_POPULATE_READ => Advice::Populate(Access::Read),
        raw::MADV_POPULATE_WRITE => Advice::Populate(Access::Write),
        _ => return Err(Errno::EINVAL),
    })
}

fn mincore(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (start, bytes, mut out) = (call.word(0), call.word(1), call.word(2));
    if !start.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = round_up(bytes).and_then(|bytes| start.checked_add(bytes)).ok_or(Errno::ENOMEM)?;
    if end > USER_END {
        return Err(Errno::ENOMEM);
    }
    check_place(out, (end - start) / PAGE)?;
    let memory = call.memory;
    let who = call.task.credentials();
    let mut at = start;
    while at < end {
        let pages = ((end - at) / PAGE).min(MINCORE_PAGES);
        let present = memory.residency(at, pages as usize, &who)?;
        memory.write_bytes(out, &present)?;
        let pages = present.len() as u64;
        out = out.wrapping_add(pages);
        at += pages * PAGE;
    }
    Ok(0)
}

fn mlock(call: &mut Call<'_>) -> Result<u64, Errno> {
    limited_memory(call).lock_pages(call.word(0), call.word(1), Entering::Now)?;
    Ok(0)
}

fn mlock2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let entering = match call.uint(2) {
        0 => Entering::Now,
        raw::MLOCK_ONFAULT => Entering::OnFault,
        _ => return Err(Errno::EINVAL),
    };
    limited_memory(call).lock_pages(call.word(0), call.word(1), entering)?;
    Ok(0)
}

fn munlock(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.memory.unlock_pages(call.word(0), call.word(1))?;
    Ok(0)
}

fn mlockall(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(0);
    let known = raw::MCL_CURRENT | raw::MCL_FUTURE | raw::MCL_ONFAULT;
    if flags == 0 || flags & !known != 0 || flags == raw::MCL_ONFAULT {
        return Err(Errno::EINVAL);
    }
    let entering = match flags & raw::MCL_ONFAULT {
        0 => Entering::Now,
        _ => Entering::OnFault,
    };
    let now = (flags & raw::MCL_CURRENT != 0).then_some(entering);
    let later =
        if flags & raw::MCL_FUTURE != 0 { LaterMappings::Locked } else { LaterMappings::Free };
    limited_memory(call).lock_all(now, later)?;
    Ok(0)
}

fn munlockall(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.memory.unlock_all();
    Ok(0)
}
