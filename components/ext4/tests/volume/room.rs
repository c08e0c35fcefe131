//! Tests of the reservation for pages that the page cache writes again: it reserves once for a dirty page, and again when
//! the file's blocks may have been freed.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::{Recipe, pattern},
};
use ext4::{MountOptions, mount};
use linux_raw_sys::general as raw;
use std::sync::Arc;
use tempfile::TempDir;
use vfs::{
    Active, Base, Caller, Credentials, Errno, MountFlags, NOBODY, Namespace, OpenFile, OpenHow,
    devices::Registry, file::SyncKind, io::SliceSource,
};

const PAGE: usize = 4096;

fn put(file: &OpenFile, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
    file.write_at(offset, &mut SliceSource::new(bytes), file.io_flags())
}

fn fill(file: &OpenFile) {
    let mut at = 0;
    while let Ok(count) = put(file, at, &pattern(PAGE, 9)) {
        at += count as u64;
    }
    file.file().sync(SyncKind::All).unwrap();
}

#[test]
fn a_dirty_page_whose_blocks_were_cut_off_asks_for_room_again() {
    let folder = TempDir::new().unwrap();
    // A page has four blocks; those behind the length are freed when a page is cut.
    let image = Recipe::new(&["-b", "1024", "-m", "0"], 4 << 10).make(folder.path());
    let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    let active = Active::stored(&(), fs, None).unwrap();
    let namespace =
        Namespace::new(&(), "none", active, MountFlags::empty(), Arc::new(Registry::new()));
    let (root, who) = (namespace.root(), Credentials::root());
    let caller = Caller {
        task: NOBODY,
        namespace: &namespace,
        credentials: &who,
        root: &root,
        cwd: &root,
        umask: 0,
        process: 1,
        thread: 1,
    };
    let open = |name: &str| {
        let how = OpenHow::with_mode(raw::O_CREAT | raw::O_RDWR, 0o644);
        caller.open(Base::Cwd, name.as_bytes(), how).unwrap()
    };
    let (file, other) = (open("/file"), open("/other"));
    put(&file, 0, &pattern(PAGE, 1)).unwrap();
    file.file().sync(SyncKind::All).unwrap();
    put(&file, 0, b"dirty").unwrap();
    put(&file, 0, b"again").unwrap();
    file.truncate(512, NOBODY).unwrap();
    fill(&other);
    assert_eq!(put(&file, 0, &pattern(PAGE, 2)), Err(Errno::ENOSPC));
    other.truncate(0, NOBODY).unwrap();
    assert_eq!(put(&file, 0, &pattern(PAGE, 3)), Ok(PAGE));
    assert_eq!(file.file().sync(SyncKind::All), Ok(()));
    assert_eq!(file.sync_file_system(), Ok(()));
}
