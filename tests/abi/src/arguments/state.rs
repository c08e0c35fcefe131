//! The objects that each case finds: descriptors, files, and memory at fixed addresses, all with names.
use crate::{
    c, must,
    returns::setting::{Kind, at, open, pipe, raw, room, sockets},
};
use std::{
    fs,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::Path,
};

/// Bytes of a page.
const PAGE: i64 = 4096;
/// Start of the prepared memory: `data` (8 pages), `none` (2 pages without access), `readonly` (2 pages), a gap, `shared`
/// (2 pages), `mapped` (2 pages of a file), and the structures.
const BASE: i64 = 0x10_0000_0000;
const NONE: i64 = BASE + 8 * PAGE;
const READ_ONLY: i64 = BASE + 10 * PAGE;
const SHARED: i64 = BASE + 16 * PAGE;
const MAPPED: i64 = BASE + 20 * PAGE;
const STRUCTURES: i64 = BASE + 24 * PAGE;
const STRUCTURES_PAGES: i64 = 6;
/// End of the addresses that [`is_prepared`] accepts.
const END: i64 = BASE + 256 * PAGE;

/// Places in memory by their names.
const PLACES: [(&str, i64); 14] = [
    ("data", BASE),
    ("data2", BASE + 2 * PAGE),
    ("odd", BASE + 1),
    ("edge", NONE - 4),
    ("none", NONE),
    ("readonly", READ_ONLY),
    ("unmapped", BASE + 13 * PAGE),
    ("shared", SHARED),
    ("mapped", MAPPED),
    ("null", 0),
    ("one", 1),
    ("limit", 0x7fff_ffff_f000),
    ("noncanonical", 1 << 60),
    ("kernel", -(1 << 47)),
];

/// Pages of prepared memory that a call may change, and their names.
pub const WRITABLE: [(&str, i64, i64); 4] = [
    ("data", BASE, 8),
    ("shared", SHARED, 2),
    ("mapped", MAPPED, 2),
    ("structures", STRUCTURES, 6),
];

/// Descriptors by their names. Their numbers begin at [`FIRST`].
const DESCRIPTORS: [&str; 33] = [
    "file", "rdonly", "append", "path", "folder", "nulldev", "zero", "pipe", "pipew", "empty",
    "emptyw", "ended", "widowed", "stream", "stream2", "dgram", "dgram2", "listener", "event",
    "epoll", "timer", "signalfd", "inotify", "pidfd", "master", "tty", "proc", "memfd", "fifo",
    "cloexec", "procdir", "unbound", "wronly",
];
/// Number of the first prepared descriptor.
const FIRST: i64 = 10;
/// Number of descriptors that are checked.
pub const MOST: i64 = 64;

/// Paths by their names. Each takes 64 bytes in memory.
const PATHS: [(&str, &str); 22] = [
    ("p.file", "file"),
    ("p.folder", "folder"),
    ("p.inner", "folder/inner"),
    ("p.absent", "absent"),
    ("p.under", "absent/x"),
    ("p.notdir", "file/x"),
    ("p.slash", "file/"),
    ("p.dirslash", "folder/"),
    ("p.link", "link"),
    ("p.dangling", "dangling"),
    ("p.loop", "loop"),
    ("p.fifo", "fifo"),
    ("p.closed", "closed/x"),
    ("p.empty", ""),
    ("p.dot", "."),
    ("p.dotdot", "folder/.."),
    ("p.root", "/"),
    ("p.null", "/dev/null"),
    ("p.proc", "/proc/self/limits"),
    ("p.self", "/proc/self/fd/10"),
    ("p.other", "folder/other"),
    ("p.new", "absent/"),
];
/// Address behind the paths, of two long ones: a name of 256 bytes, and a path of 4096.
const LONG_NAME: i64 = STRUCTURES + 2 * PAGE;
const LONG_PATH: i64 = STRUCTURES + 3 * PAGE;

