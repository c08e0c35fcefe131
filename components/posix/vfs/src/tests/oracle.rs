//! Compares random operations here with the same operations on the host's Linux: the outcome must
//! be the same.
//!
//! The test starts itself again as a process with its root in an empty directory (so that `..` and
//! absolute paths mean the same on both sides and no other file can be damaged); that needs root.
//! Without root the test passes with a message and tests nothing.
use super::{World, get, put};
use crate::{Base, Errno, NOBODY, OpenHow, Walk};
use linux_raw_sys::general as raw;
use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    process::Command,
};

const DIRECTORY: &str = "SKERRY_VFS_ORACLE";
const NAME: &str = "tests::oracle::random_operations_have_the_outcome_they_have_on_linux";
const SEEDS: u64 = 50;
const OPERATIONS: u32 = 600;

/// The result of an operation: an error number, or its output.
type Outcome = Result<String, u16>;

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len() as u64) as usize]
    }
    fn path(&mut self) -> String {
        if self.next(60) == 0 {
            return self.pick(&["", "/", ".", "..", "//", "a/."]).into();
        }
        let mut path = String::from(self.pick(&["", "", "", "/", "/", "//"]));
        for part in 0..=self.next(3) {
            if part > 0 {
                path.push_str(self.pick(&["/", "/", "/", "//"]));
            }
            path.push_str(self.pick(&["a", "b", "c", "d", "a", "b", "c", ".", ".."]));
        }
        path.push_str(self.pick(&["", "", "", "", "", "", "/"]));
        path
    }
    fn flags(&mut self) -> u32 {
        let mut flags = [raw::O_RDONLY, raw::O_WRONLY, raw::O_RDWR][self.next(3) as usize];
        for flag in [raw::O_CREAT, raw::O_CREAT, raw::O_TRUNC, raw::O_APPEND] {
            if self.next(2) == 0 {
                flags |= flag;
            }
        }
        for flag in [raw::O_EXCL, raw::O_NOFOLLOW, raw::O_DIRECTORY, raw::O_PATH] {
            if self.next(6) == 0 {
                flags |= flag;
            }
        }
        flags
    }
}

