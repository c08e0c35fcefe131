//! Tests of the space of a file system in the cache: its limit, the space that files use, and its
//! release.
use super::{World, put};
use crate::{
    Active, Errno, NOBODY,
    file::{Allocation, PageUse},
    io::SliceSource,
    security::SecuritySubject,
};
use linux_raw_sys::general as raw;

/// Makes a world with a file system of `pages` pages.
fn world(pages: u64) -> World {
    let options =
        tmpfs::Options { size_bytes: Some(pages * 4096), permissions: 0o755, ..Default::default() };
    World::over(Active::stored(&(), tmpfs::new(options).unwrap(), None).unwrap())
}

fn free(world: &World) -> u64 {
    world.root.mount.usage(&SecuritySubject::kernel()).unwrap().0.free
}

#[test]
fn a_full_tmpfs_refuses_what_is_beyond_and_keeps_what_was_written() {
    let world = world(8);
    let file = world.open("/f", raw::O_CREAT | raw::O_RDWR).unwrap();
    assert_eq!(put(&file, &[7; 12 * 4096]), Ok(8 * 4096), "as much as there is room for");
    assert_eq!(put(&file, b"more"), Err(Errno::ENOSPC));
    let attributes = file.path().status().attributes;
    assert_eq!((attributes.size, attributes.blocks), (8 * 4096, 64));
    assert_eq!(free(&world), 0);
    assert_eq!(world.read("/f").unwrap(), [7; 8 * 4096]);
    let mut again = SliceSource::new(b"over");
    let flags = crate::file::IoFlags { is_nonblocking: false, is_append: false };
    assert_eq!(file.write_at(0, &mut again, flags), Ok(4), "pages that are there take none");
}

#[test]
fn truncating_punching_and_removing_give_space_back() {
    let world = world(8);
    let file = world.open("/f", raw::O_CREAT | raw::O_RDWR).unwrap();
    put(&file, &[7; 8 * 4096]).unwrap();
    file.truncate(5 * 4096 - 1, NOBODY).unwrap();
    assert_eq!((free(&world), file.path().status().attributes.blocks), (3, 40));
    file.file().allocate(0, 2 * 4096, Allocation::PunchHole, NOBODY).unwrap();
    assert_eq!((free(&world), file.path().status().attributes.blocks), (5, 24));
    assert_eq!(file.file().allocate(0, 9 * 4096, Allocation::Extend, NOBODY), Err(Errno::ENOSPC));
    world.unlink("/f").unwrap();
    drop(file);
    assert_eq!(free(&world), 8);
    world.write("/g", &[1; 8 * 4096]).unwrap();
}

#[test]
fn mapped_pages_take_space_when_they_are_made() {
    let world = world(2);
    let file = world.open("/f", raw::O_CREAT | raw::O_RDWR).unwrap();
    file.truncate(4 * 4096, NOBODY).unwrap();
    assert_eq!((free(&world), file.path().status().attributes.blocks), (2, 0));
    let mappable = file.file().mappable().unwrap();
    mappable.page(0, PageUse::Store, NOBODY).unwrap();
    mappable.page(3, PageUse::Store, NOBODY).unwrap();
    assert_eq!((free(&world), file.path().status().attributes.blocks), (0, 16));
    assert!(mappable.page(1, PageUse::Store, NOBODY).is_err());
}
