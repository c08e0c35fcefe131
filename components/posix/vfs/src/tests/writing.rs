//! Tests of files on storage that can be written, over the model disk.
use super::{
    RECLAIM, World, get,
    model::{Model, model},
    put,
};
use crate::{
    Active, Errno, NOBODY, OpenFile,
    file::{IoFlags, PageUse, SyncKind, Watcher},
    io::{SliceSink, SliceSource},
};
use linux_raw_sys::general as raw;
use std::{
    sync::{Arc, Mutex},
    thread,
};

const PLAIN: IoFlags = IoFlags { is_nonblocking: false, is_append: false };
const CREATE: u32 = raw::O_CREAT | raw::O_RDWR;
const PAGE: u64 = 4096;

fn world(room: u64) -> (World, Arc<Model>) {
    let model = model(room);
    (World::over(Active::stored(&(), model.clone(), Some((254, 7))).unwrap()), model)
}

fn put_at(file: &OpenFile, at: u64, data: &[u8]) -> Result<usize, Errno> {
    file.write_at(at, &mut SliceSource::new(data), PLAIN)
}

fn get_at(file: &OpenFile, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; length];
    let count = file.read_at(at, &mut SliceSink::new(&mut bytes), PLAIN).unwrap();
    bytes.truncate(count);
    bytes
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 4096) as u8).collect()
}

/// Drops every clean page of the file.
fn forget_pages(file: &OpenFile) {
    let pages = file.vnode().pages().unwrap();
    while pages.resident_pages() > 0 {
        pages.shrink(usize::MAX);
        thread::yield_now();
    }
}

#[test]
fn what_is_written_is_on_the_disk_after_fsync_in_whole_runs() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    let data = pattern(100 * 4096 + 123);
    assert_eq!(put(&file, &data), Ok(data.len()));
    assert!(model.stored("f").pages.is_empty(), "allocation is delayed");
    assert_eq!(file.path().status().attributes.blocks, 101 * 8, "what is set aside counts");
    assert_eq!(file.file().sync(SyncKind::All), Ok(()));
    assert_eq!(model.stored("f").bytes(), data);
    assert_eq!(model.disk().runs, [(2, 0, 101)]);
    assert_eq!(model.disk().inode_syncs, [(2, SyncKind::All)]);
    assert_eq!(file.file().sync(SyncKind::Data), Ok(()));
    assert_eq!(model.disk().runs.len(), 1, "clean pages are not written");
    forget_pages(&file);
    assert_eq!(get_at(&file, 0, data.len() + 1), data);
}

#[test]
fn blocks_are_asked_for_again_after_whatever_changes_them() {
    use crate::file::Allocation;
    let (world, _model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    let blocks = || file.path().status().attributes.blocks / 8;
    assert_eq!(blocks(), 0);
    put(&file, &pattern(10 * 4096)).unwrap();
    assert_eq!(blocks(), 10, "set aside");
    file.file().sync(SyncKind::All).unwrap();
    assert_eq!(blocks(), 10, "written");
    world.caller().truncate(file.path(), 4 * 4096).unwrap();
    assert_eq!(blocks(), 4, "cut");
    file.file().allocate(0, 8 * 4096, Allocation::Extend, NOBODY).unwrap();
    assert_eq!(blocks(), 8, "allocated");
    file.file().allocate(4096, 2 * 4096, Allocation::PunchHole, NOBODY).unwrap();
    assert_eq!(blocks(), 6, "punched");
    file.file().mappable().unwrap().page(1, PageUse::Store, NOBODY).unwrap();
    assert_eq!(blocks(), 7, "stored to by a mapping");
}

#[test]
fn times_that_memory_was_refused_for_are_told_again() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, b"changed").unwrap();
    let instance = file.vnode().instance().clone();
    let modified = || model.stored("f").attributes.modified;
    let before = modified();
    model.disk().refuses_change = true;
    assert_eq!(instance.sync(), Err(Errno::Refused));
    assert_eq!(modified(), before);
    assert_eq!(instance.sync(), Ok(()));
    assert_eq!(modified(), file.path().status().attributes.modified);
    assert_ne!(modified(), before);
}

