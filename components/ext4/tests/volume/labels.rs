//! Tests of security labels, which are stored in the operation that makes an inode.
use crate::common::{
    cut::crashed,
    device::{Completion, Event, MemoryBlock},
    image::{Recipe, run},
    labels::{check_labels, label_of, make_labelled},
    mutate::Random,
    walk::{Budget, walk},
    write::*,
};
use ext4::{MountOptions, mount};
use interfaces::file_system::*;
use std::{collections::BTreeSet, fs, sync::Arc};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const TYPES: [FileType; 7] = [
    FileType::Fifo,
    FileType::Character,
    FileType::Directory,
    FileType::Block,
    FileType::Regular,
    FileType::Symlink,
    FileType::Socket,
];

/// Returns a new inode of a type, with what this type needs.
fn complete(file_type: FileType) -> NewInode<'static> {
    let target: &[u8] = if file_type == FileType::Symlink { b"target" } else { b"" };
    NewInode { target, device: (8, 300), ..new(file_type) }
}

/// Returns an access control list.
fn list() -> Vec<u8> {
    let entry = |(tag, permissions)| acl::AclEntry { tag, permissions };
    let entries = [
        (acl::Tag::Owner, 6),
        (acl::Tag::User(7), 4),
        (acl::Tag::OwnerGroup, 4),
        (acl::Tag::Mask, 4),
        (acl::Tag::Other, 0),
    ];
    acl::to_portable(&entries.map(entry))
}

#[test]
fn inodes_of_every_type_have_their_label_from_the_start() {
    const SHAPES: [(&[&str], usize); 3] = [
        (&["-I", "128"], 14),
        (&["-I", "256"], 5),
        (&["-b", "1024", "-I", "256", "-O", "^has_journal,inline_data,^metadata_csum"], 5),
    ];
    for (shape, in_blocks) in SHAPES {
        let world = World::empty(shape, 8 << 10);
        let fs = &*world.fs;
        let before = fs.usage().unwrap().free;
        for (number, file_type) in TYPES.into_iter().cycle().take(14).enumerate() {
            let name = format!("name-{number}");
            let new = NewInode { label: &label_of(&name), ..complete(file_type) };
            let made = fs.create(ROOT, name.as_bytes(), &new).unwrap();
            assert!(!made.may_have_acls && !made.may_have_capabilities);
            assert_eq!(fs.get_xattr(made.inode, LABEL_NAME).unwrap(), new.label);
            assert_eq!(fs.list_xattr(made.inode).unwrap(), [LABEL_NAME.to_vec()]);
            fs.forget(made.inode, 1);
        }
        let nameless = NewInode { label: b"nameless", ..complete(FileType::Regular) };
        let nameless = fs.create_unnamed(ROOT, &nameless).unwrap();
        assert_eq!(fs.get_xattr(nameless.inode, LABEL_NAME).unwrap(), b"nameless");
        fs.forget(nameless.inode, 1);
        settle(fs);
        let used = before - fs.usage().unwrap().free;
        assert_eq!(used as usize, 2 + in_blocks, "{shape:?}: two directories, labels in blocks");
        let image = world.finish();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        fs::write(&path, &image).unwrap();
        for number in 0..14 {
            let (name, label) = (format!("name-{number}"), label_of(&format!("name-{number}")));
            let command = format!("ea_get -V {name} security.selinux");
            let shown = run("debugfs", &["-R", &command, path.to_str().unwrap()], &[0]);
            assert_eq!(shown.trim_end().as_bytes(), label, "debugfs shows the label of {name}");
        }
        let again = World::of(image);
        assert_eq!(check_labels(&walk(&*again.fs, Budget::WHOLE)), 14);
        again.finish();
    }
}

#[test]
fn a_label_is_set_and_removed_as_other_attributes_are() {
    for shape in [&["-I", "128"][..], &["-I", "256"]] {
        let world = World::empty(shape, 8 << 10);
        let fs = &*world.fs;
        let inode = make_labelled(fs, ROOT, "file-1", &new(FileType::Regular));
        let set = |value, mode| fs.set_xattr(inode, LABEL_NAME, value, mode, NOW);
        assert_eq!(set(b"other", XattrMode::Create), Err(FsError::Exists));
        for value in [&b"other"[..], &[b'x'; 500], b"more"] {
            set(value, XattrMode::Replace).unwrap();
            assert_eq!(fs.get_xattr(inode, LABEL_NAME).unwrap(), value);
        }
        fs.remove_xattr(inode, LABEL_NAME, NOW).unwrap();
        assert_eq!(fs.get_xattr(inode, LABEL_NAME), Err(FsError::NoAttribute));
        assert_eq!(set(b"other", XattrMode::Replace), Err(FsError::NoAttribute));
        assert_eq!(fs.attributes(inode).unwrap().blocks, 0);
        world.finish();
    }
}

