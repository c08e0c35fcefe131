//! Every type of change, on the files of any volume; each may be refused.
use super::{
    image::pattern,
    mutate::Random,
    write::{NOW, new, write},
};
use interfaces::file_system::*;

/// Names found: directory, name, attributes.
type Found = Vec<(InodeNumber, Vec<u8>, Attributes)>;

const TYPES: [FileType; 4] =
    [FileType::Regular, FileType::Directory, FileType::Symlink, FileType::Fifo];

/// Makes `operations` random changes of the volume's files.
pub fn abuse(fs: &dyn FileSystem, seed: u64, operations: usize) {
    let mut random = Random::new(seed);
    let mut found = Found::new();
    find(fs, 2, 0, &mut found);
    let held: Vec<_> = found.iter().map(|(_, _, attributes)| attributes.inode).collect();
    for number in 0..operations {
        let _ = change(fs, &found, &mut random, number);
    }
    for inode in held {
        let _ = fs.sync_inode(inode, SyncKind::All);
        fs.forget(inode, 1);
    }
    let _ = fs.sync();
}

/// Looks names up, each held once.
fn find(fs: &dyn FileSystem, directory: InodeNumber, depth: usize, found: &mut Found) {
    let Ok(entries) = list_directory(fs, directory, 0, 30) else { return };
    for entry in entries {
        if found.len() > 120 {
            return;
        }
        let Ok(attributes) = fs.lookup(directory, &entry.name) else { continue };
        found.push((directory, entry.name, attributes));
        if attributes.file_type == FileType::Directory && depth < 4 {
            find(fs, attributes.inode, depth + 1, found);
        }
    }
}

fn change(
    fs: &dyn FileSystem,
    found: &Found,
    random: &mut Random,
    number: usize,
) -> Result<(), FsError> {
    let pick = |random: &mut Random| found.get(random.below(found.len()));
    let (Some(one), Some(other)) = (pick(random), pick(random)) else {
        return Err(FsError::NotFound);
    };
    let (directory, inode, name) = (one.0, one.2.inode, &one.1);
    let fresh = format!("new-{number}-{}", "n".repeat(random.below(200)));
    let target = "t".repeat(1 + random.below(100));
    match random.below(16) {
        0..=3 => {
            let kind = TYPES[random.below(TYPES.len())];
            let new = NewInode { target: target.as_bytes(), ..new(kind) };
            let at = if one.2.file_type == FileType::Directory { inode } else { directory };
            let made = fs.create(at, fresh.as_bytes(), &new)?;
            if kind == FileType::Regular {
                let _ = write(fs, made.inode, 0, &pattern(random.below(9000), 1));
            }
            fs.forget(made.inode, 1);
        }
        4 => write(fs, inode, random.below(200_000) as u64, &pattern(5000, 3))?,
        5 => write(fs, inode, one.2.size.min(1 << 40), &pattern(5000, 3))?,
        6 => {
            let size = [0, 1, 5000, 1 << 33, u64::MAX][random.below(5)];
            let change = AttributeChange { size: Some(size), ..Default::default() };
            fs.set_attributes(inode, &change)?;
        }
        7 => {
            let change =
                AttributeChange { user: Some(7), modified: Some(NOW), ..Default::default() };
            fs.set_attributes(inode, &change)?;
        }
        8 => fs.unlink(directory, name, NOW)?,
        9 => fs.remove_directory(directory, name, NOW)?,
        10 => fs.rename((directory, name), (other.0, &other.1), NOW)?,
        11 => fs.rename((directory, name), (other.0, fresh.as_bytes()), NOW)?,
        12 => fs.exchange((directory, name), (other.0, &other.1), NOW)?,
        13 => {
            fs.set_xattr(inode, b"user.a", &pattern(random.below(900), 3), XattrMode::Set, NOW)?;
            fs.remove_xattr(inode, b"user.small", NOW)?;
        }
        14 => {
            use Allocation::*;
            let how = [Extend, KeepSize, PunchHole, Zero, Collapse, Insert][random.below(6)];
            let blocks = |random: &mut Random| random.below(20) as u64 * 4096;
            fs.allocate(inode, how, blocks(random), 4096 + blocks(random), NOW)?;
        }
        _ => drop(fs.link(inode, other.0, fresh.as_bytes(), NOW)?),
    }
    Ok(())
}
