//! Runs the packet scripts of the folder `scripts`; `docs/packet-scripts.md` tells how to write one.
mod script;

use std::{fs, path::Path};

/// The scripts, by name. `SCRIPT=name` chooses those whose name contains it.
fn scripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let filter = std::env::var("SCRIPT").unwrap_or_default();
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "txt"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .filter(|(name, _)| name.contains(&filter))
        .collect();
    all.sort();
    all
}

#[test]
fn every_script_passes() {
    let all = scripts();
    assert!(!all.is_empty(), "no script");
    let faults: Vec<String> = all
        .iter()
        .filter_map(|(name, text)| {
            script::run::run(text).err().map(|fault| format!("{name}: {fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {} fail:\n{}", faults.len(), all.len(), faults.join("\n"));
}

#[test]
fn every_script_begins_with_its_source() {
    for (name, text) in scripts() {
        let first = text.lines().next().unwrap_or("");
        let has_source = ["RFC", "Linux", "Skerry"].iter().any(|source| first.contains(source));
        assert!(first.starts_with("# ") && has_source, "{name}: the first line names no source");
    }
}

#[test]
fn a_wrong_script_fails() {
    let wrong = [
        "establish\nwrite 100\n",
        "establish\nwrite 100\n> P. 1:102(101) ack 1\n",
        "establish\nwrite 100\n> . 1:101(100) ack 1\n",
        "establish\nwrite 100\n+0.1 > P. 1:101(100) ack 1\n",
        "establish\n> . 1:1(0) ack 1\n",
        "establish\nexpect state CLOSED\n",
    ];
    for text in wrong {
        assert!(script::run::run(text).is_err(), "{text}");
    }
    assert_eq!(script::run::run("establish\nwrite 100\n> P. 1:101(100) ack 1\n"), Ok(()));
}
