//! Tries requests that `vm.overcommit_memory` may refuse, in parts of the machine's memory and of the commit limit, and prints
//! which are granted, one policy after the other. It changes the machine's settings, and restores them.
use abi::{Ended, fork, wait};
use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE,
};
use std::{ffi::c_void, fs, ptr};

const SETTINGS: &str = "/proc/sys/vm";
const READ_WRITE: i32 = PROT_READ | PROT_WRITE;
const MIB: usize = 1 << 20;
const UNPRIVILEGED: u32 = 1000;

/// A setting that is changed as long as this lives and then restored.
struct Setting {
    name: &'static str,
    before: String,
}

impl Setting {
    fn new(name: &'static str, value: impl ToString) -> Setting {
        let before = get(name);
        set(name, value);
        Setting { name, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        set(self.name, &self.before);
    }
}

fn get(name: &str) -> String {
    fs::read_to_string(format!("{SETTINGS}/{name}")).expect("a setting")
}

fn set(name: &str, value: impl ToString) {
    fs::write(format!("{SETTINGS}/{name}"), value.to_string()).expect("root's rights");
}

/// Returns the number of bytes in a line of /proc/meminfo.
fn meminfo(name: &str) -> usize {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("a line in kB");
    kib.parse::<usize>().expect("a number") * 1024
}

/// A mapping, which ends with this.
struct Mapping {
    at: *mut c_void,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize, protection: i32, flags: i32) -> Option<Mapping> {
        // SAFETY: placed where nothing is.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags | MAP_ANONYMOUS, -1, 0) };
        (at != MAP_FAILED).then_some(Mapping { at, bytes })
    }
    fn private(bytes: usize) -> Option<Mapping> {
        Mapping::new(bytes, READ_WRITE, MAP_PRIVATE)
    }
    fn protect(&self, protection: i32) -> bool {
        // SAFETY: nothing of Rust's is there.
        unsafe { libc::mprotect(self.at, self.bytes, protection) == 0 }
    }
    fn advise(&self, advice: i32) -> bool {
        // SAFETY: as above.
        unsafe { libc::madvise(self.at, self.bytes, advice) == 0 }
    }
    /// Grows the mapping by mremap.
    fn grow(&mut self, bytes: usize) -> bool {
        // SAFETY: as above.
        let at = unsafe { libc::mremap(self.at, self.bytes, bytes, libc::MREMAP_MAYMOVE) };
        if at == MAP_FAILED {
            return false;
        }
        (self.at, self.bytes) = (at, bytes);
        true
    }
    /// Moves its pages; the place stays mapped.
    fn leave(&self) -> Option<Mapping> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
        // SAFETY: as above.
        let at = unsafe { libc::mremap(self.at, self.bytes, self.bytes, flags) };
        (at != MAP_FAILED).then_some(Mapping { at, bytes: self.bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

fn can_fork() -> bool {
    // SAFETY: the child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends.
        unsafe { libc::_exit(0) };
    }
    child > 0 && wait(child) == Ended::Exited(0)
}

fn say(what: &str, is_granted: bool) {
    println!("  {what}: {}", if is_granted { "granted" } else { "refused" });
}

/// Prints the answers to a single request of twice the machine's memory, and to two requests of more than half of it.
fn single_requests(policy: &str) {
    println!("{policy}");
    let _policy = Setting::new("overcommit_memory", policy);
    let total = meminfo("MemTotal");
    let (double, most) = (2 * total, total / 10 * 6);
    for (what, protection, flags) in [
        ("private", READ_WRITE, MAP_PRIVATE),
        ("private, to be read", PROT_READ, MAP_PRIVATE),
        ("private, not reserved", READ_WRITE, MAP_PRIVATE | MAP_NORESERVE),
        ("shared", READ_WRITE, MAP_SHARED),
        ("shared, not reserved", READ_WRITE, MAP_SHARED | MAP_NORESERVE),
    ] {
        say(&format!("double, {what}"), Mapping::new(double, protection, flags).is_some());
    }
    let (one, other) = (Mapping::private(most), Mapping::private(most));
    say("most, twice", one.is_some() && other.is_some());
    say("a process of its own with both", can_fork());
    let readable = Mapping::new(double, PROT_READ, MAP_PRIVATE).expect("nothing is promised");
    say("double, made writable", readable.protect(READ_WRITE));
}

fn strict_requests() {
    println!("2");
    let _policy = Setting::new("overcommit_memory", 2);
    let _ratio = Setting::new("overcommit_ratio", 80);
    let limit = meminfo("CommitLimit");
    let (most, half) = (limit / 10 * 6, limit / 10 * 3);
    let first = Mapping::private(most);
    say("most", first.is_some());
    say("most again", Mapping::private(most).is_some());
    say("most again, not reserved", {
        Mapping::new(most, READ_WRITE, MAP_PRIVATE | MAP_NORESERVE).is_some()
    });
    say("most again, shared", Mapping::new(most, READ_WRITE, MAP_SHARED).is_some());
    let readable = Mapping::new(most, PROT_READ, MAP_PRIVATE).expect("nothing is promised");
    say("most again, made writable", readable.protect(READ_WRITE));
    drop(readable);
    let first = first.expect("it was granted");
    say("most again, elsewhere", first.leave().is_some());
    say("a process of its own", can_fork());
    say("left out of new processes", first.advise(libc::MADV_DONTFORK));
    say("a process of its own", can_fork());
    say("made readable", first.protect(PROT_READ));
    say("most again", Mapping::private(most).is_some());
    drop(first);
    let shared = Mapping::new(most, READ_WRITE, MAP_SHARED);
    say("most, shared", shared.is_some());
    say("most again", Mapping::private(most).is_some());
    say("a process of its own", can_fork());
    drop(shared);
    let mut growing = Mapping::private(half).expect("that is little");
    say("a process of its own with half", can_fork());
    say("grown to double", growing.grow(2 * limit));
    say("grown to most", growing.grow(most));
    say("shrunk", growing.grow(half));
    say("half more", Mapping::private(half).is_some());
    drop(growing);
    say("most at last", Mapping::private(most).is_some());
}

/// Prints the part reserved for root, and the counts.
fn settings() {
    println!("settings");
    let _policy = Setting::new("overcommit_memory", 2);
    {
        let _ratio = Setting::new("overcommit_ratio", 100);
        say("the limit is all memory", meminfo("CommitLimit") == meminfo("MemTotal"));
        let _reserve = Setting::new("admin_reserve_kbytes", meminfo("MemTotal") / 1024);
        say("root's", Mapping::private(MIB).is_some());
        let child = fork(|| {
            // SAFETY: no memory is touched.
            assert_eq!(unsafe { libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) }, 0);
            assert!(Mapping::private(MIB).is_none(), "granted");
        });
        say("another's", wait(child) != Ended::Exited(0));
    }
    set("overcommit_kbytes", 400_000);
    say("the limit is in KiB", meminfo("CommitLimit") == 400_000 << 10);
    say("hundredths are none", get("overcommit_ratio") == "0\n");
    set("overcommit_ratio", 50);
    say("it is in hundredths", get("overcommit_kbytes") == "0\n");
    let before = meminfo("Committed_AS");
    let mapping = Mapping::private(64 * MIB).expect("that is little");
    let with = meminfo("Committed_AS").saturating_sub(before);
    say("it is counted", (63 * MIB..66 * MIB).contains(&with));
    drop(mapping);
    let shared = Mapping::new(64 * MIB, READ_WRITE, MAP_SHARED).expect("that is little");
    let with = meminfo("Committed_AS").saturating_sub(before);
    say("it is counted where shared", (63 * MIB..66 * MIB).contains(&with));
    drop(shared);
    let after = meminfo("Committed_AS").abs_diff(before);
    say("it is given back", after < MIB);
}

fn main() {
    single_requests("0");
    single_requests("1");
    strict_requests();
    settings();
}
