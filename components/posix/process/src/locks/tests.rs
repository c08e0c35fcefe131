//! Tests of file locks.
use super::{range::*, *};

fn table(number: u64) -> LockOwner {
    LockOwner::Table { table: number, process: number as u32 }
}

fn range(first: u64, last: u64) -> Range {
    Range { first, last }
}

fn lock(locks: &FileLocks, owner: u64, kind: LockMode, bytes: Range) -> Result<(), Errno> {
    locks.lock(LockWorld::Records, &table(owner), kind, bytes, OnConflict::Fail)
}

#[test]
fn shared_locks_go_together_and_exclusive_ones_do_not() {
    let locks = FileLocks::new(((0, 0), 1));
    assert_eq!(lock(&locks, 1, LockMode::Shared, range(0, 9)), Ok(()));
    assert_eq!(lock(&locks, 2, LockMode::Shared, range(5, 15)), Ok(()));
    assert_eq!(lock(&locks, 2, LockMode::Exclusive, range(9, 9)), Err(Errno::EAGAIN));
    assert_eq!(lock(&locks, 2, LockMode::Exclusive, range(10, 20)), Ok(()));
}

#[test]
fn an_owner_changes_its_own_locks_freely() {
    let locks = FileLocks::new(((0, 0), 1));
    lock(&locks, 1, LockMode::Exclusive, range(0, 99)).unwrap();
    lock(&locks, 1, LockMode::Shared, range(40, 59)).unwrap();
    assert_eq!(lock(&locks, 2, LockMode::Shared, range(40, 59)), Ok(()));
    assert_eq!(lock(&locks, 2, LockMode::Shared, range(39, 39)), Err(Errno::EAGAIN));
    assert_eq!(lock(&locks, 2, LockMode::Shared, range(60, 60)), Err(Errno::EAGAIN));
}

#[test]
fn unlocking_the_middle_leaves_both_ends() {
    let locks = FileLocks::new(((0, 0), 1));
    lock(&locks, 1, LockMode::Exclusive, range(0, 99)).unwrap();
    locks.unlock(LockWorld::Records, &table(1), range(10, 19));
    assert_eq!(lock(&locks, 2, LockMode::Exclusive, range(10, 19)), Ok(()));
    assert_eq!(lock(&locks, 2, LockMode::Exclusive, range(9, 9)), Err(Errno::EAGAIN));
}

#[test]
fn neighbours_are_joined() {
    let mut list = Vec::new();
    for bytes in [range(0, 9), range(20, 29), range(10, 19)] {
        add(&mut list, FileLock { owner: table(1), kind: LockMode::Shared, range: bytes });
    }
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].range, range(0, 29));
}

#[test]
fn a_conflict_names_the_lowest_lock_and_its_holder() {
    let locks = FileLocks::new(((0, 0), 1));
    lock(&locks, 1, LockMode::Exclusive, range(50, 59)).unwrap();
    lock(&locks, 3, LockMode::Exclusive, range(10, 19)).unwrap();
    let found =
        locks.conflict(LockWorld::Records, &table(2), LockMode::Shared, Range::ALL).unwrap();
    assert_eq!((found.range, found.owner.process()), (range(10, 19), 3));
}

#[test]
fn whole_file_locks_do_not_see_record_locks() {
    let locks = FileLocks::new(((0, 0), 1));
    lock(&locks, 1, LockMode::Exclusive, Range::ALL).unwrap();
    let taken =
        locks.lock(LockWorld::Whole, &table(2), LockMode::Exclusive, Range::ALL, OnConflict::Fail);
    assert_eq!(taken, Ok(()));
}

#[test]
fn a_circle_of_waiters_is_refused() {
    let _one = Waiting::start(&table(101), &table(102)).unwrap();
    let _two = Waiting::start(&table(102), &table(103)).unwrap();
    assert_eq!(Waiting::start(&table(103), &table(101)).err(), Some(Errno::EDEADLK));
}

#[test]
fn a_waiter_goes_on_when_the_lock_is_let_go() {
    let locks = Arc::new(FileLocks::new(((0, 0), 1)));
    lock(&locks, 1, LockMode::Exclusive, Range::ALL).unwrap();
    let other = locks.clone();
    let waiter = std::thread::spawn(move || {
        other.lock(LockWorld::Records, &table(2), LockMode::Exclusive, Range::ALL, OnConflict::Wait)
    });
    locks.unlock(LockWorld::Records, &table(1), Range::ALL);
    assert_eq!(waiter.join().unwrap(), Ok(()));
}
