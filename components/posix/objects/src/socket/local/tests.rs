//! Tests of sockets without programs: one end receives what the other end sent.
use super::{message::Along, *};
use crate::socket::interface::{Receive, Send, Socket};
use proptest::prelude::*;
use std::{vec, vec::Vec};
use vfs::{
    Credentials, NOBODY,
    io::{SliceSink, SliceSource},
};

const NOW: Send = Send {
    is_nonblocking: true,
    is_silent: true,
    is_urgent: false,
    is_more: false,
    is_zero_copy: false,
    is_fast_open: false,
};
const READ: Receive = Receive {
    is_nonblocking: true,
    is_peek: false,
    is_whole: false,
    is_urgent: false,
    is_discarding: false,
    is_error_queue: false,
};

fn pair(kind: SocketKind) -> (Arc<LocalSocket>, Arc<LocalSocket>) {
    LocalSocket::pair(kind, &Party::default(), NOBODY)
}

fn put(socket: &LocalSocket, data: &[u8]) -> Result<usize, Errno> {
    socket.send_to(&mut SliceSource::new(data), None, Along::default(), NOW)
}

fn get_as(socket: &LocalSocket, most: usize, how: Receive) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; most];
    let count = socket.receive_from(&mut SliceSink::new(&mut bytes), how, None)?.count;
    bytes.truncate(count);
    Ok(bytes)
}

fn get(socket: &LocalSocket, most: usize) -> Result<Vec<u8>, Errno> {
    get_as(socket, most, READ)
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize),
    Get(usize),
    Peek(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![1..20usize, 2000..5000usize, 30_000..70_000usize];
    let step = prop_oneof![
        size.clone().prop_map(Step::Put),
        size.clone().prop_map(Step::Get),
        size.prop_map(Step::Peek),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Compares a stream with one queue of bytes.
    #[test]
    fn a_stream_is_a_queue_of_bytes(steps in steps()) {
        let (one, other) = pair(SocketKind::Stream);
        let mut model = VecDeque::new();
        let mut next = 0u8;
        for step in steps {
            match step {
                Step::Put(size) => {
                    let data: Vec<u8> = (0..size).map(|at| next.wrapping_add(at as u8)).collect();
                    match put(&one, &data) {
                        Ok(count) => {
                            model.extend(&data[..count]);
                            next = next.wrapping_add(count as u8);
                        }
                        Err(error) => {
                            prop_assert_eq!(error, Errno::EAGAIN);
                            prop_assert!(!one.budget().has_room());
                        }
                    }
                }
                Step::Get(size) | Step::Peek(size) if model.is_empty() => {
                    prop_assert_eq!(get(&other, size), Err(Errno::EAGAIN));
                }
                Step::Get(size) => {
                    let expected: Vec<u8> = model.drain(..size.min(model.len())).collect();
                    prop_assert_eq!(get(&other, size), Ok(expected));
                }
                Step::Peek(size) => {
                    let expected: Vec<u8> = model.iter().take(size).copied().collect();
                    let found = get_as(&other, size, Receive { is_peek: true, ..READ });
                    prop_assert_eq!(found, Ok(expected));
                }
            }
            prop_assert_eq!(other.readable_bytes(), Ok(model.len()));
        }
        drop(other);
        prop_assert_eq!(one.budget().used(), 0, "all of the budget is back");
    }
}

#[test]
fn messages_are_kept_apart_and_cut() {
    for kind in [SocketKind::Datagram, SocketKind::Packet] {
        let (one, other) = pair(kind);
        for text in [&b"first"[..], b"", b"second"] {
            assert_eq!(put(&one, text), Ok(text.len()));
        }
        assert_eq!(get(&other, 3), Ok(b"fir".to_vec()));
        assert_eq!(get(&other, 3), Ok(vec![]));
        assert_eq!(get(&other, 30), Ok(b"second".to_vec()));
        assert_eq!(get(&other, 30), Err(Errno::EAGAIN));
        assert_eq!(put(&one, &vec![1; 300_000]), Err(Errno::EMSGSIZE));
    }
}

#[test]
fn an_end_that_goes_is_noticed() {
    let (one, other) = pair(SocketKind::Stream);
    put(&one, b"unread").unwrap();
    put(&other, b"left").unwrap();
    other.close(Close::Last);
    assert!(one.poll(None, NOBODY).contains(Ready::HANGUP | Ready::READ_HANGUP | Ready::ERROR));
    assert_eq!(get(&one, 9), Ok(b"left".to_vec()));
    assert_eq!(get(&one, 9), Err(Errno::ECONNRESET));
    assert_eq!(get(&one, 9), Ok(vec![]));
    assert_eq!(put(&one, b"x"), Err(Errno::EPIPE));
    assert_eq!(one.budget().used(), 0);
}

#[test]
fn a_reader_that_waits_is_woken() {
    let (one, other) = pair(SocketKind::Packet);
    let reader = std::thread::spawn(move || {
        let waiting = Receive { is_nonblocking: false, ..READ };
        [get_as(&other, 9, waiting), get_as(&other, 9, waiting)]
    });
    put(&one, b"woken").unwrap();
    one.close(Close::Last);
    assert_eq!(reader.join().unwrap(), [Ok(b"woken".to_vec()), Ok(vec![])]);
}

#[test]
fn names_are_free_again_when_their_socket_is() {
    let one = LocalSocket::new(SocketKind::Stream, NOBODY);
    let name: Arc<[u8]> = Arc::from(&b"posix tests"[..]);
    let who = Credentials::root();
    address::take(&one, &name, &who).unwrap();
    let find = || address::find(SocketKind::Stream, &name, &who);
    assert!(find().is_some_and(|found| Arc::ptr_eq(&found, &one)));
    let other = LocalSocket::new(SocketKind::Stream, NOBODY);
    assert_eq!(address::take(&other, &name, &who), Err(Errno::EADDRINUSE));
    drop(one);
    assert!(find().is_none());
    assert_eq!(address::take(&other, &name, &who), Ok(()));
    address::give_back(&other, &name);
}
