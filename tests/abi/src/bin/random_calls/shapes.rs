//! The arguments of calls: descriptors, paths, lengths, flags, and structures that hold such.
use crate::children::Random;
use abi::c;
use std::ffi::CString;

/// The class of one argument.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// An open file.
    File,
    /// A directory, or AT_FDCWD.
    Base,
    /// A path.
    Path,
    /// An address from or to which bytes are copied.
    Bytes,
    /// A number of bytes.
    Length,
    /// A position in a file.
    Offset,
    /// A position in a file, by its address.
    OffsetAt,
    /// A small number.
    Few,
    /// Any number.
    Word,
    /// A combination of these flags.
    Flags(&'static [u64]),
    /// One of these values.
    One(&'static [u64]),
    /// A pointer that may be null.
    Perhaps(&'static Kind),
    /// Vectors of buffers.
    Vectors,
    /// A time, or two consecutive ones, with valid and invalid fields.
    Time,
    /// A socket's address.
    Name,
    /// A message header.
    Message,
    /// Entries of poll(2).
    Polled,
    /// An event of epoll.
    Event,
    /// A signal's number.
    Signal,
    /// A set of signals or descriptors.
    Set,
    /// A process: this one, its group, none.
    Process,
    /// Permission bits.
    Mode,
    /// A user or group.
    Owner,
    /// Memory of this process, aligned to pages.
    Pages,
    /// A length in pages, in bytes.
    PagesLength,
    /// The address of a futex word.
    Futex,
    /// A file lock.
    Lock,
    /// The name of an extended attribute.
    Attribute,
    /// A filter program.
    Filter,
    /// The `struct open_how` of openat2(2).
    How,
}

use Kind::*;

const OPEN: &[u64] = &[
    0,
    1,
    2,
    0o100,
    0o200,
    0o400,
    0o1000,
    0o2000,
    0o4000,
    0o10000,
    0o40000,
    0o200_000,
    0o400_000,
    0o1_000_000,
    0o2_000_000,
    0o10_000_000,
    0o20_200_000,
];
const AT: &[u64] = &[0x100, 0x200, 0x400, 0x800, 0x1000, 0x8000];
const PROTECTION: &[u64] = &[1, 2, 4];
const MAP: &[u64] =
    &[1, 2, 3, 0x10, 0x20, 0x40, 0x100, 0x2000, 0x4000, 0x8000, 0x10000, 0x40000, 0x100_000];
const MESSAGE: &[u64] = &[1, 2, 0x20, 0x40, 0x80, 0x100, 0x4000, 0x10000, 0x4000_0000];
const DOMAIN: &[u64] = &[0, 1, 1, 1, 2, 10, 16];
const SOCKET: &[u64] = &[1, 2, 5, 0x801, 0x80002, 3];
const OPTION: &[u64] = &[2, 3, 4, 7, 8, 9, 13, 15, 16, 17, 20, 21, 28, 30, 38, 39, 42, 76, 77];
const CONTROL: &[u64] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 36, 37, 1024, 1026, 1030, 1031, 1032, 1033, 1034,
];
const REQUEST: &[u64] = &[
    0x5401,
    0x5402,
    0x5405,
    0x540b,
    0x540f,
    0x5410,
    0x5413,
    0x5414,
    0x541b,
    0x5421,
    0x5450,
    0x5451,
    0x80045430,
    0x40045431,
    0x5452,
    0x8008_6601,
    0x1272,
    0x8008_1272,
];
const FUTEX: &[u64] = &[
    0,
    1,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    13,
    128,
    129,
    131,
    132,
    133,
    134,
    135,
    136,
    137,
    138,
    256 + 137,
];
const CLOCK: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7, 9, 11, u64::MAX];
const WHENCE: &[u64] = &[0, 1, 2, 3, 4];
const ADVICE: &[u64] = &[0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25];
const PRCTL: &[u64] =
    &[1, 2, 3, 4, 7, 8, 15, 16, 21, 22, 23, 24, 27, 28, 29, 30, 36, 37, 38, 39, 41, 42, 47];
