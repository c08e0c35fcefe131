//! Links programs that are generated from descriptions: cargo builds the crates, and the compiler links the program with
//! them.
//!
//! A program is not a package, because a package would need a manifest with another list of crates; the descriptions are the
//! only list. [`Libraries`] are the crates that cargo built for one target; [`Libraries::link`] makes a program of a source
//! text.
use crate::{
    build::{self, Features},
    shell,
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// The target of everything that runs in Skerry beneath programs.
pub const TARGET: &str = "x86_64-unknown-none";

/// Crates that are built, by their names in Rust.
pub struct Libraries {
    found: BTreeMap<String, PathBuf>,
    /// The folders of the crates that these import; macros are built for the host.
    imported: [PathBuf; 2],
    newest: SystemTime,
    /// The optimization at link time for which they were built.
    lto: &'static str,
}

/// A program to be linked.
pub struct Program<'p> {
    /// Source of the program.
    pub text: &'p str,
    /// The crates that the source names.
    pub crates: Vec<String>,
    /// The linker script, from the root.
    pub script: &'p str,
    /// Further arguments of the compiler.
    pub flags: &'p [&'p str],
    /// Files that the source includes.
    pub included: &'p [&'p Path],
}

impl Libraries {
    /// Builds `packages` with `features` in the folder `target`; `prepare` adds to the command.
    ///
    /// # Errors
    /// Fails with the compiler's messages.
    pub fn build<'p>(
        what: &str,
        packages: impl IntoIterator<Item = &'p str>,
        features: &Features,
        target: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Libraries> {
        let mut cargo = shell::cargo();
        cargo.args(["build", "--release", "--locked", "--target", TARGET, "--lib"]);
        cargo.args(["--message-format", "json-render-diagnostics"]).env("CARGO_TARGET_DIR", target);
        packages.into_iter().for_each(|package| {
            cargo.args(["-p", package]);
        });
        cargo.env("CARGO_PROFILE_RELEASE_LTO", features.lto());
        prepare(&mut cargo);
        let output = shell::quietly(&build::first(what, target), &mut cargo)?;
        let mut libraries = Libraries {
            found: BTreeMap::new(),
            imported: [TARGET, "."].map(|part| target.join(part).join("release/deps")),
            newest: SystemTime::UNIX_EPOCH,
            lto: features.lto(),
        };
        for line in String::from_utf8_lossy(&output).lines() {
            if let Some((name, path)) = library(line) {
                libraries.newest = libraries.newest.max(modified(&path)?);
                libraries.found.insert(name, path);
            }
        }
        Ok(libraries)
    }

    /// Links `program` to `to`, if that is older than one of its inputs.
    ///
    /// # Errors
    /// Fails with the compiler's messages.
    pub fn link(&self, program: &Program<'_>, to: &Path) -> Result<()> {
        let source = to.with_extension("rs");
        let script = shell::root().join(program.script);
        if std::fs::read_to_string(&source).ok().as_deref() != Some(program.text) {
            std::fs::write(&source, program.text)
                .with_context(|| format!("writing {}", source.display()))?;
        }
        let mut newest = self.newest.max(modified(&source)?).max(modified(&script)?);
        for included in program.included {
            newest = newest.max(modified(included)?);
        }
        if modified(to).is_ok_and(|linked| linked > newest) {
            return Ok(());
        }
        let mut compiler = Command::new("rustc");
        compiler.current_dir(shell::root()).args(["--edition", "2024", "--target", TARGET]);
        compiler.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "debuginfo=1"]);
        compiler.arg("-C").arg(format!("lto={}", self.lto));
        compiler.arg("-C").arg(format!("link-arg=-T{}", script.display())).args(program.flags);
        for folder in &self.imported {
            compiler.arg("-L").arg(format!("dependency={}", folder.display()));
        }
        for name in &program.crates {
            let path = self.found.get(name).with_context(|| format!("there is no crate {name}"))?;
            compiler.arg("--extern").arg(format!("{name}={}", path.display()));
        }
        compiler.arg("-o").arg(to).arg(&source);
        shell::quietly(&format!("linking {}", to.display()), &mut compiler)?;
        Ok(())
    }
}

/// Returns the name and the file of the library in a line of cargo's output.
fn library(line: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let files = message.get("filenames")?.as_array()?;
    let file =
        files.iter().filter_map(|file| file.as_str()).find(|file| file.ends_with(".rlib"))?;
    let name = message.get("target")?.get("name")?.as_str()?;
    Some((name.replace('-', "_"), file.into()))
}

fn modified(path: &Path) -> Result<SystemTime> {
    let read = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    read.with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_read_out_of_a_message() {
        let line = r#"{"reason":"compiler-artifact","target":{"name":"virtio-blk"},"filenames":["/t/libvirtio_blk.rlib","/t/libvirtio_blk.rmeta"]}"#;
        let expected = ("virtio_blk".to_owned(), PathBuf::from("/t/libvirtio_blk.rlib"));
        assert_eq!(library(line), Some(expected));
        assert_eq!(library(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(library("warning: unused"), None);
    }
}
