//! `./x bench ipc`: the costs of messages. The guest is the tests' kernel (`tests/nucleus/src/costs`) with the components of
//! `bench/`. The costs are printed as a table, drawn in `build/bench-ipc.svg`, and described in `docs/messages.md`.
use crate::{
    draw::chart::{self, Bar},
    measure::{split, times::Times},
    values::unit::Unit,
};
use anyhow::{Result, bail};
use harness::{
    build, disk, guest, nucleus, packages,
    qemu::{Clock, Config},
    shell,
};
use std::path::Path;

/// seL4's call and reply of an empty message within one address space, measured the same way.
const SEL4: f64 = 458.0;
const LENGTHS: [u32; 7] = [0, 1, 4, 8, 16, 32, 64];
const CLIENTS: [u32; 4] = [1, 10, 100, 1000];
/// The most that each may cost, in instructions.
const CALL_MAX: f64 = 400.0;
const LOCAL_MAX: f64 = 300.0;
const NOTIFICATION_MAX: f64 = 350.0;
const INTERFACE_MAX: f64 = 500.0;
/// The most that a call of an interface may cost, of one by hand.
const INTERFACE_SHARE_MAX: f64 = 1.02;
/// The most that a call of a handle may cost more than one of a trait object.
const HANDLE_MAX: f64 = 5.0;

/// A row of the table: name and instructions.
type Row = (String, f64);

/// Measures, prints and draws.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run() -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let kernel = build::nucleus_tests(&build::Features::default())?;
    let counted = rows(&boot(&kernel, Unit::Instructions)?)?;
    println!("instructions (-icount shift=0, regression over four counts)");
    counted.iter().for_each(|(name, value)| println!("{name:<52}{value:>9.0}"));
    println!("{:<52}{SEL4:>9.0}", "seL4: call and reply, 0 words, one address space");
    println!("\na call with 4 words and its reply, instruction by instruction");
    let config = machine(&kernel, "skerry.selftest=trace", Unit::Clock)?;
    for (part, instructions) in split::split(&config, &build::nucleus_tests_symbols())? {
        println!("{part:<52}{instructions:>9}");
    }
    clock(&kernel)?;
    let path = shell::build_path("bench-ipc.svg")?;
    let bars: Vec<Bar> = counted.into_iter().map(|(name, value)| Bar { name, value }).collect();
    let mark = ("seL4, 0 words, one address space:", SEL4);
    std::fs::write(&path, chart::draw("What messages cost", "instructions", &bars, mark))?;
    println!("\ndrawn in {}", path.display());
    Ok(0)
}

/// Checks for `./x test` that messages cost no more instructions than allowed. Returns the costs, as an inner error if one is
/// too high.
///
/// # Errors
/// Fails if QEMU does not start.
pub fn check(kernel: &Path) -> Result<std::result::Result<String, String>> {
    let log = boot(kernel, Unit::Instructions)?;
    let times = Times::of(&log);
    let call = times.cost("call 4 words")?;
    let (local, notification) = (times.cost("local call 4 words")?, times.cost("notification")?);
    let (plain, interface) = (times.cost("call by hand")?, times.cost("call of an interface")?);
    let (object, handle) = (times.cost("call of a trait object")?, times.cost("call of a handle")?);
    let figures = format!(
        "call {call:.0}, within a component {local:.0}, notification {notification:.0}, by hand {plain:.0}, \
         interface {interface:.0}, trait object {object:.1}, handle {handle:.1}"
    );
    let is_good = call <= CALL_MAX
        && local <= LOCAL_MAX
        && notification <= NOTIFICATION_MAX
        && interface <= (plain * INTERFACE_SHARE_MAX).min(INTERFACE_MAX)
        && handle <= object + HANDLE_MAX;
    Ok(if is_good { Ok(figures) } else { Err(figures) })
}

/// Number of runs by the clock.
const CLOCK_RUNS: usize = 7;

