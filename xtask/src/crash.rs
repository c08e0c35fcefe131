//! `./x crash`: kills QEMU at a random moment of a file workload. `e2fsck -p` must repair the disk
//! without a question, and all data that fsync made durable must be there (issue "A disk you can
//! trust"). With labels, each file must have its own, also those of programs of several levels in a multilevel directory.
//!
//! A round follows from the seed and its number alone. `build/crash.state` says which comes next, so an
//! interrupted campaign goes on where it was; the disk of a round that failed is kept.
mod audit;
mod levels;
mod patterns;

use anyhow::{Result, bail};
use harness::{
    build::{self, Features},
    disk::{self, Fsck},
    guest, packages,
    qemu::Config,
    session, shell,
    tally::Tally,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use workload::{Files, LEVELS, Model, hidden_at, label_of};

/// Options of `crash`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of kills in all
    #[arg(long, default_value_t = 200)]
    pub count: u64,
    /// The start of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Only this round
    #[arg(long)]
    pub round: Option<u64>,
    /// Processors
    #[arg(long, default_value_t = 2)]
    pub cpus: u32,
    /// Memory in MiB
    #[arg(long, default_value_t = 128)]
    pub memory: u32,
    /// Files replaced, appended and linked without fsync: one boot, its writes logged, cut so many times
    #[arg(long)]
    pub patterns: bool,
    /// With --patterns: the same on Linux, beside it
    #[arg(long, requires = "patterns")]
    pub linux: bool,
    /// The system with labels: each file must have the label with which it was made
    #[arg(long, conflicts_with = "patterns")]
    pub labelled: bool,
    /// Audit records that programs wait for: each must be on the disk of the audit writer, which all rounds share
    #[arg(long, conflicts_with_all = ["patterns", "labelled"])]
    pub audit: bool,
    /// Forget what an interrupted campaign did
    #[arg(long)]
    pub restart: bool,
}

/// The system of `--labelled`.
const LABELLED_SYSTEM: &str = "mls";
/// The folder that the workload writes.
const FOLDER: &str = "crash";
const WORKERS: u64 = 4;
/// The multilevel directory in which programs of levels work, each in a folder of this name.
const SHARED: &str = "crash-shared";
const SHARED_NAME: &str = "work";
/// Longest life of the workload before the kill.
const LONGEST_LIFE_MS: u64 = 4_000;
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// The progress of a campaign.
#[derive(Clone, Copy, Default)]
struct State {
    next: u64,
    failed: u64,
    /// Durable steps that the workload reported, in all rounds.
    steps: u64,
}

/// The result of a round.
struct Round {
    steps: u64,
    verdict: Result<(), String>,
}

/// Runs the campaign of kills.
///
/// # Errors
/// Fails if something does not build or start. Failed rounds are printed and give status 1.
pub fn run(options: &Options) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    if options.patterns {
        return patterns::run(options);
    }
    if options.audit {
        return audit::run(options);
    }
    let kernel = build::image(options.system(), &Features::default())?;
    let image = disk::programs_image()?;
    if let Some(round) = options.round {
        let Round { steps, verdict } = one(options, &kernel, &image, round)?;
        let said = verdict.as_ref().err().map_or("held", String::as_str);
        println!("round {round} after {steps} durable steps: {said}");
        return Ok(u8::from(verdict.is_err()));
    }
    let path = shell::build_path(match options.labelled {
        true => "crash-labelled.state",
        false => "crash.state",
    })?;
    let known = fs::read_to_string(&path).unwrap_or_default();
    let known = State::parse(&known, options.seed).filter(|_| !options.restart);
    let mut state = known.unwrap_or_default();
    let bar = indicatif::ProgressBar::new(options.count).with_position(state.next);
    while state.next < options.count {
        let round = one(options, &kernel, &image, state.next)?;
        state.steps += round.steps;
        if let Err(why) = round.verdict {
            state.failed += 1;
            bar.suspend(|| println!("FAILED round {}: {why}", state.next));
        }
        state.next += 1;
        bar.set_position(state.next);
        fs::write(&path, state.line(options.seed))?;
    }
    bar.finish_and_clear();
    let State { next, failed, steps } = state;
    println!("{next} kills, {steps} durable steps: {} held, {failed} failed", next - failed);
    Ok(u8::from(state.failed > 0))
}

impl Options {
    fn system(&self) -> &'static str {
        if self.labelled { LABELLED_SYSTEM } else { "default" }
    }
}