#[test]
fn only_lists_and_capabilities_set_the_hints() {
    let list = list();
    let world = World::empty(&["-I", "512"], 8 << 10);
    let fs = &*world.fs;
    let acls = NewAcls { access: &list, default: b"" };
    for (name, acls) in [("plain-1", NewAcls::default()), ("list-2", acls)] {
        make_labelled(fs, ROOT, name, &NewInode { acls, ..new(FileType::Regular) });
    }
    let program = make_labelled(fs, ROOT, "program-4", &new(FileType::Regular));
    let user = make_labelled(fs, ROOT, "user-5", &new(FileType::Regular));
    let long = make_labelled(fs, ROOT, "long-6", &new(FileType::Regular));
    let set = |inode, name: &[u8], size| {
        fs.set_xattr(inode, name, &vec![1; size], XattrMode::Set, NOW).unwrap();
    };
    set(program, b"security.capability", 20);
    set(user, b"user.capability", 20);
    set(long, b"user.long", 600);
    let hints = |fs: &dyn FileSystem, name: &str| {
        let found = fs.lookup(ROOT, name.as_bytes()).unwrap();
        fs.forget(found.inode, 1);
        (found.may_have_acls, found.may_have_capabilities)
    };
    let expected =
        [("plain-1", (false, false)), ("list-2", (true, false)), ("program-4", (false, true))];
    let again = World::of(world.finish());
    for (name, hint) in expected.into_iter().chain([("user-5", (false, false))]) {
        assert_eq!(hints(&*again.fs, name), hint, "{name}");
    }
    assert_eq!(hints(&*again.fs, "long-6"), (true, true), "its block is not read");
    again.fs.remove_xattr(program, b"security.capability", NOW).unwrap();
    let no_list = AclChange { name: acl::ACCESS_NAME, value: b"", permissions: None, now: NOW };
    let list_inode = again.fs.lookup(ROOT, b"list-2").unwrap().inode;
    assert!(!again.fs.set_acl(list_inode, &no_list).unwrap().may_have_acls);
    again.fs.forget(list_inode, 1);
    assert_eq!(hints(&*again.fs, "program-4"), (false, false));
    again.finish();
}

#[test]
fn a_label_takes_the_inodes_space_before_a_list() {
    let list = list();
    let world = World::empty(&["-b", "4096"], 8 << 10);
    let fs = &*world.fs;
    let acls = NewAcls { access: &list, default: &list };
    let label = label_of("directory-1");
    let new = NewInode { acls, label: &label, ..new(FileType::Directory) };
    let made = fs.create(ROOT, b"directory-1", &new).unwrap();
    assert!(made.may_have_acls);
    assert_eq!(made.blocks, 16, "its names and its lists");
    assert_eq!(fs.get_xattr(made.inode, acl::DEFAULT_NAME).unwrap(), list);
    fs.forget(made.inode, 1);
    let again = World::of(world.finish());
    assert_eq!(again.fs.get_xattr(made.inode, LABEL_NAME).unwrap(), label);
    assert_eq!(again.fs.get_xattr(made.inode, acl::ACCESS_NAME).unwrap(), list);
    again.finish();
}

