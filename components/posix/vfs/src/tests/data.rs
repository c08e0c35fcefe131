//! Tests of contents of files that exist in the cache: reads, writes, holes, truncation, mapping.
use super::{World, get, put};
use crate::{
    Errno, NOBODY, Whence,
    file::{IoFlags, Mappable, PageUse, SyncKind, Watcher},
    io::{SliceSink, SliceSource},
};
use linux_raw_sys::general as raw;
use std::{
    cell::Cell,
    sync::{Arc, Mutex},
};

const PLAIN: IoFlags = IoFlags { is_nonblocking: false, is_append: false };
const RDWR: u32 = raw::O_CREAT | raw::O_RDWR;

#[test]
fn syncing_a_file_that_lives_in_memory_only_is_fine() {
    let world = World::new();
    world.write("/f", b"data").unwrap();
    let file = world.open("/f", raw::O_RDWR).unwrap();
    assert_eq!(
        (file.file().sync(SyncKind::Data), file.file().sync(SyncKind::All)),
        (Ok(()), Ok(()))
    );
    assert_eq!(file.sync_file_system(), Ok(()));
    assert_eq!(world.read("/f").unwrap(), b"data");
}

#[test]
fn what_is_written_is_read_back_across_pages() {
    let world = World::new();
    let data: Vec<u8> = (0..50_000u32).map(|at| ((at * 31) >> 3) as u8).collect();
    world.write("/f", &data).unwrap();
    assert_eq!(world.read("/f").unwrap(), data);
    let file = world.open("/f", RDWR).unwrap();
    let mut part = vec![0; 5000];
    assert_eq!(file.read_at(4090, &mut SliceSink::new(&mut part), PLAIN), Ok(5000));
    assert_eq!(part, data[4090..9090]);
    assert_eq!(file.write_at(8190, &mut SliceSource::new(b"12345"), PLAIN), Ok(5));
    assert_eq!(file.seek(8188, Whence::Start), Ok(8188));
    let after = get(&file).unwrap();
    assert_eq!(&after[..2], &data[8188..8190]);
    assert_eq!(&after[2..7], b"12345");
    assert_eq!(after.len(), 50_000 - 8188);
}

#[test]
fn holes_read_as_zeroes_and_are_found() {
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    file.write_at(0, &mut SliceSource::new(b"start"), PLAIN).unwrap();
    file.write_at(40_960, &mut SliceSource::new(b"end"), PLAIN).unwrap();
    assert_eq!(file.seek(0, Whence::Hole), Ok(4096));
    assert_eq!(file.seek(4096, Whence::Data), Ok(40_960));
    assert_eq!(file.seek(40_961, Whence::Hole), Ok(40_963));
    assert_eq!(file.seek(40_963, Whence::Data), Err(Errno::ENXIO));
    assert_eq!(file.seek(-1, Whence::Start), Err(Errno::EINVAL));
    assert_eq!(file.seek(-3, Whence::End), Ok(40_960));
    file.seek(0, Whence::Start).unwrap();
    let all = get(&file).unwrap();
    assert_eq!(all.len(), 40_963);
    assert!(all[5..40_960].iter().all(|byte| *byte == 0));
    let attributes = file.path().status().attributes;
    assert_eq!((attributes.size, attributes.blocks), (40_963, 16));
}

#[test]
fn shrinking_and_growing_leaves_zeroes() {
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    put(&file, &[7; 10_000]).unwrap();
    file.truncate(5000, NOBODY).unwrap();
    file.truncate(10_000, NOBODY).unwrap();
    file.seek(0, Whence::Start).unwrap();
    let all = get(&file).unwrap();
    assert!(all[..5000].iter().all(|byte| *byte == 7));
    assert!(all[5000..].iter().all(|byte| *byte == 0));
    assert_eq!(file.truncate(u64::MAX, NOBODY), Err(Errno::EFBIG));
    let reader = world.open("/f", raw::O_RDONLY).unwrap();
    assert_eq!(reader.truncate(0, NOBODY), Err(Errno::EINVAL));
    let place = world.walk("/f").unwrap();
    assert_eq!(world.caller().truncate(&place, 3), Ok(()));
    assert_eq!(world.read("/f").unwrap(), [7; 3]);
}

