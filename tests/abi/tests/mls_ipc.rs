//! Mandatory access control of IPC and of descriptors that arrive (`docs/mls-processes.md`): tests for systems with a monitor. They
//! do nothing elsewhere.
use abi::{
    Ended, Scratch, check, close, isolated,
    mls::{self, HIGH, LOW, Stage},
    must, pipe, wait,
};
use libc::*;
use std::{fs, mem, ptr};

const KEY: key_t = 0x5ec;

/// Returns the identifier of the object with [`KEY`] in a table of `/proc/sysvipc`.
fn listed(table: &str) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/sysvipc/{table}")).expect("the table");
    let rows = text.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let ours = rows.filter(|row| row[0] == KEY.to_string());
    ours.map(|row| row[1].parse().expect("an identifier")).collect()
}

/// Makes an object of each kind with [`KEY`], none of which may exist.
fn make_objects() -> [i32; 3] {
    let flags = IPC_CREAT | IPC_EXCL | 0o666;
    // SAFETY: takes no pointers.
    let shm = must(unsafe { shmget(KEY, 4096, flags) });
    // SAFETY: takes no pointers.
    let sem = must(unsafe { semget(KEY, 1, flags) });
    // SAFETY: takes no pointers.
    let msg = must(unsafe { msgget(KEY, flags) });
    [shm, sem, msg].map(|id| id as i32)
}

/// Returns the results of calls that use objects: those that look, and those that change.
fn uses([shm, sem, msg]: [i32; 3]) -> [Vec<Result<i64, i32>>; 2] {
    let mut up = sembuf { sem_num: 0, sem_op: 1, sem_flg: 0 };
    let message = [1i64, 0];
    let mut room = [0u64; 64];
    let to = room.as_mut_ptr();
    let looks = vec![
        // SAFETY: there is room for the structure.
        check(unsafe { shmctl(shm, IPC_STAT, to.cast()) }),
        // SAFETY: as above.
        check(unsafe { semctl(sem, 0, IPC_STAT, to) }),
        // SAFETY: as above.
        check(unsafe { msgctl(msg, IPC_STAT, to.cast()) }),
    ];
    let changes = vec![
        // SAFETY: the segment is not used.
        check(unsafe { shmat(shm, ptr::null(), SHM_RDONLY) } as i64),
        // SAFETY: one operation.
        check(unsafe { semop(sem, &mut up, 1) }),
        // SAFETY: a type and eight bytes.
        check(unsafe { msgsnd(msg, message.as_ptr().cast(), 8, IPC_NOWAIT) }),
        // SAFETY: there is room for a type and eight bytes.
        check(unsafe { msgrcv(msg, to.cast(), 8, 0, IPC_NOWAIT) } as i64),
    ];
    [looks, changes]
}

#[test]
fn system_v_objects_above_do_not_exist_and_those_below_do_not_change() {
    if !mls::is_here() {
        return;
    }
    let given = || ["SHM", "SEM", "MSG"].map(mls::given);
    match mls::part().as_deref() {
        Some("make") => {
            make_objects();
        }
        Some("look up") => {
            assert!(["shm", "sem", "msg"].map(listed).concat().is_empty());
            assert!(uses(given()).concat().iter().all(|found| *found == Err(EINVAL)));
            // The key is free at this level.
            let own = make_objects();
            let [looks, changes] = uses(own);
            assert!(looks.iter().chain(&changes).all(Result::is_ok), "{looks:?} {changes:?}");
        }
        Some("look down") => {
            let [looks, changes] = uses(given());
            assert!(looks.iter().all(Result::is_ok), "{looks:?}");
            assert!(changes.iter().all(|found| *found == Err(EACCES)), "{changes:?}");
        }
        _ => isolated(|| {
            let name = "system_v_objects_above_do_not_exist_and_those_below_do_not_change";
            let numbers = || ["shm", "sem", "msg"].map(|table| listed(table)[0]);
            let stage = |[shm, sem, msg]: [i32; 3]| {
                Stage::new(name).give("SHM", shm).give("SEM", sem).give("MSG", msg)
            };
            assert_eq!(Stage::new(name).run(HIGH, "make"), Ended::Exited(0));
            let above = numbers();
            assert_eq!(stage(above).run(LOW, "look up"), Ended::Exited(0));
            let remove = |[shm, sem, msg]: [i32; 3]| {
                // SAFETY: no pointer is used.
                must(unsafe { shmctl(shm, IPC_RMID, ptr::null_mut()) });
                // SAFETY: as above.
                must(unsafe { semctl(sem, 0, IPC_RMID) });
                // SAFETY: as above.
                must(unsafe { msgctl(msg, IPC_RMID, ptr::null_mut()) });
            };
            remove(above);
            let below = numbers();
            assert_eq!(stage(below).run(HIGH, "look down"), Ended::Exited(0));
            remove(below);
        }),
    }
}

