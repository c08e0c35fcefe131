//! Tests of dirty journals made by debugfs: the mount replays them, and the file's contents must
//! then be those after e2fsck, which replays them, too.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::{Recipe, pattern, run},
    mutate::Random,
    walk::{Budget, read_pages, walk},
    write::{NOW, World, check, fsck, make, write},
};
use ext4::{MountError, MountOptions, Recovery, mount};
use interfaces::file_system::*;
use std::{fs, path::Path, sync::Arc};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const BLOCKS: usize = 40;
/// A block that begins like the journal's own.
const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

struct Dirty {
    folder: TempDir,
    block_bytes: usize,
    /// Numbers of the file's blocks.
    blocks: Vec<u64>,
}

impl Dirty {
    /// Makes an image with a file whose blocks have only a pattern in place.
    fn new(options: &'static [&'static str], block_bytes: usize) -> Dirty {
        let folder = TempDir::new().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), pattern(BLOCKS * block_bytes, 1)).unwrap();
        let image = Recipe::new(options, 16 << 10).make(&source);
        fs::write(folder.path().join("image"), image).unwrap();
        let mut dirty = Dirty { folder, block_bytes, blocks: Vec::new() };
        let shown = dirty.debugfs("blocks file\n");
        let numbers = shown.lines().rfind(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        dirty.blocks = numbers.unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert_eq!(dirty.blocks.len(), BLOCKS);
        dirty
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_string()
    }

    fn debugfs(&self, commands: &str) -> String {
        fs::write(self.path("script"), commands).unwrap();
        run("debugfs", &["-w", "-f", &self.path("script"), &self.path("image")], &[0])
    }

    /// Appends transactions: blocks of the file by place with their contents, or revoked places.
    fn log(&self, version: u32, transactions: &[(&[usize], Option<Vec<u8>>)]) {
        let mut script = match version {
            0 => "jo\n".to_string(),
            version => format!("jo -c -v {version}\n"),
        };
        for (number, (places, contents)) in transactions.iter().enumerate() {
            let list: Vec<_> = places.iter().map(|place| self.blocks[*place].to_string()).collect();
            match contents {
                Some(contents) => {
                    let file = self.path(&format!("contents-{number}"));
                    fs::write(&file, contents).unwrap();
                    script += &format!("jw -b {} {file}\n", list.join(","));
                }
                None => script += &format!("jw -r {}\n", list.join(",")),
            }
        }
        self.debugfs(&(script + "jc\n"));
    }

    /// Returns the contents of the file after this component's replay, which must be those after
    /// e2fsck's.
    fn replay(&self) -> Vec<u8> {
        let image = fs::read(self.path("image")).unwrap();
        let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
        let options = MountOptions { access: MountAccess::ReadOnly, ..MountOptions::default() };
        let mounted = mount(Arc::clone(&device) as _, options).unwrap();
        let ours = contents(&*mounted);
        drop(mounted);
        check(&device.image());
        fsck(Path::new(&self.path("image")), &["-p"], &[0, 1]);
        let world = World::of(fs::read(self.path("image")).unwrap());
        let theirs = contents(&*world.fs);
        let differ = |place: &usize| {
            let range = place * self.block_bytes..(place + 1) * self.block_bytes;
            theirs[range.clone()] != ours[range]
        };
        let differing: Vec<usize> = (0..BLOCKS).filter(differ).collect();
        assert_eq!(differing, [0; 0], "e2fsck says so too");
        World::of(device.image()).finish();
        ours
    }

    fn block(&self, salt: usize, count: usize) -> Vec<u8> {
        pattern(count * self.block_bytes, salt)
    }
}

fn contents(fs: &dyn FileSystem) -> Vec<u8> {
    let file = fs.lookup(ROOT, b"file").unwrap();
    let mut bytes = read_pages(fs, file.inode, 0, file.size.div_ceil(4096)).unwrap();
    fs.forget(file.inode, 1);
    bytes.truncate(file.size as usize);
    bytes
}

const SHAPES: [(&[&str], usize, u32); 4] = [
    (&["-b", "4096", "-O", "64bit"], 4096, 3),
    (&["-b", "1024", "-O", "64bit"], 1024, 2),
    (&["-b", "1024", "-O", "^64bit,^metadata_csum"], 1024, 0),
    (&["-b", "4096", "-O", "^64bit"], 4096, 3),
];

