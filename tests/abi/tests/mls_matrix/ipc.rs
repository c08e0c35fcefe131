//! IPC, and memory that is mapped from files: `docs/mls-processes.md`.
use crate::{
    Row, done,
    place::{self, Actor, Attempt, Place, file, program},
    policy::Cell,
    row,
    rule::{Errors, LEFT_OUT, Rule},
};
use abi::{c, check, close, mls::Stage, must};
use libc::*;
use std::{fs, ptr};

const STAT: &str = "System V IPC: an identifier, IPC_STAT, IPC_INFO, `/proc/sysvipc`";
const KEYS: &str = "shmget, semget, msgget with a key";
const USES: &str =
    "shmat (also SHM_RDONLY), semop, msgsnd, msgrcv, IPC_SET, IPC_RMID, SETVAL, SHM_LOCK";
const QUEUES: &str = "POSIX message queues: a name, a listing";
const MESSAGES: &str = "mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr";
const CONNECT: &str = "AF_UNIX: connect, and a datagram to an address";
const ABSTRACT: &str = "AF_UNIX: bind and look-up of an abstract name";
const LISTED: &str = "`/proc/net/unix`, sock_diag(7)";
const FUTEX: &str = "waits and wakes at a shared futex in a file that the caller may not store to through its mapping";
const EXECUTED: &str = "mmap of a file with PROT_EXEC, and mprotect of such a mapping";

/// The key of the objects of the first cell.
const FIRST_KEY: key_t = 0x6d61_7400;

fn queue_name(cell: usize) -> std::ffi::CString {
    c(format!("/matrix{cell}"))
}

fn socket_name(kind: &str, cell: usize) -> Vec<u8> {
    format!("matrix {kind} {cell}.").into_bytes()
}

/// Makes the objects of a cell, if this process is their maker, and stays.
pub fn play_child() {
    let Some(cell) = place::actor_of("make") else { return };
    unsafe { umask(0) };
    let (key, flags) = (FIRST_KEY + cell as key_t, IPC_CREAT | IPC_EXCL | 0o666);
    must(unsafe { shmget(key, 4096, flags) });
    must(unsafe { semget(key, 1, flags) });
    must(unsafe { msgget(key, flags) });
    let name = queue_name(cell);
    must(unsafe { mq_open(name.as_ptr(), O_RDWR | O_CREAT | O_EXCL, 0o666, ptr::null::<u8>()) });
    place::hold()
}

/// Returns the identifier of an object in a table of `/proc/sysvipc`.
fn listed(table: &str, cell: usize) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/sysvipc/{table}")).expect("the table");
    let key = (FIRST_KEY + cell as key_t).to_string();
    let mut rows = text.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[0] == key)?;
    Some(row[1].parse().expect("an identifier"))
}

/// Starts the makers, and makes sockets with all labels.
pub fn start(stage: Stage) -> (Stage, Vec<Actor>) {
    let (mut stage, actors) = place::actors(stage, "make");
    for cell in Cell::all() {
        for table in ["shm", "sem", "msg"] {
            let id = listed(table, cell.number()).expect("it was made");
            stage = stage.give(&format!("{table}{}", cell.number()), id);
        }
        for (name, kind) in [("stream", SOCK_STREAM), ("datagram", SOCK_DGRAM)] {
            let fd = place::socket_with(&cell.object(), kind);
            let name = socket_name(name, cell.number());
            place::bind_abstract(fd, &name).expect("the name is free");
            if kind == SOCK_STREAM {
                must(unsafe { listen(fd, 64) });
            }
        }
    }
    (stage, actors)
}

fn identifier(it: &Attempt<'_>, table: &str) -> i32 {
    abi::mls::given(&format!("{table}{}", it.cell.number()))
}

pub fn rows() -> Vec<Row> {
    [looks(), uses(), queues(), sockets(), memory()].into_iter().flatten().collect()
}