/// Structures of words by their names, 128 bytes each.
const WORDS: [(&str, &[i64]); 30] = [
    ("w.iov", &[BASE, 16, BASE + 64, 16]),
    ("w.iovbad", &[BASE, 16, NONE, 16]),
    ("w.iovlong", &[BASE, i64::MAX, BASE, 16]),
    ("w.iovnegative", &[BASE, -1, BASE, 16]),
    ("w.zero", &[0, 0, 0, 0]),
    ("w.now", &[0, 1, 0, 1]),
    ("w.late", &[1000, 0, 1000, 0]),
    ("w.wrong", &[0, 1_000_000_000, 0, 1_000_000_000]),
    ("w.negative", &[-1, 0, -1, 0]),
    ("w.nanonegative", &[0, -1, 0, -1]),
    ("w.huge", &[i64::MAX, 999_999, i64::MAX, 999_999]),
    ("w.usr1", &[1 << 9]),
    ("w.all", &[-1, -1]),
    ("w.utnow", &[0, 0x3fff_ffff, 0, 0x3fff_fffe]),
    ("w.times", &[1_000_000, 5, 2_000_000, 7]),
    ("w.pollfile", &[0x0005_0000_000a, 0x0005_0000_0011]),
    ("w.pollbad", &[0x0001_0000_03e7, 0x0001_ffff_ffff]),
    ("w.limits", &[100, 200]),
    ("w.limitswrong", &[200, 100]),
    ("w.lock", &[0x0000_0001, 0, 10, 0]),
    ("w.lockread", &[0, 5, 10, 0]),
    ("w.unlock", &[2, 0, 0, 0]),
    ("w.lockbad", &[0x0007_0000, 0, 10, 0]),
    ("w.lockneg", &[1, -5, 10, 0]),
    ("w.event", &[0x1_0000_0001, 1]),
    ("w.sigevnone", &[0, 1 << 32, 0, 0, 0, 0, 0, 0]),
    ("w.sigevbad", &[0, 7 << 32 | 10, 0, 0, 0, 0, 0, 0]),
    ("w.offset", &[5]),
    ("w.offsetneg", &[-5]),
    ("w.offsethuge", &[i64::MAX]),
];
const WORDS_AT: i64 = STRUCTURES + 5 * PAGE;

/// Structures of bytes by their names, 128 bytes each.
const BYTES: [(&str, &[u8]); 10] = [
    ("b.sun", b"\x01\x00listener\0"),
    ("b.sunnew", b"\x01\x00newname\0"),
    ("b.sunfile", b"\x01\x00file\0"),
    ("b.sunabsent", b"\x01\x00absent\0"),
    ("b.abstract", b"\x01\x00\0name-of-a-case"),
    ("b.inet", b"\x02\x00\x00\x00\x7f\x00\x00\x01\0\0\0\0\0\0\0\0"),
    ("b.family", b"\xff\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ("b.unspec", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ("b.user", b"user.name\0"),
    ("b.trusted", b"trusted.name\0"),
];
const BYTES_AT: i64 = STRUCTURES + PAGE;

/// Returns the value of an object's name.
pub fn named(name: &str) -> Option<i64> {
    let index = |place: Option<usize>, start: i64, bytes: i64| Some(start + place? as i64 * bytes);
    let place = PLACES.iter().find(|(place, _)| *place == name).map(|(_, value)| *value);
    place
        .or_else(|| index(DESCRIPTORS.iter().position(|it| *it == name), FIRST, 1))
        .or_else(|| index(PATHS.iter().position(|(it, _)| *it == name), STRUCTURES, 64))
        .or_else(|| index(WORDS.iter().position(|(it, _)| *it == name), WORDS_AT, 128))
        .or_else(|| index(BYTES.iter().position(|(it, _)| *it == name), BYTES_AT, 128))
        .or(match name {
            "p.longname" => Some(LONG_NAME),
            "p.longpath" => Some(LONG_PATH),
            _ => None,
        })
}

/// Returns the name of a descriptor's number.
pub fn descriptor_name(number: i64) -> String {
    let index = usize::try_from(number - FIRST).ok();
    let name = index.and_then(|index| DESCRIPTORS.get(index));
    name.map_or_else(|| format!("descriptor {number}"), |name| (*name).to_owned())
}

/// Returns whether an address is among the prepared ones.
pub fn is_prepared(address: i64) -> bool {
    (BASE..END).contains(&address)
}

/// Removes the folder of the last case, whatever the modes in it.
pub fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        open_up(folder);
        let _ = fs::remove_dir_all(folder);
    }
}

