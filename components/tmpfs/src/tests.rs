//! The operations of a tmpfs, name by name.
use super::*;
use interfaces::file_system::{AttributeChange, Attributes, FileSystem, XattrMode, list_directory};
use std::collections::BTreeSet;

const NOW: FileTime = FileTime { seconds: 1_000, nanoseconds: 5 };
const LATER: FileTime = FileTime { seconds: 2_000, nanoseconds: 6 };

fn mount() -> Arc<Tmpfs> {
    new(Options { size_bytes: Some(1 << 20), inodes: Some(10_000), ..Options::default() }).unwrap()
}

fn new_inode(file_type: FileType) -> NewInode<'static> {
    NewInode {
        file_type,
        permissions: 0o644,
        user: 1,
        group: 2,
        device: (8, 1),
        target: b"to",
        now: NOW,
        acls: NewAcls::default(),
    }
}

fn make(fs: &Tmpfs, directory: InodeNumber, name: &str, file_type: FileType) -> Attributes {
    fs.create(directory, name.as_bytes(), &new_inode(file_type)).unwrap()
}

fn links(fs: &Tmpfs, inode: InodeNumber) -> u32 {
    fs.attributes(inode).unwrap().links
}

fn names(fs: &Tmpfs, directory: InodeNumber) -> Vec<String> {
    let entries = list_directory(fs, directory, 0, usize::MAX).unwrap();
    entries.into_iter().map(|e| String::from_utf8(e.name).unwrap()).collect()
}

#[test]
fn created_inodes_have_the_attributes_asked_for() {
    let fs = mount();
    let file = make(&fs, ROOT, "f", FileType::Regular);
    assert_eq!((file.permissions, file.user, file.group), (0o644, 1, 2));
    assert_eq!((file.links, file.size, file.device), (1, 0, (0, 0)));
    assert_eq!(file.created, NOW);
    let node = make(&fs, ROOT, "d", FileType::Block);
    assert_eq!(node.device, (8, 1));
    let link = make(&fs, ROOT, "l", FileType::Symlink);
    assert_eq!((link.size, fs.read_link(link.inode).unwrap()), (2, b"to".to_vec()));
    assert_eq!(fs.read_link(file.inode), Err(FsError::Invalid));
    assert_eq!(fs.lookup(ROOT, b"f").unwrap().inode, file.inode);
    assert_eq!(fs.lookup(ROOT, b"g"), Err(FsError::NotFound));
    assert_eq!(fs.lookup(file.inode, b"g"), Err(FsError::NotDirectory));
}

#[test]
fn a_name_is_made_once_and_bad_names_are_refused() {
    let fs = mount();
    make(&fs, ROOT, "f", FileType::Regular);
    let new = new_inode(FileType::Regular);
    assert_eq!(fs.create(ROOT, b"f", &new), Err(FsError::Exists));
    assert_eq!(fs.create(ROOT, &[b'x'; 256], &new), Err(FsError::NameTooLong));
    assert_eq!(fs.create(ROOT, b"a/b", &new), Err(FsError::Invalid));
    assert_eq!(fs.create(ROOT, b"..", &new), Err(FsError::Invalid));
    let target = [b'x'; 4096];
    let long = NewInode { target: &target, ..new_inode(FileType::Symlink) };
    assert_eq!(fs.create(ROOT, b"l", &long), Err(FsError::NameTooLong));
}

#[test]
fn an_unlinked_file_lives_until_forgotten() {
    let fs = mount();
    let before = fs.usage().unwrap();
    let file = make(&fs, ROOT, "f", FileType::Regular);
    fs.reserve(file.inode, 3).unwrap();
    fs.unlink(ROOT, b"f", LATER).unwrap();
    assert_eq!(links(&fs, file.inode), 0);
    assert_eq!(fs.usage().unwrap().free, before.free - 3);
    fs.forget(file.inode, 1);
    assert_eq!(fs.attributes(file.inode), Err(FsError::NotFound));
    assert_eq!(fs.usage().unwrap(), before);
}

