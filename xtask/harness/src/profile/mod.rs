//! The profile of a command: the instructions that the kernel executes for it (B9, as McRae's "Hardware Profiling of Kernels",
//! Figure 3), by function and by path of calls, as a flame graph and as a trace. `docs/profile.md` describes it.
//!
//! [`calls::follow`] runs any machine so, between the marks of a program in it or for a whole session; [`Profile`] is what
//! comes of it, and [`report`] says it. [`sample`] has the system sample itself instead.
pub mod calls;
mod chrome;
pub mod flame;
pub mod names;
pub mod path;
pub mod sample;
pub mod table;

use crate::{guest::Outcome, qemu::Config, session::Streams, shell};
use anyhow::{Context, Result};
use calls::{Profile, Wanted};
use std::path::PathBuf;

/// Runs `command` on any machine with a kernel of ours, prints the first `rows` of its table under `title` and writes what
/// else there is to `build/profile/`.
///
/// # Errors
/// As [`calls::follow`]; where a file cannot be written.
pub fn report(
    config: &Config,
    command: &str,
    title: &str,
    wanted: &Wanted,
    rows: usize,
) -> Result<(Outcome, Profile)> {
    let (outcome, profile) = calls::follow(config, command, Streams::ours(), wanted)?;
    println!("{title}\n{}", table::text(&profile, rows));
    export(&profile, title)?;
    Ok((outcome, profile))
}

/// A file of `build/profile/`.
fn path(name: &str) -> Result<PathBuf> {
    let folder = shell::build_path("profile")?;
    std::fs::create_dir_all(&folder).context("making build/profile/")?;
    Ok(folder.join(name))
}

/// Writes the flame graph, the whole table and the traces.
fn export(profile: &Profile, title: &str) -> Result<()> {
    let mut graph = flame::Graph::default();
    profile.paths(|names, net| graph.add(names, net));
    let files = [
        ("table.txt", table::text(profile, usize::MAX)),
        ("flame.svg", graph.draw(title, "instructions")),
        ("path.txt", path::text(&path::calls(&profile.events))),
        ("trace.json", chrome::text(&profile.events)),
    ];
    for (name, text) in files {
        let file = path(name)?;
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    println!("in {}: table.txt, flame.svg, path.txt, trace.json", path("")?.display());
    Ok(())
}
