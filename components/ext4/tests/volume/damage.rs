//! Tests of damaged journals. Each block of a journal is damaged in turn, in several ways, and the verdict is compared with
//! that of `e2fsck`. A journal that it refuses must fail the mount; one that it replays must give the same result. If each
//! block has a checksum, damage to a transaction that another followed is always reported, which is more than `e2fsck` does.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::{Recipe, pattern, run},
    mutate::Random,
    write::{NOW, make, new, write},
};
use ext4::{MountError, MountOptions, mount};
use interfaces::file_system::*;
use std::{fs, path::Path, process::Command, sync::Arc};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
const COMMIT: u8 = 2;

/// The result of recovery.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The journal was replayed, with this volume as the result.
    Replayed(Vec<u8>),
    Refused,
}

fn ours(image: &[u8]) -> Verdict {
    let device = MemoryBlock::writable(image.to_vec(), Completion::AtOnce, 128);
    let options = MountOptions { access: MountAccess::ReadOnly, ..MountOptions::default() };
    match mount(Arc::clone(&device) as _, options) {
        Ok(_) => Verdict::Replayed(device.image()),
        Err(error) => {
            assert_eq!(error, MountError::Corrupt("journal"));
            assert!(device.image() == image, "what is refused is left as it is");
            Verdict::Refused
        }
    }
}

