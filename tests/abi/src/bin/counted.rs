//! `counted [--after FIRST] [--again TIMES] COMMAND`: checks that a shell command gives back all that it takes. It runs the
//! command once, so that memory kept for the next use exists (pages of files, names, stacks, slabs), and then again between
//! two readings of `/proc/skerry/objects`. It prints the differences and fails if there are any. With `--after` a smaller
//! command runs first instead, which creates only the objects that are made at a first use and kept, and all caches are
//! dropped before each reading. With `--again` the command is run up to so many times more while something differs, each time
//! between readings of its own: a table that grows at some run of a command keeps its size then, while a leak recurs in each
//! run.
//!
//! Free stacks and slabs may differ, because the processors keep them, and so may the kernel's own page tables, which stay for
//! the addresses' next use: `free or kept` is the number of free frames and of these. A pool keeps the frames that its busiest
//! moment needed (`pool_frames`); those in use (`pool frame`) must be the same, but for [`RELENT_FRAMES`]. An isolated component keeps a piece of
//! heap that it needed once: with `--after`, each may have one more ([`HEAP_GRANULE`]), and a page table for it, because a
//! component's addresses are not used again. Without, pages of files may have come
//! to the cache, because a process that lost its processor at another point runs other code. Every other count must be the
//! same. This program takes no memory of its own between the readings; a shell would.
use abi::{Ended, fork, wait};
use std::{ffi::CString, process::ExitCode, thread, time::Duration};

/// Number of frames of a kernel stack.
const STACK_FRAMES: i64 = 8;
/// With `--after`, most nodes by which maps may have grown or shrunk for the same entries, depending on the order of changes
/// (27 between rounds of random calls that lose nothing). A leak for each file or process would be thousands.
const MAP_NODES: i64 = 32;
/// With `--after`, most frames by which lists that live on may have grown or shrunk: a list keeps the room that its longest
/// backlog needed (one frame after 280 plays of a hostile driver). A leak for each play or file would be hundreds.
const GROWN_BUFFERS: i64 = 4;
/// With `--after`, most frames by which the processes that live on may have grown or shrunk: a fault enters up to four pages,
/// fewer if memory is short. Nine rounds of random calls without memory in one boot stayed at the same count.
const TOUCHED_FRAMES: i64 = 8;
/// With `--after`, most frames of pools by which those in use may differ: a card's driver reaches the old frames of buffers that have
/// new ones until it is lent these, 18 at once (`nic::remote`). A leak for each kill would be hundreds.
const RELENT_FRAMES: i64 = 17;
/// Frames by which a component's heap grows (dlmalloc's granularity).
const HEAP_GRANULE: i64 = 16;
const COUNTS_MAX: usize = 32;
const NAME_BYTES: usize = 24;
const FILE_BYTES: usize = 4096;
/// The caches that a processor may keep, of which only `free or kept` is compared.
const CACHES: [&str; 6] =
    ["stack", "slab", "pool_frames", "heap_frames", "table_frames", "free_frames"];
/// Number of consecutive readings that must agree: an ended process takes a moment to be freed.
const AGREEING: usize = 10;
const READINGS_MAX: usize = 500;
/// The counts of sockets, which the network stack is asked for.
const SOCKETS: &str = "/proc/net/sockstat";
/// Readings of the number of orphaned connections, at most: two minutes.
const ORPHAN_READINGS_MAX: usize = 12_000;
const USE: &str = "counted [--after FIRST] [--again TIMES] COMMAND";
const PAUSE: Duration = Duration::from_millis(10);

/// The live counts, in the order of the file; then `other frames`, which belong to no component and no file, and `free or
/// kept`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reading {
    names: [[u8; NAME_BYTES]; COUNTS_MAX],
    live: [i64; COUNTS_MAX],
    count: usize,
    domains: i64,
    /// Frames of pools. They are among those of the component that reads them.
    pool_frames: i64,
}

