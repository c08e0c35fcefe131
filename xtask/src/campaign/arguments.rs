//! `./x campaign arguments`: every described call with every class of arguments (the descriptions are in
//! tests/abi/src/arguments/), on Debian's Linux and on Skerry in the same QEMU. Answers and effects are compared. Differences are
//! grouped by the call and what it does on each system. Each must be accepted in `tests/system/arguments.txt`.
use anyhow::{Context, Result, anyhow, ensure};
use harness::{
    build::{self, Features},
    disk, guest, linux,
    qemu::Config,
    session::{self, Ended},
    shell,
    tally::{Tally, Target},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// Time limit of a case, on a machine without hardware virtualisation that runs other work, too.
const BOUND_MS: u32 = 10_000;
/// The time limit of all cases.
const LIMIT_SECONDS: u64 = 3 * 3600;
/// One case in this many is in the sample of `./x test`.
const SAMPLE_STRIDE: u64 = 97;
/// Path of the list of accepted differences.
const ACCEPTED: &str = "tests/system/arguments.txt";
/// Approximate number of described cases.
const ABOUT: u64 = 42_000;
/// The text at the start of [`PAGE`].
const INTRODUCTION: &str = include_str!("arguments.md");
/// The script that Linux's runner starts.
const SCRIPT: &str = "/arguments";

/// Folder of the descriptions: one file for each family of calls.
const DESCRIPTIONS: &str = "tests/abi/src/arguments/descriptions";
/// Name of the description that all families share.
const COMMON: &str = "common";
/// The page that shows the accepted differences.
const PAGE: &str = "docs/arguments.md";

/// The answer and the changes of each case, by its name.
type Answers = BTreeMap<String, String>;
/// The kind of each difference, by the case's name.
type Differences = BTreeMap<String, String>;
/// The cases of each group of differences.
type Groups = BTreeMap<String, Vec<String>>;

/// The choice of cases to try: those of one family (or of all, if its name is empty), one of every `stride`, from the first.
struct Choice<'a> {
    family: &'a str,
    every: u64,
    first: u64,
}

/// Runs the campaign. `--only` names one family, `--count` is the number of cases tried, and `--seed` names the first. An
/// accepted difference that no longer occurs is a failure only if all cases are tried.
///
/// # Errors
/// If the programs do not build or a machine does not start.
pub fn run(options: &super::Options) -> Result<u8> {
    let family = options.only.first().map_or("", String::as_str);
    check_family(family)?;
    let every = options.count.map_or(1, |count| (ABOUT / count.max(1)).max(1));
    let choice = Choice { family, every, first: (options.seed.max(1) - 1) % every };
    let processors = u32::try_from(shell::processors()).unwrap_or(1);
    let [linux, skerry] = ask("default", &choice, options.cpus.min(processors))?;
    let differences = differences(&linux, &skerry);
    let listed = shell::build_path("arguments-differences.txt")?;
    fs::write(&listed, written(&differences, &linux, &skerry))?;
    let accepted = accepted()?;
    let cases = if family.is_empty() && every == 1 { Cases::All } else { Cases::Some };
    let failures = failures(&differences, &accepted, cases);
    failures.iter().for_each(|failure| println!("{failure}"));
    if options.record && cases == Cases::All {
        fs::write(shell::root().join(PAGE), page(linux.len(), &differences, &accepted))?;
    }
    println!(
        "{} cases, {} differ, {} failures: {}",
        linux.len(),
        differences.len(),
        failures.len(),
        listed.display()
    );
    Ok(u8::from(!failures.is_empty() || linux.is_empty()))
}

/// Tries the sample of `./x test`. Differences beyond the accepted ones are failures.
///
/// # Errors
/// Those of [`run`].
pub fn sample(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    const NAME: &str = "a sample of every argument";
    if !filter.is_none_or(|filter| NAME.contains(filter)) {
        return Ok(());
    }
    let choice = Choice { family: "", every: SAMPLE_STRIDE, first: 0 };
    let [linux, skerry] = ask(&target.system, &choice, 2)?;
    let failures = failures(&differences(&linux, &skerry), &accepted()?, Cases::Some);
    let result = match (failures.is_empty(), linux.is_empty()) {
        (true, false) => Ok(()),
        (_, true) => Err("no case ran on Linux".to_owned()),
        _ => Err(failures.join("\n")),
    };
    tally.count(NAME, result);
    Ok(())
}

