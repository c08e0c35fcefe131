//! Mutations of images. They follow from a seed, prefer structures in use, and can have their
//! checksums corrected.
//!
//! The checksums are computed by separate code here, from the documentation of the format, so that
//! they also check the component's.
use std::collections::BTreeMap;

/// A small pseudo-random generator (xorshift64*), so that a seed determines a whole run.
pub struct Random(u64);

impl Random {
    /// Makes a generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

/// The result for each value of the low byte.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 * 8 {
        let crc = if at % 8 == 0 { at as u32 / 8 } else { table[at / 8] };
        table[at / 8] = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
        at += 1;
    }
    table
};

fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ CRC_TABLE[usize::from(crc as u8 ^ byte)];
    bytes.iter().fold(seed, step)
}

fn get16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

fn get32(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The kind of a metadata block, and the seed of its checksum.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Directory(u32),
    Extents(u32),
    Attributes,
    /// A block without a checksum: indirect blocks, directories without `metadata_csum`.
    Plain,
}

/// An image with the places of its metadata, which were found while it was undamaged.
pub struct Subject {
    image: Vec<u8>,
    block_bytes: usize,
    inode_bytes: usize,
    inodes_per_group: usize,
    descriptor_bytes: usize,
    tables: Vec<usize>,
    seed: u32,
    blocks: BTreeMap<usize, Kind>,
    /// Offsets and lengths of the pieces to change: superblock, descriptors, inodes, blocks.
    targets: [Vec<(usize, usize)>; 4],
    has_checksums: bool,
}

const SUPERBLOCK: usize = 1024;

impl Subject {
    /// Finds the places of the structures.
    pub fn new(image: Vec<u8>) -> Subject {
        let superblock = &image[SUPERBLOCK..SUPERBLOCK + 1024];
        let block_bytes = 1024 << get32(superblock, 24);
        let is_wide = get32(superblock, 96) & 0x80 != 0;
        let per_group = get32(superblock, 32);
        let groups = (get32(superblock, 4) - get32(superblock, 20)).div_ceil(per_group);
        let mut subject = Subject {
            block_bytes,
            inode_bytes: get16(superblock, 88),
            inodes_per_group: get32(superblock, 40),
            descriptor_bytes: if is_wide { get16(superblock, 254) } else { 32 },
            tables: Vec::new(),
            seed: crc32c(!0, &superblock[104..120]),
            blocks: BTreeMap::new(),
            targets: [vec![(SUPERBLOCK, 400)], vec![], vec![], vec![]],
            has_checksums: get32(superblock, 100) & 0x400 != 0,
            image,
        };
        for group in 0..groups {
            let at = subject.descriptor(group);
            subject.targets[1].push((at, subject.descriptor_bytes));
            subject.tables.push(get32(&subject.image, at + 8) * block_bytes);
        }
        for number in 1..=groups * subject.inodes_per_group {
            subject.learn(number);
        }
        let blocks: Vec<_> = subject.blocks.keys().map(|at| (*at, block_bytes)).collect();
        subject.targets[3] = blocks;
        subject
    }

    fn descriptor(&self, group: usize) -> usize {
        let first = if self.block_bytes == 1024 { 2048 } else { self.block_bytes };
        first + group * self.descriptor_bytes
    }

    fn inode(&self, number: usize) -> usize {
        let (group, index) =
            ((number - 1) / self.inodes_per_group, (number - 1) % self.inodes_per_group);
        self.tables[group] + index * self.inode_bytes
    }

    fn inode_seed(&self, number: usize) -> u32 {
        let at = self.inode(number);
        let sum = crc32c(self.seed, &(number as u32).to_le_bytes());
        crc32c(sum, &self.image[at + 100..at + 104])
    }

    /// Records an inode in use and the metadata blocks to which it leads, one level deep.
    fn learn(&mut self, number: usize) {
        let at = self.inode(number);
        let mode = get16(&self.image, at);
        if mode == 0 || (number < 11 && number != 2) {
            return;
        }
        // Blocks of empty files are not interesting.
        if get32(&self.image, at + 4) > 0 {
            self.targets[2].push((at, self.inode_bytes));
        }
        let seed = self.inode_seed(number);
        let attributes = get32(&self.image, at + 104);
        if attributes != 0 {
            self.blocks.insert(attributes * self.block_bytes, Kind::Attributes);
        }
        let is_directory = mode >> 12 == 4;
        let body = at + 40;
        let flags = get32(&self.image, at + 32);
        if flags & 0x8_0000 == 0 {
            if flags & 0x1000_0000 == 0 && mode >> 12 != 10 {
                self.learn_map(body, is_directory);
            }
            return;
        }
        let depth = get16(&self.image, body + 6);
        for entry in 0..get16(&self.image, body + 2) {
            let entry = body + 12 + entry * 12;
            if depth > 0 {
                let block = get32(&self.image, entry + 4);
                self.blocks.insert(block * self.block_bytes, Kind::Extents(seed));
            } else if is_directory {
                let start = get32(&self.image, entry + 8);
                for block in start..start + get16(&self.image, entry + 4) {
                    self.blocks.insert(block * self.block_bytes, Kind::Directory(seed));
                }
            }
        }
    }

