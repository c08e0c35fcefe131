//! Messages of System V, of POSIX queues and of sockets, pipes and the counters of descriptors: none is lost or read twice.
use super::world::{self, World, words};
use linux_raw_sys::{general as raw, net};
use vfs::Errno;

const IPC_CREAT: u64 = 0o1000;
const IPC_NOWAIT: u64 = 0o4000;

#[test]
fn a_refused_msgrcv_leaves_the_message() {
    world::run(|world| {
        let queue = world.call(raw::__NR_msgget, [0, IPC_CREAT | 0o600, 0, 0, 0, 0]).unwrap();
        let sent = [&7u64.to_le_bytes()[..], b"bytes"].concat();
        let message = world.page_of(&sent);
        world.refused_everywhere(
            || (),
            |()| world.call(raw::__NR_msgsnd, [queue, message, 5, 0, 0, 0]),
            || assert_eq!(receive(world, queue, 0), Err(Errno::ENOMSG)),
        );
        let receive_at = |at: u64| receive(world, queue, at);
        let (length, at) = world.refused_everywhere(|| world.page(), |at| receive_at(*at), || ());
        assert_eq!((length, read(world, at, 13)), (5, sent));
        assert_eq!(receive(world, queue, at), Err(Errno::ENOMSG));
        world.call(raw::__NR_msgctl, [queue, 0, 0, 0, 0, 0]).unwrap();
    });
}

fn receive(world: &World, queue: u64, at: u64) -> Result<u64, Errno> {
    world.call(raw::__NR_msgrcv, [queue, at, 100, 0, IPC_NOWAIT, 0])
}

fn read(world: &World, at: u64, count: usize) -> Vec<u8> {
    world.task.memory().read_array(at, count).unwrap()
}

/// Reads once from `fd`, refused everywhere, and expects `expected`; then nothing is left.
fn check_read(world: &World, fd: u64, room: u64, expected: &[u8]) {
    let (count, at) = world.refused_everywhere(
        || world.page(),
        |at| world.call(raw::__NR_read, [fd, *at, room, 0, 0, 0]),
        || (),
    );
    assert_eq!(read(world, at, count as usize), expected);
    let at = world.page();
    assert_eq!(world.call(raw::__NR_read, [fd, at, room, 0, 0, 0]), Err(Errno::EAGAIN));
}

fn pair(world: &World, kind: u32) -> [u64; 2] {
    let at = world.page_of(&[0; 8]);
    let args = [net::AF_UNIX.into(), u64::from(kind | raw::O_NONBLOCK), 0, at, 0, 0];
    world.call(raw::__NR_socketpair, args).unwrap();
    world.task.memory().read::<[u32; 2]>(at).unwrap().map(u64::from)
}

/// Checks that a refused read leaves the bytes that were written to `writer`, and closes both ends.
fn check_channel(world: &World, reader: u64, writer: u64) {
    let bytes = world.page_of(b"some bytes");
    world.call(raw::__NR_write, [writer, bytes, 10, 0, 0, 0]).unwrap();
    check_read(world, reader, 100, b"some bytes");
    world.close(reader);
    world.close(writer);
}

#[test]
fn a_refused_read_leaves_the_bytes_of_sockets() {
    world::run(|world| {
        for kind in [net::SOCK_STREAM, net::SOCK_DGRAM, net::SOCK_SEQPACKET] {
            let [reader, writer] = pair(world, kind);
            check_channel(world, reader, writer);
        }
    });
}

#[test]
fn a_refused_read_leaves_the_bytes_of_pipes() {
    world::run(|world| {
        for flags in [raw::O_NONBLOCK, raw::O_NONBLOCK | raw::O_DIRECT] {
            let at = world.page_of(&[0; 8]);
            world.call(raw::__NR_pipe2, [at, flags.into(), 0, 0, 0, 0]).unwrap();
            let [reader, writer] = world.task.memory().read::<[u32; 2]>(at).unwrap();
            let (reader, writer) = (u64::from(reader), u64::from(writer));
            check_channel(world, reader, writer);
        }
    });
}

#[test]
fn a_refused_read_leaves_the_count_of_an_eventfd() {
    world::run(|world| {
        let flags = u64::from(raw::O_NONBLOCK);
        let fd = world.call(raw::__NR_eventfd2, [5, flags, 0, 0, 0, 0]).unwrap();
        check_read(world, fd, 8, &5u64.to_le_bytes());
        world.close(fd);
    });
}

#[test]
fn a_refused_mq_timedreceive_leaves_the_message() {
    world::run(|world| {
        let name = world.page_of(b"messages\0");
        let shape = world.page_of(&words(&[0, 4, 64, 0, 0, 0, 0, 0]));
        let flags = u64::from(raw::O_CREAT | raw::O_RDWR | raw::O_NONBLOCK);
        let queue = world.call(raw::__NR_mq_open, [name, flags, 0o600, shape, 0, 0]).unwrap();
        let bytes = world.page_of(b"bytes");
        let receive = |at, priority_at| {
            world.call(raw::__NR_mq_timedreceive, [queue, at, 64, priority_at, 0, 0])
        };
        world.refused_everywhere(
            || (),
            |()| world.call(raw::__NR_mq_timedsend, [queue, bytes, 5, 3, 0, 0]),
            || assert_eq!(receive(bytes, 0), Err(Errno::EAGAIN)),
        );
        let (count, (at, priority_at)) = world.refused_everywhere(
            || (world.page(), world.page()),
            |(at, priority_at)| receive(*at, *priority_at),
            || (),
        );
        assert_eq!((count, read(world, at, 5)), (5, b"bytes".to_vec()));
        assert_eq!(read(world, priority_at, 1), [3]);
        assert_eq!(receive(bytes, 0), Err(Errno::EAGAIN));
        world.call(raw::__NR_mq_unlink, [name, 0, 0, 0, 0, 0]).unwrap();
        world.close(queue);
    });
}

#[test]
fn a_refused_read_leaves_the_notes_of_inotify() {
    const RECORD_BYTES: usize = 32;
    world::run(|world| {
        let flags = u64::from(raw::O_NONBLOCK);
        let notes = world.call(raw::__NR_inotify_init1, [flags, 0, 0, 0, 0, 0]).unwrap();
        let (root, made) = (world.page_of(b"/\0"), world.page_of(b"/noted\0"));
        let watch = [notes, root, raw::IN_CREATE.into(), 0, 0, 0];
        world.call(raw::__NR_inotify_add_watch, watch).unwrap();
        world.call(raw::__NR_mkdir, [made, 0o700, 0, 0, 0, 0]).unwrap();
        let (count, at) = world.refused_everywhere(
            || world.page(),
            |at| world.call(raw::__NR_read, [notes, *at, 1000, 0, 0, 0]),
            || (),
        );
        assert_eq!(count as usize, RECORD_BYTES);
        assert_eq!(read(world, at, RECORD_BYTES)[16..21], *b"noted");
        assert_eq!(world.call(raw::__NR_read, [notes, at, 1000, 0, 0, 0]), Err(Errno::EAGAIN));
        world.close(notes);
    });
}