fn abstract_name(name: &[u8]) -> (sockaddr_un, socklen_t) {
    // SAFETY: zeroes are an address.
    let mut address: sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = AF_UNIX as u16;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as c_char;
    }
    (address, (3 + name.len()) as socklen_t)
}

fn stream() -> i32 {
    // SAFETY: takes no pointers.
    must(unsafe { socket(AF_UNIX, SOCK_STREAM, 0) }) as i32
}

fn socket_at(name: &[u8], backlog: i32) -> i32 {
    let (address, bytes) = abstract_name(name);
    let fd = stream();
    // SAFETY: the address has these bytes.
    must(unsafe { bind(fd, (&raw const address).cast(), bytes) });
    // SAFETY: takes no pointers.
    must(unsafe { listen(fd, backlog) });
    fd
}

fn connect_to(name: &[u8]) -> Result<i32, i32> {
    let (address, bytes) = abstract_name(name);
    let fd = stream();
    // SAFETY: the address has these bytes.
    let connected = check(unsafe { connect(fd, (&raw const address).cast(), bytes) });
    connected.map(|_| fd).inspect_err(|_| close(fd))
}

/// Returns the context of a socket's peer (SO_PEERSEC).
fn peer_context(fd: i32) -> String {
    let (mut text, mut bytes) = ([0u8; 256], 256);
    // SAFETY: the buffer has these bytes.
    must(unsafe { getsockopt(fd, SOL_SOCKET, SO_PEERSEC, text.as_mut_ptr().cast(), &mut bytes) });
    assert_eq!(text[bytes as usize - 1], 0, "the text ends with NUL");
    String::from_utf8_lossy(&text[..bytes as usize - 1]).into_owned()
}

#[test]
fn an_abstract_name_is_one_of_its_level() {
    if !mls::is_here() {
        return;
    }
    const NAME: &[u8] = b"mls level";
    match mls::part().as_deref() {
        Some("listen") => {
            socket_at(NAME, 1);
            loop {
                // SAFETY: takes no pointers.
                unsafe { pause() };
            }
        }
        Some("connect") => {
            assert_eq!(connect_to(NAME).err(), Some(ECONNREFUSED));
            let listener = socket_at(NAME, 1);
            let own = connect_to(NAME).expect("the socket of the same level");
            assert_eq!(peer_context(own), LOW);
            // SAFETY: no address is wanted.
            let accepted = must(unsafe { accept(listener, ptr::null_mut(), ptr::null_mut()) });
            assert_eq!(peer_context(accepted as i32), LOW);
        }
        _ => isolated(|| {
            let stage = Stage::new("an_abstract_name_is_one_of_its_level");
            let listener = stage.start(HIGH, "listen");
            // The test may write at each level, and so finds the name.
            let found = loop {
                match connect_to(NAME) {
                    Err(ECONNREFUSED) => std::thread::yield_now(),
                    found => break found.expect("a connection"),
                }
            };
            assert_eq!(peer_context(found), HIGH);
            assert_eq!(stage.run(LOW, "connect"), Ended::Exited(0));
            // SAFETY: takes no pointers.
            unsafe { kill(listener, SIGKILL) };
            wait(listener);
        }),
    }
}

/// A control message with three descriptors.
#[repr(C)]
struct Passed {
    header: cmsghdr,
    files: [i32; 6],
}

/// Sends or receives a byte with descriptors. Returns the flags of the message.
fn transfer(fd: i32, passed: &mut Passed, is_sent: bool) -> i32 {
    let mut byte = 0u8;
    let mut part = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: zeroes are a header.
    let mut header: msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = (passed as *mut Passed).cast();
    // The C libraries give the lengths different types.
    header.msg_controllen = mem::size_of::<Passed>() as _;
    let moved = match is_sent {
        // SAFETY: all that the header refers to is there.
        true => unsafe { sendmsg(fd, &header, 0) },
        // SAFETY: as above.
        false => unsafe { recvmsg(fd, &mut header, 0) },
    };
    assert_eq!(must(moved as i64), 1);
    header.msg_flags
}