fn looks() -> Vec<Row> {
    let stat = |name, attempt| row(STAT, name, Rule::Read, Errors::all(EINVAL), attempt);
    let list = |name, attempt| row(STAT, name, Rule::Read, Errors::all(LEFT_OUT), attempt);
    let key = |name, attempt| row(KEYS, name, Rule::Equal, Errors::all(LEFT_OUT), attempt);
    /// Tells whether a key finds the object of the cell.
    fn found(it: &Attempt<'_>, table: &str, answer: Result<i64, i32>) -> Result<(), i32> {
        match answer {
            Ok(id) => {
                assert_eq!(id as i32, identifier(it, table));
                Ok(())
            }
            Err(ENOENT) => Err(LEFT_OUT),
            Err(error) => Err(error),
        }
    }
    vec![
        stat("shmctl", |it| {
            let mut room = [0u64; 64];
            done(check(unsafe {
                shmctl(identifier(it, "shm"), IPC_STAT, room.as_mut_ptr().cast())
            }))
        }),
        stat("semctl", |it| {
            let mut room = [0u64; 64];
            done(check(unsafe { semctl(identifier(it, "sem"), 0, IPC_STAT, room.as_mut_ptr()) }))
        }),
        stat("msgctl", |it| {
            let mut room = [0u64; 64];
            done(check(unsafe {
                msgctl(identifier(it, "msg"), IPC_STAT, room.as_mut_ptr().cast())
            }))
        }),
        stat("GETVAL", |it| done(check(unsafe { semctl(identifier(it, "sem"), 0, GETVAL) }))),
        list("a table of segments", |it| listed("shm", it.cell.number()).map(drop).ok_or(LEFT_OUT)),
        list("a table of semaphores", |it| {
            listed("sem", it.cell.number()).map(drop).ok_or(LEFT_OUT)
        }),
        list("a table of queues", |it| listed("msg", it.cell.number()).map(drop).ok_or(LEFT_OUT)),
        key("shmget", |it| {
            let key = FIRST_KEY + it.cell.number() as key_t;
            found(it, "shm", check(unsafe { shmget(key, 0, 0) }))
        }),
        key("semget", |it| {
            let key = FIRST_KEY + it.cell.number() as key_t;
            found(it, "sem", check(unsafe { semget(key, 0, 0) }))
        }),
        key("msgget", |it| {
            let key = FIRST_KEY + it.cell.number() as key_t;
            found(it, "msg", check(unsafe { msgget(key, 0) }))
        }),
    ]
}

fn uses() -> Vec<Row> {
    let with =
        |name, attempt| row(USES, name, Rule::Write, Errors::hidden(EINVAL, EACCES), attempt);
    vec![
        with("shmat", |it| {
            let at = unsafe { shmat(identifier(it, "shm"), ptr::null(), 0) };
            check(at as i64)?;
            done(check(unsafe { shmdt(at) }))
        }),
        with("shmat, to read", |it| {
            let at = unsafe { shmat(identifier(it, "shm"), ptr::null(), SHM_RDONLY) };
            check(at as i64)?;
            done(check(unsafe { shmdt(at) }))
        }),
        with("semop", |it| {
            let mut up = sembuf { sem_num: 0, sem_op: 1, sem_flg: 0 };
            done(check(unsafe { semop(identifier(it, "sem"), &mut up, 1) }))
        }),
        with("semop of zero", |it| {
            // A semaphore that is not zero: the answer comes behind the check.
            let mut zero = sembuf { sem_num: 0, sem_op: 0, sem_flg: IPC_NOWAIT as i16 };
            match check(unsafe { semop(identifier(it, "sem"), &mut zero, 1) }) {
                Err(EAGAIN) => Ok(()),
                found => done(found),
            }
        }),
        with("SETVAL", |it| done(check(unsafe { semctl(identifier(it, "sem"), 0, SETVAL, 1) }))),
        with("msgsnd", |it| {
            let message = [1i64, 0];
            let flags = IPC_NOWAIT;
            let id = identifier(it, "msg");
            done(check(unsafe { msgsnd(id, message.as_ptr().cast(), 8, flags) }))
        }),
        with("msgrcv", |it| {
            let mut room = [0u64; 2];
            let id = identifier(it, "msg");
            let to = room.as_mut_ptr().cast();
            done(check(unsafe { msgrcv(id, to, 8, 0, IPC_NOWAIT) } as i64))
        }),
        with("IPC_SET of a segment", |it| {
            let mut about: shmid_ds = unsafe { abi::zeroed() };
            about.shm_perm.mode = 0o666;
            done(check(unsafe { shmctl(identifier(it, "shm"), IPC_SET, &mut about) }))
        }),
        with("SHM_LOCK", |it| {
            done(check(unsafe { shmctl(identifier(it, "shm"), SHM_LOCK, ptr::null_mut()) }))
        }),
    ]
}

