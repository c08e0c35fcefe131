//! Further disks of system tests: ext4 images with a few files, whose device may refuse writes or fail by
//! rule (QEMU's blkdebug), and the verdict of `e2fsck` on them afterwards.
//!
//! Each disk holds `good` and `bad` (64 KiB of numbers, one a line), 40 empty files between them, so that
//! their inodes lie in different blocks, and `dir/inside` (as `good`).
use anyhow::{Context, Result};
use harness::{
    disk::{self, Fsck},
    qemu::{Disk, Medium},
    shell,
};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A disk as a test describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Further options of mke2fs.
    #[serde(default)]
    mke2fs: Vec<String>,
    #[serde(default = "default_mib")]
    mib: u32,
    /// It holds zeroes, and no volume.
    #[serde(default)]
    blank: bool,
    /// Commands for `debugfs -w`, run on the finished image.
    #[serde(default)]
    debugfs: Vec<String>,
    /// The device refuses writes.
    #[serde(default)]
    read_only: bool,
    /// The faults of the device.
    #[serde(default)]
    fault: Vec<Fault>,
    /// The state that `e2fsck` is to find when the machine is off.
    #[serde(default)]
    after: After,
}

/// A rule for requests that fail with EIO.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    on: Operation,
    at: Place,
    /// Only the first matching request fails, for each block.
    #[serde(default)]
    once: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Read,
    Write,
    Flush,
}

/// A place on the volume.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    /// Blocks of a file or directory, by name or, in angle brackets, by inode.
    Data(String),
    /// One page of a file.
    Page(String, usize),
    /// The block of the inode table with a file's inode.
    Inode(String),
    /// The journal's blocks except its superblock.
    Journal,
    Anywhere,
}

/// The expected state at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum After {
    /// `e2fsck -fn` finds no fault.
    #[default]
    Clean,
    /// `e2fsck -p` repairs without a question, and then finds nothing.
    Mends,
}

fn default_mib() -> u32 {
    16
}

const BLOCK_BYTES: u64 = 4096;
const SECTORS_A_BLOCK: u64 = BLOCK_BYTES / 512;

impl Description {
    /// Makes the image and its rules, named after `name`.
    ///
    /// # Errors
    /// Fails if a tool of e2fsprogs fails.
    pub fn make(&self, name: &str) -> Result<Disk> {
        let image = shell::build_path(&format!("{name}.ext4"))?;
        let _ = fs::remove_file(&image);
        if self.blank {
            fs::File::create(&image)?.set_len(u64::from(self.mib) << 20)?;
            return Ok(Disk { image, medium: Medium::Kept });
        }
        let mut mke2fs = Command::new("/sbin/mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", &BLOCK_BYTES.to_string()]).args(&self.mke2fs);
        mke2fs.arg(&image).arg(format!("{}M", self.mib));
        shell::quietly("making a disk", &mut mke2fs)?;
        fill(&image, name)?;
        disk::debugfs(&image, &self.debugfs.join("\n"))?;
        let medium = match (self.read_only, self.fault.is_empty()) {
            (true, _) => Medium::ReadOnly,
            (false, true) => Medium::Kept,
            (false, false) => Medium::Faulty(self.rules(&image, name)?),
        };
        Ok(Disk { image, medium })
    }

    /// Runs `e2fsck` on the image and returns its verdict.
    ///
    /// # Errors
    /// Fails if `e2fsck` cannot be started. The inner error is the fault that it found.
    pub fn judge(&self, image: &Path) -> Result<std::result::Result<(), String>> {
        if self.blank {
            return Ok(Ok(()));
        }
        if self.after == After::Mends
            && let Err(why) = disk::fsck(image, Fsck::Mend)?
        {
            return Ok(Err(why));
        }
        disk::fsck(image, Fsck::Look)
    }

    fn rules(&self, image: &Path, name: &str) -> Result<PathBuf> {
        let mut text = String::new();
        for fault in &self.fault {
            let (kind, once) = (fault.on.word(), if fault.once { "on" } else { "off" });
            let places: Vec<String> = match fault.at.blocks(image)? {
                None => vec![String::new()],
                Some(blocks) => blocks
                    .iter()
                    .map(|block| format!("sector = \"{}\"\n", block * SECTORS_A_BLOCK))
                    .collect(),
            };
            for place in places {
                text += &format!(
                    "[inject-error]\nevent = \"none\"\niotype = \"{kind}\"\nerrno = \"5\"\n\
                     once = \"{once}\"\n{place}\n"
                );
            }
        }
        let path = shell::build_path(&format!("{name}.blkdebug"))?;
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
        }
    }
}

impl Place {
    /// Returns the blocks of the place; `None` for all blocks.
    fn blocks(&self, image: &Path) -> Result<Option<Vec<u64>>> {
        Ok(Some(match self {
            Place::Anywhere => return Ok(None),
            Place::Data(path) => blocks(image, path)?,
            Place::Page(path, page) => {
                vec![*blocks(image, path)?.get(*page).context("the file is shorter")?]
            }
            Place::Inode(path) => vec![inode_block(image, path)?],
            Place::Journal => blocks(image, "<8>")?.split_off(1),
        }))
    }
}

fn blocks(image: &Path, path: &str) -> Result<Vec<u64>> {
    let output = ask(image, &format!("blocks {path}"))?;
    output
        .split_whitespace()
        .map(|word| word.parse().with_context(|| format!("{path}: {output}")))
        .collect()
}

fn inode_block(image: &Path, path: &str) -> Result<u64> {
    let output = ask(image, &format!("imap {path}"))?;
    let number = output.split("at block ").nth(1).and_then(|rest| rest.split(',').next());
    number.and_then(|number| number.parse().ok()).with_context(|| format!("{path}: {output}"))
}

fn ask(image: &Path, request: &str) -> Result<String> {
    let output = Command::new("/sbin/debugfs").args(["-R", request]).arg(image).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Puts the files there, in this order; `name` is that of the disk.
fn fill(image: &Path, name: &str) -> Result<()> {
    let contents = shell::build_path(&format!("{name}.contents"))?;
    let text: String = (0..8192).map(|number| format!("{number:07}\n")).collect();
    fs::write(&contents, text)?;
    let write = |to: &str| format!("write {} {to}", contents.display());
    let mut commands = vec![write("good"), "mkdir empty".to_owned(), "cd empty".to_owned()];
    commands.extend((0..40).map(|number| format!("write /dev/null e{number}")));
    commands.extend(["cd /", &write("bad"), "mkdir dir", "cd dir"].map(str::to_owned));
    commands.push(write("inside"));
    disk::debugfs(image, &commands.join("\n"))
}
