//! Tests of files replaced without fsync, through the personality's page cache, as programs do it: written under
//! another name that is then renamed over the file's, or emptied and written anew. After a rename, a crash at any
//! write leaves the old contents or the new ones. A file that was emptied may also be found empty, until something
//! that was done after it was closed is durable.
//!
//! `SKERRY_CRASH_COUNT` is the number of images for each shape (default 40), `SKERRY_CRASH_SEED` the first seed.
use crate::common::{
    cut::{crashed, number},
    device::{Completion, Event, MemoryBlock},
    image::{Recipe, pattern},
    mutate::Random,
    walk::read_pages,
    write::{check, fsck},
};
use ext4::{MountOptions, mount};
use interfaces::file_system::FileSystem;
use linux_raw_sys::general as raw;
use std::{fs, sync::Arc};
use tempfile::TempDir;
use vfs::{
    Active, Base, Caller, Credentials, MountFlags, NOBODY, Namespace, OpenHow, Path,
    devices::Registry, file::SyncKind, io::SliceSource, operations::RenameMode,
};

const VERSIONS: usize = 14;
const EMPTIED: u32 = raw::O_CREAT | raw::O_TRUNC | raw::O_WRONLY;

/// The way in which a file gets its next version.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// The version is written to another file, which takes the name.
    Rename,
    /// The file is opened with O_TRUNC.
    Open,
    /// The file is cut to zero by ftruncate.
    Truncate,
}

/// The personality's files over a volume.
struct Stack {
    device: Arc<MemoryBlock>,
    namespace: Arc<Namespace>,
    root: Path,
    who: Credentials,
}

impl Stack {
    fn new(image: Vec<u8>, options: MountOptions) -> Stack {
        let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
        let fs = mount(Arc::clone(&device) as _, options).unwrap();
        let active = Active::stored(&(), fs, None).unwrap();
        *device.events.lock().unwrap() = Some(Vec::new());
        let registry = Arc::new(Registry::new());
        let namespace = Namespace::new(&(), "none", active, MountFlags::empty(), registry);
        let root = namespace.root();
        Stack { device, namespace, root, who: Credentials::root() }
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            task: NOBODY,
            namespace: &self.namespace,
            credentials: &self.who,
            root: &self.root,
            cwd: &self.root,
            umask: 0,
            process: 1,
            thread: 1,
        }
    }

    fn open(&self, name: &str, flags: u32) -> Arc<vfs::OpenFile> {
        let how = OpenHow::with_mode(flags, 0o644);
        self.caller().open(Base::Cwd, name.as_bytes(), how).unwrap()
    }

    fn put(&self, name: &str, flags: u32, bytes: &[u8]) {
        let file = self.open(name, flags);
        assert_eq!(file.write(&mut SliceSource::new(bytes)), Ok(bytes.len()));
    }

    fn replace(&self, how: How, bytes: &[u8]) {
        match how {
            How::Rename => {
                self.put("/new", EMPTIED, bytes);
                let (from, to) = ((Base::Cwd, &b"/new"[..]), (Base::Cwd, &b"/file"[..]));
                self.caller().rename(from, to, RenameMode::Replace).unwrap();
            }
            How::Open => self.put("/file", EMPTIED, bytes),
            How::Truncate => {
                let file = self.open("/file", raw::O_WRONLY);
                file.truncate(0, NOBODY).unwrap();
                assert_eq!(file.write(&mut SliceSource::new(bytes)), Ok(bytes.len()));
            }
        }
    }

    /// Makes another file durable, and with it all that was committed before.
    fn sync_other(&self, number: usize) {
        let file = self.open("/other", raw::O_CREAT | raw::O_WRONLY | raw::O_APPEND);
        file.write(&mut SliceSource::new(&pattern(100 + number, 3))).unwrap();
        file.file().sync(SyncKind::All).unwrap();
    }

    fn events(&self) -> usize {
        self.device.events.lock().unwrap().as_ref().unwrap().len()
    }
}

/// A version of the file: the events at which it was begun, and from which on it must be there.
struct Version {
    contents: Vec<u8>,
    begun: usize,
    durable: usize,
}

struct Recorded {
    image: Vec<u8>,
    events: Vec<Event>,
    versions: Vec<Version>,
}

