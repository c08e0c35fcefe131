//! The calls that race with an exec: those that change what it decides by, and those that look into a
//! process.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "the calls are the C library's, with numbers and places of this process"
)]
use crate::{
    files::SECRET,
    program::{self, KEY_FD, KEY_TEXT},
    violated,
};
use abi::{
    c,
    rights::{SECRET_AT, SECRET_BYTES, read_memory},
    seccomp::{ERRNO, install_with, only},
};
use libc::*;
use std::{ffi::CStr, fs, io::Read, os::unix::fs::FileExt, sync::OnceLock};

/// The process that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// A thread of the process that executes makes the call, once.
    Inside,
    /// Another process of the same user makes the call, again and again.
    Outside,
}

/// The process and the file that a call is about.
pub struct Subject<'a> {
    /// The process that executes.
    pub victim: pid_t,
    /// A file of the user that root takes over.
    pub file: &'a CStr,
}

/// A call of the race.
pub struct Racer {
    pub name: &'static str,
    pub place: Where,
    pub call: fn(&Subject<'_>),
}

const fn inside(name: &'static str, call: fn(&Subject<'_>)) -> Racer {
    Racer { name, place: Where::Inside, call }
}

const fn outside(name: &'static str, call: fn(&Subject<'_>)) -> Racer {
    Racer { name, place: Where::Outside, call }
}

/// All racers.
pub const RACERS: &[Racer] = &[
    inside("seccomp with TSYNC", |_| {
        control(PR_SET_NO_NEW_PRIVS, 1);
        let _ = install_with(&only(SYS_setuid, ERRNO), 1);
        wait();
    }),
    inside("seccomp", |_| {
        control(PR_SET_NO_NEW_PRIVS, 1);
        let _ = install_with(&only(SYS_setuid, ERRNO), 0);
        wait();
    }),
    inside("no new privileges", |_| {
        control(PR_SET_NO_NEW_PRIVS, 1);
        wait();
    }),
    inside("clone with CLONE_FS", |_| share(CLONE_FS, move_about)),
    inside("clone with CLONE_FILES", |_| share(CLONE_FILES, move_files)),
    inside("clone with CLONE_VM and CLONE_FS", |_| share(CLONE_FS | CLONE_VM | CLONE_VFORK, end)),
    inside("a new thread", |_| {
        // EAGAIN while another thread executes a program.
        done(std::thread::Builder::new().spawn(wait));
        wait();
    }),
    inside("unshare", |_| again(|| done(unsafe { unshare(CLONE_FS | CLONE_FILES) }))),
    inside("dumpable", |_| again(|| control(PR_SET_DUMPABLE, 1))),
    inside("parent-death signal", |_| again(|| control(PR_SET_PDEATHSIG, SIGUSR1 as c_ulong))),
    inside("personality", |_| again(|| done(unsafe { personality(0x074_0000) }))),
    inside("limits", |_| again(|| limit(0))),
    inside("setresuid", |_| again(|| done(unsafe { setresuid(u32::MAX, crate::USER, u32::MAX) }))),
    inside("exec of another thread", |_| {
        program::become_named(&c("/proc/self/exe"), program::OTHER_NAME);
    }),
    inside("exit", |_| done(unsafe { syscall(SYS_exit_group, 0) })),
    outside("process_vm_readv", |subject| {
        let mut found = [0; SECRET_BYTES];
        let _ = read_memory(subject.victim, SECRET_AT, &mut found);
        judge(&found);
    }),
    outside("/proc/PID/mem", |subject| {
        let mut found = [0; SECRET_BYTES];
        if let Ok(file) = fs::File::open(format!("/proc/{}/mem", subject.victim)) {
            std::thread::yield_now();
            let _ = file.read_at(&mut found, SECRET_AT as u64);
        }
        judge(&found);
    }),
    outside("/proc/PID/maps", |subject| look(subject, "maps")),
    outside("/proc/PID/smaps", |subject| look(subject, "smaps")),
    outside("/proc/PID/maps, kept", |subject| {
        static KEPT: OnceLock<Option<fs::File>> = OnceLock::new();
        let path = format!("/proc/{}/maps", subject.victim);
        if let Some(file) = KEPT.get_or_init(|| fs::File::open(path).ok()) {
            let mut text = [0; 4096];
            let count = file.read_at(&mut text, 0).unwrap_or(0);
            judge(&text[..count]);
        }
    }),
    outside("/proc/PID/auxv and environ", |subject| {
        look(subject, "auxv");
        look(subject, "environ");
    }),
    outside("/proc/PID/io and personality", |subject| {
        look(subject, "io");
        look(subject, "personality");
    }),
    outside("/proc/PID/fd", |subject| look(subject, &format!("fd/{KEY_FD}"))),
    outside("pidfd_getfd", |subject| unsafe {
        let process = syscall(SYS_pidfd_open, subject.victim, 0);
        let file = syscall(SYS_pidfd_getfd, process, KEY_FD, 0);
        let mut text = [0u8; 16];
        if file >= 0 {
            pread(file as i32, text.as_mut_ptr().cast(), 16, 0);
            close(file as i32);
        }
        close(process as i32);
        judge(&text);
    }),
    outside("prlimit64", |subject| limit(subject.victim)),
    outside("kill", |subject| unsafe {
        kill(subject.victim, SIGSTOP);
        kill(subject.victim, SIGCONT);
    }),
    outside("get_robust_list", |subject| unsafe {
        let mut words = [0u64; 2];
        syscall(SYS_get_robust_list, subject.victim, &raw mut words[0], &raw mut words[1]);
    }),
    outside("chmod", |subject| done(unsafe { chmod(subject.file.as_ptr(), 0o4755) })),
];