const POLICY: &[u64] = &[0, 1, 2, 3, 5, 6, 0x4000_0000];
const RESOURCE: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const WAIT: &[u64] = &[1, 2, 4, 8, 0x0100_0000, 0x4000_0000, 0x8000_0000];
const SEALS: &[u64] = &[1, 2, 4, 8, 16];

/// Calls and the types of their arguments. A call that is not listed gets arbitrary words.
pub const SHAPES: &[(i64, &[Kind])] = &[
    (libc::SYS_read, &[File, Bytes, Length]),
    (libc::SYS_write, &[File, Bytes, Length]),
    (libc::SYS_open, &[Path, Flags(OPEN), Mode]),
    (libc::SYS_openat, &[Base, Path, Flags(OPEN), Mode]),
    (libc::SYS_openat2, &[Base, Path, How, One(&[24, 24, 24, 16, 32])]),
    (libc::SYS_close, &[File]),
    (libc::SYS_stat, &[Path, Bytes]),
    (libc::SYS_newfstatat, &[Base, Path, Bytes, Flags(AT)]),
    (libc::SYS_statx, &[Base, Path, Flags(AT), Word, Bytes]),
    (libc::SYS_statfs, &[Path, Bytes]),
    (libc::SYS_poll, &[Polled, Few, Few]),
    (libc::SYS_ppoll, &[Polled, Few, Perhaps(&Time), Perhaps(&Set), One(&[8])]),
    (libc::SYS_select, &[Few, Perhaps(&Set), Perhaps(&Set), Perhaps(&Set), Perhaps(&Time)]),
    (libc::SYS_lseek, &[File, Offset, One(WHENCE)]),
    (
        libc::SYS_mmap,
        &[
            Perhaps(&Pages),
            PagesLength,
            Flags(PROTECTION),
            Flags(MAP),
            File,
            One(&[0, 4096, 1 << 20]),
        ],
    ),
    (libc::SYS_mprotect, &[Pages, PagesLength, Flags(PROTECTION)]),
    (libc::SYS_munmap, &[Pages, PagesLength]),
    (libc::SYS_mremap, &[Pages, PagesLength, PagesLength, Flags(&[1, 2, 4]), Pages]),
    (libc::SYS_madvise, &[Pages, PagesLength, One(ADVICE)]),
    (libc::SYS_mlock, &[Pages, PagesLength]),
    (libc::SYS_mincore, &[Pages, PagesLength, Bytes]),
    (libc::SYS_msync, &[Pages, PagesLength, Flags(&[1, 2, 4])]),
    (libc::SYS_rt_sigaction, &[Signal, Perhaps(&Bytes), Perhaps(&Bytes), One(&[8])]),
    (libc::SYS_rt_sigprocmask, &[One(&[0, 1, 2]), Perhaps(&Set), Perhaps(&Set), One(&[8])]),
    (libc::SYS_rt_sigtimedwait, &[Set, Perhaps(&Bytes), Perhaps(&Time), One(&[8])]),
    (libc::SYS_sigaltstack, &[Perhaps(&Bytes), Perhaps(&Bytes)]),
    (libc::SYS_signalfd4, &[File, Set, One(&[8]), Flags(&[0o4000, 0o2_000_000])]),
    (libc::SYS_ioctl, &[File, One(REQUEST), Bytes]),
    (libc::SYS_pread64, &[File, Bytes, Length, Offset]),
    (libc::SYS_pwrite64, &[File, Bytes, Length, Offset]),
    (libc::SYS_readv, &[File, Vectors, Few]),
    (libc::SYS_writev, &[File, Vectors, Few]),
    (libc::SYS_preadv2, &[File, Vectors, Few, Offset, Word, Flags(&[1, 2, 4, 8, 16])]),
    (libc::SYS_pwritev2, &[File, Vectors, Few, Offset, Word, Flags(&[1, 2, 4, 8, 16])]),
    (libc::SYS_access, &[Path, One(&[0, 1, 2, 4, 7])]),
    (libc::SYS_pipe2, &[Bytes, Flags(&[0o4000, 0o2_000_000, 0o40000])]),
    (libc::SYS_dup2, &[File, File]),
    (libc::SYS_dup3, &[File, File, Flags(&[0o2_000_000])]),
    (libc::SYS_fcntl, &[File, One(CONTROL), Few]),
    (libc::SYS_fcntl, &[File, One(&[5, 6, 7, 36, 37]), Lock]),
    (libc::SYS_fcntl, &[File, One(&[1033]), Flags(SEALS)]),
    (libc::SYS_flock, &[File, One(&[1, 2, 5, 6, 8])]),
    (libc::SYS_fsync, &[File]),
    (libc::SYS_truncate, &[Path, Offset]),
    (libc::SYS_ftruncate, &[File, Offset]),
    (libc::SYS_fallocate, &[File, Flags(&[1, 2, 8, 16, 32]), Offset, Offset]),
    (libc::SYS_getdents64, &[File, Bytes, Length]),
    (libc::SYS_getcwd, &[Bytes, Length]),
    (libc::SYS_chdir, &[Path]),
    (libc::SYS_mkdirat, &[Base, Path, Mode]),
    (libc::SYS_unlinkat, &[Base, Path, Flags(&[0x200])]),
    (libc::SYS_renameat2, &[Base, Path, Base, Path, Flags(&[1, 2, 4])]),
    (libc::SYS_linkat, &[Base, Path, Base, Path, Flags(&[0x400, 0x1000])]),
    (libc::SYS_symlinkat, &[Path, Base, Path]),
    (libc::SYS_readlinkat, &[Base, Path, Bytes, Length]),
    (libc::SYS_fchmodat, &[Base, Path, Mode]),
    (libc::SYS_fchownat, &[Base, Path, Owner, Owner, Flags(AT)]),
    (libc::SYS_utimensat, &[Base, Path, Perhaps(&Time), Flags(AT)]),
    (libc::SYS_mknodat, &[Base, Path, Word, Few]),
    (libc::SYS_umask, &[Mode]),
    (libc::SYS_setxattr, &[Path, Attribute, Bytes, Length, One(&[0, 1, 2])]),
    (libc::SYS_fsetxattr, &[File, Attribute, Bytes, Length, One(&[0, 1, 2])]),
    (libc::SYS_fgetxattr, &[File, Attribute, Bytes, Length]),
    (libc::SYS_flistxattr, &[File, Bytes, Length]),
    (libc::SYS_fremovexattr, &[File, Attribute]),
    (libc::SYS_sendfile, &[File, File, Perhaps(&OffsetAt), Length]),
    (
        libc::SYS_splice,
        &[File, Perhaps(&OffsetAt), File, Perhaps(&OffsetAt), Length, Flags(&[1, 2, 4])],
    ),
    (libc::SYS_tee, &[File, File, Length, Flags(&[1, 2, 4])]),
    (libc::SYS_vmsplice, &[File, Vectors, Few, Flags(&[1, 2, 4, 8])]),
    (libc::SYS_copy_file_range, &[File, Perhaps(&OffsetAt), File, Perhaps(&OffsetAt), Length]),
    (libc::SYS_sync_file_range, &[File, Offset, Offset, Flags(&[1, 2, 4])]),
    (libc::SYS_socket, &[One(DOMAIN), One(SOCKET), One(&[0, 0, 1])]),
    (libc::SYS_socketpair, &[One(DOMAIN), One(SOCKET), One(&[0]), Bytes]),
    (libc::SYS_bind, &[File, Name, One(&[110, 2, 10, 40])]),
    (libc::SYS_connect, &[File, Name, One(&[110, 2, 10, 40])]),
    (libc::SYS_listen, &[File, Few]),
    (libc::SYS_accept4, &[File, Perhaps(&Bytes), Perhaps(&Bytes), Flags(&[0o4000, 0o2_000_000])]),
    (libc::SYS_shutdown, &[File, One(&[0, 1, 2])]),
    (libc::SYS_sendto, &[File, Bytes, Length, Flags(MESSAGE), Perhaps(&Name), One(&[110, 2, 10])]),
    (libc::SYS_recvfrom, &[File, Bytes, Length, Flags(MESSAGE), Perhaps(&Bytes), Perhaps(&Bytes)]),
    (libc::SYS_sendmsg, &[File, Message, Flags(MESSAGE)]),
    (libc::SYS_recvmsg, &[File, Message, Flags(MESSAGE)]),
    (libc::SYS_setsockopt, &[File, One(&[1]), One(OPTION), Bytes, One(&[4, 8, 12, 16])]),
    (libc::SYS_getsockopt, &[File, One(&[1]), One(OPTION), Bytes, Bytes]),
    (libc::SYS_eventfd2, &[Few, Flags(&[1, 0o4000, 0o2_000_000])]),
    (libc::SYS_epoll_create1, &[Flags(&[0o2_000_000])]),
    (libc::SYS_epoll_ctl, &[File, One(&[1, 2, 3]), File, Event]),
    (libc::SYS_epoll_pwait, &[File, Bytes, Few, Few, Perhaps(&Set), One(&[8])]),
    (libc::SYS_timerfd_create, &[One(CLOCK), Flags(&[0o4000, 0o2_000_000])]),
    (libc::SYS_timerfd_settime, &[File, Flags(&[1, 2]), Time, Perhaps(&Bytes)]),
    (libc::SYS_timerfd_gettime, &[File, Bytes]),
    (libc::SYS_timer_create, &[One(CLOCK), Perhaps(&Bytes), Bytes]),
    (libc::SYS_timer_settime, &[Few, Flags(&[1]), Time, Perhaps(&Bytes)]),
    (libc::SYS_timer_delete, &[Few]),
    (libc::SYS_clock_gettime, &[One(CLOCK), Bytes]),
    (libc::SYS_clock_nanosleep, &[One(CLOCK), Flags(&[1]), Time, Perhaps(&Bytes)]),
    (libc::SYS_inotify_init1, &[Flags(&[0o4000, 0o2_000_000])]),
    (libc::SYS_inotify_add_watch, &[File, Path, Word]),
    (libc::SYS_inotify_rm_watch, &[File, Few]),
    (libc::SYS_memfd_create, &[Path, Flags(&[1, 2, 4, 8, 16])]),
    (libc::SYS_futex, &[Futex, One(FUTEX), Few, Perhaps(&Time), Futex, Word]),
    (libc::SYS_futex_waitv, &[Bytes, Few, One(&[0]), Perhaps(&Time), One(CLOCK)]),
    (libc::SYS_set_robust_list, &[Bytes, One(&[24])]),
    (libc::SYS_set_tid_address, &[Futex]),
    (libc::SYS_membarrier, &[Flags(&[1, 2, 4, 8, 16, 32, 64]), One(&[0])]),
    (libc::SYS_prctl, &[One(PRCTL), Few, Word, Word, Word]),
    (libc::SYS_seccomp, &[One(&[0, 1, 2, 3]), Flags(&[1, 2, 4, 8]), Filter]),
    (libc::SYS_sched_setscheduler, &[Process, One(POLICY), Bytes]),
    (libc::SYS_sched_setattr, &[Process, Bytes, One(&[0])]),
    (libc::SYS_sched_setaffinity, &[Process, One(&[8, 16, 1]), Bytes]),
    (libc::SYS_sched_getaffinity, &[Process, Length, Bytes]),
    (libc::SYS_setpriority, &[One(&[0, 1, 2]), Process, Few]),
    (libc::SYS_prlimit64, &[Process, One(RESOURCE), Perhaps(&Bytes), Perhaps(&Bytes)]),
    (libc::SYS_getrusage, &[One(&[0, 1, u64::MAX]), Bytes]),
    (libc::SYS_wait4, &[Process, Perhaps(&Bytes), Flags(WAIT), Perhaps(&Bytes)]),
    (
        libc::SYS_waitid,
        &[One(&[0, 1, 2, 3]), Process, Perhaps(&Bytes), Flags(WAIT), Perhaps(&Bytes)],
    ),
    (libc::SYS_setpgid, &[Process, Process]),
    (libc::SYS_pidfd_open, &[Process, Flags(&[0o4000])]),
    (libc::SYS_pidfd_getfd, &[File, File, One(&[0])]),
    (libc::SYS_process_vm_readv, &[Process, Vectors, Few, Vectors, Few, One(&[0])]),
    (libc::SYS_process_vm_writev, &[Process, Vectors, Few, Vectors, Few, One(&[0])]),
    (libc::SYS_close_range, &[Few, Few, Flags(&[2, 4])]),
    (libc::SYS_setresuid, &[Owner, Owner, Owner]),
    (libc::SYS_setgroups, &[Few, Bytes]),
    (libc::SYS_capset, &[Bytes, Perhaps(&Bytes)]),
    (libc::SYS_mount, &[Path, Path, Path, Word, Perhaps(&Bytes)]),
    (libc::SYS_umount2, &[Path, Flags(&[1, 2, 4, 8])]),
    (libc::SYS_unshare, &[Flags(&[0x200, 0x400, 0x2_0000, 0x1000_0000])]),
    (libc::SYS_getrandom, &[Bytes, Length, Flags(&[1, 2, 4])]),
    (libc::SYS_execve, &[Path, Perhaps(&Bytes), Perhaps(&Bytes)]),
];

