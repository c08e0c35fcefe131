//! Tests of data that is written along with a commit: it is durable with it, and refused data is
//! reported.
use crate::common::{
    device::{Completion, Event, Fault, MemoryBlock},
    image::{Recipe, pattern, run},
    walk::read_pages,
    write::*,
};
use ext4::{ErrorPolicy, Ext4, MountOptions, mount};
use interfaces::{block::Operation, file_system::*};
use std::{sync::Arc, thread};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const PAGE: usize = 4096;

/// Makes a volume with a journal and the file `old` of four blocks.
fn image() -> Vec<u8> {
    let source = TempDir::new().unwrap();
    std::fs::write(source.path().join("old"), pattern(4 * PAGE, 1)).unwrap();
    Recipe::new(&["-b", "4096"], 32 << 10).make(source.path())
}

fn mounted(image: Vec<u8>) -> (Arc<Ext4>, Arc<MemoryBlock>) {
    let device = MemoryBlock::writable(image, Completion::Reversed, 128);
    let errors = Some(ErrorPolicy::RemountReadOnly);
    let fs = mount(Arc::clone(&device) as _, MountOptions { errors, ..MountOptions::default() })
        .unwrap();
    (fs, device)
}

/// Returns the sectors of a file's blocks.
fn sectors(image: &[u8], name: &str) -> Vec<u64> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, image).unwrap();
    let blocks = run("debugfs", &["-R", &format!("blocks {name}"), path.to_str().unwrap()], &[0]);
    blocks.split_whitespace().map(|block| block.parse::<u64>().unwrap() * 8).collect()
}

fn fault(device: &MemoryBlock, sector: u64, left: usize) {
    device.faults.lock().unwrap().push(Fault { operation: Operation::Write, sector, left });
}

fn old(fs: &Ext4) -> InodeNumber {
    fs.lookup(ROOT, b"old").unwrap().inode
}

/// Writes another file, unmounts the volume and mounts it again.
fn mounted_again(fs: Arc<Ext4>, device: &MemoryBlock) -> Arc<Ext4> {
    device.faults.lock().unwrap().clear();
    let other = make(&*fs, ROOT, "other", FileType::Regular);
    assert_eq!(write_and_sync(&*fs, other, 0, b"other"), Ok(()), "the volume goes on");
    fs.unmount().unwrap();
    let image = device.image();
    check(&image);
    mounted(image).0
}

#[test]
fn data_written_over_old_data_and_refused_is_told_of_and_no_error_of_the_journal() {
    let image = image();
    let third = sectors(&image, "/old")[2];
    for (left, result) in [(usize::MAX, Err(FsError::Io)), (1, Ok(()))] {
        let (fs, device) = mounted(image.clone());
        fault(&device, third, left);
        let file = old(&fs);
        assert_eq!(write_and_sync(&*fs, file, 0, &pattern(4 * PAGE, 2)), result);
        fs.forget(file, 1);
        assert!(!fs.mount_info().is_read_only);
        let fs = mounted_again(fs, &device);
        let file = old(&fs);
        let found = read_pages(&*fs, file, 0, 4).unwrap();
        fs.forget(file, 1);
        let mut expected = pattern(4 * PAGE, 2);
        if result.is_err() {
            expected = pattern(4 * PAGE, 1);
        }
        // All of it is written by one request.
        assert!(found == expected, "{left}");
    }
}

#[test]
fn fresh_blocks_refused_are_never_read_as_data() {
    let image = image();
    let write_new = |fs: &Ext4| {
        let file = make(fs, ROOT, "new", FileType::Regular);
        write_and_sync(fs, file, 0, &pattern(4 * PAGE, 2))
    };
    let place = {
        let (fs, device) = mounted(image.clone());
        write_new(&fs).unwrap();
        fs.unmount().unwrap();
        sectors(&device.image(), "/new")[0]
    };
    let (fs, device) = mounted(image);
    fault(&device, place, usize::MAX);
    assert_eq!(write_new(&fs), Err(FsError::Io));
    assert!(!fs.mount_info().is_read_only);
    // A power cut happens here.
    let cut = device.image();
    for fs in [mounted(cut).0, mounted_again(fs, &device)] {
        let file = fs.lookup(ROOT, b"new").unwrap().inode;
        assert_eq!(read_pages(&*fs, file, 0, 4).unwrap(), vec![0; 4 * PAGE]);
        fs.forget(file, 1);
    }
}

#[test]
fn a_journal_that_is_refused_ends_writing_with_data_along() {
    let image = image();
    let journal = sectors(&image, "<8>");
    let (fs, device) = mounted(image);
    journal.iter().skip(1).for_each(|sector| fault(&device, *sector, usize::MAX));
    let file = old(&fs);
    let touch = |fs: &Ext4| {
        let change = AttributeChange { permissions: Some(0o600), ..Default::default() };
        fs.set_attributes(file, &change).map(|_| ())
    };
    touch(&fs).unwrap();
    assert_eq!(write_and_sync(&*fs, file, 0, &pattern(PAGE, 2)), Err(FsError::Io));
    assert_eq!(touch(&fs), Err(FsError::ReadOnly));
}

#[test]
fn it_is_durable_before_the_commit_block_whichever_thread_commits() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 40;
    let (fs, device) = mounted(image());
    *device.events.lock().unwrap() = Some(Vec::new());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (fs, device) = (&fs, &device);
            scope.spawn(move || {
                let file = make(&**fs, ROOT, &format!("f{number}"), FileType::Regular);
                for round in 0..ROUNDS {
                    let bytes = pattern(PAGE, number * ROUNDS + round);
                    write_and_sync(&**fs, file, (round * PAGE) as u64, &bytes).unwrap();
                    // By now a flush has followed each write.
                    let events = device.events.lock().unwrap();
                    let events = events.as_ref().unwrap();
                    let is_it =
                        |event: &Event| matches!(event, Event::Write(_, data) if *data == bytes);
                    let written = events.iter().position(is_it).unwrap();
                    let flushes =
                        events[written..].iter().filter(|event| matches!(event, Event::Flush));
                    assert!(flushes.count() >= 2, "its own, and the commit block's");
                }
            });
        }
    });
    fs.unmount().unwrap();
    let image = device.image();
    check(&image);
    let (fs, _) = mounted(image);
    for number in 0..THREADS {
        let file = fs.lookup(ROOT, format!("f{number}").as_bytes()).unwrap().inode;
        let found = read_pages(&*fs, file, 0, ROUNDS as u64).unwrap();
        for (round, page) in found.chunks(PAGE).enumerate() {
            assert!(page == pattern(PAGE, number * ROUNDS + round), "{number}, {round}");
        }
        fs.forget(file, 1);
    }
}
