//! The lines of `/proc/self/smaps` of a region.
use std::fs;

/// Returns the lines of the region that contains `at`, without the first: names and values. A region may begin below the memory
/// that a test mapped, because the kernel merges neighbours with the same attributes.
///
/// # Panics
/// Panics if `/proc/self/smaps` cannot be read.
pub fn lines_at(at: *const u8) -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/smaps").expect("smaps is readable");
    let lines = text.lines().skip_while(|line| !is_head_of(line, at.addr())).skip(1);
    let is_field = |line: &&str| line.split(' ').next().is_some_and(|word| word.ends_with(':'));
    lines
        .take_while(is_field)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// Returns whether `line` opens the region that contains `address`: `START-END rights ...`, in hexadecimal.
fn is_head_of(line: &str, address: usize) -> bool {
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let bound = |digits| usize::from_str_radix(digits, 16).ok();
    let bounds = range.and_then(|(start, end)| Some(bound(start)?..bound(end)?));
    bounds.is_some_and(|bounds| bounds.contains(&address))
}

/// Returns the value of the line `name`.
///
/// # Panics
/// Panics if there is no such line.
pub fn field(lines: &[(String, String)], name: &str) -> String {
    lines.iter().find(|line| line.0 == name).unwrap_or_else(|| panic!("no {name}")).1.clone()
}

/// Returns the value of the line `name`, in KiB.
///
/// # Panics
/// Panics if there is no such line, or its value is not a number of KiB.
pub fn kib(lines: &[(String, String)], name: &str) -> u64 {
    let value = field(lines, name);
    let number = value.strip_suffix(" kB").and_then(|number| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{name} is {value}"))
}
