//! Tests of writing: checked by e2fsck, by ext4-view, by reading again, and by counting requests.
use crate::common::{
    image::{Recipe, name, pattern, source},
    oracle::compare_with_ext4_view,
    walk::{Budget, read_pages, walk},
    write::*,
};
use interfaces::file_system::*;
use std::sync::atomic::Ordering::SeqCst;

const ROOT: InodeNumber = 2;
/// Kinds of volumes with which every test of names is made.
const SHAPES: [&[&str]; 4] = [
    &[],
    &["-b", "1024", "-O", "^has_journal"],
    &["-b", "4096", "-O", "^has_journal,^metadata_csum,^dir_index"],
    &["-b", "1024", "-O", "64bit,inline_data", "-I", "256"],
];

fn text(fs: &dyn FileSystem, inode: InodeNumber) -> Vec<u8> {
    let size = fs.attributes(inode).unwrap().size;
    let mut bytes = read_pages(fs, inode, 0, size.div_ceil(4096)).unwrap();
    bytes.truncate(size as usize);
    bytes
}

#[test]
fn a_volume_only_mounted_and_left_is_clean() {
    for shape in SHAPES {
        World::empty(shape, 32 << 10).finish();
    }
}

#[test]
fn names_of_every_kind_are_made_and_stay() {
    for shape in SHAPES {
        let world = World::empty(shape, 32 << 10);
        let fs = &*world.fs;
        let dir = make(fs, ROOT, "dir", FileType::Directory);
        let file = make(fs, dir, "file", FileType::Regular);
        let data = pattern(300_001, 5);
        write(fs, file, 0, &data).unwrap();
        let symlink = |name: &[u8], target| {
            let made = fs.create(dir, name, &NewInode { target, ..new(FileType::Symlink) });
            fs.forget(made.unwrap().inode, 1);
        };
        symlink(b"fast", b"short");
        symlink(b"slow", "long/".repeat(50).leak().as_bytes());
        let node = NewInode { device: (300, 70_000), ..new(FileType::Block) };
        fs.forget(fs.create(dir, b"disk", &node).unwrap().inode, 1);
        make(fs, dir, "pipe", FileType::Fifo);
        assert_eq!(fs.create(dir, b"pipe", &new(FileType::Regular)), Err(FsError::Exists));
        let hard = fs.link(file, ROOT, b"hard", NOW).unwrap();
        assert_eq!((hard.links, hard.inode), (2, file));
        assert_eq!(fs.attributes(ROOT).unwrap().links, 4, "with lost+found");
        let image = world.finish();
        let again = World::of(image.clone());
        let tree = walk(&*again.fs, Budget::WHOLE);
        assert_eq!(tree.errors, []);
        assert!(tree.seen[&b"/hard"[..]].contents.as_ref() == Ok(&data));
        let disk = tree.seen[&b"/dir/disk"[..]].attributes;
        assert_eq!((disk.device, disk.user, disk.group), ((300, 70_000), 1000, 100_000));
        assert_eq!((disk.created, disk.modified), (NOW, NOW));
        assert_eq!(tree.seen[&b"/dir/slow"[..]].contents.as_ref().unwrap().len(), 250);
        compare_with_ext4_view(&image, &tree);
        again.finish();
    }
}

#[test]
fn names_taken_away_give_everything_back() {
    for shape in SHAPES {
        let world = World::empty(shape, 32 << 10);
        let fs = &*world.fs;
        settle(fs);
        let before = fs.usage().unwrap();
        let dir = make(fs, ROOT, "dir", FileType::Directory);
        let inner = make(fs, dir, "inner", FileType::Directory);
        assert_eq!(fs.remove_directory(ROOT, b"dir", NOW), Err(FsError::NotEmpty));
        assert_eq!(fs.unlink(dir, b"inner", NOW), Err(FsError::IsDirectory));
        let open = fs.create(inner, b"open", &new(FileType::Regular)).unwrap().inode;
        write(fs, open, 0, &pattern(100_000, 1)).unwrap();
        write(fs, open, 3 << 20, &pattern(100_000, 2)).unwrap();
        assert_eq!(fs.remove_directory(inner, b"open", NOW), Err(FsError::NotDirectory));
        fs.unlink(inner, b"open", NOW).unwrap();
        assert_eq!(fs.lookup(inner, b"open"), Err(FsError::NotFound));
        assert_eq!(text(fs, open).len(), (3 << 20) + 100_000, "it lives while it is held");
        fs.remove_directory(dir, b"inner", NOW).unwrap();
        fs.remove_directory(ROOT, b"dir", NOW).unwrap();
        fs.forget(open, 1);
        settle(fs);
        assert_eq!(fs.usage().unwrap(), before);
        world.finish();
    }
}

