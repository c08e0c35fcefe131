//! Tests of access control lists on disk, as the stock tools write and read them.
use crate::common::{
    image::{Recipe, run, source},
    write::{NOW, World, make, new},
};
use acl::{ACCESS_NAME, AclEntry, DEFAULT_NAME, Tag};
use interfaces::file_system::*;
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
/// The on-disk form of [`list`], in the output of debugfs.
const SHOWN: &str = "(36) = 01 00 00 00 01 00 06 00 02 00 04 00 e8 03 00 00 04 00 04 00 \
                     08 00 07 00 32 00 00 00 10 00 05 00 20 00 00 00";

fn list() -> Vec<u8> {
    let entry = |(tag, permissions)| AclEntry { tag, permissions };
    let entries = [
        (Tag::Owner, 6),
        (Tag::User(1000), 4),
        (Tag::OwnerGroup, 4),
        (Tag::Group(50), 7),
        (Tag::Mask, 5),
        (Tag::Other, 0),
    ];
    acl::to_portable(&entries.map(entry))
}

/// Returns the output of debugfs for a list on disk.
fn shown(image: &[u8], path: &str, name: &[u8]) -> String {
    let folder = TempDir::new().unwrap();
    let at = folder.path().join("image");
    std::fs::write(&at, image).unwrap();
    let command = format!("ea_get -r -x {path} {}", str::from_utf8(name).unwrap());
    run("debugfs", &["-R", &command, at.to_str().unwrap()], &[0])
}

#[test]
fn lists_of_the_stock_tools_are_read() {
    let folder = source(3);
    let value = folder.path().join("value");
    std::fs::write(&value, list()).unwrap();
    let value = value.to_str().unwrap();
    let recipe = Recipe::new(&["-I", "256"], 8 << 10)
        .with(&format!("ea_set -f {value} small system.posix_acl_default"))
        .with(&format!("ea_set -f {value} small system.posix_acl_access"));
    let world = World::of(recipe.make(folder.path()));
    let found = world.fs.lookup(ROOT, b"small").unwrap();
    assert!(found.may_have_acls);
    assert_eq!(world.fs.get_xattr(found.inode, ACCESS_NAME).unwrap(), list());
    assert_eq!(world.fs.get_xattr(found.inode, DEFAULT_NAME).unwrap(), list());
    world.fs.forget(found.inode, 1);
    let plain = world.fs.lookup(ROOT, b"value").unwrap();
    assert!(!plain.may_have_acls);
    world.fs.forget(plain.inode, 1);
    world.finish();
}

#[test]
fn the_stock_tools_read_lists_set_and_handed_on() {
    const SHAPES: [&[&str]; 2] = [&["-I", "128"], &["-I", "256"]];
    for shape in SHAPES {
        let world = World::empty(shape, 8 << 10);
        let (fs, list) = (&*world.fs, list());
        let file = make(fs, ROOT, "file", FileType::Regular);
        let change =
            AclChange { name: ACCESS_NAME, value: &list, permissions: Some(0o2650), now: NOW };
        let known = fs.set_acl(file, &change).unwrap();
        assert_eq!((known.permissions, known.may_have_acls, known.changed), (0o2650, true, NOW));
        let acls = NewAcls { access: &list, default: &list };
        let made = NewInode { acls, ..new(FileType::Directory) };
        let made = fs.create(ROOT, b"made", &made).unwrap();
        assert!(made.may_have_acls);
        fs.forget(made.inode, 1);
        let nameless =
            fs.create_unnamed(ROOT, &NewInode { acls, ..new(FileType::Regular) }).unwrap();
        assert_eq!(fs.get_xattr(nameless.inode, ACCESS_NAME).unwrap(), list);
        fs.forget(nameless.inode, 1);
        let image = world.finish();
        for (path, name) in [("file", ACCESS_NAME), ("made", ACCESS_NAME), ("made", DEFAULT_NAME)] {
            let shown = shown(&image, path, name);
            assert!(shown.contains(SHOWN), "{path}: {shown}");
        }
    }
}

#[test]
fn a_list_that_finds_no_room_changes_nothing() {
    let world = World::empty(&["-b", "1024"], 8 << 10);
    let (fs, list) = (&*world.fs, list());
    let file = make(fs, ROOT, "file", FileType::Regular);
    let mut long = list.clone();
    (0..200).for_each(|_| long.extend_from_slice(&list[12..20]));
    let change = |value| AclChange { name: ACCESS_NAME, value, permissions: Some(0o777), now: NOW };
    assert_eq!(fs.set_acl(file, &change(&long)), Err(FsError::NoSpace));
    assert_eq!(fs.attributes(file).unwrap().permissions, 0o644);
    assert_eq!(fs.get_xattr(file, ACCESS_NAME), Err(FsError::NoAttribute));
    let acls = NewAcls { access: &long, default: &[] };
    let new = NewInode { acls, ..new(FileType::Regular) };
    assert_eq!(fs.create(ROOT, b"other", &new), Err(FsError::NoSpace));
    assert_eq!(fs.lookup(ROOT, b"other"), Err(FsError::NotFound));
    fs.set_acl(file, &change(&[])).unwrap();
    assert_eq!(fs.attributes(file).unwrap().permissions, 0o777, "the mode follows without a list");
    world.finish();
}

#[test]
fn a_volume_mounted_without_lists_says_so() {
    let options = ext4::MountOptions::parse(b"rw,noacl").unwrap();
    assert!(!options.has_acls && ext4::MountOptions::parse(b"noacl,acl").unwrap().has_acls);
}