/// Number of cases that each system has reported, and the bar that shows them.
#[derive(Clone)]
struct Progress {
    counts: Arc<[AtomicU64; 2]>,
    bar: indicatif::ProgressBar,
}

/// Counts the cases that a system reports, and keeps its output.
struct Reported {
    output: session::Captured,
    progress: Progress,
    /// Index of the system in [`Progress::counts`].
    system: usize,
}

impl Write for Reported {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        /// Without a terminal, one line is printed each time this many more cases were reported.
        const LINE: u64 = 5_000;
        let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64;
        let before = self.progress.counts[self.system].fetch_add(lines, Relaxed);
        let [linux, skerry] = self.progress.counts.each_ref().map(|count| count.load(Relaxed));
        let message = format!("cases: {linux} on Linux, {skerry} on Skerry");
        if self.progress.bar.is_hidden() && before / LINE != (before + lines) / LINE {
            eprintln!("x: {message}");
        }
        self.progress.bar.set_message(message);
        self.output.write(data)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the answers of Linux and of Skerry, which run at the same time.
fn ask(system: &str, choice: &Choice, cpus: u32) -> Result<[Answers; 2]> {
    let kernel = build::image(system, &Features::default())?;
    let linux = linux::prepare()?;
    let Choice { family, every, first } = choice;
    let command = format!(
        "/abi/arguments {family} --every {every} --first {first} --workers {cpus} --bound {BOUND_MS}"
    );
    let tree = shell::build_path("arguments-root")?;
    disk::programs_tree(&tree)?;
    fs::write(tree.join(SCRIPT.trim_start_matches('/')), format!("{command} 2>/dev/null\n"))?;
    let image = shell::build_path("arguments.ext4")?;
    disk::pack(&tree, &image, &[])?;
    let machine = |kernel, log| -> Result<Config> {
        Ok(Config { cpus, ..guest::machine(kernel, &image, log)? })
    };
    let bar = shell::progress("every argument on Linux and Skerry");
    let progress = Progress { counts: Arc::default(), bar: bar.clone() };
    let outputs = [session::Captured::default(), session::Captured::default()];
    let reported = |system: usize| Reported {
        output: outputs[system].clone(),
        progress: progress.clone(),
        system,
    };
    let outcome = thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let config = machine(&linux.kernel, "arguments-linux.log")?;
            // This limits Linux to addresses below 2^47, as on Skerry.
            let runner = format!("no5lvl skerry.runner={SCRIPT}");
            linux::follow(&linux, config, &runner, LIMIT_SECONDS, &mut reported(0))
        });
        let streams = session::Streams {
            input: Box::new(io::empty()),
            output: Box::new(reported(1)),
            error: Box::new(io::sink()),
        };
        let ours = machine(&kernel, "arguments-skerry.log")
            .and_then(|config| guest::execute(&config, &command, streams, Some(LIMIT_SECONDS)));
        theirs.join().map_err(|_| anyhow!("Linux's side panicked"))??;
        ours
    })?;
    bar.finish_and_clear();
    if !matches!(outcome, guest::Outcome::Session(Ended::Exited(0))) {
        println!("Skerry: {outcome}");
    }
    Ok(outputs.map(|output| parse(&output.take())))
}

fn parse(output: &[u8]) -> Answers {
    let text = String::from_utf8_lossy(output);
    let case = |line: &str| {
        line.split_once(" = ").map(|(name, answer)| (name.to_owned(), answer.trim().to_owned()))
    };
    text.lines().filter_map(case).collect()
}

/// Returns the answer without its effect.
fn value(answer: &str) -> &str {
    answer.split_once("; ").map_or(answer, |(value, _)| value)
}

