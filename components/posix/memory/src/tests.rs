//! Tests of address spaces on the host's software page tables.
use super::{mapping::*, region::*, *};
use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};
use rt::{
    memory::Frame,
    user::{Access, Protection},
};
use std::sync::Mutex as StdMutex;
use vfs::{
    Credentials, Errno, NOBODY, Principal,
    file::{Mappable, PageUse, Watcher},
    io::{Sink, Source as _},
};

const READ: Protection = Protection::READ;
const BOTH: Protection = Protection::READ.union(Protection::WRITE);
const AT: u64 = 0x10_0000;

/// A file whose pages are read on demand.
pub(super) struct TestFile {
    pub pages: StdMutex<BTreeMap<u64, Frame>>,
    pub bytes: StdMutex<Vec<u8>>,
    watchers: StdMutex<Vec<alloc::sync::Weak<dyn Watcher>>>,
}

impl TestFile {
    pub fn new(bytes: &[u8]) -> Arc<TestFile> {
        Arc::new(TestFile {
            pages: StdMutex::default(),
            bytes: StdMutex::new(bytes.to_vec()),
            watchers: StdMutex::default(),
        })
    }
    fn truncate(&self, pages: u64) {
        self.bytes.lock().unwrap().truncate(pages as usize * PAGE as usize);
        self.pages.lock().unwrap().retain(|index, _| *index < pages);
        for watcher in self.watchers.lock().unwrap().iter().filter_map(|weak| weak.upgrade()) {
            watcher.truncated(7, pages);
        }
    }
}

impl Mappable for TestFile {
    fn page(&self, index: u64, _: PageUse, _: &dyn Principal) -> Result<Frame, Errno> {
        let bytes = self.bytes.lock().unwrap();
        let start = index as usize * PAGE as usize;
        let part = bytes.get(start..).filter(|part| !part.is_empty()).ok_or(Errno::ENXIO)?;
        let mut pages = self.pages.lock().unwrap();
        let frame = pages.entry(index).or_insert_with(|| {
            let frame = Frame::zeroed().unwrap();
            frame.write(0, &part[..part.len().min(PAGE as usize)]);
            frame
        });
        Ok(frame.clone())
    }
    fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame)) {
        let pages = self.pages.lock().unwrap();
        pages.range(first..first + count as u64).for_each(|(index, frame)| visit(*index, frame));
    }
    fn watch(&self, watcher: alloc::sync::Weak<dyn Watcher>) {
        self.watchers.lock().unwrap().push(watcher);
    }
    fn forget_ended_watchers(&self) {
        self.watchers.lock().unwrap().retain(|known| known.strong_count() > 0);
    }
    fn identity(&self) -> u64 {
        7
    }
}

/// The kind of a mapping of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    Private,
    Shared,
}

pub(super) fn map_file(
    file: &Arc<TestFile>,
    place: MappingPlace,
    pages: u64,
    protection: Protection,
    sharing: Sharing,
) -> MapRequest {
    MapRequest {
        place,
        bytes: pages * PAGE,
        protection,
        flags: MapFlags::empty(),
        source: MappingSource::Object {
            object: file.clone(),
            first: 0,
            origin: Origin::System(Label::SharedAnonymous),
            allowed: Protection::all(),
            is_shared: sharing == Sharing::Shared,
        },
    }
}

fn space() -> Arc<AddressSpace> {
    AddressSpace::new(&()).unwrap()
}

fn map(memory: &Arc<AddressSpace>, at: u64, pages: u64, protection: Protection) -> u64 {
    memory.map(&MapRequest::anonymous(MappingPlace::Fixed(at), pages * PAGE, protection)).unwrap()
}

#[test]
fn fresh_memory_reads_as_zeroes_and_keeps_what_is_stored() {
    let memory = space();
    map(&memory, AT, 600, BOTH);
    assert_eq!(memory.read::<u64>(AT + 5 * PAGE).unwrap(), 0);
    memory.write(AT + 5 * PAGE - 4, &0x1122_3344_5566_7788u64).unwrap();
    assert_eq!(memory.read::<u64>(AT + 5 * PAGE - 4).unwrap(), 0x1122_3344_5566_7788);
}