/// Runs a few rounds of the system with labels as tests.
///
/// # Errors
/// Fails if something does not build or start.
pub fn tested(tally: &mut Tally, filter: Option<&str>) -> Result<()> {
    const ROUNDS: u64 = 3;
    const AUDIT: &str = "crash: audit records are on their medium";
    let name = |round| format!("crash: files keep their labels, round {round} ({LABELLED_SYSTEM})");
    let is_wanted = |name: &str| filter.is_none_or(|part| name.contains(part));
    let rounds = (0..ROUNDS).map(|round| (round, name(round)));
    let chosen: Vec<_> = rounds.filter(|(_, name)| is_wanted(name)).collect();
    let options = Options {
        count: ROUNDS,
        seed: 1,
        round: None,
        cpus: 2,
        memory: 128,
        patterns: false,
        linux: false,
        labelled: true,
        audit: false,
        restart: false,
    };
    if is_wanted(AUDIT) {
        audit::tested(tally, &options)?;
    }
    if chosen.is_empty() {
        return Ok(());
    }
    let kernel = build::image(LABELLED_SYSTEM, &Features::default())?;
    let image = disk::programs_image()?;
    for (round, name) in chosen {
        tally.count(&name, one(&options, &kernel, &image, round)?.verdict);
    }
    Ok(())
}

impl State {
    fn line(self, seed: u64) -> String {
        format!("{seed} {} {} {}\n", self.next, self.failed, self.steps)
    }

    /// Parses the saved state, if it is of the same seed.
    fn parse(text: &str, seed: u64) -> Option<State> {
        let numbers: Vec<u64> =
            text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        match numbers[..] {
            [known, next, failed, steps] if known == seed => Some(State { next, failed, steps }),
            _ => None,
        }
    }
}

/// Returns the seed of a round of a campaign.
fn seed_of(campaign: u64, round: u64) -> u64 {
    campaign.wrapping_mul(1_000_003).wrapping_add(round)
}

/// Returns the time after which QEMU is killed.
fn life(seed: u64) -> Duration {
    Duration::from_millis(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LONGEST_LIFE_MS)
}

/// Boots, kills, repairs and compares once.
fn one(options: &Options, kernel: &Path, image: &Path, round: u64) -> Result<Round> {
    let seed = seed_of(options.seed, round);
    let disk = shell::build_path(&format!("crash-{round}.ext4"))?;
    fs::copy(image, &disk)?;
    let config = Config {
        cpus: options.cpus,
        memory: options.memory,
        is_snapshot: false,
        ..guest::machine(kernel, &disk, "crash.log")?
    };
    // The time is the same for a given seed and number; the point of the workload at which it falls
    // depends on the machine.
    let shared = if options.labelled { format!("/{SHARED}") } else { String::new() };
    let command =
        format!("mkdir -p /{FOLDER}; exec /abi/crash_load /{FOLDER} {seed} {WORKERS} {shared}");
    // Half of the seeds begin their life with the first step of any worker, and half when each has done one.
    let least = if seed.is_multiple_of(2) { folders(options).len() } else { 1 };
    let has_begun = |text: &str| steps_told(text).len() >= least;
    let told = steps_told(&kill_after(&config, &command, (life(seed), &has_begun))?);
    let mended = disk::fsck(&disk, Fsck::Mend)?.and(disk::fsck(&disk, Fsck::Look)?);
    let mut verdict = mended.and_then(|()| judge(&disk, seed, &told, &folders(options)));
    if options.labelled && verdict.is_ok() {
        verdict = judge_labels(&disk)?;
    }
    if options.labelled && verdict.is_ok() {
        verdict = levels::judge(&disk)?;
    }
    if verdict.is_ok() {
        fs::remove_file(&disk)?;
    }
    let verdict = verdict.map_err(|why| format!("{why}; the disk is {}", disk.display()));
    Ok(Round { steps: told.values().sum(), verdict })
}

