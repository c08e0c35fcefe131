//! Tests of full volumes: blocks promised to delayed writes stay theirs, whatever others allocate,
//! and the blocks reserved for privileged callers and for changes that must not fail serve these.
use crate::common::{
    image::pattern,
    walk::read_pages,
    write::{NOW, World, new, write, write_pages},
};
use interfaces::file_system::*;
use std::cell::Cell;

const ROOT: InodeNumber = 2;
const PAGE: u64 = 4096;
const SHAPES: [&[&str]; 4] = [
    &["-m", "0"],
    &["-m", "5", "-b", "1024"],
    &["-m", "0", "-b", "4096", "-O", "^has_journal"],
    &["-m", "0", "-b", "1024", "-O", "^has_journal,^metadata_csum"],
];

thread_local! {
    static IS_PRIVILEGED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `act` as a caller that may use reserved blocks.
fn privileged<T>(act: impl FnOnce() -> T) -> T {
    IS_PRIVILEGED.set(true);
    let result = act();
    IS_PRIVILEGED.set(false);
    result
}

/// Makes a volume on which [`privileged`] decides.
fn volume(options: &'static [&'static str], kib: usize) -> World {
    let world = World::empty(options, kib);
    world.fs.set_judge(|_| IS_PRIVILEGED.get());
    world
}

/// Creates a file and keeps it in use: the claims of its delayed writes belong to it until it is
/// released.
fn make_held(fs: &dyn FileSystem, name: &str) -> InodeNumber {
    fs.create(ROOT, name.as_bytes(), &new(FileType::Regular)).unwrap().inode
}

/// Allocates space for a file.
fn allocate(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    first: u64,
    pages: u64,
) -> Result<(), FsError> {
    fs.allocate(inode, Allocation::KeepSize, first * PAGE, pages * PAGE, NOW).map(|_| ())
}

/// Returns the pages of a file from `first` on for which delayed writes are accepted.
fn delay_all(fs: &dyn FileSystem, inode: InodeNumber, first: u64, step: u64) -> Vec<u64> {
    let pages = (0..).map(|number| first + number * step);
    pages.take_while(|page| fs.reserve_range(inode, *page, 1).is_ok()).collect()
}

/// Allocates all blocks that the caller may have, in smaller and smaller pieces.
fn fill_up(fs: &dyn FileSystem, inode: InodeNumber) {
    let mut first = 0;
    for pages in [1024, 64, 8, 1] {
        while allocate(fs, inode, first, pages).is_ok() {
            first += pages;
        }
    }
}