#[test]
fn a_sync_lets_go_of_files_that_nobody_uses() {
    let _alone = RECLAIM.write().unwrap();
    let (world, _model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, b"changed").unwrap();
    let instance = file.vnode().instance().clone();
    let vnode = Arc::downgrade(file.vnode());
    drop(file);
    instance.names().clear();
    assert!(vnode.upgrade().is_some(), "it is to be written");
    assert_eq!(instance.sync(), Ok(()));
    assert!(vnode.upgrade().is_none());
}

#[test]
fn names_are_not_all_that_is_given_back() {
    let _alone = RECLAIM.write().unwrap();
    let (world, _model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, &[1; 100 * 4096]).unwrap();
    file.file().sync(SyncKind::Data).unwrap();
    let pages = file.vnode().pages().unwrap().clone();
    for number in 0..1000 {
        assert!(world.walk(&format!("/absent{number}")).is_err());
    }
    // A first call only clears the marks of recent use, and pages of other tests are dropped, too. Eight calls free at most 512
    // of the 1,000 names.
    let is_shrunk = || pages.resident_pages() <= 100 - 32;
    for _ in 0..8 {
        if !is_shrunk() {
            crate::shrink(64);
        }
    }
    assert!(is_shrunk(), "{} pages left", pages.resident_pages());
}

#[test]
fn a_part_of_a_page_keeps_the_rest_that_storage_has() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    let mut data = pattern(3 * 4096);
    put(&file, &data).unwrap();
    file.file().sync(SyncKind::Data).unwrap();
    forget_pages(&file);
    put_at(&file, 5000, b"changed").unwrap();
    data[5000..5007].copy_from_slice(b"changed");
    put_at(&file, 3 * PAGE + 10, b"end").unwrap();
    data.extend([[0; 10].as_slice(), b"end"].concat());
    file.file().sync(SyncKind::Data).unwrap();
    assert_eq!(model.stored("f").bytes(), data);
}

#[test]
fn cutting_a_file_clears_the_rest_of_its_last_page_on_storage_too() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, &[7; 10_000]).unwrap();
    file.file().sync(SyncKind::Data).unwrap();
    forget_pages(&file);
    file.truncate(5000, NOBODY).unwrap();
    file.truncate(9000, NOBODY).unwrap();
    let expected = [vec![7; 5000], vec![0; 4000]].concat();
    assert_eq!(get_at(&file, 0, 10_000), expected);
    file.file().sync(SyncKind::Data).unwrap();
    assert_eq!(model.stored("f").bytes(), expected);
    assert_eq!(model.stored("f").pages[&1][904..], [0; 4096 - 904]);
    assert!(!model.stored("f").pages.contains_key(&2), "what was cut is a hole");
}

#[test]
fn cutting_waits_for_pages_on_their_way_and_loses_no_other() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, &pattern(64 * 4096)).unwrap();
    model.disk().is_stuck = true;
    file.vnode().pages().unwrap().start_writes(0..u64::MAX);
    let cutter = {
        let file = file.clone();
        thread::spawn(move || file.truncate(10 * PAGE + 1, NOBODY))
    };
    thread::sleep(std::time::Duration::from_millis(30));
    assert!(!cutter.is_finished());
    model.release();
    assert_eq!(cutter.join().unwrap(), Ok(()));
    file.file().sync(SyncKind::Data).unwrap();
    assert_eq!(model.stored("f").bytes(), pattern(10 * 4096 + 1));
}

#[test]
fn a_store_while_a_page_is_written_is_written_later() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, &[1; 4096]).unwrap();
    model.disk().is_stuck = true;
    let pages = file.vnode().pages().unwrap().clone();
    pages.start_writes(0..u64::MAX);
    put_at(&file, 0, &[2; 4096]).unwrap();
    assert!(pages.start_writes(0..u64::MAX), "passed over: it is being written");
    let syncer = {
        let file = file.clone();
        thread::spawn(move || file.file().sync(SyncKind::Data))
    };
    model.release();
    assert_eq!(syncer.join().unwrap(), Ok(()));
    assert_eq!(model.stored("f").bytes(), [2; 4096]);
}

