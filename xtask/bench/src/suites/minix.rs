//! `./x bench minix`: the costs of port accesses in four ways, of which Pessolani's "MINIX-HAL" compares two. The guest is
//! the tests' kernel (`tests/nucleus/src/costs/ports.rs`) with the component `ports` of `bench/`. Printed as tables, drawn in
//! `build/bench-minix.svg`, described in `docs/isolation.md`.
use super::ipc;
use crate::{
    draw::chart::{self, Bar},
    values::unit::Unit,
};
use anyhow::{Context, Result, bail};
use harness::{build, nucleus, packages, shell};
use std::{collections::BTreeMap, path::Path};

/// Names of the ways, from 1.
const WAYS: [&str; 4] = ["message to a task", "kernel call", "permission map", "trapped"];
const FORMS: [&str; 5] = ["byte", "word", "long", "string", "list"];
const DIRECTIONS: [&str; 2] = ["in", "out"];
/// The most that a byte by kernel call and by permission map may cost, of one by message.
const CALL_SHARE_MAX: f64 = 0.43;
const MAP_SHARE_MAX: f64 = 0.05;
/// The paper's table 1 (bytes in and out of a serial port, in cycles of a Pentium): by message, and by kernel call.
const PAPER: [[(f64, f64); 2]; 2] =
    [[(3268.0, 1053.0), (3346.0, 785.0)], [(1435.0, 754.0), (1454.0, 687.0)]];

/// Average and standard deviation of an access.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    average: f64,
    deviation: f64,
}

/// Costs by way and form, in nanoseconds; under `-icount shift=0` that is in instructions.
#[derive(Clone, Debug)]
struct Costs(BTreeMap<(usize, String), Cost>);

impl Costs {
    /// Reads the costs from a log, without the cost of taking the time.
    ///
    /// # Errors
    /// Fails if a cost is missing.
    fn of(log: &str) -> Result<Costs> {
        let mut raw: BTreeMap<_, _> = log.lines().filter_map(point).collect();
        for ((way, name), cost) in raw.clone() {
            let direction = name.rsplit(' ').next().unwrap_or_default();
            let nothing = (way, format!("nothing {direction}"));
            let nothing = raw.get(&nothing).with_context(|| format!("no {nothing:?}"))?.average;
            if !name.starts_with("nothing") {
                let average = cost.average - nothing;
                raw.insert((way, name), Cost { average, ..cost });
            }
        }
        let costs = Costs(raw);
        for (form, direction) in rows() {
            (1..=WAYS.len()).try_for_each(|way| costs.get(way, form, direction).map(|_| ()))?;
        }
        Ok(costs)
    }

    fn get(&self, way: usize, form: &str, direction: &str) -> Result<Cost> {
        let key = (way, format!("{form} {direction}"));
        self.0.get(&key).copied().with_context(|| format!("the guest did not measure {key:?}"))
    }
}

/// Parses a line `ports: WAY FORM: ROUNDS SUM SQUARES`.
fn point(line: &str) -> Option<((usize, String), Cost)> {
    let (head, numbers) = line.rsplit_once("ports: ")?.1.rsplit_once(": ")?;
    let (way, form) = head.split_once(' ')?;
    let numbers: Vec<f64> = numbers.split(' ').map_while(|word| word.parse().ok()).collect();
    let &[rounds, sum, squares] = numbers.as_slice() else { return None };
    let average = sum / rounds;
    let deviation = (squares / rounds - average * average).max(0.0).sqrt();
    Some(((way.parse().ok()?, form.to_owned()), Cost { average, deviation }))
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    FORMS.iter().flat_map(|&form| DIRECTIONS.map(|direction| (form, direction)))
}