fn e2fsck(image: &[u8], path: &Path) -> Verdict {
    fs::write(path, image).unwrap();
    let mut command = Command::new("/usr/sbin/e2fsck");
    let output = command.args(["-y", "-E", "journal_only"]).arg(path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let complaints = ["checksum error", "corrupt", "while recovering"];
    match complaints.iter().any(|words| said.contains(words)) || !output.status.success() {
        true => Verdict::Refused,
        false => Verdict::Replayed(fs::read(path).unwrap()),
    }
}

/// A journal with transactions in it.
struct Log {
    image: Vec<u8>,
    block_bytes: usize,
    /// Blocks of the volume that contain the log, in order, until its last commit.
    blocks: Vec<usize>,
    has_sums: bool,
}

fn word(image: &[u8], at: usize) -> usize {
    u32::from_be_bytes(image[at..at + 4].try_into().unwrap()) as usize
}

impl Log {
    /// Finds the log in an image; `None` if the journal is empty.
    fn find(image: Vec<u8>, block_bytes: usize) -> Option<Log> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        fs::write(&path, &image).unwrap();
        let shown = run("debugfs", &["-R", "blocks <8>", path.to_str().unwrap()], &[0]);
        let journal: Vec<usize> =
            shown.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let at = journal[0] * block_bytes;
        let (end, first) = (word(&image, at + 16), word(&image, at + 20));
        let (start, sequence) = (word(&image, at + 28), word(&image, at + 24));
        if start == 0 {
            return None;
        }
        let has_sums = word(&image, at + 40) & 24 != 0;
        let ring = (0..end - first).map(|step| first + (start - first + step) % (end - first));
        let ring: Vec<usize> = ring.map(|block| journal[block]).collect();
        // The last block of a commit of this log is used: sequence numbers increase from the first.
        let is_commit = |block: &usize| {
            let bytes = &image[block * block_bytes..];
            let number = word(bytes, 8).wrapping_sub(sequence);
            bytes[..4] == MAGIC && bytes[7] == COMMIT && number < ring.len()
        };
        let last = ring.iter().rposition(is_commit).unwrap();
        let blocks = ring[..=last].to_vec();
        Some(Log { image, block_bytes, blocks, has_sums })
    }

    /// Returns the blocks that differ, except those on which the verdict does not depend: the superblock, and the journal's.
    fn differ(&self, one: &[u8], other: &[u8]) -> Vec<usize> {
        let size = self.block_bytes;
        let is_own = |block: &usize| {
            *block == 1024 / size
                || self.image[block * size..][..4] == MAGIC && {
                    matches!(self.image[block * size + 7], 3 | 4)
                }
        };
        let blocks = (0..one.len() / size).filter(|block| !is_own(block));
        let range = |block: usize| block * size..(block + 1) * size;
        blocks.filter(|block| one[range(*block)] != other[range(*block)]).collect()
    }

    fn damaged(&self, place: usize, how: usize, random: &mut Random) -> Vec<u8> {
        let mut image = self.image.clone();
        let at = self.blocks[place] * self.block_bytes;
        let block = &mut image[at..at + self.block_bytes];
        match how {
            0 => block[0] ^= 1,
            1 => block[7] ^= 4,
            2 => block[11] ^= 1,
            3 => block[12 + random.below(30)] ^= 0x10,
            4 => block[500] ^= 0xff,
            5 => *block.last_mut().unwrap() ^= 1,
            6 => block.fill(0),
            _ => block.iter_mut().for_each(|byte| *byte = random.below(256) as u8),
        }
        image
    }

    /// Damages everything in turn. Returns how often recovery was refused here, how often by e2fsck, and the number of
    /// cases.
    fn compare(&self) -> [usize; 3] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        let Verdict::Replayed(theirs) = e2fsck(&self.image, &path) else { panic!("it is sound") };
        let Verdict::Replayed(whole) = ours(&self.image) else { panic!("a sound journal") };
        assert_eq!(self.differ(&whole, &theirs), [0; 0], "replayed alike");
        let mut random = Random::new(1);
        let [mut refused, mut refused_by_e2fsck, mut cases] = [0; 3];
        let last = self.last_transaction();
        let stride = (self.blocks.len() / 30).max(1);
        for place in (0..self.blocks.len()).step_by(stride) {
            // Without checksums a damaged tag writes anywhere, be it far beyond the volume's end.
            for how in (0..8).filter(|how| self.has_sums || *how != 3) {
                let image = self.damaged(place, how, &mut random);
                let what = format!("block {place} of {}, damage {how}", self.blocks.len());
                cases += 1;
                match (ours(&image), e2fsck(&image, &path)) {
                    (Verdict::Refused, theirs) => {
                        refused += 1;
                        match theirs {
                            Verdict::Refused => refused_by_e2fsck += 1,
                            // This component noticed more than e2fsck, which lost data.
                            Verdict::Replayed(theirs) => {
                                assert!(self.has_sums, "{what}: e2fsck has no objection");
                                assert_ne!(self.differ(&whole, &theirs), [0; 0], "{what}");
                            }
                        }
                    }
                    (Verdict::Replayed(ours), Verdict::Replayed(theirs)) => {
                        assert_eq!(self.differ(&ours, &theirs), [0; 0], "{what}: alike");
                        let is_lost = !self.differ_in_place(&ours, &whole).is_empty();
                        let may_be_torn = place >= last || !self.has_sums;
                        assert!(
                            !is_lost || may_be_torn,
                            "{what}: transactions are dropped silently"
                        );
                    }
                    (Verdict::Replayed(ours), Verdict::Refused) => {
                        refused_by_e2fsck += 1;
                        let is_torn_tail = place + 1 == self.blocks.len() || self.is_commit(place);
                        assert!(is_torn_tail && how >= 4, "{what}: e2fsck refuses it");
                        assert_eq!(self.differ_in_place(&ours, &whole), [0; 0], "{what}");
                    }
                }
            }
        }
        [refused, refused_by_e2fsck, cases]
    }

    /// Compares as [`Log::differ`] does, without the log itself.
    fn differ_in_place(&self, one: &[u8], other: &[u8]) -> Vec<usize> {
        let mut blocks = self.differ(one, other);
        blocks.retain(|block| !self.blocks.contains(block));
        blocks
    }

    fn is_commit(&self, place: usize) -> bool {
        let bytes = &self.image[self.blocks[place] * self.block_bytes..];
        bytes[..4] == MAGIC && bytes[7] == COMMIT
    }

    /// Returns the start of the last transaction.
    fn last_transaction(&self) -> usize {
        let before = 0..self.blocks.len() - 1;
        before.rev().find(|place| self.is_commit(*place)).map_or(0, |place| place + 1)
    }
}

