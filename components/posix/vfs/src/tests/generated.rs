//! Tests of generated trees: changing names, magic links, content made when read.
use super::World;
use crate::Principal;
use crate::{
    Active, Errno, MountFlags, Path, Walk,
    generated::{Child, Node, Viewer, attributes},
};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType, TakeEntry};
use linux_raw_sys::general as raw;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

#[derive(Default)]
struct Shared {
    reads: AtomicU64,
    written: Mutex<Vec<u8>>,
    magic: Mutex<Option<Path>>,
}

enum Kind {
    Root,
    Counter,
    SelfLink,
    Magic,
}

struct Thing(Kind, Arc<Shared>);

impl Node for Thing {
    fn attributes(&self) -> Attributes {
        match self.0 {
            Kind::Root => attributes(1, FileType::Directory, 0o555, (0, 0)),
            Kind::Counter => attributes(2, FileType::Regular, 0o644, (0, 0)),
            Kind::SelfLink => attributes(3, FileType::Symlink, 0o777, (0, 0)),
            Kind::Magic => attributes(4, FileType::Symlink, 0o777, (0, 0)),
        }
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        let kind = match name {
            b"counter" => Kind::Counter,
            b"self" => Kind::SelfLink,
            b"magic" => Kind::Magic,
            b"7" => Kind::Root,
            _ => return Err(Errno::ENOENT),
        };
        Ok(Arc::new(Thing(kind, self.1.clone())))
    }
    fn keeps(&self, name: &[u8]) -> bool {
        name != b"7"
    }
    fn entries(
        &self,
        position: u64,
        _: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let entry = |inode, next, name: &'static [u8]| DirectoryEntry {
            inode,
            file_type: None,
            name,
            next,
        };
        let all = [entry(2, 1, b"counter"), entry(3, 2, b"self")];
        let _ = all.iter().skip(position as usize).try_for_each(take);
        Ok(())
    }
    fn read_link(&self, viewer: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        Ok((viewer.process + 6).to_string().into_bytes())
    }
    fn follow(&self, _: &Viewer<'_>) -> Result<Option<Path>, Errno> {
        match self.0 {
            Kind::Magic => Ok(self.1.magic.lock().unwrap().clone()),
            _ => Ok(None),
        }
    }
    fn generate(&self, _: &dyn Principal) -> Result<Vec<u8>, Errno> {
        Ok(format!("{}\n", self.1.reads.fetch_add(1, Ordering::SeqCst)).into_bytes())
    }
    fn write(&self, data: &[u8], _: &dyn Principal) -> Result<(), Errno> {
        self.1.written.lock().unwrap().extend_from_slice(data);
        Ok(())
    }
}

fn world() -> (World, Arc<Shared>) {
    let world = World::new();
    let shared = Arc::new(Shared::default());
    world.mkdir("/proc").unwrap();
    let root = Arc::new(Thing(Kind::Root, shared.clone()));
    let active = Active::generated("proc", root).unwrap();
    let at = world.walk("/proc").unwrap();
    world.namespace.mount(&world.who, "proc", active, &at, MountFlags::empty()).unwrap();
    (world, shared)
}

#[test]
fn content_is_made_at_each_reading_from_the_start() {
    let (world, _) = world();
    let file = world.open("/proc/counter", raw::O_RDONLY).unwrap();
    assert_eq!(super::get(&file).unwrap(), b"0\n");
    file.seek(0, crate::Whence::Start).unwrap();
    assert_eq!(super::get(&file).unwrap(), b"1\n");
}

#[test]
fn writes_reach_the_node() {
    let (world, shared) = world();
    world.write("/proc/counter", b"on").unwrap();
    assert_eq!(*shared.written.lock().unwrap(), b"on");
}

#[test]
fn links_are_read_as_the_caller_sees_them() {
    let (world, _) = world();
    assert_eq!(world.name(&world.walk("/proc/self/counter").unwrap()), "/proc/7/counter");
    let link = world.walk_link("/proc/self").unwrap();
    assert_eq!(world.caller().read_link(&link).unwrap(), b"7");
}

#[test]
fn a_magic_link_jumps_even_to_what_has_no_name() {
    let (world, shared) = world();
    world.write("/file", b"target").unwrap();
    *shared.magic.lock().unwrap() = Some(world.walk("/file").unwrap());
    world.unlink("/file").unwrap();
    assert_eq!(world.read("/proc/magic").unwrap(), b"target");
    world.write("/proc/magic", b"through").unwrap();
    assert_eq!(world.read("/proc/magic").unwrap(), b"through");
    let flags = Walk::FOLLOW | Walk::NO_MAGIC_LINKS;
    let refused = world.caller().walk(crate::Base::Cwd, b"/proc/magic", flags);
    assert_eq!(refused.err(), Some(Errno::ELOOP));
}

