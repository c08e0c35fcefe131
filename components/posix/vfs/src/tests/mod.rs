//! Tests of the component over tmpfs and over a storage of its own ([`storage`]).
mod at_once;
mod charges;
mod data;
mod generated;
mod kept;
mod model;
mod mounts;
mod names;
mod oracle;
mod rights;
mod shelf;
mod space;
mod storage;
mod walks;
mod writing;

use crate::{
    Active, Base, Caller, Credentials, Errno, MountFlags, NOBODY, Namespace, OpenFile, OpenHow,
    Path,
    devices::Registry,
    io::{SliceSink, SliceSource},
};
use linux_raw_sys::general as raw;
use std::sync::{Arc, RwLock};

/// Freeing memory affects every file of the process: tests that cause it hold this to write, tests
/// that count requests to read.
pub(super) static RECLAIM: RwLock<()> = RwLock::new(());

/// A namespace over a fresh tmpfs, and a caller in it.
pub(super) struct World {
    pub namespace: Arc<Namespace>,
    pub root: Path,
    pub cwd: Path,
    pub who: Credentials,
    pub umask: u16,
}

pub(super) fn tmpfs() -> Arc<Active> {
    let options = tmpfs::Options { permissions: 0o755, ..Default::default() };
    Active::stored(&(), tmpfs::new(options).unwrap(), None).unwrap()
}

impl World {
    pub fn new() -> World {
        World::over(tmpfs())
    }
    pub fn over(active: Arc<Active>) -> World {
        let registry = Arc::new(Registry::new());
        let namespace = Namespace::new(&(), "none", active, MountFlags::empty(), registry);
        let root = namespace.root();
        World { namespace, cwd: root.clone(), root, who: Credentials::root(), umask: 0o022 }
    }
    /// Returns the same namespace with another caller.
    pub fn with(&self, who: Credentials) -> World {
        World {
            namespace: self.namespace.clone(),
            root: self.root.clone(),
            cwd: self.cwd.clone(),
            who,
            umask: self.umask,
        }
    }
    pub fn caller(&self) -> Caller<'_> {
        Caller {
            task: NOBODY,
            namespace: &self.namespace,
            credentials: &self.who,
            root: &self.root,
            cwd: &self.cwd,
            umask: self.umask,
            process: 1,
            thread: 1,
        }
    }
    pub fn open(&self, path: &str, flags: u32) -> Result<Arc<OpenFile>, Errno> {
        self.caller().open(Base::Cwd, path.as_bytes(), OpenHow::with_mode(flags, 0o666))
    }
    pub fn mkdir(&self, path: &str) -> Result<(), Errno> {
        self.caller().make_directory(Base::Cwd, path.as_bytes(), 0o777)
    }
    pub fn symlink(&self, target: &str, path: &str) -> Result<(), Errno> {
        self.caller().make_link(target.as_bytes(), Base::Cwd, path.as_bytes())
    }
    pub fn unlink(&self, path: &str) -> Result<(), Errno> {
        self.caller().unlink(Base::Cwd, path.as_bytes())
    }
    pub fn rmdir(&self, path: &str) -> Result<(), Errno> {
        self.caller().remove_directory(Base::Cwd, path.as_bytes())
    }
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        self.rename_as(from, to, crate::operations::RenameMode::Replace)
    }
    pub fn rename_as(
        &self,
        from: &str,
        to: &str,
        mode: crate::operations::RenameMode,
    ) -> Result<(), Errno> {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        self.caller().rename((Base::Cwd, from), (Base::Cwd, to), mode)
    }
    pub fn walk(&self, path: &str) -> Result<Path, Errno> {
        self.caller().walk(Base::Cwd, path.as_bytes(), crate::Walk::FOLLOW)
    }
    pub fn walk_link(&self, path: &str) -> Result<Path, Errno> {
        self.caller().walk(Base::Cwd, path.as_bytes(), crate::Walk::empty())
    }
    pub fn write(&self, path: &str, data: &[u8]) -> Result<(), Errno> {
        let file = self.open(path, raw::O_CREAT | raw::O_WRONLY | raw::O_TRUNC)?;
        assert_eq!(put(&file, data)?, data.len());
        Ok(())
    }
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        get(&*self.open(path, raw::O_RDONLY)?)
    }
    pub fn name(&self, path: &Path) -> String {
        String::from_utf8(path.describe(&self.root).text).unwrap()
    }
    pub fn list(&self, path: &str) -> Vec<String> {
        let directory = self.open(path, raw::O_RDONLY | raw::O_DIRECTORY).unwrap();
        let mut names = Vec::new();
        directory
            .read_directory(NOBODY, &mut |entry| {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                true
            })
            .unwrap();
        names.sort();
        names
    }
}

/// Reads from the offset to the end.
pub(super) fn get(file: &OpenFile) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    loop {
        let mut part = vec![0; 10_000];
        let count = file.read(&mut SliceSink::new(&mut part))?;
        if count == 0 {
            return Ok(all);
        }
        all.extend_from_slice(&part[..count]);
    }
}

pub(super) fn put(file: &OpenFile, data: &[u8]) -> Result<usize, Errno> {
    file.write(&mut SliceSource::new(data))
}