/// Tries to make a directory whose label needs a block, in a directory whose only block is full, with one more free
/// block each time. Returns the number of refusals.
fn refusals(shape: &'static [&'static str]) -> usize {
    let world = World::empty(shape, 8 << 10);
    let fs = &*world.fs;
    let block = fs.mount_info().block_bytes as u64;
    let parent = make(fs, ROOT, "parent", FileType::Directory);
    let full = |number: u64| format!("{}-{number}", "n".repeat(200));
    (0..(block - 36) / 212).for_each(|number| {
        make_labelled(fs, parent, &full(number), &new(FileType::Regular));
    });
    let filler = fs.create(ROOT, b"filler", &new(FileType::Regular)).unwrap().inode;
    let mut end = 0;
    for blocks in [512, 64, 8, 1] {
        let more = |end| fs.allocate(filler, Allocation::KeepSize, end, blocks * block, NOW);
        while more(end).is_ok() {
            end += blocks * block;
        }
    }
    let label = [b'x'; 700];
    let new = NewInode { label: &label, ..new(FileType::Directory) };
    let mut refused = 0;
    let made = loop {
        settle(fs);
        let before = (fs.usage().unwrap(), fs.attributes(parent).unwrap());
        match fs.create(parent, full(999).as_bytes(), &new) {
            Ok(made) => break made,
            Err(error) => assert_eq!(error, FsError::NoSpace),
        }
        refused += 1;
        settle(fs);
        assert_eq!((fs.usage().unwrap(), fs.attributes(parent).unwrap()), before, "{shape:?}");
        assert_eq!(fs.lookup(parent, full(999).as_bytes()), Err(FsError::NotFound));
        end -= block;
        fs.allocate(filler, Allocation::PunchHole, end, block, NOW).unwrap();
    };
    assert_eq!(fs.get_xattr(made.inode, LABEL_NAME).unwrap(), label);
    fs.forget(made.inode, 1);
    fs.forget(filler, 1);
    world.finish();
    refused
}

#[test]
fn a_label_or_a_name_that_finds_no_room_leaves_nothing() {
    for shape in [
        &["-m", "0", "-b", "1024", "-I", "128", "-O", "^dir_index"][..],
        &["-m", "0", "-b", "1024", "-I", "256", "-O", "^has_journal,^dir_index"],
    ] {
        let refused = refusals(shape);
        assert!(refused >= 3, "{shape:?}: no directory, no label, no name: {refused}");
    }
}

/// Makes inodes of all types. Returns the image before, and the writes.
fn record(recipe: &Recipe) -> (Vec<u8>, Vec<Event>) {
    let folder = TempDir::new().unwrap();
    let image = recipe.make(folder.path());
    let device = MemoryBlock::writable(image.clone(), Completion::AtOnce, 128);
    *device.events.lock().unwrap() = Some(Vec::new());
    let world = World::with(device);
    for (number, file_type) in TYPES.into_iter().cycle().take(21).enumerate() {
        make_labelled(&*world.fs, ROOT, &format!("name-{number}"), &complete(file_type));
        if number % 7 == 3 {
            world.fs.sync().unwrap();
        }
    }
    world.fs.rename((ROOT, b"name-4"), (ROOT, b"moved-4"), NOW).unwrap();
    let nameless = NewInode { label: &label_of("linked-30"), ..complete(FileType::Regular) };
    let nameless = world.fs.create_unnamed(ROOT, &nameless).unwrap();
    world.fs.link(nameless.inode, ROOT, b"linked-30", NOW).unwrap();
    settle(&*world.fs);
    let events = world.device.events.lock().unwrap().take().unwrap();
    (image, events)
}

/// Mounts an image, checks its labels, and checks it again when it was left. Returns the number of labels.
fn look(image: Vec<u8>) -> usize {
    let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    let tree = walk(&*fs, Budget::WHOLE);
    assert_eq!(tree.errors, []);
    let count = check_labels(&tree);
    fs.unmount().unwrap();
    check(&device.image());
    count
}

#[test]
fn after_a_crash_at_any_write_each_name_has_its_label() {
    const SHAPES: [(&[&str], usize); 4] = [
        (&["-b", "4096", "-J", "size=4"], 4096),
        (&["-b", "1024", "-I", "128"], 1024),
        (&["-b", "4096", "-O", "^has_journal"], 4096),
        (&["-b", "1024", "-O", "^has_journal", "-I", "128"], 1024),
    ];
    for (shape, block) in SHAPES {
        let (image, events) = record(&Recipe::new(shape, 12 << 10));
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        let mut counts = BTreeSet::new();
        for cut in 0..=events.len() {
            let cut_image = crashed(&image, &events, cut, block, &mut Random::new(cut as u64));
            fs::write(&path, &cut_image).unwrap();
            fsck(&path, &["-p"], &[0, 1]);
            counts.insert(look(fs::read(&path).unwrap()));
            if !shape.contains(&"^has_journal") {
                look(cut_image);
            }
        }
        println!("{shape:?}: {} cuts, {counts:?} labels", events.len() + 1);
        assert!(counts.contains(&0) && counts.contains(&22));
    }
}
