//! A walk over a whole tree through the interface, within a budget.
use interfaces::file_system::*;
use rt::{PAGE_BYTES, memory::Frame};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
};

/// The data read of one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Attributes.
    pub attributes: Attributes,
    /// Contents or target: up to the budget's bytes from the start.
    pub contents: Result<Vec<u8>, FsError>,
    /// Extended attributes.
    pub xattrs: Result<BTreeMap<Vec<u8>, Vec<u8>>, FsError>,
}

/// The limits of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The greatest number of names.
    pub names: usize,
    /// The greatest number of levels of directories.
    pub depth: usize,
    /// The greatest number of pages read of each file.
    pub pages: u64,
}

impl Budget {
    /// Enough for every image of the tests.
    pub const WHOLE: Budget = Budget { names: 1_000_000, depth: 100, pages: 2_000_000 };
}

/// All files by path, with errors of directories and lookups.
#[derive(Default)]
pub struct Tree {
    pub seen: BTreeMap<Vec<u8>, Seen>,
    pub errors: Vec<(Vec<u8>, FsError)>,
}

/// Walks the tree from the root.
pub fn walk(fs: &dyn FileSystem, budget: Budget) -> Tree {
    let mut tree = Tree::default();
    let mut names = budget.names;
    let root = fs.mount_info().root;
    walk_directory(fs, (root, b"", budget.depth), budget, &mut names, &mut tree);
    tree
}

fn walk_directory(
    fs: &dyn FileSystem,
    (directory, path, depth): (InodeNumber, &[u8], usize),
    budget: Budget,
    names: &mut usize,
    tree: &mut Tree,
) {
    let mut position = 0;
    loop {
        let entries = match list_directory(fs, directory, position, 100) {
            Ok(entries) => entries,
            Err(error) => return tree.errors.push((path.to_vec(), error)),
        };
        let Some(last) = entries.last() else { return };
        assert!(last.next > position, "a directory goes on");
        position = last.next;
        for entry in entries {
            if *names == 0 {
                return;
            }
            *names -= 1;
            let path = [path, b"/", &entry.name].concat();
            match fs.lookup(directory, &entry.name) {
                Err(error) => tree.errors.push((path, error)),
                Ok(found) => {
                    if found.file_type == FileType::Directory && depth > 0 {
                        let place = (found.inode, &path[..], depth - 1);
                        walk_directory(fs, place, budget, names, tree);
                    }
                    tree.seen.insert(path, see(fs, found, budget));
                    fs.forget(found.inode, 1);
                }
            }
        }
    }
}

fn see(fs: &dyn FileSystem, attributes: Attributes, budget: Budget) -> Seen {
    let inode = attributes.inode;
    let contents = match attributes.file_type {
        FileType::Symlink => fs.read_link(inode),
        FileType::Regular => read(fs, &attributes, budget.pages),
        _ => Ok(Vec::new()),
    };
    let xattrs = fs.list_xattr(inode).map(|names| {
        let value = |name: Vec<u8>| fs.get_xattr(inode, &name).map(|value| (name, value));
        names.into_iter().filter_map(|name| value(name).ok()).collect()
    });
    Seen { attributes, contents, xattrs }
}

/// Pages read at once.
const BATCH: u64 = 48;

/// Reads a file from the start. Skips a part that by the number of its blocks must be one huge
/// hole.
fn read(fs: &dyn FileSystem, attributes: &Attributes, pages: u64) -> Result<Vec<u8>, FsError> {
    let end = attributes.size.div_ceil(PAGE_BYTES as u64).min(pages);
    let mut contents = Vec::new();
    let is_sparse = attributes.size > 1 << 30;
    let mut first = if is_sparse { end.saturating_sub(BATCH) } else { 0 };
    while first < end {
        let count = BATCH.min(end - first);
        contents.extend(read_pages(fs, attributes.inode, first, count)?);
        first += count;
    }
    if !is_sparse && end * PAGE_BYTES as u64 >= attributes.size {
        let (_, beyond) = contents.split_at(attributes.size as usize);
        assert!(beyond.iter().all(|byte| *byte == 0), "the tail is cleared");
        contents.truncate(attributes.size as usize);
    }
    Ok(contents)
}

/// A sink that records the results of a transfer.
#[derive(Default)]
pub struct Sink {
    told: Mutex<BTreeMap<u64, Result<(), FsError>>>,
    changed: Condvar,
}

impl PageSink for Sink {
    fn pages_done(&self, tag: u64, first: u64, count: usize, result: Result<(), FsError>) {
        assert_eq!(tag, 77);
        let mut told = self.told.lock().unwrap();
        for page in (first..).take(count) {
            assert!(told.insert(page, result).is_none(), "page {page} is told once");
        }
        self.changed.notify_all();
    }
}

impl Sink {
    /// Waits for the results of `count` pages. Returns the first error.
    pub fn wait(&self, count: u64) -> Result<(), FsError> {
        let told = self.told.lock().unwrap();
        let told = self.changed.wait_while(told, |told| (told.len() as u64) < count).unwrap();
        told.values().copied().find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// Reads pages and waits for every one.
pub fn read_pages(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    first: u64,
    count: u64,
) -> Result<Vec<u8>, FsError> {
    let mut frames = Vec::new();
    Frame::allocate_unfilled(count as usize, &mut frames).unwrap();
    let sink = Arc::new(Sink::default());
    let handle: Arc<dyn PageSink> = Arc::clone(&sink) as Arc<dyn PageSink>;
    fs.read_pages(inode, first, frames.clone(), 77, &handle);
    let told = sink.told.lock().unwrap();
    let told = sink.changed.wait_while(told, |told| (told.len() as u64) < count).unwrap();
    let mut contents = vec![0; frames.len() * PAGE_BYTES];
    for ((page, frame), bytes) in (first..).zip(&frames).zip(contents.chunks_mut(PAGE_BYTES)) {
        told[&page]?;
        frame.read(0, bytes);
    }
    Ok(contents)
}