/// Opens the queue of the cell.
fn open_queue(it: &Attempt<'_>, flags: i32) -> Result<i32, i32> {
    let name = queue_name(it.cell.number());
    check(unsafe { mq_open(name.as_ptr(), flags | O_NONBLOCK) }).map(|fd| fd as i32)
}

fn queues() -> Vec<Row> {
    let message =
        |name, attempt| row(MESSAGES, name, Rule::Write, Errors::named(ENOENT, EACCES), attempt);
    vec![
        row(QUEUES, "mq_open", Rule::Equal, Errors::all(ENOENT), |it| {
            open_queue(it, O_RDONLY).map(close)
        }),
        message("mq_timedsend", |it| {
            let fd = open_queue(it, O_WRONLY)?;
            let found = check(unsafe { mq_send(fd, c"a".as_ptr(), 1, 0) });
            close(fd);
            done(found)
        }),
        message("mq_timedreceive", |it| {
            let fd = open_queue(it, O_RDONLY)?;
            let mut room = [0u8; 8192];
            let to = room.as_mut_ptr().cast();
            let found = check(unsafe { mq_receive(fd, to, 8192, ptr::null_mut()) } as i64);
            close(fd);
            match found {
                Err(EAGAIN) => Ok(()),
                found => done(found),
            }
        }),
        message("mq_getsetattr", |it| {
            let fd = open_queue(it, O_RDONLY)?;
            let mut about: mq_attr = unsafe { abi::zeroed() };
            let found = check(unsafe { mq_getattr(fd, &mut about) });
            close(fd);
            done(found)
        }),
        message("mq_notify", |it| {
            let fd = open_queue(it, O_RDONLY)?;
            let found = check(unsafe { syscall(SYS_mq_notify, fd, ptr::null::<sigevent>()) });
            close(fd);
            done(found)
        }),
    ]
}

/// A local socket with the label, at a path with a label that the subject may write to.
fn local(place: &Place, kind: i32) {
    let fd = place::socket_with(&place.object, kind);
    let mut address: sockaddr_un = unsafe { abi::zeroed() };
    address.sun_family = AF_UNIX as u16;
    let path = place.path.as_os_str().as_encoded_bytes();
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as c_char;
    }
    let bytes = size_of::<sockaddr_un>() as socklen_t;
    // The label of the name is the subject's, so that the socket's alone decides.
    fs::write("/proc/thread-self/attr/fscreate", &place.own).expect("asking for the context");
    must(unsafe { bind(fd, (&raw const address).cast(), bytes) });
    fs::write("/proc/thread-self/attr/fscreate", "\n").expect("asking for no context");
    if kind == SOCK_STREAM {
        must(unsafe { listen(fd, 1) });
    }
    must(unsafe { chmod(c(&place.path).as_ptr(), 0o777) });
}