#[test]
fn reading_sparse_memory_takes_no_frames_of_its_own() {
    let memory = space();
    map(&memory, AT, 4096, BOTH);
    let one = memory.read::<u64>(AT).map(|_| memory.user().query(AT).unwrap().id).unwrap();
    let far = AT + 4000 * PAGE;
    memory.read::<u64>(far).unwrap();
    assert_eq!(memory.user().query(far).unwrap().id, one);
    memory.write(far, &7u64).unwrap();
    assert_ne!(memory.user().query(far).unwrap().id, one);
    assert_eq!(memory.read::<u64>(AT).unwrap(), 0);
}

#[test]
fn bad_accesses_say_why() {
    let memory = space();
    map(&memory, AT, 1, READ);
    map(&memory, AT + PAGE, 1, Protection::empty());
    assert_eq!(memory.fault(AT - 1, Access::Read), Err(FaultError::Unmapped));
    assert_eq!(memory.fault(AT, Access::Write), Err(FaultError::Denied));
    assert_eq!(memory.fault(AT, Access::Execute), Err(FaultError::Denied));
    assert_eq!(memory.fault(AT + PAGE, Access::Read), Err(FaultError::Denied));
    assert_eq!(memory.write(AT, &1u8), Err(Errno::EFAULT));
    assert_eq!(memory.read::<u64>(u64::MAX - 3), Err(Errno::EFAULT));
    assert_eq!(memory.read::<u64>(0), Err(Errno::EFAULT));
}

#[test]
fn protection_is_split_off_and_joined_again() {
    let memory = space();
    map(&memory, AT, 8, BOTH);
    memory.write(AT + 3 * PAGE, &9u32).unwrap();
    memory.protect(AT + 2 * PAGE, 3 * PAGE, READ).unwrap();
    assert_eq!(memory.regions().len(), 3);
    assert_eq!(memory.write(AT + 3 * PAGE, &1u32), Err(Errno::EFAULT));
    assert_eq!(memory.read::<u32>(AT + 3 * PAGE).unwrap(), 9);
    memory.protect(AT, 8 * PAGE, BOTH).unwrap();
    assert_eq!(memory.regions().len(), 1);
    memory.write(AT + 3 * PAGE, &1u32).unwrap();
}

#[test]
fn protecting_a_hole_changes_what_is_before_it() {
    let memory = space();
    map(&memory, AT, 2, BOTH);
    assert_eq!(memory.protect(AT, 4 * PAGE, READ), Err(Errno::ENOMEM));
    assert_eq!(memory.write(AT, &1u8), Err(Errno::EFAULT));
}

#[test]
fn a_child_has_the_parents_bytes_and_its_own_stores() {
    let memory = space();
    map(&memory, AT, 4, BOTH);
    memory.write(AT, &1u64).unwrap();
    let child = memory.fork().unwrap();
    memory.write(AT, &2u64).unwrap();
    child.write(AT + PAGE, &3u64).unwrap();
    assert_eq!(child.read::<u64>(AT).unwrap(), 1);
    assert_eq!(memory.read::<u64>(AT + PAGE).unwrap(), 0);
}

#[test]
fn shared_anonymous_memory_is_one_for_parent_and_child() {
    let memory = space();
    let request = MapRequest {
        source: MappingSource::SharedAnonymous,
        ..MapRequest::anonymous(MappingPlace::Anywhere, 2 * PAGE, BOTH)
    };
    let at = memory.map(&request).unwrap();
    let child = memory.fork().unwrap();
    child.write(at + PAGE, &5u64).unwrap();
    assert_eq!(memory.read::<u64>(at + PAGE).unwrap(), 5);
    let place = |memory: &AddressSpace, address| {
        let take = |object: &Arc<dyn Mappable>, offset| (Arc::as_ptr(object).addr(), offset);
        memory.shared_place(address, Access::Read, take).unwrap()
    };
    assert_eq!(place(&memory, at + 8), place(&child, at + 8));
    assert!(place(&memory, at).is_some());
}

#[test]
fn marked_memory_is_left_out_or_wiped_by_fork() {
    let memory = space();
    map(&memory, AT, 2, BOTH);
    memory.write(AT, &1u64).unwrap();
    memory.write(AT + PAGE, &1u64).unwrap();
    let none = Flags::empty();
    memory.advise(AT, PAGE, Advice::Mark { set: Flags::DONT_FORK, clear: none }).unwrap();
    memory.advise(AT + PAGE, PAGE, Advice::Mark { set: Flags::WIPE_ON_FORK, clear: none }).unwrap();
    let child = memory.fork().unwrap();
    assert_eq!(child.read::<u64>(AT), Err(Errno::EFAULT));
    assert_eq!(child.read::<u64>(AT + PAGE).unwrap(), 0);
}

