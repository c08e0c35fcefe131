//! Deeds with objects that are no files of a folder: sockets, System V IPC, queues, terminals, processes.
use crate::{
    GIVEN, GIVEN_COUNT, STAGES, SUBJECTS,
    deeds::at,
    subject::{Actor, ROOM, SIGNAL},
};
use libc::*;
use std::{ffi::CString, fs, process};

/// Requests of ioctl(2) to the master of a terminal: to unlock the other side, and to tell its number.
const UNLOCK: u64 = 0x4004_5431;
const NUMBER: u64 = 0x8004_5430;
const CREATED: u64 = IPC_CREAT as u64 | 0o666;
/// The least of the numbers of ports and keys.
const NUMBERS: u64 = 7100;

/// The address of a local socket, in words, and its length.
fn address(actor: &mut Actor<'_>) -> ([u64; 14], u64) {
    let number = actor.random.below(3);
    let name = match actor.random.below(3) {
        0 => format!("\0name{number}"),
        1 => format!("{}/low/socket{number}", STAGES[0]),
        _ => format!("{}/high/socket{number}", STAGES[0]),
    };
    let mut bytes = [0u8; 112];
    bytes[0] = AF_UNIX as u8;
    let mut end = 2 + name.len();
    bytes[2..end].copy_from_slice(name.as_bytes());
    if name.starts_with('\0') && actor.random.below(2) == 0 {
        bytes[end..end + 8].copy_from_slice(&actor.tokens[..8]);
        end += 8;
    }
    let words = std::array::from_fn(|word| {
        u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * word + byte]))
    });
    (words, end as u64)
}

fn socket_of(actor: &mut Actor<'_>, family: i32, kind: i32) -> i64 {
    let kind = kind | SOCK_NONBLOCK | SOCK_CLOEXEC;
    actor.call(SYS_socket, [family as u64, kind as u64, 0, 0, 0, 0])
}

/// Looks at the name that a call tells of a socket.
fn see_name(actor: &mut Actor<'_>, number: i64, file: i64) {
    let (mut length, room) = (112u64, actor.buffer.as_mut_ptr() as u64);
    let words = [file as u64, room, std::ptr::from_mut(&mut length) as u64, 0, 0, 0];
    if actor.call(number, words) >= 0 {
        actor.see_buffer(length as u32 as i64);
    }
}

pub fn streams(actor: &mut Actor<'_>) {
    let (server, client) =
        (socket_of(actor, AF_UNIX, SOCK_STREAM), socket_of(actor, AF_UNIX, SOCK_STREAM));
    let (own, length) = address(actor);
    actor.call(SYS_bind, [server as u64, own.as_ptr() as u64, length, 0, 0, 0]);
    actor.call(SYS_listen, [server as u64, 8, 0, 0, 0, 0]);
    for _ in 0..3 {
        let (other, length) = address(actor);
        actor.call(SYS_connect, [client as u64, other.as_ptr() as u64, length, 0, 0, 0]);
        actor.put(client);
        see_name(actor, SYS_getpeername, client);
        let accepted = actor.call(SYS_accept4, [server as u64, 0, 0, SOCK_NONBLOCK as u64, 0, 0]);
        actor.put(accepted);
        actor.take(accepted);
        see_name(actor, SYS_getpeername, accepted);
        pass(actor, client);
        receive(actor, accepted);
        actor.close(accepted);
        actor.take(client);
    }
    actor.close(client);
    actor.close(server);
}

pub fn datagrams(actor: &mut Actor<'_>) {
    let file = socket_of(actor, AF_UNIX, SOCK_DGRAM);
    let (own, length) = address(actor);
    actor.call(SYS_bind, [file as u64, own.as_ptr() as u64, length, 0, 0, 0]);
    for _ in 0..3 {
        let (other, length) = address(actor);
        let from = actor.tokens.as_ptr() as u64;
        let words = [file as u64, from, 256, 0, other.as_ptr() as u64, length];
        actor.call(SYS_sendto, words);
        receive(actor, file);
    }
    actor.close(file);
}

/// Sends a token and a descriptor.
fn pass(actor: &mut Actor<'_>, socket: i64) {
    let passed = actor.random.below(24) | (GIVEN as u64 + actor.random.below(4)) << 32;
    let control = [24, SOL_SOCKET as u64 | (SCM_RIGHTS as u64) << 32, passed];
    let vector = [actor.tokens.as_ptr() as u64, 64];
    let message =
        [0, 0, vector.as_ptr() as u64, 1, control.as_ptr() as u64, control.len() as u64 * 8, 0];
    let flags = (MSG_DONTWAIT | MSG_NOSIGNAL) as u64;
    actor.call(SYS_sendmsg, [socket as u64, message.as_ptr() as u64, flags, 0, 0, 0]);
}