#[test]
fn truncating_at_open_empties_the_file() {
    let world = World::new();
    world.write("/f", b"long text").unwrap();
    world.write("/f", b"short").unwrap();
    assert_eq!(world.read("/f").unwrap(), b"short");
}

#[derive(Default)]
struct Told(Mutex<Vec<(u64, u64)>>);

impl Watcher for Told {
    fn cleaned(&self, _: u64, _: u64, _: u64) {}
    fn may_store(&self, _: u64) -> bool {
        false
    }
    fn truncated(&self, identity: u64, first: u64) {
        self.0.lock().unwrap().push((identity, first));
    }
}

#[test]
fn mappings_share_pages_with_reads_and_are_told_of_truncation() {
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    put(&file, &[1; 8192]).unwrap();
    let object: Arc<dyn Mappable> = file.file().mappable().unwrap();
    let told = Arc::new(Told::default());
    let watcher: Arc<dyn Watcher> = told.clone();
    object.watch(Arc::downgrade(&watcher));
    let frame = object.page(1, PageUse::Store, NOBODY).unwrap();
    frame.write(10, b"mapped");
    let mut part = [0; 6];
    file.read_at(4106, &mut SliceSink::new(&mut part), PLAIN).unwrap();
    assert_eq!(&part, b"mapped");
    assert_eq!(object.page(2, PageUse::Read, NOBODY).err(), Some(Errno::ENXIO));
    let mut seen = Vec::new();
    object.resident(0, 10, &mut |index, _| seen.push(index));
    assert_eq!(seen, [0, 1]);
    file.truncate(4100, NOBODY).unwrap();
    file.truncate(100, NOBODY).unwrap();
    assert_eq!(*told.0.lock().unwrap(), [(object.identity(), 2), (object.identity(), 1)]);
    assert_eq!(object.page(1, PageUse::Read, NOBODY).err(), Some(Errno::ENXIO));
}

#[test]
fn bytes_stored_by_a_mapping_beyond_the_end_never_show() {
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    put(&file, b"abc").unwrap();
    file.file().mappable().unwrap().page(0, PageUse::Store, NOBODY).unwrap().write(3, b"stray");
    file.write_at(20, &mut SliceSource::new(b"end"), PLAIN).unwrap();
    file.seek(0, Whence::Start).unwrap();
    assert_eq!(get(&file).unwrap(), b"abc\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0end");
}

#[test]
fn pages_written_are_listed_as_dirty() {
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    file.write_at(0, &mut SliceSource::new(b"a"), PLAIN).unwrap();
    file.write_at(4096 * 70, &mut SliceSource::new(b"b"), PLAIN).unwrap();
    assert_eq!(file.vnode().pages().unwrap().dirty_pages(), [0, 70]);
}

#[test]
fn an_unnamed_file_is_gone_with_its_last_descriptor() {
    let world = World::new();
    let file = world.open("/", raw::O_TMPFILE | raw::O_RDWR).unwrap();
    put(&file, b"secret").unwrap();
    assert_eq!(file.path().status().attributes.links, 0);
    assert_eq!(world.list("/"), [".", ".."]);
    assert_eq!(world.open("/", raw::O_TMPFILE).err(), Some(Errno::EINVAL));
}

