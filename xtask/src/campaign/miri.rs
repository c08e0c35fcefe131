//! `./x campaign miri`: mutated images through ext4, reading and writing, under Miri, which sees every
//! undefined step and data race of what runs (ext4 itself has no unsafe code; `rt`'s host back end and
//! the locks below it do). The images are small and made here: Miri cannot start other programs.
use crate::campaign::Options;
use anyhow::{Context, Result, bail};
use harness::shell;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// The toolchain that Miri comes with.
const TOOLCHAIN: &str = "+nightly";
const COMPONENTS: [&str; 5] = ["component", "add", "miri", "rust-src", "--toolchain=nightly"];
const DEFAULT_COUNT: u64 = 12;

/// Options of mke2fs and KiB of each image.
const SHAPES: [(&[&str], u32); 4] = [
    (&["-b", "1024", "-O", "^has_journal"], 512),
    (&["-b", "1024", "-O", "^has_journal,^extent,^64bit,^metadata_csum"], 512),
    (&["-b", "4096", "-O", "^has_journal,inline_data", "-I", "256"], 1024),
    (&["-b", "1024", "-J", "size=1"], 4096),
];

/// Runs the campaign.
///
/// # Errors
/// Fails if Miri is missing and rustup cannot fetch it, or an image cannot be made.
pub fn run(options: &Options) -> Result<u8> {
    ensure()?;
    let count = options.count.unwrap_or(DEFAULT_COUNT);
    let mut cargo = Command::new("cargo");
    cargo
        .arg(TOOLCHAIN)
        .args(["miri", "test", "--locked", "-p", "ext4", "--test", "volume", "fuzz"]);
    cargo.args(["--", "--nocapture"]).current_dir(shell::root());
    // The images are files of the host.
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    cargo.env("SKERRY_FUZZ_IMAGES", images()?).env("SKERRY_FUZZ_COUNT", count.to_string());
    cargo.env("SKERRY_FUZZ_SEED", options.seed.to_string());
    let status = cargo.status().context("starting cargo")?;
    let verdict = if status.success() { "nothing undefined, no panic" } else { "failed" };
    println!("{count} mutated images under Miri: {verdict}");
    Ok(u8::from(!status.success()))
}

fn ensure() -> Result<()> {
    let mut version = Command::new("cargo");
    version.args([TOOLCHAIN, "miri", "--version"]);
    if version.output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    if shell::quietly("fetching Miri", rustup.args(COMPONENTS)).is_err() {
        bail!("Miri is not there, and `rustup {}` failed", COMPONENTS.join(" "));
    }
    Ok(())
}

/// Makes the images, in a folder of their own.
fn images() -> Result<PathBuf> {
    let (folder, tree) = (shell::build_path("miri-images")?, shell::build_path("miri-tree")?);
    for made in [&folder, &tree] {
        let _ = fs::remove_dir_all(made);
        fs::create_dir_all(made)?;
    }
    fill(&tree)?;
    for (number, (options, kib)) in SHAPES.iter().enumerate() {
        let image = folder.join(format!("{number}.ext4"));
        let mut mke2fs = Command::new("/sbin/mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-N", "128", "-d"]).arg(&tree).args(*options);
        shell::quietly("making an image", mke2fs.arg(&image).arg(format!("{kib}k")))?;
        // This builds the hash trees. It exits with 1 because it changes the volume.
        Command::new("/sbin/e2fsck").args(["-f", "-y", "-D"]).arg(&image).output()?;
    }
    Ok(folder)
}

fn fill(tree: &Path) -> Result<()> {
    for length in [1, 100, 5000, 20_000] {
        fs::write(tree.join(format!("f{length}")), vec![7; length])?;
    }
    let pieces: Vec<u8> =
        (0..12).flat_map(|piece| [piece | 1; 4096].into_iter().chain([0; 4096])).collect();
    fs::write(tree.join("pieces"), pieces)?;
    symlink("f1", tree.join("fast"))?;
    symlink("a/".repeat(100), tree.join("slow"))?;
    fs::create_dir_all(tree.join("d/e"))?;
    fs::write(tree.join("d/e/leaf"), b"leaf")?;
    fs::create_dir(tree.join("many"))?;
    for file in 0..60 {
        fs::write(tree.join(format!("many/{file:02}-{}", "n".repeat(file % 30))), b"")?;
    }
    Ok(())
}
