//! Object reuse: frames and blocks that are freed never show what they held. A program fills memory, files and queues of each kind with a
//! token, and frees them; another one looks for it in all memory and files that it can get. In a system with a monitor the first is
//! above the second (TCSEC 2.2.1.2; `docs/mls-tcsec.md`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]
use abi::{
    Ended, Scratch, close, fork, isolated,
    mls::{self, HIGH, LOW, Stage},
    must, open, pipe, wait,
};
use libc::*;
use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    ptr, slice,
};

const TEST: &str = "freed_frames_and_blocks_show_nothing";
const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// The greatest part of memory that one kind takes.
const MOST: usize = 64 * MIB;
/// Bytes of a file, a segment and the like.
const FILE_BYTES: usize = 8 * MIB;

/// Returns the token, which no constant of the program holds.
fn token() -> [u8; 16] {
    let seed = unsafe { getuid() } as u64 | 0x7351_9f3d_82c6_e4ab;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    bytes[8..].copy_from_slice(&seed.rotate_left(29).to_le_bytes());
    bytes
}

/// Returns a block of tokens.
fn tokens(bytes: usize) -> Vec<u8> {
    token().into_iter().cycle().take(bytes).collect()
}

/// Returns the token of names.
fn text() -> String {
    token().iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}

fn holds(bytes: &[u8]) -> bool {
    let (wanted, text) = (token(), text());
    [&wanted[..8], &wanted[8..], text.as_bytes()].into_iter().any(|part| memmem(bytes, part))
}

fn memmem(bytes: &[u8], wanted: &[u8]) -> bool {
    let found = unsafe {
        libc::memmem(bytes.as_ptr().cast(), bytes.len(), wanted.as_ptr().cast(), wanted.len())
    };
    !found.is_null()
}

/// Returns a part of the free memory.
fn much_memory() -> usize {
    let mut about: sysinfo = unsafe { abi::zeroed() };
    must(unsafe { libc::sysinfo(&mut about) });
    let free = about.freeram as usize * about.mem_unit as usize;
    (free / 2).min(MOST) / MIB * MIB
}

/// Maps memory; of a file if there is one.
fn map(bytes: usize, flags: i32, fd: i32) -> &'static mut [u8] {
    let protection = PROT_READ | PROT_WRITE;
    let at = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, fd, 0) };
    assert_ne!(at, MAP_FAILED, "{}", std::io::Error::last_os_error());
    // SAFETY: the mapping is new, and stays until the process ends.
    unsafe { slice::from_raw_parts_mut(at.cast(), bytes) }
}

fn unmap(memory: &'static mut [u8]) {
    must(unsafe { munmap(memory.as_mut_ptr().cast(), memory.len()) });
}

fn set(memory: &mut [u8]) {
    for (byte, from) in memory.iter_mut().zip(token().into_iter().cycle()) {
        *byte = from;
    }
}

fn memory_file(bytes: usize) -> i32 {
    let fd = must(unsafe { memfd_create(c"reuse".as_ptr(), 0) }) as i32;
    must(unsafe { ftruncate(fd, bytes as i64) });
    fd
}

fn segment() -> (i32, &'static mut [u8]) {
    let id = must(unsafe { shmget(IPC_PRIVATE, FILE_BYTES, IPC_CREAT | 0o600) }) as i32;
    let at = unsafe { shmat(id, ptr::null(), 0) };
    must(at as i64);
    must(unsafe { shmctl(id, IPC_RMID, ptr::null_mut()) });
    // SAFETY: the segment has these bytes, and stays until the process ends.
    (id, unsafe { slice::from_raw_parts_mut(at.cast(), FILE_BYTES) })
}

/// Writes until nothing more fits.
fn stuff(fd: i32, block: &[u8]) {
    must(unsafe { fcntl(fd, F_SETFL, O_NONBLOCK) });
    while abi::write(fd, block).is_ok() {}
}

