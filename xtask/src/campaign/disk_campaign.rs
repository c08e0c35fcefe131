//! `./x campaign disk`: much work on a second disk, judged by `e2fsck`, and the same disk read by the
//! other system: Linux must read the files that Skerry wrote, and Skerry those that Linux wrote.
use anyhow::{Context, Error, Result, bail};
use harness::{
    build::{self, Features},
    disk::{self, Fsck},
    guest::{self, Outcome},
    linux,
    qemu::{Config, Disk, Medium},
    session::Ended,
    shell,
};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Size of the disk written to: room for 150,000 inodes at what mke2fs makes by default.
const DISK_MIB: u32 = 3072;
/// Files of the tree that is untarred, and their mean size.
const TREE_FILES: u64 = 3_200;
const TREE_FILE_BYTES: u64 = 64 * 1024;
const LIMIT_SECONDS: u64 = 3_000;

/// The script that both systems run: `disk.sh fill` writes, and both modes print the contents.
const SCRIPT: &str = include_str!("disk.sh");
/// Path of the script on the root disk.
const SCRIPT_PATH: &str = "/abi/disk.sh";

/// The memory pressure on the system during the campaign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// No memory pressure.
    None,
    /// A program takes all memory that it can get, again and again, beside the work.
    Hog,
}

/// Runs the campaign in both directions.
///
/// # Errors
/// Fails if something does not build or start. A difference is printed and gives status 1.
pub fn run(cpus: u32, memory: u32, pressure: Pressure) -> Result<u8> {
    let kernel = build::image("default", &Features::default())?;
    let root = root_with_script()?;
    let archive = archive()?;
    let machine = |kernel: &Path, disk: &Path, log: &str| -> Result<Config> {
        let disks = [disk, &archive]
            .map(|image| Disk { image: image.to_owned(), medium: Medium::Kept })
            .to_vec();
        Ok(Config { cpus, memory, disks, ..guest::machine(kernel, &root, log)? })
    };
    let linux = linux::prepare()?;
    let ours = empty_disk("disk-skerry.ext4")?;
    let theirs = empty_disk("disk-linux.ext4")?;
    let skerry = |disk: &Path, mode: &str| {
        on_skerry(&machine(&kernel, disk, &format!("disk-{mode}.log"))?, mode)
    };
    let on_linux = |disk: &Path, mode: &str| -> Result<String> {
        // Linux needs more than 64 MiB to start.
        let config = machine(&linux.kernel, disk, "disk-linux.log")?;
        let config = Config { memory: memory.max(512), ..config };
        let bar = shell::progress(&format!("{mode} on Linux"));
        let parameters = format!("skerry.runner={SCRIPT_PATH} skerry.mode={mode}");
        let output = linux::boot(&linux, config, &parameters, LIMIT_SECONDS)?;
        bar.finish_and_clear();
        Ok(String::from_utf8_lossy(&output).replace('\r', ""))
    };
    let fill = if pressure == Pressure::Hog { "hog" } else { "fill" };
    let mut failures = 0;
    let (written, reread) =
        (skerry(&ours, fill)?, check_disk(&ours).and_then(|()| on_linux(&ours, "sums")));
    failures += report("written by Skerry, read by Linux", &written, reread);
    let written = on_linux(&theirs, "fill")?;
    failures += report("written by Linux, read by Skerry", &written, skerry(&theirs, "sums"));
    if failures == 0 {
        fs::remove_file(&ours)?;
        fs::remove_file(&theirs)?;
    }
    Ok(u8::from(failures > 0))
}

fn on_skerry(config: &Config, mode: &str) -> Result<String> {
    let bar = shell::progress(&format!("{mode} on Skerry"));
    // If memory is short, all of it must also be free again afterwards.
    let run = |mode: &str| format!("sh {SCRIPT_PATH} {mode}");
    let command = match mode {
        "hog" => super::counted_after(&run("look"), &run(mode)),
        _ => run(mode),
    };
    let (outcome, output, error) = guest::run_captured(config, &command, "", LIMIT_SECONDS)?;
    bar.finish_and_clear();
    let output = String::from_utf8_lossy(&output).into_owned();
    if outcome != Outcome::Session(Ended::Exited(0)) {
        bail!("{outcome}\n{output}{}", String::from_utf8_lossy(&error));
    }
    Ok(output)
}

/// Checks that the lines from `sums` to `end` are the same for the writer and the reader.
fn report(what: &str, written: &str, reread: Result<String>) -> u32 {
    let part = |text: &str| {
        let (_, rest) = text.split_once("== sums\n")?;
        rest.split_once("== end\n").map(|(sums, _)| sums.to_owned())
    };
    print!("{written}");
    let reread = match reread {
        Ok(reread) => reread,
        Err(error) => {
            println!("{what}: {error:#}");
            return 1;
        }
    };
    let is_same = part(written).is_some() && part(written) == part(&reread);
    if !is_same {
        print!("{reread}");
    }
    println!("{what}: {}", if is_same { "the same" } else { "NOT the same" });
    u32::from(!is_same)
}

fn check_disk(image: &Path) -> Result<()> {
    disk::fsck(image, Fsck::Look)?.map_err(Error::msg)?;
    println!("e2fsck -fn finds nothing");
    Ok(())
}

fn root_with_script() -> Result<PathBuf> {
    let tree = shell::build_path("campaign-root")?;
    disk::programs_tree(&tree)?;
    fs::write(tree.join(SCRIPT_PATH.trim_start_matches('/')), SCRIPT)?;
    let image = shell::build_path("disk-root.ext4")?;
    disk::pack(&tree, &image, &[])?;
    Ok(image)
}

fn empty_disk(name: &str) -> Result<PathBuf> {
    let image = shell::build_path(name)?;
    let _ = fs::remove_file(&image);
    let mut command = Command::new("/sbin/mke2fs");
    command.args(["-q", "-F", "-t", "ext4"]).arg(&image).arg(format!("{DISK_MIB}M"));
    shell::quietly("making an empty disk", &mut command)?;
    Ok(image)
}

/// Makes a tar archive of about 200 MB in nested folders, always the same.
fn archive() -> Result<PathBuf> {
    let archive = shell::build_path("disk-tree.tar")?;
    if archive.exists() {
        return Ok(archive);
    }
    let bar = shell::progress("making a tree of 200 MB");
    let tree = shell::build_path("disk-tree")?;
    let _ = fs::remove_dir_all(&tree);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for number in 0..TREE_FILES {
        let folder = tree.join(format!("d{}/e{}", number % 40, number / 40 % 20));
        fs::create_dir_all(&folder)?;
        let mut file = fs::File::create(folder.join(format!("file{number}")))?;
        let mut bytes = Vec::new();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let length = (state >> 20) % (2 * TREE_FILE_BYTES);
        while (bytes.len() as u64) < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        file.write_all(&bytes)?;
    }
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--mtime=@1000000000", "-cf"]).arg(&archive);
    let status = tar.arg("-C").arg(&tree).arg(".").status().context("starting tar")?;
    fs::remove_dir_all(&tree)?;
    bar.finish_and_clear();
    if !status.success() {
        bail!("tar: {status}");
    }
    Ok(archive)
}
