//! Deeds with files and directories: sequences of calls that move tokens, or that must be refused.
use crate::{
    objects,
    subject::{Actor, ROOM},
};
use libc::*;
use std::ffi::CString;

/// A deed and its name.
pub type Deed = (&'static str, fn(&mut Actor<'_>));

/// All deeds.
pub const DEEDS: &[Deed] = &[
    ("writing a file", write_file),
    ("reading a file", read_file),
    ("mapping a file", map_file),
    ("listing a folder", list),
    ("links", links),
    ("attributes", attributes),
    ("moving names", move_names),
    ("changing attributes", change),
    ("looking at attributes", look),
    ("locking", lock),
    ("watching", watch),
    ("copying", copy),
    ("a FIFO", fifo),
    ("a fresh page", fresh_page),
    ("a terminal", objects::terminal),
    ("a given descriptor", objects::given),
    ("local streams", objects::streams),
    ("local datagrams", objects::datagrams),
    ("passing descriptors", objects::rights),
    ("Internet datagrams", objects::internet),
    ("a queue of messages", objects::messages),
    ("a segment", objects::segment),
    ("a semaphore", objects::semaphore),
    ("a POSIX queue", objects::queue),
    ("memory without a name", objects::memory),
    ("/proc", objects::proc),
    ("the name of a thread", objects::name),
    ("memory of a process", objects::other_memory),
    ("a signal", objects::signal),
    ("a process that exists", objects::exists),
    ("a descriptor of a process", objects::other_descriptor),
];

const HERE: u64 = AT_FDCWD as i64 as u64;
const NO_LINK: u64 = AT_SYMLINK_NOFOLLOW as u64;

/// Returns the address of a string.
pub fn at(string: &CString) -> u64 {
    string.as_ptr() as u64
}

impl Actor<'_> {
    /// Opens a path without waiting.
    pub fn open(&mut self, path: &CString, flags: i32) -> i64 {
        let flags = (flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY) as u64;
        self.call(SYS_openat, [HERE, at(path), flags, 0o666, 0, 0])
    }
    pub fn close(&mut self, file: i64) {
        if file >= 0 {
            self.call(SYS_close, [file as u64, 0, 0, 0, 0, 0]);
        }
    }
    /// Writes tokens. Returns the result.
    pub fn put(&mut self, file: i64) -> i64 {
        let (length, from) = (1 + self.random.below(ROOM as u64), self.tokens.as_ptr() as u64);
        self.call(SYS_write, [file as u64, from, length, 0, 0, 0])
    }
    /// Reads bytes, and looks at them.
    pub fn take(&mut self, file: i64) {
        let room = self.buffer.as_mut_ptr() as u64;
        let done = self.call(SYS_read, [file as u64, room, ROOM as u64, 0, 0, 0]);
        self.see_buffer(done);
    }
    /// Copies memory of its own into the buffer, and looks at it. A page that is gone is an error there, no signal.
    pub fn see_memory(&mut self, address: u64, length: u64) {
        let own = u64::from(std::process::id());
        self.read_memory(own, address, length);
    }
    /// Copies memory of a process into the buffer, and looks at it. Returns the result.
    pub fn read_memory(&mut self, process: u64, address: u64, length: u64) -> i64 {
        let (to, from) =
            ([self.buffer.as_mut_ptr() as u64, length.min(ROOM as u64)], [address, length]);
        let done = self.call(
            SYS_process_vm_readv,
            [process, to.as_ptr() as u64, 1, from.as_ptr() as u64, 1, 0],
        );
        self.see_buffer(done);
        done
    }
    /// Copies tokens into memory of a process. Returns the result.
    pub fn write_memory(&mut self, process: u64, address: u64) -> i64 {
        let (from, to) = ([self.tokens.as_ptr() as u64, 512], [address, 512]);
        self.call(
            SYS_process_vm_writev,
            [process, from.as_ptr() as u64, 1, to.as_ptr() as u64, 1, 0],
        )
    }
    pub fn map(&mut self, file: i64, (protection, flags): (i32, i32)) -> Option<u64> {
        let length = ROOM as u64;
        let words = [0, length, protection as u64, flags as u64, file as u64, 0];
        u64::try_from(self.call(SYS_mmap, words)).ok()
    }
    pub fn unmap(&mut self, address: u64) {
        self.call(SYS_munmap, [address, ROOM as u64, 0, 0, 0, 0]);
    }
}

fn write_file(actor: &mut Actor<'_>) {
    let (folder, path) = actor.path();
    let more = [0, O_TRUNC, O_APPEND, O_EXCL][actor.random.below(4) as usize];
    let file = actor.open(&path, O_RDWR | O_CREAT | more);
    if actor.subject().secrecy != folder.secrecy {
        actor.must_fail(file);
    }
    actor.put(file);
    let (from, at) = (actor.tokens.as_ptr() as u64, actor.random.below(1 << 16));
    actor.call(SYS_pwrite64, [file as u64, from, 512, at, 0, 0]);
    let end = actor.random.below(1 << 16);
    actor.call(SYS_ftruncate, [file as u64, end, 0, 0, 0, 0]);
    if actor.random.below(8) == 0 {
        actor.call(SYS_fallocate, [file as u64, 0, end, 9000, 0, 0]);
    }
    actor.take(file);
    actor.close(file);
}

