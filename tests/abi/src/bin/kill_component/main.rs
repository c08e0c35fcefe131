//! `kill_component NAME COUNT SEED FOLDER [quietly]`: kills a component of Skerry again and again at random instants while
//! programs read its clock and write and read back files with checksums. Prints in the end `outage NS` for each kill (from
//! the kill to the successor's first answer), then how much was checked; fails if a byte was lost or a program saw an
//! error. Two checked streams also go through console drivers ([`stream`]). Connections and datagrams take the place of the
//! files where the component drives network cards, or is the network stack ([`network`]): then it prints `stall NS` and
//! `calm NS` for each kill, too.
mod network;
mod stream;

use abi::checked::{Random, check_file};
use network::Network;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use stream::Streams;

const CONTROL: &str = "/proc/skerry/control";
const ISOLATED: &str = "/proc/skerry/isolated";
const CLOCK: &str = "/proc/driver/rtc";
/// Longest time between a successor's first answer and the next kill.
const PAUSE_US_MAX: u64 = 20_000;
const PATIENCE: Duration = Duration::from_secs(30);
const WORKERS: u64 = 3;
const FILE_BYTES_MAX: u64 = 256 << 10;

static IS_OVER: AtomicBool = AtomicBool::new(false);
static CHECKED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

fn check_clock() -> io::Result<()> {
    let text = fs::read_to_string(CLOCK)?;
    if text.contains("rtc_date") { Ok(()) } else { Err(io::Error::other("no time")) }
}

/// Runs the check until the program is over.
fn work(name: &str, mut check: impl FnMut() -> io::Result<()>) {
    while !IS_OVER.load(Relaxed) {
        match check() {
            Ok(()) => CHECKED.fetch_add(1, Relaxed),
            Err(error) => {
                eprintln!("{name}: {error}");
                WRONG.fetch_add(1, Relaxed)
            }
        };
    }
}

/// Returns a number in the component's block in [`ISOLATED`], once it runs.
fn running(name: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(ISOLATED).ok()?;
    let value = |block: &str, field: &str| {
        let mut words = block.lines().map(str::split_whitespace);
        words.find_map(|mut words| {
            (words.next() == Some(field)).then(|| words.next().map(str::to_owned))
        })
    };
    let mut blocks = text.split("\n\n");
    let block =
        blocks.find(|block| value(block, "component").flatten().as_deref() == Some(name))?;
    let is_running = value(block, "state").flatten().as_deref() == Some("running");
    is_running.then(|| value(block, field).flatten()?.parse().ok()).flatten()
}

/// Waits until the component runs and `is_so` is true of `field`. Returns the value.
fn wait_for(name: &str, field: &str, is_so: impl Fn(u64) -> bool) -> Result<u64, String> {
    let start = Instant::now();
    loop {
        match running(name, field).filter(|&value| is_so(value)) {
            Some(value) => return Ok(value),
            None if start.elapsed() > PATIENCE => return Err("it did not come back".to_owned()),
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Kills the component once. Returns the nanoseconds to the successor's first answer.
fn kill(name: &str) -> Result<u64, String> {
    let before = wait_for(name, "restarts", |_| true)?;
    fs::write(CONTROL, format!("kill {name}")).map_err(|error| format!("{CONTROL}: {error}"))?;
    wait_for(name, "restarts", |restarts| restarts > before)?;
    wait_for(name, "outage_ns", |_| true)
}

/// The work that goes on while a component is killed.
enum Load {
    /// The clock and files.
    Files(Vec<JoinHandle<()>>),
    /// Streams through the component, beside the clock and files.
    Streams(Vec<JoinHandle<()>>, Streams, JoinHandle<io::Result<()>>),
    /// Connections and datagrams.
    Network(Network),
}

impl Load {
    /// Starts the work for component `name`.
    fn start(name: &str, seed: u64, folder: &Path) -> io::Result<Load> {
        if matches!(name, "virtio-net" | "inet") {
            return Network::start(seed).map(Load::Network);
        }
        fs::create_dir_all(folder)?;
        let mut workers = vec![thread::spawn(|| work("clock", check_clock))];
        for number in 0..WORKERS {
            let path = folder.join(format!("file-{number}"));
            let mut random = Random::new(seed.wrapping_add(number).wrapping_add(1));
            workers.push(thread::spawn(move || {
                work("files", || check_file(&path, &mut random, FILE_BYTES_MAX))
            }));
        }
        Ok(match Streams::of(name)? {
            Some(streams) => {
                let writer = streams.write_all_the_time();
                Load::Streams(workers, streams, writer)
            }
            None => Load::Files(workers),
        })
    }
    /// Kills the component once. Returns the nanoseconds to the successor's first answer.
    fn during_kill(&mut self, name: &str, random: &mut Random) -> Result<u64, String> {
        match self {
            Load::Files(_) => kill(name),
            Load::Streams(_, streams, _) => streams.during(random, || kill(name)),
            Load::Network(network) => network.during(PATIENCE, || kill(name)),
        }
    }
    /// Waits for the end of the work, and prints what was measured and checked. Returns whether no thread failed.
    fn finish(self, name: &str, is_quiet: bool) -> bool {
        let (workers, streams) = match self {
            Load::Network(mut network) => {
                let is_whole = network.finish(PATIENCE);
                if !is_quiet {
                    network.print();
                }
                return is_whole;
            }
            Load::Files(workers) => (workers, None),
            Load::Streams(workers, streams, writer) => {
                if let Err(error) = writer.join().expect("the writer") {
                    eprintln!("{name}: writing: {error}");
                    WRONG.fetch_add(1, Relaxed);
                }
                (workers, Some(streams))
            }
        };
        let is_whole =
            workers.into_iter().map(|worker| worker.join().is_ok()).fold(true, |a, b| a & b);
        if let Some((received, sent)) = streams.filter(|_| !is_quiet).map(|all| all.counts()) {
            println!("checked streams: {received} bytes in, {sent} lines out");
        }
        is_whole
    }
}

fn kills(name: &str, count: u64, seed: u64, load: &mut Load) -> Result<Vec<u64>, String> {
    let mut random = Random::new(seed);
    let mut outages = Vec::new();
    for done in 0..count {
        thread::sleep(Duration::from_micros(random.below(PAUSE_US_MAX)));
        let killed = load.during_kill(name, &mut random);
        outages.push(killed.map_err(|why| format!("after {done} kills: {why}"))?);
    }
    Ok(outages)
}

fn main() -> ExitCode {
    let word = |at: usize| std::env::args().nth(at).expect("kill_component NAME COUNT SEED FOLDER");
    let (name, folder) = (word(1), PathBuf::from(word(4)));
    let (count, seed): (u64, u64) =
        (word(2).parse().expect("a count"), word(3).parse().expect("a seed"));
    let is_quiet = std::env::args().nth(5).is_some();
    let mut load = Load::start(&name, seed, &folder).expect("the work over the component");
    let result = kills(&name, count, seed, &mut load);
    IS_OVER.store(true, Relaxed);
    if !is_quiet {
        for outage_ns in result.iter().flatten() {
            println!("outage {outage_ns}");
        }
    }
    // After a kill without a successor the work does not end.
    let is_whole = result.is_ok() && load.finish(&name, is_quiet);
    let wrong = WRONG.load(Relaxed);
    if !is_quiet {
        println!("checked {} wrong {wrong}", CHECKED.load(Relaxed));
    }
    if let Err(why) = &result {
        eprintln!("{name}: {why}");
    }
    ExitCode::from(u8::from(wrong > 0 || !is_whole))
}