/// Bytes of memory in which structures are made.
const WORDS: usize = 2048;
/// Number of pages beside the arena that calls may map, protect and unmap.
const PLAYGROUND_PAGES: usize = 64;
const PAGE_BYTES: u64 = 4096;

/// The memory and the names that arguments are made from.
pub struct Arena {
    /// The memory.
    pub words: Vec<u64>,
    strings: Vec<CString>,
    /// Processes beside this one.
    others: Vec<u64>,
    playground: u64,
}

impl Arena {
    /// Makes an arena whose memory has random contents; `paths` are used in addition to its own, and `others` as processes.
    pub fn new(random: &mut Random, paths: &[&str], others: &[u64]) -> Arena {
        let names = [
            "/tmp",
            "/tmp/f",
            "/tmp/d",
            "/tmp/d/e",
            "/tmp/link",
            "/tmp/d/../f",
            "/tmp/socket",
            "/tmp/fifo",
            "/proc/self/stat",
            "/proc/self/fd/3",
            "/proc/self/fd/5",
            "/proc/self/maps",
            "/proc/self/mem",
            "/dev/null",
            "/dev/zero",
            "/dev/ptmx",
            "/dev/tty",
            "x",
            "/",
            "/bin/busybox",
            "..",
            "",
            "user.one",
            "user.two",
            "tmpfs",
            "/var/tmp/f",
            "/var/tmp/d/e",
        ];
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = PLAYGROUND_PAGES * PAGE_BYTES as usize;
        // SAFETY: a place of the system's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, none, flags, -1, 0) };
        let words = (0..WORDS).map(|_| random.next() >> random.below(64)).collect();
        let strings = names.iter().chain(paths).map(|name| c(*name)).collect();
        Arena { words, strings, others: others.to_vec(), playground: at as u64 }
    }