/// Receives a message, and looks at it, at its sender's name and through the descriptors that came with it.
fn receive(actor: &mut Actor<'_>, socket: i64) {
    let (mut control, mut name) = ([0u64; 16], [0u8; 128]);
    let vector = [actor.buffer.as_mut_ptr() as u64, ROOM as u64];
    let message = [
        name.as_mut_ptr() as u64,
        name.len() as u64,
        vector.as_ptr() as u64,
        1,
        control.as_mut_ptr() as u64,
        size_of_val(&control) as u64,
        0,
    ];
    let words = [socket as u64, message.as_ptr() as u64, MSG_DONTWAIT as u64, 0, 0, 0];
    let done = actor.call(SYS_recvmsg, words);
    if done < 0 {
        return;
    }
    actor.see_buffer(done);
    actor.see(&name);
    let rights = SOL_SOCKET as u64 | (SCM_RIGHTS as u64) << 32;
    if control[1] == rights && (20..=24).contains(&control[0]) {
        for file in
            [control[2] as u32, (control[2] >> 32) as u32].into_iter().filter(|file| *file > 2)
        {
            actor.take(i64::from(file));
            actor.put(i64::from(file));
            if (file as i32) < GIVEN {
                actor.close(i64::from(file));
            }
        }
    }
}

pub fn rights(actor: &mut Actor<'_>) {
    let (_, path) = actor.path();
    let file = actor.open(&path, O_RDWR);
    for end in [2, 3] {
        let given = i64::from(GIVEN + end);
        pass(actor, given);
        receive(actor, given);
    }
    actor.close(file);
}

pub fn given(actor: &mut Actor<'_>) {
    let file = i64::from(GIVEN) + actor.random.below(GIVEN_COUNT as u64) as i64;
    actor.call(SYS_lseek, [file as u64, 0, 0, 0, 0, 0]);
    actor.take(file);
    actor.put(file);
}

pub fn internet(actor: &mut Actor<'_>) {
    let file = socket_of(actor, AF_INET, SOCK_DGRAM);
    let name = |port: u64| {
        let port = (NUMBERS + port) as u16;
        [AF_INET as u64 | u64::from(port.to_be()) << 16 | 0x0100_007f << 32, 0]
    };
    let (own, other) = (name(actor.random.below(3)), name(actor.random.below(3)));
    actor.call(SYS_bind, [file as u64, own.as_ptr() as u64, 16, 0, 0, 0]);
    let from = actor.tokens.as_ptr() as u64;
    for _ in 0..2 {
        actor.call(SYS_sendto, [file as u64, from, 64, 0, other.as_ptr() as u64, 16]);
        receive(actor, file);
    }
    actor.close(file);
}

pub fn messages(actor: &mut Actor<'_>) {
    let key = NUMBERS + actor.random.below(3);
    let queue = actor.call(SYS_msgget, [key, CREATED, 0, 0, 0, 0]);
    let mut text = [1u64; 9];
    text[1..].fill(u64::from_ne_bytes(std::array::from_fn(|byte| actor.tokens[byte])));
    let nowait = IPC_NOWAIT as u64;
    actor.call(SYS_msgsnd, [queue as u64, text.as_ptr() as u64, 64, nowait, 0, 0]);
    let room = actor.buffer.as_mut_ptr() as u64;
    for id in [queue as u64, actor.random.below(64)] {
        let done = actor.call(SYS_msgrcv, [id, room, 256, 0, nowait, 0]);
        actor.see_buffer(if done < 0 { done } else { done + 8 });
    }
    if actor.random.below(64) == 0 {
        actor.call(SYS_msgctl, [queue as u64, IPC_RMID as u64, 0, 0, 0, 0]);
    }
}

pub fn segment(actor: &mut Actor<'_>) {
    let key = NUMBERS + actor.random.below(3);
    let own = actor.call(SYS_shmget, [key, ROOM as u64, CREATED, 0, 0, 0]);
    for id in [own as u64, actor.random.below(64)] {
        let place = actor.call(SYS_shmat, [id, 0, 0, 0, 0, 0]);
        if place >= 0 {
            actor.see_memory(place as u64, ROOM as u64);
            actor.write_memory(u64::from(process::id()), place as u64);
            actor.call(SYS_shmdt, [place as u64, 0, 0, 0, 0, 0]);
        }
    }
    if actor.random.below(64) == 0 {
        actor.call(SYS_shmctl, [own as u64, IPC_RMID as u64, 0, 0, 0, 0]);
    }
}

