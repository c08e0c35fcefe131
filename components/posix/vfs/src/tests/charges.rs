//! Tests of accounts: storage I/O is charged to the task that an operation is given.
use super::{RECLAIM, World, model::model, put};
use crate::{
    Active, Base, Caller, NOBODY, OpenFile, Principal, StorageIo,
    file::{IoFlags, PageUse, SyncKind},
    io::{SliceSink, SliceSource},
};
use linux_raw_sys::general as raw;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

const PLAIN: IoFlags = IoFlags { is_nonblocking: false, is_append: false };
const CREATE: u32 = raw::O_CREAT | raw::O_RDWR;
const PAGE: u64 = 4096;

/// Bytes read, written and cancelled.
#[derive(Default)]
struct Account([AtomicU64; 3]);

impl Account {
    fn bytes(&self) -> [u64; 3] {
        self.0.each_ref().map(|count| count.load(SeqCst))
    }
}

impl Principal for Account {
    fn charge(&self, io: StorageIo, bytes: u64) {
        let at = match io {
            StorageIo::Read => 0,
            StorageIo::Write => 1,
            StorageIo::Cancelled => 2,
        };
        self.0[at].fetch_add(bytes, SeqCst);
    }
}

fn world() -> World {
    World::over(Active::stored(&(), model(1000), Some((254, 9))).unwrap())
}

/// Makes a file with `pages` dirty pages.
fn dirty(world: &World, path: &str, pages: usize) -> Arc<OpenFile> {
    let file = world.open(path, CREATE).unwrap();
    put(&file, &vec![1; pages * PAGE as usize]).unwrap();
    file
}

#[test]
fn a_transfer_is_charged_to_the_task_that_makes_it() {
    let _reclaim = RECLAIM.read().unwrap();
    let world = world();
    let [opener, writer, reader, mapper] = [const { Account([const { AtomicU64::new(0) }; 3]) }; 4];
    let caller = Caller { task: &opener, ..world.caller() };
    let file = caller.open(Base::Cwd, b"/f", crate::OpenHow::with_mode(CREATE, 0o666)).unwrap();
    let data = vec![1; 3 * PAGE as usize];
    file.write_at(0, &mut SliceSource::of(&writer, &data), PLAIN).unwrap();
    assert_eq!(writer.bytes(), [0, 3 * PAGE, 0]);
    file.file().sync(SyncKind::All).unwrap();
    let pages = file.vnode().pages().unwrap();
    while pages.resident_pages() > 0 {
        pages.shrink(usize::MAX);
        std::thread::yield_now();
    }
    let mut part = [0; 100];
    file.read_at(0, &mut SliceSink::of(&reader, &mut part), PLAIN).unwrap();
    let [read, ..] = reader.bytes();
    assert!((PAGE..=3 * PAGE).contains(&read), "{read}");
    file.file().mappable().unwrap().page(0, PageUse::Store, &mapper).unwrap();
    assert_eq!(mapper.bytes(), [0, PAGE, 0]);
    assert_eq!((opener.bytes(), writer.bytes()[0]), ([0; 3], 0));
}

#[test]
fn writes_that_need_not_be_made_are_charged_to_the_task_that_ends_them() {
    let _reclaim = RECLAIM.read().unwrap();
    let world = world();
    let account = Account::default();
    let cancelled = || account.bytes()[2] / PAGE;
    dirty(&world, "/cut", 4).truncate(PAGE, &account).unwrap();
    assert_eq!(cancelled(), 3, "truncated");
    let (open, other) = (dirty(&world, "/open", 5), world.open("/open", raw::O_RDONLY).unwrap());
    let caller = Caller { task: &account, ..world.caller() };
    caller.unlink(Base::Cwd, b"/open").unwrap();
    open.close(&account);
    assert_eq!(cancelled(), 3, "it is still open");
    other.close(&account);
    assert_eq!(cancelled(), 8, "the last use was closed");
    drop(dirty(&world, "/closed", 6));
    caller.unlink(Base::Cwd, b"/closed").unwrap();
    assert_eq!(cancelled(), 14, "its last name was removed");
    drop((dirty(&world, "/replaced", 7), dirty(&world, "/new", 1)));
    let mode = crate::operations::RenameMode::Replace;
    caller.rename((Base::Cwd, b"/new"), (Base::Cwd, b"/replaced"), mode).unwrap();
    assert_eq!(cancelled(), 21, "it was replaced");
    let kept = dirty(&world, "/kept", 2);
    kept.clone().close(&account);
    kept.close(&account);
    assert_eq!(cancelled(), 21, "its name stays, and its pages are written");
    dirty(&world, "/nobody", 2).close(NOBODY);
    world.unlink("/nobody").unwrap();
    assert_eq!(account.bytes(), [0, 0, 21 * PAGE]);
}
