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

/// Compiler flags for rt's process back end, with frame pointers for backtraces. The code may be anywhere in the address space: no
/// relocation has 32 bits, so that the image of a component that runs programs can be linked behind [`calls::SERVER_BASE`]. The
/// code model is that of the target's own libraries, without which they cannot be optimized at link time; position-independent
/// code is the same for it as for the small one.
const FLAGS: [&str; 7] = [
    "--cfg=skerry_process",
    "-C",
    "relocation-model=pic",
    "-C",
    "code-model=kernel",
    "-C",
    "force-frame-pointers=yes",
];

/// The compiler takes code for any address to be for an executable that is relocated when it is loaded.
const NOT_RELOCATED: &str = "link-arg=--no-pie";

/// Names of functions stay for backtraces; the rest would be half of an image.
const WITHOUT_LINES: [&str; 2] = ["-C", "strip=debuginfo"];
/// The linker script of all components.
const SCRIPT: &str = "image/component.ld";

/// Makes `cargo` build for the process world.
pub fn for_process_world(cargo: &mut Command) -> &mut Command {
    cargo.args(["--target", TARGET]);
    with_flags(cargo, &FLAGS)
}

fn with_flags<'c>(cargo: &'c mut Command, flags: &[&str]) -> &'c mut Command {
    cargo.env("RUSTFLAGS", flags.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS")
}

/// Returns the compiler's flags for an executable.
fn link_flags<'f>() -> impl Iterator<Item = &'f str> {
    FLAGS.into_iter().chain(["-C", NOT_RELOCATED]).chain(WITHOUT_LINES)
}

/// Builds the isolated components of `system`. Returns the path of their archive.
///
/// # Errors
/// The compiler's messages, or an executable that no nucleus would load.
pub fn archive(system: &System, features: &Features) -> Result<PathBuf> {
    let folder = folder(features);
    let members: Vec<&Member> =
        system.in_world(World::Process).filter(|member| !member.is_personality()).collect();
    let mut programs = Vec::new();
    if !members.is_empty() {
        let packages =
            ["rt", "interfaces"].into_iter().chain(members.iter().map(|one| one.package()));
        let what = "building the isolated components";
        let libraries = Libraries::build(what, packages, features, &folder, |cargo| {
            features.add("rt", with_flags(cargo, &FLAGS));
        })?;
        for member in members {
            programs.push((member.name.as_str(), program(&libraries, system, member, &folder)?));
        }
    }
    for host in system.isolated_personalities() {
        programs.push((host.name.as_str(), personality(system, host, features)?));
    }
    pack(&programs, &format!("isolated-{}{}.archive", system.name, features.suffix()))
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
        flags: &link_flags().collect::<Vec<_>>(),
        included: &[],
    };
    libraries.link(&program, &path)?;
    Ok(path)
}

fn folder(features: &Features) -> PathBuf {
    shell::root().join(format!("target/isolated{}", features.suffix()))
}

fn personality_path(system: &System, host: &Member, features: &Features) -> PathBuf {
    folder(features).join(format!("{}-{}", host.name, system.name))
}

/// Copies the executable of the system's isolated personality, the first of two, to `to`, for profilers; removes that file if it has
/// none.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn keep_personality(system: &System, features: &Features, to: &Path) -> Result<()> {
    let kept = match system.isolated_personalities().next() {
        Some(host) => std::fs::copy(personality_path(system, host, features), to).map(drop),
        None if to.exists() => std::fs::remove_file(to),
        None => Ok(()),
    };
    kept.with_context(|| format!("writing {}", to.display()))
}

/// Builds the executable of the personality `host`, with the components that share its process. Returns its path.
fn personality(system: &System, host: &Member, features: &Features) -> Result<PathBuf> {
    let folder = folder(features);
    let guests = || system.guests(host);
    let packages = ["rt", "launch"].into_iter().chain(guests().map(Member::package));
    let what = "building the personality";
    let libraries = Libraries::build(what, packages, features, &folder, |cargo| {
        features.add("launch", with_flags(cargo, &FLAGS));
    })?;
    let path = personality_path(system, host, features);
    let base = server_base();
    let program = Program {
        text: &system.program(host),
        crates: ["rt".to_owned(), "launch".to_owned()]
            .into_iter()
            .chain(guests().map(Member::crate_name))
            .collect(),
        script: SCRIPT,
        flags: &link_flags().chain(["-C", &base]).collect::<Vec<_>>(),
        included: &[],
    };
    libraries.link(&program, &path)?;
    Ok(path)
}

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
    let folder = folder(&Features::default());
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "bench"]);
    PROBES.iter().for_each(|name| {
        cargo.args(["--bin", name]);
    });
    let flags: Vec<&str> = FLAGS.into_iter().chain(["-C", NOT_RELOCATED]).collect();
    cargo.args(["--target", TARGET]).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    with_flags(&mut cargo, &flags);
    cargo.env("CARGO_PROFILE_RELEASE_LTO", Features::default().lto());
    cargo.env("CARGO_TARGET_DIR", &folder);
    shell::quietly(&build::first("building the probes of messages", &folder), &mut cargo)?;
    let built = folder.join(TARGET).join("release");
    let mut programs: Vec<_> = PROBES.map(|name| (name, built.join(name))).into();
    for (package, name) in SERVER_PROBES {
        programs.push((name, server_probe(package, name)?));
    }
    pack(&programs, "probes.archive")
}

/// The probes that run programs: package and name.
const SERVER_PROBES: [(&str, &str); 2] =
    [("bench", "program-server"), ("hostile-programs", "hostile-programs")];

fn server_probe(package: &str, name: &str) -> Result<PathBuf> {
    let folder = shell::root().join("target/server");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--locked", "-p", package, "--bin", name]);
    cargo.args(["--target", TARGET]).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    let base = server_base();
    let flags: Vec<&str> = FLAGS.into_iter().chain(["-C", NOT_RELOCATED, "-C", &base]).collect();
    with_flags(&mut cargo, &flags).env("CARGO_TARGET_DIR", &folder);
    cargo.env("CARGO_PROFILE_RELEASE_LTO", Features::default().lto());
    shell::quietly(&build::first("building the probes that run programs", &folder), &mut cargo)?;
    Ok(folder.join(TARGET).join("release").join(name))
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
