//! Runs the same commands on Skerry and under Debian's cloud kernel, in the same QEMU on the same image (Z4). Both run one
//! script that prints each command's output and status between marks.
//!
//! A list, `tests/system/NAME.txt`, holds a command a line; `#` opens a comment. Before a command `@known REASON` says
//! that it differs, and why (docs/debian.md): the day it no longer does, the test fails; and `@sample` that it is
//! among those of [`SAMPLE`].
mod lists;
mod reference;

pub use lists::*;
pub use reference::Reference;

use super::test_user_net::HostEnd;
use anyhow::{Context, Result, anyhow, bail};
use harness::{
    build::{self, Features},
    debian, disk, guest,
    linux::{self, Linux},
    qemu::Config,
    session::Streams,
    shell,
    tally::{Tally, Target},
};
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// Commands and the root they run in.
#[derive(Debug)]
pub struct Comparison {
    /// Name of the comparison.
    name: &'static str,
    /// Names of its lists.
    lists: &'static [&'static str],
    /// Only the commands of the sample are run.
    is_sample: bool,
    /// The program that reads a command.
    shell: &'static str,
    /// The folders in which it looks for programs.
    path: &'static str,
    /// Memory of both machines, in MiB.
    memory: u32,
    /// The packages of its Debian root; `None` for busybox's root.
    packages: Option<&'static [&'static str]>,
    /// Longest time a command may take, in seconds.
    command_seconds: u32,
    /// Files of Debian's archive that its commands find in /compare.
    archives: &'static [Archive],
    /// Both machines have a network card, behind which is the host.
    has_card: bool,
}

/// A file from Debian's archive.
#[derive(Debug)]
struct Archive {
    /// Name of the file in /compare.
    name: &'static str,
    /// Path of the file in the archive.
    path: &'static str,
    /// Digest of the file.
    sha256: &'static str,
}

/// A command of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The text that the shell reads.
    pub command: String,
    /// Reason why it is known to differ from Linux, if it is.
    pub known: Option<String>,
    /// The command is in [`SAMPLE`].
    pub is_sample: bool,
}

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// stdout and stderr together.
    pub output: Vec<u8>,
    /// Exit status.
    pub status: String,
}

const MARK: &str = "@@skerry@@";
/// Longest time a whole list may take on one system, and until it starts.
const LIST_SECONDS: u64 = 4 * 3600;
const START_SECONDS: u64 = 300;
/// Text behind the status of a command that was ended because it took too long.
const LATE: &str = " (out of time)";

/// Runs a list on Linux and on a Skerry system; every command is a test. A filter selects the commands that contain it.
///
/// # Errors
/// Fails if the system does not build. Anything else that is missing counts as a failed test.
pub fn run(
    tally: &mut Tally,
    comparison: &Comparison,
    target: &Target,
    filter: Option<&str>,
) -> Result<()> {
    let mut cases = comparison.cases()?;
    cases.retain(|case| filter.is_none_or(|filter| case.command.contains(filter)));
    if cases.is_empty() {
        return Ok(());
    }
    let kernel = build::image(&target.system, &Features::default())?;
    let reference = Reference::of(&target.system)?;
    let name = comparison.name;
    let both = || -> Result<[Vec<Answer>; 2]> {
        let [expected, found] = comparison.ask(&kernel, &cases, reference)?;
        let whole = [expected.whole("Linux")?, found.whole("Skerry")?];
        let comparable = |answer| reference.comparable(answer);
        Ok(whole.map(|answers| answers.into_iter().map(comparable).collect()))
    };
    match both() {
        Ok([expected, found]) => {
            for (case, (expected, found)) in cases.iter().zip(expected.iter().zip(&found)) {
                tally.count(&case.command, case.judge(expected, found));
            }
        }
        Err(why) => tally.count(&format!("comparison of {name}"), Err(format!("{why:#}"))),
    }
    Ok(())
}

