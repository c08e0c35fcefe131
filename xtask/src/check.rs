//! `./x check`: formatting, clippy, the house rules, import directions, names of types, comments, commits and names in the
//! docs; tables of code and unsafe per crate, and of the trusted base.
mod comments;
mod commits;
mod count;
mod docs;
mod flags;
pub mod floors;
mod layers;
mod mandatory;
pub mod modules;
mod rules;
mod trusted;
mod type_names;

use anyhow::Result;
use count::Counts;
pub use count::is_test_file;
use harness::{isolated, shell};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A crate of the workspace.
#[derive(Default)]
pub struct Crate {
    /// Name of its package.
    pub name: String,
    /// Its folder, from the root.
    pub folder: PathBuf,
    /// Its source files.
    pub files: Vec<PathBuf>,
    /// Names of the crates it depends on, tests and build scripts left out.
    pub dependencies: Vec<String>,
    /// Those of them that are linked into the kernel; of rt, those that its kernel back end names.
    pub kernel_dependencies: Vec<String>,
}

/// The kind of check.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Print so many doc comments, drawn at random, instead of checking anything
    #[arg(long, value_name = "COUNT")]
    sample_comments: Option<usize>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs every check, or prints a sample of the comments.
///
/// # Errors
/// Fails if a tool cannot be started or a file cannot be read.
pub fn run(options: &Options) -> Result<u8> {
    let crates = crates()?;
    if let Some(count) = options.sample_comments {
        comments::sample(&crates, count, options.seed)?;
        return Ok(0);
    }
    let mut faults = Vec::new();
    tool(&mut faults, "rustfmt", shell::cargo().args(["fmt", "--all", "--check"]));
    for (what, arguments) in CLIPPY {
        let mut command = shell::cargo();
        command.arg("clippy").arg("--locked").args(*arguments).args(["--", "-D", "warnings"]);
        command.env("CARGO_TARGET_DIR", shell::root().join("target/check"));
        tool(&mut faults, what, &mut command);
    }
    tool(&mut faults, "clippy on isolated components", &mut process_clippy(&crates));
    tool(&mut faults, "rustfmt on the vDSO", &mut vdso_tool("rustfmt", &["--check"]));
    tool(&mut faults, "clippy on the vDSO", &mut vdso_tool("clippy-driver", VDSO_CLIPPY));
    layers::check(&crates, &mut faults);
    floors::check(&crates, &mut faults)?;
    let mut rows = Vec::new();
    for one in &crates {
        rules::check(one, &mut faults)?;
        rows.push((one, count::crate_counts(one)?));
    }
    type_names::check(&crates, &mut faults)?;
    flags::check(&crates, &mut faults)?;
    mandatory::check(&crates, &mut faults)?;
    commits::check(&mut faults);
    docs::check(&mut faults)?;
    table(&rows);
    trusted::check(&rows, &mut faults);
    for fault in &faults {
        eprintln!("x: {fault}");
    }
    println!("{}", if faults.is_empty() { "check passed" } else { "check failed" });
    Ok(u8::from(!faults.is_empty()))
}

const CLIPPY: &[(&str, &[&str])] = &[
    ("clippy on the host", &["--workspace", "--all-targets", "--exclude", "image"]),
    (
        "clippy on the kernel",
        &[
            "-p",
            "image",
            "-p",
            "launch",
            "--target",
            "x86_64-unknown-none",
            "--features",
            "image/statistics,image/check,launch/statistics,launch/check",
        ],
    ),
];

/// Folders of crates that are built for the process world.
const PROCESS_WORLD: [&str; 6] = [
    "components/drivers",
    "components/ext4",
    "components/posix",
    "components/tmpfs",
    "image/launch",
    "tests/components",
];

/// Returns the command that runs Clippy on the crates of the process world, which have their own flags.
fn process_clippy(crates: &[Crate]) -> Command {
    let mut command = shell::cargo();
    command.args(["clippy", "--locked", "-p", "bench", "-p", "rt", "-p", "interfaces"]);
    let is_isolated =
        |one: &&Crate| PROCESS_WORLD.iter().any(|folder| one.folder.starts_with(folder));
    for one in crates.iter().filter(is_isolated) {
        command.args(["-p", &one.name]);
    }
    isolated::for_process_world(&mut command).args(["--", "-D", "warnings"]);
    command.env("CARGO_TARGET_DIR", shell::root().join("target/check-isolated"));
    command
}

