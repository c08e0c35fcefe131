//! The isolated components of a system: their executables, packed into one boot archive (format: `libs/archive`), which is part
//! of the kernel.
use crate::{
    build::{self, Features},
    link::{Libraries, Program, TARGET},
    shell,
};
use anyhow::{Context, Result};
use archive::{ArchiveEntry, Executable};
use description::{Member, System, World};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Compiler flags for rt's process back end: in ring 3, low in memory, without relocations, with frame pointers for backtraces.
const FLAGS: [&str; 7] = [
    "--cfg=skerry_process",
    "-C",
    "relocation-model=static",
    "-C",
    "code-model=small",
    "-C",
    "force-frame-pointers=yes",
];

/// The same for a component that runs programs, which is linked in the upper half.
const SERVER_FLAGS: [&str; 9] = [
    "--cfg=skerry_process",
    "-C",
    "relocation-model=pic",
    "-C",
    "code-model=small",
    "-C",
    "force-frame-pointers=yes",
    "-C",
    "link-arg=--no-pie",
];

/// Makes `cargo` build for the process world.
pub fn for_process_world(cargo: &mut Command) -> &mut Command {
    cargo.args(["--target", TARGET]);
    with_flags(cargo)
}

fn with_flags(cargo: &mut Command) -> &mut Command {
    cargo.env("RUSTFLAGS", FLAGS.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS")
}

/// Builds the isolated components of `system`. Returns the path of their archive.
///
/// # Errors
/// The compiler's messages, or an executable that no nucleus would load.
pub fn archive(system: &System, features: &Features) -> Result<PathBuf> {
    let suffix = features.suffix();
    let folder = shell::root().join(format!("target/isolated{suffix}"));
    let members: Vec<&Member> = system.in_world(World::Process).collect();
    let mut programs = Vec::new();
    if !members.is_empty() {
        let packages =
            ["rt", "interfaces"].into_iter().chain(members.iter().map(|one| one.package()));
        let what = "building the isolated components";
        let libraries = Libraries::build(what, packages, &folder, |cargo| {
            features.add("rt", with_flags(cargo));
        })?;
        for member in members {
            programs.push((member.name.as_str(), program(&libraries, member, &folder)?));
        }
    }
    pack(&programs, &format!("isolated-{}{suffix}.archive", system.name))
}

/// Links the executable of `member`. Returns its path.
fn program(libraries: &Libraries, member: &Member, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(&member.name);
    // Names of functions stay for backtraces; the rest would be half of the image.
    let flags: Vec<&str> = FLAGS.into_iter().chain(["-C", "strip=debuginfo"]).collect();
    let program = Program {
        text: &description::program(member),
        crates: vec!["rt".to_owned(), "interfaces".to_owned(), member.crate_name()],
        script: "image/component.ld",
        flags: &flags,
        included: &[],
    };
    libraries.link(&program, &path)?;
    Ok(path)
}

/// Names of the components whose messages `tests/nucleus` measures.
const PROBES: [&str; 6] =
    ["actor", "interface-client", "interface-server", "plain-client", "plain-server", "ports"];

/// Builds [`PROBES`]. Returns the path of their archive.
///
/// # Errors
/// Those of [`archive`].
pub fn probes() -> Result<PathBuf> {
    let folder = shell::root().join("target/isolated");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "bench"]);
    PROBES.iter().for_each(|name| {
        cargo.args(["--bin", name]);
    });
    for_process_world(&mut cargo).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    cargo.env("CARGO_TARGET_DIR", &folder);
    shell::quietly(&build::first("building the probes of messages", &folder), &mut cargo)?;
    let built = folder.join(TARGET).join("release");
    let mut programs: Vec<_> = PROBES.map(|name| (name, built.join(name))).into();
    programs.push((SERVER_PROBE, server_probe()?));
    pack(&programs, "probes.archive")
}

/// Name of the probe that runs programs.
const SERVER_PROBE: &str = "program-server";

fn server_probe() -> Result<PathBuf> {
    let folder = shell::root().join("target/server");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "bench", "--bin", SERVER_PROBE]);
    cargo.args(["--target", TARGET]).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    cargo.env("RUSTFLAGS", SERVER_FLAGS.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env("SKERRY_SERVER", "1").env("CARGO_TARGET_DIR", &folder);
    shell::quietly(&build::first("building the probe that runs programs", &folder), &mut cargo)?;
    Ok(folder.join(TARGET).join("release").join(SERVER_PROBE))
}

/// Packs the executables at those paths, by name. Returns the path of their archive `file`, which is written only if it has
/// changed.
fn pack(programs: &[(&str, PathBuf)], file: &str) -> Result<PathBuf> {
    let read = |(_, path): &(&str, PathBuf)| {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        match Executable::parse(&bytes) {
            Ok(_) => Ok(bytes),
            Err(wrong) => anyhow::bail!("{}: {wrong}", path.display()),
        }
    };
    let files = programs.iter().map(read).collect::<Result<Vec<_>>>()?;
    let entries: Vec<ArchiveEntry<'_>> =
        programs.iter().zip(&files).map(|((name, _), data)| ArchiveEntry { name, data }).collect();
    let packed = archive::pack(&entries);
    let path = shell::build_path(file)?;
    if std::fs::read(&path).ok().as_ref() != Some(&packed) {
        std::fs::write(&path, packed).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(path)
}
