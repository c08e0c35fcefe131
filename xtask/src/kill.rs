//! `./x kill`: kills an isolated component at random instants of a file workload and says how long its service
//! was away: printed as a table and a histogram, drawn in `build/kill-NAME.svg` (issue "Isolation"). Kernel objects
//! and free frames are counted before and after: restarts leave nothing behind.
//!
//! The driver of network cards and the network stack die under connections over a wire that loses frames, instead of files ([`network`]). Then the
//! time in which no program received a byte is printed, too.
mod network;
mod numbered;

use crate::campaign;
use anyhow::{Result, bail};
use harness::{
    build::{self, Features},
    disk,
    guest::{self, Outcome},
    packages,
    qemu::{self, Config},
    session::{self, Ended, Streams},
    shell,
};
use numbered::Seen;
use std::{fmt::Write, os::unix::net::UnixListener, path::PathBuf, sync::Mutex};

/// Options of `kill`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The component
    #[arg(long)]
    pub component: String,
    /// Number of kills
    #[arg(long, default_value_t = 100)]
    pub count: u64,
    /// The start of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The system description, systems/NAME.toml (one in which the component is isolated)
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Processors (2)
    #[arg(long)]
    pub cpus: Option<u32>,
    /// One nanosecond an instruction, one processor: other work of the host is not in the times. With virtio-net and inet, whose
    /// peer is outside, the time in which the processor waits is the host's
    #[arg(long)]
    pub icount: bool,
    /// With virtio-net and inet: all frames, in a file for Wireshark and `tcpdump -r`
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
}

/// Seconds a kill may take on average, and to boot.
const KILL_SECONDS: u64 = 2;
const BOOT_SECONDS: u64 = 60;
/// Number of kills before the first count of objects, so that objects made at a first use exist, and the record of
/// ends is full.
const FIRST_KILLS: u64 = 20;
/// Words before a time that the program in the guest prints.
const OUTAGE: &str = "outage ";
const STALL: &str = "stall ";
const CALM: &str = "calm ";
/// Bars of the histogram. Each stands for a time twice that of the one before; the first ends here.
const BARS: usize = 14;
const FIRST_BAR_NS: u64 = 250_000;

/// Runs the kills and prints the times.
///
/// # Errors
/// Fails if the system does not build or start. A lost byte, or an error that a program saw, gives status 1.
pub fn run(options: &Options) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let system = options.system.as_deref().unwrap_or(match options.component.as_str() {
        network::STACK => "multiserver",
        _ => "default",
    });
    let kernel = build::image(system, &Features::default())?;
    let image = disk::programs_image()?;
    let clock = match options.icount && is_network(&options.component) {
        true => qemu::Clock::InstructionsAndIdle,
        false => qemu::Clock::of(options.icount),
    };
    let config = Config {
        cpus: qemu::check(options.cpus, clock)?,
        clock,
        ..guest::machine(&kernel, &image, "kill.log")?
    };
    let Options { component, count, seed, .. } = options;
    let kills = |count| format!("/abi/kill_component {component} {count} {seed} /kill");
    let first = format!("{} quietly", kills(FIRST_KILLS));
    let command = campaign::counted_after(&first, &kills(*count));
    let bar = shell::progress("killing");
    let limit = BOOT_SECONDS + (FIRST_KILLS + count) * KILL_SECONDS;
    let killed = kill(config.clone(), options, &command, limit)?;
    let Killed { outcome, output, error, notes, is_whole } = killed;
    bar.finish_and_clear();
    eprint!("{}", String::from_utf8_lossy(&error));
    let output = String::from_utf8_lossy(&output);
    let times_of = |word| {
        let numbers =
            output.lines().filter_map(move |line| line.strip_prefix(word)?.trim().parse().ok());
        let mut times: Vec<u64> = numbers.collect();
        times.sort_unstable();
        times
    };
    let [times, stalls, calms] = [OUTAGE, STALL, CALM].map(times_of);
    if times.is_empty() {
        bail!("no kill was answered: {outcome}; log in {}", config.log.display());
    }
    let title =
        format!("{component}: {} kills, death to service in ms of guest time\n", times.len());
    print!("{title}{}{}", summary(&times), histogram(&times));
    if !stalls.is_empty() {
        println!("{component}: longest time in which no program received a byte");
        print!("{}{}", summary(&stalls), histogram(&stalls));
        println!("{component}: the same before each kill, with nothing killed");
        print!("{}{}", summary(&calms), histogram(&calms));
    }
    let is_time = |line: &&str| [OUTAGE, STALL, CALM].iter().any(|word| line.starts_with(word));
    output.lines().filter(|line| !is_time(line)).for_each(|line| println!("{line}"));
    let path = shell::build_path(&format!("kill-{component}.svg"))?;
    std::fs::write(&path, drawing(component, &times))?;
    println!("{outcome}; drawn in {}, log in {}", path.display(), config.log.display());
    notes.iter().for_each(|note| println!("{note}"));
    Ok(u8::from(!is_whole || outcome != Outcome::Session(Ended::Exited(0))))
}

/// The result of a run of kills.
struct Killed {
    outcome: Outcome,
    output: Vec<u8>,
    error: Vec<u8>,
    /// Events that the other end of the component has seen.
    notes: Vec<String>,
    /// The other end has seen nothing wrong.
    is_whole: bool,
}

impl Killed {
    /// Adds what the host's end of numbered lines has seen.
    fn with_lines(self, seen: &Mutex<Seen>) -> Killed {
        let seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut notes = vec![format!("checked {} numbered lines that came out", seen.lines)];
        notes.extend(seen.wrong.iter().map(|wrong| format!("wrong: {wrong}")));
        Killed { notes, is_whole: seen.wrong.is_none(), ..self }
    }
}

