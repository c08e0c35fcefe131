//! The isolated components that a system asks for: their executables, packed into one boot archive (format:
//! `libs/archive`), which `image/build.rs` puts into the kernel.
use crate::{
    build::{self, Features},
    shell,
};
use anyhow::{Context, Result};
use archive::{Entry, Executable};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Builds what rt's process back end runs: in ring 3, low in memory, nothing to relocate, frame pointers kept for backtraces.
const FLAGS: &str = "--cfg skerry_process -C relocation-model=static -C code-model=small -C force-frame-pointers=yes";
const TARGET: &str = "x86_64-unknown-none";

/// Makes `cargo` build for the process world.
pub fn for_process_world(cargo: &mut Command) -> &mut Command {
    cargo.args(["--target", TARGET]).env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS")
}

/// Builds the components that the description at `path` puts into the process world; the path of their
/// archive.
///
/// # Errors
/// The compiler's messages, or an executable that no nucleus would load.
pub fn archive(path: &Path, system: &str, features: &Features) -> Result<PathBuf> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let names: Vec<String> =
        process_world(&text).into_iter().filter(|name| is_built(name)).collect();
    let folder = shell::root().join(format!("target/isolated{}", features.suffix()));
    if !names.is_empty() {
        build("isolated", &names, features, &folder)?;
    }
    pack(&names, &folder, &format!("isolated-{system}{}.archive", features.suffix()))
}

/// The components whose messages `tests/nucleus` measures.
const PROBES: [&str; 6] =
    ["actor", "interface-client", "interface-server", "plain-client", "plain-server", "ports"];

/// Builds [`PROBES`]; the path of their archive.
///
/// # Errors
/// As [`archive`].
pub fn probes() -> Result<PathBuf> {
    let names = PROBES.map(str::to_owned);
    let folder = shell::root().join("target/isolated");
    build("bench", &names, &Features::default(), &folder)?;
    pack(&names, &folder, "probes.archive")
}

/// Packs the executables of those names in `folder`; the path of their archive `file`, which is written only where it
/// is another than before.
fn pack(names: &[String], folder: &Path, file: &str) -> Result<PathBuf> {
    let read = |name: &String| {
        let path = folder.join(TARGET).join("release").join(name);
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        match Executable::parse(&bytes) {
            Ok(_) => Ok(bytes),
            Err(wrong) => anyhow::bail!("{}: {wrong}", path.display()),
        }
    };
    let files = names.iter().map(read).collect::<Result<Vec<_>>>()?;
    let entries: Vec<Entry<'_>> =
        names.iter().zip(&files).map(|(name, data)| Entry { name, data }).collect();
    let packed = archive::pack(&entries);
    let path = shell::build_path(file)?;
    if std::fs::read(&path).ok().as_ref() != Some(&packed) {
        std::fs::write(&path, packed).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(path)
}

fn build(package: &str, names: &[String], features: &Features, folder: &Path) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", package]);
    names.iter().for_each(|name| {
        cargo.args(["--bin", name]);
    });
    if !features.names().is_empty() {
        cargo.args(["--features", &features.names().join(",")]);
    }
    // Names of functions stay for backtraces; the rest would be half of the image.
    for_process_world(&mut cargo).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    cargo.env("CARGO_TARGET_DIR", folder);
    shell::quietly(&build::first("building the isolated components", folder), &mut cargo)?;
    Ok(())
}

/// Names of the components of the process world. What is wrong with a description is for `image/build.rs` to
/// say, which comes next.
fn process_world(description: &str) -> Vec<String> {
    let Ok(table) = description.parse::<toml::Table>() else { return Vec::new() };
    let components = table.get("component").and_then(toml::Value::as_array).into_iter().flatten();
    components
        .filter(|component| component.get("world").and_then(toml::Value::as_str) == Some("process"))
        .filter_map(|component| Some(component.get("name")?.as_str()?.to_owned()))
        .collect()
}

/// Whether there is such an executable to build.
fn is_built(name: &str) -> bool {
    shell::root().join("isolated/src/bin").join(name).with_extension("rs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_world_is_read_out_of_a_description() {
        let text = "[[component]]\nname = \"a\"\nworld = \"process\"\n[[component]]\nname = \"b\"\nworld = \"kernel\"\n";
        assert_eq!(process_world(text), ["a"]);
        assert!(process_world("[[component").is_empty());
        assert!(process_world("").is_empty());
    }

    #[test]
    fn a_component_without_an_executable_is_not_built() {
        assert!(is_built("rtc"));
        assert!(!is_built("posix"));
    }
}
