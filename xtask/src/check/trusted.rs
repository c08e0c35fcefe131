//! The trusted base: the code in ring 0 on which the isolation of every component depends.
//!
//! It is the nucleus, rt's kernel back end, and each library of the workspace that these two link, directly or not. Two
//! limits hold: one for the first two together, one for all. A third holds for the monitor, which decides who may access what.
//! Crates from outside are named and not counted. The rest of rt is the same in every world: components link it, and neither it
//! nor a library that it alone names counts.
use super::{Crate, count::Counts};
use anyhow::Result;
use std::{collections::BTreeSet, fs, io, path::PathBuf};

/// The greatest number of lines of code of the nucleus and rt's kernel back end together.
const KERNEL_MAX: usize = 10_000;
/// The greatest number of lines of code of the whole trusted base.
const ALL_MAX: usize = 18_000;
/// The greatest number of lines of code of the reference monitor.
const MONITOR_MAX: usize = 1_500;

/// One part of the trusted base.
struct Part<'a> {
    name: &'a str,
    code: usize,
    unsafe_blocks: usize,
}

/// Prints the parts of the trusted base, and adds a fault for each limit that is exceeded.
pub fn check(rows: &[(&Crate, Counts)], faults: &mut Vec<String>) {
    let (libraries, outside) = linked(rows);
    let kernel: Vec<Part> =
        rows.iter().filter_map(|(one, counts)| kernel_part(one, counts)).collect();
    let libraries: Vec<Part> = rows
        .iter()
        .filter(|(one, _)| libraries.contains(one.name.as_str()))
        .map(|(one, counts)| Part {
            name: &one.name,
            code: counts.code,
            unsafe_blocks: counts.unsafe_blocks,
        })
        .collect();
    println!("\n{:<20} {:>8} {:>8}", "trusted base", "code", "unsafe");
    for part in kernel.iter().chain(&libraries) {
        println!("{:<20} {:>8} {:>8}", part.name, part.code, part.unsafe_blocks);
    }
    let lines = |parts: &[Part]| parts.iter().map(|part| part.code).sum::<usize>();
    let all = lines(&kernel) + lines(&libraries);
    let all_unsafe: usize = kernel.iter().chain(&libraries).map(|part| part.unsafe_blocks).sum();
    println!("{:<20} {all:>8} {all_unsafe:>8}", "all");
    println!("crates from outside, not counted: {}", Vec::from_iter(outside).join(", "));
    judge("nucleus and rt's kernel back end", lines(&kernel), KERNEL_MAX, faults);
    judge("the trusted base", all, ALL_MAX, faults);
    match rows.iter().find(|(one, _)| one.name == "monitor") {
        Some((_, counts)) => judge("the monitor", counts.code, MONITOR_MAX, faults),
        None => faults.push("there is no crate `monitor`".to_owned()),
    }
}

fn judge(what: &str, lines: usize, limit: usize, faults: &mut Vec<String>) {
    let text = format!("{what}: {lines} lines of code (limit {limit})");
    println!("{text}");
    if lines > limit {
        faults.push(text);
    }
}

/// The part of the nucleus or of rt's kernel back end.
fn kernel_part<'a>(one: &'a Crate, counts: &Counts) -> Option<Part<'a>> {
    match one.name.as_str() {
        "nucleus" => {
            Some(Part { name: &one.name, code: counts.code, unsafe_blocks: counts.unsafe_blocks })
        }
        "rt" => Some(Part {
            name: "rt/src/kernel",
            code: counts.kernel_code,
            unsafe_blocks: counts.kernel_unsafe,
        }),
        _ => None,
    }
}

/// Returns those of rt's `dependencies` that the files of its kernel back end, among `files`, name.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn named_in_kernel(files: &[PathBuf], dependencies: Vec<String>) -> Result<Vec<String>> {
    let is_kernels = |file: &&PathBuf| file.components().any(|part| part.as_os_str() == "kernel");
    let texts: Vec<String> =
        files.iter().filter(is_kernels).map(fs::read_to_string).collect::<io::Result<_>>()?;
    let is_named = |name: &String| {
        let path = format!("{}::", name.replace('-', "_"));
        texts.iter().any(|text| text.contains(&path))
    };
    Ok(dependencies.into_iter().filter(is_named).collect())
}

/// The names of the libraries that the nucleus and rt's kernel back end link into the kernel, and of the crates from outside.
fn linked<'a>(rows: &[(&'a Crate, Counts)]) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let (mut libraries, mut outside) = (BTreeSet::new(), BTreeSet::new());
    let mut pending = vec!["nucleus", "rt"];
    while let Some(name) = pending.pop() {
        let Some((one, _)) = rows.iter().find(|(one, _)| one.name == name) else {
            outside.insert(name);
            continue;
        };
        let is_library = one.folder.starts_with("libs");
        if !is_library || libraries.insert(one.name.as_str()) {
            let next = one.kernel_dependencies.iter().map(String::as_str);
            pending.extend(next.filter(|next| *next != "nucleus"));
        }
    }
    (libraries, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(name: &str, folder: &str, dependencies: &[&str]) -> Crate {
        let kernel_dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        Crate { name: name.into(), folder: folder.into(), kernel_dependencies, ..Crate::default() }
    }

    /// The nucleus, rt, a library of the nucleus, a library of that one, one of a component, and the monitor.
    fn crates() -> [Crate; 6] {
        [
            make("nucleus", "nucleus", &["pmap", "log"]),
            make("rt", "rt", &["nucleus", "bitflags"]),
            make("pmap", "libs/pmap", &["buddy"]),
            make("buddy", "libs/buddy", &["pmap"]),
            make("bpf", "libs/bpf", &[]),
            make("monitor", "components/monitor", &[]),
        ]
    }

    fn faults(crates: &[Crate; 6], lines: [usize; 6]) -> Vec<String> {
        let counts = |code| Counts { code, kernel_code: code, ..Counts::default() };
        let rows: Vec<_> = crates.iter().zip(lines.map(counts)).collect();
        let mut faults = Vec::new();
        check(&rows, &mut faults);
        faults
    }

    #[test]
    fn each_limit_counts_its_parts_alone() {
        let crates = crates();
        assert!(faults(&crates, [KERNEL_MAX - 5, 5, 8000, 0, 50_000, MONITOR_MAX]).is_empty());
        assert_eq!(faults(&crates, [KERNEL_MAX - 5, 6, 0, 0, 0, 0]).len(), 1);
        assert_eq!(faults(&crates, [KERNEL_MAX - 5, 5, 7999, 2, 0, 0]).len(), 1);
        assert_eq!(faults(&crates, [KERNEL_MAX, 1, 8000, 0, 0, 0]).len(), 2);
        assert_eq!(faults(&crates, [0, 0, 0, 0, 0, MONITOR_MAX + 1]).len(), 1);
    }

    #[test]
    fn libraries_of_libraries_are_linked_and_outsiders_named() {
        let crates = crates();
        let rows: Vec<_> = crates.iter().map(|one| (one, Counts::default())).collect();
        let (libraries, outside) = linked(&rows);
        assert_eq!(Vec::from_iter(libraries), ["buddy", "pmap"]);
        assert_eq!(Vec::from_iter(outside), ["bitflags", "log"]);
    }
}