fn record(shape: &'static [&'static str], how: How, seed: u64) -> Recorded {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), pattern(5000, 0)).unwrap();
    let image = Recipe::new(shape, 10 << 10).make(folder.path());
    let mut random = Random::new(seed);
    let stack = Stack::new(image, MountOptions::default());
    // A mount that is not marked on the device would keep `e2fsck -p` from looking.
    let image = stack.device.image();
    let first = Version { contents: pattern(5000, 0), begun: 0, durable: 0 };
    let mut versions = vec![first];
    for number in 1..=VERSIONS {
        let contents = pattern(1 + random.below(50_000), number);
        let begun = stack.events();
        stack.replace(how, &contents);
        versions.push(Version { contents, begun, durable: usize::MAX });
        if random.below(2) == 0 {
            stack.sync_other(number);
            let now = stack.events();
            versions.iter_mut().for_each(|version| version.durable = version.durable.min(now));
        }
    }
    let events = stack.device.events.lock().unwrap().take().unwrap();
    Recorded { image, events, versions }
}

/// Returns the contents of `file`, or of `new` if there is no `file`.
fn found(image: Vec<u8>) -> Vec<u8> {
    let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    // Without a journal a crash in the midst of a rename can leave the new contents under the old name alone.
    let file = fs.lookup(2, b"file").or_else(|_| fs.lookup(2, b"new")).unwrap();
    let mut bytes = read_pages(&*fs, file.inode, 0, file.size.div_ceil(4096)).unwrap();
    bytes.truncate(file.size as usize);
    fs.forget(file.inode, 1);
    fs.unmount().unwrap();
    check(&device.image());
    bytes
}

/// Returns the version found, if it is allowed; `None` for an empty file that is allowed.
fn judge(recorded: &Recorded, how: How, cut: usize, found: &[u8]) -> Result<Option<usize>, String> {
    let versions = &recorded.versions;
    let least = versions.iter().rposition(|version| version.durable <= cut).unwrap();
    let most = versions.iter().rposition(|version| version.begun <= cut).unwrap();
    let at = (least..=most).find(|number| versions[*number].contents == found);
    match at {
        Some(at) => Ok(Some(at)),
        None if found.is_empty() && how != How::Rename && most > least => Ok(None),
        None => Err(format!("{} bytes: none of versions {least} to {most}", found.len())),
    }
}

fn crash(shape: &'static [&'static str], block: usize) {
    let (count, first) = (number("SKERRY_CRASH_COUNT", 40), number("SKERRY_CRASH_SEED", 0));
    let has_journal = !shape.iter().any(|option| option.contains("^has_journal"));
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    for how in [How::Rename, How::Open, How::Truncate] {
        let recorded = record(shape, how, first);
        let (mut newer, mut empty) = (0, 0);
        for seed in first..first + count {
            let mut random = Random::new(seed);
            let cut = random.below(recorded.events.len() + 1);
            let mut image = crashed(&recorded.image, &recorded.events, cut, block, &mut random);
            if !has_journal {
                fs::write(&path, &image).unwrap();
                fsck(&path, &["-p"], &[0, 1]);
                image = fs::read(&path).unwrap();
            }
            match judge(&recorded, how, cut, &found(image)) {
                Ok(Some(version)) => newer += usize::from(version > 0),
                Ok(None) => empty += 1,
                Err(why) => panic!("{shape:?}, {how:?}, seed {seed}, cut {cut}: {why}"),
            }
        }
        println!("{shape:?}, {how:?}: {count} cuts, {newer} newer versions, {empty} empty");
    }
}

#[test]
fn a_replaced_file_is_whole_after_every_crash() {
    crash(&["-b", "4096", "-J", "size=4"], 4096);
}

#[test]
fn a_replaced_file_of_small_blocks_is_whole_after_every_crash() {
    crash(&["-b", "1024", "-J", "size=1"], 1024);
}

#[test]
fn a_file_replaced_without_a_journal_is_whole_after_every_crash() {
    crash(&["-b", "4096", "-O", "^has_journal"], 4096);
}

#[test]
fn noauto_da_alloc_lets_the_data_wait() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), pattern(5000, 0)).unwrap();
    let image = Recipe::new(&["-b", "4096", "-J", "size=4"], 10 << 10).make(folder.path());
    for (options, whole) in
        [(&b"rw,noauto_da_alloc"[..], false), (b"noauto_da_alloc,auto_da_alloc", true)]
    {
        let stack = Stack::new(image.clone(), MountOptions::parse(options).unwrap());
        let contents = pattern(9000, 1);
        stack.replace(How::Rename, &contents);
        stack.sync_other(0);
        let found = found(stack.device.image());
        assert!(found == if whole { contents } else { Vec::new() }, "{} bytes", found.len());
    }
}
