//! Tests of sectors that return errors below a mounted volume: the callers that get the error, and
//! the effect of `errors=`.
use crate::common::{
    device::{Completion, Fault, MemoryBlock},
    image::{Recipe, pattern, run},
    write::*,
};
use ext4::{ErrorPolicy, Ext4, MountOptions, mount};
use interfaces::{block::Operation, file_system::*};
use std::sync::Arc;
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const BLOCK_BYTES: u64 = 1024;

/// A volume of 1 KiB blocks with files `f0` to `f99` and the directory `dir`, and how debugfs
/// answers a request about it.
struct Subject {
    folder: TempDir,
    image: Vec<u8>,
}

impl Subject {
    fn new(features: &'static [&'static str]) -> Subject {
        let (folder, source) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for number in 0..100 {
            std::fs::write(source.path().join(format!("f{number}")), b"old").unwrap();
        }
        std::fs::create_dir_all(source.path().join("dir/inner")).unwrap();
        let image = Recipe::new(features, 8 << 10).make(source.path());
        std::fs::write(folder.path().join("image"), &image).unwrap();
        Subject { folder, image }
    }

    fn ask(&self, request: &str) -> String {
        let path = self.folder.path().join("image");
        run("debugfs", &["-R", request, path.to_str().unwrap()], &[0])
    }

    /// Returns the sector of the inode table's block with this file's inode.
    fn inode_sector(&self, name: &str) -> u64 {
        let answer = self.ask(&format!("imap /{name}"));
        let block = answer.split("at block ").nth(1).unwrap().split(',').next().unwrap();
        block.parse::<u64>().unwrap() * (BLOCK_BYTES / 512)
    }

    /// Returns a file whose inode is in another block.
    fn other_than(&self, sector: u64) -> String {
        let names = (0..100).map(|number| format!("f{number}"));
        let mut far = names.filter(|name| self.inode_sector(name).abs_diff(sector) > 8);
        far.next().unwrap()
    }

    fn mount(&self, policy: ErrorPolicy) -> (Arc<Ext4>, Arc<MemoryBlock>) {
        let device = MemoryBlock::writable(self.image.clone(), Completion::AtOnce, 128);
        let options = MountOptions { errors: Some(policy), ..MountOptions::default() };
        (mount(Arc::clone(&device) as _, options).unwrap(), device)
    }
}

/// Changes a file's mode and makes that durable.
fn change(fs: &Ext4, name: &str) -> Result<(), FsError> {
    let file = fs.lookup(ROOT, name.as_bytes())?.inode;
    let change = AttributeChange { permissions: Some(0o600), ..Default::default() };
    let result = fs.set_attributes(file, &change).and_then(|_| fs.sync_inode(file, SyncKind::All));
    fs.forget(file, 1);
    result
}

fn fault(device: &MemoryBlock, operation: Operation, sector: u64, left: usize) {
    device.faults.lock().unwrap().push(Fault { operation, sector, left });
}

const NO_JOURNAL: &[&str] = &["-b", "1024", "-O", "^has_journal"];

#[test]
fn without_a_journal_metadata_not_written_is_lost_alone_or_ends_writing() {
    let subject = Subject::new(NO_JOURNAL);
    let sector = subject.inode_sector("f50");
    let other = subject.other_than(sector);
    for policy in [ErrorPolicy::Continue, ErrorPolicy::RemountReadOnly] {
        let (fs, device) = subject.mount(policy);
        fault(&device, Operation::Write, sector, usize::MAX);
        assert_eq!(change(&fs, "f50"), Err(FsError::Io));
        let goes_on = policy == ErrorPolicy::Continue;
        assert_eq!(fs.mount_info().is_read_only, !goes_on);
        let expected = if goes_on { Ok(()) } else { Err(FsError::ReadOnly) };
        assert_eq!(change(&fs, &other), expected);
        let _ = fs.unmount();
        let image = device.image();
        assert_eq!(image[1024 + 58] & 2, 2, "marked as having errors");
        let fs = mount(MemoryBlock::new(image, Completion::AtOnce, 16), MountOptions::default());
        let fs = fs.unwrap();
        let mode = |name: &str| fs.lookup(ROOT, name.as_bytes()).unwrap().permissions;
        assert_eq!((mode("f50"), mode(&other) == 0o600), (0o644, goes_on));
    }
}

#[test]
fn metadata_written_at_the_second_attempt_is_not_lost_with_errors_continue() {
    let subject = Subject::new(NO_JOURNAL);
    let (fs, device) = subject.mount(ErrorPolicy::Continue);
    fault(&device, Operation::Write, subject.inode_sector("f50"), 1);
    assert_eq!(change(&fs, "f50"), Ok(()));
    assert_eq!(fs.unmount(), Ok(()));
    check(&device.image());
}

#[test]
fn a_journal_that_cannot_be_written_ends_writing_whatever_errors_says() {
    let subject = Subject::new(&["-b", "1024", "-J", "size=1"]);
    let journal = subject.ask("blocks <8>");
    for policy in [ErrorPolicy::Continue, ErrorPolicy::RemountReadOnly] {
        let (fs, device) = subject.mount(policy);
        for block in journal.split_whitespace().skip(1) {
            let block: u64 = block.parse().unwrap();
            fault(&device, Operation::Write, block * (BLOCK_BYTES / 512), usize::MAX);
        }
        assert_eq!(change(&fs, "f50"), Err(FsError::Io));
        assert_eq!(change(&fs, "f51"), Err(FsError::ReadOnly));
        assert!(fs.lookup(ROOT, b"f52").is_ok(), "everything can still be read");
    }
}

#[test]
fn metadata_that_cannot_be_read_is_an_error_of_the_volume() {
    let subject = Subject::new(NO_JOURNAL);
    let block: u64 = subject.ask("blocks /dir").trim().parse().unwrap();
    for policy in [ErrorPolicy::Continue, ErrorPolicy::RemountReadOnly] {
        let (fs, device) = subject.mount(policy);
        fault(&device, Operation::Read, block * (BLOCK_BYTES / 512), usize::MAX);
        let dir = fs.lookup(ROOT, b"dir").unwrap().inode;
        assert_eq!(fs.lookup(dir, b"inner").map(|_| ()), Err(FsError::Io));
        assert_eq!(fs.mount_info().is_read_only, policy == ErrorPolicy::RemountReadOnly);
    }
}

#[test]
fn data_that_cannot_be_read_or_written_is_no_error_of_the_volume() {
    let subject = Subject::new(NO_JOURNAL);
    let block: u64 = subject.ask("blocks /f50").trim().parse().unwrap();
    let (fs, device) = subject.mount(ErrorPolicy::RemountReadOnly);
    for operation in [Operation::Read, Operation::Write] {
        fault(&device, operation, block * (BLOCK_BYTES / 512), usize::MAX);
    }
    let file = fs.lookup(ROOT, b"f50").unwrap().inode;
    let cut = AttributeChange { size: Some(1), ..Default::default() };
    assert_eq!(fs.set_attributes(file, &cut).map(|_| ()), Err(FsError::Io));
    assert_eq!(write_pages(&*fs, file, 0, &pattern(3, 1), 3), Err(FsError::Io));
    fs.forget(file, 1);
    assert!(!fs.mount_info().is_read_only);
    assert_eq!(change(&fs, "f51"), Ok(()));
}
