//! `./x crash --patterns`: power cuts while programs replace files without fsync, on Skerry and on Linux.
//!
//! A system boots once with a small disk whose writes and flushes QEMU logs (blklogwrites), and runs `replace_load` on
//! it. A cut is a place in that log: the disk has everything before the last flush there, and any part of what was
//! written after it, in any order. `e2fsck -p` must mend it without a question, and [`workload::patterns::judge`] says
//! whether the files are what they may be.
use super as crash;
use anyhow::{Context, Result, bail};
use harness::{
    build::{self, Features},
    disk::{self, Fsck},
    guest, linux,
    qemu::{Config, Disk, Medium},
    random::Random,
    session, shell,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};
use workload::patterns::{Left, PATTERNS, Pattern, judge};

const WORKERS: u64 = PATTERNS.len() as u64;
/// Run time of the workload in the guest, in seconds.
const SECONDS: u64 = 25;
const LIMIT_SECONDS: u64 = 300;
const DISK_MIB: u64 = 64;
const SCRIPT: &str = "/patterns";

const SECTOR: usize = 512;
/// Bytes that a device writes whole.
const BLOCK: usize = 4096;
/// Flags of an entry of the log: a flush, a write that is durable at once, a discard.
const FLUSH: u64 = 1;
const DURABLE: u64 = 2;
const DISCARD: u64 = 4;

/// The last position in the log at which each mark was reported: worker, step, bytes of the log.
type Told = Vec<(u64, u64, u64)>;

/// The recording of one system's run.
struct Recorded {
    /// The disk before the run.
    image: Vec<u8>,
    log: Vec<u8>,
    told: Told,
}

/// The results of the cuts of one system.
#[derive(Default)]
struct Tally {
    cuts: u64,
    whole: u64,
    parts: u64,
    /// Failures by pattern.
    failed: BTreeMap<String, u64>,
}

/// Runs the workload on Skerry, and on Linux if requested, and judges the cuts.
///
/// # Errors
/// Fails if something does not build or start. A cut that fails on Skerry is printed and gives status 1.
pub fn run(options: &crash::Options) -> Result<u8> {
    let kernel = build::image("default", &Features::default())?;
    let root = root(options.seed)?;
    let config = guest::machine(&kernel, &root, "crash-patterns.log")?;
    let config = Config { cpus: options.cpus, memory: options.memory.max(256), ..config };
    let ours = cut(options, "Skerry", &on_skerry(&config)?)?;
    if options.linux {
        cut(options, "Linux", &on_linux(&config)?)?;
    }
    Ok(u8::from(!ours.failed.is_empty()))
}

/// Makes the root disk, with the script that mounts the other disk and starts the workload.
fn root(seed: u64) -> Result<PathBuf> {
    let tree = shell::build_path("crash-patterns-root")?;
    disk::programs_tree(&tree)?;
    let script = format!(
        "export PATH=/bin:/sbin\nmount -t ext4 /dev/vdb /mnt || exit 1\n\
         /abi/replace_load /mnt {seed} {WORKERS} {SECONDS}\n"
    );
    fs::write(tree.join(SCRIPT.trim_start_matches('/')), script)?;
    let image = shell::build_path("crash-patterns-root.ext4")?;
    disk::pack(&tree, &image, &[])?;
    Ok(image)
}

/// Adds an empty disk that is logged to the machine. Returns the machine, the disk, and its log.
fn with_disk(config: &Config, name: &str) -> Result<(Config, PathBuf, PathBuf)> {
    let image = shell::build_path(&format!("crash-patterns-{name}.ext4"))?;
    let log = shell::build_path(&format!("crash-patterns-{name}.writes"))?;
    let _ = fs::remove_file(&image);
    fs::write(&log, "")?;
    let mut command = Command::new("/sbin/mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-b", "4096"]).arg(&image).arg(format!("{DISK_MIB}M"));
    shell::quietly("making a disk", &mut command)?;
    let medium = Medium::Logged(log.clone());
    let disks = vec![Disk { image: image.clone(), medium }];
    Ok((Config { disks, ..config.clone() }, image, log))
}

fn on_skerry(config: &Config) -> Result<Recorded> {
    let (config, image, log) = with_disk(config, "skerry")?;
    let before = fs::read(&image)?;
    let marks = Marks::new(&log);
    let streams = session::Streams {
        input: Box::new(io::empty()),
        output: Box::new(marks.clone()),
        error: Box::new(io::stderr()),
    };
    let command = format!("exec /bin/sh {SCRIPT}");
    let outcome = guest::execute(&config, &command, streams, Some(LIMIT_SECONDS))?;
    if outcome.status() != 0 {
        bail!("the workload: {outcome}; log in {}", config.log.display());
    }
    Ok(Recorded { image: before, log: fs::read(log)?, told: marks.told()? })
}

