//! Building the kernel image.
use crate::{disk, packages, shell, symbols};
use anyhow::{Result, bail};
use std::{path::PathBuf, process::Command};

/// What to build in beyond the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Lock statistics (M4).
    pub statistics: bool,
    /// Lock checks (M3).
    pub check: bool,
}

/// Builds the image of `systems/NAME.toml` and returns its path.
///
/// # Errors
/// The compiler's messages, or what is wrong with the system description.
pub fn image(system: &str, features: &Features) -> Result<PathBuf> {
    let description = shell::root().join("systems").join(format!("{system}.toml"));
    if !description.exists() {
        bail!("there is no systems/{system}.toml; there are: {}", systems()?.join(", "));
    }
    let mut chosen = Vec::new();
    if features.statistics {
        chosen.push("statistics");
    }
    if features.check {
        chosen.push("check");
    }
    let mut cargo = shell::cargo();
    cargo
        .args(["build", "--release", "--locked", "-p", "image", "--target", "x86_64-unknown-none"])
        .env("SKERRY_SYSTEM", system);
    let suffix = if chosen.is_empty() { String::new() } else { format!("-{}", chosen.join("-")) };
    let target = shell::root().join("target").join(format!("kernel{suffix}"));
    cargo.env("CARGO_TARGET_DIR", &target);
    if !chosen.is_empty() {
        cargo.args(["--features", &chosen.join(",")]);
    }
    shell::quietly("building the kernel", &mut cargo)?;
    let built = target.join("x86_64-unknown-none/release/image");
    let path = shell::build_path(&format!("skerry-{system}{suffix}.elf"))?;
    symbols::embed(&built, &path)?;
    Ok(path)
}

/// Names of the system descriptions.
fn systems() -> Result<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(shell::root().join("systems"))?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// `./x image`: builds everything and says where it is.
///
/// # Errors
/// As [`image`] and [`disk::default_root`].
pub fn report() -> Result<u8> {
    packages::ensure(packages::Need::Run)?;
    let kernel = image("default", &Features::default())?;
    let root = disk::default_root()?;
    println!("kernel  {}\nroot    {}", kernel.display(), root.display());
    Ok(0)
}

/// Builds the ABI tests for musl; returns the paths of the test binaries.
///
/// # Errors
/// The compiler's messages.
pub fn abi_tests() -> Result<Vec<PathBuf>> {
    let is_test = |line: &str| line.contains("\"test\":true") && line.contains("tests/abi/tests/");
    abi("building the ABI tests", &["test", "--no-run"], is_test)
}

/// Builds the programs of the campaigns for musl.
///
/// # Errors
/// The compiler's messages.
pub fn abi_programs() -> Result<Vec<PathBuf>> {
    abi("building the campaigns' programs", &["build", "--release"], |line| {
        line.contains("tests/abi/src/bin/")
    })
}

fn abi(what: &str, arguments: &[&str], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut cargo: Command = shell::cargo();
    cargo.args(arguments).args(["--locked", "-p", "abi", "--target", "x86_64-unknown-linux-musl"]);
    cargo.args(["--message-format", "json"]).env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo.env("CARGO_TARGET_DIR", shell::root().join("target/abi"));
    let output = shell::quietly(what, &mut cargo)?;
    let text = String::from_utf8_lossy(&output);
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter(|line| is_wanted(line))
        .filter_map(|line| line.split("\"executable\":\"").nth(1)?.split('"').next())
        .map(PathBuf::from)
        .collect();
    found.sort();
    Ok(found)
}
