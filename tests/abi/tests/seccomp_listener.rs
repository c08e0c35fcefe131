//! seccomp_unotify(2): calls that the holder of a filter's listener answers.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{seccomp::*, *};
use std::{
    fs,
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const TSYNC: u32 = 1;
const NEW_LISTENER: u32 = 8;
const TSYNC_ESRCH: u32 = 16;
const WAIT_KILLABLE_RECV: u32 = 32;
const GET_NOTIF_SIZES: u32 = 3;

const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const IS_VALID: u64 = 0x4008_2102;
const ADD: u64 = 0x4018_2103;
const SET_FLAGS: u64 = 0x4008_2104;
const CONTINUE: u32 = 1;
const AT_WANTED: u32 = 1;
const AND_ANSWER: u32 = 2;

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Received {
    id: u64,
    thread: u32,
    flags: u32,
    number: u32,
    architecture: u32,
    pointer: u64,
    arguments: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct Addition {
    id: u64,
    flags: u32,
    source: i32,
    wanted: i32,
    wanted_flags: u32,
}

fn ioctl<T>(fd: i32, request: u64, argument: *const T) -> Result<i64, i32> {
    check(unsafe { libc::ioctl(fd, request as _, argument) })
}

fn receive(listener: i32) -> Result<Received, i32> {
    let mut received = Received::default();
    ioctl(listener, RECEIVE, &raw mut received).map(|_| received)
}

fn send(listener: i32, id: u64, value: i64, error: i32, flags: u32) -> Result<i64, i32> {
    ioctl(listener, SEND, &Response { id, value, error, flags })
}

fn is_valid(listener: i32, id: u64) -> Result<i64, i32> {
    ioctl(listener, IS_VALID, &id)
}

fn poll(fd: i32, most_ms: i32) -> i16 {
    let mut one = libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
    must(unsafe { libc::poll(&mut one, 1, most_ms) });
    one.revents
}

/// Starts a thread whose `SUBJECT` calls the listener answers. Returns its id, the listener, and the result of
/// `body`.
fn listened<T: Send + 'static>(
    flags: u32,
    body: impl FnOnce() -> T + Send + 'static,
) -> (i64, i32, JoinHandle<T>) {
    let (tell, told) = mpsc::channel();
    let handle = thread::spawn(move || {
        let listener = install_with(&only(SUBJECT, USER_NOTIF), NEW_LISTENER | flags).unwrap();
        tell.send((thread_id(), listener as i32)).unwrap();
        body()
    });
    let (id, listener) = told.recv().unwrap();
    (id, listener, handle)
}

const ARGUMENTS: [u64; 6] = [1, 2 << 40, 3, 4, 5, u64::MAX];

#[test]
fn a_listener_answers_in_the_kernel_s_place() {
    isolated(|| {
        let (thread, listener, handle) = listened(0, || {
            let (first, after) = raw(SUBJECT, ARGUMENTS);
            (first, after, call(SUBJECT), call(SUBJECT))
        });
        let received = receive(listener).unwrap();
        assert_eq!((i64::from(received.thread), received.flags), (thread, 0));
        assert_eq!((i64::from(received.number), received.architecture), (SUBJECT, ARCHITECTURE));
        assert_eq!(received.arguments, ARGUMENTS);
        let pointer = received.pointer;
        assert_eq!(is_valid(listener, received.id), Ok(0));
        assert_eq!(send(listener, received.id, 1 << 40, 0, 0), Ok(0));
        let second = receive(listener).unwrap();
        assert_eq!(second.id, received.id.wrapping_add(1));
        assert_eq!(send(listener, second.id, 9, -libc::EXDEV, 0), Ok(0));
        let third = receive(listener).unwrap();
        assert_eq!(send(listener, third.id, 0, 0, CONTINUE), Ok(0));
        let own = call(SUBJECT);
        assert_eq!(handle.join().unwrap(), (1 << 40, pointer, refused(libc::EXDEV), own));
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    isolated(|| {
        let (_, listener, handle) = listened(0, || call(SUBJECT));
        let filled = Received { flags: 1, ..Received::default() };
        assert_eq!(ioctl(listener, RECEIVE, &filled), Err(libc::EINVAL));
        assert_eq!(ioctl::<u8>(listener, RECEIVE, std::ptr::null()), Err(libc::EFAULT));
        let id = receive(listener).unwrap().id;
        assert_eq!(send(listener, id.wrapping_add(7), 0, 0, 0), Err(libc::ENOENT));
        assert_eq!(is_valid(listener, id.wrapping_add(7)), Err(libc::ENOENT));
        assert_eq!(send(listener, id, 0, 0, 2), Err(libc::EINVAL));
        assert_eq!(send(listener, id, 1, 0, CONTINUE), Err(libc::EINVAL));
        assert_eq!(send(listener, id, 0, -1, CONTINUE), Err(libc::EINVAL));
        assert_eq!(ioctl::<u8>(listener, 0x2150, std::ptr::null()), Err(libc::EINVAL));
        assert_eq!(ioctl::<u8>(listener, SET_FLAGS, std::ptr::without_provenance(1)), Ok(0));
        let two = std::ptr::without_provenance::<u8>(2);
        assert_eq!(ioctl(listener, SET_FLAGS, two), Err(libc::EINVAL));
        assert_eq!(read(listener, 1), Err(libc::EINVAL));
        assert_eq!(send(listener, id, 5, 0, 0), Ok(0));
        assert_eq!(handle.join().unwrap(), 5);
        let flags = unsafe { libc::fcntl(listener, libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC);
        let name = fs::read_link(format!("/proc/self/fd/{listener}")).unwrap();
        assert_eq!(name.to_str(), Some("anon_inode:seccomp notify"));
    });
}

#[test]
fn flags_and_sizes_are_linux_s() {
    isolated(|| {
        let notify = only(SUBJECT, USER_NOTIF);
        assert_eq!(install_with(&notify, WAIT_KILLABLE_RECV), Err(libc::EINVAL));
        assert_eq!(install_with(&notify, NEW_LISTENER | TSYNC), Err(libc::EINVAL));
        let listener = install_with(&notify, NEW_LISTENER | TSYNC | TSYNC_ESRCH).unwrap() as i32;
        assert!(listener > 2);
        // A chain has at most one listener, as long as it is open.
        assert_eq!(install_with(&notify, NEW_LISTENER), Err(libc::EBUSY));
        close(listener);
        assert!(install_with(&notify, NEW_LISTENER | WAIT_KILLABLE_RECV).unwrap() > 2);
        let mut sizes = [0_u16; 3];
        assert_eq!(seccomp(GET_NOTIF_SIZES, 0, &raw mut sizes as u64), Ok(0));
        assert_eq!(sizes, [80, 24, 64]);
        assert_eq!(seccomp(GET_NOTIF_SIZES, 1, &raw mut sizes as u64), Err(libc::EINVAL));
        assert_eq!(seccomp(GET_NOTIF_SIZES, 0, 8), Err(libc::EFAULT));
    });
}

#[test]
fn a_listener_is_polled() {
    isolated(|| {
        let (go, turn) = mpsc::channel();
        let (_, listener, handle) = listened(0, move || {
            turn.recv().unwrap();
            call(SUBJECT)
        });
        assert_eq!(poll(listener, 0), 0);
        go.send(()).unwrap();
        assert_eq!(poll(listener, 5000), libc::POLLIN);
        let received = receive(listener).unwrap();
        assert_eq!(poll(listener, 5000), libc::POLLOUT);
        assert_eq!(send(listener, received.id, 3, 0, 0), Ok(0));
        assert_eq!(handle.join().unwrap(), 3);
        // The filter has no users any more.
        assert_eq!(poll(listener, 5000), libc::POLLHUP);
        assert_eq!(receive(listener).err(), Some(libc::ENOENT));
    });
}

#[test]
fn a_listener_s_end_answers_for_it() {
    isolated(|| {
        let (_, listener, handle) = listened(0, || [call(SUBJECT), call(SUBJECT)]);
        receive(listener).unwrap();
        close(listener);
        assert_eq!(handle.join().unwrap(), [refused(libc::ENOSYS); 2]);
    });
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: i32) {
    HANDLED.fetch_add(1, SeqCst);
}

fn signal_thread(id: i64) {
    let arguments = [unsafe { libc::getpid() } as u64, id as u64, libc::SIGUSR1 as u64, 0, 0, 0];
    assert_eq!(raw(libc::SYS_tgkill, arguments).0, 0);
}

#[test]
fn a_signal_interrupts_who_waits() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        let (id, listener, handle) = listened(0, || call(SUBJECT));
        let received = receive(listener).unwrap();
        signal_thread(id);
        assert_eq!(handle.join().unwrap(), refused(libc::EINTR));
        assert_eq!(HANDLED.load(SeqCst), 1);
        assert_eq!(is_valid(listener, received.id), Err(libc::ENOENT));
        assert_eq!(send(listener, received.id, 0, 0, 0), Err(libc::ENOENT));
    });
}

#[test]
fn a_call_made_again_is_another() {
    isolated(|| {
        handle(libc::SIGUSR1, count, libc::SA_RESTART);
        let (id, listener, handle) = listened(0, || call(SUBJECT));
        let first = receive(listener).unwrap();
        signal_thread(id);
        let second = receive(listener).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!(HANDLED.load(SeqCst), 1);
        assert_eq!(send(listener, first.id, 1, 0, 0), Err(libc::ENOENT));
        assert_eq!(send(listener, second.id, 2, 0, 0), Ok(0));
        assert_eq!(handle.join().unwrap(), 2);
    });
}

#[test]
fn a_patient_task_is_not_interrupted_once_received() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        let (id, listener, handle) = listened(WAIT_KILLABLE_RECV, || call(SUBJECT));
        let received = receive(listener).unwrap();
        signal_thread(id);
        thread::sleep(Duration::from_millis(50));
        assert_eq!((is_valid(listener, received.id), HANDLED.load(SeqCst)), (Ok(0), 0));
        assert_eq!(send(listener, received.id, 6, 0, 0), Ok(0));
        assert_eq!(handle.join().unwrap(), 6);
        assert_eq!(HANDLED.load(SeqCst), 1);
    });
}

