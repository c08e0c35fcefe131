//! Tests of the counts and the extended attributes that a tmpfs keeps.
use super::*;

const NOW: FileTime = FileTime { seconds: 1_000, nanoseconds: 5 };

fn mount() -> Arc<Tmpfs> {
    new(Options { size_bytes: Some(1 << 20), inodes: Some(10_000), ..Options::default() }).unwrap()
}

fn new_inode(target: &[u8]) -> NewInode<'_> {
    NewInode {
        file_type: if target.is_empty() { FileType::Regular } else { FileType::Symlink },
        permissions: 0o644,
        user: 1,
        group: 2,
        device: (0, 0),
        target,
        now: NOW,
        label: &[],
        level: None,
        acls: NewAcls::default(),
    }
}

fn make(fs: &Tmpfs) -> InodeNumber {
    fs.new_inode(&new_inode(b"")).unwrap()
}

fn free_inodes(fs: &Tmpfs) -> u64 {
    fs.usage().unwrap().files_free
}

fn set_xattr(fs: &Tmpfs, inode: InodeNumber, name: &str, bytes: usize) -> Result<(), FsError> {
    fs.set_xattr(inode, name.as_bytes(), &vec![7; bytes], XattrMode::Set, NOW)
}

#[test]
fn the_root_is_what_the_options_say() {
    let fs = new(Options { permissions: 0o750, user: 3, group: 4, ..Options::default() }).unwrap();
    let root = fs.attributes(ROOT).unwrap();
    assert_eq!((root.permissions, root.user, root.group), (0o750, 3, 4));
    assert_eq!((root.file_type, root.links), (FileType::Directory, 2));
    assert_eq!(fs.attributes(ROOT + 1), Err(FsError::NotFound));
}

#[test]
fn each_level_has_the_limits_for_itself() {
    let fs =
        new(Options { size_bytes: Some(8192), inodes: Some(3), ..Options::default() }).unwrap();
    let of_level = |level| fs.new_inode(&NewInode { level: Some(level), ..new_inode(b"") });
    let file = of_level(1).unwrap();
    fs.reserve(file, 2).unwrap();
    assert_eq!(fs.reserve(file, 1), Err(FsError::NoSpace));
    for level in [0, 2, LEVEL_SLOTS - 1] {
        let other = of_level(level).unwrap();
        assert_eq!(fs.reserve(other, 2), Ok(()), "{level}");
        assert_eq!(fs.reserve(other, 1), Err(FsError::NoSpace), "{level}");
    }
    // The root's inode counts for the first level.
    let more = |level| (0..4).filter(|_| of_level(level).is_ok()).count();
    assert_eq!((more(0), more(1), more(2)), (1, 2, 2));
    fs.release(file, 2);
    fs.forget(file, 1);
    assert_eq!((more(0), more(1), more(2)), (0, 1, 0));
}

#[test]
fn limits_of_space_and_inodes_are_kept() {
    let fs =
        new(Options { size_bytes: Some(8192), inodes: Some(3), ..Options::default() }).unwrap();
    let file = make(&fs);
    assert!(make(&fs) != file);
    assert_eq!(fs.new_inode(&new_inode(b"")), Err(FsError::NoSpace));
    assert_eq!(fs.reserve_link(file), Err(FsError::NoSpace));
    fs.forget(file, 1);
    assert_eq!(fs.reserve_link(file), Ok(()));
    fs.release_link(file);
    assert_eq!(free_inodes(&fs), 1);
    fs.reserve(file, 2).unwrap();
    assert_eq!(fs.reserve(file, 1), Err(FsError::NoSpace));
    fs.release(file, 2);
    assert_eq!(fs.usage().unwrap().free, 2);
    let none = new(Options { inodes: Some(0), ..Options::default() }).unwrap();
    make(&none);
    assert_eq!(free_inodes(&none), 0);
}

