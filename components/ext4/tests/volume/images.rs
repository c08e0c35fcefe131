//! Compares whole images of the stock tools with ext4-view and with the folder from which they were
//! made.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::{Recipe, name, run, source},
    oracle::{compare_with_ext4_view, compare_with_folder},
    walk::{Budget, Tree, read_pages, walk},
};
use ext4::{Ext4, MountError, MountOptions, Recovery, mount};
use interfaces::file_system::*;
use std::sync::{Arc, atomic::Ordering::SeqCst};

/// Features that ext4-view does not support; such images are compared with the folder only.
const UNREAD_BY_ORACLE: [&str; 3] = ["inline_data", "meta_bg", "mmp"];

fn open(image: &[u8]) -> Arc<Ext4> {
    let device = MemoryBlock::new(image.to_vec(), Completion::AtOnce, 128);
    mount(device, MountOptions::default()).unwrap()
}

fn mount_error(image: &[u8]) -> MountError {
    let device = MemoryBlock::new(image.to_vec(), Completion::AtOnce, 128);
    mount(device, MountOptions::default()).err().expect("refused")
}

/// Makes the image, walks it with both orders of completion, and compares.
fn check(recipe: &Recipe, names: usize) -> (Vec<u8>, Tree) {
    let folder = source(names);
    let image = recipe.make(folder.path());
    let fs = open(&image);
    let tree = walk(&*fs, Budget::WHOLE);
    compare_with_folder(folder.path(), &tree);
    let is_read = compare_with_ext4_view(&image, &tree);
    let is_beyond = |option: &&str| UNREAD_BY_ORACLE.iter().any(|name| option.contains(name));
    assert!(is_read || recipe.options.iter().any(is_beyond), "the oracle reads it too");
    assert_eq!(fs.held_inodes(), 1, "everything but the root is forgotten");
    let device = MemoryBlock::new(image.clone(), Completion::Reversed, 3);
    let small = MountOptions { cache_bytes: 4 * 4096, ..MountOptions::default() };
    let again = walk(&*mount(device, small).unwrap(), Budget::WHOLE);
    assert!(again.seen == tree.seen, "order of completion and size of the cache do not matter");
    (image, tree)
}

#[test]
fn default_images_are_read_whole() {
    check(&Recipe::new(&[], 16 << 10), 300);
}

#[test]
fn blocks_of_one_two_and_four_kib_are_read() {
    check(&Recipe::new(&["-b", "1024"], 16 << 10).indexed(), 300);
    check(&Recipe::new(&["-b", "2048"], 16 << 10).indexed(), 300);
    check(&Recipe::new(&["-b", "4096", "-O", "64bit"], 16 << 10).indexed(), 300);
}

#[test]
fn block_maps_without_extents_are_read() {
    let options = &["-b", "1024", "-O", "^extent,^64bit,^metadata_csum,^flex_bg"];
    check(&Recipe::new(options, 16 << 10).indexed(), 100);
    check(&Recipe::new(&["-b", "4096", "-O", "^extent,^64bit"], 16 << 10), 100);
}

#[test]
fn small_inodes_and_old_group_checksums_are_read() {
    let options = &["-I", "128", "-O", "^metadata_csum,uninit_bg,^64bit"];
    check(&Recipe::new(options, 16 << 10), 50);
}

#[test]
fn inline_files_directories_and_links_are_read() {
    let recipe = Recipe::new(&["-O", "inline_data", "-I", "256"], 16 << 10)
        .with("ea_set small/a user.inline value");
    let (_, tree) = check(&recipe, 100);
    let inline = 0x1000_0000;
    let small = [&b"/size-59"[..], b"/size-61", b"/small"];
    assert!(small.iter().all(|path| tree.seen[*path].attributes.flags & inline != 0));
    let attributes = tree.seen[&b"/small/a"[..]].xattrs.as_ref().unwrap();
    assert_eq!(attributes[&b"user.inline"[..]], b"value");
    assert_eq!(attributes.len(), 1);
}

#[test]
fn other_layouts_of_groups_are_read() {
    check(&Recipe::new(&["-b", "1024", "-g", "1024", "-O", "^flex_bg"], 20 << 10), 20);
    check(&Recipe::new(&["-O", "meta_bg,^resize_inode", "-b", "1024", "-g", "512"], 20 << 10), 20);
    let options = &["-b", "1024", "-g", "512", "-O", "meta_bg,^resize_inode,sparse_super2"];
    check(&Recipe::new(options, 20 << 10), 20);
    check(&Recipe::new(&["-O", "orphan_file,metadata_csum_seed,mmp,large_dir"], 16 << 10), 20);
    check(&Recipe::new(&["-O", "bigalloc", "-C", "16384"], 64 << 10), 20);
}