/// Puts tokens into files and names in a folder, and removes them.
fn fill_files(folder: &Path) {
    let block = tokens(MIB);
    for number in 0..2 {
        let path = folder.join(format!("filled{number}"));
        let fd = open(&path, O_RDWR | O_CREAT, 0o600).expect("a file");
        for _ in 0..FILE_BYTES / MIB {
            assert_eq!(abi::write(fd, &block), Ok(MIB));
        }
        must(unsafe { fsync(fd) });
        close(fd);
        fs::remove_file(path).expect("removing it");
    }
    // Names, targets of links and attributes are in blocks of their own kinds.
    let text = text();
    for number in 0..64 {
        symlink(text.repeat(50), folder.join(format!("{text}{number}"))).expect("a link");
    }
    for number in 0..64 {
        fs::remove_file(folder.join(format!("{text}{number}"))).expect("removing it");
    }
    unsafe { sync() };
}

fn fill_queues() {
    let block = tokens(PAGE);
    let mut held = Vec::new();
    for _ in 0..16 {
        let (reader, writer) = pipe();
        stuff(writer, &block);
        held.extend([reader, writer]);
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            let mut ends = [0; 2];
            must(unsafe { socketpair(AF_UNIX, kind, 0, ends.as_mut_ptr()) });
            stuff(ends[0], &block);
            held.extend(ends);
        }
    }
    held.into_iter().for_each(close);
}

/// A frame of the stack with tokens, and others below.
fn fill_stack(depth: usize) -> u8 {
    let mut frame = [0u8; 16 * PAGE];
    set(&mut frame);
    let below = if depth == 0 { 0 } else { fill_stack(depth - 1) };
    std::hint::black_box(&frame)[depth] ^ below
}

/// Fills and frees what there is.
fn fill(folders: &[PathBuf]) {
    let anonymous = fork(|| set(map(much_memory(), MAP_PRIVATE | MAP_ANONYMOUS, -1)));
    assert_eq!(wait(anonymous), Ended::Exited(0));
    let rest = fork(|| {
        set(map(FILE_BYTES, MAP_SHARED | MAP_ANONYMOUS, -1));
        let fd = memory_file(FILE_BYTES);
        set(map(FILE_BYTES, MAP_SHARED, fd));
        set(segment().1);
        fill_queues();
        std::hint::black_box(fill_stack(20));
    });
    assert_eq!(wait(rest), Ended::Exited(0));
    folders.iter().for_each(|folder| fill_files(folder));
}

/// Fails if memory holds the token.
#[track_caller]
fn search(what: &str, bytes: &[u8]) {
    assert!(!holds(bytes), "{what}: the token is there");
}

/// Reads a file from its start, from the cache and then from the medium.
fn search_file(what: &str, fd: i32) {
    for advice in [None, Some(POSIX_FADV_DONTNEED)] {
        if let Some(advice) = advice {
            must(unsafe { fsync(fd) });
            must(unsafe { posix_fadvise(fd, 0, 0, advice) });
        }
        must(unsafe { lseek(fd, 0, SEEK_SET) });
        loop {
            let bytes = abi::read(fd, MIB).expect("reading");
            if bytes.is_empty() {
                break;
            }
            search(what, &bytes);
        }
    }
    search(&format!("{what}, mapped"), map(FILE_BYTES, MAP_SHARED, fd));
}