#[test]
fn memory_refused_leaves_nothing_behind() {
    let fs = mount();
    let before = free_inodes(&fs);
    let acls = NewAcls { access: b"list", default: b"" };
    for grants in 0..2 {
        rt::host::refuse_after(Some(grants));
        let refused = fs.new_inode(&NewInode { acls, ..new_inode(b"") });
        rt::host::refuse_after(None);
        assert_eq!(refused, Err(FsError::NoMemory));
        assert_eq!(free_inodes(&fs), before);
    }
    let made = fs.new_inode(&NewInode { acls, ..new_inode(b"") }).unwrap();
    assert_eq!(fs.get_xattr(made, acl::ACCESS_NAME).unwrap(), b"list");
    assert_eq!(fs.get_xattr(made, acl::DEFAULT_NAME), Err(FsError::NoAttribute));
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let fs = mount();
    let set = |name: &[u8], mode| fs.set_xattr(ROOT, name, b"v", mode, NOW);
    set(b"user.a", XattrMode::Create).unwrap();
    set(b"trusted.b", XattrMode::Set).unwrap();
    assert_eq!(set(b"user.a", XattrMode::Create), Err(FsError::Exists));
    assert_eq!(set(b"user.c", XattrMode::Replace), Err(FsError::NoAttribute));
    assert_eq!(set(b"system.x", XattrMode::Set), Err(FsError::Unsupported));
    assert_eq!(fs.get_xattr(ROOT, b"user.a").unwrap(), b"v");
    assert_eq!(fs.get_xattr(ROOT + 1, b"user.a"), Err(FsError::NoAttribute));
    assert_eq!(fs.list_xattr(ROOT).unwrap(), [b"trusted.b".to_vec(), b"user.a".to_vec()]);
    fs.remove_xattr(ROOT, b"user.a", NOW).unwrap();
    assert_eq!(fs.get_xattr(ROOT, b"user.a"), Err(FsError::NoAttribute));
    assert_eq!(fs.remove_xattr(ROOT, b"user.a", NOW), Err(FsError::NoAttribute));
}

#[test]
fn attributes_and_long_targets_take_from_the_limit_of_inodes_and_give_back() {
    let fs = mount();
    let before = free_inodes(&fs);
    let file = make(&fs);
    assert_eq!(free_inodes(&fs), before - 1);
    set_xattr(&fs, file, "user.large", 50_000).unwrap();
    let with = free_inodes(&fs);
    assert!((before - 55..before - 45).contains(&with), "{with} of {before}");
    set_xattr(&fs, file, "user.large", 10).unwrap();
    assert!(free_inodes(&fs) >= before - 2, "a shorter value gives back");
    set_xattr(&fs, file, "user.large", 50_000).unwrap();
    fs.remove_xattr(file, b"user.large", NOW).unwrap();
    assert_eq!(free_inodes(&fs), before - 1);
    let link = fs.new_inode(&new_inode(&[b'x'; 4000])).unwrap();
    assert_eq!(free_inodes(&fs), before - 6);
    set_xattr(&fs, file, "user.a", 5000).unwrap();
    set_xattr(&fs, link, "trusted.a", 5000).unwrap();
    fs.remove_xattr(link, b"trusted.a", NOW).unwrap();
    fs.forget(file, 1);
    fs.forget(link, 1);
    assert_eq!(free_inodes(&fs), before);
}

#[test]
fn attributes_beyond_the_limit_are_refused() {
    let fs = new(Options { inodes: Some(100), ..Options::default() }).unwrap();
    let file = make(&fs);
    assert_eq!(set_xattr(&fs, file, "user.a", 60_000), Ok(()));
    assert_eq!(set_xattr(&fs, file, "user.b", 60_000), Err(FsError::NoSpace));
    assert_eq!(set_xattr(&fs, file, "user.b", 10_000), Ok(()));
    let unlimited = new(Options { inodes: Some(0), ..Options::default() }).unwrap();
    let file = make(&unlimited);
    let set = |number| set_xattr(&unlimited, file, &format!("user.{number}"), 60_000);
    assert_eq!((0..10).filter(|&number| set(number).is_ok()).count(), 2);
}