/// The turn of a case about objects that all processes share. It begins without any of them.
pub struct Turn(fs::File);

impl Turn {
    /// Waits for the turn of this process.
    ///
    /// # Panics
    /// Panics if the current folder cannot be locked.
    pub fn take() -> Turn {
        let lock = fs::File::open(".").expect("the runner's folder");
        let fd = i64::from(lock.as_raw_fd());
        must(raw(libc::SYS_flock, [fd, libc::LOCK_EX.into(), 0, 0, 0, 0]));
        remove_shared();
        Turn(lock)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        remove_shared();
        raw(libc::SYS_flock, [self.0.as_raw_fd().into(), libc::LOCK_UN.into(), 0, 0, 0, 0]);
    }
}

/// Removes the shared memory, semaphores and messages of this user, and the message queues that cases make.
fn remove_shared() {
    /// The greatest number of objects of a type that the cases create at once.
    const MOST: i64 = 64;
    const REMOVE: i64 = 0;
    /// `SHM_STAT_ANY`, `MSG_STAT_ANY` and `SEM_STAT_ANY`: the status of the object of an index, whatever its mode.
    const ANY: [i64; 3] = [15, 13, 20];
    let [memory, messages, semaphores] = ANY;
    let mut about = [0u64; 32];
    let about = room(&mut about);
    for index in 0..MOST {
        let id = raw(libc::SYS_shmctl, [index, memory, about, 0, 0, 0]);
        raw(libc::SYS_shmctl, [id, REMOVE, 0, 0, 0, 0]);
        let id = raw(libc::SYS_msgctl, [index, messages, about, 0, 0, 0]);
        raw(libc::SYS_msgctl, [id, REMOVE, 0, 0, 0, 0]);
        let id = raw(libc::SYS_semctl, [index, 0, semaphores, about, 0, 0]);
        raw(libc::SYS_semctl, [id, 0, REMOVE, 0, 0, 0]);
    }
    for name in [c"file", c"absent"] {
        raw(libc::SYS_mq_unlink, [name.as_ptr() as i64, 0, 0, 0, 0, 0]);
    }
}

/// Gives all directories beneath `folder` the modes that removing needs.
fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Limits that differ between the systems, set to values that both accept: RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK,
/// RLIMIT_SIGPENDING.
const LIMITS: [(i64, u64); 4] = [(6, 900), (7, 1024), (8, 1 << 16), (11, 900)];

/// Makes all objects. The folder becomes the current one.
pub fn prepare(folder: &Path) {
    // SAFETY: a plain number.
    unsafe { libc::umask(0o022) };
    for (resource, limit) in LIMITS {
        must(raw(libc::SYS_setrlimit, [resource, at(&[limit; 2]), 0, 0, 0, 0]));
    }
    make_files(folder);
    make_descriptors();
    make_memory();
}

fn make_files(folder: &Path) {
    let good = "the case's folder is writable";
    fs::create_dir(folder).expect(good);
    std::env::set_current_dir(folder).expect(good);
    fs::write("file", vec![b'f'; 10_000]).expect(good);
    fs::create_dir("folder").expect(good);
    fs::write("folder/inner", "inner").expect(good);
    fs::create_dir("closed").expect(good);
    fs::write("closed/x", "x").expect(good);
    fs::set_permissions("closed", fs::Permissions::from_mode(0o0)).expect(good);
    for (to, from) in [("file", "link"), ("absent", "dangling"), ("loop", "loop")] {
        std::os::unix::fs::symlink(to, from).expect(good);
    }
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::mkfifo(c("fifo").as_ptr(), 0o600) });
}

