//! `/proc/skerry/components`, `isolated` and `control`: the components, and orders to those that are isolated.
//!
//! `components` is a table with one line for each; `isolated` has the full state of each isolated one, as lines of a
//! name and a value with an empty line between components. Writing `ORDER NAME` to `control` (by root; `start`,
//! `stop`, `restart`, `kill`) carries the order out before the write returns.
use super::registry;
use alloc::{borrow::Cow, format, string::String, vec::Vec};
use core::fmt::Write;
use interfaces::supervisor::{Order, OrderError, Status};
use vfs::Errno;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1_000;
const KIB: usize = 1024;

fn statuses() -> Vec<Status> {
    registry::supervisor().map(|supervisor| supervisor.status()).unwrap_or_default()
}

/// Returns the columns of an isolated component: numbers, and the reason of its last end.
fn columns(status: &Status) -> (String, &str) {
    let refused: u64 = status.refused.iter().map(|&(_, count)| count).sum();
    let numbers = format!(
        "{:>9}{:>11}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}",
        status.restarts,
        status.outage_ns / NS_PER_US,
        status.memory_bytes / KIB,
        status.memory_bytes_max / KIB,
        status.threads,
        status.cpu_ns / NS_PER_MS,
        status.calls,
        refused
    );
    (numbers, status.endings.first().map_or("-", |ending| &ending.cause))
}

/// Returns the table of components.
pub fn components() -> Vec<u8> {
    let mut text = format!(
        "{:<20}{:<11}{:<11}{:>12}{:>9}{:>11}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}  {:<13}{}\n",
        "component",
        "world",
        "state",
        "started_ms",
        "restarts",
        "outage_us",
        "kib",
        "max_kib",
        "threads",
        "cpu_ms",
        "calls",
        "refused",
        "interfaces",
        "last_end"
    );
    let statuses = statuses();
    for component in registry::components() {
        let status = statuses.iter().find(|status| status.name == component.name);
        let (state, started) = match (status, component.state) {
            (Some(status), registry::ComponentState::Running) => {
                (status.state.name(), status.started)
            }
            (None, registry::ComponentState::Running) => ("running", component.started),
            (_, registry::ComponentState::NoDevice) => ("no-device", component.started),
        };
        let (numbers, cause) = status.map_or_else(
            || {
                (
                    format!(
                        "{:>9}{:>11}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}",
                        "-", "-", "-", "-", "-", "-", "-", "-"
                    ),
                    "-",
                )
            },
            columns,
        );
        let offers = match component.implements {
            [] => Cow::Borrowed("-"),
            several => Cow::Owned(several.join(",")),
        };
        let _ = writeln!(
            text,
            "{:<20}{:<11}{state:<11}{:>12}{numbers}  {offers:<13}{cause}",
            component.name,
            component.world,
            started.0 / NS_PER_MS,
        );
    }
    text.into_bytes()
}

/// Returns the full state of each isolated component.
pub fn isolated() -> Vec<u8> {
    let all: Vec<String> = statuses().iter().map(details).collect();
    all.join("\n").into_bytes()
}

fn details(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn core::fmt::Display| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    line("component", &status.name);
    line("state", &status.state.name());
    line("started_ms", &(status.started.0 / NS_PER_MS));
    line("restarts", &status.restarts);
    line("outage_ns", &status.outage_ns);
    line("memory_bytes", &status.memory_bytes);
    line("memory_max", &status.memory_bytes_max);
    line("share_percent", &status.share_percent);
    line("threads", &status.threads);
    line("cpu_ns", &status.cpu_ns);
    line("calls", &status.calls);
    for (call, count) in &status.refused {
        line("refused", &format_args!("{call} {count}"));
    }
    for ending in &status.endings {
        line("end", &format_args!("{} ms: {}", ending.at.0 / NS_PER_MS, ending.cause));
        for registers in ending.registers.chunks(4) {
            line("  registers", &registers.join(" "));
        }
        for place in &ending.backtrace {
            line("  in", place);
        }
        for record in &ending.trace {
            line("  trace", record);
        }
    }
    text
}

/// Carries out the order in `data`.
pub fn control(data: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let mut words = text.split_ascii_whitespace();
    let (Some(order), Some(name), None) = (words.next(), words.next(), words.next()) else {
        return Err(Errno::EINVAL);
    };
    let order = match order {
        "start" => Order::Start,
        "stop" => Order::Stop,
        "restart" => Order::Restart,
        "kill" => Order::Kill,
        _ => return Err(Errno::EINVAL),
    };
    let supervisor = registry::supervisor().ok_or(Errno::ENODEV)?;
    supervisor.order(name, order).map_err(|error| match error {
        OrderError::Unknown => Errno::ENODEV,
        OrderError::State => Errno::EBUSY,
        OrderError::Lost => Errno::EIO,
    })
}

/// Returns `/proc/driver/rtc`: the present state of the clock that runs while the machine is off.
pub fn clock() -> Vec<u8> {
    let Some(ns) = registry::clock().and_then(|clock| clock.read_ns()) else { return Vec::new() };
    let seconds = ns / 1_000_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "rtc_time\t: {hour:02}:{minute:02}:{second:02}\nrtc_date\t: {year:04}-{month:02}-{day:02}\n24hr\t\t: yes\n"
    )
    .into_bytes()
}

/// Returns year, month and day of the `days`th day after 1970-01-01, by counting from 1 March of year 0 (as the
/// proleptic Gregorian calendar repeats every 400 years).
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_BEFORE_1970: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(59), (1970, 3, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(19_782), (2024, 2, 29));
        assert_eq!(date(19_783), (2024, 3, 1));
        assert_eq!(date(20_453), (2025, 12, 31));
    }
}
