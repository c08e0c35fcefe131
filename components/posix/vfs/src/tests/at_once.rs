//! Tests of names that are looked up, made, moved and removed at once.
//!
//! [`Watched`] is a slow file system on storage. It asserts the guarantees of the personality to a file system:
//! a thread that changes a name holds it exclusively, and a thread that removes or renames a directory holds
//! the whole directory exclusively.
use super::{World, shelf::Shelf};
use crate::{Active, Base, Errno, Path};
use interfaces::file_system::{
    AttributeChange, Attributes, FileSystem, FileSystemUsage, FileTime, FsError, InodeNumber,
    MountInfo, NewInode, TakeEntry,
};
use linux_raw_sys::general as raw;
use std::{
    sync::{
        Arc, Barrier, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering::*},
    },
    thread,
    time::Duration,
};

/// The files that a call under way uses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// A lookup of a name.
    Looks(InodeNumber, Vec<u8>),
    /// A call that makes or removes a name.
    Changes(InodeNumber, Vec<u8>),
    /// A call that uses all names of a directory.
    Whole(InodeNumber),
}

impl Scope {
    fn excludes(&self, other: &Scope) -> bool {
        use Scope::*;
        let directory = |scope: &Scope| match scope {
            Looks(directory, _) | Changes(directory, _) | Whole(directory) => *directory,
        };
        if directory(self) != directory(other) {
            return false;
        }
        match (self, other) {
            (Whole(_), _) | (_, Whole(_)) => true,
            (Looks(..), Looks(..)) => false,
            (Looks(_, one) | Changes(_, one), Looks(_, name) | Changes(_, name)) => one == name,
        }
    }
}

struct Watched {
    below: Shelf,
    under_way: Mutex<Vec<Scope>>,
    news: Condvar,
    /// Number of calls that must be under way before the waiting ones go on; used once.
    company: AtomicUsize,
    turn: AtomicUsize,
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched {
            below: Shelf::new(),
            under_way: Mutex::new(Vec::new()),
            news: Condvar::new(),
            company: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        })
    }
    fn world(self: &Arc<Self>) -> World {
        World::over(Active::stored(&(), self.clone(), None).unwrap())
    }
    fn within<T>(&self, scopes: &[Scope], call: impl FnOnce() -> T) -> T {
        {
            let mut under_way = self.under_way.lock().unwrap();
            for scope in scopes {
                let conflict = under_way.iter().find(|other| other.excludes(scope));
                assert_eq!(conflict, None, "while {scope:?} begins");
            }
            under_way.extend(scopes.iter().cloned());
            self.news.notify_all();
            let is_alone =
                |under_way: &mut Vec<Scope>| under_way.len() < self.company.load(Relaxed);
            let limit = Duration::from_secs(20);
            let waited = self.news.wait_timeout_while(under_way, limit, is_alone).unwrap();
            assert!(!waited.1.timed_out(), "no other call came");
            self.company.store(0, Relaxed);
        }
        self.dawdle();
        let result = call();
        self.dawdle();
        let mut under_way = self.under_way.lock().unwrap();
        for scope in scopes {
            let at = under_way.iter().position(|other| other == scope).unwrap();
            under_way.swap_remove(at);
        }
        result
    }
    fn dawdle(&self) {
        match self.turn.fetch_add(1, Relaxed) % 5 {
            0 => thread::sleep(Duration::from_micros(30)),
            1 | 2 => thread::yield_now(),
            _ => {}
        }
    }
    /// Returns the inode that a name has in the file system itself, without any cache.
    fn stored(&self, directory: InodeNumber, name: &[u8]) -> Option<InodeNumber> {
        let found = self.below.lookup(directory, name).ok()?;
        self.below.forget(found.inode, 1);
        Some(found.inode)
    }
}

fn looks(directory: InodeNumber, name: &[u8]) -> Scope {
    Scope::Looks(directory, name.to_vec())
}

