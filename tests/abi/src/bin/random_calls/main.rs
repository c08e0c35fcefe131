//! Random system calls from an unprivileged process, until `count` have been made: `random_calls COUNT SEED`.
//! Most calls have arguments of the right types ([`shapes`]), the others have arbitrary words. Children make the
//! calls and may die of them; the parent starts the next child, and at the end prints the number of calls made.
//! The kernel must survive, and so must every other process.
mod children;
mod shapes;

use abi::{handle, ipc, must};
use children::{CALLS_A_CHILD, Random, Said};
use shapes::{Arena, SHAPES};
use std::sync::atomic::Ordering::SeqCst;

/// Calls that only end or stop the child, or wait for something that never comes.
const LEFT_OUT: [i64; 14] = [
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigreturn,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// Returns an arbitrary word.
fn argument(random: &mut Random, arena: &Arena) -> u64 {
    let inside = arena.inside(random);
    match random.below(14) {
        0 => 0,
        1 => random.below(8),
        2 => random.below(64),
        3 => random.below(1 << 16),
        4 => random.next(),
        5 => u64::MAX - random.below(4096),
        6 | 7 => inside & !7,
        8 => inside,
        9 => 1 << random.below(64),
        10 => 0x7fff_ffff_f000 - random.below(8192),
        11 => 0xffff_8000_0000_0000 | random.below(1 << 32),
        12 => libc::AT_FDCWD as u64,
        _ => arena.string(random),
    }
}

/// Opens files of most kinds, at descriptors from 3 on.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "every line is a call of the C library")]
fn open_some() {
    let open = |path: &str, flags: i32| {
        let _ = abi::open(path, flags, 0o600);
    };
    let both = libc::O_RDWR | libc::O_CREAT | libc::O_NONBLOCK;
    open("/tmp/f", both);
    open("/var/tmp/f", both);
    open("/tmp", libc::O_RDONLY | libc::O_DIRECTORY);
    open("/tmp", libc::O_RDWR | libc::O_TMPFILE);
    open("/dev/ptmx", libc::O_RDWR | libc::O_NONBLOCK);
    open("/dev/zero", libc::O_RDWR);
    open("/proc/self/status", libc::O_RDONLY);
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors; no other memory is named.
    unsafe {
        libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK);
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_NONBLOCK, 0, ends.as_mut_ptr());
            libc::socket(libc::AF_UNIX, kind | libc::SOCK_NONBLOCK, 0);
        }
        libc::eventfd(1, libc::EFD_NONBLOCK);
        libc::epoll_create1(0);
        libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        libc::inotify_init1(libc::IN_NONBLOCK);
        libc::syscall(libc::SYS_memfd_create, c"m".as_ptr(), 2);
        libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
    }
}

/// One call in this many has arbitrary words as arguments.
const WILD: u64 = 4;
/// Number of calls after which files are opened again.
const CALLS_AN_OPENING: u64 = 1_000;

/// Returns the next call: its number and arguments.
fn next_call(random: &mut Random, arena: &mut Arena) -> (i64, [u64; 6]) {
    let mut arguments = [0u64; 6];
    arguments.fill_with(|| argument(random, arena));
    if random.below(WILD) == 0 {
        return (random.below(470) as i64, arguments);
    }
    let (number, kinds) = SHAPES[random.below(SHAPES.len() as u64) as usize];
    for (argument, kind) in arguments.iter_mut().zip(kinds) {
        *argument = arena.make(random, *kind);
    }
    (number, arguments)
}

extern "C" fn interrupt(_: i32) {}

fn child(seed: u64, said: &Said, count: u64) {
    let null = abi::open("/dev/null", libc::O_RDWR, 0).expect("/dev/null");
    for standard in 0..3 {
        // SAFETY: descriptors of our own; what calls write to them is nobody's.
        must(unsafe { libc::dup2(null, standard) });
    }
    abi::close(null);
    // This timer interrupts blocking calls. If a random call has removed it, the parent kills the child.
    handle(libc::SIGALRM, interrupt, 0);
    let period = libc::timeval { tv_sec: 0, tv_usec: 10_000 };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: a whole itimerval; nothing is written back.
    must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) });
    // SAFETY: no groups are read.
    must(unsafe { libc::setgroups(0, std::ptr::null()) });
    // SAFETY: plain numbers.
    must(unsafe { libc::setresgid(65534, 65534, 65534) });
    // SAFETY: plain numbers.
    must(unsafe { libc::setresuid(65534, 65534, 65534) });
    let mut random = Random(seed | 1);
    let mut arena = Arena::new(&mut random, &[], &[]);
    for at in 0..CALLS_A_CHILD {
        if said.made.fetch_add(1, SeqCst) >= count {
            break;
        }
        if at % CALLS_AN_OPENING == 0 {
            open_some();
        }
        let (number, [a, b, x, d, e, f]) = next_call(&mut random, &mut arena);
        if LEFT_OUT.contains(&number) {
            continue;
        }
        said.last.store(number as u64, SeqCst);
        // SAFETY: none; that is what is tested, and the process is thrown away.
        unsafe { libc::syscall(number, a, b, x, d, e, f) };
        let word = random.next() >> random.below(64);
        arena.stir(&mut random, word);
    }
}

fn main() {
    let number = |at: usize, default: u64| {
        std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let (count, mut seed) = (number(1, 1_000_000), number(2, 1));
    let made = children::run(count, &mut seed, child);
    remove_ipc_objects();
    println!("{} calls made, {} children died", made.calls, made.deaths);
}

/// Removes the objects of System V IPC, which outlive the children that made them. Another process may remove one first.
fn remove_ipc_objects() {
    let remove = |kind: &str, control: &dyn Fn(i32)| {
        let list = std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        let id = |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        list.lines().skip(1).filter_map(id).for_each(control);
    };
    remove("msg", &|id| {
        let _ = ipc::msg_remove(id);
    });
    remove("sem", &|id| {
        // SAFETY: IPC_RMID takes no argument.
        let _ = unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
    });
    remove("shm", &|id| {
        // SAFETY: as above.
        let _ = unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    });
}
