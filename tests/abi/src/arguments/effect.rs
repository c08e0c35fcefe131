//! The visible state of the process and of its file tree, and the changes that a call made to it. Fields that differ from run
//! to run (times, inode numbers, process numbers, addresses that the kernel chooses) are left out.
use super::state::{MOST, WRITABLE, descriptor_name, is_prepared};
use crate::{
    returns::setting::{at, map_shared, raw, room},
    zeroed,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

/// The name of the counts of pages of other mappings.
const ELSEWHERE: &str = "elsewhere ";

/// Texts by their subject, and the bytes of the prepared memory.
#[derive(Default)]
pub struct State {
    texts: BTreeMap<String, String>,
    memory: Vec<Vec<u8>>,
}

impl State {
    fn insert(&mut self, name: String, text: String) {
        self.texts.insert(name, text);
    }
}

/// The text of `/proc/self/maps`, read without an allocation that would show in it.
pub struct Maps {
    room: &'static mut [u8],
    length: usize,
}

impl Maps {
    /// Makes room for a text.
    pub fn new() -> Maps {
        const ROOM: usize = 1 << 16;
        // SAFETY: new memory, zeroed, which stays for ever.
        let room = unsafe { std::slice::from_raw_parts_mut(map_shared(ROOM), ROOM) };
        Maps { room, length: 0 }
    }
    /// Reads the present text.
    pub fn read(&mut self) {
        let path = c"/proc/self/maps".as_ptr() as i64;
        let fd = raw(libc::SYS_open, [path, 0, 0, 0, 0, 0]);
        self.length = 0;
        loop {
            let rest = &mut self.room[self.length..];
            let bytes = rest.len() as i64;
            match raw(libc::SYS_read, [fd, room(rest), bytes, 0, 0, 0]) {
                count @ 1.. => self.length += count as usize,
                _ => break,
            }
        }
        raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    }
}

/// Reads the whole visible state. If the call stores values that differ from run to run, the contents of files are left out,
/// because a file is mapped.
pub fn look(folder: &Path, is_memory_volatile: bool) -> State {
    let mut state = State::default();
    add_memory(&mut state);
    add_descriptors(&mut state);
    add_process(&mut state, folder);
    add_tree(&mut state, folder, folder, is_memory_volatile);
    state
}

/// Returns the state with the mappings of `maps`.
pub fn with_maps(mut state: State, maps: &Maps) -> State {
    add_mappings(&mut state, &maps.room[..maps.length]);
    state
}

/// Returns the differences: `; NAME: BEFORE -> AFTER` for each text, in order, and the words of memory that changed.
pub fn difference(before: &State, after: &State, is_memory_volatile: bool) -> String {
    let [old, new] = [&before.texts, &after.texts];
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let of = |state: &BTreeMap<String, String>, name: &str| {
        state.get(name).map_or("-".to_owned(), String::clone)
    };
    let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    // Systems have mappings of their own besides the prepared addresses.
    let pages = |state: &BTreeMap<String, String>, name: &str| -> i64 {
        state.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let one = |name: &String| match name.starts_with(ELSEWHERE) {
        true => format!("; {name}: {:+}", pages(new, name) - pages(old, name)),
        false => format!("; {name}: {} -> {}", of(old, name), of(new, name)),
    };
    let mut text: String = changed.map(one).collect();
    for ((name, ..), (old, new)) in WRITABLE.iter().zip(before.memory.iter().zip(&after.memory)) {
        if let Some(stored) = stored(old, new, is_memory_volatile) {
            text.push_str(&format!("; memory {name}: {stored}"));
        }
    }
    text
}

/// Describes the words that changed: some of them, and a digest of all; if they are volatile, only their range.
fn stored(old: &[u8], new: &[u8], is_volatile: bool) -> Option<String> {
    const SHOWN: usize = 3;
    const WORD: usize = size_of::<u64>();
    if old == new {
        return None;
    }
    let words = old.chunks(WORD).zip(new.chunks(WORD)).enumerate();
    let changed: Vec<_> =
        words.filter(|(_, (old, new))| old != new).map(|(at, (_, new))| (at * WORD, new)).collect();
    let (first, last) = (changed.first()?.0, changed.last()?.0);
    if is_volatile {
        return Some(format!("{first}..{}", last + WORD));
    }
    let shown = |(at, word): &(usize, &[u8])| {
        let bytes = word.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{at}={bytes} ")
    };
    let some: String = changed.iter().take(SHOWN).map(shown).collect();
    Some(format!("{some}of {}, {}", changed.len(), hash(new)))
}

/// Computes FNV-1a over words instead of bytes; the last word is padded with zeroes.
fn hash(bytes: &[u8]) -> String {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    let step = |hash: u64, chunk: &[u8]| (hash ^ word(chunk)).wrapping_mul(0x100_0000_01b3);
    format!("{:08x}", bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, step))
}

fn add_descriptors(state: &mut State) {
    const F_GETFD: i64 = 1;
    const F_GETFL: i64 = 3;
    const FIONREAD: i64 = 0x541b;
    let call = |number, fd, command, third| raw(number, [fd, command, third, 0, 0, 0]);
    for fd in 0..MOST {
        let flags = call(libc::SYS_fcntl, fd, F_GETFD, 0);
        if flags < 0 {
            continue;
        }
        let status = call(libc::SYS_fcntl, fd, F_GETFL, 0);
        let offset = call(libc::SYS_lseek, fd, 0, 1);
        // SAFETY: plain numbers.
        let mut stat: libc::stat = unsafe { zeroed() };
        call(libc::SYS_fstat, fd, room(&mut stat), 0);
        let mut waiting = 0i32;
        // A terminal delivers bytes later, and the length of a directory or file is reported elsewhere.
        let is_terminal = ["master", "tty"].contains(&descriptor_name(fd).as_str());
        if !is_terminal && !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR) {
            call(libc::SYS_ioctl, fd, FIONREAD, room(&mut waiting));
        }
        let text =
            format!("{flags:x} {status:o} at {offset} mode {:o} holds {waiting}", stat.st_mode);
        state.insert(descriptor_name(fd), text);
    }
}