fn changes(directory: InodeNumber, name: &[u8]) -> Scope {
    Scope::Changes(directory, name.to_vec())
}

impl FileSystem for Watched {
    fn mount_info(&self) -> MountInfo {
        self.below.mount_info()
    }
    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        self.below.usage()
    }
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        self.within(&[looks(directory, name)], || self.below.lookup(directory, name))
    }
    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        self.dawdle();
        let found = self.below.attributes(inode);
        self.dawdle();
        found
    }
    fn set_attributes(
        &self,
        inode: InodeNumber,
        change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        self.below.set_attributes(inode, change)
    }
    fn read_directory(
        &self,
        directory: InodeNumber,
        position: u64,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), FsError> {
        self.below.read_directory(directory, position, take)
    }
    fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        self.within(&[changes(directory, name)], || self.below.create(directory, name, new))
    }
    fn link(
        &self,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        let scopes = [changes(directory, name)];
        self.within(&scopes, || self.below.link(inode, directory, name, now))
    }
    fn unlink(&self, directory: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        self.within(&[changes(directory, name)], || self.below.unlink(directory, name, now))
    }
    fn remove_directory(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        let victim = self.stored(directory, name).unwrap();
        let scopes = [Scope::Whole(directory), Scope::Whole(victim)];
        self.within(&scopes, || self.below.remove_directory(directory, name, now))
    }
    fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        let mut scopes = vec![Scope::Whole(from.0), Scope::Whole(to.0)];
        scopes.dedup();
        self.within(&scopes, || self.below.rename(from, to, now))
    }
    fn forget(&self, inode: InodeNumber, count: u64) {
        self.below.forget(inode, count);
    }
    fn sync(&self) -> Result<(), FsError> {
        self.below.sync()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Runs `work` of each thread's number at once.
fn at_once(threads: u64, work: impl Fn(u64) + Sync) {
    let gate = Barrier::new(threads as usize);
    thread::scope(|scope| {
        for number in 0..threads {
            let (gate, work) = (&gate, &work);
            scope.spawn(move || {
                gate.wait();
                work(number);
            });
        }
    });
}

fn create(world: &World, path: &str) -> Result<(), Errno> {
    world.open(path, raw::O_CREAT | raw::O_EXCL | raw::O_WRONLY).map(|_| ())
}

fn link(world: &World, from: &str, to: &str) -> Result<(), Errno> {
    world.caller().link(&world.walk_link(from)?, Base::Cwd, to.as_bytes())
}

fn inode(path: &Path) -> InodeNumber {
    path.vnode().inode()
}

#[test]
fn different_names_of_a_directory_are_made_and_taken_away_at_once() {
    let watched = Watched::new();
    let world = watched.world();
    // There are more than two threads because names may share a lock.
    watched.company.store(2, Relaxed);
    at_once(4, |number| create(&world, &format!("/{number}")).unwrap());
    assert_eq!(watched.company.load(Relaxed), 0);
    watched.company.store(2, Relaxed);
    at_once(4, |number| world.unlink(&format!("/{number}")).unwrap());
    assert_eq!(watched.company.load(Relaxed), 0);
}

#[test]
fn of_many_that_make_a_name_one_does_and_of_many_that_take_it_away_one_does() {
    let world = Watched::new().world();
    const NAMES: usize = 3;
    let there: [Mutex<i64>; NAMES] = Default::default();
    at_once(4, |number| {
        let mut random = Random(number);
        for _ in 0..2000 {
            let name = random.below(NAMES as u64) as usize;
            let path = format!("/{name}");
            let change = match random.below(3) {
                0 => create(&world, &path).map(|()| 1),
                1 => world.unlink(&path).map(|()| -1),
                _ => world.walk(&path).map(|_| 0),
            };
            match change {
                Ok(change) => *there[name].lock().unwrap() += change,
                Err(error) => assert!(matches!(error, Errno::EEXIST | Errno::ENOENT), "{error:?}"),
            }
        }
    });
    for (name, there) in there.iter().enumerate() {
        let is_there = i64::from(world.walk(&format!("/{name}")).is_ok());
        assert_eq!(*there.lock().unwrap(), is_there, "name {name}");
    }
}

#[test]
fn the_name_cache_agrees_with_the_file_system_after_any_changes_at_once() {
    let watched = Watched::new();
    let world = watched.world();
    for directory in ["/d", "/e"] {
        world.mkdir(directory).unwrap();
    }
    let names = ["/a", "/d", "/d/a", "/d/b", "/e", "/e/a", "/e/d", "/e/d/a"];
    at_once(4, |number| {
        let mut random = Random(100 + number);
        for _ in 0..2000 {
            let path = names[random.below(8) as usize];
            let other = names[random.below(8) as usize];
            // The result is not checked here: the file system below makes the assertions.
            let _ = match random.below(8) {
                0 => world.mkdir(path),
                1 | 2 => create(&world, path),
                3 => world.unlink(path),
                4 => world.rmdir(path),
                5 => world.rename(path, other),
                6 => link(&world, path, other),
                _ => world.walk(path).map(|_| ()),
            };
        }
    });
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        let at = inode(&world.walk(&format!("{directory}/")).unwrap());
        for name in ["a", "b", "d", "e"] {
            let path = format!("{directory}/{name}");
            let found = world.walk(&path);
            assert_eq!(
                found.as_ref().ok().map(inode),
                watched.stored(at, name.as_bytes()),
                "{path}"
            );
            if found.is_ok_and(|found| found.vnode().is_directory()) {
                directories.push(path);
            }
        }
    }
}