/// Maps an empty page at the secret's address, so that the executing process has one there before.
pub fn prepare() {
    let page = (SECRET_AT & !4095) as *mut c_void;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: a place where nothing of this program is.
    unsafe { mmap(page, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) };
}

/// Checks that `seen` does not contain the secret.
fn judge(seen: &[u8]) {
    let has = |what: &[u8]| seen.windows(what.len()).any(|part| part == what);
    if has(&SECRET) || has(KEY_TEXT) || has(b"/locked-") {
        violated(&format!("seen by its user: {}", String::from_utf8_lossy(seen)));
    }
}

fn look(subject: &Subject<'_>, name: &str) {
    let mut text = Vec::new();
    if let Ok(mut file) = fs::File::open(format!("/proc/{}/{name}", subject.victim)) {
        std::thread::yield_now();
        let _ = file.read_to_end(&mut text);
    }
    judge(&text);
}

/// Ignores the answer of a call that may fail.
fn done<T>(_: T) {}

fn control(option: i32, value: c_ulong) {
    unsafe { prctl(option, value, 0, 0, 0) };
}

fn limit(process: pid_t) {
    let wide = rlimit { rlim_cur: 64 << 20, rlim_max: RLIM_INFINITY };
    unsafe { prlimit(process, RLIMIT_STACK, &wide, std::ptr::null_mut()) };
}

/// Waits until the process's exec ends this thread.
fn wait() {
    loop {
        unsafe { pause() };
    }
}

fn again(call: impl Fn()) {
    loop {
        call();
    }
}

/// Starts a process that shares something with this one and calls `body` for ever.
fn share(what: c_int, body: fn() -> !) {
    if unsafe { syscall(SYS_clone, what | SIGCHLD, 0, 0, 0, 0) } == 0 {
        body();
    }
    wait();
}

fn move_about() -> ! {
    loop {
        unsafe {
            chdir(c"/".as_ptr());
            umask(0o777);
            chdir(c"/tmp".as_ptr());
            umask(0);
        }
    }
}

fn move_files() -> ! {
    loop {
        unsafe { dup2(2, KEY_FD) };
    }
}

fn end() -> ! {
    unsafe { _exit(0) }
}