#[test]
fn directories_list_themselves_and_continue_where_they_stopped() {
    let world = World::new();
    world.mkdir("/d").unwrap();
    for name in 0..200 {
        world.write(&format!("/d/{name}"), b"").unwrap();
    }
    let directory = world.open("/d", raw::O_RDONLY).unwrap();
    let mut names = Vec::new();
    loop {
        let mut room = 7;
        let count = directory
            .read_directory(NOBODY, &mut |entry| {
                room -= 1;
                if room == 0 {
                    return false;
                }
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                true
            })
            .unwrap();
        if count == 0 {
            break;
        }
    }
    assert_eq!(&names[..2], [".", ".."]);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 202);
    directory.seek(0, Whence::Start).unwrap();
    assert_eq!(world.list("/d").len(), 202);
    assert_eq!(get(&directory).err(), Some(Errno::EISDIR));
}

thread_local! {
    static IS_ENDING: Cell<bool> = const { Cell::new(false) };
}

struct Ending;

impl crate::Principal for Ending {
    fn is_ending(&self) -> bool {
        IS_ENDING.get()
    }
}

#[test]
fn a_program_that_is_to_end_is_not_kept_by_a_long_transfer() {
    const MIB: usize = 1 << 20;
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    file.truncate(4 * MIB as u64, NOBODY).unwrap();
    let mut all = vec![1; 3 * MIB];
    let mut read = || file.read_at(0, &mut SliceSink::of(&Ending, &mut all), PLAIN);
    let data = vec![2; 2 * MIB];
    let write = || file.write_at(0, &mut SliceSource::of(&Ending, &data), PLAIN);
    assert_eq!((read(), write()), (Ok(3 * MIB), Ok(2 * MIB)));
    IS_ENDING.set(true);
    let ended = (read(), write());
    IS_ENDING.set(false);
    assert_eq!(ended, (Ok(MIB), Ok(MIB)));
}

#[test]
fn refused_memory_is_an_error_and_nothing_else() {
    let _reclaim = super::RECLAIM.write();
    let world = World::new();
    world.write("/f", &[1; 100]).unwrap();
    let file = world.open("/f", raw::O_RDWR).unwrap();
    for grants in 0..12 {
        rt::host::refuse_after(Some(grants));
        let _ = file.write_at(0, &mut SliceSource::new(&[2; 20_000]), PLAIN);
        let _ = world.mkdir("/d");
        let _ = world.walk("/none");
        rt::host::refuse_after(None);
        let _ = world.rmdir("/d");
        let _ = file.truncate(100, NOBODY);
    }
    world.write("/f", b"fine").unwrap();
    assert_eq!(world.read("/f").unwrap(), b"fine");
}

#[test]
fn holes_are_punched_and_filled_by_fallocate() {
    use crate::file::Allocation;
    let world = World::new();
    let file = world.open("/f", RDWR).unwrap();
    put(&file, &[9; 20_000]).unwrap();
    let mapped = file.file().mappable().unwrap().page(2, PageUse::Read, NOBODY).unwrap();
    file.file().allocate(1000, 11_288, Allocation::PunchHole, NOBODY).unwrap();
    file.seek(0, Whence::Start).unwrap();
    let all = get(&file).unwrap();
    assert!(all[..1000].iter().chain(&all[12_288..]).all(|byte| *byte == 9));
    assert!(all[1000..12_288].iter().all(|byte| *byte == 0));
    let mut byte = [1];
    mapped.read(0, &mut byte);
    assert_eq!(byte, [0]);
    assert_eq!(file.seek(0, Whence::Hole), Ok(4096));
    file.file().allocate(0, 40_000, Allocation::KeepSize, NOBODY).unwrap();
    assert_eq!(file.path().status().attributes.blocks, 80);
    assert_eq!(file.file().size(), 20_000);
    assert_eq!(file.seek(0, Whence::Hole), Ok(20_000));
    file.file().allocate(0, 30_000, Allocation::Extend, NOBODY).unwrap();
    assert_eq!(file.file().size(), 30_000);
    assert_eq!(
        file.file().allocate(u64::MAX - 5, 6, Allocation::Extend, NOBODY),
        Err(Errno::EFBIG)
    );
}
