//! Inodes with labels. The last part of a name, behind its last hyphen, is a number of which the label is made.
use super::walk::Tree;
use interfaces::file_system::*;

/// Returns the label of an inode by its name; every third does not fit in an inode of 256 bytes.
pub fn label_of(name: &str) -> Vec<u8> {
    let number: usize = name.rsplit('-').next().unwrap().parse().unwrap();
    let categories = if number.is_multiple_of(3) { ":c1,c2,c3".repeat(16) } else { String::new() };
    format!("system_u:object_r:t{number}:s0{categories}").into_bytes()
}

/// Creates an inode with the label of its name and forgets it.
pub fn make_labelled(
    fs: &dyn FileSystem,
    directory: InodeNumber,
    name: &str,
    new: &NewInode<'_>,
) -> InodeNumber {
    let new = NewInode { label: &label_of(name), ..*new };
    let made = fs.create(directory, name.as_bytes(), &new).unwrap();
    fs.forget(made.inode, 1);
    made.inode
}

/// Checks that each inode with a name has the label that it was made with; those of mke2fs and e2fsck have none.
/// Returns their number.
pub fn check_labels(tree: &Tree) -> usize {
    let mine = tree.seen.iter().filter(|(path, _)| !path.starts_with(b"/lost+found"));
    mine.map(|(path, seen)| {
        let path = str::from_utf8(path).unwrap();
        let label = seen.xattrs.as_ref().unwrap().get(LABEL_NAME);
        assert_eq!(label, Some(&label_of(path)), "{path} has its label");
    })
    .count()
}