#[test]
fn links_count_names_and_a_linked_file_survives_one_unlink() {
    let fs = mount();
    let file = make(&fs, ROOT, "f", FileType::Regular);
    assert_eq!(fs.link(file.inode, ROOT, b"g", LATER).unwrap().links, 2);
    fs.unlink(ROOT, b"f", LATER).unwrap();
    fs.forget(file.inode, 2);
    assert_eq!(fs.lookup(ROOT, b"g").unwrap().links, 1);
    let directory = make(&fs, ROOT, "d", FileType::Directory);
    assert_eq!(fs.link(directory.inode, ROOT, b"e", NOW), Err(FsError::IsDirectory));
}

#[test]
fn an_unnamed_inode_can_be_given_a_name() {
    let fs = mount();
    let file = fs.create_unnamed(ROOT, &new_inode(FileType::Regular)).unwrap();
    assert_eq!(file.links, 0);
    fs.link(file.inode, ROOT, b"f", NOW).unwrap();
    assert_eq!(fs.lookup(ROOT, b"f").unwrap().inode, file.inode);
}

#[test]
fn directories_count_their_subdirectories_and_go_only_when_empty() {
    let fs = mount();
    let d = make(&fs, ROOT, "d", FileType::Directory);
    make(&fs, d.inode, "e", FileType::Directory);
    assert_eq!((links(&fs, ROOT), links(&fs, d.inode)), (3, 3));
    assert_eq!(fs.remove_directory(ROOT, b"d", NOW), Err(FsError::NotEmpty));
    assert_eq!(fs.unlink(ROOT, b"d", NOW), Err(FsError::IsDirectory));
    fs.remove_directory(d.inode, b"e", NOW).unwrap();
    fs.remove_directory(ROOT, b"d", NOW).unwrap();
    assert_eq!(links(&fs, ROOT), 2);
    let refused = fs.create(d.inode, b"x", &new_inode(FileType::Regular));
    assert_eq!(refused, Err(FsError::NotFound));
    make(&fs, ROOT, "f", FileType::Regular);
    assert_eq!(fs.remove_directory(ROOT, b"f", NOW), Err(FsError::NotDirectory));
}

#[test]
fn rename_replaces_and_keeps_link_counts() {
    let fs = mount();
    let a = make(&fs, ROOT, "a", FileType::Directory);
    let b = make(&fs, ROOT, "b", FileType::Directory);
    let moved = make(&fs, a.inode, "m", FileType::Directory);
    let replaced = make(&fs, b.inode, "r", FileType::Directory);
    fs.rename((a.inode, b"m"), (b.inode, b"r"), LATER).unwrap();
    assert_eq!((links(&fs, a.inode), links(&fs, b.inode)), (2, 3));
    assert_eq!(links(&fs, replaced.inode), 0);
    assert_eq!(fs.lookup(b.inode, b"r").unwrap().inode, moved.inode);
    assert_eq!(fs.attributes(moved.inode).unwrap().changed, LATER);
    fs.rename((b.inode, b"r"), (ROOT, b"top"), LATER).unwrap();
    assert_eq!((links(&fs, ROOT), links(&fs, b.inode)), (5, 2));
}

