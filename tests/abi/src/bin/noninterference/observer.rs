//! The observer: a program at a low level that writes down what it sees.
use crate::{DISK_STAGE, STAGE, counts, end_turn, folder};
use abi::{check, close, fork, stat};
use libc::*;
use std::{
    fmt::{Display, Write as _},
    fs,
    io::{Read as _, Write as _},
    mem,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    ptr,
};

/// The name of the transcript.
pub const TRANSCRIPT: &str = "transcript";

/// Numbers up to this one are asked for processes.
const PROCESSES_MAX: i32 = 600;

struct Observer {
    transcript: fs::File,
    turn: u32,
}

/// Observes in every turn.
pub fn run() {
    let path = folder(STAGE, "low").join(TRANSCRIPT);
    let mut observer =
        Observer { transcript: fs::File::create(path).expect("making the transcript"), turn: 0 };
    prepare();
    loop {
        end_turn();
        observer.turn += 1;
        observer.observe();
    }
}

/// Makes the files that the worker may look at.
fn prepare() {
    for stage in [STAGE, DISK_STAGE] {
        fs::write(folder(stage, "low").join("read"), [7; 9000]).expect("making a file");
    }
}

impl Observer {
    fn note(&mut self, what: &str, seen: impl Display) {
        let turn = self.turn;
        writeln!(self.transcript, "{turn} {what}: {seen}").expect("writing");
    }

    fn observe(&mut self) {
        self.numbers();
        self.processes();
        self.objects();
        for stage in [STAGE, DISK_STAGE] {
            self.files(&folder(stage, "low"));
            self.listing(Path::new(stage));
        }
        for place in ["/", "/tmp", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/run"] {
            self.listing(Path::new(place));
        }
        self.totals();
        for (call, count) in counts::all(&folder(STAGE, "low"), &folder(DISK_STAGE, "low")) {
            self.note("instructions", format!("{call} {count}"));
        }
        for tree in ["/proc", "/sys"] {
            self.texts(Path::new(tree), 0);
        }
    }