#[test]
fn a_failed_write_is_told_once_to_everybody_who_has_the_file_open() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    let other = world.open("/f", raw::O_RDONLY).unwrap();
    put(&file, &pattern(8 * 4096)).unwrap();
    model.disk().bad.insert(3);
    assert_eq!(file.file().sync(SyncKind::Data), Err(Errno::EIO));
    assert_eq!(file.file().sync(SyncKind::Data), Ok(()));
    assert_eq!(other.file().sync(SyncKind::Data), Err(Errno::EIO));
    let late = world.open("/f", raw::O_RDONLY).unwrap();
    assert_eq!(late.file().sync(SyncKind::Data), Ok(()));
    assert!(!file.vnode().pages().unwrap().is_dirty());
    let stored = model.stored("f").bytes();
    assert_eq!(stored[..3 * 4096], pattern(3 * 4096));
    assert_eq!(stored[4 * 4096..], pattern(8 * 4096)[4 * 4096..]);
}

#[test]
fn a_full_disk_refuses_the_write_that_does_not_fit_and_nothing_else() {
    let (world, model) = world(10);
    let file = world.open("/f", CREATE).unwrap();
    assert_eq!(put(&file, &pattern(20 * 4096)), Ok(10 * 4096), "as much as fits");
    assert_eq!(put(&file, b"more"), Err(Errno::ENOSPC));
    assert_eq!(put_at(&file, 100, b"over"), Ok(4), "what is there can be written again");
    assert_eq!(file.file().sync(SyncKind::All), Ok(()));
    assert_eq!(model.stored("f").bytes().len(), 10 * 4096);
    file.truncate(4096, NOBODY).unwrap();
    assert_eq!(put_at(&file, 50 * PAGE, &[1; 4096]), Ok(4096));
    let object = file.file().mappable().unwrap();
    object.page(2, PageUse::Store, NOBODY).unwrap();
    for page in 3..10 {
        object.page(page, PageUse::Store, NOBODY).unwrap();
    }
    assert_eq!(
        object.page(11, PageUse::Store, NOBODY).err(),
        Some(Errno::ENOSPC),
        "a store to a hole"
    );
}

/// A watcher in place of an address space: it records which pages may be stored to.
#[derive(Default)]
struct Mapping(Mutex<std::collections::HashSet<u64>>);

impl Watcher for Mapping {
    fn truncated(&self, _: u64, first: u64) {
        self.0.lock().unwrap().retain(|page| *page < first);
    }
    fn cleaned(&self, _: u64, first: u64, count: u64) {
        self.0.lock().unwrap().retain(|page| !(first..first + count).contains(page));
    }
    fn may_store(&self, _: u64) -> bool {
        true
    }
}

#[test]
fn stores_to_a_mapping_are_written_and_the_next_one_is_noticed_again() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    file.truncate(8 * PAGE, NOBODY).unwrap();
    let mapping = Arc::new(Mapping::default());
    let watcher: Arc<dyn Watcher> = mapping.clone();
    let object = file.file().mappable().unwrap();
    object.watch(Arc::downgrade(&watcher));
    for round in 1..4 {
        let frame = object.page(5, PageUse::Store, NOBODY).unwrap();
        mapping.0.lock().unwrap().insert(5);
        frame.write(9, &[round]);
        drop(frame);
        file.file().sync(SyncKind::Data).unwrap();
        assert!(mapping.0.lock().unwrap().is_empty(), "write access was taken");
        assert_eq!(model.stored("f").bytes()[5 * 4096 + 9], round);
        assert_eq!(model.disk().runs.len(), usize::from(round));
    }
    assert_eq!(get_at(&file, 5 * PAGE + 9, 1), [3], "read and mapping see one page");
}

#[test]
fn what_a_mapping_stores_behind_the_end_is_not_on_storage() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, b"short").unwrap();
    let object = file.file().mappable().unwrap();
    object.page(0, PageUse::Store, NOBODY).unwrap().write(0, &[9; 4096]);
    file.file().sync(SyncKind::Data).unwrap();
    assert_eq!(model.stored("f").pages[&0][..6], [9, 9, 9, 9, 9, 0]);
    file.truncate(20, NOBODY).unwrap();
    assert_eq!(get(&file).unwrap()[..], [0; 15], "the file's offset is 5");
}

#[test]
fn a_file_removed_while_open_is_written_no_more_once_it_is_closed() {
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put(&file, &pattern(4096)).unwrap();
    world.unlink("/f").unwrap();
    assert_eq!(get_at(&file, 0, 4096), pattern(4096));
    put_at(&file, 4096, &pattern(4096)).unwrap();
    drop(file);
    assert!(model.disk().files.is_empty(), "freed at the last close");
    assert!(model.disk().runs.is_empty());
}