#[test]
fn rename_refuses_what_linux_refuses() {
    let fs = mount();
    let a = make(&fs, ROOT, "a", FileType::Directory);
    let b = make(&fs, a.inode, "b", FileType::Directory);
    make(&fs, b.inode, "c", FileType::Directory);
    make(&fs, ROOT, "f", FileType::Regular);
    let rename = |from, to| fs.rename(from, to, NOW);
    assert_eq!(rename((ROOT, b"a"), (b.inode, b"x")), Err(FsError::Invalid));
    assert_eq!(rename((ROOT, b"a"), (a.inode, b"x")), Err(FsError::Invalid));
    assert_eq!(rename((b.inode, b"c"), (ROOT, b"a")), Err(FsError::NotEmpty));
    assert_eq!(rename((ROOT, b"f"), (ROOT, b"a")), Err(FsError::IsDirectory));
    assert_eq!(rename((ROOT, b"a"), (ROOT, b"f")), Err(FsError::NotDirectory));
    assert_eq!(rename((ROOT, b"no"), (ROOT, b"f")), Err(FsError::NotFound));
    assert_eq!(fs.exchange((ROOT, b"a"), (b.inode, b"c"), NOW), Err(FsError::Invalid));
    assert_eq!(fs.exchange((b.inode, b"c"), (ROOT, b"a"), NOW), Err(FsError::Invalid));
}

#[test]
fn renaming_a_link_onto_its_other_name_changes_nothing() {
    let fs = mount();
    let file = make(&fs, ROOT, "f", FileType::Regular);
    fs.link(file.inode, ROOT, b"g", NOW).unwrap();
    fs.rename((ROOT, b"f"), (ROOT, b"g"), LATER).unwrap();
    assert_eq!(names(&fs, ROOT), ["g", "f"]);
}

#[test]
fn exchange_swaps_a_file_and_a_directory_across_directories() {
    let fs = mount();
    let a = make(&fs, ROOT, "a", FileType::Directory);
    let b = make(&fs, ROOT, "b", FileType::Directory);
    let directory = make(&fs, a.inode, "x", FileType::Directory);
    let file = make(&fs, b.inode, "y", FileType::Regular);
    fs.exchange((a.inode, b"x"), (b.inode, b"y"), LATER).unwrap();
    assert_eq!(fs.lookup(a.inode, b"x").unwrap().inode, file.inode);
    assert_eq!(fs.lookup(b.inode, b"y").unwrap().inode, directory.inode);
    assert_eq!((links(&fs, a.inode), links(&fs, b.inode)), (2, 3));
    assert_eq!(fs.rename((ROOT, b"b"), (directory.inode, b"z"), NOW), Err(FsError::Invalid));
}

#[test]
fn the_newest_name_is_listed_first() {
    let fs = mount();
    for name in ["a", "c", "b"] {
        make(&fs, ROOT, name, FileType::Regular);
    }
    assert_eq!(names(&fs, ROOT), ["b", "c", "a"]);
}