#[test]
fn every_hash_finds_every_name_of_a_tree_with_two_levels() {
    let folder = source(3000);
    for hash in ["half_md4", "tea", "legacy"] {
        for flags in [1, 2] {
            let mut recipe = Recipe::new(&["-b", "1024", "-N", "4096"], 32 << 10).indexed();
            recipe = recipe.with(&format!("ssv def_hash_version {hash}\nssv flags {flags}"));
            let image = recipe.make(folder.path());
            let device = MemoryBlock::new(image.clone(), Completion::AtOnce, 128);
            let fs = mount(
                Arc::clone(&device) as _,
                MountOptions { cache_bytes: 4096, ..MountOptions::default() },
            )
            .unwrap();
            let many = fs.lookup(2, b"many").unwrap();
            assert_ne!(many.flags & 0x1000, 0, "the directory has a tree");
            let before = device.requests.load(SeqCst);
            for number in 0..3000 {
                let found = fs.lookup(many.inode, name(number).as_bytes()).unwrap();
                fs.forget(found.inode, 1);
            }
            let requests = device.requests.load(SeqCst) - before;
            assert!(requests < 3000 * 8, "{hash}: {requests} requests are not a tree's");
            assert_eq!(fs.lookup(many.inode, b"absent"), Err(FsError::NotFound));
            assert_eq!(walk(&*fs, Budget::WHOLE).errors, []);
        }
    }
}

#[test]
fn attributes_devices_and_unwritten_extents_are_read() {
    let long = "v".repeat(300);
    let commands = format!(
        "ea_set small/a user.one first\nea_set small/a trusted.two second\n\
         ea_set small/a security.three {long}\nmknod disk b 8 3\nmknod tty c 4 64\n\
         mknod fifo p\nfallocate size-0 0 99\nsif size-0 size 300000\n\
         sif size-1 uid 100000\nsif size-1 mtime_extra 0x075BCD14\nsif size-1 crtime 77"
    );
    let folder = source(5);
    let image = Recipe::new(&["-b", "4096"], 16 << 10).with(&commands).make(folder.path());
    let tree = walk(&*open(&image), Budget::WHOLE);
    let seen = |path: &[u8]| tree.seen[path].clone();
    let attributes = seen(b"/small/a").xattrs.unwrap();
    assert_eq!(attributes[&b"user.one"[..]], b"first");
    assert_eq!(attributes[&b"trusted.two"[..]], b"second");
    assert_eq!(attributes[&b"security.three"[..]], long.as_bytes());
    assert_eq!(seen(b"/disk").attributes.device, (8, 3));
    assert_eq!(seen(b"/tty").attributes.device, (4, 64));
    assert_eq!(seen(b"/fifo").attributes.file_type, FileType::Fifo);
    assert!(seen(b"/size-0").contents.unwrap().iter().all(|byte| *byte == 0));
    let one = seen(b"/size-1").attributes;
    assert_eq!((one.user, one.modified.nanoseconds), (100_000, 0x075B_CD14 >> 2));
    assert_eq!(one.created.seconds, 77);
    assert!(compare_with_ext4_view(&image, &tree));
}

#[test]
fn deep_extent_trees_are_followed() {
    let folder = source(0);
    let image = Recipe::new(&["-b", "1024"], 16 << 10).make(folder.path());
    let path = folder.path().join("image");
    std::fs::write(&path, &image).unwrap();
    let shown = run("debugfs", &["-R", "ex /holes", path.to_str().unwrap()], &[0]);
    assert!(shown.contains("2/ 2"), "the tree has two levels: {shown}");
}

#[test]
fn contiguous_pages_are_read_in_one_request_and_pieces_in_one_batch() {
    let folder = source(0);
    let image = Recipe::new(&["-b", "4096"], 16 << 10).make(folder.path());
    let device = MemoryBlock::new(image, Completion::AtOnce, 128);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    let long = fs.lookup(2, b"long").unwrap().inode;
    read_pages(&*fs, long, 0, 64).unwrap();
    device.batches.lock().unwrap().clear();
    read_pages(&*fs, long, 64, 64).unwrap();
    assert_eq!(*device.batches.lock().unwrap(), [vec![512]]);
    let holes = fs.lookup(2, b"holes").unwrap().inode;
    read_pages(&*fs, holes, 0, 8).unwrap();
    device.batches.lock().unwrap().clear();
    read_pages(&*fs, holes, 0, 8).unwrap();
    let batches = device.batches.lock().unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].iter().sum::<u64>(), 32);
}

