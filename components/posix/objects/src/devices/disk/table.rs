//! Partition tables: GPT (UEFI 2.10, chapter 5) and MBR with its chain of logical partitions.
//!
//! ```text
//! MBR     446 four entries of 16 (0 active | 4 type | 8 first sector 4 | 12 sectors 4) | 510 55 aa
//! GPT     sector 1: 0 "EFI PART" | 12 header bytes 4 | 16 its CRC 4 | 72 sector of entries 8
//!         | 80 entries 4 | 84 bytes of an entry 4 | 88 CRC of the entries 4
//! entry   0 type 16 | 32 first sector 8 | 40 last sector 8
//! ```
//!
//! Nothing here is trusted: lengths are bounded, chains end, parts outside the disk are left out.
use alloc::{vec, vec::Vec};
use interfaces::block::SECTOR_BYTES;

/// The greatest number of partitions of a disk that get a device number.
pub const PARTITIONS_MAX: usize = 15;
/// Number of entries of a GPT that are read.
const ENTRIES_MAX: usize = 128;
const ENTRY_BYTES_MAX: usize = 512;
const MBR_ENTRIES: usize = 446;
const MBR_ENTRY_BYTES: usize = 16;
const TYPE_PROTECTIVE: u8 = 0xee;
const TYPES_EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// First number of a logical partition.
const LOGICAL: usize = 5;

/// A partition of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1 on.
    pub number: usize,
    /// Its first sector.
    pub start: u64,
    /// Its length in sectors.
    pub sectors: u64,
    /// Its type in a GPT; zeroes for another table.
    pub kind: [u8; 16],
}

impl Partition {
    fn of_mbr(number: usize, start: u64, sectors: u64) -> Partition {
        Partition { number, start, sectors, kind: [0; 16] }
    }
}

/// Function that reads sectors, given the first sector and the buffer; returns `false` if that failed.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) -> bool + 'a;

/// Returns the partitions of a disk of `sectors` sectors.
pub fn partitions(sectors: u64, read: &mut Read<'_>) -> Vec<Partition> {
    let mut mbr = [0; SECTOR_BYTES];
    if !read(0, &mut mbr) || !is_mbr(&mbr) {
        return Vec::new();
    }
    let entries: Vec<MbrEntry> = (0..4).filter_map(|index| mbr_entry(&mbr, index)).collect();
    let mut found = match entries.iter().any(|entry| entry.kind == TYPE_PROTECTIVE) {
        true => gpt(1, sectors, read)
            .or_else(|| gpt(sectors.saturating_sub(1), sectors, read))
            .unwrap_or_default(),
        false => mbr_partitions(&mbr, read),
    };
    found.retain(|part| {
        let end = part.start.checked_add(part.sectors);
        part.sectors > 0 && part.number <= PARTITIONS_MAX && end.is_some_and(|end| end <= sectors)
    });
    found
}

struct MbrEntry {
    kind: u8,
    start: u64,
    sectors: u64,
}

fn is_mbr(sector: &[u8; SECTOR_BYTES]) -> bool {
    let has_mark = sector.ends_with(&[0x55, 0xaa]);
    let flags = sector.iter().skip(MBR_ENTRIES).step_by(MBR_ENTRY_BYTES).take(4);
    has_mark && flags.copied().all(|flag| matches!(flag, 0 | 0x80))
}

fn mbr_entry(sector: &[u8; SECTOR_BYTES], index: usize) -> Option<MbrEntry> {
    let at = MBR_ENTRIES + index * MBR_ENTRY_BYTES;
    let entry = sector.get(at..at + MBR_ENTRY_BYTES)?;
    let entry = MbrEntry {
        kind: *entry.get(4)?,
        start: u64::from(word(entry, 8)?),
        sectors: u64::from(word(entry, 12)?),
    };
    (entry.kind != 0 && entry.sectors > 0).then_some(entry)
}

fn mbr_partitions(mbr: &[u8; SECTOR_BYTES], read: &mut Read<'_>) -> Vec<Partition> {
    let mut found = Vec::new();
    for index in 0..4 {
        let Some(entry) = mbr_entry(mbr, index) else { continue };
        found.push(Partition::of_mbr(index + 1, entry.start, entry.sectors));
        if TYPES_EXTENDED.contains(&entry.kind) {
            // Linux shows two sectors of an extended partition, so that no file system is made on it.
            if let Some(part) = found.last_mut() {
                part.sectors = part.sectors.min(2);
            }
            logical_partitions(entry.start, &mut found, read);
        }
    }
    found
}

/// Adds the logical partitions. Each link of their chain has one partition and the position of the next
/// link, relative to the first.
fn logical_partitions(extended: u64, found: &mut Vec<Partition>, read: &mut Read<'_>) {
    let mut link = extended;
    for number in LOGICAL..=PARTITIONS_MAX {
        let mut sector = [0; SECTOR_BYTES];
        if !read(link, &mut sector) || !is_mbr(&sector) {
            return;
        }
        if let Some(entry) = mbr_entry(&sector, 0) {
            let start = link.saturating_add(entry.start);
            found.push(Partition::of_mbr(number, start, entry.sectors));
        }
        let next = mbr_entry(&sector, 1).filter(|next| TYPES_EXTENDED.contains(&next.kind));
        let Some(next) = next else { return };
        link = extended.saturating_add(next.start);
    }
}