#[test]
fn unmounting_writes_everything_that_was_closed_long_ago() {
    let (world, model) = world(10_000);
    for name in 0..20 {
        world.write(&format!("/{name}"), &pattern(1000 * name)).unwrap();
    }
    world.walk("/3").unwrap();
    drop(world);
    assert!(model.disk().is_unmounted);
    for name in 0..20 {
        assert_eq!(model.stored(&name.to_string()).bytes(), pattern(1000 * name), "{name}");
    }
}

#[test]
fn holes_are_found_where_storage_has_none() {
    use crate::Whence::{Data, Hole};
    let (world, _model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    put_at(&file, 10 * PAGE, &[1; 4096]).unwrap();
    file.truncate(20 * PAGE, NOBODY).unwrap();
    let seek = |at: u64, whence| file.seek(at as i64, whence);
    assert_eq!(seek(0, Data), Ok(10 * PAGE));
    assert_eq!(seek(0, Hole), Ok(0));
    assert_eq!(seek(10 * PAGE + 5, Data), Ok(10 * PAGE + 5));
    assert_eq!(seek(10 * PAGE, Hole), Ok(11 * PAGE));
    assert_eq!(seek(11 * PAGE, Data), Err(Errno::ENXIO));
    assert_eq!(seek(20 * PAGE, Hole), Err(Errno::ENXIO));
}

#[test]
fn what_is_stored_while_a_page_is_written_moves_with_it() {
    use interfaces::file_system::Allocation::{Collapse, Insert};
    for how in [Collapse, Insert] {
        let (world, model) = world(1000);
        let file = world.open("/f", CREATE).unwrap();
        put(&file, &[1; 4 * 4096]).unwrap();
        model.disk().is_stuck = true;
        let pages = file.vnode().pages().unwrap().clone();
        pages.start_writes(0..u64::MAX);
        put_at(&file, 2 * PAGE, &[2; 4096]).unwrap();
        let mover = {
            let file = file.clone();
            thread::spawn(move || file.file().allocate(PAGE, PAGE, how, NOBODY))
        };
        thread::sleep(std::time::Duration::from_millis(30));
        assert!(!mover.is_finished());
        model.release();
        assert_eq!(mover.join().unwrap(), Ok(()));
        let part = |byte: u8, pages: usize| vec![byte; pages * 4096];
        let expected = match how {
            Collapse => [part(1, 1), part(2, 1), part(1, 1)].concat(),
            _ => [part(1, 1), part(0, 1), part(1, 1), part(2, 1), part(1, 1)].concat(),
        };
        assert!(get_at(&file, 0, 10 * 4096) == expected, "{how:?}");
    }
}

#[test]
fn a_listing_refused_memory_in_its_midst_loses_no_name() {
    let (world, model) = world(1000);
    (0..600).for_each(|name| world.write(&format!("/{name}"), b"").unwrap());
    let directory = world.open("/", raw::O_RDONLY | raw::O_DIRECTORY).unwrap();
    let list = || {
        let mut names = Vec::new();
        let told = directory.read_directory(NOBODY, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        });
        told.map(|_| names)
    };
    model.disk().refuses_listing_at = Some(300);
    let mut names = list().unwrap();
    assert!((100..602).contains(&names.len()));
    names.extend(list().unwrap());
    assert_eq!(names.len(), 602);
    directory.seek(0, crate::Whence::Start).unwrap();
    model.disk().refuses_listing_at = Some(0);
    assert_eq!(list().unwrap(), [&b"."[..], b".."], "some were taken, as on Linux");
    model.disk().refuses_listing_at = Some(0);
    assert_eq!(list(), Err(Errno::Refused), "nothing was taken");
}