#[test]
fn descriptors_that_the_receiver_may_not_have_do_not_arrive() {
    if !mls::is_here() {
        return;
    }
    const NAME: &[u8] = b"mls passing";
    match mls::part().as_deref() {
        Some("receive") => {
            let listener = socket_at(NAME, 1);
            // SAFETY: no address is wanted.
            let end = must(unsafe { accept(listener, ptr::null_mut(), ptr::null_mut()) }) as i32;
            // SAFETY: zeroes are a control message.
            let mut passed: Passed = unsafe { mem::zeroed() };
            assert_eq!(transfer(end, &mut passed, false) & MSG_CTRUNC, MSG_CTRUNC);
            let files = (passed.header.cmsg_len as usize - mem::size_of::<cmsghdr>()) / 4;
            assert_eq!(files, 4, "the ends of the pipe, the file and the device");
            for fd in &passed.files[..4] {
                // SAFETY: takes no pointers.
                must(unsafe { fcntl(*fd, F_GETFD) });
            }
        }
        _ => isolated(|| {
            let name = "descriptors_that_the_receiver_may_not_have_do_not_arrive";
            let receiver = Stage::new(name).start(LOW, "receive");
            let end = loop {
                match connect_to(NAME) {
                    Err(ECONNREFUSED) => std::thread::yield_now(),
                    found => break found.expect("a connection"),
                }
            };
            let (reader, writer) = pipe();
            let file = abi::open("/proc/version", O_RDONLY, 0).expect("a file");
            let null = abi::open("/dev/null", O_RDWR, 0).expect("a device");
            // A file of a greater grade, and a file of a higher level.
            let scratch = Scratch::of_levels();
            let [greater, higher] = [
                ("greater", "system_u:object_r:etc_t:s0", O_RDWR),
                ("higher", "system_u:object_r:tmp_t:s1", O_RDONLY),
            ]
            .map(|(name, context, flags)| {
                let path = scratch.path(name);
                fs::write(&path, "").expect("making a file");
                mls::label(&path, context);
                abi::open(path, flags, 0).expect("opening it")
            });
            let length = mem::size_of::<Passed>();
            // SAFETY: zeroes are a header.
            let mut header: cmsghdr = unsafe { mem::zeroed() };
            (header.cmsg_len, header.cmsg_level, header.cmsg_type) =
                (length as _, SOL_SOCKET, SCM_RIGHTS);
            let files = [reader, greater, file, writer, higher, null];
            let mut passed = Passed { header, files };
            transfer(end, &mut passed, true);
            assert_eq!(wait(receiver), Ended::Exited(0));
            files.into_iter().chain([end]).for_each(close);
        }),
    }
}

#[test]
fn a_program_at_another_label_finds_a_null_device_in_place_of_what_it_may_not_have() {
    if !mls::is_here() {
        return;
    }
    let device = |fd: i32| {
        // SAFETY: zeroes are a structure that is written.
        let mut found: stat = unsafe { mem::zeroed() };
        // SAFETY: as above.
        must(unsafe { fstat(fd, &mut found) });
        (found.st_mode & S_IFMT, found.st_rdev)
    };
    match mls::part().as_deref() {
        Some("look") => {
            assert_eq!(device(mls::given("WRITER")), (S_IFCHR, makedev(1, 3)));
            assert_eq!(device(mls::given("READER")), (S_IFCHR, makedev(1, 3)));
            assert_eq!(device(mls::given("KEPT")).0, S_IFREG);
        }
        _ => isolated(|| {
            let name =
                "a_program_at_another_label_finds_a_null_device_in_place_of_what_it_may_not_have";
            let (reader, writer) = pipe();
            let kept = abi::open("/proc/version", O_RDONLY, 0).expect("a file");
            let stage = Stage::new(name).give("READER", reader).give("WRITER", writer);
            assert_eq!(stage.give("KEPT", kept).run(HIGH, "look"), Ended::Exited(0));
            assert_eq!(device(writer).0, S_IFIFO, "the other processes keep theirs");
        }),
    }
}