/// The workspace's lints, for the one file that does not belong to it.
const VDSO_CLIPPY: &[&str] = &[
    "--crate-name=vdso",
    "--crate-type=lib",
    "--emit=metadata",
    "--out-dir=target/check",
    "--target=x86_64-unknown-none",
    "-Cpanic=abort",
    "-Dwarnings",
    "-Wmissing_docs",
    "-Dunsafe_op_in_unsafe_fn",
    "-Dclippy::all",
    "-Dclippy::undocumented_unsafe_blocks",
    "-Dclippy::missing_safety_doc",
    "-Dclippy::multiple_unsafe_ops_per_block",
    "-Dclippy::too_many_lines",
];
const VDSO: &str = "vdso/vdso.rs";

/// A tool on the vDSO, which `components/posix/process/build.rs` builds by itself.
fn vdso_tool(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(shell::root()).args(["--edition", "2024"]).args(arguments).arg(VDSO);
    command
}

fn tool(faults: &mut Vec<String>, what: &str, command: &mut Command) {
    if let Err(error) = shell::quietly(what, command) {
        faults.push(format!("{error:#}"));
    }
}

fn table(rows: &[(&Crate, Counts)]) {
    println!("{:<20} {:>8} {:>8} {:>8}", "crate", "code", "tests", "unsafe");
    let mut total = Counts::default();
    for (one, counts) in rows {
        println!(
            "{:<20} {:>8} {:>8} {:>8}",
            one.name, counts.code, counts.tests, counts.unsafe_blocks
        );
        total.add(counts);
    }
    println!("{:<20} {:>8} {:>8} {:>8}", "all", total.code, total.tests, total.unsafe_blocks);
}

/// Returns every crate of the workspace.
///
/// # Errors
/// Fails if a manifest cannot be read.
pub fn crates() -> Result<Vec<Crate>> {
    let root = shell::root();
    let workspace: toml::Table =
        toml::from_str(&std::fs::read_to_string(root.join("Cargo.toml"))?)?;
    let members = workspace["workspace"]["members"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for member in members.iter().filter_map(|member| member.as_str()) {
        for folder in expand(&root, member)? {
            found.push(read_crate(&root, &folder)?);
        }
    }
    found.push(Crate {
        name: "vdso".to_owned(),
        folder: "vdso".into(),
        files: vec![root.join(VDSO)],
        ..Crate::default()
    });
    Ok(found)
}

fn expand(root: &Path, member: &str) -> Result<Vec<PathBuf>> {
    let Some(parent) = member.strip_suffix("/*") else { return Ok(vec![member.into()]) };
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root.join(parent))? {
        let path = entry?.path();
        if path.join("Cargo.toml").exists() {
            folders.push(path.strip_prefix(root)?.to_owned());
        }
    }
    folders.sort();
    Ok(folders)
}

/// The target of manifests that means the kernel. Others are the process world and the model checker.
const KERNEL_TARGET: &str = r#"cfg(all(target_os = "none", not(skerry_process)))"#;

fn read_crate(root: &Path, folder: &Path) -> Result<Crate> {
    let manifest: toml::Table =
        toml::from_str(&std::fs::read_to_string(root.join(folder).join("Cargo.toml"))?)?;
    let names = |table: Option<&toml::Value>| -> Vec<String> {
        table
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(|of| of.keys().cloned())
            .collect()
    };
    let mut dependencies = names(manifest.get("dependencies"));
    let mut kernel_dependencies = dependencies.clone();
    for (target, table) in
        manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten()
    {
        let of_target = names(table.get("dependencies"));
        if target == KERNEL_TARGET {
            kernel_dependencies.extend_from_slice(&of_target);
        }
        dependencies.extend(of_target);
    }
    let mut files = Vec::new();
    for part in ["src", "tests", "build.rs"] {
        source_files(&root.join(folder).join(part), &mut files)?;
    }
    files.sort();
    if folder == "rt" {
        // The rest of rt is the same in every world.
        kernel_dependencies = trusted::named_in_kernel(&files, kernel_dependencies)?;
    }
    let name = manifest["package"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(Crate { name, folder: folder.to_owned(), files, dependencies, kernel_dependencies })
}

fn source_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            source_files(&entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && path.exists() {
        files.push(path.to_owned());
    }
    Ok(())
}