    /// Returns an address within the memory.
    pub fn inside(&self, random: &mut Random) -> u64 {
        self.words.as_ptr() as u64 + random.below(self.words.len() as u64 * 8)
    }

    /// Returns the address of a path.
    pub fn string(&self, random: &mut Random) -> u64 {
        self.strings[random.below(self.strings.len() as u64) as usize].as_ptr() as u64
    }

    /// Changes a word of the memory to `word`.
    pub fn stir(&mut self, random: &mut Random, word: u64) {
        let at = random.below(self.words.len() as u64) as usize;
        self.words[at] = word;
    }

    /// Puts a structure of these words at a random place. Returns its address.
    fn put(&mut self, random: &mut Random, fields: &[u64]) -> u64 {
        let at = random.below((self.words.len() - fields.len()) as u64) as usize;
        self.words[at..at + fields.len()].copy_from_slice(fields);
        self.words[at..].as_ptr() as u64
    }

    fn one(random: &mut Random, of: &[u64]) -> u64 {
        of[random.below(of.len() as u64) as usize]
    }

    fn file(random: &mut Random) -> u64 {
        if random.below(16) == 0 { random.next() as u32 as i32 as u64 } else { random.below(28) }
    }

    fn length(random: &mut Random) -> u64 {
        match random.below(8) {
            0 => random.next() >> random.below(64),
            1 => 0,
            2 => random.below(1 << 20),
            _ => random.below(5000),
        }
    }