#[derive(Clone, Debug)]
enum Step {
    MakeDirectory(String),
    RemoveDirectory(String),
    Unlink(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    ReadLink(String),
    Status(String),
    LinkStatus(String),
    Write(String, u32, usize),
    Read(String, u32),
    Resize(String, u64),
    ChangeDirectory(String),
    List(String),
    Where,
}

fn step(random: &mut Random) -> Step {
    let path = random.path();
    match random.next(24) {
        0..=3 => Step::MakeDirectory(path),
        4 | 5 => Step::RemoveDirectory(path),
        6 | 7 => Step::Unlink(path),
        8..=10 => Step::Rename(path, random.path()),
        11 => Step::Link(path, random.path()),
        12 | 13 => Step::Symlink(random.path(), path),
        14 => Step::ReadLink(path),
        15 => Step::Status(path),
        16 => Step::LinkStatus(path),
        17 | 18 => Step::Write(path, random.flags(), random.next(9000) as usize),
        19 => Step::Read(path, random.flags()),
        20 => Step::Resize(path, random.next(12_000)),
        21 => Step::ChangeDirectory(path),
        22 => Step::List(path),
        _ => Step::Where,
    }
}

fn told(error: io::Error) -> u16 {
    error.raw_os_error().unwrap_or(0) as u16
}

fn host_status(metadata: fs::Metadata) -> String {
    let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
    let size = if metadata.is_dir() { 0 } else { metadata.size() };
    format!("{:o} {links} {size}", metadata.mode())
}

fn host(step: &Step) -> Outcome {
    let done = |result: io::Result<()>| result.map(|()| String::new());
    let open = |path: &str, flags: u32| {
        let mode = flags & raw::O_ACCMODE;
        OpenOptions::new()
            .read(mode != raw::O_WRONLY)
            .write(mode != raw::O_RDONLY)
            .mode(0o666)
            .custom_flags(flags as i32)
            .open(path)
    };
    let result = match step {
        Step::MakeDirectory(path) => done(fs::create_dir(path)),
        Step::RemoveDirectory(path) => done(fs::remove_dir(path)),
        Step::Unlink(path) => done(fs::remove_file(path)),
        Step::Rename(from, to) => done(fs::rename(from, to)),
        Step::Link(from, to) => done(fs::hard_link(from, to)),
        Step::Symlink(target, path) => done(std::os::unix::fs::symlink(target, path)),
        Step::ReadLink(path) => {
            fs::read_link(path).map(|target| format!("{:?}", target.as_os_str().as_bytes()))
        }
        Step::Status(path) => fs::metadata(path).map(host_status),
        Step::LinkStatus(path) => fs::symlink_metadata(path).map(host_status),
        Step::Write(path, flags, count) => open(path, *flags)
            .and_then(|mut file| file.write(&vec![*count as u8; *count]))
            .map(|count| count.to_string()),
        Step::Read(path, flags) => open(path, *flags).and_then(|mut file| {
            let mut data = Vec::new();
            file.read_to_end(&mut data).map(|_| format!("{data:?}"))
        }),
        Step::Resize(path, size) => {
            open(path, raw::O_RDWR).and_then(|file| done(file.set_len(*size)))
        }
        Step::ChangeDirectory(path) => done(env::set_current_dir(path)),
        Step::List(path) => fs::read_dir(path).map(|entries| {
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let mut names: Vec<_> = entries.map(name).collect();
            names.sort();
            format!("{names:?}")
        }),
        Step::Where => env::current_dir().map(|path| format!("{path:?}")),
    };
    result.map_err(told)
}

fn ours_status(path: crate::Path) -> String {
    let at = path.status().attributes;
    let is_directory = path.vnode().is_directory();
    let (links, size) = if is_directory { (0, 0) } else { (at.links, at.size) };
    format!("{:o} {links} {size}", at.file_type as u32 | u32::from(at.permissions))
}

fn ours(world: &mut World, step: &Step) -> Outcome {
    let done = |result: Result<(), Errno>| result.map(|()| String::new());
    let open = |world: &World, path: &str, flags: u32| {
        world.caller().open(Base::Cwd, path.as_bytes(), OpenHow::with_mode(flags, 0o666))
    };
    let result = match step {
        Step::MakeDirectory(path) => done(world.mkdir(path)),
        Step::RemoveDirectory(path) => done(world.rmdir(path)),
        Step::Unlink(path) => done(world.unlink(path)),
        Step::Rename(from, to) => done(world.rename(from, to)),
        Step::Link(from, to) => done(
            world
                .walk_link(from)
                .and_then(|place| world.caller().link(&place, Base::Cwd, to.as_bytes())),
        ),
        Step::Symlink(target, path) => done(world.symlink(target, path)),
        Step::ReadLink(path) => world
            .walk_link(path)
            .and_then(|place| world.caller().read_link(&place))
            .map(|target| format!("{target:?}")),
        Step::Status(path) => world.walk(path).map(ours_status),
        Step::LinkStatus(path) => world.walk_link(path).map(ours_status),
        Step::Write(path, flags, count) => open(world, path, *flags)
            .and_then(|file| put(&file, &vec![*count as u8; *count]))
            .map(|count| count.to_string()),
        Step::Read(path, flags) => {
            open(world, path, *flags).and_then(|file| get(&file)).map(|data| format!("{data:?}"))
        }
        Step::Resize(path, size) => {
            done(open(world, path, raw::O_RDWR).and_then(|file| file.truncate(*size, NOBODY)))
        }
        Step::ChangeDirectory(path) => {
            let flags = Walk::FOLLOW | Walk::DIRECTORY;
            let found = world.caller().walk(Base::Cwd, path.as_bytes(), flags);
            done(found.map(|found| world.cwd = found))
        }
        Step::List(path) => list(world, path),
        Step::Where => {
            let cwd = world.cwd.describe(&world.root);
            let text = String::from_utf8(cwd.text).unwrap();
            if cwd.is_deleted { Err(Errno::ENOENT) } else { Ok(format!("{text:?}")) }
        }
    };
    result.map_err(|error| error.number() as u16)
}

fn list(world: &World, path: &str) -> Result<String, Errno> {
    let directory = world.open(path, raw::O_RDONLY | raw::O_DIRECTORY)?;
    let mut names = Vec::new();
    let read = directory.read_directory(NOBODY, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        true
    });
    // getdents of a removed directory fails with ENOENT, which the C library reports as the end.
    if !matches!(read, Ok(_) | Err(Errno::ENOENT)) {
        return Err(read.unwrap_err());
    }
    names.retain(|name| name != "." && name != "..");
    names.sort();
    Ok(format!("{names:?}"))
}

fn compare(seed: u64) {
    let mut world = World::new();
    let home = format!("/{seed}");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chroot(&home).unwrap();
    env::set_current_dir("/").unwrap();
    fs::create_dir("probe").unwrap();
    world.umask = !(fs::metadata("probe").unwrap().mode() as u16) & 0o777;
    fs::remove_dir("probe").unwrap();
    let mut random = Random(seed);
    let mut log = Vec::new();
    for _ in 0..OPERATIONS {
        let step = step(&mut random);
        let expected = host(&step);
        let outcome = ours(&mut world, &step);
        log.push(format!("{step:?} -> {outcome:?}"));
        let last = &log[log.len().saturating_sub(40)..];
        assert_eq!(outcome, expected, "seed {seed}:\n{}", last.join("\n"));
    }
}

#[test]
fn random_operations_have_the_outcome_they_have_on_linux() {
    if let Ok(seed) = env::var("SKERRY_VFS_ORACLE_SEED") {
        let home = env::var(DIRECTORY).unwrap();
        if std::os::unix::fs::chroot(home).is_err() {
            eprintln!("not root: nothing was compared");
            return;
        }
        return compare(seed.parse().unwrap());
    }
    let home = env::temp_dir().join(format!("skerry-vfs-oracle-{}", std::process::id()));
    fs::create_dir(&home).unwrap();
    let mut failures = Vec::new();
    for seed in 1..=SEEDS {
        let output = Command::new(env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env(DIRECTORY, &home)
            .env("SKERRY_VFS_ORACLE_SEED", seed.to_string())
            .output()
            .unwrap();
        if !output.status.success() {
            failures.push(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    fs::remove_dir_all(&home).unwrap();
    assert!(failures.is_empty(), "{} seeds differ, the first:\n{}", failures.len(), failures[0]);
}