/// A descriptor of `path`.
fn opened(path: &str, flags: i32) -> i64 {
    must(crate::open(path, flags, 0o600).map_or(-1, i64::from))
}

fn close(fd: i64) {
    raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
}

/// Descriptors that never block.
fn nonblocking(fds: [i32; 2]) -> [i64; 2] {
    fds.map(|fd| {
        raw(libc::SYS_fcntl, [fd.into(), 4, libc::O_NONBLOCK.into(), 0, 0, 0]);
        i64::from(fd)
    })
}

/// A descriptor of a kind, which never blocks.
fn of_kind(kind: Kind) -> i64 {
    let fd = i64::from(open(kind));
    let flags = raw(libc::SYS_fcntl, [fd, 3, 0, 0, 0, 0]);
    raw(libc::SYS_fcntl, [fd, 4, flags | i64::from(libc::O_NONBLOCK), 0, 0, 0]);
    fd
}

/// Opens the descriptors, and moves them to their numbers.
fn make_descriptors() {
    let file = opened("file", libc::O_RDWR);
    raw(libc::SYS_lseek, [file, 100, 0, 0, 0, 0]);
    let rdonly = opened("file", libc::O_RDONLY);
    let pipes = pipe_ends();
    let [stream, stream2, dgram, dgram2] = connected_sockets();
    let [listener, unbound] = lone_sockets();
    let [master, tty] = terminal();
    let memfd = must(raw(libc::SYS_memfd_create, [c"m".as_ptr() as i64, 2, 0, 0, 0, 0]));
    raw(libc::SYS_write, [memfd, at(&[4u8; 5000]), 5000, 0, 0, 0]);
    let mut made = vec![
        file,
        rdonly,
        opened("file", libc::O_WRONLY | libc::O_APPEND),
        opened("file", libc::O_PATH),
        opened("folder", libc::O_RDONLY | libc::O_DIRECTORY),
        of_kind(Kind::Null),
        of_kind(Kind::Zero),
    ];
    made.extend(pipes);
    made.extend([stream, stream2, dgram, dgram2, listener]);
    made.extend(
        [Kind::Event, Kind::Epoll, Kind::Timer, Kind::Signals, Kind::Inotify, Kind::Pidfd]
            .map(of_kind),
    );
    made.extend([
        master,
        tty,
        opened("/proc/self/limits", libc::O_RDONLY),
        memfd,
        opened("fifo", libc::O_RDWR | libc::O_NONBLOCK),
        opened("file", libc::O_RDWR | libc::O_CLOEXEC),
        opened("/proc/self", libc::O_RDONLY | libc::O_DIRECTORY),
        unbound,
        opened("file", libc::O_WRONLY),
    ]);
    place(&made);
}

/// Both ends of a full pipe and of an empty one, a reader without a writer, a writer without a reader.
fn pipe_ends() -> [i64; 6] {
    let [full, fullw] = nonblocking(pipe(100));
    let [empty, emptyw] = nonblocking(pipe(0));
    let [ended, dropped] = nonblocking(pipe(0));
    let [lost, widowed] = nonblocking(pipe(0));
    [dropped, lost].into_iter().for_each(close);
    [full, fullw, empty, emptyw, ended, widowed]
}

/// A pair of streams and one of datagrams; the first of each has something to read.
fn connected_sockets() -> [i64; 4] {
    let [stream, stream2] = nonblocking(sockets(libc::SOCK_STREAM));
    let [dgram, dgram2] = nonblocking(sockets(libc::SOCK_DGRAM));
    raw(libc::SYS_write, [stream2, at(&[2u8; 50]), 50, 0, 0, 0]);
    raw(libc::SYS_write, [dgram2, at(&[3u8; 20]), 20, 0, 0, 0]);
    [stream, stream2, dgram, dgram2]
}

