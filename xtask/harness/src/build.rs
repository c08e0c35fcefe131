//! Builds the kernel image.
use crate::{
    isolated,
    link::{Libraries, Program, TARGET},
    shell, symbols,
};
use anyhow::{Context, Result};
use description::{Member, Sources, System};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The features to build in beyond the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Build with lock statistics (M4).
    pub statistics: bool,
    /// Build with checks of locks (M3) and of information flows.
    pub check: bool,
}

impl Features {
    /// Returns those of a kernel under test: one build has all checks and statistics, or none.
    pub fn for_tests(is_instrumented: bool) -> Features {
        Features { statistics: is_instrumented, check: is_instrumented }
    }

    /// Returns the names of cargo's features.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [(self.statistics, "statistics"), (self.check, "check")];
        all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name).collect()
    }

    /// Asks `cargo` for them, by the features of `package`.
    pub fn add(&self, package: &str, cargo: &mut Command) {
        for name in self.names() {
            cargo.args(["--features", &format!("{package}/{name}")]);
        }
    }

    /// Returns the optimization at link time. Nobody measures a build with checks, and without it each further system is
    /// linked in seconds.
    pub fn lto(&self) -> &'static str {
        if self.check { "off" } else { "thin" }
    }

    /// Returns the suffix in the names of files built with these features.
    pub fn suffix(&self) -> String {
        self.names().iter().map(|name| format!("-{name}")).collect()
    }
}

/// Builds the kernel of the system `name` and returns its path.
///
/// # Errors
/// The compiler's messages, or the fault of a description.
pub fn image(name: &str, features: &Features) -> Result<PathBuf> {
    let system = system(name)?;
    let suffix = features.suffix();
    let archive = isolated::archive(&system, features)?;
    let target = shell::root().join("target").join(format!("kernel{suffix}"));
    // A kernel without the personality has no part that starts components.
    let own: &[&str] = match system.isolated_personalities().next() {
        Some(_) => &["image"],
        None => &["image", "launch"],
    };
    let packages = own.iter().copied().chain(system.linked().map(Member::package));
    let libraries =
        Libraries::build("building the kernel", packages, features, &target, |cargo| {
            own.iter().for_each(|package| features.add(package, cargo));
        })?;
    let flags = kernel_flags()?;
    let program = Program {
        text: &system.kernel(&archive),
        crates: own
            .iter()
            .map(ToString::to_string)
            .chain(system.linked().map(Member::crate_name))
            .collect(),
        script: "image/kernel.ld",
        flags: &flags.iter().map(String::as_str).collect::<Vec<_>>(),
        included: &[&archive],
    };
    let built = target.join(format!("kernel-{name}"));
    libraries.link(&program, &built)?;
    let path = shell::build_path(&format!("skerry-{name}{suffix}.elf"))?;
    symbols::embed(&built, &path)?;
    isolated::keep_personality(&system, features, &symbols::personality(&path))?;
    Ok(path)
}

/// Returns cargo's flags for all crates that are linked into a kernel.
fn kernel_flags() -> Result<Vec<String>> {
    let path = shell::root().join(".cargo/config.toml");
    let text = std::fs::read_to_string(&path)?;
    let config: toml::Table = toml::from_str(&text)?;
    let flags = config.get("target").and_then(|targets| targets.get(TARGET)?.get("rustflags"));
    let flags = flags.and_then(toml::Value::as_array).context("the kernel has no rustflags")?;
    Ok(flags.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

/// Returns a message that `what` is being done, and that it takes long if nothing was built in `target`
/// before.
pub fn first(what: &str, target: &Path) -> String {
    match target.exists() {
        true => what.to_owned(),
        false => format!("{what} (the first time: a minute or two)"),
    }
}

/// Reads the system `name` from its description and those of its components.
///
/// # Errors
/// The fault of a description; if there is no such system, the names of all systems.
pub fn system(name: &str) -> Result<System> {
    let sources = Sources::of_tree(&shell::root()).context("reading the descriptions")?;
    sources.system(name).map_err(anyhow::Error::msg)
}

/// Builds the kernel that is the nucleus and its tests. Returns its path.
///
/// # Errors
/// The compiler's messages.
pub fn nucleus_tests(features: &Features) -> Result<PathBuf> {
    let probes = isolated::probes()?;
    let target = shell::root().join("target/kernel");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "nucleus-tests"]);
    cargo.args(["--target", "x86_64-unknown-none"]).env("CARGO_TARGET_DIR", &target);
    features.add("nucleus", cargo.env("SKERRY_PROBES", probes));
    shell::quietly("building the nucleus and its tests", &mut cargo)?;
    let path = shell::build_path(&format!("nucleus-tests{}.elf", features.suffix()))?;
    symbols::embed(&nucleus_tests_symbols(), &path)?;
    Ok(path)
}

/// Returns the path of [`nucleus_tests`] with the names of its functions and lines.
pub fn nucleus_tests_symbols() -> PathBuf {
    shell::root().join("target/kernel/x86_64-unknown-none/release/nucleus-tests")
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
    let arguments = ["build", "--release", "-p", "skerryctl", "-p", "trusted-shell"];
    musl("building the programs", &arguments, |line| line.contains("/programs/"))
}

/// Builds static programs for Linux. Returns the paths of the executables whose line of the compiler's
/// output `is_wanted`.
fn musl(what: &str, arguments: &[&str], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut cargo: Command = shell::cargo();
    cargo.args(arguments).args(["--locked", "--target", "x86_64-unknown-linux-musl"]);
    cargo.args(["--message-format", "json-render-diagnostics"]).env("CARGO_PROFILE_DEV_DEBUG", "0");
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