#[test]
fn names_move_replace_and_exchange() {
    for shape in SHAPES {
        let world = World::empty(shape, 32 << 10);
        let fs = &*world.fs;
        let (a, b) =
            (make(fs, ROOT, "a", FileType::Directory), make(fs, ROOT, "b", FileType::Directory));
        let file = make(fs, a, "file", FileType::Regular);
        let other = make(fs, b, "other", FileType::Regular);
        let sub = make(fs, a, "sub", FileType::Directory);
        fs.rename((a, b"file"), (b, b"file"), NOW).unwrap();
        assert_eq!(fs.rename((a, b"file"), (b, b"x"), NOW), Err(FsError::NotFound));
        fs.rename((b, b"file"), (b, b"other"), NOW).unwrap();
        assert_eq!(fs.attributes(other), Err(FsError::Corrupt), "freed");
        assert_eq!(fs.rename((b, b"other"), (a, b"sub"), NOW), Err(FsError::IsDirectory));
        assert_eq!(fs.rename((a, b"sub"), (b, b"other"), NOW), Err(FsError::NotDirectory));
        assert_eq!(fs.rename((a, b"sub"), (sub, b"x"), NOW), Err(FsError::Invalid));
        fs.rename((a, b"sub"), (b, b"sub"), NOW).unwrap();
        let links = |inode| fs.attributes(inode).unwrap().links;
        assert_eq!((links(a), links(b)), (2, 3));
        fs.exchange((ROOT, b"a"), (b, b"other"), NOW).unwrap();
        assert_eq!((links(ROOT), links(b)), (4, 4));
        let found = fs.lookup(ROOT, b"a").unwrap().inode;
        fs.forget(found, 1);
        assert_eq!(found, file);
        fs.rename((b, b"other"), (b, b"sub"), NOW).unwrap();
        assert_eq!(fs.lookup(b, b"other"), Err(FsError::NotFound));
        world.finish();
    }
}

#[test]
fn files_without_names_are_freed_or_get_one() {
    let world = World::empty(&[], 32 << 10);
    let fs = &*world.fs;
    let first = fs.create_unnamed(ROOT, &new(FileType::Regular)).unwrap().inode;
    let second = fs.create_unnamed(ROOT, &new(FileType::Regular)).unwrap().inode;
    let third = fs.create_unnamed(ROOT, &new(FileType::Regular)).unwrap().inode;
    write(fs, second, 0, b"named later").unwrap();
    fs.link(second, ROOT, b"second", NOW).unwrap();
    fs.forget(first, 1);
    settle(fs);
    fs.forget(third, 1);
    fs.forget(second, 1);
    assert_eq!(text(fs, second), b"named later");
    world.finish();
}

#[test]
fn directories_grow_to_trees_of_two_levels_and_shrink() {
    for shape in SHAPES {
        let world = World::empty(shape, 64 << 10);
        let fs = &*world.fs;
        let dir = make(fs, ROOT, "many", FileType::Directory);
        let count = if shape.contains(&"4096") { 500 } else { 4000 };
        let file = fs.create(dir, name(0).as_bytes(), &new(FileType::Regular)).unwrap().inode;
        for number in 1..count {
            fs.link(file, dir, name(number).as_bytes(), NOW).unwrap();
        }
        fs.forget(file, 1);
        settle(fs);
        check(&world.device.image());
        for number in 0..count {
            let found = fs.lookup(dir, name(number).as_bytes()).unwrap();
            fs.forget(found.inode, 1);
        }
        for number in (0..count).step_by(2) {
            fs.unlink(dir, name(number).as_bytes(), NOW).unwrap();
        }
        assert_eq!(list_directory(fs, dir, 0, usize::MAX).unwrap().len(), count / 2);
        for number in (1..count).step_by(2) {
            fs.unlink(dir, name(number).as_bytes(), NOW).unwrap();
        }
        fs.remove_directory(ROOT, b"many", NOW).unwrap();
        world.finish();
    }
}

#[test]
fn lengths_change_and_what_was_cut_reads_as_zeroes() {
    for shape in SHAPES {
        let world = World::empty(shape, 32 << 10);
        let fs = &*world.fs;
        let file = make(fs, ROOT, "file", FileType::Regular);
        let data = pattern(50_000, 9);
        write(fs, file, 0, &data).unwrap();
        let resize = |size| {
            let change = AttributeChange { size: Some(size), ..AttributeChange::default() };
            fs.set_attributes(file, &change).unwrap()
        };
        assert_eq!(resize(10_001).size, 10_001);
        resize(40_000);
        let mut wanted = data[..10_001].to_vec();
        wanted.resize(40_000, 0);
        assert!(text(fs, file) == wanted);
        write(fs, file, (4 << 30) + 5, b"far").unwrap();
        assert_eq!(fs.attributes(file).unwrap().size, (4 << 30) + 8);
        resize(3);
        assert_eq!(text(fs, file), data[..3]);
        assert_eq!(
            fs.attributes(file).unwrap().blocks * 512,
            world.fs.usage().unwrap().block_bytes.into()
        );
        world.finish();
    }
}