#[test]
fn nothing_can_be_made_or_removed() {
    let (world, _) = world();
    assert_eq!(world.mkdir("/proc/new"), Err(Errno::ENOENT));
    assert_eq!(world.mkdir("/proc/self"), Err(Errno::EEXIST));
    assert_eq!(world.open("/proc/new", raw::O_CREAT | raw::O_WRONLY).err(), Some(Errno::ENOENT));
    assert_eq!(world.unlink("/proc/counter"), Err(Errno::EPERM));
    assert_eq!(world.rename("/proc/counter", "/proc/x"), Err(Errno::ENOENT));
    assert_eq!(world.rename("/proc/counter", "/proc/self"), Err(Errno::EPERM));
    assert_eq!(world.list("/proc"), [".", "..", "counter", "self"]);
}

/// A directory in which programs make names.
#[derive(Default)]
struct Changing(Mutex<Vec<(Vec<u8>, u16)>>);

/// A file in it, with these permissions.
struct Made(u16);

impl Node for Made {
    fn attributes(&self) -> Attributes {
        attributes(6, FileType::Regular, self.0, (0, 0))
    }
    fn generate(&self, _: &dyn Principal) -> Result<Vec<u8>, Errno> {
        Ok(b"made".to_vec())
    }
}

impl Node for Changing {
    fn attributes(&self) -> Attributes {
        attributes(5, FileType::Directory, 0o1777, (0, 0))
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        let names = self.0.lock().unwrap();
        let found = names.iter().find(|(known, _)| known == name).ok_or(Errno::ENOENT)?;
        Ok(Arc::new(Made(found.1)))
    }
    fn entries(&self, _: u64, _: &dyn Principal, _: &mut TakeEntry<'_>) -> Result<(), Errno> {
        Ok(())
    }
    fn can_change(&self) -> bool {
        true
    }
    fn create(&self, name: &[u8], permissions: u16, _: &dyn Principal) -> Result<Child, Errno> {
        self.0.lock().unwrap().push((name.to_vec(), permissions));
        Ok(Arc::new(Made(permissions)))
    }
    fn remove(&self, name: &[u8], _: &dyn Principal) -> Result<(), Errno> {
        self.0.lock().unwrap().retain(|(known, _)| known != name);
        Ok(())
    }
}

#[test]
fn names_come_and_go_where_a_node_lets_them() {
    let world = World::new();
    world.mkdir("/queues").unwrap();
    let active = Active::generated("mqueue", Arc::new(Changing::default())).unwrap();
    let at = world.walk("/queues").unwrap();
    world.namespace.mount(&world.who, "mqueue", active, &at, MountFlags::empty()).unwrap();
    assert_eq!(world.open("/queues/a", raw::O_RDONLY).err(), Some(Errno::ENOENT));
    let new = raw::O_CREAT | raw::O_EXCL | raw::O_RDWR;
    assert!(world.open("/queues/a", new).is_ok());
    assert_eq!(world.open("/queues/a", new).err(), Some(Errno::EEXIST));
    assert_eq!(world.read("/queues/a").unwrap(), b"made");
    assert_eq!(world.mkdir("/queues/a"), Err(Errno::EEXIST));
    assert_eq!(world.mkdir("/queues/b"), Err(Errno::EPERM));
    assert_eq!(world.rename("/queues/a", "/queues/b"), Err(Errno::EPERM));
    assert_eq!(world.rename("/queues/b", "/queues/a"), Err(Errno::ENOENT));
    assert_eq!(world.unlink("/queues/b"), Err(Errno::ENOENT));
    assert_eq!(world.unlink("/queues/a"), Ok(()));
    assert_eq!(world.open("/queues/a", raw::O_RDONLY).err(), Some(Errno::ENOENT));
}

#[test]
fn a_name_that_stays_is_looked_up_once_and_another_at_each_step() {
    let (world, _) = world();
    let is_same = |path: &str| {
        Arc::ptr_eq(&world.walk(path).unwrap().dentry, &world.walk(path).unwrap().dentry)
    };
    assert!(is_same("/proc/counter"));
    assert!(!is_same("/proc/7"));
}