#[test]
fn nothing_is_made_in_a_directory_that_was_taken_away() {
    let world = Watched::new().world();
    let count = AtomicUsize::new(0);
    at_once(3, |number| {
        for round in 0..600 {
            if number == 0 {
                let _ = world.mkdir("/d");
                count.fetch_add(usize::from(world.rmdir("/d").is_ok()), Relaxed);
                continue;
            }
            let path = format!("/d/{number}");
            let Ok(directory) = world.walk("/d") else { continue };
            let made = create(&world, &path);
            let is_gone = directory.vnode().is_dead();
            if made.is_ok() && round % 2 == 0 {
                assert_eq!(world.unlink(&path), Ok(()));
            } else if made.is_ok() {
                // While the name exists, its directory exists.
                assert!(!world.walk("/d").unwrap().vnode().is_dead());
                assert_eq!(world.unlink(&path), Ok(()));
            } else if is_gone {
                assert!(matches!(made, Err(Errno::ENOENT)), "{made:?}");
            }
        }
    });
    assert!(count.load(Relaxed) > 0);
}

#[test]
fn what_a_directory_shows_holds_every_name_made_before() {
    let world = Watched::new().world();
    let made = AtomicUsize::new(0);
    at_once(4, |number| {
        for round in 0..300 {
            create(&world, &format!("/{number}-{round}")).unwrap();
            let before = made.fetch_add(1, AcqRel) + 1;
            let shown = world.root.vnode().attributes();
            assert!(shown.size >= 20 * (before as u64 + 2), "{} of {before}", shown.size);
        }
    });
}

#[test]
fn a_file_with_a_name_keeps_its_bytes_whatever_other_names_come_and_go() {
    let world = World::new();
    for round in 0..500 {
        world.write("/first", b"bytes").unwrap();
        at_once(2, |number| match number {
            0 => world.unlink("/first").unwrap(),
            _ => drop(link(&world, "/first", "/second")),
        });
        world.root.vnode().instance().names().shrink();
        if world.walk("/second").is_ok() {
            assert_eq!(world.read("/second").unwrap(), b"bytes", "round {round}");
            world.unlink("/second").unwrap();
        }
    }
}
