//! The lines of `/proc/self/smaps` of a region.
use std::fs;

/// The lines of the region that starts at `at`, its first apart: names and values.
///
/// # Panics
/// Where the file cannot be read.
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

/// The value of the line `name`.
///
/// # Panics
/// Where there is none.
pub fn field(lines: &[(String, String)], name: &str) -> String {
    lines.iter().find(|line| line.0 == name).unwrap_or_else(|| panic!("no {name}")).1.clone()
}

/// The value of the line `name`, in KiB.
///
/// # Panics
/// Where there is none, or it is no number of KiB.
pub fn kib(lines: &[(String, String)], name: &str) -> u64 {
    let value = field(lines, name);
    let number = value.strip_suffix(" kB").and_then(|number| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{name} is {value}"))
}