#[test]
fn private_file_pages_are_the_caches_until_stored_to() {
    let file = TestFile::new(&vec![7; 3 * PAGE as usize]);
    let memory = space();
    let at =
        memory.map(&map_file(&file, MappingPlace::Anywhere, 3, BOTH, Sharing::Private)).unwrap();
    assert_eq!(memory.read::<u8>(at).unwrap(), 7);
    let frame = file.page(0, PageUse::Read, NOBODY).unwrap();
    assert_eq!(memory.user().query(at).unwrap().id, frame.id());
    memory.write(at, &8u8).unwrap();
    assert_eq!(memory.read::<u8>(at + 1).unwrap(), 7);
    let mut byte = [0];
    frame.read(0, &mut byte);
    assert_eq!((memory.read::<u8>(at).unwrap(), byte), (8, [7]));
    memory.write(at + PAGE, &9u8).unwrap();
    assert_eq!(memory.read::<u16>(at + PAGE).unwrap(), 0x0709);
}

#[test]
fn stores_to_shared_file_pages_reach_the_file() {
    let file = TestFile::new(&vec![7; PAGE as usize]);
    let memory = space();
    let at =
        memory.map(&map_file(&file, MappingPlace::Anywhere, 1, BOTH, Sharing::Shared)).unwrap();
    assert_eq!(memory.read::<u8>(at).unwrap(), 7);
    memory.write(at, &8u8).unwrap();
    let mut byte = [0];
    file.page(0, PageUse::Read, NOBODY).unwrap().read(0, &mut byte);
    assert_eq!(byte, [8]);
}

#[test]
fn pages_beyond_a_files_end_are_bus_errors_also_after_truncation() {
    let file = TestFile::new(&vec![7; 2 * PAGE as usize]);
    let memory = space();
    let at =
        memory.map(&map_file(&file, MappingPlace::Anywhere, 4, READ, Sharing::Shared)).unwrap();
    assert_eq!(memory.fault(at + 2 * PAGE, Access::Read), Err(FaultError::NoPage));
    assert_eq!(memory.read::<u8>(at + PAGE).unwrap(), 7);
    file.truncate(1);
    assert_eq!(memory.fault(at + PAGE, Access::Read), Err(FaultError::NoPage));
    assert_eq!(memory.read::<u8>(at + PAGE), Err(Errno::EFAULT));
    assert_eq!(memory.read::<u8>(at).unwrap(), 7);
}

#[test]
fn a_space_that_ends_leaves_no_watcher_behind() {
    let file = TestFile::new(&vec![7; PAGE as usize]);
    let memory = space();
    memory.map(&map_file(&file, MappingPlace::Anywhere, 1, READ, Sharing::Shared)).unwrap();
    assert_eq!(file.watchers.lock().unwrap().len(), 1);
    drop(memory);
    assert_eq!(file.watchers.lock().unwrap().len(), 0);
}

#[test]
fn faults_map_around_what_is_in_memory() {
    let file = TestFile::new(&vec![7; 16 * PAGE as usize]);
    (0..16).for_each(|index| drop(file.page(index, PageUse::Read, NOBODY)));
    let memory = space();
    map_file(&file, MappingPlace::Fixed(AT), 16, READ, Sharing::Private);
    let at =
        memory.map(&map_file(&file, MappingPlace::Fixed(AT), 16, READ, Sharing::Private)).unwrap();
    memory.fault(at + 3 * PAGE, Access::Read).unwrap();
    assert_eq!(memory.user().resident_pages(), 16);
}

#[test]
fn remap_grows_in_place_or_moves_with_its_contents() {
    let memory = space();
    let all = RemapFlags::MAY_MOVE;
    map(&memory, AT, 2, BOTH);
    memory.write(AT + PAGE, &5u64).unwrap();
    assert_eq!(memory.remap(AT, 2 * PAGE, 4 * PAGE, all, 0).unwrap(), AT);
    map(&memory, AT + 4 * PAGE, 1, READ);
    assert_eq!(memory.remap(AT, 4 * PAGE, 5 * PAGE, RemapFlags::empty(), 0), Err(Errno::ENOMEM));
    let moved = memory.remap(AT, 4 * PAGE, 6 * PAGE, all, 0).unwrap();
    assert_ne!(moved, AT);
    assert_eq!(memory.read::<u64>(moved + PAGE).unwrap(), 5);
    assert_eq!(memory.read::<u64>(AT + PAGE), Err(Errno::EFAULT));
    assert_eq!(memory.remap(moved, 6 * PAGE, PAGE, all, 0).unwrap(), moved);
    assert_eq!(memory.read::<u64>(moved + PAGE), Err(Errno::EFAULT));
}

