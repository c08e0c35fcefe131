//! The vDSO: one page of data and one page of code shared by every program, so that programs read
//! the time without a system call. The code is `vdso/vdso.rs`; its header shows the layout of the
//! data page.
//!
//! The writer is [`update`], which is called after each change of the wall clock. `WRITER` makes
//! writers run one at a time; readers follow the sequence word.
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{Ordering, fence};
use memory::{
    AddressSpace, Anonymous, Label, MapFlags, MapRequest, MappingPlace, MappingSource, Origin, PAGE,
};
use rt::{
    NoMemory, PAGE_BYTES, lock_class,
    memory::Frame,
    sync::{Mutex, Once},
    time::TscScale,
    user::Protection,
};
use vfs::{Errno, file::Mappable};

lock_class! {
    static WRITER_LOCK = "exec.vdso";
}

/// The shared object built by `build.rs`.
static CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));

/// The page's sequence number after it was first filled.
const FIRST_SEQUENCE: u32 = 2;

static SHARED: Once<Option<Shared>> = Once::new();
static WRITER: Mutex<u32> = Mutex::new(&WRITER_LOCK, FIRST_SEQUENCE);

struct Shared {
    data: Arc<dyn Mappable>,
    data_frame: Frame,
    code: Arc<dyn Mappable>,
    code_pages: u64,
}

fn shared() -> Option<&'static Shared> {
    SHARED.get_or_init(|| Shared::new().ok()).as_ref()
}

impl Shared {
    fn new() -> Result<Shared, NoMemory> {
        let data_frame = Frame::zeroed()?;
        let mut code = Vec::new();
        for part in CODE.chunks(PAGE_BYTES) {
            let frame = Frame::zeroed()?;
            frame.write(0, part);
            code.push(frame);
        }
        write_scale(&data_frame, FIRST_SEQUENCE - 2, rt::time::tsc_scale());
        Ok(Shared {
            data: Anonymous::of_frames(core::slice::from_ref(&data_frame))?,
            data_frame,
            code_pages: code.len() as u64,
            code: Anonymous::of_frames(&code)?,
        })
    }
}

/// Updates the data page of programs. To be called whenever the wall clock was set.
pub fn update() {
    if let Some(shared) = shared() {
        let mut sequence = WRITER.lock();
        write_scale(&shared.data_frame, *sequence, rt::time::tsc_scale());
        *sequence = sequence.wrapping_add(2);
    }
}

/// Writes the page: `sequence` (even) becomes odd, then the fields, then `sequence + 2`.
fn write_scale(page: &Frame, sequence: u32, scale: Option<TscScale>) {
    page.write(0, &sequence.wrapping_add(1).to_le_bytes());
    fence(Ordering::SeqCst);
    page.write(4, &u32::from(scale.is_some()).to_le_bytes());
    if let Some(scale) = scale {
        let words = [
            scale.base_tsc,
            scale.base_ns,
            scale.multiplier,
            u64::from(scale.shift),
            scale.base_ns.wrapping_add(scale.wall_offset_ns),
        ];
        for (offset, word) in (8..).step_by(8).zip(words) {
            page.write(offset, &word.to_le_bytes());
        }
    }
    fence(Ordering::SeqCst);
    page.write(0, &sequence.wrapping_add(2).to_le_bytes());
}

/// Maps data and code at `start`. Returns the address of the code, at which programs find the
/// vDSO's ELF header; `None` if memory is short: programs then run without it.
///
/// # Errors
/// Those of mmap.
pub fn map(memory: &Arc<AddressSpace>, start: u64) -> Result<Option<u64>, Errno> {
    let Some(shared) = shared() else { return Ok(None) };
    let code = start + PAGE;
    let read = Protection::READ;
    memory.map(&part(start, 1, read, &shared.data, Label::Vvar))?;
    let execute = read | Protection::EXECUTE;
    memory.map(&part(code, shared.code_pages, execute, &shared.code, Label::Vdso))?;
    Ok(Some(code))
}

fn part(
    start: u64,
    pages: u64,
    protection: Protection,
    object: &Arc<dyn Mappable>,
    label: Label,
) -> MapRequest {
    MapRequest {
        place: MappingPlace::Fixed(start),
        bytes: pages * PAGE,
        protection,
        flags: MapFlags::empty(),
        source: MappingSource::Object {
            object: object.clone(),
            first: 0,
            origin: Origin::System(label),
            allowed: protection,
            is_shared: false,
        },
    }
}