impl Comparison {
    /// Returns the commands of its lists.
    ///
    /// # Errors
    /// Fails if a list cannot be read.
    pub fn cases(&self) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for name in self.lists {
            let list = shell::root().join(format!("tests/system/{name}.txt"));
            let text =
                fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
            cases.extend(parse_list(&text));
        }
        cases.retain(|case| case.is_sample || !self.is_sample);
        Ok(cases)
    }

    /// Returns the reason why its root can neither be found nor made on this host.
    pub fn what_lacks(&self) -> Option<String> {
        let packages = self.packages?;
        debian::image(&owned(packages)).err().map(|why| format!("{why:#}"))
    }

    /// Makes the image that both systems run on: the root with the commands and their runner.
    fn image(&self, cases: &[Case], reference: Reference) -> Result<PathBuf> {
        let folder = shell::build_path(&format!("compare-{}", self.name))?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("cases"))?;
        for (number, case) in (1..).zip(cases) {
            fs::write(folder.join(format!("cases/{number:04}")), format!("{}\n", case.command))?;
        }
        fs::create_dir(folder.join("data"))?;
        fs::write(folder.join("data/text"), sample_text())?;
        let bytes: Vec<u8> = (0..70_000u64).map(|n| (n * n % 251) as u8).collect();
        fs::write(folder.join("data/bytes"), bytes)?;
        symlink("data/text", folder.join("link"))?;
        let programs = build::abi_programs()?;
        for name in ["on_pty", "channels", "counted", "promises"] {
            let program = programs.iter().find(|program| program.ends_with(name));
            let program = program.with_context(|| format!("tests/abi has no {name}"))?;
            fs::copy(program, folder.join(name))?;
        }
        let outcomes = shell::root().join("tests/system/outcomes.py");
        fs::copy(outcomes, folder.join("outcomes.py"))?;
        for archive in self.archives {
            fs::copy(archive.fetched()?, folder.join(archive.name))?;
        }
        linux::add_network_modules(&folder, &[])?;
        reference.add_files(&folder)?;
        fs::write(folder.join("runner"), self.runner(reference))?;
        match self.packages {
            None => busybox_root(&folder),
            Some(packages) => debian_root(self.name, packages, &folder),
        }
    }

    fn runner(&self, reference: Reference) -> String {
        let seconds = self.command_seconds.to_string();
        let more = (self.command_seconds + 10).to_string();
        let words = [
            ("MARK", MARK),
            ("START", reference.start()),
            ("PROGRAMS", self.path),
            ("SHELL", self.shell),
            ("SECONDS", &seconds),
            ("LATE", LATE),
            ("MORE", &more),
        ];
        words.iter().fold(RUNNER.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    fn machine(&self, kernel: &Path, image: &Path, system: &str) -> Result<Config> {
        let log = format!("compare-{}-{system}.log", self.name);
        let mut config = Config { memory: self.memory, ..guest::machine(kernel, image, &log)? };
        if self.has_card {
            let end = HostEnd::start()?;
            config.extra.extend(end.arguments(&config));
            config.append = format!("{} {}", config.append, end.parameters());
        }
        Ok(config)
    }

    /// Returns the answers of Linux and Skerry, which run at the same time.
    ///
    /// # Errors
    /// Fails if one of the systems does not start.
    pub fn ask(&self, kernel: &Path, cases: &[Case], reference: Reference) -> Result<[Answers; 2]> {
        let linux = linux::prepare()?;
        let image = self.image(cases, reference)?;
        let what = format!("{} {} commands on Linux and Skerry", cases.len(), self.name);
        let bar = shell::progress(&what);
        let limit = self.limit(cases.len());
        let (expected, found) = thread::scope(|scope| {
            let expected = scope.spawn(|| self.on_linux(&linux, reference, &image, limit));
            let found = self.on_skerry(kernel, &image, limit);
            (expected.join(), found)
        });
        bar.finish_and_clear();
        let expected = expected.map_err(|_| anyhow!("Linux's side of the comparison panicked"))?;
        Ok([expected?, found?])
    }

    /// Returns the time limit in seconds for a number of commands. Some may need all of their own limit; most end soon.
    fn limit(&self, commands: usize) -> u64 {
        let all = commands as u64 * u64::from(self.command_seconds);
        START_SECONDS + (all / 8).max(u64::from(self.command_seconds)).min(LIST_SECONDS)
    }

    fn on_skerry(&self, kernel: &Path, image: &Path, limit: u64) -> Result<Answers> {
        let config = self.machine(kernel, image, "skerry")?;
        // A file, as Linux's side has, shows the commands of a run that is under way or was cut short.
        let said = config.log.with_extension("out");
        let streams = Streams {
            input: Box::new(io::empty()),
            output: Box::new(fs::File::create(&said)?),
            error: Box::new(io::sink()),
        };
        let outcome = guest::execute(&config, "/bin/sh /compare/runner", streams, Some(limit))?;
        let end = format!("{outcome}; log in {}", config.log.display());
        Ok(Answers::parse(&fs::read(&said)?, end))
    }

    fn on_linux(
        &self,
        linux: &Linux,
        reference: Reference,
        image: &Path,
        limit: u64,
    ) -> Result<Answers> {
        let config = self.machine(&linux.kernel, image, "linux")?;
        let log = config.log.display().to_string();
        let own = reference.parameters(&config.append);
        let parameters = format!("skerry.runner=/compare/runner {own}");
        let output = linux::boot(linux, config, &parameters, limit)?;
        Ok(Answers::parse(&output, format!("log in {log}")))
    }
}

impl Archive {
    /// Returns the path of the file in `build/`, fetched once.
    fn fetched(&self) -> Result<PathBuf> {
        let file = shell::build_path(self.name)?;
        if !file.exists() {
            let mut fetch = Command::new("/usr/lib/apt/apt-helper");
            fetch.arg("download-file").arg(format!("http://deb.debian.org/debian/{}", self.path));
            fetch.arg(&file).arg(format!("SHA256:{}", self.sha256));
            shell::quietly(&format!("fetching {}", self.name), &mut fetch)?;
        }
        Ok(file)
    }
}

impl Case {
    fn judge(&self, expected: &Answer, found: &Answer) -> std::result::Result<(), String> {
        for (system, answer) in [("Linux", expected), ("Skerry", found)] {
            if answer.status.ends_with(LATE) {
                return Err(format!("it took too long on {system}"));
            }
        }
        match (&self.known, expected == found) {
            (None, true) | (Some(_), false) => Ok(()),
            (None, false) => Err(difference(expected, found)),
            (Some(reason), true) => {
                Err(format!("Skerry is as Linux now: take `@known {reason}` away"))
            }
        }
    }
}

fn parse_list(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let (mut known, mut is_sample) = (None, false);
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line == "@sample" {
            is_sample = true;
        } else if let Some(reason) = line.strip_prefix("@known ") {
            known = Some(reason.to_owned());
        } else {
            let (known, is_sample) = (known.take(), std::mem::take(&mut is_sample));
            cases.push(Case { command: line.to_owned(), known, is_sample });
        }
    }
    cases
}