#[test]
fn remap_without_unmapping_leaves_zeroes() {
    let memory = space();
    map(&memory, AT, 1, BOTH);
    memory.write(AT, &5u64).unwrap();
    let flags = RemapFlags::MAY_MOVE | RemapFlags::DONT_UNMAP;
    let moved = memory.remap(AT, PAGE, PAGE, flags, 0).unwrap();
    assert_eq!((memory.read::<u64>(moved).unwrap(), memory.read::<u64>(AT).unwrap()), (5, 0));
}

#[test]
fn the_break_moves_and_gives_memory_back() {
    let memory = space();
    let start = AT + 0x123 * PAGE;
    memory.set_layout(ProgramLayout {
        heap_start: start,
        heap_end: start,
        ..ProgramLayout::default()
    });
    assert_eq!(memory.set_break(0), start);
    assert_eq!(memory.set_break(start + 10_000), start + 10_000);
    memory.write(start + 9_999, &1u8).unwrap();
    assert_eq!(memory.set_break(start + 100), start + 100);
    assert_eq!(memory.write(start + 9_999, &1u8), Err(Errno::EFAULT));
    assert_eq!(memory.set_break(start + 100 * PAGE), start + 100 * PAGE);
    assert_eq!(memory.read::<u8>(start + 9_999).unwrap(), 0);
    map(&memory, start + 200 * PAGE, 1, READ);
    assert_eq!(memory.set_break(start + 201 * PAGE), start + 100 * PAGE);
}

#[test]
fn stacks_grow_to_their_limit_and_keep_their_distance() {
    let memory = space();
    let top = AT + 4096 * PAGE;
    let request = MapRequest {
        flags: MapFlags::GROWS_DOWN,
        ..MapRequest::anonymous(MappingPlace::Fixed(top - PAGE), PAGE, BOTH)
    };
    memory.map(&request).unwrap();
    memory.write(top - 100 * PAGE, &1u8).unwrap();
    assert_eq!(memory.write(top - (8 << 20) - 1, &1u8), Err(Errno::EFAULT));
    map(&memory, top - 500 * PAGE, 1, BOTH);
    assert_eq!(memory.write(top - 300 * PAGE, &1u8), Err(Errno::EFAULT));
    memory.write(top - 240 * PAGE, &1u8).unwrap();
}

#[test]
fn absurd_requests_are_refused() {
    let memory = space();
    let huge = |bytes| memory.map(&MapRequest::anonymous(MappingPlace::Anywhere, bytes, BOTH));
    assert_eq!(huge(0), Err(Errno::EINVAL));
    assert_eq!(huge(u64::MAX), Err(Errno::ENOMEM));
    assert_eq!(huge(1 << 46), Err(Errno::ENOMEM));
    let at = |place| memory.map(&MapRequest::anonymous(place, PAGE, READ));
    assert_eq!(at(MappingPlace::Fixed(AT + 1)), Err(Errno::EINVAL));
    assert_eq!(at(MappingPlace::Fixed(0)), Err(Errno::EPERM));
    assert_eq!(at(MappingPlace::Fixed(!(PAGE - 1))), Err(Errno::ENOMEM));
    map(&memory, AT, 1, READ);
    assert_eq!(at(MappingPlace::FixedFree(AT)), Err(Errno::EEXIST));
    assert_ne!(at(MappingPlace::Hint(AT)).unwrap(), AT);
}

#[test]
fn limits_are_kept() {
    let memory = space();
    let limits = LimitValues { address_space: 10 * PAGE, data: 4 * PAGE, ..LimitValues::default() };
    memory.set_limits(limits);
    let map = |pages, protection| {
        memory.map(&MapRequest::anonymous(MappingPlace::Anywhere, pages * PAGE, protection))
    };
    assert_eq!(map(11, READ), Err(Errno::ENOMEM));
    let at = map(6, READ).unwrap();
    assert_eq!(map(5, BOTH), Err(Errno::ENOMEM));
    map(3, BOTH).unwrap();
    assert_eq!(memory.protect(at, 2 * PAGE, BOTH), Err(Errno::ENOMEM));
    memory.protect(at, PAGE, BOTH).unwrap();
}