fn search_files(folder: &Path) {
    let file =
        |name: &str| open(folder.join(name), O_RDWR | O_CREAT | O_EXCL, 0o600).expect("a file");
    let allocated = file("allocated");
    must(unsafe { fallocate(allocated, 0, 0, FILE_BYTES as i64) });
    search_file("allocated", allocated);
    // A write of a part of an allocated block, and of one at the end.
    for at in (0..FILE_BYTES).step_by(5 * PAGE + 1) {
        must(unsafe { pwrite(allocated, c"x".as_ptr().cast(), 1, at as i64) } as i64);
    }
    search_file("allocated and written to", allocated);
    let extended = file("extended");
    assert_eq!(abi::write(extended, b"start"), Ok(5));
    must(unsafe { ftruncate(extended, FILE_BYTES as i64) });
    search_file("extended", extended);
    let sparse = file("sparse");
    must(unsafe { ftruncate(sparse, FILE_BYTES as i64) });
    for at in (0..FILE_BYTES).step_by(64 << 10) {
        must(unsafe { pwrite(sparse, c"x".as_ptr().cast(), 1, (at + 100) as i64) } as i64);
    }
    search_file("sparse", sparse);
    // The bytes behind the end of a file are zeroes, and not those that the block had before.
    let short = file("short");
    assert_eq!(abi::write(short, b"short"), Ok(5));
    let page = map(PAGE, MAP_SHARED, short);
    assert!(page[5..].iter().all(|byte| *byte == 0));
    must(unsafe { ftruncate(short, PAGE as i64) });
    assert!(page[5..].iter().all(|byte| *byte == 0));
    [allocated, extended, sparse, short].into_iter().for_each(close);
    for name in ["allocated", "extended", "sparse", "short"] {
        fs::remove_file(folder.join(name)).expect("removing it");
    }
}

