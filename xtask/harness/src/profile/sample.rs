//! `./x profile --sample`: a command with the sampling profiler of the system itself on (`/proc/skerry/profile`,
//! `components/posix/process/src/profile.rs`), in any build and at nearly full speed.
use super::{calls::USER, flame::Graph, names::Names, path, table::share};
use crate::{
    guest::{self, Outcome},
    qemu::Config,
    session::{Captured, Streams},
};
use anyhow::{Context, Result, ensure};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Mark on stderr before the samples.
const MARK: &str = "@@samples@@\n";
const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_US: u64 = 1_000;
/// Name for frames of a program, whose symbols are not read.
const UNKNOWN: &str = "[unknown]";

/// The request for a run.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Number of samples a second.
    pub rate: u64,
    /// Number of rows in the table.
    pub rows: usize,
    /// The run's end at the latest.
    pub limit_seconds: Option<u64>,
}

/// A sample of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    time_ns: u64,
    processor: u32,
    process: u32,
    task: u32,
    /// Calls in the kernel, innermost first.
    kernel: Vec<u64>,
    program: Vec<u64>,
    command: String,
}

impl Sample {
    /// Parses a line of `/proc/skerry/profile`.
    fn of(line: &str) -> Option<Sample> {
        let mut words = line.splitn(7, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let [processor, time_ns, process, task] = [number()?, number()?, number()?, number()?];
        let mut calls = || match words.next()? {
            "-" => Some(Vec::new()),
            list => list.split(',').map(|word| u64::from_str_radix(word, 16).ok()).collect(),
        };
        Some(Sample {
            time_ns,
            processor: processor.try_into().ok()?,
            process: process.try_into().ok()?,
            task: task.try_into().ok()?,
            kernel: calls()?,
            program: calls()?,
            command: words.next()?.to_owned(),
        })
    }

    /// Returns the path of its calls, outermost first: the command, and the kernel's functions or the program.
    fn path<'a>(&'a self, names: &'a Names) -> Vec<&'a str> {
        let kernel = self.kernel.iter().rev().map(|&at| names.at(at).unwrap_or(UNKNOWN));
        let program = if self.kernel.is_empty() { Some(USER) } else { None };
        std::iter::once(&*self.command).chain(kernel).chain(program).collect()
    }
}

/// The samples of a run.
struct Samples {
    rate: u64,
    lost: u64,
    /// All samples, by time.
    all: Vec<Sample>,
}

impl Samples {
    fn of(text: &str, rate: u64) -> Result<Samples> {
        let mut samples = Samples { rate, lost: 0, all: Vec::new() };
        for line in text.lines() {
            if let Some((_, lost)) = line.split_once(", lost ") {
                samples.lost = lost.parse().with_context(|| format!("what is {line:?}?"))?;
            } else {
                let sample = Sample::of(line).with_context(|| format!("what is {line:?}?"))?;
                samples.all.push(sample);
            }
        }
        samples.all.sort_by_key(|sample| sample.time_ns);
        Ok(samples)
    }

    /// Formats the samples as `perf script` prints them.
    fn perf_script(&self, names: &Names) -> String {
        let mut text = String::new();
        for Sample { time_ns, processor, process, task, kernel, program, command } in &self.all {
            let (seconds, us) = (time_ns / NS_PER_S, time_ns % NS_PER_S / NS_PER_US);
            let _ = writeln!(
                text,
                "{command:>16} {process:>5}/{task:<5} [{processor:03}] {seconds:>5}.{us:06}: {:>10} cpu-clock:",
                NS_PER_S / self.rate
            );
            for &at in kernel {
                let name = names.at(at).unwrap_or(UNKNOWN);
                let _ = writeln!(text, "\t{at:>16x} {name} ([kernel.kallsyms])");
            }
            for at in program {
                let _ = writeln!(text, "\t{at:>16x} {UNKNOWN} ({command})");
            }
            text.push('\n');
        }
        text
    }

