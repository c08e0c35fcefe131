//! `./x campaign stress`: every stressor of stress-ng on Linux and on Skerry, one after the other (docs/stress.md).
//!
//! On Skerry each runs between two counts of the kernel's objects, which must agree in the first run or in one of [`AGAIN`]
//! more. If a machine stops, the stressor at which it stopped is noted and the rest runs in another machine.
use crate::{
    campaign::Options,
    test::compare::{Answer, Answers, Case, Reference, STRESS},
};
use anyhow::Result;
use harness::{
    build::{self, Features},
    shell,
};
use std::{collections::BTreeMap, fmt::Write, fs};

/// Number of stressors in one boot.
const BATCH: usize = 32;
/// Duration of one stressor in seconds.
const SECONDS: u64 = 3;
/// Switches loopback on, which many stressors need: `SIOCSIFFLAGS` with `IFF_UP` (netdevice(7)).
const LOOPBACK: &str = r#"perl -e '$r = pack("a16 s x22", "lo", 1); socket(S, 2, 2, 0) && ioctl(S, 0x8914, $r) || die'"#;
/// Further runs of a stressor whose run changed the number of objects. A table that grows in one run keeps its size in the
/// next; a leak recurs in each.
const AGAIN: u32 = 3;

/// The result of a stressor on one system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    /// Status of stress-ng (stress-ng(1), EXIT STATUS).
    status: String,
    /// Kernel objects whose numbers changed, and the changes.
    kept: String,
    /// Message of stress-ng: its first failure, or else its last error or skip.
    said: String,
}

impl End {
    fn stopped(system: &Answers) -> End {
        let said = format!("the system stopped: {}", system.end);
        End { status: "stopped".to_owned(), kept: String::new(), said }
    }

    fn of(answer: &Answer) -> End {
        let text = String::from_utf8_lossy(&answer.output);
        let lines = text.lines().map(str::trim);
        let status = lines.clone().find_map(|line| line.strip_prefix("stress-ng ended with "));
        let holds = |line: &&str, words: &[&str]| words.iter().any(|word| line.contains(word));
        let failure = lines.clone().find(|line| holds(line, &["fail:"]));
        let said = failure.or_else(|| lines.clone().rfind(|line| holds(line, &["error:", "skip"])));
        let said = said.unwrap_or_default();
        let said = said.rsplit_once("] ").map_or(said, |(_, said)| said);
        let is_clean = !lines.clone().any(|line| line == "not all came back");
        // Only the last run counts.
        let kept = lines.rev().take_while(|line| !line.starts_with("before ")).filter_map(kept);
        let mut kept: Vec<String> = if is_clean { Vec::new() } else { kept.collect() };
        kept.reverse();
        let kept = kept.join(", ");
        End { status: status.unwrap_or("time").to_owned(), kept, said: said.to_owned() }
    }

    fn word(&self) -> &str {
        match self.status.as_str() {
            "0" => "passed",
            "1" | "2" => "failed",
            "3" => "no resources",
            "4" => "not implemented",
            "5" => "ended by a signal",
            "6" => "metrics in doubt",
            "time" => "ended by time",
            other => other,
        }
    }

    /// Returns whether the stressor passed or was refused, and left no objects behind.
    fn is_good(&self) -> bool {
        self.kept.is_empty() && matches!(self.status.as_str(), "0" | "3" | "4")
    }
}

/// Returns an object whose number changed according to `counted` (tests/abi), and the change; `None` for objects that the
/// processors cache.
fn kept(line: &str) -> Option<String> {
    const KEPT_FOR_LATER: [&str; 7] =
        ["stack", "slab", "frame", "pool_frames", "heap_frames", "table_frames", "free_frames"];
    let (rest, after) = line.strip_suffix("differs")?.trim_end().rsplit_once(' ')?;
    let (name, before) = rest.trim_end().rsplit_once(' ')?;
    let (name, before) = (name.trim_end(), before.parse::<i64>().ok()?);
    let more = after.parse::<i64>().ok()? - before;
    (!KEPT_FOR_LATER.contains(&name)).then(|| format!("{more:+} {name}"))
}

/// Runs all stressors, or the first `count`.
///
/// # Errors
/// Fails if a system does not start or the page cannot be written.
pub fn run(options: &Options) -> Result<u8> {
    let kernel = build::image("default", &Features::default())?;
    let list = STRESS.cases()?;
    let mut names: Vec<String> = list.iter().map(|case| case.command.clone()).collect();
    names.truncate(options.count.map_or(usize::MAX, |count| count as usize));
    names.retain(|name| options.only.is_empty() || options.only.contains(name));
    let reasons: BTreeMap<String, String> =
        list.into_iter().filter_map(|case| Some((case.command, case.known?))).collect();
    let mut ends: [BTreeMap<String, End>; 2] = Default::default();
    loop {
        let is_open = |name: &&String| ends.iter().any(|ends| !ends.contains_key(*name));
        let batch: Vec<String> = names.iter().filter(is_open).take(BATCH).cloned().collect();
        if batch.is_empty() {
            break;
        }
        let cases: Vec<Case> = batch.iter().map(|name| case(name)).collect();
        for (ends, answers) in ends.iter_mut().zip(STRESS.ask(&kernel, &cases, Reference::Plain)?) {
            for (name, answer) in batch.iter().zip(&answers.all) {
                ends.entry(name.clone()).or_insert_with(|| End::of(answer));
            }
            let stopped = batch.get(answers.all.len()).filter(|_| !answers.is_whole);
            if let Some(name) = stopped {
                ends.entry(name.clone()).or_insert_with(|| End::stopped(&answers));
            }
        }
        println!("{} of {}", ends.iter().map(BTreeMap::len).min().unwrap_or(0), names.len());
    }
    let [linux, skerry] = ends;
    let page = page(&linux, &skerry, &reasons);
    print!("{page}");
    if options.record {
        fs::write(shell::root().join("docs/stress.md"), page)?;
    }
    let is_good = |(name, end): (&String, &End)| {
        let is_as_linux = linux.get(name).is_some_and(|theirs| theirs.status == end.status);
        end.is_good() || end.kept.is_empty() && (is_as_linux || reasons.contains_key(name))
    };
    Ok(u8::from(!skerry.iter().all(is_good)))
}