/// Measures, prints and draws.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run() -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let kernel = build::nucleus_tests(&build::Features::default())?;
    let counted = measure(&kernel, Unit::Instructions)?;
    println!("instructions (-icount shift=0), average and standard deviation of 1000");
    print(&counted)?;
    println!("\nnanoseconds of emulated time (this QEMU, no -icount)");
    print(&measure(&kernel, Unit::Clock)?)?;
    println!("\nthe paper's, cycles of a Pentium: MINIX 3 by message, MINIX-HAL by kernel call");
    for (what, costs) in ["by message", "by kernel call"].iter().zip(PAPER) {
        for (direction, (average, deviation)) in DIRECTIONS.iter().zip(costs) {
            println!(
                "{:<28}{average:>10.0} ±{deviation:>6.0}",
                format!("byte {direction}, {what}")
            );
        }
    }
    println!("\na byte, of one by message (the paper: by kernel call 44 % in, 43 % out)");
    for direction in DIRECTIONS {
        let first = counted.get(1, "byte", direction)?.average;
        for (way, name) in (1..).zip(WAYS).skip(1) {
            let share = 100.0 * counted.get(way, "byte", direction)?.average / first;
            println!("{:<28}{share:>9.1}%", format!("byte {direction}, {name}"));
        }
    }
    let path = shell::build_path("bench-minix.svg")?;
    std::fs::write(&path, draw(&counted)?)?;
    println!("\ndrawn in {}", path.display());
    Ok(0)
}

/// Checks for `./x test` that a byte costs no more than allowed in each way. Returns the costs, as an inner error if one is
/// too high.
///
/// # Errors
/// Fails if QEMU does not start or a cost is missing.
pub fn check(kernel: &Path) -> Result<std::result::Result<String, String>> {
    let costs = measure(kernel, Unit::Instructions)?;
    let mut is_good = true;
    let mut figures = Vec::new();
    for direction in DIRECTIONS {
        let byte = |way| Ok::<_, anyhow::Error>(costs.get(way, "byte", direction)?.average);
        let (message, call, map, trap) = (byte(1)?, byte(2)?, byte(3)?, byte(4)?);
        is_good &= call <= message * CALL_SHARE_MAX && map <= message * MAP_SHARE_MAX;
        figures.push(format!(
            "a byte {direction} by message {message:.0}, call {call:.0}, map {map:.0}, trap {trap:.0}"
        ));
    }
    let figures = figures.join("; ");
    Ok(if is_good { Ok(figures) } else { Err(figures) })
}

fn print(costs: &Costs) -> Result<()> {
    print!("{:<12}", "");
    WAYS.iter().for_each(|way| print!("{way:>20}"));
    println!();
    for (form, direction) in rows() {
        print!("{:<12}", format!("{form} {direction}"));
        for way in 1..=WAYS.len() {
            let Cost { average, deviation } = costs.get(way, form, direction)?;
            print!("{average:>12.0} ±{deviation:>6.0}");
        }
        println!();
    }
    Ok(())
}

fn draw(costs: &Costs) -> Result<String> {
    let mut bars = Vec::new();
    for (form, direction) in rows() {
        for (way, name) in (1..).zip(WAYS) {
            let value = costs.get(way, form, direction)?.average;
            bars.push(Bar { name: format!("{form} {direction}, {name}"), value });
        }
    }
    let most = CALL_SHARE_MAX * costs.get(1, "byte", "in")?.average;
    let mark = ("43 % of a byte in by message:", most);
    Ok(chart::draw("What an access of ports costs", "instructions", &bars, mark))
}

fn measure(kernel: &Path, unit: Unit) -> Result<Costs> {
    let config = ipc::machine(kernel, "skerry.selftest=ports", unit)?;
    let longest = nucleus::LONGEST;
    let log = nucleus::boot(&config, "measuring accesses of ports", longest)?;
    if !log.contains("selftest: done") {
        bail!("the measurements did not end; log in {}", config.log.display());
    }
    Costs::of(&log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_without_the_clock_and_deviations_with_it() {
        let mut log = String::new();
        for way in 1..=4 {
            for name in ["nothing in", "nothing out"] {
                log += &format!("[ 0.1] I nucleus: ports: ports: {way} {name}: 4 40 400\n");
            }
            for (form, direction) in rows() {
                log += &format!("ports: ports: {way} {form} {direction}: 2 60 2000\n");
            }
        }
        let costs = Costs::of(&log).unwrap();
        let expected = Cost { average: 20.0, deviation: 10.0 };
        assert_eq!(costs.get(4, "list", "out").unwrap(), expected);
        assert!(Costs::of(&log.replace("list in", "other in")).is_err());
    }
}
