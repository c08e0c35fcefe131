//! shmget, shmat, shmdt, shmctl (handlers of [`objects::ipc::segment`]).
use super::{entry::Entry, memory::limited_memory};
use linux_raw_sys::general as raw;
use memory::{
    MapFlags, MapRequest, MappingPlace, MappingSource, Origin, PAGE, segments::Segment as _,
};
use objects::ipc::{
    Who,
    layout::{RawSegment, RawSegmentLimits},
    limits,
    registry::Stat,
    segment::{self, Hold, SegmentArguments, ShmLock},
};
use process::call::Call;
use rt::user::Protection;
use vfs::{Capabilities, Errno};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(raw::__NR_shmget, "shmget", "huge pages (SHM_HUGETLB: ENOMEM)", shmget),
    Entry::whole(raw::__NR_shmat, "shmat", shmat),
    Entry::whole(raw::__NR_shmdt, "shmdt", shmdt),
    Entry::whole(raw::__NR_shmctl, "shmctl", shmctl),
];

const SHM_HUGETLB: i32 = 0o4000;
const SHM_NORESERVE: i32 = 0o10000;
/// Position of the exponent of the size of huge pages.
const HUGE_SHIFT: i32 = 26;
const HUGE_MASK: i32 = 0x3f;
/// Exponent of 2 MiB, the size for which 0 stands.
const HUGE_BITS: i32 = 21;

const SHM_RDONLY: i32 = 0o10000;
const SHM_RND: i32 = 0o20000;
const SHM_REMAP: i32 = 0o40000;
const SHM_EXEC: i32 = 0o100000;

const IPC_RMID: i32 = 0;
const IPC_SET: i32 = 1;
const IPC_STAT: i32 = 2;
const IPC_INFO: i32 = 3;
const SHM_LOCK: i32 = 11;
const SHM_UNLOCK: i32 = 12;
const SHM_STAT: i32 = 13;
const SHM_INFO: i32 = 14;
const SHM_STAT_ANY: i32 = 15;

fn shmget(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (key, bytes, flags) = (call.int(0), call.word(1), call.int(2));
    let wanted = SegmentArguments {
        named: (key, flags),
        bytes,
        may_lack: flags & SHM_NORESERVE != 0,
        refusal: (flags & SHM_HUGETLB != 0).then(|| huge_refusal(call, flags)),
    };
    segment::obtain(call.task, &wanted).map(|id| id as u64)
}

/// Returns the error for huge pages, which do not exist: it depends on whether the caller would be
/// allowed to use them.
fn huge_refusal(call: &Call<'_>, flags: i32) -> Errno {
    if !matches!(flags >> HUGE_SHIFT & HUGE_MASK, 0 | HUGE_BITS) {
        return Errno::EINVAL;
    }
    match call.task.credentials().has(Capabilities::IPC_LOCK) {
        true => Errno::ENOMEM,
        false => Errno::EPERM,
    }
}

fn shmat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, address, flags) = (call.int(0), call.word(1), call.int(2));
    let place = place(address, flags)?;
    let (mut protection, mut wanted) = (Protection::READ, 0o444);
    let mut allowed = Protection::all();
    if flags & SHM_RDONLY == 0 {
        (protection, wanted) = (protection | Protection::WRITE, wanted | 0o222);
    } else {
        allowed.remove(Protection::WRITE);
    }
    if flags & SHM_EXEC != 0 {
        (protection, wanted) = (protection | Protection::EXECUTE, wanted | 0o111);
    }
    let hold = Hold::take(id, call.task, wanted)?;
    let segment = hold.segment();
    if let MappingPlace::FixedFree(start) = place {
        start.checked_add(segment.bytes()).ok_or(Errno::EINVAL)?;
    }
    let request = MapRequest {
        place,
        bytes: segment.bytes(),
        protection,
        flags: MapFlags::empty(),
        source: MappingSource::Object {
            object: segment.memory().clone(),
            first: 0,
            origin: Origin::Segment(segment.clone()),
            allowed,
            is_shared: true,
        },
    };
    limited_memory(call).map(&request).map_err(|error| match error {
        // Memory is mapped at the requested place.
        Errno::EEXIST => Errno::EINVAL,
        other => other,
    })
}

fn place(address: u64, flags: i32) -> Result<MappingPlace, Errno> {
    let replaces = flags & SHM_REMAP != 0;
    let rounded = match address % PAGE {
        0 => address,
        rest if flags & SHM_RND != 0 => address - rest,
        _ => return Err(Errno::EINVAL),
    };
    match rounded {
        0 if replaces => Err(Errno::EINVAL),
        0 if address == 0 => Ok(MappingPlace::Anywhere),
        start if replaces => Ok(MappingPlace::Fixed(start)),
        start => Ok(MappingPlace::FixedFree(start)),
    }
}

fn shmdt(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.memory.detach(call.word(0))?;
    Ok(0)
}

fn shmctl(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, command, address) = (call.int(0), call.int(1), call.word(2));
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    let who = Who::of(call.task);
    match command {
        IPC_INFO => {
            call.memory.write(address, &segment_limits())?;
            Ok(segment::registry().highest(&who))
        }
        SHM_INFO => {
            let highest = segment::registry().highest(&who);
            call.memory.write(address, &segment::usage(call.task))?;
            Ok(highest)
        }
        IPC_STAT => stat(call, &who, Stat::Identifier),
        SHM_STAT => stat(call, &who, Stat::Index),
        SHM_STAT_ANY => stat(call, &who, Stat::AnyIndex),
        IPC_SET => {
            let wanted: RawSegment = call.memory.read(address)?;
            segment::set(id, &who, &wanted.permission).map(|()| 0)
        }
        IPC_RMID => segment::remove(id, &who).map(|()| 0),
        SHM_LOCK | SHM_UNLOCK => {
            let lock = if command == SHM_LOCK { ShmLock::Lock } else { ShmLock::Unlock };
            segment::set_lock(call.task, id, lock).map(|()| 0)
        }
        _ => Err(Errno::EINVAL),
    }
}

fn segment_limits() -> RawSegmentLimits {
    let segments_max = limits::SEGMENTS.get();
    RawSegmentLimits {
        bytes_max: limits::SEGMENT_BYTES.get(),
        bytes_min: 1,
        segments_max,
        attaches_max: segments_max,
        pages_max: limits::SEGMENT_PAGES.get(),
        unused: [0; 4],
    }
}

fn stat(call: &Call<'_>, who: &Who, stat: Stat) -> Result<u64, Errno> {
    let (segment, answer) = segment::registry().stat(call.int(0), stat, who)?;
    call.memory.write(call.word(2), &segment.report())?;
    Ok(answer)
}
