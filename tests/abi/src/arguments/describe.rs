//! The descriptions of calls and the cases that are generated from them.
//!
//! A line is a class of values, `class NAME: VALUE ...`; a class of flags, `flags NAME: VALUE ...`, whose values are no flag,
//! each flag alone, each pair and all flags; or a call, `NAME NUMBER ARGUMENT ...`, each argument a class, or values in one
//! word joined by `|`. The first value of a class is the valid one. A value is a number, a power (`2^31-1`), an object of
//! [`super::state`], or a number with a name (`O_CREAT=0x40`). `!` behind a call's name says that it stores values that differ
//! from run to run, and `~` that it returns such a value. `#` opens a comment.
use super::{Described, state};
use std::collections::{BTreeMap, BTreeSet};

/// The families by name.
const FAMILIES: [(&str, &str); 12] = [
    ("descriptors", include_str!("descriptions/descriptors.txt")),
    ("positions", include_str!("descriptions/positions.txt")),
    ("paths", include_str!("descriptions/paths.txt")),
    ("control", include_str!("descriptions/control.txt")),
    ("memory", include_str!("descriptions/memory.txt")),
    ("signals", include_str!("descriptions/signals.txt")),
    ("time", include_str!("descriptions/time.txt")),
    ("sockets", include_str!("descriptions/sockets.txt")),
    ("polling", include_str!("descriptions/polling.txt")),
    ("processes", include_str!("descriptions/processes.txt")),
    ("ipc", include_str!("descriptions/ipc.txt")),
    ("mounts", include_str!("descriptions/mounts.txt")),
];
/// The text of the classes that all families use.
const COMMON: &str = include_str!("descriptions/common.txt");
/// The largest product of classes that is tried whole. Of a larger one, each value of an argument meets the first
/// [`MET`] values of each other argument.
const WHOLE: usize = 100;
const MET: usize = 3;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    name: String,
    pub(super) number: i64,
    /// The bytes that it stores differ from run to run.
    pub(super) is_storing_volatile: bool,
    /// The value that it returns differs from run to run.
    pub(super) is_value_volatile: bool,
}

impl Call {
    /// Returns whether the call returns the number of an object that other processes share.
    pub(super) fn is_identifier(&self) -> bool {
        ["shmget", "msgget", "semget", "getpgid", "getsid"].contains(&self.name.as_str())
    }

    /// Returns whether the call is about state that all processes share, so that its cases take turns.
    pub(super) fn is_of_all(&self) -> bool {
        ["shm", "sem", "msg", "mq_"].iter().any(|start| self.name.starts_with(start))
    }

    /// Returns whether the call returns an address.
    pub(super) fn is_address(&self) -> bool {
        ["mmap", "mremap", "brk", "shmat"].contains(&self.name.as_str())
    }
}

type Value = (String, i64);
type Classes = BTreeMap<String, Vec<Value>>;

/// Returns the cases of the family called `name`, or of all families.
///
/// # Panics
/// Panics if a description is wrong.
pub fn described(name: Option<&str>) -> Vec<Described> {
    let mut cases = Vec::new();
    for (_, text) in FAMILIES.iter().filter(|(family, _)| name.is_none_or(|name| name == *family)) {
        describe(&mut cases, COMMON.lines().chain(text.lines()));
    }
    // Two lines of one call may have cases in common.
    let mut names = BTreeSet::new();
    cases.retain(|case| names.insert(case.name.clone()));
    cases
}

/// Adds the cases of the calls that `lines` describe.
fn describe<'a>(cases: &mut Vec<Described>, lines: impl Iterator<Item = &'a str>) {
    let mut classes = Classes::new();
    for line in lines {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some((head, values)) = line.split_once(": ") {
            let (kind, name) = head.split_once(' ').expect("a kind and a name");
            let values: Vec<_> = values.split_whitespace().map(value).collect();
            let is_flags = kind == "flags";
            classes.insert(name.to_owned(), if is_flags { sums(&values) } else { values });
        } else if !line.is_empty() {
            add(cases, line, &classes);
        }
    }
}

fn add(cases: &mut Vec<Described>, line: &str, classes: &Classes) {
    let mut words = line.split_whitespace();
    let name = words.next().expect("a name");
    let number = words.next().and_then(|word| word.parse().ok());
    let number = number.unwrap_or_else(|| panic!("no number in `{line}`"));
    let call = Call {
        name: name.trim_end_matches(['!', '~']).to_owned(),
        number,
        is_storing_volatile: name.contains('!'),
        is_value_volatile: name.contains('~'),
    };
    let class = |word: &str| match classes.get(word) {
        Some(values) => values.clone(),
        None => word.split('|').map(value).collect(),
    };
    let arguments: Vec<Vec<Value>> = words.map(class).collect();
    for chosen in choices(&arguments) {
        let some: Vec<_> =
            chosen.iter().zip(&arguments).map(|(number, class)| &class[*number]).collect();
        let names: Vec<_> = some.iter().map(|(name, _)| name.as_str()).collect();
        let mut values = [0; 6];
        values.iter_mut().zip(&some).for_each(|(to, (_, value))| *to = *value);
        let name = format!("{}({})", call.name, names.join(", "));
        cases.push(Described { name, call: call.clone(), arguments: values });
    }
}

