//! Tests of event counters and epoll.
use super::*;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use process::files::anonymous;
use std::thread;
use vfs::{
    NOBODY,
    file::IoFlags,
    io::{SliceSink, SliceSource},
    security::Label,
};

const NONBLOCKING: IoFlags = IoFlags { is_nonblocking: true, is_append: false };

fn counter(count: u64, mode: ReadMode) -> Arc<OpenFile> {
    let place = anonymous::EVENTFD.place(Label::of_new_object()).unwrap();
    OpenFile::new(Arc::new(EventCounter::new(count, mode)), place, raw::O_RDWR)
}

fn add(file: &OpenFile, more: u64) {
    file.write_with(&mut SliceSource::new(&more.to_le_bytes()), NONBLOCKING).unwrap();
}

fn take(file: &OpenFile) -> Result<u64, Errno> {
    let mut out = [0; 8];
    file.read_with(&mut SliceSink::new(&mut out), NONBLOCKING)?;
    Ok(u64::from_le_bytes(out))
}

/// Returns the data of at most `max` ready entries.
fn told(epoll: &Epoll, max: usize, deadline: Option<rt::time::Instant>) -> Vec<u64> {
    let mut found = Vec::new();
    epoll
        .wait((max, deadline), NOBODY, |_, interest| {
            found.push(interest.data);
            true
        })
        .unwrap();
    found
}

fn ready(epoll: &Epoll) -> Vec<u64> {
    told(epoll, 10, Some(rt::time::now()))
}

fn interest(events: u32, data: u64) -> Interest {
    Interest { events, data }
}

#[test]
fn a_counter_gives_its_sum_once_and_a_semaphore_one_at_a_time() {
    let file = counter(2, ReadMode::Whole);
    add(&file, 3);
    assert_eq!(take(&file), Ok(5));
    assert_eq!(take(&file), Err(Errno::EAGAIN));
    let file = counter(2, ReadMode::One);
    assert_eq!((take(&file), take(&file), take(&file)), (Ok(1), Ok(1), Err(Errno::EAGAIN)));
}

#[test]
fn a_counter_that_would_pass_its_largest_value_is_not_writable() {
    let file = counter(0, ReadMode::Whole);
    add(&file, u64::MAX - 1);
    let result = file.write_with(&mut SliceSource::new(&1u64.to_le_bytes()), NONBLOCKING);
    assert_eq!(result, Err(Errno::EAGAIN));
    assert!(!file.file().poll(None, NOBODY).contains(Ready::OUT));
}

#[test]
fn level_triggered_entries_are_reported_while_they_are_ready() {
    let (epoll, file) = (Epoll::new(), counter(0, ReadMode::Whole));
    epoll.control(3, &file, Change::Add(interest(raw::EPOLLIN, 7)), NOBODY).unwrap();
    assert!(ready(&epoll).is_empty());
    add(&file, 1);
    assert_eq!((ready(&epoll), ready(&epoll)), (vec![7], vec![7]));
    take(&file).unwrap();
    assert!(ready(&epoll).is_empty());
}

#[test]
fn edge_triggered_entries_are_reported_once_a_change() {
    let (epoll, file) = (Epoll::new(), counter(1, ReadMode::Whole));
    epoll.control(3, &file, Change::Add(interest(raw::EPOLLIN | raw::EPOLLET, 7)), NOBODY).unwrap();
    assert_eq!((ready(&epoll), ready(&epoll)), (vec![7], vec![]));
    add(&file, 1);
    assert_eq!((ready(&epoll), ready(&epoll)), (vec![7], vec![]));
}

#[test]
fn one_shot_entries_wait_to_be_armed_again() {
    let (epoll, file) = (Epoll::new(), counter(1, ReadMode::Whole));
    let once = interest(raw::EPOLLIN | raw::EPOLLONESHOT, 7);
    epoll.control(3, &file, Change::Add(once), NOBODY).unwrap();
    assert_eq!((ready(&epoll), ready(&epoll)), (vec![7], vec![]));
    epoll.control(3, &file, Change::Modify(once), NOBODY).unwrap();
    assert_eq!(ready(&epoll), [7]);
}

#[test]
fn entries_go_when_deleted_and_when_their_file_is_closed() {
    let (epoll, file) = (Epoll::new(), counter(1, ReadMode::Whole));
    epoll.control(3, &file, Change::Add(interest(raw::EPOLLIN, 7)), NOBODY).unwrap();
    let again = Change::Add(interest(raw::EPOLLIN, 8));
    assert_eq!(epoll.control(3, &file, again, NOBODY), Err(Errno::EEXIST));
    epoll.control(3, &file, Change::Delete, NOBODY).unwrap();
    assert!(ready(&epoll).is_empty());
    assert_eq!(epoll.control(3, &file, Change::Delete, NOBODY), Err(Errno::ENOENT));
    epoll.control(3, &file, again, NOBODY).unwrap();
    drop(file);
    assert!(ready(&epoll).is_empty());
}

