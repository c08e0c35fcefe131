//! Tests files cut and freed by several threads at once: at the end the list of orphans is empty,
//! and no inode keeps a link of it.
use crate::common::{image::pattern, write::*};
use interfaces::file_system::*;

const THREADS: usize = 4;
const ROUNDS: usize = 6000;

/// Makes files, cuts them and removes their names, some while they are held.
fn churn(fs: &dyn FileSystem, directory: InodeNumber, thread: usize) {
    let data = pattern(9000, thread);
    for round in 0..ROUNDS {
        let name = format!("f{}", round % 3);
        if round >= 3 {
            fs.unlink(directory, name.as_bytes(), NOW).unwrap();
        }
        let made = fs.create(directory, name.as_bytes(), &new(FileType::Regular)).unwrap();
        write(fs, made.inode, 0, &data).unwrap();
        let change = AttributeChange { size: Some(100), ..Default::default() };
        fs.set_attributes(made.inode, &change).unwrap();
        fs.forget(made.inode, 1);
    }
}

#[test]
fn files_cut_and_freed_at_once_leave_the_list_of_orphans() {
    let world = World::empty(&["-b", "1024", "-J", "size=4"], 32 << 10);
    let fs = &*world.fs;
    let directories: Vec<_> = (0..THREADS)
        .map(|thread| make(fs, 2, &format!("d{thread}"), FileType::Directory))
        .collect();
    std::thread::scope(|scope| {
        for (thread, directory) in directories.into_iter().enumerate() {
            scope.spawn(move || churn(fs, directory, thread));
        }
    });
    world.finish();
}