#[test]
fn a_directory_reader_sees_every_lasting_name_once_under_change() {
    let fs = mount();
    for number in 0..100 {
        make(&fs, ROOT, &format!("keep{number}"), FileType::Regular);
        make(&fs, ROOT, &format!("drop{number}"), FileType::Regular);
    }
    let (mut position, mut seen, mut round) = (0, Vec::new(), 0);
    loop {
        let entries = list_directory(&*fs, ROOT, position, 7).unwrap();
        let Some(last) = entries.last() else { break };
        position = last.next;
        seen.extend(entries.iter().map(|e| String::from_utf8(e.name.clone()).unwrap()));
        if round < 100 {
            let _ = fs.unlink(ROOT, format!("drop{round}").as_bytes(), NOW);
            make(&fs, ROOT, &format!("new{round}"), FileType::Regular);
        }
        round += 1;
    }
    let kept: Vec<_> = seen.iter().filter(|name| name.starts_with("keep")).collect();
    assert_eq!(kept.len(), 100);
    assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn limits_of_space_and_inodes_are_kept() {
    let fs =
        new(Options { size_bytes: Some(8192), inodes: Some(2), ..Options::default() }).unwrap();
    let file = make(&fs, ROOT, "f", FileType::Regular);
    let refused = fs.create(ROOT, b"g", &new_inode(FileType::Regular));
    assert_eq!(refused, Err(FsError::NoSpace));
    fs.reserve(file.inode, 2).unwrap();
    assert_eq!(fs.attributes(file.inode).unwrap().blocks, 16);
    assert_eq!(fs.reserve(file.inode, 1), Err(FsError::NoSpace));
    fs.release(file.inode, 9);
    assert_eq!(fs.usage().unwrap().free, 2);
}

#[test]
fn memory_refused_leaves_nothing_behind() {
    let fs = mount();
    for grants in 0..2 {
        rt::host::refuse_after(Some(grants));
        let refused = fs.create(ROOT, b"f", &new_inode(FileType::Regular));
        rt::host::refuse_after(None);
        assert_eq!(refused, Err(FsError::NoMemory));
    }
    assert_eq!(fs.usage().unwrap().files_free, 9_999);
    assert!(names(&fs, ROOT).is_empty());
}

#[test]
fn sizes_change_of_regular_files_only() {
    let fs = mount();
    let file = make(&fs, ROOT, "f", FileType::Regular);
    let resize = |size| AttributeChange { size: Some(size), ..AttributeChange::default() };
    assert_eq!(fs.set_attributes(file.inode, &resize(77)).unwrap().size, 77);
    let refused = fs.set_attributes(file.inode, &resize(1 << 63));
    assert_eq!(refused, Err(FsError::FileTooBig));
    assert_eq!(fs.set_attributes(ROOT, &resize(0)), Err(FsError::IsDirectory));
    let mode = AttributeChange { permissions: Some(0o7755), ..AttributeChange::default() };
    assert_eq!(fs.set_attributes(file.inode, &mode).unwrap().permissions, 0o7755);
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let fs = mount();
    let set = |name: &[u8], mode| fs.set_xattr(ROOT, name, b"v", mode, LATER);
    set(b"user.a", XattrMode::Create).unwrap();
    set(b"trusted.b", XattrMode::Set).unwrap();
    assert_eq!(set(b"user.a", XattrMode::Create), Err(FsError::Exists));
    assert_eq!(set(b"user.c", XattrMode::Replace), Err(FsError::NoAttribute));
    assert_eq!(set(b"system.x", XattrMode::Set), Err(FsError::Unsupported));
    assert_eq!(fs.get_xattr(ROOT, b"user.a").unwrap(), b"v");
    assert_eq!(fs.list_xattr(ROOT).unwrap(), [b"trusted.b".to_vec(), b"user.a".to_vec()]);
    fs.remove_xattr(ROOT, b"user.a", LATER).unwrap();
    assert_eq!(fs.get_xattr(ROOT, b"user.a"), Err(FsError::NoAttribute));
}

/// A small xorshift generator, one a thread.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

/// One random change of a small tree.
fn storm(fs: &Tmpfs, directories: &[InodeNumber], random: &mut u64) {
    let mut place = || {
        let directory = directories[next(random) % directories.len()];
        (directory, [b'a' + (next(random) % 6) as u8])
    };
    let (from, to) = (place(), place());
    let (from, to) = ((from.0, &from.1[..]), (to.0, &to.1[..]));
    let kind = if next(random).is_multiple_of(2) { FileType::Regular } else { FileType::Directory };
    match next(random) % 7 {
        0 | 1 => {
            if let Ok(made) = fs.create(from.0, from.1, &new_inode(kind)) {
                fs.forget(made.inode, 1);
            }
        }
        2 => drop(fs.unlink(from.0, from.1, NOW)),
        3 => drop(fs.remove_directory(from.0, from.1, NOW)),
        4 => drop(fs.rename(from, to, NOW)),
        5 => drop(fs.exchange(from, to, NOW)),
        _ => {
            if let Ok(found) = fs.lookup(from.0, from.1) {
                if let Ok(linked) = fs.link(found.inode, to.0, to.1, NOW) {
                    fs.forget(linked.inode, 1);
                }
                fs.forget(found.inode, 1);
            }
        }
    }
}

fn check_tree(fs: &Tmpfs, directory: InodeNumber, count: &mut u64) {
    let node = fs.node(directory).unwrap();
    let subdirectories = node.state.lock().names.subdirectories();
    assert_eq!(links(fs, directory), 2 + subdirectories);
    for entry in list_directory(fs, directory, 0, usize::MAX).unwrap() {
        *count += 1;
        assert!(*count < 100_000, "the tree has a loop");
        if entry.file_type == Some(FileType::Directory) {
            assert_eq!(fs.node(entry.inode).unwrap().parent(), directory);
            check_tree(fs, entry.inode, count);
        }
    }
}

#[test]
fn a_storm_of_renames_from_four_threads_keeps_a_tree() {
    let fs = mount();
    let mut directories = vec![ROOT];
    for name in ["p", "q", "r", "s"] {
        let above = *directories.last().unwrap();
        directories.push(make(&fs, above, name, FileType::Directory).inode);
    }
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (fs, directories) = (&fs, &directories);
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (0..20_000).for_each(|_| storm(fs, directories, &mut random));
            });
        }
    });
    check_tree(&fs, ROOT, &mut 0);
}

