//! The house rules that no other tool checks: sizes, opening comments, places of unsafe code.
use super::{
    Crate, comments,
    count::{code_lines, is_test_file},
};
use anyhow::Result;
use harness::shell;
use std::path::Path;

/// The greatest number of lines of a file without its tests.
const FILE_LINES: usize = 600;
/// Crates that may hold unsafe code.
const MAY_BE_UNSAFE: [&str; 8] =
    ["nucleus", "nucleus-tests", "rt", "sync", "vdso", "abi", "image", "hostile-programs"];
/// Macros that stand for code still to be written.
const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];
/// The lints that a component's root sets.
const COMPONENT_LINTS: [&str; 2] = ["clippy::unwrap_used", "clippy::expect_used"];

/// Adds a fault for each broken rule.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn check(one: &Crate, faults: &mut Vec<String>) -> Result<()> {
    for path in &one.files {
        let text = std::fs::read_to_string(path)?;
        let name = shell::name(path);
        file_rules(&name, path, &text, faults);
        let is_crate_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        if is_crate_root {
            root_rules(one, &name, &text, faults);
        }
    }
    Ok(())
}

fn file_rules(name: &str, path: &Path, text: &str, faults: &mut Vec<String>) {
    if !text.starts_with("//!") {
        faults.push(format!(
            "{name}: opens with `//!`: what it is for, its key types, what guards what"
        ));
    }
    let until_tests = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = until_tests.lines().count();
    if !is_test_file(path) && lines > FILE_LINES {
        faults.push(format!(
            "{name}: {lines} lines without its tests, at most {FILE_LINES}: split it by family"
        ));
    }
    comments::check(name, text, faults);
    for (line, code) in code_lines(text) {
        if UNFINISHED.iter().any(|name| code.contains(&format!("{name}!("))) {
            faults.push(format!(
                "{name}:{line}: finish it, or return the proper error and list it in docs/"
            ));
        }
    }
}

fn root_rules(one: &Crate, name: &str, text: &str, faults: &mut Vec<String>) {
    if !MAY_BE_UNSAFE.contains(&one.name.as_str()) && !text.contains("#![forbid(unsafe_code)]") {
        faults.push(format!(
            "{name}: #![forbid(unsafe_code)] (unsafe is for {})",
            MAY_BE_UNSAFE.join(", ")
        ));
    }
    if one.folder.starts_with("components") {
        for lint in COMPONENT_LINTS.iter().filter(|lint| !text.contains(**lint)) {
            faults.push(format!("{name}: denies {lint}: a panic would take the system along"));
        }
    }
}