fn read_file(actor: &mut Actor<'_>) {
    let (folder, path) = actor.path();
    let file = actor.open(&path, O_RDONLY);
    if !actor.subject().may_read(folder) {
        actor.must_fail(file);
    }
    actor.take(file);
    let (room, at) = (actor.buffer.as_mut_ptr() as u64, actor.random.below(1 << 16));
    let done = actor.call(SYS_pread64, [file as u64, room, ROOM as u64, at, 0, 0]);
    actor.see_buffer(done);
    actor.close(file);
}

fn map_file(actor: &mut Actor<'_>) {
    let (_, path) = actor.path();
    let mut file = actor.open(&path, O_RDWR);
    let protection = if file >= 0 { PROT_READ | PROT_WRITE } else { PROT_READ };
    if file < 0 {
        file = actor.open(&path, O_RDONLY);
    }
    if let Some(address) = actor.map(file, (protection, MAP_SHARED)) {
        actor.see_memory(address, ROOM as u64);
        let own = u64::from(std::process::id());
        actor.write_memory(own, address);
        actor.unmap(address);
    }
    actor.close(file);
}

fn list(actor: &mut Actor<'_>) {
    let (_, path) = actor.path();
    let folder = parent(&path);
    let file = actor.open(&folder, O_RDONLY | O_DIRECTORY);
    for _ in 0..3 {
        let room = actor.buffer.as_mut_ptr() as u64;
        let done = actor.call(SYS_getdents64, [file as u64, room, ROOM as u64, 0, 0, 0]);
        actor.see_buffer(done);
    }
    actor.close(file);
}

/// Returns the path of the folder of a file.
fn parent(path: &CString) -> CString {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(bytes.len());
    CString::new(&bytes[..end]).expect("no NUL")
}

fn links(actor: &mut Actor<'_>) {
    let (folder, path) = actor.path();
    let target = CString::new(&actor.tokens[..8 * (1 + actor.random.below(9) as usize)]);
    let target = target.expect("no NUL");
    let made = actor.call(SYS_symlinkat, [at(&target), HERE, at(&path), 0, 0, 0]);
    if !actor.subject().may_write(folder) {
        actor.must_fail(made);
    }
    let ((folder, path), room) = (actor.path(), actor.buffer.as_mut_ptr() as u64);
    let done = actor.call(SYS_readlinkat, [HERE, at(&path), room, ROOM as u64, 0, 0]);
    if !actor.subject().may_read(folder) {
        actor.must_fail(done);
    }
    actor.see_buffer(done);
}

fn attributes(actor: &mut Actor<'_>) {
    let ((folder, path), name) = (actor.path(), c"user.token");
    let (name, value) = (name.as_ptr() as u64, actor.tokens.as_ptr() as u64);
    let length = 8 * (1 + actor.random.below(60));
    let set = actor.call(SYS_lsetxattr, [at(&path), name, value, length, 0, 0]);
    if actor.subject().secrecy != folder.secrecy {
        actor.must_fail(set);
    }
    let ((folder, path), room) = (actor.path(), actor.buffer.as_mut_ptr() as u64);
    let done = actor.call(SYS_lgetxattr, [at(&path), name, room, ROOM as u64, 0, 0]);
    if !actor.subject().may_read(folder) {
        actor.must_fail(done);
    }
    actor.see_buffer(done);
    let done = actor.call(SYS_llistxattr, [at(&path), room, ROOM as u64, 0, 0, 0]);
    actor.see_buffer(done);
}

fn move_names(actor: &mut Actor<'_>) {
    let ((from, old), (to, new)) = (actor.path(), actor.path());
    let (number, words) = match actor.random.below(5) {
        0 => (SYS_renameat2, [HERE, at(&old), HERE, at(&new), actor.random.below(3), 0]),
        1 => (SYS_linkat, [HERE, at(&old), HERE, at(&new), 0, 0]),
        2 => (SYS_unlinkat, [HERE, at(&old), 0, 0, 0, 0]),
        3 => (SYS_unlinkat, [HERE, at(&old), AT_REMOVEDIR as u64, 0, 0, 0]),
        _ => (SYS_mkdirat, [HERE, at(&old), 0o777, 0, 0, 0]),
    };
    let done = actor.call(number, words);
    // A rename of a file to a name that it has already changes nothing, so it needs no right but to look.
    let subject = actor.subject();
    let is_refused = match number {
        libc::SYS_renameat2 => !subject.may_read(from) || !subject.may_read(to),
        libc::SYS_linkat => !subject.may_write(from) || !subject.may_write(to),
        _ => !subject.may_write(from),
    };
    if is_refused {
        actor.must_fail(done);
    }
}