#[test]
fn the_newest_version_of_each_block_comes_into_place() {
    for (options, bytes, version) in SHAPES {
        let dirty = Dirty::new(options, bytes);
        let all: Vec<usize> = (0..BLOCKS).collect();
        let mut escaped = dirty.block(9, 1);
        escaped[..4].copy_from_slice(&MAGIC);
        dirty.log(
            version,
            &[
                (&all, Some(dirty.block(5, BLOCKS))),
                (&[3, 4], Some(dirty.block(6, 2))),
                (&[7], Some(escaped.clone())),
            ],
        );
        let mut wanted = dirty.block(5, BLOCKS);
        wanted[3 * bytes..5 * bytes].copy_from_slice(&dirty.block(6, 2));
        wanted[7 * bytes..8 * bytes].copy_from_slice(&escaped);
        assert!(dirty.replay() == wanted, "{options:?}");
    }
}

#[test]
fn a_block_revoked_stays_unless_it_is_logged_again() {
    for (options, bytes, version) in SHAPES {
        let dirty = Dirty::new(options, bytes);
        dirty.log(
            version,
            &[
                (&[1, 2, 3], Some(dirty.block(5, 3))),
                (&[1, 2], None),
                (&[2], Some(dirty.block(6, 1))),
            ],
        );
        let mut wanted = dirty.block(1, BLOCKS);
        wanted[2 * bytes..3 * bytes].copy_from_slice(&dirty.block(6, 1));
        wanted[3 * bytes..4 * bytes].copy_from_slice(&dirty.block(5, 3)[2 * bytes..]);
        assert!(dirty.replay() == wanted, "{options:?}");
    }
}

#[test]
fn a_committed_transaction_with_a_wrong_checksum_fails_the_mount() {
    let dirty = Dirty::new(SHAPES[0].0, 4096);
    dirty.log(3, &[(&[1], Some(dirty.block(5, 1))), (&[2], Some(dirty.block(6, 1)))]);
    let mut image = fs::read(dirty.path("image")).unwrap();
    // The logged copy of the second block is the only place with this content.
    let wanted = dirty.block(6, 1);
    let at = image.as_chunks::<4096>().0.iter().position(|block| block[..] == wanted[..]).unwrap();
    image[at * 4096 + 100] ^= 1;
    let device = MemoryBlock::writable(image.clone(), Completion::AtOnce, 128);
    let refused = mount(Arc::clone(&device) as _, MountOptions::default()).err();
    assert_eq!(refused, Some(MountError::Corrupt("journal")));
    assert!(device.image() == image, "nothing is written");
    let options = MountOptions { recovery: Recovery::Skip, ..MountOptions::default() };
    let fs = mount(device, options).unwrap();
    assert!(contents(&*fs) == dirty.block(1, BLOCKS), "noload reads past the journal");
}

/// Makes an image with a dirty journal by this component, without checksums.
fn dirty() -> Vec<u8> {
    let world = World::empty(&["-b", "1024", "-O", "^metadata_csum", "-J", "size=1"], 6 << 10);
    let dir = make(&*world.fs, ROOT, "dir", FileType::Directory);
    for file in 0..60 {
        let inode = make(&*world.fs, dir, &format!("file-{file}"), FileType::Regular);
        write(&*world.fs, inode, 0, &pattern(3000, file)).unwrap();
        if file % 3 == 0 {
            world.fs.unlink(dir, format!("file-{file}").as_bytes(), NOW).unwrap();
        }
        if file % 10 == 0 {
            world.fs.sync_inode(dir, SyncKind::All).unwrap();
        }
    }
    world.device.image()
}

#[test]
fn mutated_journals_neither_panic_nor_hang() {
    let sound = dirty();
    let blocks = sound.as_chunks::<1024>().0.iter().enumerate();
    let own: Vec<usize> =
        blocks.filter(|(_, block)| block[..4] == MAGIC).map(|(place, _)| place * 1024).collect();
    assert!(own.len() > 10, "the journal holds transactions");
    let mut mounted = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut image = sound.clone();
        for _ in 0..1 + random.below(4) {
            let at = own[random.below(own.len())] + random.below(96);
            image[at] = [0, 1, 0x7f, 0xff, random.below(256) as u8][random.below(5)];
        }
        let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
        if let Ok(fs) = mount(device, MountOptions::default()) {
            mounted += 1;
            walk(&*fs, Budget { names: 300, depth: 4, pages: 8 });
            let _ = fs.unmount();
        }
    }
    assert!(mounted > 100, "{mounted} get past the superblocks");
}