#[test]
fn many_ready_entries_take_turns() {
    let epoll = Epoll::new();
    let files: Vec<_> = (0..3).map(|_| counter(1, ReadMode::Whole)).collect();
    for (fd, file) in files.iter().enumerate() {
        epoll
            .control(fd as i32, file, Change::Add(interest(raw::EPOLLIN, fd as u64)), NOBODY)
            .unwrap();
    }
    let one = || told(&epoll, 1, Some(rt::time::now()))[0];
    assert_eq!([one(), one(), one(), one()], [0, 1, 2, 0]);
}

#[test]
fn epolls_may_watch_epolls_but_not_in_a_circle() {
    let place = || anonymous::EVENTPOLL.place(Label::of_new_object()).unwrap();
    let (outer, inner) = (Epoll::new(), Epoll::new());
    let outer_file = OpenFile::new(outer.clone(), place(), raw::O_RDWR);
    let inner_file = OpenFile::new(inner.clone(), place(), raw::O_RDWR);
    outer.control(3, &inner_file, Change::Add(interest(raw::EPOLLIN, 1)), NOBODY).unwrap();
    let circle = inner.control(4, &outer_file, Change::Add(interest(raw::EPOLLIN, 2)), NOBODY);
    assert_eq!(circle, Err(Errno::ELOOP));
    let file = counter(1, ReadMode::Whole);
    inner.control(5, &file, Change::Add(interest(raw::EPOLLIN, 3)), NOBODY).unwrap();
    assert_eq!(ready(&outer), [1]);
}

#[test]
fn a_waiter_is_woken_by_a_change() {
    let (epoll, file) = (Epoll::new(), counter(0, ReadMode::Whole));
    epoll.control(3, &file, Change::Add(interest(raw::EPOLLIN, 7)), NOBODY).unwrap();
    let waiter = thread::spawn(move || told(&epoll, 1, None));
    add(&file, 1);
    assert_eq!(waiter.join().unwrap(), [7]);
}

#[test]
fn waiting_for_several_files_ends_when_one_is_ready() {
    let (one, other) = (counter(0, ReadMode::Whole), counter(0, ReadMode::Whole));
    let want = |file: &Arc<OpenFile>| PolledFile::new(file.clone(), Ready::IN, 0);
    let mut wanted = [want(&one), want(&other)];
    let waiter = thread::spawn(move || {
        wait_ready(&mut wanted, Timeout::Never, NOBODY).unwrap();
        wanted.map(|want| want.found())
    });
    add(&other, 1);
    assert_eq!(waiter.join().unwrap(), [Ready::empty(), Ready::IN]);
    let mut wanted = [want(&one)];
    wait_ready(&mut wanted, Timeout::after_ns(1_000_000), NOBODY).unwrap();
    assert_eq!(wanted[0].found(), Ready::empty());
}

#[test]
fn what_cannot_be_polled_and_what_is_always_ready_is_known_without_a_look() {
    let file = counter(1, ReadMode::Whole);
    assert_eq!(known(None, Ready::IN), Some(Ready::INVALID));
    assert_eq!(known(Some(&file), Ready::IN), None);
    let place = anonymous::EVENTFD.place(Label::of_new_object()).unwrap();
    let only = EventCounter::new(1, ReadMode::Whole);
    let only = OpenFile::new(Arc::new(only), place, raw::O_PATH);
    assert_eq!(known(Some(&only), Ready::IN), Some(Ready::INVALID));
    let mut wanted =
        [PolledFile::new(file.clone(), Ready::IN, 3), PolledFile::new(file, Ready::PRIORITY, 4)];
    wait_ready(&mut wanted, Timeout::Never, NOBODY).unwrap();
    let found = wanted.map(|want| (want.at(), want.found()));
    assert_eq!(found, [(3, Ready::IN), (4, Ready::empty())]);
}

#[test]
fn setting_the_wall_clock_cancels_timers_that_ask_for_it() {
    use process::time::{clock::Clock, wall};
    let timer = TimerFile::new(raw::CLOCK_REALTIME, Clock::Realtime);
    let later = rt::time::wall_ns() + 1_000_000_000_000;
    let flags = raw::TFD_TIMER_ABSTIME | raw::TFD_TIMER_CANCEL_ON_SET;
    timer.set(Setting { value_ns: later, interval_ns: 0, flags }).unwrap();
    let mut out = [0; 8];
    let mut read = || {
        let sink = &mut SliceSink::new(&mut out);
        vfs::file::File::read(&*timer, 0, sink, NONBLOCKING)
    };
    assert_eq!(read(), Err(Errno::EAGAIN));
    wall::set(rt::time::wall_ns() + 3_000_000_000);
    assert_eq!(read(), Err(Errno::ECANCELED));
    assert_eq!(read(), Err(Errno::EAGAIN));
    wall::set(later + 1);
    assert_eq!(read(), Err(Errno::ECANCELED));
    assert_eq!(read(), Ok(8));
}
