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

/// Names of functions stay for backtraces; the rest would be half of an image.
const WITHOUT_LINES: [&str; 2] = ["-C", "strip=debuginfo"];
/// The linker script of all components.
const SCRIPT: &str = "image/component.ld";

/// Compiler flags for a component that runs programs: as [`FLAGS`], but anywhere in the address space, so that no relocation has
/// 32 bits and the image can be linked behind [`calls::SERVER_BASE`], above all programs.
const SERVER_FLAGS: [&str; 7] = [
    "--cfg=skerry_process",
    "-C",
    "relocation-model=pic",
    "-C",
    "code-model=small",
    "-C",
    "force-frame-pointers=yes",
];

/// Makes `cargo` build for the process world.
pub fn for_process_world(cargo: &mut Command) -> &mut Command {
    cargo.args(["--target", TARGET]);
    with_flags(cargo, &FLAGS)
}

fn with_flags<'c>(cargo: &'c mut Command, flags: &[&str]) -> &'c mut Command {
    cargo.env("RUSTFLAGS", flags.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS")
}

/// Builds the isolated components of `system`. Returns the path of their archive.
///
/// # Errors
/// The compiler's messages, or an executable that no nucleus would load.
pub fn archive(system: &System, features: &Features) -> Result<PathBuf> {
    let suffix = features.suffix();
    let folder = shell::root().join(format!("target/isolated{suffix}"));
    let members: Vec<&Member> =
        system.in_world(World::Process).filter(|member| !member.is_personality()).collect();
    let mut programs = Vec::new();
    if !members.is_empty() {
        let packages =
            ["rt", "interfaces"].into_iter().chain(members.iter().map(|one| one.package()));
        let what = "building the isolated components";
        let libraries = Libraries::build(what, packages, &folder, |cargo| {
            features.add("rt", with_flags(cargo, &FLAGS));
        })?;
        for member in members {
            programs.push((member.name.as_str(), program(&libraries, system, member, &folder)?));
        }
    }
    if let Some(host) = system.isolated_personality() {
        programs.push((host.name.as_str(), personality(system, host, features)?));
    }
    pack(&programs, &format!("isolated-{}{suffix}.archive", system.name))
}

/// Links the executable of `member`. Returns its path.
fn program(
    libraries: &Libraries,
    system: &System,
    member: &Member,
    folder: &Path,
) -> Result<PathBuf> {
    let path = folder.join(&member.name);
    let program = Program {
        text: &system.program(member),
        crates: vec!["rt".to_owned(), "interfaces".to_owned(), member.crate_name()],
        script: SCRIPT,
        flags: &FLAGS.into_iter().chain(WITHOUT_LINES).collect::<Vec<_>>(),
        included: &[],
    };
    libraries.link(&program, &path)?;
    Ok(path)
}

/// Builds the executable of the personality `host`, with the components that share its process. Returns its path.
fn personality(system: &System, host: &Member, features: &Features) -> Result<PathBuf> {
    let folder = shell::root().join(format!("target/personality{}", features.suffix()));
    let guests = || system.guests(host);
    let packages = ["rt", "launch"].into_iter().chain(guests().map(Member::package));
    let libraries = Libraries::build("building the personality", packages, &folder, |cargo| {
        features.add("launch", with_flags(cargo, &SERVER_FLAGS));
    })?;
    let path = folder.join(format!("{}-{}", host.name, system.name));
    let base = server_base();
    let fixed = ["-C", NOT_RELOCATED, "-C", &base];
    let program = Program {
        text: &system.program(host),
        crates: ["rt".to_owned(), "launch".to_owned()]
            .into_iter()
            .chain(guests().map(Member::crate_name))
            .collect(),
        script: SCRIPT,
        flags: &SERVER_FLAGS.into_iter().chain(WITHOUT_LINES).chain(fixed).collect::<Vec<_>>(),
        included: &[],
    };
    libraries.link(&program, &path)?;
    Ok(path)
}

/// The compiler takes code for any address to be for an executable that is relocated when it is loaded.
const NOT_RELOCATED: &str = "link-arg=--no-pie";

/// Returns the linker's argument that tells the first address of the image of a component that runs programs. The shared page
/// is below it.
fn server_base() -> String {
    format!("link-arg=--defsym=skerry_image_base={:#x}", calls::SERVER_BASE + 4096)
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
    let base = server_base();
    let flags: Vec<&str> =
        SERVER_FLAGS.into_iter().chain(["-C", NOT_RELOCATED, "-C", &base]).collect();
    with_flags(&mut cargo, &flags).env("CARGO_TARGET_DIR", &folder);
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