fn owned(packages: &[&str]) -> Vec<String> {
    packages.iter().map(|&package| package.to_owned()).collect()
}

fn busybox_root(folder: &Path) -> Result<PathBuf> {
    let tree = shell::build_path("compare-root")?;
    disk::busybox_tree(&tree)?;
    fs::rename(folder, tree.join("compare"))?;
    let image = shell::build_path("compare-busybox.ext4")?;
    disk::pack(&tree, &image, &[])?;
    Ok(image)
}

/// Copies the root that is kept, without its holes.
fn debian_root(name: &str, packages: &[&str], folder: &Path) -> Result<PathBuf> {
    let kept = debian::image(&owned(packages))?;
    let image = shell::build_path(&format!("compare-{name}.ext4"))?;
    let mut copy = Command::new("cp");
    copy.arg("--sparse=always").args([&kept, &image]);
    shell::quietly("copying the Debian root", &mut copy)?;
    disk::add(folder, Path::new("/compare"), &image)?;
    Ok(image)
}

fn sample_text() -> String {
    (1..=400)
        .map(|n| {
            format!("line {n} {} the quick brown fox {}\n", n * 7919 % 101, "x".repeat(n % 17))
        })
        .collect()
}

/// The script of both systems. Each case runs in an empty folder of a tmpfs ($DISK is one on the root disk), with a clean
/// environment, no input and a pipe for its output. If the case leaves processes behind, the pipe is read for some more
/// time. Behind a network card, $HOST_PORT is the port of the host's web server, and $FORWARDED the host's port that leads to the
/// machine's port 5000.
const RUNNER: &str = r#"#!/bin/sh
export PATH=PROGRAMS HOME=/root TERM=dumb LC_ALL=C TZ=UTC DISK=/var/work
unset USER
for word in $(cat /proc/cmdline); do
    case $word in compare.*) export ${word#compare.};; esac
done
umask 022
STARTfor case in /compare/cases/*; do
    cd /; rm -rf /tmp/work $DISK; mkdir /tmp/work $DISK; cd /tmp/work
    printf '\nMARK begin\n'
    start=$(date +%s)
    {
        timeout -s KILL SECONDS SHELL "$case" </dev/null 2>&1; status=$?
        [ $(($(date +%s) - start)) -lt SECONDS ] || status="$statusLATE"
        echo "$status" >/run/status
    } | timeout -s KILL MORE cat
    printf '\nMARK status %s\n' "$(cat /run/status)"
done
printf '\nMARK done\n'
"#;

/// The answers of a system to all commands.
#[derive(Debug)]
pub struct Answers {
    /// Answers to the commands, in order, until the system stopped.
    pub all: Vec<Answer>,
    /// The system got through the list.
    pub is_whole: bool,
    /// The end of the machine and the path of its log.
    pub end: String,
}

impl Answers {
    fn parse(output: &[u8], end: String) -> Answers {
        let text = String::from_utf8_lossy(output);
        let answer = |part: &str| {
            let (output, rest) = part.split_once(&format!("\n{MARK} status "))?;
            let status = rest.lines().next().unwrap_or_default().to_owned();
            Some(Answer { output: output.as_bytes().to_vec(), status })
        };
        let all = text.split(&format!("\n{MARK} begin\n")).skip(1).map_while(answer).collect();
        Answers { all, is_whole: text.contains(&format!("\n{MARK} done\n")), end }
    }

    fn whole(self, system: &str) -> Result<Vec<Answer>> {
        if !self.is_whole {
            bail!("{system} stopped after {} commands ({})", self.all.len(), self.end);
        }
        Ok(self.all)
    }
}

/// Describes the difference of two answers, from one line before the first line that differs.
fn difference(expected: &Answer, found: &Answer) -> String {
    const SHOWN: usize = 40;
    let [theirs, ours] = [expected, found].map(|answer| String::from_utf8_lossy(&answer.output));
    let same = theirs.lines().zip(ours.lines()).take_while(|(one, other)| one == other).count();
    let from = |text: &str| -> String {
        text.lines()
            .skip(same.saturating_sub(1))
            .take(SHOWN)
            .map(|line| format!("{line}\n"))
            .collect()
    };
    format!(
        "Linux (status {}), from line {}:\n{}\nSkerry (status {}):\n{}",
        expected.status,
        same + 1,
        from(&theirs),
        found.status,
        from(&ours)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(output: &str, status: &str) -> Answer {
        Answer { output: output.as_bytes().to_vec(), status: status.to_owned() }
    }

    #[test]
    fn marks_part_outputs_and_statuses() {
        let output = format!(
            "\n{MARK} begin\nhello\n\n{MARK} status 0\n\n{MARK} begin\n\n{MARK} status 3\n\n{MARK} done\n"
        );
        let answers = Answers::parse(output.as_bytes(), String::new());
        assert_eq!(answers.whole("it").expect("all"), [answer("hello\n", "0"), answer("", "3")]);
    }

    #[test]
    fn a_run_cut_short_is_an_error() {
        let output = format!("\n{MARK} begin\na\n{MARK} status 0\n\n{MARK} begin\nhello");
        let answers = Answers::parse(output.as_bytes(), String::new());
        assert_eq!(answers.all, [answer("a", "0")]);
        assert!(answers.whole("it").is_err());
    }

    #[test]
    fn a_known_difference_fails_once_it_is_gone() {
        let cases = parse_list("# why\n\n@sample\n@known it is young\necho a # b\ntrue\n");
        let [known, other] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((known.known.as_deref(), other.known.as_deref()), (Some("it is young"), None));
        assert_eq!((known.is_sample, other.is_sample), (true, false));
        assert_eq!(known.command, "echo a # b");
        let (one, two) = (answer("1", "0"), answer("2", "0"));
        assert!(known.judge(&one, &two).is_ok() && known.judge(&one, &one).is_err());
        assert!(other.judge(&one, &two).is_err() && other.judge(&one, &one).is_ok());
        let late = answer("1", &format!("137{LATE}"));
        assert!(other.judge(&late, &late).is_err() && known.judge(&one, &late).is_err());
    }

    #[test]
    fn a_difference_shows_where_it_begins() {
        let said = difference(&answer("a\nb\nc\nd\n", "0"), &answer("a\nb\nX\nd\n", "1"));
        assert!(said.contains("Linux (status 0), from line 3") && said.contains("c\n"), "{said}");
        assert!(!said.contains("a\n"), "{said}");
    }

    #[test]
    fn known_differences_are_in_the_book() {
        let book = fs::read_to_string(shell::root().join("docs/debian.md")).expect("the page");
        for comparison in [BUSYBOX, DEBIAN, TOOLS, NETWORK, SERVICES, PYTHON] {
            for reason in
                comparison.cases().expect("a list").iter().filter_map(|c| c.known.as_ref())
            {
                assert!(
                    book.contains(reason.as_str()),
                    "docs/debian.md says nothing of `{reason}`"
                );
            }
        }
    }

    #[test]
    #[ignore = "boots Linux: half a minute"]
    fn linux_runs_the_whole_list() {
        let cases = BUSYBOX.cases().expect("the list");
        let linux = linux::prepare().expect("a kernel");
        let image = BUSYBOX.image(&cases, Reference::Plain).expect("an image");
        let answers =
            BUSYBOX.on_linux(&linux, Reference::Plain, &image, BUSYBOX.limit(cases.len()));
        let answers = answers.expect("a whole run");
        let answers = answers.whole("Linux").expect("all");
        assert_eq!(answers.len(), cases.len());
        for (case, answer) in cases.iter().zip(&answers) {
            let output = String::from_utf8_lossy(&answer.output);
            println!("$ {}\n{output}[{}]", case.command, answer.status);
        }
    }
}