    /// The numbers that new objects get.
    fn numbers(&mut self) {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        check(unsafe { pipe(ends.as_mut_ptr()) }).expect("a pipe");
        let mut sockets = [0; 2];
        // SAFETY: as above.
        check(unsafe { socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.as_mut_ptr()) })
            .expect("sockets");
        // SAFETY: takes no pointers.
        let event = check(unsafe { eventfd(0, 0) }).expect("an eventfd") as i32;
        // SAFETY: the name ends with NUL.
        let memory = check(unsafe { memfd_create(c"memory".as_ptr(), 0) }).expect("memory") as i32;
        // SAFETY: takes no pointers.
        let terminal = check(unsafe { posix_openpt(O_RDWR | O_NOCTTY) }).expect("a pty") as i32;
        let mut index = 0u32;
        // SAFETY: the address is that of a word.
        check(unsafe { ioctl(terminal, TIOCGPTN, &mut index) }).expect("a number");
        self.note("pty", index);
        for fd in [ends[0], ends[1], sockets[0], sockets[1], event, memory, terminal] {
            self.note("descriptor", format!("{fd} {}", own_inode(fd)));
            close(fd);
        }
    }

    /// Processes: those that exist, and the numbers of new ones.
    fn processes(&mut self) {
        for _ in 0..3 {
            let child = fork(|| ());
            let mut status = 0;
            let mut usage: rusage = unsafe_zeroed();
            // SAFETY: there is room for both.
            let ended = unsafe { wait4(child, &mut status, 0, &mut usage) };
            self.note("child", format!("{} {status}", ended));
        }
        let found: Vec<String> = (1..PROCESSES_MAX)
            .map(|id| {
                // SAFETY: takes no pointers.
                let signal = check(unsafe { kill(id, 0) });
                // SAFETY: takes no pointers.
                (id, signal, check(unsafe { getpgid(id) }))
            })
            .filter(|(_, signal, group)| *signal != Err(ESRCH) || *group != Err(ESRCH))
            .map(|(id, signal, group)| format!("{id} {signal:?} {group:?}"))
            .collect();
        self.note("processes", found.join(", "));
    }

    /// System V objects and queues.
    fn objects(&mut self) {
        // SAFETY: takes no pointers.
        let shm = check(unsafe { shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0o600) });
        // SAFETY: takes no pointers.
        let sem = check(unsafe { semget(IPC_PRIVATE, 1, IPC_CREAT | 0o600) });
        // SAFETY: takes no pointers.
        let msg = check(unsafe { msgget(IPC_PRIVATE, IPC_CREAT | 0o600) });
        self.note("identifiers", format!("{shm:?} {sem:?} {msg:?}"));
        let mut info = [0u64; 32];
        let room = info.as_mut_ptr();
        const SHM_INFO: i32 = 14;
        // SAFETY: there is room for the structure.
        let used = check(unsafe { shmctl(0, SHM_INFO, room.cast()) });
        self.note("shm_info", format!("{used:?} {:?}", &info[..6]));
        for key in 1..20 {
            // SAFETY: takes no pointers.
            let shm = check(unsafe { shmget(key, 0, 0) });
            // SAFETY: takes no pointers.
            let sem = check(unsafe { semget(key, 0, 0) });
            // SAFETY: takes no pointers.
            let msg = check(unsafe { msgget(key, 0) });
            let found = [shm, sem, msg];
            if found.iter().any(Result::is_ok) {
                self.note("key", format!("{key} {found:?}"));
            }
        }
        if let (Ok(shm), Ok(sem), Ok(msg)) = (shm, sem, msg) {
            // SAFETY: no pointer is used.
            check(unsafe { shmctl(shm as i32, IPC_RMID, ptr::null_mut()) }).expect("removing");
            // SAFETY: as above.
            check(unsafe { semctl(sem as i32, 0, IPC_RMID) }).expect("removing");
            // SAFETY: as above.
            check(unsafe { msgctl(msg as i32, IPC_RMID, ptr::null_mut()) }).expect("removing");
        }
    }

    /// The attributes and locks of files at the own level.
    fn files(&mut self, folder: &Path) {
        let turn = self.turn;
        let new = folder.join(format!("new{turn}"));
        fs::write(&new, "new").expect("making a file");
        fs::create_dir(folder.join(format!("folder{turn}"))).expect("making a folder");
        for name in ["read".to_owned(), format!("new{turn}"), format!("folder{turn}")] {
            let found = stat(folder.join(&name)).expect("the file");
            self.note("file", format!("{name} inode {} {}", found.st_ino, attributes(&found)));
            self.note("extents", format!("{name} {:?}", extents(&folder.join(&name))));
        }
        let file = fs::File::options().read(true).write(true).open(folder.join("read"));
        let file = file.expect("opening");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let mut lock: flock = unsafe_zeroed();
        lock.l_type = F_WRLCK as _;
        // SAFETY: the address is that of a lock.
        check(unsafe { fcntl(fd, F_GETLK, &mut lock) }).expect("asking for locks");
        self.note("lock", format!("{} {}", lock.l_type, lock.l_pid));
        // SAFETY: takes no pointers.
        self.note("flock", format!("{:?}", check(unsafe { ::libc::flock(fd, LOCK_EX | LOCK_NB) })));
        // SAFETY: takes no pointers.
        self.note("lease", format!("{:?}", check(unsafe { fcntl(fd, F_SETLEASE, F_WRLCK) })));
    }

    fn listing(&mut self, place: &Path) {
        let names = fs::read_dir(place).map(|entries| {
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            names
        });
        let attributes = stat(place).map(|found| attributes(&found));
        self.note("listing", format!("{} {names:?} {attributes:?}", place.display()));
    }

    fn totals(&mut self) {
        let mut found: sysinfo = unsafe_zeroed();
        // SAFETY: there is room.
        check(unsafe { ::libc::sysinfo(&mut found) }).expect("sysinfo");
        self.note("sysinfo", format!("{} {}", found.freeram, found.procs));
    }

    /// The texts of a tree of generated files.
    fn texts(&mut self, place: &Path, depth: u32) {
        const DEPTH: u32 = 6;
        let Ok(entries) = fs::read_dir(place) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                self.note("vanished", path.display());
                continue;
            };
            if is_own_state(&path) {
                continue;
            }
            if kind.is_symlink() {
                self.note("link", format!("{} {:?}", path.display(), fs::read_link(&path)));
            } else if kind.is_dir() && depth < DEPTH {
                self.texts(&path, depth + 1);
            } else if kind.is_file() {
                let text = head(&path).map(|bytes| masked(&path, &bytes));
                self.note("text", format!("{} {text:?}", path.display()));
            }
        }
    }
}