/// Runs a workload until what it reported tells that it has begun, and for `life` after that. Returns what it reported.
fn kill_after(
    config: &Config,
    command: &str,
    (life, has_begun): (Duration, &dyn Fn(&str) -> bool),
) -> Result<String> {
    let output = session::Captured::default();
    let error = session::Captured::default();
    let streams = session::Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(output.clone()),
        error: Box::new(error.clone()),
    };
    let mut running = guest::start_session(config, command, streams)?;
    let start = Instant::now();
    while !has_begun(&output.text()) {
        if start.elapsed() > BOOT_LIMIT || running.child.try_wait()?.is_some() {
            running.child.kill()?;
            running.child.wait()?;
            bail!(
                "the workload did not start: {}; log in {}",
                String::from_utf8_lossy(&error.take()),
                config.log.display()
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(life);
    running.child.kill()?;
    running.child.wait()?;
    running.session.finish();
    Ok(String::from_utf8_lossy(&output.take()).into_owned())
}

/// Returns the number of steps that each worker reported. A last line that was cut does not count.
fn steps_told(text: &str) -> BTreeMap<u64, u64> {
    let mut told = BTreeMap::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        if let Some((worker, step)) = line.split_once(' ')
            && let (Ok(worker), Ok(step)) = (worker.parse(), step.trim().parse::<u64>())
        {
            told.insert(worker, step + 1);
        }
    }
    told
}

/// Returns the folders of the workers, in their order.
fn folders(options: &Options) -> Vec<PathBuf> {
    let plain = (0..WORKERS).map(|worker| PathBuf::from(format!("/{FOLDER}/w{worker}")));
    let levels = LEVELS.iter().filter(|_| options.labelled).map(|level| {
        let shared = PathBuf::from(format!("/{SHARED}"));
        let hidden = hidden_at(level).map(|(name, _)| name);
        shared.join(hidden.unwrap_or_default()).join(SHARED_NAME)
    });
    plain.chain(levels).collect()
}

fn judge(
    disk: &Path,
    seed: u64,
    told: &BTreeMap<u64, u64>,
    folders: &[PathBuf],
) -> Result<(), String> {
    for (worker, folder) in (0..).zip(folders) {
        let found = contents(disk, folder).map_err(|error| format!("{error:#}"))?;
        let steps = told.get(&worker).copied().unwrap_or(0);
        Model::new(seed, worker)
            .judge(steps, &found)
            .map_err(|why| format!("worker {worker} after {steps} steps: {why}"))?;
    }
    Ok(())
}

/// Returns the files below a folder of a disk, by their names there.
fn contents(disk: &Path, folder: &Path) -> Result<Files> {
    let tree = disk::extracted(disk, folder)?;
    let mut found = Files::new();
    if let Some(name) = folder.file_name() {
        read_tree(&tree.join(name), "", &mut found)?;
    }
    fs::remove_dir_all(tree)?;
    Ok(found)
}

fn read_tree(folder: &Path, prefix: &str, found: &mut Files) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = format!("{prefix}{}", name.to_string_lossy());
        if path.is_dir() {
            read_tree(&path, &format!("{name}/"), found)?;
        } else {
            found.insert(name, fs::read(path)?);
        }
    }
    Ok(())
}

/// Checks that each file has the label with which it was made.
fn judge_labels(disk: &Path) -> Result<Result<(), String>> {
    let system = ext4_view::Ext4::load_from_path(disk)?;
    let mut paths = Vec::new();
    visit(&system, &format!("/{FOLDER}"), &mut |path, is_directory| {
        paths.extend((!is_directory).then(|| path.to_owned()));
        Ok(())
    })?;
    compare_labels(disk, &paths, |path| {
        let name = path.strip_prefix(&format!("/{FOLDER}/"))?.split_once('/');
        Some(name.map_or("", |(_, name)| label_of(name)).to_owned())
    })
}

/// Compares the labels of files with those that they should have; `None` for a file that should not be there.
fn compare_labels(
    disk: &Path,
    paths: &[String],
    expected: impl Fn(&str) -> Option<String>,
) -> Result<Result<(), String>> {
    let labels = disk::labels(disk, paths)?;
    if labels.len() != paths.len() {
        return Ok(Err(format!("{} labels of {} files", labels.len(), paths.len())));
    }
    for (path, label) in paths.iter().zip(labels) {
        match expected(path) {
            None => return Ok(Err(format!("{path} should not be there"))),
            Some(expected) if expected != label => {
                return Ok(Err(format!("{path} has the label {label:?}, not {expected}")));
            }
            Some(_) => {}
        }
    }
    Ok(Ok(()))
}

/// Calls `visit` with the path of each file and directory below a folder, if it is there, and with whether it is a directory.
///
/// # Errors
/// The error of the reader if a folder cannot be read, and those of `visit`.
fn visit(
    system: &ext4_view::Ext4,
    folder: &str,
    visit: &mut dyn FnMut(&str, bool) -> Result<(), ext4_view::Ext4Error>,
) -> Result<(), ext4_view::Ext4Error> {
    if !system.exists(folder)? {
        return Ok(());
    }
    for entry in system.read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().as_str().unwrap_or("?").to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let path = format!("{folder}/{name}");
        let is_directory = entry.file_type()?.is_dir();
        if is_directory {
            self::visit(system, &path, visit)?;
        }
        visit(&path, is_directory)?;
    }
    Ok(())
}

/// Returns the files below a folder, by their names there.
///
/// # Errors
/// The error of the reader if a folder or a file cannot be read.
fn files_below(system: &ext4_view::Ext4, folder: &str) -> Result<Files, ext4_view::Ext4Error> {
    let mut found = Files::new();
    visit(system, folder, &mut |path, is_directory| {
        if !is_directory {
            let name = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/');
            found.insert(name.to_owned(), system.read(path)?);
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_campaign_goes_on_only_with_its_seed() {
        let state = State { next: 7, failed: 1, steps: 90 };
        let known = State::parse(&state.line(3), 3).expect("the same seed");
        assert_eq!((known.next, known.failed, known.steps), (7, 1, 90));
        assert!(State::parse(&state.line(3), 4).is_none());
    }

    #[test]
    fn a_line_cut_short_was_not_told() {
        let told = steps_told("0 0\n1 0\n0 1\n1 1");
        assert_eq!(told, BTreeMap::from([(0, 2), (1, 1)]));
    }
}