fn rows(log: &str) -> Result<Vec<Row>> {
    let times = Times::of(log);
    let mut rows = Vec::new();
    let mut add = |shown: String, name: &str| -> Result<()> {
        rows.push((shown, times.cost(name)?));
        Ok(())
    };
    for words in LENGTHS {
        add(format!("call and reply, {words} words"), &format!("call {words} words"))?;
    }
    add("within one component, 4 words".to_owned(), "local call 4 words")?;
    add("notification, one way".to_owned(), "notification")?;
    for name in ["copy of 64", "copy of 4096", "copy of 16 times 64"] {
        add(format!("{name} bytes from another component"), name)?;
    }
    add("a kernel call that does nothing".to_owned(), "nothing")?;
    for clients in CLIENTS {
        add(format!("{clients} clients wait, the server yields"), &format!("{clients} clients"))?;
    }
    add("rt, by hand".to_owned(), "call by hand")?;
    add("rt, by hand, within one component".to_owned(), "call by hand between threads")?;
    add("rt, an interface's".to_owned(), "call of an interface")?;
    add("a trait object's method, no message".to_owned(), "call of a trait object")?;
    add("a handle's method, no message".to_owned(), "call of a handle")?;
    Ok(rows)
}

/// Measures by the clock, compared with a program's system call and two changes of the address space. All are measured in turn,
/// several times, because the clock is noisy.
fn clock(kernel: &Path) -> Result<()> {
    let mut rows: Vec<(&str, Vec<f64>)> = Vec::new();
    for _ in 0..CLOCK_RUNS {
        for (name, ns) in clocked(kernel)? {
            match rows.iter_mut().find(|(known, _)| *known == name) {
                Some((_, runs)) => runs.push(ns),
                None => rows.push((name, vec![ns])),
            }
        }
    }
    println!("\nby the clock, in microseconds, of {CLOCK_RUNS} runs (this QEMU, no -icount)");
    println!("{:<52}{:>9}{:>9}{:>9}", "", "median", "least", "most");
    for (name, mut runs) in rows {
        runs.sort_by(f64::total_cmp);
        let [median, least, most] = [runs.len() / 2, 0, runs.len() - 1].map(|at| runs[at] / 1000.0);
        println!("{name:<52}{median:>9.2}{least:>9.2}{most:>9.2}");
    }
    Ok(())
}

/// Does one run. Returns the times in nanoseconds.
fn clocked(kernel: &Path) -> Result<[(&'static str, f64); 6]> {
    let times = Times::of(&boot(kernel, Unit::Clock)?);
    let spaces = 2.0 * (times.cost("system call in turn")? - times.cost("system call")?);
    let getppid = getppid()?;
    Ok([
        ("call and reply, 4 words", times.cost("call 4 words")?),
        ("within one component, 4 words", times.cost("local call 4 words")?),
        ("notification, one way", times.cost("notification")?),
        ("getppid of a program", getppid),
        ("two changes of the address space", spaces),
        ("4 getppid and the two changes", 4.0 * getppid + spaces),
    ])
}

/// Returns the time of `getppid` on the whole system, in nanoseconds.
fn getppid() -> Result<f64> {
    let kernel = build::image("default", &build::Features::default())?;
    let config = guest::machine(&kernel, &disk::programs_image()?, "bench-getppid.log")?;
    let bar = shell::progress("timing getppid");
    let (outcome, output, _) = guest::run_captured(&config, "/abi/getppid_cost", "", 120)?;
    bar.finish_and_clear();
    let times = Times::of(&String::from_utf8_lossy(&output));
    match times.cost("getppid") {
        Ok(ns) => Ok(ns),
        Err(error) => bail!("{error}: {outcome}; log in {}", config.log.display()),
    }
}

/// Returns the machine of the measurements: one processor and a second serial port.
///
/// # Errors
/// Fails if `build/` cannot be made.
pub fn machine(kernel: &Path, parameter: &str, unit: Unit) -> Result<Config> {
    let append = format!("{} {parameter}", guest::PARAMETERS);
    let config = guest::machine(kernel, kernel, "bench-ipc.log")?;
    let extra = nucleus::SECOND_SERIAL_PORT.map(str::to_owned).into();
    let clock = Clock::of(unit == Unit::Instructions);
    Ok(Config { cpus: 1, append, extra, clock, ..config })
}

/// Returns the whole log of the measurements.
fn boot(kernel: &Path, unit: Unit) -> Result<String> {
    let config = machine(kernel, "skerry.selftest=bench", unit)?;
    let log = nucleus::boot(&config, "measuring messages", nucleus::LONGEST)?;
    if log.contains("selftest: done") {
        Ok(log)
    } else {
        bail!("the measurements did not end; log in {}", config.log.display())
    }
}
