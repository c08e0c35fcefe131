//! Comparisons of a tree with two oracles: the crate ext4-view, and the folder of which the image was
//! made.
use super::walk::{Seen, Tree};
use interfaces::file_system::FileType;
use std::{fs, os::unix::ffi::OsStrExt, path::Path};

/// Compares with ext4-view: every name, type, mode, owner, length and content. Returns `false` if it
/// cannot read such images.
pub fn compare_with_ext4_view(image: &[u8], tree: &Tree) -> bool {
    let oracle = match ext4_view::Ext4::load(Box::new(image.to_vec())) {
        Ok(oracle) => oracle,
        Err(ext4_view::Ext4Error::Incompatible(_)) => return false,
        Err(error) => panic!("ext4-view: {error}"),
    };
    let mut count = 0;
    compare_directory(&oracle, b"", tree, &mut count);
    assert_eq!(count, tree.seen.len());
    true
}

fn compare_directory(oracle: &ext4_view::Ext4, path: &[u8], tree: &Tree, count: &mut usize) {
    let shown = if path.is_empty() { b"/" } else { path };
    for entry in oracle.read_dir(&ext4_view::PathBuf::new(shown)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name.as_ref() == b"." || name.as_ref() == b".." {
            continue;
        }
        *count += 1;
        let path = [path, b"/", name.as_ref()].concat();
        let seen = tree.seen.get(&path).expect("a name the oracle sees");
        let theirs = oracle.symlink_metadata(&ext4_view::PathBuf::new(&path)).unwrap();
        let ours = seen.attributes;
        assert_eq!(theirs.mode() & 0o7777, ours.permissions);
        assert_eq!((theirs.uid(), theirs.gid(), theirs.len()), (ours.user, ours.group, ours.size));
        assert_eq!(theirs.is_dir(), ours.file_type == FileType::Directory);
        assert_eq!(theirs.is_symlink(), ours.file_type == FileType::Symlink);
        compare_contents(oracle, &path, seen);
        if theirs.is_dir() {
            compare_directory(oracle, &path, tree, count);
        }
    }
}

fn compare_contents(oracle: &ext4_view::Ext4, path: &[u8], seen: &Seen) {
    let at = ext4_view::PathBuf::new(path);
    let theirs = match seen.attributes.file_type {
        FileType::Regular if seen.attributes.size < 1 << 30 => oracle.read(&at).unwrap(),
        FileType::Symlink => oracle.read_link(&at).unwrap().as_path().as_ref().to_vec(),
        _ => return,
    };
    assert!(seen.contents.as_ref() == Ok(&theirs), "{}", String::from_utf8_lossy(path));
}

/// Compares with the folder: every name of it must exist with the same content, links and size.
pub fn compare_with_folder(folder: &Path, tree: &Tree) {
    assert_eq!(tree.errors, []);
    compare_folder(folder, b"", tree);
}

fn compare_folder(folder: &Path, path: &[u8], tree: &Tree) {
    use std::os::unix::fs::MetadataExt;
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = [path, b"/", entry.file_name().as_bytes()].concat();
        let seen = tree.seen.get(&path).unwrap_or_else(|| panic!("{:?} is missing", entry.path()));
        let theirs = entry.path().symlink_metadata().unwrap();
        let contents = seen.contents.as_ref().expect("contents");
        if theirs.is_dir() {
            compare_folder(&entry.path(), &path, tree);
            continue;
        }
        assert_eq!(theirs.len(), seen.attributes.size, "{:?}", entry.path());
        assert_eq!(theirs.nlink(), u64::from(seen.attributes.links));
        assert_eq!(theirs.mtime(), seen.attributes.modified.seconds);
        if theirs.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            assert_eq!(target.as_os_str().as_bytes(), contents);
        } else if theirs.len() > 1 << 30 {
            let end = contents.len() - 4096;
            assert_eq!(contents[end..end + 21], *b"beyond four gigabytes");
            assert!(contents[..end].iter().chain(&contents[end + 21..]).all(|byte| *byte == 0));
        } else {
            assert!(fs::read(entry.path()).unwrap() == *contents, "{:?}", entry.path());
        }
    }
}