    /// Records the blocks of a block map: indirect ones, and direct ones of directories.
    fn learn_map(&mut self, body: usize, is_directory: bool) {
        for slot in if is_directory { 0..15 } else { 12..15 } {
            let block = get32(&self.image, body + slot * 4) * self.block_bytes;
            if block == 0 {
                continue;
            }
            self.blocks.insert(block, Kind::Plain);
            let child = get32(&self.image, block) * self.block_bytes;
            if slot > 12 && child != 0 && child < self.image.len() {
                self.blocks.insert(child, Kind::Plain);
            }
        }
    }

    /// Returns a copy with one to eight changes. For three of four seeds the checksums are
    /// corrected.
    pub fn mutate(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut image = self.image.clone();
        for _ in 0..1 + random.below(8) {
            let class = &self.targets[[0, 1, 2, 2, 2, 3, 3, 3][random.below(8)]];
            let (start, length) = class[random.below(class.len())];
            // The first bytes of a structure are the important ones.
            let length = if random.below(2) == 0 { length.min(128) } else { length };
            let at = start + random.below(length);
            change(&mut image[at..], &mut random);
        }
        if self.has_checksums && !seed.is_multiple_of(4) {
            self.fix(&mut image);
        }
        image
    }

    /// Returns whether the checksums computed here equal those of the stock tools.
    pub fn agrees(&self) -> bool {
        let mut image = self.image.clone();
        if self.has_checksums {
            self.fix(&mut image);
        }
        image == self.image
    }

    /// Corrects the checksums.
    fn fix(&self, image: &mut [u8]) {
        for number in 1..=self.tables.len() * self.inodes_per_group {
            let at = self.inode(number);
            if get16(image, at) != 0 {
                let mut seed = crc32c(self.seed, &(number as u32).to_le_bytes());
                seed = crc32c(seed, &image[at + 100..at + 104]);
                fix_inode(&mut image[at..at + self.inode_bytes], seed);
            }
        }
        for (at, kind) in &self.blocks {
            let block = &mut image[*at..*at + self.block_bytes];
            match *kind {
                Kind::Directory(seed) => fix_directory(block, seed),
                Kind::Extents(seed) => fix_extents(block, seed),
                Kind::Plain => {}
                Kind::Attributes => {
                    put32(block, 16, 0);
                    let number = (*at / self.block_bytes) as u64;
                    let sum = crc32c(self.seed, &number.to_le_bytes());
                    let sum = crc32c(sum, block);
                    put32(block, 16, sum);
                }
            }
        }
        for group in 0..self.tables.len() {
            let at = self.descriptor(group);
            let descriptor = &mut image[at..at + self.descriptor_bytes];
            descriptor[30..32].fill(0);
            let sum = crc32c(crc32c(self.seed, &(group as u32).to_le_bytes()), descriptor);
            descriptor[30..32].copy_from_slice(&(sum as u16).to_le_bytes());
        }
        let sum = crc32c(!0, &image[SUPERBLOCK..SUPERBLOCK + 1020]);
        put32(image, SUPERBLOCK + 1020, sum);
    }
}

/// Makes one change at the start of `bytes`.
fn change(bytes: &mut [u8], random: &mut Random) {
    const WORDS: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000, 12];
    let width = [1, 2, 4][random.below(3)].min(bytes.len());
    match random.below(4) {
        0 => bytes[0] ^= 1 << random.below(8),
        1 => bytes[..width].fill_with(|| random.below(256) as u8),
        2 => {
            let word = WORDS[random.below(WORDS.len())].to_le_bytes();
            bytes[..width].copy_from_slice(&word[..width]);
        }
        _ => bytes[0] = bytes[0].wrapping_add([1, 255][random.below(2)]),
    }
}

fn fix_inode(inode: &mut [u8], seed: u32) {
    let has_high = inode.len() > 128 && get16(inode, 128) >= 4;
    inode[124..126].fill(0);
    if has_high {
        inode[130..132].fill(0);
    }
    let sum = crc32c(seed, inode).to_le_bytes();
    inode[124..126].copy_from_slice(&sum[..2]);
    if has_high {
        inode[130..132].copy_from_slice(&sum[2..]);
    }
}

fn fix_extents(block: &mut [u8], seed: u32) {
    let tail = 12 + 12 * get16(block, 4);
    if tail + 4 <= block.len() {
        let sum = crc32c(seed, &block[..tail]);
        put32(block, tail, sum);
    }
}

fn fix_directory(block: &mut [u8], seed: u32) {
    let end = block.len() - 12;
    if block[end + 7] == 0xde {
        let sum = crc32c(seed, &block[..end]);
        return put32(block, end + 8, sum);
    }
    let is_node = get32(block, 0) == 0 && get16(block, 4) == block.len();
    let at = if is_node { 8 } else { 32 };
    let (limit, count) = (get16(block, at), get16(block, at + 2));
    let (covered, tail) = (at + 8 * count, at + 8 * limit);
    if covered <= block.len() && tail + 8 <= block.len() {
        let sum = crc32c(crc32c(seed, &block[..covered]), &block[tail..tail + 4]);
        put32(block, tail + 4, crc32c(sum, &[0; 4]));
    }
}