/// Uses up the space that a caller may take for directories, links and attributes.
fn fill_names(fs: &dyn FileSystem) {
    let directory = privileged(|| fs.create(ROOT, b"names", &new(FileType::Directory)));
    let Ok(directory) = directory.map(|made| made.inode) else { return };
    fs.forget(directory, 1);
    let target = "t".repeat(1000).leak().as_bytes();
    let mut refused = 0;
    for number in 0..100_000 {
        let name = format!("{number}-{}", "n".repeat(200));
        let (file_type, target) = match number % 2 {
            0 => (FileType::Directory, &b""[..]),
            _ => (FileType::Symlink, target),
        };
        match fs.create(directory, name.as_bytes(), &NewInode { target, ..new(file_type) }) {
            Ok(made) => fs.forget(made.inode, 1),
            Err(FsError::NoSpace) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
        if refused == 4 {
            break;
        }
    }
    for number in 0..100 {
        let Ok(made) = fs.create(ROOT, format!("x{number}").as_bytes(), &new(FileType::Regular))
        else {
            break;
        };
        let set = fs.set_xattr(made.inode, b"user.a", &[1; 700], XattrMode::Set, NOW);
        fs.forget(made.inode, 1);
        if let Err(error) = set {
            assert_eq!(error, FsError::NoSpace);
            break;
        }
    }
}

#[test]
fn whoever_allocates_leaves_what_delayed_writes_were_promised() {
    for shape in SHAPES {
        let world = volume(shape, 16 << 10);
        let fs = &*world.fs;
        let promised = make_held(fs, "promised");
        let other = make_held(fs, "other");
        // Every second page is written, so that each needs an extent of its own.
        let pages = delay_all(fs, promised, 0, 2);
        assert!(pages.len() > 1000, "{shape:?}: {}", pages.len());
        fill_up(fs, other);
        fill_names(fs);
        privileged(|| fill_up(fs, other));
        let size = (pages.last().unwrap() + 1) * PAGE;
        for page in &pages {
            let bytes = pattern(4096, *page as usize);
            let result = write_pages(fs, promised, *page, &bytes, size);
            assert_eq!(result, Ok(()), "{shape:?}: page {page} of {}", pages.len());
        }
        fs.forget(promised, 1);
        fs.forget(other, 1);
        let image = world.finish();
        let again = World::of(image);
        for page in pages {
            let read = read_pages(&*again.fs, promised, page, 1).unwrap();
            assert!(read == pattern(4096, page as usize), "{shape:?}: page {page}");
        }
        again.finish();
    }
}

#[test]
fn pages_written_backwards_on_a_full_volume_all_find_their_nodes() {
    for shape in SHAPES {
        let world = volume(shape, 8 << 10);
        let fs = &*world.fs;
        let promised = make_held(fs, "promised");
        let pages = delay_all(fs, promised, 1, 2);
        let size = (pages.last().unwrap() + 1) * PAGE;
        for page in pages.iter().rev() {
            let result = write_pages(fs, promised, *page, &pattern(4096, 1), size);
            assert_eq!(result, Ok(()), "{shape:?}: page {page}");
        }
        fs.forget(promised, 1);
        world.finish();
    }
}

#[test]
fn holes_are_made_on_a_full_volume() {
    for shape in SHAPES {
        let world = volume(shape, 16 << 10);
        let fs = &*world.fs;
        let file = make_held(fs, "file");
        write(fs, file, 0, &pattern(4 << 20, 3)).unwrap();
        let other = make_held(fs, "other");
        privileged(|| fill_up(fs, other));
        fill_names(fs);
        for page in (1..1000).step_by(2) {
            let hole = fs.allocate(file, Allocation::PunchHole, page * PAGE, PAGE, NOW);
            assert!(hole.is_ok(), "{shape:?}: page {page}: {hole:?}");
            // The block that the hole freed is used up at once.
            let _ = privileged(|| allocate(fs, other, 100_000 + page, 1));
        }
        let read = read_pages(fs, file, 0, 1024).unwrap();
        let whole = pattern(4 << 20, 3);
        for page in 0..1024 {
            let is_hole = page % 2 == 1 && page < 1000;
            let part = page * 4096..(page + 1) * 4096;
            let expected = if is_hole { &[0; 4096][..] } else { &whole[part.clone()] };
            assert!(read[part] == *expected, "{shape:?}: page {page}");
        }
        fs.forget(file, 1);
        fs.forget(other, 1);
        world.finish();
    }
}

#[test]
fn reserved_blocks_serve_privileged_callers_only() {
    let world = volume(&["-m", "10", "-b", "4096"], 16 << 10);
    let fs = &*world.fs;
    let mine = make_held(fs, "mine");
    let roots = make_held(fs, "roots");
    let all = fs.usage().unwrap();
    let users = delay_all(fs, mine, 0, 1);
    assert_eq!(users.len() as u64, all.available, "what statfs says is available");
    let left = fs.usage().unwrap();
    assert_eq!((left.available, left.free), (0, all.free - all.available));
    assert_eq!(allocate(fs, mine, 100_000, 1), Err(FsError::NoSpace));
    let long = NewInode { target: &[b't'; 100], ..new(FileType::Symlink) };
    assert_eq!(fs.create(ROOT, b"link", &long), Err(FsError::NoSpace));
    assert_eq!(fs.create(ROOT, b"dir", &new(FileType::Directory)), Err(FsError::NoSpace));
    let (delayed, taken) = privileged(|| {
        let delayed = delay_all(fs, roots, 0, 1).len() as u64;
        fs.release_range(roots, 0, 50);
        assert_eq!(allocate(fs, roots, 50_000, 10), Ok(()));
        fs.forget(fs.create(ROOT, b"link", &long).unwrap().inode, 1);
        (delayed, 10)
    });
    assert!(delayed > 400 && taken == 10, "a tenth of 4,096, but for the pool: {delayed}");
    // The flusher has no privileges, but the blocks promised to root are there.
    for page in users {
        assert_eq!(write_pages(fs, mine, page, &[1; 4096], PAGE * (page + 1)), Ok(()));
    }
    for page in 50..delayed {
        assert_eq!(write_pages(fs, roots, page, &[2; 4096], PAGE * (page + 1)), Ok(()));
    }
    fs.forget(mine, 1);
    fs.forget(roots, 1);
    world.finish();
}

#[test]
fn blocks_just_freed_are_there_for_the_next_write() {
    for shape in SHAPES {
        let world = volume(shape, 16 << 10);
        let fs = &*world.fs;
        for round in 0..4 {
            let file = make_held(fs, "file");
            let pages = delay_all(fs, file, 0, 1);
            assert!(pages.len() > 1500, "{shape:?}, round {round}: {}", pages.len());
            write_pages(fs, file, 0, &vec![round; pages.len() * 4096], u64::MAX).unwrap();
            fs.unlink(ROOT, b"file", NOW).unwrap();
            fs.forget(file, 1);
        }
        world.finish();
    }
}