/// The degree to which two readings must agree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// The frames that must come back are the same; the page cache may differ.
    Exact,
    /// The page cache is the same, too, except for [`MAP_NODES`], [`GROWN_BUFFERS`] and [`HEAP_GRANULE`].
    Settled,
}

impl Reading {
    /// Takes a reading with buffers on the stack only.
    fn take() -> Reading {
        let mut text = [0; FILE_BYTES];
        let length = read_file("/proc/skerry/objects", &mut text);
        let text = std::str::from_utf8(&text[..length]).expect("counts in ASCII");
        let mut reading = Reading {
            names: [[0; NAME_BYTES]; COUNTS_MAX],
            live: [0; COUNTS_MAX],
            count: 0,
            domains: 0,
            pool_frames: 0,
        };
        let (mut free_or_kept, mut frames) = (0, 0);
        for line in text.lines().skip(1) {
            let (rest, _made) = line.rsplit_once(' ').expect("a count of objects made");
            let (name, live) = rest.trim_end().rsplit_once(' ').expect("a count of live objects");
            let (name, live) = (name.trim_end(), live.parse().expect("a number"));
            match name {
                "stack" => free_or_kept += STACK_FRAMES * live,
                "heap_frames" | "table_frames" | "free_frames" => free_or_kept += live,
                "table frame" => free_or_kept -= live,
                "domain" => reading.domains = live,
                "pool_frames" => reading.pool_frames = live,
                "frame" => frames += live,
                "domain frame" | "cached_pages" => {
                    frames -= live;
                    free_or_kept += live;
                }
                _ => {}
            }
            reading.add(name, live);
        }
        reading.add("other frames", frames);
        reading.add("free or kept", free_or_kept);
        reading
    }

    fn add(&mut self, name: &str, live: i64) {
        self.names[self.count][..name.len()].copy_from_slice(name.as_bytes());
        self.live[self.count] = live;
        self.count += 1;
    }

    /// Takes a reading once [`AGREEING`] readings in a row agree on the counts that must come back.
    fn settled() -> Reading {
        let (mut last, mut agreeing) = (Reading::take(), 0);
        for _ in 0..READINGS_MAX {
            if agreeing == AGREEING {
                break;
            }
            thread::sleep(PAUSE);
            // An isolated stack tells with its next answer which frames it has dropped.
            read_file(SOCKETS, &mut [0; FILE_BYTES]);
            let now = Reading::take();
            agreeing = if now.is_as(&last, Likeness::Exact) { agreeing + 1 } else { 0 };
            last = now;
        }
        last
    }

    fn each(&self) -> impl Iterator<Item = (&str, i64)> {
        self.names.iter().zip(self.live).take(self.count).map(|(name, live)| {
            let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
            (std::str::from_utf8(&name[..length]).expect("counts in ASCII"), live)
        })
    }

    /// Returns whether all counts that must come back have. `frame` is judged by its parts.
    fn is_as(&self, other: &Reading, likeness: Likeness) -> bool {
        let more_pooled = self.pool_frames - other.pool_frames;
        self.each().zip(other.each()).all(|((name, live), (_, other))| {
            let slack = match (likeness, name) {
                (Likeness::Exact, "cached_pages") => i64::MAX,
                (Likeness::Settled, "heap object") => MAP_NODES,
                (Likeness::Settled, "large frame") => GROWN_BUFFERS,
                (Likeness::Settled, "domain frame") => HEAP_GRANULE * self.domains,
                (Likeness::Settled, "table frame") => self.domains,
                (Likeness::Settled, "pool frame") => RELENT_FRAMES,
                (Likeness::Settled, "other frames" | "free or kept") => TOUCHED_FRAMES,
                _ => 0,
            };
            let kept = if name == "domain frame" { more_pooled } else { 0 };
            (live - other - kept).abs() <= slack || name == "frame" || CACHES.contains(&name)
        })
    }
}

/// Reads a file without memory of its own. Returns the number of bytes.
fn read_file(path: &str, text: &mut [u8]) -> usize {
    let fd = abi::open(path, libc::O_RDONLY, 0).expect("opening counts");
    let mut length = 0;
    loop {
        let rest = &mut text[length..];
        // SAFETY: the slice is writable for its length.
        let count =
            abi::must(unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) } as i64);
        if count == 0 {
            break;
        }
        length += count as usize;
    }
    abi::close(fd);
    length
}

