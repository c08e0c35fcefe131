//! Tests of pipes, with threads on both ends.
use super::*;
use alloc::{vec, vec::Vec};
use std::thread;
use vfs::{
    NOBODY,
    io::{SliceSink, SliceSource},
};

const BLOCKING: IoFlags = IoFlags { is_nonblocking: false, is_append: false };
const NONBLOCKING: IoFlags = IoFlags { is_nonblocking: true, is_append: false };

fn put(end: &End, data: &[u8], flags: IoFlags) -> Result<usize, Errno> {
    end.write(0, &mut SliceSource::new(data), flags).map(|(count, _)| count)
}

fn get(end: &End, count: usize, flags: IoFlags) -> Result<Vec<u8>, Errno> {
    let mut out = vec![0; count];
    let read = end.read(0, &mut SliceSink::new(&mut out), flags)?;
    out.truncate(read);
    Ok(out)
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    assert_eq!(put(&writer, b"hello ", BLOCKING), Ok(6));
    assert_eq!(put(&writer, b"world", BLOCKING), Ok(5));
    assert_eq!(reader.readable_bytes(), 11);
    assert_eq!(get(&reader, 100, BLOCKING).unwrap(), b"hello world");
}

#[test]
fn an_empty_pipe_is_eagain_and_at_the_end_eof() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    assert_eq!(get(&reader, 1, NONBLOCKING), Err(Errno::EAGAIN));
    writer.closed();
    assert_eq!(get(&reader, 1, BLOCKING).unwrap(), b"");
}

#[test]
fn sixty_four_kibibytes_fit_and_short_writes_share_frames() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    assert_eq!(put(&writer, &vec![1; 70000], NONBLOCKING), Ok(65536));
    assert_eq!(put(&writer, b"x", NONBLOCKING), Err(Errno::EAGAIN));
    assert!(!writer.poll(None, NOBODY).contains(Ready::OUT));
    assert_eq!(get(&reader, 4096, BLOCKING).unwrap().len(), 4096);
    assert!(writer.poll(None, NOBODY).contains(Ready::OUT));
    let (_reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    let mut total = 0;
    while let Ok(count) = put(&writer, b"12345678", NONBLOCKING) {
        total += count;
    }
    assert_eq!(total, 65536);
}

#[test]
fn a_write_of_at_most_a_page_is_whole_or_not_at_all() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    put(&writer, &vec![1; 65536 - 4096 + 10], NONBLOCKING).unwrap();
    assert_eq!(put(&writer, &[2; 4090], NONBLOCKING), Err(Errno::EAGAIN));
    get(&reader, 4096, BLOCKING).unwrap();
    assert_eq!(put(&writer, &[2; 4090], NONBLOCKING), Ok(4090));
}

#[test]
fn without_readers_a_write_is_epipe_and_poll_says_error() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    reader.closed();
    assert_eq!(put(&writer, b"x", BLOCKING), Err(Errno::EPIPE));
    assert!(writer.poll(None, NOBODY).contains(Ready::ERROR));
}

#[test]
fn without_writers_poll_says_hangup_and_what_is_left_is_read() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    put(&writer, b"rest", BLOCKING).unwrap();
    assert_eq!(reader.poll(None, NOBODY), Ready::IN | Ready::READ_NORMAL);
    writer.closed();
    assert!(reader.poll(None, NOBODY).contains(Ready::IN | Ready::HANGUP));
    assert_eq!(get(&reader, 10, BLOCKING).unwrap(), b"rest");
}

#[test]
fn packets_are_read_one_by_one_and_cut() {
    let (reader, writer) = Pipe::pair(raw::O_DIRECT, NOBODY).unwrap();
    put(&writer, b"first", BLOCKING).unwrap();
    put(&writer, b"second", BLOCKING).unwrap();
    assert_eq!(get(&reader, 3, BLOCKING).unwrap(), b"fir");
    assert_eq!(get(&reader, 100, BLOCKING).unwrap(), b"second");
    assert_eq!(reader.readable_bytes(), 0);
}

#[test]
fn the_size_is_rounded_and_not_made_less_than_what_is_in_it() {
    let (_reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    assert_eq!(writer.size(), 65536);
    assert_eq!(writer.set_size(5000, NOBODY), Ok(8192));
    put(&writer, &[0; 8192], BLOCKING).unwrap();
    assert_eq!(writer.set_size(100, NOBODY), Err(Errno::EBUSY));
    assert_eq!(writer.set_size(100_000, NOBODY), Ok(131_072));
}

#[test]
fn a_blocked_reader_and_writer_go_on_until_everything_passed() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    let sent: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
    let data = sent.clone();
    let sender = thread::spawn(move || {
        assert_eq!(put(&writer, &data, BLOCKING), Ok(data.len()));
        writer.closed();
    });
    let mut received = Vec::new();
    loop {
        let piece = get(&reader, 5000, BLOCKING).unwrap();
        if piece.is_empty() {
            break;
        }
        received.extend(piece);
    }
    sender.join().unwrap();
    assert!(received == sent);
}

#[test]
fn short_writes_of_several_threads_are_not_torn() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    let senders: Vec<_> = (0..4u8)
        .map(|mark| {
            let writer = writer.clone();
            thread::spawn(move || {
                for _ in 0..200 {
                    assert_eq!(put(&writer, &[mark; 512], BLOCKING), Ok(512));
                }
            })
        })
        .collect();
    for _ in 0..800 {
        let mut record = Vec::new();
        while record.len() < 512 {
            record.extend(get(&reader, 512 - record.len(), BLOCKING).unwrap());
        }
        assert!(record.iter().all(|byte| *byte == record[0]));
    }
    for sender in senders {
        sender.join().unwrap();
    }
}

#[test]
fn a_write_ends_when_the_last_reader_goes() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    let sender = thread::spawn(move || put(&writer, &[0; 100_000], BLOCKING));
    while reader.readable_bytes() < 65536 {
        thread::yield_now();
    }
    reader.closed();
    assert_eq!(sender.join().unwrap(), Ok(65536));
}

#[test]
fn bytes_taken_out_and_not_used_come_back_first() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    put(&writer, b"hello", BLOCKING).unwrap();
    let mut borrowed = reader.borrow(4, BLOCKING).unwrap().unwrap();
    borrowed.parcel.skip(2);
    put(&writer, b" world", BLOCKING).unwrap();
    assert_eq!(get(&reader, 1, NONBLOCKING), Err(Errno::EAGAIN));
    drop(borrowed);
    assert_eq!(get(&reader, 100, NONBLOCKING).unwrap(), b"llo world");
}

#[test]
fn slots_set_aside_count_as_used() {
    let (reader, writer) = Pipe::pair(0, NOBODY).unwrap();
    let reservation = writer.reserve(usize::MAX, NONBLOCKING, NOBODY).unwrap();
    assert_eq!(reservation.slots(), SLOTS);
    assert_eq!(put(&writer, b"x", NONBLOCKING), Err(Errno::EAGAIN));
    assert_eq!(writer.set_size(PAGE_BYTES, NOBODY), Err(Errno::EBUSY));
    reservation.deliver(Parcel::new());
    assert_eq!(put(&writer, b"x", NONBLOCKING), Ok(1));
    assert_eq!(reader.readable_bytes(), 1);
}