    /// Formats the first `count` functions by samples of their own; then by samples with those of their callees.
    fn table(&self, names: &Names, count: usize) -> String {
        let mut rows: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let paths: Vec<_> = self.all.iter().map(|sample| sample.path(names)).collect();
        for path in &paths {
            if let Some(last) = path.last() {
                rows.entry(last).or_default().0 += 1;
            }
            let once: BTreeSet<_> = path.iter().skip(1).collect();
            once.into_iter().for_each(|name| rows.entry(name).or_default().1 += 1);
        }
        let all = self.all.len() as u64;
        let mut text =
            format!("{all} samples, {} lost\n{:>9}{:>9}  name\n", self.lost, "% net", "% elapsed");
        let mut sorted: Vec<_> = rows.into_iter().collect();
        sorted.sort_by_key(|(_, counts)| Reverse(*counts));
        for (name, (net, elapsed)) in sorted.into_iter().take(count) {
            let (net, elapsed) = (share(net, all), share(elapsed, all));
            let _ = writeln!(text, "{net:>8.2}%{elapsed:>8.2}%  {name}");
        }
        text
    }
}

/// Returns the script that the guest runs: `command` while it is sampled. Meanwhile the collected samples are saved each
/// second.
fn script(command: &str, rate: u64) -> String {
    let quoted = command.replace('\'', "'\\''");
    format!(
        "file=/proc/skerry/profile\n\
         echo {rate} > $file || exit 1\n\
         while [ ! -e /tmp/.sampled ]; do sleep 1; cat $file; done > /tmp/.samples </dev/null &\n\
         /bin/sh -c '{quoted}'\n\
         status=$?\n\
         echo 0 > $file; : > /tmp/.sampled; wait\n\
         printf '{MARK}' >&2; cat /tmp/.samples $file >&2\n\
         exit $status"
    )
}

/// Runs `command` on `config`, sampled, prints the first functions and writes the stacks to `build/profile/`.
///
/// # Errors
/// Fails if QEMU does not start, nothing was sampled, or a file cannot be written.
pub fn report(config: &Config, command: &str, title: &str, wanted: &Wanted) -> Result<Outcome> {
    let names = Names::of(&config.kernel)?;
    let error = Captured::default();
    let streams = Streams { error: Box::new(error.clone()), ..Streams::ours() };
    let script = script(command, wanted.rate);
    let outcome = guest::execute(config, &script, streams, wanted.limit_seconds)?;
    let said = String::from_utf8_lossy(&error.take()).into_owned();
    let (said, text) = said.split_once(MARK).unwrap_or((&said, ""));
    eprint!("{said}");
    ensure!(!text.is_empty(), "nothing was sampled ({outcome})");
    let samples = Samples::of(text, wanted.rate)?;
    println!("{title}, {} samples a second\n{}", wanted.rate, samples.table(&names, wanted.rows));
    let mut graph = Graph::default();
    samples.all.iter().for_each(|sample| graph.add(&sample.path(&names), 1));
    for (name, text) in [
        ("samples.txt", samples.perf_script(&names)),
        ("samples.svg", graph.draw(title, "samples")),
    ] {
        let file = path(name)?;
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    println!("in {}: samples.txt, samples.svg", path("")?.display());
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# rate 1000, lost 2\n1 2000003000 7 8 25,12 401000 a sh\n\
        0 1000 0 0 - 40 virtio-blk\n# rate 0, lost 3\n1 5000 7 8 15 - sh\n";

    fn names() -> Names {
        Names::named([(0x10, "run"), (0x20, "read")])
    }

    #[test]
    fn samples_are_read_and_ordered_by_time() {
        let samples = Samples::of(TEXT, 1000).unwrap();
        assert_eq!((samples.lost, samples.all.len()), (3, 3));
        assert_eq!(samples.all[2].path(&names()), ["a sh", "run", "read"]);
        assert_eq!(samples.all[0].path(&names()), ["virtio-blk", USER]);
        for bad in ["1 2 3", "1 2 3 4 x - sh", "what"] {
            assert!(Samples::of(bad, 1000).is_err(), "{bad}");
        }
    }

    #[test]
    fn they_are_printed_as_perf_does() {
        let text = Samples::of(TEXT, 1000).unwrap().perf_script(&names());
        let last = "            a sh     7/8     [001]     2.000003:    1000000 cpu-clock:\n\
            \t              25 read ([kernel.kallsyms])\n\
            \t              12 run ([kernel.kallsyms])\n\
            \t          401000 [unknown] (a sh)\n\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn the_table_is_by_samples_of_their_own() {
        let text = Samples::of(TEXT, 1000).unwrap().table(&names(), 1);
        let words: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(words, ["33.33%", "66.67%", "run"]);
        assert!(text.starts_with("3 samples, 3 lost\n") && text.lines().count() == 3);
    }

    #[test]
    fn a_command_reaches_the_shell_as_it_is() {
        assert!(script("echo 'a b'", 99).contains(r"-c 'echo '\''a b'\'''"));
    }
}