/// Returns whether packets go through the component.
fn is_network(component: &str) -> bool {
    [network::CARD, network::STACK].contains(&component)
}

/// Runs `command`, with the other end of what goes through the component here, if there is one.
fn kill(mut config: Config, options: &Options, command: &str, limit: u64) -> Result<Killed> {
    if options.component == "uart" {
        let folder = tempfile::Builder::new().prefix("skerry").tempdir()?;
        let path = folder.path().join("serial");
        let listener = UnixListener::bind(&path)?;
        config.extra.extend(["-serial".into(), format!("unix:{}", qemu::escaped(&path))]);
        let seen = numbered::serve(listener);
        return Ok(captured(&config, command, limit)?.with_lines(&seen));
    }
    if options.component == "virtio-console" {
        let (output, error) = (session::Captured::default(), session::Captured::default());
        let (checker, feeder, seen) = numbered::pair(output.clone());
        let streams = Streams {
            input: Box::new(feeder),
            output: Box::new(checker),
            error: Box::new(error.clone()),
        };
        let outcome = guest::execute(&config, command, streams, Some(limit))?;
        let (output, error) = (output.take(), error.take());
        let killed = Killed { outcome, output, error, notes: Vec::new(), is_whole: true };
        return Ok(killed.with_lines(&seen));
    }
    if is_network(&options.component) {
        let ends = network::Ends::start(&mut config, options.seed, options.capture.clone())?;
        let command = format!("{}{command}", network::PREPARATION);
        let killed = captured(&config, &command, limit)?;
        let (notes, is_whole) = ends.finish();
        return Ok(Killed { notes, is_whole, ..killed });
    }
    captured(&config, command, limit)
}

/// Runs `command` without another end.
fn captured(config: &Config, command: &str, limit: u64) -> Result<Killed> {
    let (outcome, output, error) = guest::run_captured(config, command, "", limit)?;
    Ok(Killed { outcome, output, error, notes: Vec::new(), is_whole: true })
}

/// Returns the time below which `share` of 100 of the ascending `times` are.
fn percentile(times: &[u64], share: usize) -> u64 {
    times.get(times.len() * share / 100).or(times.last()).copied().unwrap_or(0)
}

fn summary(times: &[u64]) -> String {
    let mut text = String::new();
    let rows = [
        ("least", 0),
        ("quarter", 25),
        ("median", 50),
        ("three quarters", 75),
        ("99 of 100", 99),
        ("most", 100),
    ];
    for (name, share) in rows {
        let ms = percentile(times, share) as f64 / 1e6;
        let _ = writeln!(text, "{name:<15}{ms:>9.3}");
    }
    text
}

/// Counts the times in each bar of the histogram: below [`FIRST_BAR_NS`], below twice that, and so on.
fn bars(times: &[u64]) -> [usize; BARS] {
    let mut bars = [0; BARS];
    for time in times {
        let bar = (time / FIRST_BAR_NS).checked_ilog2().map_or(0, |bits| bits as usize + 1);
        bars[bar.min(BARS - 1)] += 1;
    }
    bars
}

fn bar_end_ms(bar: usize) -> f64 {
    (FIRST_BAR_NS << bar) as f64 / 1e6
}

fn histogram(times: &[u64]) -> String {
    const WIDTH: usize = 50;
    let bars = bars(times);
    let most = bars.iter().copied().max().unwrap_or(1).max(1);
    let mut text = String::new();
    for (bar, count) in bars.iter().enumerate().filter(|(_, count)| **count > 0) {
        let line = "#".repeat((count * WIDTH).div_ceil(most));
        let _ = writeln!(text, "below {:>9.2} ms {count:>6} {line}", bar_end_ms(bar));
    }
    text
}

fn drawing(component: &str, times: &[u64]) -> String {
    const STEP: usize = 48;
    const HEIGHT: usize = 200;
    const FLOOR: usize = 240;
    let bars = bars(times);
    let most = bars.iter().copied().max().unwrap_or(1).max(1);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"290\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"10\" y=\"20\">{component}: {} kills, death to service (median {:.2} ms)</text>\n",
        BARS * STEP + 20,
        times.len(),
        percentile(times, 50) as f64 / 1e6
    );
    for (bar, count) in bars.iter().enumerate() {
        let (left, height) = (10 + bar * STEP, count * HEIGHT / most);
        let _ = writeln!(
            text,
            "<rect x=\"{left}\" y=\"{}\" width=\"{}\" height=\"{height}\" fill=\"#357\"/>\
             <text x=\"{left}\" y=\"{}\">{count}</text><text x=\"{left}\" y=\"{}\">&lt;{}</text>",
            FLOOR - height,
            STEP - 6,
            FLOOR - height - 4,
            FLOOR + 16,
            bar_end_ms(bar)
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"10\" y=\"{}\">milliseconds of guest time</text>\n</svg>",
        FLOOR + 36
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_bars_that_double() {
        let counted = bars(&[0, 249_999, 250_000, 499_999, 500_000, u64::MAX]);
        assert_eq!(counted[..3], [2, 2, 1]);
        assert_eq!(counted[BARS - 1], 1);
    }

    #[test]
    fn percentiles_are_of_the_times_given() {
        let times: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&times, 0), percentile(&times, 50)), (1, 51));
        assert_eq!((percentile(&times, 100), percentile(&[], 50)), (100, 0));
    }
}