/// Returns the partitions of the GPT whose header is at sector `at`, if it is valid.
fn gpt(at: u64, sectors: u64, read: &mut Read<'_>) -> Option<Vec<Partition>> {
    let mut header = [0; SECTOR_BYTES];
    if !read(at, &mut header) || !header.starts_with(b"EFI PART") {
        return None;
    }
    let header_bytes = word(&header, 12)? as usize;
    let sum = word(&header, 16)?;
    header.get_mut(16..20)?.fill(0);
    if header_bytes < 92 || crc32(header.get(..header_bytes)?) != sum {
        return None;
    }
    let first = long(&header, 72).filter(|first| *first < sectors)?;
    let count = (word(&header, 80)? as usize).min(ENTRIES_MAX);
    let entry_bytes = word(&header, 84)? as usize;
    if !(128..=ENTRY_BYTES_MAX).contains(&entry_bytes) {
        return None;
    }
    let bytes = count * entry_bytes;
    let mut entries = vec![0; bytes.next_multiple_of(SECTOR_BYTES)];
    if !read(first, &mut entries) || crc32(entries.get(..bytes)?) != word(&header, 88)? {
        return None;
    }
    let part = |(index, entry): (usize, &[u8])| {
        let is_used = entry.iter().take(16).any(|byte| *byte != 0);
        let (start, last) = (long(entry, 32)?, long(entry, 40)?);
        let length = last.checked_sub(start)?.checked_add(1)?;
        let kind = *entry.first_chunk()?;
        is_used.then_some(Partition { number: index + 1, start, sectors: length, kind })
    };
    let used = entries.get(..bytes)?;
    Some(used.chunks_exact(entry_bytes).enumerate().filter_map(part).collect())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Returns the CRC-32 of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |mut sum, byte| {
        sum ^= u32::from(*byte);
        (0..8).for_each(|_| sum = sum >> 1 ^ (0xedb8_8320 & (sum & 1).wrapping_neg()));
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::{Partition, crc32, partitions};

    fn read(disk: &[u8]) -> Vec<Partition> {
        partitions(disk.len() as u64 / 512, &mut |sector, out| {
            let at = sector as usize * 512;
            let Some(bytes) = disk.get(at..at + out.len()) else { return false };
            out.copy_from_slice(bytes);
            true
        })
    }
    fn mark(sector: &mut [u8], entries: &[(u8, u32, u32)]) {
        for (index, (kind, start, sectors)) in entries.iter().enumerate() {
            let at = 446 + 16 * index;
            sector[at + 4] = *kind;
            sector[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
            sector[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
        }
        sector[510..512].copy_from_slice(&[0x55, 0xaa]);
    }
    fn part(number: usize, start: u64, sectors: u64) -> Partition {
        Partition::of_mbr(number, start, sectors)
    }
    fn gpt_disk() -> Vec<u8> {
        let mut disk = vec![0; 200 * 512];
        mark(&mut disk[..512], &[(0xee, 1, 199)]);
        let mut entries = vec![0; 128 * 128];
        for (index, start, last) in [(0, 40_u64, 79_u64), (2, 80, 149), (3, 90, 900)] {
            let entry = &mut entries[index * 128..][..128];
            entry[0] = 1;
            entry[32..40].copy_from_slice(&start.to_le_bytes());
            entry[40..48].copy_from_slice(&last.to_le_bytes());
        }
        let mut header = vec![0; 512];
        header[..8].copy_from_slice(b"EFI PART");
        for (at, value) in [(12, 92), (72, 2), (80, 128), (84, 128), (88, crc32(&entries))] {
            header[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        let sum = crc32(&header[..92]);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        disk[512..1024].copy_from_slice(&header);
        disk[199 * 512..].copy_from_slice(&header);
        disk[1024..1024 + entries.len()].copy_from_slice(&entries);
        disk
    }

    #[test]
    fn a_gpt_is_read_from_either_end_and_parts_outside_are_left_out() {
        let kind = core::array::from_fn(|place| u8::from(place == 0));
        let expected = [part(1, 40, 40), part(3, 80, 70)].map(|part| Partition { kind, ..part });
        let mut disk = gpt_disk();
        assert_eq!(read(&disk), expected);
        disk[512 + 40] ^= 1;
        assert_eq!(read(&disk), expected, "the second header");
        disk[1024 + 5] ^= 1;
        assert_eq!(read(&disk), [], "entries that do not match their sum");
    }
    #[test]
    fn an_mbr_has_primary_and_logical_partitions() {
        let mut disk = vec![0; 1000 * 512];
        mark(&mut disk[..512], &[(0x83, 10, 100), (0, 0, 0), (0x05, 200, 500), (0x83, 900, 200)]);
        mark(&mut disk[200 * 512..][..512], &[(0x83, 1, 50), (0x05, 100, 60)]);
        mark(&mut disk[300 * 512..][..512], &[(0x82, 2, 40)]);
        let expected = [part(1, 10, 100), part(3, 200, 2), part(5, 201, 50), part(6, 302, 40)];
        assert_eq!(read(&disk), expected);
    }
    #[test]
    fn a_chain_that_bites_its_tail_ends() {
        let mut disk = vec![0; 300 * 512];
        mark(&mut disk[..512], &[(0x05, 100, 100)]);
        mark(&mut disk[100 * 512..][..512], &[(0x83, 1, 5), (0x05, 0, 60)]);
        assert!(read(&disk).len() <= 15);
    }
    #[test]
    fn a_disk_without_a_table_has_no_partitions() {
        assert_eq!(read(&[]), []);
        assert_eq!(read(&vec![0; 4096]), []);
        assert_eq!(read(&vec![0xff; 4096]), []);
    }
}