#[test]
fn a_patient_task_can_be_killed() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            let (_, listener, _handle) = listened(WAIT_KILLABLE_RECV, || call(SUBJECT));
            receive(listener).unwrap();
            write(writer, b"x").unwrap();
            thread::sleep(Duration::from_secs(60));
        });
        assert_eq!(read(reader, 1), Ok(vec![b'x']));
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
    });
}

/// Waits until a filter's task in a child has its listener here: the child's descriptor is taken from it.
fn listener_of_child(body: impl FnOnce()) -> (libc::pid_t, i32) {
    let (reader, writer) = pipe();
    let child = fork(|| {
        let listener = install_with(&only(SUBJECT, USER_NOTIF), NEW_LISTENER).unwrap();
        write(writer, &(listener as i32).to_le_bytes()).unwrap();
        body();
    });
    let number = i32::from_le_bytes(read(reader, 4).unwrap().try_into().unwrap());
    let pidfd = raw(libc::SYS_pidfd_open, [child as u64, 0, 0, 0, 0, 0]).0;
    let taken = raw(libc::SYS_pidfd_getfd, [pidfd as u64, number as u64, 0, 0, 0, 0]).0;
    assert!(taken > 0, "{taken}");
    (child, taken as i32)
}

#[test]
fn descriptors_are_put_into_the_table_of_who_waits() {
    isolated(|| {
        let (child, listener) = listener_of_child(|| {
            // The first two calls return the number of the new descriptor, the third puts it at 77.
            let fd = call(SUBJECT) as i32;
            assert_eq!(read(fd, 1), Ok(vec![b'a']));
            let fd = call(SUBJECT) as i32;
            assert_eq!(read(fd, 1), Ok(vec![b'b']));
            assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, libc::FD_CLOEXEC);
            assert_eq!(call(SUBJECT), 8);
            assert_eq!(read(77, 1), Ok(vec![b'c']));
        });
        let (source, writer) = pipe();
        write(writer, b"abc").unwrap();
        let add = |id, flags, source, wanted, wanted_flags| {
            ioctl(listener, ADD, &Addition { id, flags, source, wanted, wanted_flags })
        };
        let id = receive(listener).unwrap().id;
        let cloexec = libc::O_CLOEXEC as u32;
        assert_eq!(add(id, 4, source, 0, 0), Err(libc::EINVAL));
        assert_eq!(add(id, 0, source, 0, 1), Err(libc::EINVAL));
        assert_eq!(add(id, 0, source, 5, 0), Err(libc::EINVAL), "a place that was not asked for");
        assert_eq!(add(id, 0, 999, 0, 0), Err(libc::EBADF));
        assert_eq!(add(id.wrapping_add(5), 0, source, 0, 0), Err(libc::ENOENT));
        let short: [u8; 8] = id.to_le_bytes();
        assert_eq!(ioctl(listener, 0x4008_2103, &short), Err(libc::EINVAL));
        let fd = add(id, 0, source, 0, 0).unwrap();
        assert_eq!(send(listener, id, fd, 0, 0), Ok(0));
        let id = receive(listener).unwrap().id;
        assert!(add(id, AND_ANSWER, source, 0, cloexec).unwrap() > 2);
        let id = receive(listener).unwrap().id;
        assert_eq!(add(id, AT_WANTED, source, 77, 0), Ok(77));
        assert_eq!(send(listener, id, 8, 0, 0), Ok(0));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}