fn sockets() -> Vec<Row> {
    let denied = Errors::all(EACCES);
    let path = |name, prepare, attempt| Row {
        doc: CONNECT,
        name,
        rule: Rule::Write,
        errors: denied,
        prepare,
        attempt,
    };
    let named = Errors::named(ECONNREFUSED, EACCES);
    vec![
        path(
            "a stream",
            |place| local(place, SOCK_STREAM),
            |it| {
                let found = std::os::unix::net::UnixStream::connect(&it.place.path);
                found.map(drop).map_err(|error| error.raw_os_error().unwrap_or(0))
            },
        ),
        path(
            "a datagram",
            |place| local(place, SOCK_DGRAM),
            |it| {
                let own = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
                let found = own.send_to(b"a", &it.place.path);
                found.map(drop).map_err(|error| error.raw_os_error().unwrap_or(0))
            },
        ),
        row(ABSTRACT, "connect a stream", Rule::Write, named, |it| {
            place::connect_abstract(SOCK_STREAM, &socket_name("stream", it.cell.number()))
                .map(close)
        }),
        row(ABSTRACT, "connect a datagram socket", Rule::Write, named, |it| {
            place::connect_abstract(SOCK_DGRAM, &socket_name("datagram", it.cell.number()))
                .map(close)
        }),
        row(ABSTRACT, "bind", Rule::Equal, Errors::all(LEFT_OUT), |it| {
            let fd = must(unsafe { socket(AF_UNIX, SOCK_STREAM, 0) }) as i32;
            let found = place::bind_abstract(fd, &socket_name("stream", it.cell.number()));
            close(fd);
            // The name is taken if the subject finds the other socket.
            match found {
                Err(EADDRINUSE) => Ok(()),
                Ok(()) => Err(LEFT_OUT),
                Err(error) => Err(error),
            }
        }),
        row(LISTED, "the table", Rule::Read, Errors::all(LEFT_OUT), |it| {
            let text = fs::read("/proc/net/unix").expect("the table");
            let name = socket_name("stream", it.cell.number());
            let is_there = text.windows(name.len()).any(|bytes| bytes == name);
            if is_there { Ok(()) } else { Err(LEFT_OUT) }
        }),
    ]
}

/// Maps a page of the file of the cell.
fn map(it: &Attempt<'_>, protection: i32) -> Result<*mut c_void, i32> {
    let fd = abi::open(&it.place.path, O_RDONLY, 0)?;
    let at = unsafe { mmap(ptr::null_mut(), 4096, protection, MAP_SHARED, fd, 0) };
    let found = check(at as i64);
    close(fd);
    found.map(|_| at)
}

fn unmap(at: *mut c_void) {
    must(unsafe { munmap(at, 4096) });
}

fn memory() -> Vec<Row> {
    const FUTEX_WAIT: i32 = 0;
    const FUTEX_WAKE: i32 = 1;
    let denied = Errors::all(EACCES);
    vec![
        Row {
            prepare: file,
            ..row(FUTEX, "wake", Rule::Write, denied, |it| {
                let at = map(it, PROT_READ)?;
                let found = check(unsafe { syscall(SYS_futex, at, FUTEX_WAKE, 1) });
                unmap(at);
                done(found)
            })
        },
        Row {
            prepare: file,
            ..row(FUTEX, "wait", Rule::Write, denied, |it| {
                let at = map(it, PROT_READ)?;
                // Another value: the call does not wait.
                let none = ptr::null::<timespec>();
                let found = check(unsafe { syscall(SYS_futex, at, FUTEX_WAIT, 1, none) });
                unmap(at);
                match found {
                    Err(EAGAIN) => Ok(()),
                    found => done(found),
                }
            })
        },
        Row {
            prepare: program,
            ..row(EXECUTED, "mmap", Rule::Execute, denied, |it| {
                map(it, PROT_READ | PROT_EXEC).map(unmap)
            })
        },
        Row {
            prepare: program,
            ..row(EXECUTED, "mprotect", Rule::Execute, denied, |it| {
                let at = map(it, PROT_READ)?;
                let found = check(unsafe { mprotect(at, 4096, PROT_READ | PROT_EXEC) });
                unmap(at);
                done(found)
            })
        },
    ]
}
