//! The lines of `/proc/self/smaps` of a region.
use std::fs;

/// Returns the lines of the region that starts at `at`, without the first: names and values.
///
/// # Panics
/// Panics if `/proc/self/smaps` cannot be read.
pub fn lines_at(at: *const u8) -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/smaps").expect("smaps is readable");
    let start = format!("{:08x}-", at.addr());
    let lines = text.lines().skip_while(|line| !line.starts_with(&start)).skip(1);
    let is_field = |line: &&str| line.split(' ').next().is_some_and(|word| word.ends_with(':'));
    lines
        .take_while(is_field)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
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
