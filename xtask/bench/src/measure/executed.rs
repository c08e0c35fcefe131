//! Instructions that a guest executed, by the plugin of QEMU in `bench/plugin`. Idle processors are not counted, and the guest's
//! clock runs as ever, which it does not under `-icount` where a disk is waited for.
use anyhow::{Context, Result, bail};
use harness::{plugin, qemu, shell};
use std::path::{Path, PathBuf};

/// The mark at the beginning of a part.
const BEGIN: u32 = 1;
/// Number of the mark at the end.
const END: u32 = 2;
/// The mark at the beginning of a probe, which measures some parts.
const PROBE: u32 = 3;

/// The options of a guest whose instructions are counted.
#[derive(Debug)]
pub struct Counter {
    plugin: PathBuf,
    out: PathBuf,
}

/// The counts of a guest.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted {
    /// Instructions before the first mark.
    pub boot: u64,
    /// Instructions in each part.
    pub parts: Vec<u64>,
}

impl Counter {
    /// Builds the plugin; its counts go to a file `name` of `build/`.
    ///
    /// # Errors
    /// Fails if the plugin does not build.
    pub fn new(name: &str) -> Result<Counter> {
        let plugin = plugin::build("instructions")?;
        Ok(Counter { plugin, out: shell::build_path(name)? })
    }

    /// Returns the arguments of QEMU.
    pub fn arguments(&self) -> Vec<String> {
        let (plugin, out) = (qemu::escaped(&self.plugin), qemu::escaped(&self.out));
        vec!["-plugin".to_owned(), format!("{plugin},out={out}")]
    }

    /// Reads the instructions that the last guest executed.
    ///
    /// # Errors
    /// Fails if the counts cannot be read, or lack the mark of a beginning or an end.
    pub fn read(&self) -> Result<Counted> {
        let text = std::fs::read_to_string(&self.out)
            .with_context(|| format!("reading {}", self.out.display()))?;
        counted(&text).with_context(|| format!("in {}", self.out.display()))
    }

    /// Reads the instructions of each probe between its beginnings and their ends. A probe that was cut short has fewer.
    ///
    /// # Errors
    /// Fails if the counts cannot be read.
    pub fn read_probes(&self) -> Result<Vec<Vec<u64>>> {
        let text = std::fs::read_to_string(&self.out)
            .with_context(|| format!("reading {}", self.out.display()))?;
        Ok(probes(&text))
    }

    /// Returns the path of the file with the counts.
    pub fn out(&self) -> &Path {
        &self.out
    }
}

fn counted(text: &str) -> Result<Counted> {
    let marks: Vec<(u32, u64)> = text.lines().filter_map(mark).collect();
    let boot = marks.first().context("no mark")?.1;
    let mut parts = Vec::new();
    let mut begun = None;
    for (number, total) in marks {
        match (number, begun) {
            (BEGIN, None) => begun = Some(total),
            (END, Some(start)) => {
                parts.push(total - start);
                begun = None;
            }
            (BEGIN | END, _) => bail!("a part begins within another, or ends outside any"),
            _ => {}
        }
    }
    if begun.is_some() { bail!("a part does not end") } else { Ok(Counted { boot, parts }) }
}

fn probes(text: &str) -> Vec<Vec<u64>> {
    let mut probes: Vec<Vec<u64>> = Vec::new();
    let mut begun = None;
    for (number, total) in text.lines().filter_map(mark) {
        match (number, begun.take(), probes.last_mut()) {
            (PROBE, ..) => probes.push(Vec::new()),
            (BEGIN, ..) => begun = Some(total),
            (END, Some(start), Some(parts)) => parts.push(total - start),
            _ => {}
        }
    }
    probes
}

/// Parses the number and the total of a line `mark NUMBER TOTAL`.
fn mark(line: &str) -> Option<(u32, u64)> {
    let (number, total) = line.strip_prefix("mark ")?.split_once(' ')?;
    Some((number.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_between_marks() {
        let text = "mark 3 100\nmark 1 110\nmark 2 150\nmark 1 160\nmark 2 161\nblock 1 2 3 0f\n";
        assert_eq!(counted(text).unwrap(), Counted { boot: 100, parts: vec![40, 1] });
        assert!(probes("mark 1 1\nmark 2 2\n").is_empty());
        let cut = "mark 3 0\nmark 1 1\nmark 2 5\nmark 1 6\nmark 3 9\nmark 1 10\nmark 2 12\n";
        assert_eq!(probes(cut), [[4], [2]]);
        for bad in ["", "mark 1 1\n", "mark 2 1\n", "mark 1 1\nmark 1 2\nmark 2 3\n"] {
            assert!(counted(bad).is_err(), "{bad:?}");
        }
    }
}