/// Runs `sh -c COMMAND`.
fn run(words: &[CString; 3]) -> Ended {
    wait(fork(|| {
        let pointers = [words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), std::ptr::null()];
        // SAFETY: NUL-terminated words and a list that ends with none.
        unsafe { libc::execv(words[0].as_ptr(), pointers.as_ptr()) };
    }))
}

/// Waits until no connection of an ended program has bytes that its peer has not acknowledged: it holds their frames until then, over a
/// wire that loses packets for the time of some retransmissions.
fn await_orphans() {
    for _ in 0..ORPHAN_READINGS_MAX {
        let text = std::fs::read_to_string(SOCKETS).expect("reading the counts of sockets");
        let mut counts = text.split_whitespace().skip_while(|word| *word != "orphan").skip(1);
        if counts.next().is_none_or(|count| count == "0") {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Drops clean pages of files, names and cached memory, once no ending process still holds some, and no journal.
fn drop_caches() {
    Reading::settled();
    empty_journals();
    std::fs::write("/proc/sys/vm/drop_caches", "3").expect("dropping caches");
}

/// Empties the journal of each mounted volume of ext4, which otherwise holds in memory the blocks of the last commits (up to
/// half of its own size), as many as a command happened to leave there. A change to read-only does that.
fn empty_journals() {
    let mounts = std::fs::read_to_string("/proc/mounts").expect("reading the mounts");
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some("ext4")) = (words.next(), words.next()) else { continue };
        for flags in [libc::MS_RDONLY, 0] {
            let place = abi::c(place);
            let (none, flags) = (std::ptr::null(), libc::MS_REMOUNT | flags);
            // SAFETY: a NUL-terminated path; no other memory is named.
            let done = unsafe { libc::mount(none, place.as_ptr(), none, flags, none.cast()) };
            abi::must(i64::from(done));
        }
    }
}

fn shell(command: &str) -> [CString; 3] {
    [abi::c("/bin/sh"), abi::c("-c"), abi::c(command)]
}

/// The arguments.
struct Arguments {
    /// The command to run first, instead of the main one.
    first: Option<String>,
    /// Number of times that the command may be run again.
    again: u32,
    command: String,
}

impl Arguments {
    fn read() -> Arguments {
        let (mut first, mut again, mut command) = (None, 0, None);
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--after" => first = words.next(),
                "--again" => again = words.next().and_then(|times| times.parse().ok()).expect(USE),
                _ => command = Some(word),
            }
        }
        Arguments { first, again, command: command.expect(USE) }
    }
}

fn main() -> ExitCode {
    let Arguments { first, again, command } = Arguments::read();
    let likeness = if first.is_some() { Likeness::Settled } else { Likeness::Exact };
    let words = shell(&command);
    let first_words = shell(first.as_ref().unwrap_or(&command));
    let settled = || {
        // SAFETY: no arguments.
        unsafe { libc::sync() };
        if first.is_some() {
            await_orphans();
            drop_caches();
        }
        Reading::settled()
    };
    assert_eq!(run(&first_words), Ended::Exited(0));
    let mut before = settled();
    for runs_left in (0..=again).rev() {
        assert_eq!(run(&words), Ended::Exited(0));
        let after = settled();
        println!("{:<24}{:>10}{:>10}", "", "before", "after");
        for ((name, was), (_, is)) in before.each().zip(after.each()) {
            println!("{name:<24}{was:>10}{is:>10}{}", if was == is { "" } else { "  differs" });
        }
        if after.is_as(&before, likeness) {
            println!("all came back");
            return ExitCode::SUCCESS;
        }
        println!("not all came back{}", if runs_left > 0 { ", once more" } else { "" });
        // It does not print `after`, because printing would take pages, too.
        before = settled();
    }
    ExitCode::FAILURE
}