/// Returns the first bytes of a file. Some have one for each page of the address space.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    const MOST: u64 = 64 << 10;
    let file = fs::File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns zeroes.
fn unsafe_zeroed<T>() -> T {
    // SAFETY: used for C structures of numbers and pointers that the kernel fills.
    unsafe { mem::zeroed() }
}

/// Returns the places of a file on its disk, as the system tells them.
fn extents(path: &Path) -> Result<Vec<u64>, i32> {
    const FIEMAP: u64 = 0xc020_660b;
    // The head is 4 words, an extent 7.
    const ROOM: u64 = 4;
    let mut words = [0u64; 4 + 7 * ROOM as usize];
    words[1] = u64::MAX;
    words[3] = ROOM;
    let file = abi::open(path, O_RDONLY, 0).expect("opening");
    // SAFETY: there is room for as many extents as the head says.
    let done = check(unsafe { syscall(SYS_ioctl, file, FIEMAP, words.as_mut_ptr()) });
    close(file);
    done.map(|_| words.to_vec())
}

fn own_inode(fd: i32) -> u64 {
    let mut found: libc::stat = unsafe_zeroed();
    // SAFETY: there is room.
    check(unsafe { fstat(fd, &mut found) }).expect("the descriptor");
    found.st_ino
}

/// Returns the attributes but for times, which depend on the clock.
fn attributes(of: &libc::stat) -> String {
    let mut text = String::new();
    let (mode, links, size, blocks) = (of.st_mode, of.st_nlink, of.st_size, of.st_blocks);
    write!(text, "{mode:o} {links} {}:{} {size} {blocks}", of.st_uid, of.st_gid).expect("room");
    text
}

/// Files whose text is random.
fn is_own_state(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.ends_with("/random/uuid") || text.ends_with("/random/boot_id")
}

/// Returns a text without what depends on the clock, which runs while the worker works, and without the numbers of present pages of
/// files, which tell of the page cache (an open channel: `docs/mls-channels.md`).
fn masked(path: &Path, text: &[u8]) -> String {
    /// Fields of `/proc/PID/stat`, counted from the command's name: faults, times, the start, resident pages.
    const UNSTABLE: [usize; 10] = [8, 9, 10, 11, 12, 13, 14, 15, 20, 22];
    /// Lines that start so.
    const LINES: [&str; 11] = [
        "cpu",
        "ctxt",
        "VmHWM",
        "VmRSS",
        "RssFile",
        "VmPTE",
        "voluntary_ctxt",
        "nonvoluntary_ctxt",
        "Max resident",
        "se.",
        // The texts of clocks have different lengths.
        "rchar",
    ];
    let text = String::from_utf8_lossy(text);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_in_process = path.starts_with("/proc") && path.components().count() > 3;
    match name.as_str() {
        "uptime" | "rtc" | "smaps" | "smaps_rollup" | "statm" | "schedstat" => String::new(),
        "loadavg" => text.split(' ').skip(3).collect(),
        "stat" if is_in_process => {
            let fields = text.rsplit(')').next().unwrap_or_default().split(' ').enumerate();
            let kept = fields.filter(|(number, _)| !UNSTABLE.contains(number));
            kept.map(|(_, field)| format!("{field} ")).collect()
        }
        _ => {
            let is_stable = |line: &&str| !LINES.iter().any(|start| line.starts_with(start));
            text.split_inclusive('\n').filter(is_stable).collect()
        }
    }
}