#[test]
fn discarded_memory_reads_as_zeroes_again() {
    let memory = space();
    map(&memory, AT, 2, BOTH);
    memory.write(AT, &1u8).unwrap();
    memory.advise(AT, PAGE, Advice::DontNeed { with_locked: false }).unwrap();
    assert_eq!(memory.read::<u8>(AT).unwrap(), 0);
    assert_eq!(
        memory.advise(AT, 3 * PAGE, Advice::DontNeed { with_locked: false }),
        Err(Errno::ENOMEM)
    );
}

#[test]
fn locked_memory_is_counted_and_present() {
    let memory = space();
    memory.set_limits(LimitValues { locked: 4 * PAGE, ..LimitValues::default() });
    map(&memory, AT, 8, BOTH);
    memory.lock_pages(AT + 1, 2 * PAGE, lock::Entering::Now).unwrap();
    assert_eq!(memory.sizes().locked, 3);
    assert_eq!(
        memory.residency(AT, 8, &Credentials::root()).unwrap().iter().take(3).sum::<u8>(),
        3
    );
    assert_eq!(memory.lock_pages(AT, 5 * PAGE, lock::Entering::Now), Err(Errno::ENOMEM));
    memory.unlock_pages(AT, 8 * PAGE).unwrap();
    assert_eq!(memory.sizes().locked, 0);
}

#[test]
fn transfers_stop_at_bad_memory_and_count_what_went() {
    let memory = space();
    map(&memory, AT, 1, BOTH);
    let buffers =
        vec![IoVec { address: AT + 10, length: 5 }, IoVec { address: AT + PAGE - 3, length: 10 }];
    let mut sink = UserSink::vectored(NOBODY, &memory, &buffers);
    assert_eq!(sink.remaining(), 15);
    assert_eq!(sink.put(b"hello world!!").unwrap(), 8);
    assert_eq!(sink.put(b"x"), Err(Errno::EFAULT));
    let mut source = UserSource::vectored(NOBODY, &memory, &buffers);
    let mut out = [0; 15];
    assert_eq!(source.take(&mut out).unwrap(), 8);
    assert_eq!(&out[..8], b"hello wo");
    assert!(UserSink::new(NOBODY, &memory, u64::MAX - 2, 10).is_err());
}

#[test]
fn strings_end_at_their_nul_or_are_too_long() {
    let memory = space();
    map(&memory, AT, 1, BOTH);
    memory.write_bytes(AT + PAGE - 6, b"hello\0").unwrap();
    assert_eq!(memory.read_string(AT + PAGE - 6, 4096).unwrap(), b"hello");
    assert_eq!(memory.read_string(AT + PAGE - 6, 5), Err(Errno::ENAMETOOLONG));
    assert_eq!(memory.read_string(AT + PAGE - 6, 6).unwrap(), b"hello");
    assert_eq!(*memory.read_text(AT + PAGE - 6, 4096).unwrap(), *b"hello");
    assert_eq!(memory.read_text(AT + PAGE - 6, 5).err(), Some(Errno::ENAMETOOLONG));
    memory.write_bytes(AT, &vec![b'x'; PAGE as usize]).unwrap();
    assert_eq!(memory.read_string(AT, 8192), Err(Errno::EFAULT));
    assert_eq!(memory.read_string(AT, 1000), Err(Errno::ENAMETOOLONG));
    memory.write_bytes(AT + 100, b"\0").unwrap();
    assert_eq!(*memory.read_text(AT, 1000).unwrap(), [b'x'; 100], "a long one");
    assert_eq!(*memory.read_text(AT + 37, 1000).unwrap(), [b'x'; 63], "the longest short one");
}

#[test]
fn faults_and_unmaps_of_many_threads_leave_nothing_behind() {
    let memory = space();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let memory = &memory;
            scope.spawn(move || {
                for round in 0..200u64 {
                    let at = AT + (round % 7) * PAGE;
                    match (thread + round) % 4 {
                        0 => drop(map(memory, at, 3, BOTH)),
                        1 => drop(memory.unmap(at, 3 * PAGE)),
                        _ => drop(memory.write(at, &round)),
                    }
                }
            });
        }
    });
    memory.unmap(AT, 100 * PAGE).unwrap();
    assert_eq!((memory.user().resident_pages(), memory.sizes().total), (0, 0));
}