#[test]
fn trees_of_extents_grow_deep_and_vanish() {
    let world = World::empty(&["-b", "1024"], 64 << 10);
    let fs = &*world.fs;
    settle(fs);
    let before = fs.usage().unwrap();
    let file = fs.create(ROOT, b"pieces", &new(FileType::Regular)).unwrap().inode;
    // Every other block of 1 KiB is written, forwards and backwards.
    let put = |page: u64| write(fs, file, page * 4096, &[page as u8 | 1; 1024]).unwrap();
    let resize = AttributeChange { size: Some(1 << 30), ..AttributeChange::default() };
    fs.set_attributes(file, &resize).unwrap();
    for page in (0..6000).step_by(2) {
        put(page * 7919 % 6000 / 2 * 2);
    }
    settle(fs);
    check(&world.device.image());
    for page in (0..6000).step_by(500) {
        assert_eq!(read_pages(fs, file, page, 1).unwrap()[0], page as u8 | 1);
    }
    fs.unlink(ROOT, b"pieces", NOW).unwrap();
    fs.forget(file, 1);
    settle(fs);
    assert_eq!(fs.usage().unwrap(), before);
    world.finish();
}

#[test]
fn a_dirty_run_is_one_allocation_and_one_request() {
    let world = World::empty(&["-b", "4096"], 64 << 10);
    let fs = &*world.fs;
    let file = make(fs, ROOT, "file", FileType::Regular);
    world.device.batches.lock().unwrap().clear();
    write_pages(fs, file, 0, &pattern(128 * 4096, 1), 128 * 4096).unwrap();
    let batches = world.device.batches.lock().unwrap().clone();
    assert_eq!(batches.last().unwrap(), &vec![1024], "{batches:?}");
    write_pages(fs, file, 128, &pattern(100 * 4096, 2), 228 * 4096).unwrap();
    let before = world.device.requests.load(SeqCst);
    read_pages(fs, file, 100, 64).unwrap();
    assert_eq!(world.device.requests.load(SeqCst) - before, 1, "the file is in one piece");
    world.finish();
}

#[test]
fn ranges_are_allocated_punched_cleared_collapsed_and_inserted() {
    for shape in SHAPES {
        let world = World::empty(shape, 32 << 10);
        let fs = &*world.fs;
        let file = make(fs, ROOT, "file", FileType::Regular);
        let mut wanted = pattern(100_000, 3);
        write(fs, file, 0, &wanted).unwrap();
        let change = |how, offset, length| fs.allocate(file, how, offset, length, NOW);
        change(Allocation::PunchHole, 5000, 30_000).unwrap();
        wanted[5000..35_000].fill(0);
        assert!(text(fs, file) == wanted);
        let is_small = fs.usage().unwrap().block_bytes == 1024;
        assert_eq!(fs.seek(file, 0, Seek::Hole), Ok(if is_small { 5120 } else { 8192 }));
        assert_eq!(fs.seek(file, 9000, Seek::Data), Ok(if is_small { 34_816 } else { 32_768 }));
        change(Allocation::Zero, 90_000, 20_000).unwrap();
        wanted[90_000..].fill(0);
        wanted.resize(110_000, 0);
        assert!(text(fs, file) == wanted);
        change(Allocation::KeepSize, 100_000, 1 << 20).unwrap();
        assert_eq!(fs.attributes(file).unwrap().size, 110_000);
        change(Allocation::Collapse, 4096, 8192).unwrap();
        wanted.drain(4096..12_288);
        assert!(text(fs, file) == wanted);
        change(Allocation::Insert, 8192, 12_288).unwrap();
        wanted.splice(8192..8192, vec![0; 12_288]);
        assert!(text(fs, file) == wanted);
        assert_eq!(change(Allocation::Collapse, 0, 5), Err(FsError::Invalid));
        assert_eq!(change(Allocation::Insert, 1 << 20, 4096), Err(FsError::Invalid));
        change(Allocation::Extend, 0, 200_000).unwrap();
        wanted.resize(200_000, 0);
        assert!(text(fs, file) == wanted);
        write(fs, file, 150_000, b"into what was never written").unwrap();
        wanted[150_000..150_027].copy_from_slice(b"into what was never written");
        assert!(text(fs, file) == wanted);
        world.finish();
    }
}