/// Returns the command for a stressor. Its output goes to a file, because a pipe in use keeps memory. It first runs for a
/// moment, because objects made at a first use stay.
fn case(name: &str) -> Case {
    let run = |seconds| {
        format!(
            "stress-ng --{name} 1 --timeout {seconds}s --verify --temp-path /var/work > /var/work/said 2>&1; \
             echo stress-ng ended with \\$? >> /var/work/said"
        )
    };
    let (first, stressor) = (run(1), run(SECONDS));
    let command = format!(
        "{LOOPBACK}; touch /var/work/said; if [ -e /proc/skerry/objects ]; then /compare/counted --after \"{first}\" --again {AGAIN} \"{stressor}\"; \
         else sh -c \"{stressor}\"; fi; cat /var/work/said"
    );
    Case { command, known: None, is_sample: false }
}

fn page(
    linux: &BTreeMap<String, End>,
    skerry: &BTreeMap<String, End>,
    reasons: &BTreeMap<String, String>,
) -> String {
    let mut text = format!(
        "# stress-ng\n\nMade by `./x campaign stress --record`: `stress-ng --STRESSOR 1 --timeout {SECONDS}s --verify` for each stressor \
         of Debian 12's stress-ng, as root, on Debian's cloud kernel and on Skerry (`default`), in the same QEMU on the same \
         image. On Skerry every object of the kernel's is counted before and after each; a stressor after which one is missing or more runs again, up to {AGAIN} times, and is \
         noted where it is so each time.\n\n| Linux | Skerry | | stressors |\n| --- | --- | ---: | --- |\n"
    );
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (name, end) in skerry {
        let theirs = linux.get(name).map_or("-", End::word);
        groups.entry((theirs, end.word())).or_default().push(name);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for ((theirs, ours), names) in groups {
        let _ = writeln!(text, "| {theirs} | {ours} | {} | {} |", names.len(), names.join(", "));
    }
    let is_told = |(name, end): &(&String, &End)| {
        end.status != "0" && linux.get(*name).is_none_or(|theirs| theirs.status != end.status)
            || !end.kept.is_empty()
    };
    let told: Vec<_> = skerry.iter().filter(is_told).collect();
    if !told.is_empty() {
        text.push_str("\nWhere Skerry differs, what stress-ng said there, and why it is so:\n\n| stressor | Skerry | said | why |\n| --- | --- | --- | --- |\n");
    }
    for (name, end) in told {
        let kept = if end.kept.is_empty() { "" } else { "; kept: " };
        let why = reasons.get(name).map_or("", String::as_str);
        let _ =
            writeln!(text, "| {name} | {}{kept}{} | {} | {why} |", end.word(), end.kept, end.said);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(output: &str) -> End {
        End::of(&Answer { output: output.as_bytes().to_vec(), status: "0".to_owned() })
    }

    #[test]
    fn what_was_said_is_understood() {
        let passed =
            end("stress-ng: info:  [3] dispatching\nstress-ng ended with 0\nall came back\n");
        assert_eq!((passed.word(), passed.is_good()), ("passed", true));
        let failed = end(
            "stress-ng: fail:  [7] get: no such thing\nstress-ng ended with 2\nspace 1 3  differs\nnot all came back\n",
        );
        assert_eq!(
            (failed.word(), failed.said.as_str(), failed.is_good()),
            ("failed", "get: no such thing", false)
        );
        assert_eq!(failed.kept, "+2 space");
        let twice = "space 1 3  differs\nnot all came back, once more\n   before  after\n";
        let ended = "stress-ng ended with 0\n";
        assert!(end(&format!("{twice}space 3 3\nall came back\n{ended}")).is_good());
        let twice = end(&format!("{twice}space 3 4  differs\nnot all came back\n{ended}"));
        assert_eq!((twice.kept.as_str(), twice.is_good()), ("+1 space", false));
        assert_eq!(end("stress-ng: info").word(), "ended by time");
    }

    #[test]
    fn a_page_has_each_stressor_and_what_differs() {
        let ends = |status: &str| {
            let end =
                End { status: status.to_owned(), kept: String::new(), said: "why".to_owned() };
            BTreeMap::from([("access".to_owned(), end)])
        };
        let reasons = BTreeMap::from([("access".to_owned(), "for a reason".to_owned())]);
        assert!(!page(&ends("0"), &ends("0"), &reasons).contains("reason"));
        let differs = page(&ends("0"), &ends("4"), &reasons);
        assert!(differs.contains("| passed | not implemented | 1 | access |"));
        assert!(differs.contains("| access | not implemented | why | for a reason |"));
    }
}