/// Looks at structures that the kernel writes, with what they hold between their fields.
fn search_structures() {
    type Call = (&'static str, fn(*mut c_void) -> i64);
    const ROOM: usize = 16 * PAGE;
    let calls: [Call; 16] = [
        ("stat", |to| i64::from(unsafe { stat(c"/".as_ptr(), to.cast()) })),
        ("statx", |to| unsafe { syscall(SYS_statx, AT_FDCWD, c"/".as_ptr(), 0, 0xfff, to) }),
        ("statfs", |to| i64::from(unsafe { statfs(c"/".as_ptr(), to.cast()) })),
        ("uname", |to| i64::from(unsafe { uname(to.cast()) })),
        ("sysinfo", |to| unsafe { syscall(SYS_sysinfo, to) }),
        ("getrusage", |to| unsafe { syscall(SYS_getrusage, 0, to) }),
        ("times", |to| unsafe { syscall(SYS_times, to) }),
        ("adjtimex", |to| {
            // No mode: nothing is changed.
            unsafe { to.cast::<u32>().write(0) };
            unsafe { syscall(SYS_adjtimex, to) }
        }),
        ("getitimer", |to| unsafe { syscall(SYS_getitimer, 0, to) }),
        ("sigaction", |to| unsafe { syscall(SYS_rt_sigaction, 10, 0, to, 8) }),
        ("sigaltstack", |to| unsafe { syscall(SYS_sigaltstack, 0, to) }),
        ("sched_getattr", |to| unsafe { syscall(SYS_sched_getattr, 0, to, 48, 0) }),
        ("getdents", |to| {
            let fd = open("/", O_RDONLY | O_DIRECTORY, 0).expect("the root");
            let found = unsafe { syscall(SYS_getdents64, fd, to, ROOM) };
            close(fd);
            found
        }),
        ("getsockname", |to| {
            let fd = must(unsafe { socket(AF_UNIX, SOCK_STREAM, 0) }) as i32;
            let mut length = 128u32;
            let found = unsafe { syscall(SYS_getsockname, fd, to, &mut length) };
            close(fd);
            found
        }),
        ("waitid", |to| {
            let child = fork(|| {});
            let found = unsafe { syscall(SYS_waitid, P_PID, child, to, WEXITED | WNOWAIT, 0) };
            wait(child);
            found
        }),
        ("inotify", |to| {
            let fd = must(unsafe { inotify_init1(0) }) as i32;
            must(unsafe { inotify_add_watch(fd, c".".as_ptr(), IN_CREATE) });
            fs::write("noticed", "").expect("a file");
            let found = unsafe { libc::read(fd, to, ROOM) } as i64;
            fs::remove_file("noticed").expect("removing it");
            close(fd);
            found
        }),
    ];
    for (name, call) in calls {
        let mut room = vec![0u8; ROOM];
        must(call(room.as_mut_ptr().cast()));
        search(name, &room);
    }
}

fn search_stack() {
    let mut bytes = Vec::new();
    let frame = [0u8; 8];
    let top = frame.as_ptr() as usize;
    for page in 1..256usize {
        // SAFETY: the stack grows by accesses below its end, within its limit of some MiB.
        bytes.push(unsafe { ((top - page * PAGE) as *const [u8; PAGE / 2]).read_volatile() });
    }
    bytes.iter().for_each(|part| search("the stack", part));
}

/// Looks for the token in all that can be allocated.
fn search_all(folders: &[PathBuf]) {
    // A search leaves the token on the stack.
    assert_eq!(wait(fork(search_stack)), Ended::Exited(0));
    let big =
        fork(|| search("anonymous memory", map(much_memory(), MAP_PRIVATE | MAP_ANONYMOUS, -1)));
    assert_eq!(wait(big), Ended::Exited(0));
    let rest = fork(|| {
        search("shared memory", map(FILE_BYTES, MAP_SHARED | MAP_ANONYMOUS, -1));
        let fd = memory_file(FILE_BYTES);
        search_file("a file in memory", fd);
        search("a segment", segment().1);
        let before = must(unsafe { syscall(SYS_brk, 0) }) as usize;
        must(unsafe { syscall(SYS_brk, before + 4 * MIB) });
        let start = before.next_multiple_of(PAGE) as *const u8;
        // SAFETY: the break was moved by these bytes.
        search("the break", unsafe { slice::from_raw_parts(start, 3 * MIB) });
        let memory = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        set(memory);
        must(unsafe { madvise(memory.as_mut_ptr().cast(), MIB, MADV_DONTNEED) });
        search("memory that was given up", memory);
        unmap(memory);
    });
    assert_eq!(wait(rest), Ended::Exited(0));
    for folder in folders {
        env::set_current_dir(folder).expect("a folder");
        search_files(folder);
        search_structures();
    }
}

/// Makes a folder on the disk and one in memory for each of the two programs.
fn prepare(scratches: &[Scratch]) {
    for (scratch, (name, context)) in scratches.iter().flat_map(|scratch| {
        [("high", "system_u:object_r:tmp_t:s2"), ("low", "system_u:object_r:tmp_t:s0")]
            .map(|part| (scratch, part))
    }) {
        let path = scratch.path(name);
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("opening it");
        if mls::is_here() {
            mls::label(&path, context);
        }
        let outer = fs::Permissions::from_mode(0o755);
        fs::set_permissions(scratch.path(""), outer).expect("opening it");
    }
}

/// The environment variables with the folders.
const FOLDERS: [&str; 2] = ["REUSED_DISK", "REUSED_MEMORY"];

#[test]
fn freed_frames_and_blocks_show_nothing() {
    let folders = |name: &str| {
        FOLDERS.map(|variable| Path::new(&env::var(variable).expect("a folder")).join(name))
    };
    match mls::part().as_deref() {
        Some("fill") => fill(&folders("high")),
        Some("search") => search_all(&folders("low")),
        _ => isolated(|| {
            let scratches = [Scratch::of_levels_on_disk(), Scratch::of_levels()];
            prepare(&scratches);
            for (variable, scratch) in FOLDERS.iter().zip(&scratches) {
                // SAFETY: the process has one thread.
                unsafe { env::set_var(variable, scratch.path("")) };
            }
            match mls::is_here() {
                true => {
                    let stage = Stage::new(TEST);
                    assert_eq!(stage.run(HIGH, "fill"), Ended::Exited(0));
                    assert_eq!(stage.run(LOW, "search"), Ended::Exited(0));
                }
                false => {
                    assert_eq!(wait(fork(|| fill(&folders("high")))), Ended::Exited(0));
                    assert_eq!(wait(fork(|| search_all(&folders("low")))), Ended::Exited(0));
                }
            }
        }),
    }
}

/// The test can fail: memory that is not freed is found.
#[test]
fn the_token_is_found_where_it_is() {
    let memory = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert!(!holds(memory));
    memory[4099..4115].copy_from_slice(&token());
    assert!(holds(memory));
    unmap(memory);
}
