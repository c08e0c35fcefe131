//! Splits a call and its reply into parts. QEMU logs each instruction of one round, and binutils' `addr2line`, which knows what
//! was inlined, names the function that it belongs to.
use anyhow::{Context, Result};
use harness::{qemu::Config, shell};
use std::{
    collections::HashMap,
    fs,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Line that the guest prints when it starts to call for ever.
const CALLING: &str = "bench: calling";
/// Time limit of the wait for the mark, and for a log of sufficient length.
const LONGEST: Duration = Duration::from_secs(120);
/// Bytes of log that hold some rounds.
const TAIL: u64 = 4 << 20;
/// Number of rounds from which the usual one is chosen.
const ROUNDS_MIN: usize = 20;
const USER_END: u64 = 1 << 47;

/// The parts of a round, in their order, with their instructions.
pub type Parts = Vec<(&'static str, usize)>;

/// Runs `config`, a machine with the tests' kernel whose symbols are in the file `symbols`, and counts.
///
/// # Errors
/// Fails if QEMU or `addr2line` does not start, or no round is found.
pub fn split(config: &Config, symbols: &Path) -> Result<Parts> {
    let trace = shell::build_path("bench-trace.log")?;
    let round = record(config, &trace)?;
    fs::remove_file(&trace)?;
    let names = names(&round, symbols)?;
    Ok(count(&round, &names))
}

/// Lets QEMU log the guest's instructions, from the line on which the guest says that it calls, until the log has a round.
fn record(config: &Config, trace: &PathBuf) -> Result<Vec<u64>> {
    let bar = shell::progress("tracing a call");
    let _ = fs::remove_file(trace);
    let _ = fs::remove_file(&config.log);
    let mut command = config.command();
    command.args(["-display", "none", "-singlestep", "-monitor", "stdio", "-D"]).arg(trace);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("starting QEMU")?;
    let said = wait(|| fs::read(&config.log).is_ok_and(|log| contains(&log, CALLING)));
    let mut monitor = child.stdin.take().context("QEMU's monitor")?;
    let done = said && writeln!(monitor, "log exec,nochain").is_ok();
    let mut found = None;
    if done {
        wait(|| {
            found = tail(trace).ok().and_then(|text| round(&addresses(&text)));
            found.is_some()
        });
    }
    child.kill()?;
    child.wait()?;
    bar.finish_and_clear();
    found.with_context(|| format!("the guest did not call; log in {}", config.log.display()))
}

/// Returns the last [`TAIL`] bytes of a log, or all of it.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    file.take(TAIL).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

fn wait(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > LONGEST {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// Returns the executed addresses. An instruction that was logged and then not executed is left out.
fn addresses(log: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for line in log.lines() {
        if line.starts_with("Trace") {
            let place = line.split_once('[').and_then(|(_, rest)| rest.split('/').nth(1));
            all.extend(place.and_then(|place| u64::from_str_radix(place, 16).ok()));
        } else if line.starts_with("Stopped") {
            all.pop();
        }
    }
    all
}

/// Returns one round: the instructions between two visits of a place in the client, as many as in most rounds.
fn round(all: &[u64]) -> Option<Vec<u64>> {
    let mut visits: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, &address) in all.iter().enumerate().filter(|(_, address)| **address < USER_END) {
        visits.entry(address).or_default().push(at);
    }
    // Both components are at the same addresses, so the least visited place belongs to only one of them.
    let least = visits.values().filter(|at| at.len() > ROUNDS_MIN).min_by_key(|at| at.len())?;
    let gaps: Vec<usize> = least.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual = |gap: &usize| gaps.iter().filter(|other| *other == gap).count();
    let at = (0..gaps.len()).max_by_key(|&at| usual(&gaps[at]))?;
    Some(all[least[at]..least[at + 1]].to_vec())
}

/// Returns the functions that contain each address, innermost first, in one text.
fn names(round: &[u64], symbols: &Path) -> Result<HashMap<u64, String>> {
    let mut command = Command::new("addr2line");
    command.args(["-f", "-i", "-C", "-a", "-e"]).arg(symbols);
    command.args(round.iter().map(|address| format!("{address:#x}")));
    let output = shell::quietly("naming instructions", &mut command)?;
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut current = 0;
    for line in String::from_utf8_lossy(&output).lines() {
        match line.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(address) => {
                current = address;
                names.insert(address, String::new());
            }
            None => names.entry(current).or_default().extend([line, "\n"]),
        }
    }
    Ok(names)
}

/// The parts, each with texts that names of its functions contain. The first match counts.
const PARTS: [(&str, &[&str]); 5] = [
    ("entry", &["skerry_syscall", "skerry_component_left"]),
    ("exit", &["skerry_enter_checked", "skerry_hand_over", "skerry_pass"]),
    ("switch", &["parked::hand_over", "parked::enter", "parked::take_over", "parked::load_space"]),
    ("meeting and message", &["ipc::endpoint::", "message::message_"]),
    ("checks and locks", &[""]),
];

fn count(round: &[u64], names: &HashMap<u64, String>) -> Parts {
    let mut parts: Parts = PARTS.iter().map(|(part, _)| (*part, 0)).collect();
    parts.insert(0, ("stubs", 0));
    for address in round {
        let name = names.get(address).map_or("", String::as_str);
        let fits = |(_, holds): &&(&str, &[&str])| holds.iter().any(|part| name.contains(part));
        let part = match PARTS.iter().find(fits) {
            Some((part, _)) if *address >= USER_END => *part,
            _ => "stubs",
        };
        if let Some((_, count)) = parts.iter_mut().find(|(name, _)| *name == part) {
            *count += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_found_in_a_trace() {
        let line = |address: &u64| format!("Trace 0: 0x7f [0000/{address:016x}/1/2] name\n");
        let once = [5, 0xffff_ffff_8000_0000, 0xffff_ffff_8000_0001, 6, 5, 7];
        let mut log: String = once.iter().map(line).collect::<String>().repeat(30);
        log += "Trace 0: 0x7f [0000/9/1/2] x\nStopped execution of TB chain before 0x7f [9] x\n";
        let all = addresses(&log);
        assert_eq!(all.len(), 180);
        assert_eq!(round(&all).unwrap().len(), 6);
    }

    #[test]
    fn instructions_go_to_the_part_of_their_function() {
        let kernel = USER_END + 1;
        let names = [(kernel, "ipc::endpoint::send\nparked::fast"), (kernel + 1, "trapped")];
        let names = names.map(|(address, name)| (address, name.to_owned())).into();
        let parts = count(&[1, kernel, kernel + 1, kernel + 1], &names);
        let of = |part| parts.iter().find(|(name, _)| *name == part).map(|(_, count)| *count);
        assert_eq!((of("stubs"), of("meeting and message")), (Some(1), Some(1)));
        assert_eq!(of("checks and locks"), Some(2));
    }
}