fn free_inodes(fs: &Tmpfs) -> u64 {
    fs.usage().unwrap().files_free
}

fn set_xattr(fs: &Tmpfs, inode: InodeNumber, name: &str, bytes: usize) -> Result<(), FsError> {
    fs.set_xattr(inode, name.as_bytes(), &vec![7; bytes], XattrMode::Set, NOW)
}

#[test]
fn attributes_links_and_long_targets_take_from_the_limit_of_inodes_and_give_back() {
    let fs = mount();
    let before = free_inodes(&fs);
    let file = make(&fs, ROOT, "f", FileType::Regular).inode;
    assert_eq!(free_inodes(&fs), before - 1);
    set_xattr(&fs, file, "user.large", 50_000).unwrap();
    let with = free_inodes(&fs);
    assert!((before - 55..before - 45).contains(&with), "{with} of {before}");
    set_xattr(&fs, file, "user.large", 10).unwrap();
    assert!(free_inodes(&fs) >= before - 2, "a shorter value gives back");
    set_xattr(&fs, file, "user.large", 50_000).unwrap();
    fs.link(file, ROOT, b"g", NOW).unwrap();
    assert_eq!(free_inodes(&fs), with - 1);
    fs.unlink(ROOT, b"g", NOW).unwrap();
    fs.remove_xattr(file, b"user.large", NOW).unwrap();
    assert_eq!(free_inodes(&fs), before - 1);
    let target = [b'x'; 4000];
    let new = NewInode { target: &target, ..new_inode(FileType::Symlink) };
    let link = fs.create(ROOT, b"l", &new).unwrap();
    assert_eq!(free_inodes(&fs), before - 6);
    set_xattr(&fs, file, "user.a", 5000).unwrap();
    for (name, inode, holds) in [(&b"f"[..], file, 2), (b"l", link.inode, 1)] {
        fs.unlink(ROOT, name, NOW).unwrap();
        fs.forget(inode, holds);
    }
    assert_eq!(free_inodes(&fs), before);
}

#[test]
fn attributes_beyond_the_limit_are_refused() {
    let fs = new(Options { inodes: Some(100), ..Options::default() }).unwrap();
    let file = make(&fs, ROOT, "f", FileType::Regular).inode;
    assert_eq!(set_xattr(&fs, file, "user.a", 60_000), Ok(()));
    assert_eq!(set_xattr(&fs, file, "user.b", 60_000), Err(FsError::NoSpace));
    assert_eq!(set_xattr(&fs, file, "user.b", 10_000), Ok(()));
    let unlimited = new(Options { inodes: Some(0), ..Options::default() }).unwrap();
    let file = make(&unlimited, ROOT, "f", FileType::Regular).inode;
    let set = |number| set_xattr(&unlimited, file, &format!("user.{number}"), 60_000);
    assert_eq!((0..10).filter(|&number| set(number).is_ok()).count(), 2);
}
