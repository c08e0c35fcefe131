//! FS_IOC_FIEMAP: the extents of a file on its storage (Linux `Documentation/filesystems/fiemap.rst`).
//!
//! ```text
//! 0 start  8 length  16 flags  20 mapped  24 room  28 reserved   32 extents, of 56 bytes each:
//! 0 logical  8 physical  16 length  24 reserved  40 flags  44 reserved
//! ```
//! Dirty pages are written first, with FIEMAP_FLAG_SYNC or without, so that every extent has its blocks. Extended
//! attributes in blocks of their own (FIEMAP_FLAG_XATTR) are not reported (`EBADR`).
//!
//! A caller that does not see other levels is not told which blocks a file has, nor into how many runs they fall: these depend on the
//! blocks that other levels take.
use interfaces::{file_system::Stored, monitor::Privileges};
use process::call::Call;
use vfs::{Errno, OpenFile, file::RangeSteps, security};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const FLAG_SYNC: u32 = 1;
/// Flag of an extent: it is the last one.
const LAST: u32 = 1;
/// Flag of an extent: its place is not told.
const UNKNOWN: u32 = 2;
/// Flag of an extent: it is not made of whole blocks.
const NOT_ALIGNED: u32 = 0x100;
/// Flag of an extent: it is stored beside the inode.
const INLINE: u32 = 0x200;
/// Flag of an extent: it reads as zeroes.
const UNWRITTEN: u32 = 0x800;

/// `struct fiemap`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct ExtentRequest {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    rest: [u32; 3],
}

const REQUEST_BYTES: u64 = size_of::<ExtentRequest>() as u64;
const EXTENT_BYTES: u64 = size_of::<Extent>() as u64;
/// The greatest number of extents that may be requested.
const ROOM_MAX: u32 = (u32::MAX - REQUEST_BYTES as u32) / EXTENT_BYTES as u32;
const _: () = assert!(REQUEST_BYTES == 32 && EXTENT_BYTES == 56);

/// Answers FS_IOC_FIEMAP for `file`; `address` is the program's request, to which the answer is written.
///
/// # Errors
/// `EOPNOTSUPP` for a file that is not on storage, `EFAULT`, `EINVAL`, `EFBIG`, `EBADR` for unknown flags, which are
/// left in the request; errors of the file system.
pub fn map(call: &Call<'_>, file: &OpenFile, address: u64) -> Result<u64, Errno> {
    let vnode = file.vnode();
    if !vnode.is_regular() && !vnode.is_directory() {
        return Err(Errno::EOPNOTSUPP);
    }
    if let Err(Errno::EOPNOTSUPP) = vnode.on_storage(0, 1) {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut request: ExtentRequest = call.memory.read(address)?;
    if request.room > ROOM_MAX {
        return Err(Errno::EINVAL);
    }
    request.mapped = 0;
    let result = check(&mut request).and_then(|()| {
        let steps = RangeSteps::WRITE | RangeSteps::WAIT_AFTER;
        if vnode.is_regular() {
            file.file().write_range(0, i64::MAX as u64, steps)?;
        }
        report(call, file, address + REQUEST_BYTES, &mut request)
    });
    call.memory.write_bytes(address, request.as_bytes())?;
    result.map(|()| 0)
}

fn check(request: &mut ExtentRequest) -> Result<(), Errno> {
    const BYTES_MAX: u64 = i64::MAX as u64;
    if request.length == 0 {
        return Err(Errno::EINVAL);
    }
    if request.start >= BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    request.length = request.length.min(BYTES_MAX - request.start);
    let unknown = request.flags & !FLAG_SYNC;
    if unknown != 0 {
        request.flags = unknown;
        return Err(Errno::EBADR);
    }
    Ok(())
}

/// Writes the extents of the range to `at`, as many as fit; none if they are only counted.
fn report(
    call: &Call<'_>,
    file: &OpenFile,
    at: u64,
    request: &mut ExtentRequest,
) -> Result<(), Errno> {
    let block = u64::from(file.vnode().instance().info().block_bytes.max(1));
    let end = request.start + request.length;
    let sees_places = security::has(&call.task.credentials().subject, Privileges::SEE_ALL);
    let mut position = request.start / block * block;
    let mut known: Option<Extent> = None;
    while position < end {
        let (stored, length) = file.vnode().on_storage(position, end - position)?;
        let next = extent(stored, position, length)
            .map(|next| if sees_places { next } else { next.unplaced() });
        if let Some(next) = next
            && !known.as_mut().is_some_and(|before| before.grows_by(&next))
            && let Some(before) = known.replace(next)
            && put(call, at, request, &before)?.is_full()
        {
            return Ok(());
        }
        position = position.saturating_add(length.max(1));
        if call.task.is_ending() {
            break;
        }
    }
    if let Some(last) = known {
        put(call, at, request, &Extent { flags: last.flags | LAST, ..last })?;
    }
    Ok(())
}

impl Extent {
    /// Returns the extent without its place.
    fn unplaced(self) -> Extent {
        Extent { physical: 0, flags: self.flags | UNKNOWN, ..self }
    }

    /// Adds an extent whose place is not told, if it continues this one.
    fn grows_by(&mut self, next: &Extent) -> bool {
        let continues = next.flags & UNKNOWN != 0
            && next.flags == self.flags
            && self.logical.checked_add(self.length) == Some(next.logical);
        if continues {
            self.length = self.length.saturating_add(next.length);
        }
        continues
    }
}

fn extent(stored: Stored, logical: u64, length: u64) -> Option<Extent> {
    let (physical, flags) = match stored {
        Stored::Hole => return None,
        Stored::Data(start) => (start, 0),
        Stored::Unwritten(start) => (start, UNWRITTEN),
        Stored::Inline => (0, INLINE | NOT_ALIGNED),
    };
    Some(Extent { logical, physical, length, reserved: [0; 2], flags, rest: [0; 3] })
}

/// Tells whether there is room for another extent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    Full,
}

impl Room {
    fn is_full(self) -> bool {
        self == Room::Full
    }
}

fn put(
    call: &Call<'_>,
    at: u64,
    request: &mut ExtentRequest,
    extent: &Extent,
) -> Result<Room, Errno> {
    if request.room > 0 {
        if request.mapped >= request.room {
            return Ok(Room::Full);
        }
        let place = at + u64::from(request.mapped) * EXTENT_BYTES;
        call.memory.write_bytes(place, extent.as_bytes())?;
    }
    request.mapped += 1;
    let is_full = request.room > 0 && request.mapped == request.room;
    Ok(if is_full { Room::Full } else { Room::Left })
}