/// Adds the mappings of the prepared addresses; other mappings only by the number of their pages.
fn add_mappings(state: &mut State, text: &[u8]) {
    const PAGE: u64 = 4096;
    let text = String::from_utf8_lossy(text);
    let mut others = BTreeMap::<String, u64>::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some((start, end)), Some(rights)) =
            (words.next().and_then(|range| range.split_once('-')), words.next())
        else {
            state.insert("maps".into(), line.to_owned());
            continue;
        };
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
        if is_prepared(start as i64) {
            let text = format!("{:x} {rights}", (end - start) / PAGE);
            state.insert(format!("at {start:x}"), text);
        } else if !line.ends_with("[heap]") && !line.ends_with("[stack]") {
            *others.entry(rights.to_owned()).or_default() += (end - start) / PAGE;
        }
    }
    for (rights, pages) in others {
        state.insert(format!("{ELSEWHERE}{rights}"), pages.to_string());
    }
}

fn add_memory(state: &mut State) {
    const PAGE: i64 = 4096;
    let process = raw(libc::SYS_getpid, [0; 6]);
    for (name, start, pages) in WRITABLE {
        let mut copy = vec![0u8; (pages * PAGE) as usize];
        let [to, from] = [[room(&mut copy[..]), pages * PAGE], [start, pages * PAGE]];
        let read = raw(libc::SYS_process_vm_readv, [process, at(&to), 1, at(&from), 1, 0]);
        state.insert(format!("readable {name}"), format!("{read:x}"));
        state.memory.push(copy);
    }
}

/// Lines of `/proc/self/status` that a call may change.
const STATUS: [&str; 16] = [
    "Name",
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "Threads",
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "CapInh",
    "CapPrm",
    "CapEff",
    "NoNewPrivs",
    "Seccomp",
];

fn add_process(state: &mut State, folder: &Path) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, text) in status.lines().filter_map(|line| line.split_once(':')) {
        if STATUS.contains(&name) {
            // The timer of a case handles SIGALRM and may leave it pending.
            const ALARM: u64 = 1 << (libc::SIGALRM - 1);
            let text = match (name.starts_with("Sig") || name == "ShdPnd")
                .then(|| u64::from_str_radix(text.trim(), 16))
            {
                Some(Ok(set)) => format!("{:x}", set & !ALARM),
                _ => text.trim().to_owned(),
            };
            state.insert(name.to_owned(), text);
        }
    }
    let at = std::env::current_dir().map_or_else(
        |error| error.to_string(),
        |path| {
            let path = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            path.replace(&std::process::id().to_string(), "PID")
        },
    );
    state.insert("folder".into(), at);
    for resource in 0..16 {
        let mut limits = [0u64; 2];
        raw(libc::SYS_getrlimit, [resource, room(&mut limits), 0, 0, 0, 0]);
        state.insert(format!("limit {resource}"), format!("{:x} {:x}", limits[0], limits[1]));
    }
    let nice = raw(libc::SYS_getpriority, [0; 6]);
    let policy = raw(libc::SYS_sched_getscheduler, [0; 6]);
    state.insert("scheduling".into(), format!("{nice} {policy}"));
}

/// Number of bytes of a file that are compared.
const MOST_BYTES: u64 = 1 << 16;

/// Adds the files beneath `path`. If memory is volatile, so is the mapped file `file`.
fn add_tree(state: &mut State, root: &Path, path: &Path, is_memory_volatile: bool) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(about) = entry.metadata() else { continue };
        let kind = about.file_type();
        let contents = if kind.is_symlink() {
            fs::read_link(&path)
                .map_or_else(|error| error.to_string(), |to| hash(to.as_os_str().as_bytes()))
        } else if kind.is_file() && about.len() <= MOST_BYTES && !is_memory_volatile {
            fs::read(&path).map_or_else(|error| error.to_string(), |bytes| hash(&bytes))
        } else if kind.is_block_device() || kind.is_char_device() {
            format!("device {:x}", about.rdev())
        } else {
            String::new()
        };
        let size = if kind.is_dir() { 0 } else { about.len() };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let short = if name.len() > 40 { format!("{}...", &name[..20]) } else { name };
        let links = if kind.is_dir() { 0 } else { about.nlink() };
        let text =
            format!("{:o} {links} {}:{} {size} {contents}", about.mode(), about.uid(), about.gid());
        state.insert(format!("/{short}"), text);
        if kind.is_dir() {
            add_tree(state, root, &path, is_memory_volatile);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str, memory: &[u8]) -> State {
        let mut state = State { memory: vec![memory.to_owned()], ..State::default() };
        state.insert("file".into(), text.into());
        state
    }

    #[test]
    fn a_difference_names_the_part_and_the_words() {
        let mut memory = [0; 32];
        let before = state("at 0", &memory);
        assert_eq!(difference(&before, &state("at 0", &memory), false), "");
        memory[9] = 5;
        let text = difference(&before, &state("at 1", &memory), false);
        assert!(
            text.starts_with("; file: at 0 -> at 1; memory data: 8=0000000000000500 of 1, "),
            "{text}"
        );
        memory[16] = 1;
        assert_eq!(difference(&before, &state("at 0", &memory), true), "; memory data: 8..24");
    }
}