#[test]
fn attributes_go_to_the_inode_and_to_blocks() {
    for shape in SHAPES {
        let world = World::empty(shape, 32 << 10);
        let fs = &*world.fs;
        let file = make(fs, ROOT, "file", FileType::Regular);
        let set = |name: &[u8], value: &[u8], mode| fs.set_xattr(file, name, value, mode, NOW);
        set(b"user.small", b"x", XattrMode::Set).unwrap();
        set(b"user.empty", b"", XattrMode::Create).unwrap();
        let long = vec![b'v'; 500];
        set(b"trusted.long", &long, XattrMode::Set).unwrap();
        set(b"security.second", &long[..200], XattrMode::Set).unwrap();
        assert_eq!(set(b"user.small", b"y", XattrMode::Create), Err(FsError::Exists));
        assert_eq!(set(b"user.none", b"y", XattrMode::Replace), Err(FsError::NoAttribute));
        assert_eq!(set(b"user.huge", &[0; 5000], XattrMode::Set), Err(FsError::NoSpace));
        assert_eq!(set(b"other.x", b"", XattrMode::Set), Err(FsError::Unsupported));
        let list = [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0];
        set(b"system.posix_acl_access", &list, XattrMode::Set).unwrap();
        set(b"user.small", &[b'z'; 60], XattrMode::Replace).unwrap();
        assert_eq!(fs.get_xattr(file, b"trusted.long").unwrap(), long);
        assert_eq!(fs.get_xattr(file, b"user.small").unwrap(), [b'z'; 60]);
        assert_eq!(fs.get_xattr(file, b"user.empty").unwrap(), b"");
        assert_eq!(fs.get_xattr(file, b"system.posix_acl_access").unwrap(), list);
        settle(fs);
        check(&world.device.image());
        fs.remove_xattr(file, b"trusted.long", NOW).unwrap();
        assert_eq!(fs.remove_xattr(file, b"trusted.long", NOW), Err(FsError::NoAttribute));
        assert_eq!(fs.list_xattr(file).unwrap().len(), 4);
        settle(fs);
        check(&world.device.image());
        fs.unlink(ROOT, b"file", NOW).unwrap();
        world.finish();
    }
}

#[test]
fn data_in_inodes_moves_out_when_it_changes() {
    let recipe = Recipe::new(&["-O", "inline_data", "-I", "256"], 32 << 10);
    let folder = source(20);
    let recipe = recipe.with("ea_set small/a user.inline value");
    let world = World::of(recipe.make(folder.path()));
    let fs = &*world.fs;
    let small = fs.lookup(ROOT, b"small").unwrap().inode;
    let a = fs.lookup(small, b"a").unwrap().inode;
    write(fs, a, 1, b"bc").unwrap();
    assert_eq!(text(fs, a), b"abc");
    assert_eq!(fs.get_xattr(a, b"user.inline").unwrap(), b"value");
    make(fs, small, "new", FileType::Regular);
    fs.unlink(small, b"a", NOW).unwrap();
    fs.rename((small, b"new"), (ROOT, b"new"), NOW).unwrap();
    fs.forget(a, 1);
    fs.forget(small, 1);
    fs.remove_directory(ROOT, b"small", NOW).unwrap();
    world.finish();
}

#[test]
fn a_full_volume_refuses_and_stays_whole() {
    for shape in [&["-b", "4096", "-m", "0"][..], &["-b", "1024", "-m", "5", "-N", "64"]] {
        let world = World::empty(shape.to_vec().leak(), 16 << 10);
        let fs = &*world.fs;
        let file = fs.create(ROOT, b"big", &new(FileType::Regular)).unwrap().inode;
        let piece = pattern(1 << 18, 7);
        let mut at = 0;
        let error = loop {
            match write(fs, file, at, &piece) {
                Ok(()) => at += piece.len() as u64,
                Err(error) => break error,
            }
            assert!(at < 1 << 24);
        };
        assert_eq!(error, FsError::NoSpace);
        write(fs, file, 0, &piece).expect("what has blocks can be written again");
        let mut made = 0;
        let error = loop {
            let name = format!("{made:0>200}");
            match fs.create(ROOT, name.as_bytes(), &new(FileType::Directory)) {
                Ok(new) => fs.forget(new.inode, 1),
                Err(error) => break error,
            }
            made += 1;
        };
        assert_eq!(error, FsError::NoSpace);
        fs.unlink(ROOT, b"big", NOW).unwrap();
        fs.forget(file, 1);
        let again = fs.create(ROOT, b"again", &new(FileType::Regular)).unwrap().inode;
        for at in (0..at / 2).step_by(piece.len()) {
            write(fs, again, at, &piece).expect("what was freed a moment ago can be used");
        }
        fs.forget(again, 1);
        for number in 0..made {
            fs.remove_directory(ROOT, format!("{number:0>200}").as_bytes(), NOW).unwrap();
        }
        world.finish();
    }
}
