//! Tests in which several threads create and remove names of one directory at once. Of the threads
//! that create one name only one succeeds, inodes that the others made for it are freed, and
//! `e2fsck` finds no fault.
use crate::common::write::*;
use interfaces::file_system::*;
use std::sync::{
    Barrier,
    atomic::{AtomicUsize, Ordering::*},
};

const THREADS: usize = 4;

/// Runs `work` of each thread's number at once.
fn at_once(work: impl Fn(usize) + Sync) {
    let gate = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gate, work) = (&gate, &work);
            scope.spawn(move || {
                gate.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn of_many_that_make_a_name_one_does_and_nothing_is_left_of_the_others() {
    let kinds: [&[&str]; 3] =
        [&["-b", "1024"], &["-b", "1024", "-O", "^dir_index"], &["-O", "^has_journal"]];
    for options in kinds {
        let world = World::empty(options, 16 << 10);
        let fs = &*world.fs;
        let free = fs.usage().unwrap().files_free;
        let made = AtomicUsize::new(0);
        at_once(|_| {
            for number in 0..400 {
                let name = format!("a name that many make {number}");
                let file_type = [FileType::Regular, FileType::Directory][number % 2];
                match fs.create(2, name.as_bytes(), &new(file_type)) {
                    Ok(attributes) => {
                        made.fetch_add(1, Relaxed);
                        fs.forget(attributes.inode, 1);
                    }
                    Err(error) => assert_eq!(error, FsError::Exists),
                }
            }
        });
        assert_eq!(made.load(Relaxed), 400);
        assert_eq!(fs.usage().unwrap().files_free, free - 400);
        at_once(|_| {
            for number in 0..400 {
                let name = format!("a name that many make {number}");
                let taken = match number % 2 {
                    0 => fs.unlink(2, name.as_bytes(), NOW),
                    _ => fs.remove_directory(2, name.as_bytes(), NOW),
                };
                match taken {
                    Ok(()) => drop(made.fetch_sub(1, Relaxed)),
                    Err(error) => assert_eq!(error, FsError::NotFound),
                }
            }
        });
        assert_eq!(made.load(Relaxed), 0);
        assert_eq!(fs.usage().unwrap().files_free, free);
        world.finish();
    }
}

#[test]
fn a_directory_changed_by_many_at_once_has_the_names_that_were_left() {
    const NAMES: usize = 300;
    let world = World::empty(&["-b", "1024"], 16 << 10);
    let fs = &*world.fs;
    at_once(|thread| {
        for round in 0..4 {
            for number in 0..NAMES {
                let name = format!("thread {thread} number {number}");
                let other = format!("thread {thread} moved {number}");
                let made = fs.create(2, name.as_bytes(), &new(FileType::Regular)).unwrap();
                fs.forget(made.inode, 1);
                if number % 7 == 0 {
                    fs.rename((2, name.as_bytes()), (2, other.as_bytes()), NOW).unwrap();
                    fs.unlink(2, other.as_bytes(), NOW).unwrap();
                } else if round < 3 || number % 2 == 0 {
                    fs.unlink(2, name.as_bytes(), NOW).unwrap();
                }
            }
        }
    });
    for thread in 0..THREADS {
        for number in 0..NAMES {
            let name = format!("thread {thread} number {number}");
            let found = fs.lookup(2, name.as_bytes());
            let is_left = number % 7 != 0 && number % 2 != 0;
            assert_eq!(found.map(|found| fs.forget(found.inode, 1)).is_ok(), is_left);
        }
    }
    world.finish();
}
