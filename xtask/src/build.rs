//! Building the kernel image.
use crate::{disk, isolated, packages, shell, symbols};
use anyhow::{Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The features to build in beyond the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Lock statistics (M4).
    pub statistics: bool,
    /// Lock checks (M3).
    pub check: bool,
}

impl Features {
    /// As cargo calls them.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [(self.statistics, "statistics"), (self.check, "check")];
        all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name).collect()
    }

    /// The suffix that tells files built with them apart.
    pub fn suffix(&self) -> String {
        self.names().iter().map(|name| format!("-{name}")).collect()
    }
}

/// Builds the image of `systems/NAME.toml` and returns its path.
///
/// # Errors
/// The compiler's messages, or what is wrong with the system description.
pub fn image(system: &str, features: &Features) -> Result<PathBuf> {
    let description = description(system)?;
    let chosen = features.names();
    let suffix = features.suffix();
    let archive = isolated::archive(&description, system, features)?;
    let mut cargo = shell::cargo();
    cargo
        .args(["build", "--release", "--locked", "-p", "image", "--target", "x86_64-unknown-none"])
        .env("SKERRY_SYSTEM", system)
        .env("SKERRY_ARCHIVE", archive);
    let target = shell::root().join("target").join(format!("kernel{suffix}"));
    cargo.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_RELEASE_LTO", "thin");
    if !chosen.is_empty() {
        cargo.args(["--features", &chosen.join(",")]);
    }
    shell::quietly(&first("building the kernel", &target), &mut cargo)?;
    let built = target.join("x86_64-unknown-none/release/image");
    let path = shell::build_path(&format!("skerry-{system}{suffix}.elf"))?;
    symbols::embed(&built, &path)?;
    Ok(path)
}

/// `what` is done, and that it takes long where nothing was built in `target` before.
pub fn first(what: &str, target: &Path) -> String {
    match target.exists() {
        true => what.to_owned(),
        false => format!("{what} (the first time: a minute or two)"),
    }
}

/// The path of `systems/NAME.toml`.
///
/// # Errors
/// Where it is not there.
pub fn description(system: &str) -> Result<PathBuf> {
    let description = shell::root().join("systems").join(format!("{system}.toml"));
    if !description.exists() {
        bail!("there is no systems/{system}.toml; there are: {}", systems()?.join(", "));
    }
    Ok(description)
}

/// Builds the kernel that is the nucleus and its tests; its path.
///
/// # Errors
/// The compiler's messages.
pub fn nucleus_tests() -> Result<PathBuf> {
    let probes = isolated::probes()?;
    let target = shell::root().join("target/kernel");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "nucleus-tests"]);
    cargo.args(["--target", "x86_64-unknown-none"]).env("CARGO_TARGET_DIR", &target);
    cargo.env("SKERRY_PROBES", probes);
    shell::quietly("building the nucleus and its tests", &mut cargo)?;
    let path = shell::build_path("nucleus-tests.elf")?;
    symbols::embed(&nucleus_tests_symbols(), &path)?;
    Ok(path)
}

/// [`nucleus_tests`] with the names of its functions and lines.
pub fn nucleus_tests_symbols() -> PathBuf {
    shell::root().join("target/kernel/x86_64-unknown-none/release/nucleus-tests")
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
    let symbols = symbols::beside(&kernel);
    println!(
        "kernel  {}\nsymbols {}\nroot    {}",
        kernel.display(),
        symbols.display(),
        root.display()
    );
    Ok(0)
}

/// Builds the ABI tests for musl; returns the paths of the test binaries.
///
/// # Errors
/// The compiler's messages.
pub fn abi_tests() -> Result<Vec<PathBuf>> {
    let is_test = |line: &str| line.contains("\"test\":true") && line.contains("tests/abi/tests/");
    musl("building the ABI tests", &["test", "--no-run", "-p", "abi"], is_test)
}

/// Builds the programs of the campaigns for musl.
///
/// # Errors
/// The compiler's messages.
pub fn abi_programs() -> Result<Vec<PathBuf>> {
    musl("building the campaigns' programs", &["build", "--release", "-p", "abi"], |line| {
        line.contains("tests/abi/src/bin/")
    })
}

/// Builds the system's own programs (`programs/`) for musl.
///
/// # Errors
/// The compiler's messages.
pub fn programs() -> Result<Vec<PathBuf>> {
    musl("building the programs", &["build", "--release", "-p", "skerryctl"], |line| {
        line.contains("/programs/")
    })
}

/// Builds static programs for Linux; the paths of the executables of which the compiler's line is wanted.
fn musl(what: &str, arguments: &[&str], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut cargo: Command = shell::cargo();
    cargo.args(arguments).args(["--locked", "--target", "x86_64-unknown-linux-musl"]);
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