#[test]
fn several_writers_and_a_syncer_lose_nothing() {
    let (world, model) = world(10_000);
    let file = world.open("/f", CREATE).unwrap();
    file.truncate(200 * PAGE, NOBODY).unwrap();
    let writers: Vec<_> = (0..4u64)
        .map(|me| {
            let file = file.clone();
            thread::spawn(move || {
                for round in 0..300u64 {
                    let at = (round * 37 % 200) * PAGE + me * 1024;
                    put_at(&file, at, &[(round + me) as u8; 1024]).unwrap();
                    if round % 40 == me * 10 {
                        file.file().sync(SyncKind::Data).unwrap();
                    }
                    if round % 60 == 0 {
                        file.vnode().pages().unwrap().shrink(100);
                    }
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let seen = get_at(&file, 0, 200 * 4096);
    file.file().sync(SyncKind::Data).unwrap();
    assert!(model.stored("f").bytes() == seen);
    for me in 0..4 {
        for round in 200..300u64 {
            let at = (round * 37 % 200) * PAGE + me * 1024;
            let last = (round + 200).min(299);
            let last = if last % 200 * 37 % 200 == round * 37 % 200 { last } else { round };
            assert_eq!(seen[at as usize], (last + me) as u8);
        }
    }
}

#[test]
fn ranges_are_punched_zeroed_collapsed_and_inserted() {
    use interfaces::file_system::Allocation::{Collapse, Insert, PunchHole, Zero};
    let (world, model) = world(1000);
    let file = world.open("/f", CREATE).unwrap();
    let mut expected = pattern(10 * 4096);
    put(&file, &expected).unwrap();
    let mut apply = |offset: usize, length: usize, how| {
        let end = offset + length;
        file.file().allocate(offset as u64, length as u64, how, NOBODY)?;
        match how {
            Collapse => drop(expected.drain(offset..end)),
            Insert => drop(expected.splice(offset..offset, vec![0; length])),
            _ => {
                expected.resize(expected.len().max(end), 0);
                expected[offset..end].fill(0);
            }
        }
        assert!(get_at(&file, 0, 100_000) == expected, "{how:?}");
        put_at(&file, 3 * PAGE + 7, b"dirty again").unwrap();
        expected[3 * 4096 + 7..][..11].copy_from_slice(b"dirty again");
        Ok::<(), Errno>(())
    };
    assert_eq!(apply(1000, 10_000, PunchHole), Ok(()));
    assert_eq!(apply(5000, 100, PunchHole), Ok(()));
    assert_eq!(apply(4096, 8192, Collapse), Ok(()));
    assert_eq!(apply(8192, 4096, Insert), Ok(()));
    assert_eq!(apply(36_000, 9000, Zero), Ok(()));
    assert_eq!(apply(40_960, 8192, Collapse), Err(Errno::EINVAL));
    assert_eq!(apply(1 << 20, 4096, Insert), Err(Errno::EINVAL));
    file.file().sync(SyncKind::All).unwrap();
    assert!(model.stored("f").bytes() == expected);
}

#[test]
fn a_file_is_sent_before_it_takes_anothers_name_and_nobody_waits() {
    let (world, model) = world(1000);
    world.write("/old", &[1; 5000]).unwrap();
    world.write("/new", &[2; 9000]).unwrap();
    model.disk().is_stuck = true;
    assert_eq!(world.rename("/new", "/free"), Ok(()));
    assert_eq!(model.disk().sent_at_rename, [0], "nothing is replaced");
    assert_eq!(world.rename("/free", "/old"), Ok(()), "while no write ends");
    assert_eq!(model.disk().sent_at_rename, [0, 3]);
    model.release();
    world.walk("/old").unwrap().vnode().pages().unwrap().wait_idle();
    assert_eq!(model.stored("old").bytes(), [2; 9000]);
}

#[test]
fn a_file_that_was_emptied_is_sent_when_it_is_closed() {
    let (world, model) = world(1000);
    world.write("/f", &[1; 5000]).unwrap();
    assert_eq!(model.disk().runs, [], "it was new");
    world.write("/f", &[2; 9000]).unwrap();
    assert_eq!(model.disk().runs, [(2, 0, 3)], "it was opened with O_TRUNC");
    let file = world.open("/f", raw::O_RDWR).unwrap();
    file.truncate(0, NOBODY).unwrap();
    put(&file, &[3; 4096]).unwrap();
    assert_eq!(model.disk().runs.len(), 1);
    drop(file);
    assert_eq!(model.disk().runs.len(), 2);
    put_at(&world.open("/f", raw::O_RDWR).unwrap(), 0, b"in place").unwrap();
    assert_eq!(model.disk().runs.len(), 2, "once");
}