/// Returns the kind of a difference: the answers on each system, or `effect` and the state that differs.
fn kind(linux: &str, skerry: &str) -> String {
    let [theirs, ours] = [value(linux), value(skerry)].map(|value| match value {
        error if error.starts_with("error ") || error.starts_with("DI") => error,
        _ => "a value",
    });
    if theirs != ours {
        return format!("Linux {theirs}, Skerry {ours}");
    }
    if value(linux) != value(skerry) {
        return "another value".to_owned();
    }
    let changes = |answer: &str| -> BTreeSet<String> {
        answer.split("; ").skip(1).map(str::to_owned).collect()
    };
    let (theirs, ours) = (changes(linux), changes(skerry));
    let subject = |change: &String| change.split(": ").next().unwrap_or_default().to_owned();
    let subjects: BTreeSet<_> = theirs.symmetric_difference(&ours).map(subject).collect();
    format!("another effect on {}", subjects.into_iter().collect::<Vec<_>>().join(" and "))
}

/// Refuses a family without a description, before anything is built.
fn check_family(family: &str) -> Result<()> {
    let described = |family: &str| format!("{DESCRIPTIONS}/{family}.txt");
    let is_one =
        family.is_empty() || family != COMMON && shell::root().join(described(family)).is_file();
    ensure!(
        is_one,
        "no family `{family}`: {DESCRIPTIONS} describes them, each in a file of its name"
    );
    Ok(())
}

/// Returns the kind of each difference, by the case's name.
fn differences(linux: &Answers, skerry: &Answers) -> Differences {
    let differing = linux.iter().filter_map(|(name, theirs)| {
        let ours = skerry.get(name).map_or("DIED with its machine", String::as_str);
        (ours != theirs).then(|| (name.clone(), kind(theirs, ours)))
    });
    differing.collect()
}

/// Groups the cases of differences for which `is_wanted` returns `true`, by the call and the kind of the difference.
fn groups(differences: &Differences, is_wanted: impl Fn(&str) -> bool) -> Groups {
    let mut groups = Groups::new();
    for (name, kind) in differences {
        let call = name.split('(').next().unwrap_or_default();
        if is_wanted(&line(name, kind)) {
            groups.entry(format!("{call}: {kind}")).or_default().push(name.clone());
        }
    }
    groups
}

/// Formats a difference as the list of accepted ones names it.
fn line(name: &str, kind: &str) -> String {
    format!("{name}: {kind}")
}

/// Formats all differences as text.
fn written(differences: &Differences, linux: &Answers, skerry: &Answers) -> String {
    let none = String::new();
    let case = |name: &String| {
        let [theirs, ours] = [linux, skerry].map(|answers| answers.get(name).unwrap_or(&none));
        format!("  {name}\n    Linux  {theirs}\n    Skerry {ours}\n")
    };
    let group = |(group, cases): (&String, &Vec<String>)| {
        format!("{group} ({})\n{}", cases.len(), cases.iter().map(case).collect::<String>())
    };
    groups(differences, |_| true).iter().map(group).collect()
}

/// A reason and the patterns of differences that it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Accepted {
    reason: String,
    patterns: Vec<Pattern>,
}

/// Accepted differences: a `*` in the text is any text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    text: String,
    /// Every run has such a difference, whatever its timers do.
    is_steady: bool,
}

impl Pattern {
    fn accepts(&self, line: &str) -> bool {
        matches(&self.text, line)
    }
}

/// Parses the list. A line `@ REASON` precedes the patterns that it applies to. A `~` precedes a pattern for which a run may
/// have no difference. `#` opens a comment.
fn accepted_of(text: &str) -> Result<Vec<Accepted>> {
    let mut all: Vec<Accepted> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_prefix("@ ") {
            Some(reason) => all.push(Accepted { reason: reason.to_owned(), patterns: Vec::new() }),
            None => {
                let last = all.last_mut().with_context(|| format!("no reason before `{line}`"))?;
                let unsteady = line.strip_prefix("~ ");
                let text = unsteady.unwrap_or(line).to_owned();
                last.patterns.push(Pattern { text, is_steady: unsteady.is_none() });
            }
        }
    }
    Ok(all)
}

fn accepted() -> Result<Vec<Accepted>> {
    accepted_of(&fs::read_to_string(shell::root().join(ACCEPTED)).context(ACCEPTED)?)
}

/// Returns whether `pattern` describes the whole `text`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

/// The cases that ran.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cases {
    All,
    Some,
}

