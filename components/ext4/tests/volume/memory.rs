//! Tests in which memory is refused in the middle of a change: the change is made as a whole or not at
//! all, so that it can be repeated.
use crate::common::{image::pattern, walk::read_pages, write::*};
use interfaces::file_system::*;

const ROOT: InodeNumber = 2;
const PAGE: usize = 4096;
/// More extents than one operation moves or frees.
const PARTS: usize = 100;
/// The greatest number of refusals before a change must have succeeded.
const GRANTS_MOST: usize = 2000;

fn text(fs: &dyn FileSystem, inode: InodeNumber) -> Vec<u8> {
    let size = fs.attributes(inode).unwrap().size;
    let mut bytes = read_pages(fs, inode, 0, size.div_ceil(PAGE as u64)).unwrap();
    bytes.truncate(size as usize);
    bytes
}

/// Makes a file whose every second page is a hole. Returns it with its contents.
fn in_parts(fs: &dyn FileSystem) -> (InodeNumber, Vec<u8>) {
    let file = make(fs, ROOT, "file", FileType::Regular);
    let mut expected = vec![0; (2 * PARTS - 1) * PAGE];
    for part in 0..PARTS {
        let (at, data) = (2 * part * PAGE, pattern(PAGE, part));
        write(fs, file, at as u64, &data).unwrap();
        expected[at..at + PAGE].copy_from_slice(&data);
    }
    (file, expected)
}

/// Makes a change again and again, each time granting one allocation more, until it is not refused. A
/// refused call must have changed nothing.
fn until_granted(
    apply: impl Fn(&mut Vec<u8>),
    change: impl Fn(&dyn FileSystem, InodeNumber) -> Result<Attributes, FsError>,
) {
    let world = World::empty(&[], 32 << 10);
    let fs = &*world.fs;
    let (file, mut expected) = in_parts(fs);
    for grants in 0..GRANTS_MOST {
        rt::host::refuse_plain_after(Some(grants));
        let result = change(fs, file);
        rt::host::refuse_plain_after(None);
        match result {
            Ok(_) => {
                apply(&mut expected);
                assert!(text(fs, file) == expected, "granted {grants} allocations");
                world.finish();
                return;
            }
            Err(error) => assert_eq!(error, FsError::NoMemory),
        }
        assert!(text(fs, file) == expected, "granted {grants} allocations, then refused");
    }
    panic!("a change takes fewer grants");
}

#[test]
fn blocks_move_once_however_often_memory_is_refused() {
    let bytes = 3 * PAGE..8 * PAGE;
    let ask = |how| {
        let (start, length) = (bytes.start as u64, bytes.len() as u64);
        move |fs: &dyn FileSystem, file| fs.allocate(file, how, start, length, NOW)
    };
    until_granted(|text| drop(text.drain(bytes.clone())), ask(Allocation::Collapse));
    let zeroes = || std::iter::repeat_n(0, bytes.len());
    until_granted(
        |text| drop(text.splice(bytes.start..bytes.start, zeroes())),
        ask(Allocation::Insert),
    );
    until_granted(|text| text[bytes.clone()].fill(0), ask(Allocation::PunchHole));
    until_granted(|text| text[bytes.clone()].fill(0), ask(Allocation::Zero));
}

#[test]
fn what_was_cut_off_stays_off_however_often_memory_is_refused() {
    let cut = |size: usize| {
        let change = AttributeChange { size: Some(size as u64), ..Default::default() };
        move |fs: &dyn FileSystem, file| fs.set_attributes(file, &change)
    };
    let short = 5 * PAGE + 7;
    until_granted(|text| text.truncate(short), cut(short));
}