/// A semaphore's value is a thousand and the number of the subject that set it.
pub fn semaphore(actor: &mut Actor<'_>) {
    const BASE: i64 = 1000;
    let key = NUMBERS + actor.random.below(3);
    let id = actor.call(SYS_semget, [key, 1, CREATED, 0, 0, 0]);
    let found = actor.call(SYS_semctl, [id as u64, 0, GETVAL as u64, 0, 0, 0]) - BASE;
    let by = usize::try_from(found).ok().filter(|by| *by < SUBJECTS.len());
    if let Some(by) = by
        && !actor.subject().may_see(&SUBJECTS[by])
    {
        actor.tell(by);
    }
    let value = (BASE + actor.me as i64) as u64;
    actor.call(SYS_semctl, [id as u64, 0, SETVAL as u64, value, 0, 0]);
}

pub fn queue(actor: &mut Actor<'_>) {
    let name = CString::new(format!("flows{}", actor.random.below(3))).expect("no NUL");
    let flags = (O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC) as u64;
    let file = actor.call(SYS_mq_open, [at(&name), flags, 0o666, 0, 0, 0]);
    let from = actor.tokens.as_ptr() as u64;
    actor.call(SYS_mq_timedsend, [file as u64, from, 64, 0, 0, 0]);
    // Eight kilobytes are the greatest message by default.
    let mut large = [0u8; 8192];
    let done =
        actor.call(SYS_mq_timedreceive, [file as u64, large.as_mut_ptr() as u64, 8192, 0, 0, 0]);
    actor.see(&large[..usize::try_from(done).unwrap_or(0).min(large.len())]);
    actor.close(file);
}

pub fn memory(actor: &mut Actor<'_>) {
    let name = CString::new(&actor.tokens[..16]).expect("no NUL");
    let file = actor.call(SYS_memfd_create, [at(&name), 2, 0, 0, 0, 0]);
    actor.put(file);
    if file >= 0 && actor.random.below(4) > 0 {
        actor.close(file);
    }
}

pub fn terminal(actor: &mut Actor<'_>) {
    let master = actor.open(&c"/dev/ptmx".to_owned(), O_RDWR);
    if master < 0 {
        return;
    }
    let (unlocked, mut number) = (0u32, 0u32);
    let at_unlocked = std::ptr::from_ref(&unlocked) as u64;
    actor.call(SYS_ioctl, [master as u64, UNLOCK, at_unlocked, 0, 0, 0]);
    let at_number = std::ptr::from_mut(&mut number) as u64;
    actor.call(SYS_ioctl, [master as u64, NUMBER, at_number, 0, 0, 0]);
    let listed = fs::read_dir("/dev/pts").map(|entries| entries.flatten().count() as u64);
    let numbers = [
        u64::from(number),
        actor.random.below(1 + listed.unwrap_or(0)),
        actor.random.below(1 << 13),
    ];
    let from = actor.tokens.as_ptr() as u64;
    actor.call(SYS_write, [master as u64, from, 64, 0, 0, 0]);
    for number in numbers {
        let path = CString::new(format!("/dev/pts/{number}")).expect("no NUL");
        let slave = actor.open(&path, O_RDWR);
        actor.take(slave);
        actor.put(slave);
        actor.close(slave);
    }
    actor.take(master);
    actor.close(master);
}

/// Files of a process in /proc.
const TEXTS: [&str; 12] = [
    "comm",
    "cmdline",
    "environ",
    "maps",
    "stat",
    "status",
    "mem",
    "attr/current",
    "fdinfo/3",
    "mountinfo",
    "limits",
    "syscall",
];
/// Files of the system there.
const SYSTEM: [&str; 9] = [
    "net/unix",
    "net/udp",
    "net/tcp",
    "sysvipc/shm",
    "sysvipc/msg",
    "sysvipc/sem",
    "locks",
    "mounts",
    "keys",
];

pub fn proc(actor: &mut Actor<'_>) {
    let listed: Vec<u64> = fs::read_dir("/proc")
        .map(|entries| {
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        })
        .unwrap_or_default();
    let (subject, known) = actor.other();
    let process = match actor.random.below(3) {
        0 if !listed.is_empty() => listed[actor.random.below(listed.len() as u64) as usize],
        _ => known,
    };
    if process == known && !actor.subject().may_see(subject) {
        let path = CString::new(format!("/proc/{process}")).expect("no NUL");
        let found = actor.open(&path, O_PATH);
        actor.must_fail(found);
    }
    let text = TEXTS[actor.random.below(TEXTS.len() as u64) as usize];
    let system = SYSTEM[actor.random.below(SYSTEM.len() as u64) as usize];
    for path in [
        format!("/proc/{process}/{text}"),
        format!("/proc/{system}"),
        format!("/proc/{process}/fd/{}", actor.random.below(9)),
    ] {
        let path = CString::new(path).expect("no NUL");
        let file = actor.open(&path, O_RDONLY);
        actor.take(file);
        actor.close(file);
        let room = actor.buffer.as_mut_ptr() as u64;
        let here = AT_FDCWD as i64 as u64;
        let done = actor.call(SYS_readlinkat, [here, at(&path), room, ROOM as u64, 0, 0]);
        actor.see_buffer(done);
    }
}

