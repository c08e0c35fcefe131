//! Skerry's plugins for QEMU (`bench/plugin/`), built by the host's compiler.
use crate::shell;
use anyhow::Result;
use std::{path::PathBuf, process::Command};

/// Builds `bench/plugin/NAME.c`. Returns its path.
///
/// # Errors
/// Fails with the compiler's messages.
pub fn build(name: &str) -> Result<PathBuf> {
    let plugin = shell::build_path(&format!("{name}.so"))?;
    let source = shell::root().join(format!("bench/plugin/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]);
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(source);
    shell::quietly("building the plugin of QEMU", &mut compiler)?;
    Ok(plugin)
}