#[test]
fn a_broken_device_fails_the_pages_and_nothing_else() {
    let folder = source(0);
    let image = Recipe::new(&[], 16 << 10).make(folder.path());
    let device = MemoryBlock::new(image, Completion::Reversed, 128);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    let long = fs.lookup(2, b"long").unwrap().inode;
    device.is_broken.store(true, SeqCst);
    assert_eq!(read_pages(&*fs, long, 0, 4), Err(FsError::Io));
    device.is_broken.store(false, SeqCst);
    assert!(read_pages(&*fs, long, 0, 4).is_ok());
}

#[test]
fn memory_refused_is_said_and_passes() {
    let folder = source(0);
    let image = Recipe::new(&[], 16 << 10).make(folder.path());
    let fs = open(&image);
    for grants in 0..8 {
        rt::host::refuse_after(Some(grants));
        let found = fs.lookup(2, b"deep");
        rt::host::refuse_after(None);
        match found {
            Ok(found) => return fs.forget(found.inode, 1),
            Err(error) => assert_eq!(error, FsError::NoMemory),
        }
    }
    panic!("a lookup takes a handful of grants");
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let folder = tempfile::TempDir::new().unwrap();
    let make = |options| Recipe::new(options, 8 << 10).make(folder.path());
    assert_eq!(mount_error(&make(&["-O", "casefold"])), MountError::Unsupported("casefold"));
    assert_eq!(mount_error(&make(&["-O", "encrypt"])), MountError::Unsupported("encrypt"));
    assert_eq!(mount_error(&make(&["-O", "ea_inode"])), MountError::Unsupported("ea_inode"));
    assert_eq!(mount_error(&[0; 8192]), MountError::NotExt4);
    assert_eq!(mount_error(&[0; 512]), MountError::TooShort);
}

#[test]
fn an_image_with_a_dirty_journal_is_read_only_if_it_is_skipped_and_a_cut_one_refused() {
    let folder = source(3);
    let recipe = Recipe::new(&[], 16 << 10).with("feature needs_recovery");
    let image = recipe.make(folder.path());
    assert_eq!(mount_error(&image), MountError::NeedsRecovery);
    let options = MountOptions { recovery: Recovery::Skip, ..MountOptions::default() };
    let fs = mount(MemoryBlock::writable(image.clone(), Completion::AtOnce, 16), options).unwrap();
    compare_with_folder(folder.path(), &walk(&*fs, Budget::WHOLE));
    assert_eq!(fs.remount(MountAccess::Writable), Err(FsError::ReadOnly));
    let cut = image.len() - 4096;
    assert!(matches!(mount_error(&image[..cut]), MountError::Corrupt(_)));
}

#[test]
fn four_threads_with_a_tiny_cache_see_the_same_tree() {
    let folder = source(50);
    let image = Recipe::new(&["-b", "1024"], 16 << 10).indexed().make(folder.path());
    let device = MemoryBlock::new(image, Completion::Reversed, 8);
    let fs =
        mount(device, MountOptions { cache_bytes: 2 * 4096, ..MountOptions::default() }).unwrap();
    let alone = walk(&*fs, Budget::WHOLE);
    assert_eq!(alone.errors, []);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(walk(&*fs, Budget::WHOLE).seen == alone.seen));
        }
    });
    assert_eq!(fs.held_inodes(), 1);
}

#[test]
fn usage_is_what_dumpe2fs_says() {
    let folder = source(50);
    let image = Recipe::new(&[], 16 << 10).make(folder.path());
    let usage = open(&image).usage().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, &image).unwrap();
    let shown = run("dumpe2fs", &["-h", path.to_str().unwrap()], &[0]);
    let field = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    assert_eq!(usage.free, field("Free blocks:"));
    let reserved = field("Reserved block count:") + field("Block count:") / 50;
    assert_eq!(usage.available, field("Free blocks:") - reserved, "as Linux has it");
    assert_eq!(usage.blocks, field("Block count:") - field("Overhead clusters:"));
    assert_eq!((usage.files, usage.files_free), (field("Inode count:"), field("Free inodes:")));
    assert_eq!(u64::from(usage.block_bytes), field("Block size:"));
}

#[test]
fn changes_are_refused() {
    let folder = source(0);
    let fs = open(&Recipe::new(&[], 16 << 10).make(folder.path()));
    let now = FileTime::default();
    assert!(fs.mount_info().is_read_only);
    assert_eq!(fs.unlink(2, b"long", now), Err(FsError::ReadOnly));
    assert_eq!(fs.rename((2, b"long"), (2, b"x"), now), Err(FsError::ReadOnly));
    let change = AttributeChange::default();
    assert_eq!(fs.set_attributes(2, &change), Err(FsError::ReadOnly));
}