/// Makes a journal with the stock debugfs: blocks are logged, revoked and logged again, one of them escaped.
fn stock(options: &'static [&'static str], block_bytes: usize, version: u32) -> Log {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), pattern(20 * block_bytes, 1)).unwrap();
    let path = folder.path().join("image");
    fs::write(&path, Recipe::new(options, 16 << 10).make(&source)).unwrap();
    let path = path.to_str().unwrap();
    let shown = run("debugfs", &["-R", "blocks file", path], &[0]);
    let blocks: Vec<&str> = shown.split_whitespace().collect();
    let mut script = match version {
        0 => "jo\n".to_string(),
        version => format!("jo -c -v {version}\n"),
    };
    // With v1, e2fsck considers the transactions that debugfs writes damaged, except single blocks that need no escape.
    let several = match version {
        1 => [3..4, 1..2, 3..4, 12..13],
        _ => [3..9, 1..3, 8..12, 12..13],
    };
    let several = several.map(|range| blocks[range].join(","));
    for (number, list) in several.iter().enumerate() {
        let file = folder.path().join(format!("contents-{number}"));
        let mut bytes = pattern(list.split(',').count() * block_bytes, 5 + number);
        if version != 1 {
            bytes[..4].copy_from_slice(&MAGIC);
        }
        fs::write(&file, bytes).unwrap();
        script += &format!("jw -b {list} {}\n", file.display());
        if number == 1 && version != 1 {
            script += &format!("jw -r {}\n", blocks[4..6].join(","));
        }
    }
    let commands = folder.path().join("script");
    fs::write(&commands, script + "jc\n").unwrap();
    run("debugfs", &["-w", "-f", commands.to_str().unwrap(), path], &[0]);
    Log::find(fs::read(path).unwrap(), block_bytes).expect("the journal holds something")
}

/// An interval of commits that no test reaches.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Makes a journal with this component, across the end of the ring.
fn own(options: &'static [&'static str], block_bytes: usize) -> Log {
    let folder = TempDir::new().unwrap();
    let image = Recipe::new(options, 10 << 10).make(folder.path());
    let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
    // At its interval the mount would empty the journal.
    let options = MountOptions { commit_ns: HOUR_NS, ..MountOptions::default() };
    let fs = mount(Arc::clone(&device) as _, options).unwrap();
    let directory = make(&*fs, ROOT, "dir", FileType::Directory);
    let change = |number: usize| {
        let name = format!("file-{number}");
        let made = fs.create(directory, name.as_bytes(), &new(FileType::Regular)).unwrap();
        write(&*fs, made.inode, 0, &pattern(3000, number)).unwrap();
        if number.is_multiple_of(3) {
            fs.unlink(directory, name.as_bytes(), NOW).unwrap();
        }
        fs.forget(made.inode, 1);
        fs.sync_inode(directory, SyncKind::All).unwrap();
    };
    let mut number = 0;
    loop {
        // Adds some transactions, again and again until the log passes the ring's end.
        fs.sync().unwrap();
        for _ in 0..8 {
            change(number);
            number += 1;
        }
        if number % 64 != 0 {
            continue;
        }
        // The mount's thread may have emptied the journal after the last change: it does so once the journal is half full.
        let log = Log::find(device.image(), block_bytes);
        let passes_end = |log: &Log| log.blocks.windows(2).any(|pair| pair[1] < pair[0]);
        if let Some(log) = log.filter(passes_end) {
            return log;
        }
    }
}

#[test]
fn what_e2fsck_says_of_a_damaged_journal_of_the_stock_tools() {
    let shapes: [(&[&str], usize, u32); 5] = [
        (&["-b", "4096", "-O", "64bit"], 4096, 3),
        (&["-b", "1024", "-O", "64bit"], 1024, 2),
        (&["-b", "1024", "-O", "^64bit"], 1024, 3),
        (&["-b", "1024", "-O", "^64bit,^metadata_csum"], 1024, 1),
        (&["-b", "1024", "-O", "^64bit,^metadata_csum"], 1024, 0),
    ];
    for (options, bytes, version) in shapes {
        let [refused, theirs, cases] = stock(options, bytes, version).compare();
        println!("v{version} {options:?}: {cases} damages, {refused} refused, {theirs} by e2fsck");
        assert!(version == 0 || refused > cases / 8, "some are refused");
    }
}

#[test]
fn what_e2fsck_says_of_a_damaged_journal_of_our_own() {
    let shapes: [(&[&str], usize); 2] =
        [(&["-b", "4096", "-J", "size=4"], 4096), (&["-b", "1024", "-J", "size=1"], 1024)];
    for (options, bytes) in shapes {
        let log = own(options, bytes);
        let [refused, theirs, cases] = log.compare();
        println!("{options:?}: {cases} damages, {refused} refused, {theirs} by e2fsck");
        assert!(refused > cases / 2, "most are refused");
    }
}