/// A socket that listens, and one without a name.
fn lone_sockets() -> [i64; 2] {
    let socket = i64::from(libc::SOCK_NONBLOCK | libc::SOCK_STREAM);
    let listener = must(raw(libc::SYS_socket, [1, socket, 0, 0, 0, 0]));
    let address = b"\x01\x00listener\0";
    must(raw(libc::SYS_bind, [listener, at(address), 11, 0, 0, 0]));
    must(raw(libc::SYS_listen, [listener, 1, 0, 0, 0, 0]));
    [listener, must(raw(libc::SYS_socket, [1, socket, 0, 0, 0, 0]))]
}

/// Both ends of a pseudo-terminal.
fn terminal() -> [i64; 2] {
    const TIOCSPTLCK: i64 = 0x4004_5431;
    const TIOCGPTPEER: i64 = 0x5441;
    let master = of_kind(Kind::Master);
    must(raw(libc::SYS_ioctl, [master, TIOCSPTLCK, at(&0i32), 0, 0, 0]));
    let flags = i64::from(libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK);
    [master, must(raw(libc::SYS_ioctl, [master, TIOCGPTPEER, flags, 0, 0, 0]))]
}

/// Moves descriptors to the numbers from [`FIRST`] on, and closes all others.
fn place(made: &[i64]) {
    // The descriptors are first moved beyond all of them, then to their places.
    const AWAY: i64 = 200;
    let move_to = |fd: i64, to: i64| {
        let flags = raw(libc::SYS_fcntl, [fd, 1, 0, 0, 0, 0]);
        let flags = if flags & 1 != 0 { i64::from(libc::O_CLOEXEC) } else { 0 };
        must(raw(libc::SYS_dup3, [fd, to, flags, 0, 0, 0]));
        close(fd);
    };
    (AWAY..).zip(made).for_each(|(to, fd)| move_to(*fd, to));
    raw(libc::SYS_close_range, [3, AWAY - 1, 0, 0, 0, 0]);
    (0..made.len() as i64).for_each(|number| move_to(AWAY + number, FIRST + number));
    // The streams are the same on all systems.
    raw(libc::SYS_dup3, [0, 2, 0, 0, 0, 0]);
}

fn make_memory() {
    let both = i64::from(libc::PROT_READ | libc::PROT_WRITE);
    let map = |place: i64, pages: i64, flags: i32, fd: i64| {
        let flags = i64::from(flags | libc::MAP_FIXED);
        must(raw(libc::SYS_mmap, [place, pages * PAGE, both, flags, fd, 0]));
    };
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    map(BASE, 12, private, -1);
    map(SHARED, 2, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
    map(MAPPED, 2, libc::MAP_SHARED, named("file").unwrap_or(-1));
    map(STRUCTURES, STRUCTURES_PAGES, private, -1);
    let fill = |place: i64, bytes: &[u8]| {
        // SAFETY: within the memory that was just mapped.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place as *mut u8, bytes.len()) };
    };
    fill(BASE, &[0x11; 12 * PAGE as usize]);
    fill(SHARED, &[0; 64]);
    for (name, path) in PATHS {
        fill(named(name).unwrap_or(BASE), path.as_bytes());
    }
    for (name, words) in WORDS {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        fill(named(name).unwrap_or(BASE), &bytes);
    }
    for (name, bytes) in BYTES {
        fill(named(name).unwrap_or(BASE), bytes);
    }
    fill(LONG_NAME, &[b'n'; 256]);
    fill(LONG_PATH, &[b'/'; PAGE as usize]);
    must(raw(libc::SYS_mprotect, [NONE, 2 * PAGE, 0, 0, 0, 0]));
    must(raw(libc::SYS_mprotect, [READ_ONLY, 2 * PAGE, libc::PROT_READ.into(), 0, 0, 0]));
}