/// Returns the groups that are not accepted and, if all cases ran, the accepted patterns that match nothing.
fn failures(differences: &Differences, accepted: &[Accepted], cases: Cases) -> Vec<String> {
    let patterns: Vec<_> = accepted.iter().flat_map(|one| &one.patterns).collect();
    let new = groups(differences, |line| !patterns.iter().any(|pattern| pattern.accepts(line)));
    let new = new.iter();
    let new = new
        .map(|(group, cases)| format!("not accepted: {group} ({}, as {})", cases.len(), cases[0]));
    let lines: Vec<_> = differences.iter().map(|(name, kind)| line(name, kind)).collect();
    let gone = patterns
        .iter()
        .filter(|pattern| cases == Cases::All && pattern.is_steady)
        .filter(|pattern| !lines.iter().any(|line| pattern.accepts(line)))
        .map(|pattern| format!("gone: take it away: {}", pattern.text));
    new.chain(gone).collect()
}

/// Formats the page that shows the accepted differences.
fn page(cases: usize, differences: &Differences, accepted: &[Accepted]) -> String {
    let mut page = format!(
        "{INTRODUCTION}\nOf {cases} cases, {} differ.\n\n| Cases | Reason | As |\n|--:|---|---|\n",
        differences.len()
    );
    let lines: Vec<_> = differences.iter().map(|(name, kind)| line(name, kind)).collect();
    for Accepted { reason, patterns } in accepted {
        let its: Vec<_> =
            lines.iter().filter(|line| patterns.iter().any(|it| it.accepts(line))).collect();
        // A reason whose differences depend on timers stays on the page even if this run had none.
        let Some(as_in) = its.first().copied().or(patterns.first().map(|it| &it.text)) else {
            continue;
        };
        let as_in = as_in.replace('|', "/");
        page.push_str(&format!("| {} | {reason} | `{as_in}` |\n", its.len()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_grouped_by_call_and_kind() {
        let linux =
            parse(b"read(a) = error 9\nread(b) = error 9\ndup(a) = 0x3; x: 1 -> 2\nf() = 0x1\n");
        let skerry = parse(b"read(a) = error 22\nread(b) = 0x1\ndup(a) = 0x3; x: 1 -> 3\n");
        let groups = groups(&differences(&linux, &skerry), |_| true);
        let names: Vec<_> = groups.keys().map(String::as_str).collect();
        let expected = [
            "dup: another effect on x",
            "f: Linux a value, Skerry DIED with its machine",
            "read: Linux error 9, Skerry a value",
            "read: Linux error 9, Skerry error 22",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_new_difference_and_a_gone_one_are_failures() {
        let differences = Differences::from([("a(1)".to_owned(), "another value".to_owned())]);
        let accepted = |pattern| accepted_of(&format!("@ why\n{pattern}\n")).expect("a list");
        assert!(failures(&differences, &accepted("a(*): another value"), Cases::All).is_empty());
        assert_eq!(failures(&differences, &accepted("b(*): another value"), Cases::All).len(), 2);
        assert_eq!(failures(&differences, &accepted("b(*): another value"), Cases::Some).len(), 1);
        assert_eq!(failures(&differences, &accepted("~ b(*): another value"), Cases::All).len(), 1);
    }

    #[test]
    fn a_family_that_nothing_describes_is_refused() {
        assert!(check_family("").is_ok() && check_family("sockets").is_ok());
        assert!(check_family("nosuch").is_err() && check_family(COMMON).is_err());
    }

    #[test]
    fn a_star_is_any_text() {
        assert!(matches("a(*): x", "a(1, 2): x") && matches("*x*", "x") && matches("a", "a"));
        assert!(!matches("a(*): x", "a(1): xx") && !matches("a", "ab") && !matches("b*", "ab"));
    }

    #[test]
    fn each_accepted_difference_has_a_reason_that_the_page_shows() {
        let page = fs::read_to_string(shell::root().join(PAGE)).expect("the page");
        for Accepted { reason, patterns } in accepted().expect("a reason before each pattern") {
            assert!(!patterns.is_empty(), "nothing for {reason}");
            assert!(page.contains(&reason), "`./x campaign arguments --record` adds {reason}");
        }
    }
}