/// Returns the values of the cases of a call, by their numbers in the classes.
fn choices(classes: &[Vec<Value>]) -> BTreeSet<Vec<usize>> {
    let base = vec![0; classes.len()];
    let mut chosen = BTreeSet::from([base.clone()]);
    if classes.iter().map(Vec::len).product::<usize>() <= WHOLE {
        for (argument, class) in classes.iter().enumerate() {
            let with = |some: &Vec<usize>, number| {
                let mut some = some.clone();
                some[argument] = number;
                some
            };
            chosen =
                chosen.iter().flat_map(|s| (0..class.len()).map(move |n| with(s, n))).collect();
        }
        return chosen;
    }
    for (first, one) in classes.iter().enumerate() {
        for (second, other) in classes.iter().enumerate().skip(first + 1) {
            for (a, b) in (0..one.len()).flat_map(|a| (0..other.len()).map(move |b| (a, b))) {
                if a >= MET && b >= MET {
                    continue;
                }
                let mut some = base.clone();
                (some[first], some[second]) = (a, b);
                chosen.insert(some);
            }
        }
    }
    chosen
}

/// Returns no flag, each flag alone, each pair, and all flags.
fn sums(flags: &[Value]) -> Vec<Value> {
    let mut sums = vec![("0".to_owned(), 0)];
    sums.extend(flags.iter().cloned());
    for (number, (name, flag)) in flags.iter().enumerate() {
        for (other_name, other) in &flags[number + 1..] {
            sums.push((format!("{name}+{other_name}"), flag | other));
        }
    }
    sums.push(("all".to_owned(), flags.iter().fold(0, |sum, (_, flag)| sum | flag)));
    sums
}

fn value(word: &str) -> Value {
    let (name, number) = match word.split_once('=') {
        Some((name, number)) => (name, parse(number)),
        None => (word, parse(word).or_else(|| state::named(word))),
    };
    (name.to_owned(), number.unwrap_or_else(|| panic!("no value: `{word}`")))
}

/// Parses a number: decimal, hexadecimal, or a power of two with a summand, perhaps negative.
fn parse(word: &str) -> Option<i64> {
    if let Some(power) = word.strip_prefix("2^") {
        let end = power.find(['+', '-']).unwrap_or(power.len());
        let shifted = 1i64.wrapping_shl(power[..end].parse().ok()?);
        let summand = if end < power.len() { power[end..].parse().ok()? } else { 0 };
        return Some(shifted.wrapping_add(summand));
    }
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|number| number as i64),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(text: &str) -> Vec<Described> {
        let mut cases = Vec::new();
        describe(&mut cases, text.lines());
        cases
    }

    #[test]
    fn numbers_are_decimal_hexadecimal_or_powers() {
        let numbers =
            ["12", "-1", "0x10", "0xffffffffffffffff", "2^4", "2^31-1", "2^32+10", "2^63"];
        let expected = [12, -1, 16, -1, 16, i64::from(i32::MAX), (1 << 32) + 10, i64::MIN];
        assert_eq!(numbers.map(parse), expected.map(Some));
        assert_eq!(["", "x", "2^", "0xg"].map(parse), [None; 4]);
    }

    #[test]
    fn flags_stand_for_none_each_pair_and_all() {
        let flags = [("A", 1), ("B", 2), ("C", 4)].map(|(name, flag)| (name.to_owned(), flag));
        let sums = sums(&flags);
        let names: Vec<_> = sums.iter().map(|(name, flags)| format!("{name}={flags}")).collect();
        let expected = ["0=0", "A=1", "B=2", "C=4", "A+B=3", "A+C=5", "B+C=6", "all=7"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_small_product_is_tried_whole() {
        let cases = cases("class which: 5 -1 # two\nf~ 7 which file|A=0x20");
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["f(5, file)", "f(5, A)", "f(-1, file)", "f(-1, A)"]);
        assert_eq!(cases[3].arguments, [-1, 32, 0, 0, 0, 0]);
        assert!(cases[0].call.is_value_volatile && !cases[0].call.is_storing_volatile);
    }

    #[test]
    fn of_a_large_product_each_value_meets_the_first_of_the_others() {
        let class = "0|1|2|3|4|5|6|7|8|9|10";
        let cases = cases(&format!("f 1 {class} {class} {class}"));
        let has = |name: &str| cases.iter().any(|case| case.name == name);
        assert!(
            has("f(10, 2, 0)") && has("f(2, 0, 10)") && !has("f(10, 3, 0)") && !has("f(1, 1, 1)")
        );
        assert!(cases.len() < 11 * 11 * 11);
    }

    #[test]
    #[should_panic(expected = "no value: `nothing`")]
    fn an_unknown_name_is_refused() {
        cases("f 1 nothing");
    }
}
