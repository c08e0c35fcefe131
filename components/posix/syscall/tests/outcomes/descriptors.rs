//! pipe2, socketpair, accept4, recvmsg with descriptors: no connection and no description is lost, no descriptor left open.
use super::world::{self, World, words};
use linux_raw_sys::{general as raw, net};
use vfs::Errno;

const UNIX: u64 = net::AF_UNIX as u64;
const STREAM: u64 = (net::SOCK_STREAM | raw::O_NONBLOCK) as u64;
/// `struct sockaddr_un` with the abstract name `x`.
const NAME: &[u8] = &[1, 0, 0, b'x'];

/// Takes descriptors until the next one needs a larger table.
fn fill_table(world: &World, fd: u64) -> Vec<u64> {
    let size = world.task.files().size();
    let mut taken = Vec::new();
    while world.descriptors().len() < size {
        taken.push(world.call(raw::__NR_dup, [fd, 0, 0, 0, 0, 0]).unwrap());
    }
    taken
}

/// Makes `fill` descriptors of `fd`, makes the pair by `make`, refused everywhere, and closes all.
fn check_pair(world: &World, make: impl Fn(u64) -> Result<u64, Errno>) {
    let before = world.descriptors();
    let (_, at) = world.refused_everywhere(
        || world.page(),
        |at| make(*at),
        || assert_eq!(world.descriptors(), before),
    );
    let pair = world.task.memory().read::<[u32; 2]>(at).unwrap();
    assert_eq!(world.descriptors().len(), before.len() + 2);
    pair.into_iter().for_each(|fd| world.close(fd.into()));
}

#[test]
fn a_refused_pair_leaves_no_descriptor() {
    world::run(|world| {
        check_pair(world, |at| world.call(raw::__NR_pipe2, [at, 0, 0, 0, 0, 0]));
        check_pair(world, |at| world.call(raw::__NR_socketpair, [UNIX, STREAM, 0, at, 0, 0]));
    });
}

#[test]
fn a_refused_accept_leaves_the_connection() {
    world::run(|world| {
        let (name, length) = (world.page_of(NAME), NAME.len() as u64);
        let socket = || world.call(raw::__NR_socket, [UNIX, STREAM, 0, 0, 0, 0]).unwrap();
        let listener = socket();
        world.call(raw::__NR_bind, [listener, name, length, 0, 0, 0]).unwrap();
        world.call(raw::__NR_listen, [listener, 5, 0, 0, 0, 0]).unwrap();
        let client = socket();
        // The client's name is chosen by the call, so that accept has one to copy.
        world.call(raw::__NR_bind, [client, name, 2, 0, 0, 0]).unwrap();
        world.call(raw::__NR_connect, [client, name, length, 0, 0, 0]).unwrap();
        let taken = fill_table(world, client);
        let before = world.descriptors();
        let lengths = world.page_of(&100u32.to_le_bytes());
        let (fd, at) = world.refused_everywhere(
            || world.page(),
            |at| world.call(raw::__NR_accept4, [listener, *at, lengths, 0, 0, 0]),
            || assert_eq!(world.descriptors(), before),
        );
        assert_eq!(world.task.memory().read::<u16>(at), Ok(1));
        let byte = world.page_of(b"y");
        assert_eq!(world.call(raw::__NR_write, [client, byte, 1, 0, 0, 0]), Ok(1));
        assert_eq!(world.call(raw::__NR_read, [fd, byte, 1, 0, 0, 0]), Ok(1));
        [fd, client, listener].into_iter().chain(taken).for_each(|fd| world.close(fd));
    });
}

#[test]
fn a_refused_recvmsg_leaves_bytes_and_descriptors() {
    world::run(|world| {
        for kind in [net::SOCK_STREAM, net::SOCK_DGRAM, net::SOCK_SEQPACKET] {
            receive_descriptor(world, (kind | raw::O_NONBLOCK).into());
        }
    });
}

fn receive_descriptor(world: &World, kind: u64) {
    let pair = world.page();
    world.call(raw::__NR_socketpair, [UNIX, kind, 0, pair, 0, 0]).unwrap();
    let [reader, writer] = world.task.memory().read::<[u32; 2]>(pair).unwrap().map(u64::from);
    let byte = world.page_of(b"y");
    let message = |bytes: u64, control: u64, room: u64| {
        let buffer = world.page_of(&words(&[bytes, 1]));
        world.page_of(&words(&[0, 0, buffer, 1, control, room, 0]))
    };
    let passed = words(&[20, 1 << 32 | u64::from(net::SOL_SOCKET), reader]);
    let sent = message(byte, world.page_of(&passed), 24);
    assert_eq!(world.call(raw::__NR_sendmsg, [writer, sent, 0, 0, 0, 0]), Ok(1));
    let taken = fill_table(world, reader);
    let before = world.descriptors();
    let (count, (bytes, control, _)) = world.refused_everywhere(
        || {
            let (bytes, control) = (world.page(), world.page());
            (bytes, control, message(bytes, control, 24))
        },
        |(_, _, message)| world.call(raw::__NR_recvmsg, [reader, *message, 0, 0, 0, 0]),
        || assert_eq!(world.descriptors(), before),
    );
    let memory = world.task.memory();
    assert_eq!((count, memory.read::<u8>(bytes)), (1, Ok(b'y')));
    let [length, _, fd] = memory.read::<[u64; 3]>(control).unwrap();
    assert_eq!((length, world.descriptors().len()), (20, before.len() + 1));
    [fd, reader, writer].into_iter().chain(taken).for_each(|fd| world.close(fd));
}