    fn offset(random: &mut Random) -> u64 {
        match random.below(6) {
            0 => random.next() >> random.below(64),
            1 => u64::MAX - random.below(8),
            2 => i64::MAX as u64 - random.below(8192),
            _ => random.below(1 << 16),
        }
    }

    fn vectors(&mut self, random: &mut Random) -> u64 {
        let mut fields = [0; 16];
        for pair in fields.chunks_exact_mut(2) {
            pair.copy_from_slice(&[self.inside(random), Arena::length(random)]);
        }
        self.put(random, &fields)
    }

    fn time(&mut self, random: &mut Random) -> u64 {
        let mut fields = [0; 4];
        for pair in fields.chunks_exact_mut(2) {
            let whole = [0, 0, 0, 1, random.next()];
            let part =
                [0, 1, 1_000_000, 20_000_000, 999_999_999, 0x3fff_ffff, 0x3fff_fffe, random.next()];
            pair.copy_from_slice(&[Arena::one(random, &whole), Arena::one(random, &part)]);
        }
        self.put(random, &fields)
    }

    fn name(&mut self, random: &mut Random) -> u64 {
        let mut bytes = [0u8; 112];
        bytes[0] = if random.below(8) == 0 { random.below(20) as u8 } else { libc::AF_UNIX as u8 };
        let names: [&[u8]; 4] = [b"/tmp/socket", b"\0abstract", b"/tmp/none", b"\0other"];
        let name = names[random.below(4) as usize];
        bytes[2..2 + name.len()].copy_from_slice(name);
        let fields = std::array::from_fn::<u64, 14, _>(|at| {
            u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]))
        });
        self.put(random, &fields)
    }

    fn message(&mut self, random: &mut Random) -> u64 {
        let kinds = [1, 2, random.below(99)];
        let control = [
            // cmsg_len, level and type, data: rights, credentials, anything.
            16 + 4 * random.below(4),
            1 | Arena::one(random, &kinds) << 32,
            Arena::file(random) & 0xffff_ffff | Arena::file(random) << 32,
            random.next() >> random.below(64),
        ];
        let control_at = self.put(random, &control);
        let (name, vectors) = (self.name(random), self.vectors(random));
        let (has_name, has_control) = (random.below(2) == 0, random.below(2) == 0);
        let fields = [
            if has_name { name } else { 0 },
            Arena::one(random, &[110, 13, 2, 0]),
            vectors,
            random.below(9),
            if has_control { control_at } else { 0 },
            if has_control { Arena::one(random, &[24, 32, 16, 40, 8]) } else { 0 },
            0,
        ];
        self.put(random, &fields)
    }

    fn polled(&mut self, random: &mut Random) -> u64 {
        let fields = std::array::from_fn::<u64, 8, _>(|_| {
            Arena::file(random) & 0xffff_ffff | (random.next() & 0x3fff) << 32
        });
        self.put(random, &fields)
    }

    fn filter(&mut self, random: &mut Random) -> u64 {
        let codes =
            [0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06, 0x00, 0x02, 0x60, 0x07, 0x87, 0x14, 0x34];
        let mut fields = std::array::from_fn::<u64, 8, _>(|_| {
            let jumps = random.below(4) << 16 | random.below(4) << 24;
            let operands = [0, 4, 16, 0x7fff_0000, random.next() >> 32];
            Arena::one(random, &codes) | jumps | Arena::one(random, &operands) << 32
        });
        // Most of these filters allow every call.
        fields[7] = 0x06 | 0x7fff_0000 << 32;
        let program = self.put(random, &fields);
        let length = 8 - random.below(3);
        self.put(random, &[length, program])
    }

    /// Makes one argument.
    pub fn make(&mut self, random: &mut Random, kind: Kind) -> u64 {
        match kind {
            File => Arena::file(random),
            Base if random.below(2) == 0 => libc::AT_FDCWD as u64,
            Base => Arena::file(random),
            Path => self.string(random),
            Bytes => self.inside(random) & !7,
            Length => Arena::length(random),
            Offset => Arena::offset(random),
            Few => random.below(9).wrapping_sub(u64::from(random.below(16) == 0)),
            Word => random.next() >> random.below(64),
            Flags(of) => (0..random.below(4)).fold(0, |flags, _| flags | Arena::one(random, of)),
            One(of) => Arena::one(random, of),
            Perhaps(_) if random.below(3) == 0 => 0,
            Perhaps(kind) => self.make(random, *kind),
            Signal => random.below(66),
            Process if !self.others.is_empty() && random.below(2) == 0 => {
                Arena::one(random, &self.others)
            }
            Process => {
                let own = u64::from(std::process::id());
                Arena::one(random, &[0, own, own, u64::MAX, own.wrapping_neg(), 1 << 20])
            }
            Mode => random.below(0o10000),
            Owner => Arena::one(random, &[65534, 65534, 0, u64::from(u32::MAX), 1000]),
            Pages => self.playground + random.below(PLAYGROUND_PAGES as u64) * PAGE_BYTES,
            PagesLength => random.below(PLAYGROUND_PAGES as u64 / 2) * PAGE_BYTES,
            Attribute => {
                Arena::one(random, &[self.name_of(22), self.name_of(23), self.name_of(17)])
            }
            structure => self.structure(random, structure),
        }
    }

    /// An argument that is the address of a structure.
    fn structure(&mut self, random: &mut Random, kind: Kind) -> u64 {
        match kind {
            Vectors => self.vectors(random),
            Time => self.time(random),
            Name => self.name(random),
            Message => self.message(random),
            Polled => self.polled(random),
            Filter => self.filter(random),
            OffsetAt => {
                let offset = Arena::offset(random);
                self.put(random, &[offset])
            }
            Event => {
                let fields = [random.next() & 0xe000_ffff, random.next()];
                self.put(random, &fields)
            }
            Set => {
                let fields = [random.next() & random.next(), random.next()];
                self.put(random, &fields)
            }
            Futex => {
                let words = [0, 1, std::process::id().into(), 0x8000_0000, 0x4000_0000];
                let word = Arena::one(random, &words);
                self.put(random, &[word])
            }
            Lock => {
                let kind = random.below(3) | random.below(3) << 16;
                let fields = [kind, Arena::offset(random), Arena::offset(random), 0];
                self.put(random, &fields)
            }
            How => {
                let flags = self.make(random, Flags(OPEN));
                let fields = [flags, random.below(2) * 0o644, random.below(64)];
                self.put(random, &fields)
            }
            number => unreachable!("no structure: {number:?}"),
        }
    }

    fn name_of(&self, at: usize) -> u64 {
        self.strings[at].as_ptr() as u64
    }
}