fn change(actor: &mut Actor<'_>) {
    let (folder, path) = actor.path();
    let times = [0u64; 4];
    let (number, words) = match actor.random.below(4) {
        0 => (SYS_fchmodat, [HERE, at(&path), 0o666, 0, 0, 0]),
        1 => (SYS_utimensat, [HERE, at(&path), times.as_ptr() as u64, NO_LINK, 0, 0]),
        2 => (SYS_truncate, [at(&path), actor.random.below(1 << 14), 0, 0, 0, 0]),
        _ => (SYS_fchownat, [HERE, at(&path), u64::from(u32::MAX), 65534, NO_LINK, 0]),
    };
    let done = actor.call(number, words);
    // A link of another subject may lead to a file of this one.
    let follows = number == SYS_fchmodat || number == SYS_truncate;
    if !follows && actor.subject().secrecy != folder.secrecy {
        actor.must_fail(done);
    }
}

fn look(actor: &mut Actor<'_>) {
    let ((folder, path), room) = (actor.path(), actor.buffer.as_mut_ptr() as u64);
    let (number, words) = match actor.random.below(3) {
        0 => (SYS_newfstatat, [HERE, at(&path), room, NO_LINK, 0, 0]),
        1 => (SYS_statx, [HERE, at(&path), NO_LINK, 0xfff, room, 0]),
        _ => {
            let flags = (O_PATH | O_NOFOLLOW | O_CLOEXEC) as u64;
            (SYS_openat, [HERE, at(&path), flags, 0, 0, 0])
        }
    };
    let done = actor.call(number, words);
    if !actor.subject().may_read(folder) {
        actor.must_fail(done);
    }
    if number == SYS_openat {
        actor.close(done);
    }
}

fn lock(actor: &mut Actor<'_>) {
    let (folder, path) = actor.path();
    let file = actor.open(&path, O_RDONLY);
    if file < 0 {
        return;
    }
    let lock = [F_RDLCK as u64, 0, 0, 0];
    let done = match actor.random.below(3) {
        0 => {
            let kind = [LOCK_SH, LOCK_EX][actor.random.below(2) as usize] | LOCK_NB;
            actor.call(SYS_flock, [file as u64, kind as u64, 0, 0, 0, 0])
        }
        1 => {
            let words = [file as u64, F_SETLK as u64, lock.as_ptr() as u64, 0, 0, 0];
            actor.call(SYS_fcntl, words)
        }
        _ => {
            let words = [file as u64, F_OFD_SETLK as u64, lock.as_ptr() as u64, 0, 0, 0];
            actor.call(SYS_fcntl, words)
        }
    };
    if actor.subject().secrecy != folder.secrecy {
        actor.must_fail(done);
    }
    actor.close(file);
}

fn watch(actor: &mut Actor<'_>) {
    let watcher = actor.call(SYS_inotify_init1, [(O_NONBLOCK | O_CLOEXEC) as u64, 0, 0, 0, 0, 0]);
    let (folder, path) = actor.path();
    let place = parent(&path);
    let done = actor.call(SYS_inotify_add_watch, [watcher as u64, at(&place), 0xfff, 0, 0, 0]);
    if !actor.subject().may_read(folder) {
        actor.must_fail(done);
    }
    write_file(actor);
    move_names(actor);
    actor.take(watcher);
    actor.close(watcher);
}

fn copy(actor: &mut Actor<'_>) {
    let ((_, from), (_, to)) = (actor.path(), actor.path());
    let (from, to) = (actor.open(&from, O_RDONLY), actor.open(&to, O_RDWR | O_CREAT));
    let words = match actor.random.below(2) {
        0 => (SYS_sendfile, [to as u64, from as u64, 0, 9000, 0, 0]),
        _ => (SYS_copy_file_range, [from as u64, 0, to as u64, 0, 9000, 0]),
    };
    actor.call(words.0, words.1);
    actor.call(SYS_lseek, [to as u64, 0, 0, 0, 0, 0]);
    actor.take(to);
    actor.close(from);
    actor.close(to);
}

fn fifo(actor: &mut Actor<'_>) {
    let (_, path) = actor.path();
    actor.call(SYS_mknodat, [HERE, at(&path), u64::from(S_IFIFO | 0o666), 0, 0, 0]);
    let file = actor.open(&path, O_RDWR);
    actor.put(file);
    actor.take(file);
    actor.close(file);
}

fn fresh_page(actor: &mut Actor<'_>) {
    let private = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if let Some(address) = actor.map(-1, private) {
        actor.see_memory(address, ROOM as u64);
        let own = u64::from(std::process::id());
        actor.write_memory(own, address);
        actor.unmap(address);
    }
}