fn on_linux(config: &Config) -> Result<Recorded> {
    let linux = linux::prepare()?;
    let (mut config, image, log) = with_disk(config, "linux")?;
    config.kernel.clone_from(&linux.kernel);
    let before = fs::read(&image)?;
    let mut marks = Marks::new(&log);
    let parameters = format!("skerry.runner={SCRIPT}");
    linux::follow(&linux, config, &parameters, LIMIT_SECONDS, &mut marks)?;
    Ok(Recorded { image: before, log: fs::read(log)?, told: marks.told()? })
}

/// A writer that takes the workload's output and notes the length of the log at each mark.
#[derive(Clone)]
struct Marks {
    log: PathBuf,
    state: Arc<Mutex<(Vec<u8>, Told)>>,
}

impl Marks {
    fn new(log: &Path) -> Marks {
        Marks { log: log.to_owned(), state: Arc::default() }
    }

    fn told(&self) -> Result<Told> {
        let state = self.state.lock().map_err(|_| anyhow::anyhow!("the session panicked"))?;
        if state.1.is_empty() {
            bail!("the workload told of nothing: {}", String::from_utf8_lossy(&state.0));
        }
        Ok(state.1.clone())
    }
}

impl Write for Marks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = fs::metadata(&self.log)?.len();
        let Ok(mut state) = self.state.lock() else { return Ok(bytes.len()) };
        let (pending, told) = &mut *state;
        pending.extend(bytes);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_whitespace().map(str::parse);
            if let (Some(Ok(worker)), Some(Ok(step))) = (words.next(), words.next()) {
                told.push((worker, step, length));
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An entry of the log: its place on the disk, its kind, and in the log the place of its data and its end.
struct Entry {
    sector: u64,
    sectors: u64,
    flags: u64,
    data: usize,
    end: usize,
}

fn entries(log: &[u8]) -> Vec<Entry> {
    let word = |at: usize| {
        let bytes = log.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let (mut at, mut entries) = (SECTOR, Vec::new());
    while at + SECTOR <= log.len() {
        let (sector, sectors, flags) = (word(at), word(at + 8), word(at + 16));
        if sectors == 0 && flags == 0 {
            break;
        }
        let bytes = if flags & DISCARD == 0 { sectors as usize * SECTOR } else { 0 };
        let data = at + SECTOR;
        at = data + bytes;
        entries.push(Entry { sector, sectors, flags, data, end: at });
    }
    entries
}

fn apply(image: &mut [u8], sector: u64, bytes: &[u8]) {
    let at = sector as usize * SECTOR;
    if let Some(part) = image.get_mut(at..at + bytes.len()) {
        part.copy_from_slice(bytes);
    }
}

/// Applies some of the writes that no flush followed, block by block, in any order.
fn lose(image: &mut [u8], late: &[(u64, &[u8])], random: &mut Random) {
    let mut blocks: Vec<(u64, &[u8])> = Vec::new();
    for (sector, bytes) in late {
        let parts = bytes.chunks(BLOCK).enumerate();
        blocks.extend(parts.map(|(part, bytes)| (sector + (part * BLOCK / SECTOR) as u64, bytes)));
    }
    for place in (1..blocks.len()).rev() {
        blocks.swap(place, random.below(place + 1));
    }
    let share = random.below(11);
    for (sector, bytes) in blocks {
        if random.below(10) < share {
            apply(image, sector, bytes);
        }
    }
}

/// Cuts the power at random places, and judges each.
fn cut(options: &crash::Options, name: &str, recorded: &Recorded) -> Result<Tally> {
    let entries = entries(&recorded.log);
    let mut random = Random::new(options.seed);
    let mut places: Vec<usize> =
        (0..options.count).map(|_| random.below(entries.len() + 1)).collect();
    places.sort_unstable();
    println!("{name}: {} writes and flushes, {} marks told", entries.len(), recorded.told.len());
    let (mut tally, mut places) = (Tally::default(), places.into_iter().peekable());
    let (mut durable, mut late) = (recorded.image.clone(), Vec::new());
    let bar = indicatif::ProgressBar::new(options.count);
    for number in 0..=entries.len() {
        while places.next_if_eq(&number).is_some() {
            let mut image = durable.clone();
            lose(&mut image, &late, &mut random);
            let end = number.checked_sub(1).and_then(|last| entries.get(last));
            let verdicts =
                look(options.seed, &image, &recorded.told, end.map_or(0, |one| one.end))?;
            tally.add(name, number, &verdicts, &bar);
        }
        let Some(entry) = entries.get(number) else { break };
        let bytes = recorded.log.get(entry.data..entry.end).context("the log ends early")?;
        match entry.flags {
            flags if flags & DISCARD != 0 => {
                let zeroes = vec![0; entry.sectors as usize * SECTOR];
                apply(&mut durable, entry.sector, &zeroes);
            }
            flags => {
                if flags & FLUSH != 0 {
                    late.drain(..).for_each(|(sector, bytes)| apply(&mut durable, sector, bytes));
                }
                match flags & DURABLE != 0 {
                    true => apply(&mut durable, entry.sector, bytes),
                    false => late.push((entry.sector, bytes)),
                }
            }
        }
    }
    bar.finish_and_clear();
    tally.print(name);
    Ok(tally)
}

type Verdict = (Pattern, Result<Left, String>);

/// Judges a disk after a cut: returns a verdict for each worker.
fn look(seed: u64, image: &[u8], told: &Told, end: usize) -> Result<Vec<Verdict>> {
    let path = shell::build_path("crash-patterns.cut")?;
    fs::write(&path, image)?;
    let mended = disk::fsck(&path, Fsck::Mend)?.and(disk::fsck(&path, Fsck::Look)?);
    let all = |why: &String| PATTERNS.map(|pattern| (pattern, Err(why.clone()))).to_vec();
    if let Err(why) = mended {
        return Ok(all(&why));
    }
    let system = match ext4_view::Ext4::load_from_path(&path) {
        Ok(system) => system,
        Err(error) => return Ok(all(&error.to_string())),
    };
    let mut verdicts = Vec::new();
    for worker in 0..WORKERS {
        let found = crash::files_below(&system, &format!("/w{worker}"))?;
        let mine = told.iter().filter(|(of, _, at)| *of == worker && *at <= end as u64);
        let least = mine.map(|(_, step, _)| *step).max().unwrap_or(0);
        verdicts.push((Pattern::of(worker), judge(seed, worker, least, &found)));
    }
    Ok(verdicts)
}

impl Tally {
    fn add(
        &mut self,
        name: &str,
        place: usize,
        verdicts: &[Verdict],
        bar: &indicatif::ProgressBar,
    ) {
        self.cuts += 1;
        for (pattern, verdict) in verdicts {
            match verdict {
                Ok(Left::Whole) => self.whole += 1,
                Ok(Left::Part) => self.parts += 1,
                Err(why) => {
                    let failed = self.failed.entry(format!("{pattern:?}")).or_default();
                    *failed += 1;
                    if *failed <= 3 {
                        bar.suspend(|| println!("{name}: cut {place}: {pattern:?}: {why}"));
                    }
                }
            }
        }
        bar.inc(1);
    }

    fn print(&self, name: &str) {
        let Tally { cuts, whole, parts, failed } = self;
        let lost: u64 = failed.values().sum();
        println!(
            "{name}: {cuts} cuts, {} verdicts: {whole} whole, {parts} in part, {lost} failed",
            whole + parts + lost
        );
        failed.iter().for_each(|(pattern, count)| println!("{name}: {count} failed: {pattern}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_writes_is_read_until_it_ends() {
        let mut log = vec![0; SECTOR];
        let mut entry = |sector: u64, sectors: u64, flags: u64, data: usize| {
            let mut header = vec![0; SECTOR];
            header[..8].copy_from_slice(&sector.to_le_bytes());
            header[8..16].copy_from_slice(&sectors.to_le_bytes());
            header[16..24].copy_from_slice(&flags.to_le_bytes());
            log.extend(header);
            log.extend(vec![7; data]);
        };
        entry(8, 2, 0, 2 * SECTOR);
        entry(0, 0, FLUSH, 0);
        entry(100, 50, DISCARD, 0);
        entry(0, 0, 0, 0);
        let found = entries(&log);
        let told: Vec<_> = found.iter().map(|one| (one.sector, one.flags, one.end)).collect();
        assert_eq!(told, [(8, 0, 2048), (0, FLUSH, 2560), (100, DISCARD, 3072)]);
    }
}