pub fn name(actor: &mut Actor<'_>) {
    let name = CString::new(&actor.tokens[..8]).expect("no NUL");
    actor.call(SYS_prctl, [PR_SET_NAME as u64, at(&name), 0, 0, 0, 0]);
}

pub fn other_memory(actor: &mut Actor<'_>) {
    let (subject, process) = actor.other();
    let address = actor.tokens.as_ptr() as u64;
    let done = actor.read_memory(process, address, ROOM as u64);
    if !actor.subject().may_see(subject) {
        actor.must_fail(done);
    }
    if !actor.subject().may_act_on(subject) {
        let done = actor.write_memory(process, address);
        actor.must_fail(done);
    }
}

/// Sends a signal whose value is the sender's number, and takes those that came. Signals are sent to children by their listed numbers.
pub fn signal(actor: &mut Actor<'_>) {
    let (subject, process) = actor.other();
    let mut information = [0u64; 16];
    information[0] = SIGNAL as u64;
    information[1] = SI_QUEUE as u32 as u64;
    information[2] = u64::from(process::id());
    information[3] = 100 + actor.me as u64;
    let at_information = information.as_ptr() as u64;
    let done = actor.call(SYS_rt_sigqueueinfo, [process, SIGNAL as u64, at_information, 0, 0, 0]);
    if !actor.subject().may_act_on(subject) {
        actor.must_fail(done);
    }
    let (set, none) = (1u64 << (SIGNAL - 1), [0u64; 2]);
    let room = actor.buffer.as_mut_ptr() as u64;
    let at_set = std::ptr::from_ref(&set) as u64;
    let done = actor.call(SYS_rt_sigtimedwait, [at_set, room, none.as_ptr() as u64, 8, 0, 0]);
    let by = usize::from(actor.buffer[24]).wrapping_sub(100);
    if done == i64::from(SIGNAL) && by < SUBJECTS.len() && !SUBJECTS[by].may_act_on(actor.subject())
    {
        actor.tell(by);
    }
}

pub fn exists(actor: &mut Actor<'_>) {
    let (subject, process) = actor.other();
    let room = actor.buffer.as_mut_ptr() as u64;
    let (number, words) = match actor.random.below(8) {
        0 => (SYS_kill, [process, 0, 0, 0, 0, 0]),
        1 => (SYS_getpgid, [process, 0, 0, 0, 0, 0]),
        2 => (SYS_getsid, [process, 0, 0, 0, 0, 0]),
        3 => (SYS_getpriority, [PRIO_PROCESS as u64, process, 0, 0, 0, 0]),
        4 => (SYS_sched_getscheduler, [process, 0, 0, 0, 0, 0]),
        5 => (SYS_sched_getaffinity, [process, 8, room, 0, 0, 0]),
        6 => (SYS_prlimit64, [process, 1, 0, room, 0, 0]),
        _ => (SYS_pidfd_open, [process, 0, 0, 0, 0, 0]),
    };
    let done = actor.call(number, words);
    if number == SYS_pidfd_open {
        actor.close(done);
    }
    // Another error may come first, such as a full table of descriptors; these two tell that there is a process.
    if !actor.subject().may_see(subject)
        && (done >= 0 || [-EPERM, -EACCES].contains(&(done as i32)))
    {
        actor.tell_success(done);
    }
}

pub fn other_descriptor(actor: &mut Actor<'_>) {
    let (subject, process) = actor.other();
    let open = actor.call(SYS_pidfd_open, [process, 0, 0, 0, 0, 0]);
    let number = [3, 4, GIVEN as u64, GIVEN as u64 + 2][actor.random.below(4) as usize];
    let file = actor.call(SYS_pidfd_getfd, [open as u64, number, 0, 0, 0, 0]);
    if !actor.subject().may_see(subject) {
        actor.must_fail(file);
    }
    // A report of a subject is no place for tokens.
    if number >= GIVEN as u64 {
        actor.take(file);
        actor.put(file);
    }
    actor.close(file);
    actor.close(open);
}
