//! The worker: a program at a high level that uses whatever it may, by a seed.
use crate::{DISK_STAGE, STAGE, end_turn, folder};
use abi::{check, close, fork, pipe, wait};
use libc::*;
use std::{fs, path::PathBuf, ptr};

/// The name of the file in which the worker counts.
pub const REPORT: &str = "report";

const CALLS: u32 = 300;

/// The objects that it has.
#[derive(Default)]
struct Worker {
    state: u64,
    descriptors: Vec<i32>,
    files: Vec<PathBuf>,
    children: Vec<pid_t>,
    made: u32,
    done: u32,
    refused: u32,
}

/// Works in every turn; without a seed it only has turns.
pub fn run(seed: Option<u64>) {
    let mut worker = Worker { state: seed.unwrap_or(1), ..Worker::default() };
    worker.report();
    loop {
        end_turn();
        if seed.is_some() {
            (0..CALLS).for_each(|_| worker.step());
            worker.report();
        }
    }
}

impl Worker {
    fn report(&self) {
        let text = format!("{} done, {} refused", self.done, self.refused);
        fs::write(folder(STAGE, "high").join(REPORT), text).expect("reporting");
    }

    /// The next number of SplitMix64 below `most`.
    fn below(&mut self, most: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % most
    }

    fn count<T>(&mut self, result: Result<T, i32>) -> Option<T> {
        match result {
            Ok(value) => {
                self.done += 1;
                Some(value)
            }
            Err(_) => {
                self.refused += 1;
                None
            }
        }
    }

    fn keep(&mut self, fd: i64) {
        self.descriptors.push(fd as i32);
        if self.descriptors.len() > 100 {
            self.descriptors.drain(..50).for_each(close);
        }
    }

    fn stage(&mut self) -> &'static str {
        if self.below(2) == 0 { STAGE } else { DISK_STAGE }
    }

    fn step(&mut self) {
        match self.below(20) {
            0 => {
                let (reader, writer) = pipe();
                self.keep(reader.into());
                self.keep(writer.into());
                self.done += 1;
            }
            1 => self.sockets(),
            // SAFETY: takes no pointers.
            2 => self.opened(check(unsafe { posix_openpt(O_RDWR | O_NOCTTY) })),
            // SAFETY: takes no pointers.
            3 => self.opened(check(unsafe { eventfd(0, 0) })),
            // SAFETY: the name ends with NUL.
            4 => self.opened(check(unsafe { memfd_create(c"high".as_ptr(), 0) })),
            5 | 6 => self.process(),
            7..=10 => self.file(),
            11 => self.remove(),
            12 => self.memory(),
            13 => self.system_v(),
            14..=16 => self.look_down(),
            17 => self.change_below(),
            18 => self.signals(),
            _ => {
                let count = self.descriptors.len().min(10);
                self.descriptors.drain(..count).for_each(close);
            }
        }
    }

    fn opened(&mut self, result: Result<i64, i32>) {
        if let Some(fd) = self.count(result) {
            self.keep(fd);
        }
    }

    fn sockets(&mut self) {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        let made = check(unsafe { socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.as_mut_ptr()) });
        if self.count(made).is_some() {
            self.keep(ends[0].into());
            self.keep(ends[1].into());
        }
        // SAFETY: takes no pointers.
        self.opened(check(unsafe { socket(AF_INET, SOCK_STREAM, 0) }));
    }

    fn process(&mut self) {
        let ends_at_once = self.below(3) != 0;
        let child = fork(|| {
            if !ends_at_once {
                // SAFETY: takes no pointers.
                unsafe { pause() };
            }
        });
        self.done += 1;
        self.children.push(child);
        if ends_at_once || self.children.len() > 20 {
            for child in self.children.drain(..) {
                // SAFETY: takes no pointers.
                unsafe { kill(child, SIGKILL) };
                wait(child);
            }
        }
    }

    fn file(&mut self) {
        let stage = self.stage();
        self.made += 1;
        let path = folder(stage, "high").join(format!("file{}", self.made));
        let size = self.below(200_000) as usize;
        let made = fs::write(&path, vec![1; size]);
        if self.count(made.map_err(|_| 1)).is_some() {
            self.files.push(path);
        }
    }

    fn remove(&mut self) {
        if let Some(path) = self.files.pop() {
            let removed = fs::remove_file(path);
            self.count(removed.map_err(|_| 1));
        }
    }

    fn memory(&mut self) {
        let pages = self.below(2000) as usize + 1;
        let bytes = vec![1u8; pages * 4096];
        self.done += u32::from(bytes[pages] == 1);
    }

    fn system_v(&mut self) {
        let key = self.below(20) as i32;
        // SAFETY: takes no pointers.
        self.count(check(unsafe { shmget(key, 4096, IPC_CREAT | 0o666) }));
        // SAFETY: takes no pointers.
        self.count(check(unsafe { semget(key, 1, IPC_CREAT | 0o666) }));
        // SAFETY: takes no pointers.
        if let Some(queue) = self.count(check(unsafe { msgget(key, IPC_CREAT | 0o666) }))
            && self.below(2) == 0
        {
            // SAFETY: no pointer is used.
            self.count(check(unsafe { msgctl(queue as i32, IPC_RMID, ptr::null_mut()) }));
        }
    }

    /// Reads what is below, which must leave no trace.
    fn look_down(&mut self) {
        let stage = self.stage();
        let low = folder(stage, "low");
        let names = fs::read_dir(&low).map(|entries| entries.flatten().count());
        self.count(names.map_err(|_| 1));
        let read = fs::read(low.join("read"));
        self.count(read.map_err(|_| 1));
        let path = abi::c(low.join("read"));
        // SAFETY: the path ends with NUL.
        if let Some(fd) = self.count(check(unsafe { open(path.as_ptr(), O_RDONLY) })) {
            // SAFETY: takes no pointers.
            self.count(check(unsafe { flock(fd as i32, LOCK_SH | LOCK_NB) }));
            // SAFETY: takes no pointers.
            self.count(check(unsafe { fcntl(fd as i32, F_SETLEASE, F_RDLCK) }));
            self.keep(fd);
        }
    }

    /// Tries to change what is below, which must be refused.
    fn change_below(&mut self) {
        let stage = self.stage();
        let low = folder(stage, "low");
        let tries = [
            fs::write(low.join("written"), "x").is_ok(),
            fs::remove_file(low.join("read")).is_ok(),
            fs::create_dir(low.join("made")).is_ok(),
            fs::rename(low.join("read"), low.join("moved")).is_ok(),
            fs::File::options().append(true).open(low.join("read")).is_ok(),
        ];
        assert!(tries.iter().all(|is_done| !is_done), "{tries:?}");
        self.refused += tries.len() as u32;
    }

    fn signals(&mut self) {
        let id = self.below(400) as i32 + 2;
        let own = std::process::id() as i32;
        if id != own && !self.children.contains(&id) {
            // SAFETY: takes no pointers.
            self.count(check(unsafe { kill(id, SIGURG) }));
            // SAFETY: takes no pointers.
            self.count(check(unsafe { setpriority(PRIO_PROCESS, id as u32, 5) }));
        }
    }
}
