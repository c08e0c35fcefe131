//! docs/syscalls.md says of every Linux x86-64 system call whether it is there: generated from the
//! call table. `UPDATE=1 cargo test -p syscall --test call_table` writes it anew.
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};
use syscall::{Entry, FAMILIES, Status};

/// Number and name of every call in `linux_raw_sys`.
const LINUX: &str = include_str!("linux_calls.txt");

fn entries() -> BTreeMap<u32, &'static Entry> {
    FAMILIES.iter().flat_map(|family| family.iter()).map(|entry| (entry.number, entry)).collect()
}

fn linux() -> Vec<(u32, &'static str)> {
    let parse = |line: &'static str| {
        line.split_once(' ').map(|(number, name)| (number.parse().unwrap(), name))
    };
    LINUX.lines().map(|line| parse(line).unwrap()).collect()
}

fn page() -> String {
    let entries = entries();
    let mut rows = String::new();
    let (mut whole, mut partial, mut absent) = (0, 0, 0);
    for (number, name) in linux() {
        let status = match entries.get(&number).map(|entry| entry.status) {
            Some(Status::Whole) => {
                whole += 1;
                String::from("whole")
            }
            Some(Status::Partial(missing)) => {
                partial += 1;
                format!("partial: without {missing}")
            }
            None => {
                absent += 1;
                String::from("absent")
            }
        };
        writeln!(rows, "| {number} | `{name}` | {status} |").unwrap();
    }
    format!(
        "# System calls\n\nGenerated from the call table (`components/posix/syscall/src`) by \
         `UPDATE=1 cargo test -p syscall --test call_table`; a test keeps it true.\n\n\
         Of Linux's x86-64 system calls {whole} are whole, {partial} partial, {absent} absent. An absent call \
         answers `ENOSYS` and is named once in the kernel's log.\n\n| number | name | here |\n| ---: | --- | --- |\n{rows}"
    )
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/syscalls.md")
}

#[test]
fn the_page_is_up_to_date() {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path(), page()).unwrap();
    }
    let (written, table) = (fs::read_to_string(path()).unwrap(), page());
    let difference = written.lines().zip(table.lines()).find(|(old, new)| old != new);
    assert_eq!(difference, None, "run UPDATE=1 cargo test -p syscall --test call_table");
    assert_eq!(written.len(), table.len(), "run UPDATE=1 cargo test -p syscall --test call_table");
}

/// Returns the code of every file in `folder` and below, without lines that are only a comment.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = fs::read_to_string(&path).unwrap();
            text.extend(file.lines().filter(|line| !line.trim_start().starts_with("//")));
        }
    }
    text
}

#[test]
fn every_whole_call_is_made_by_an_abi_test() {
    let text = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/abi"));
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    // A call is made by its number, or by a function of that name that is called or passed on.
    let is_made = |name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let before = &text.as_bytes()[..at];
            let after = &text.as_bytes()[at + name.len()..];
            let stands_alone = !before.last().is_some_and(is_part);
            let is_named = before.ends_with(b"SYS_") || before.ends_with(b"libc::");
            !after.first().is_some_and(is_part)
                && (is_named || stands_alone && after.first() == Some(&b'('))
        })
    };
    let whole = entries().into_values().filter(|entry| entry.status == Status::Whole);
    let untested: Vec<_> = whole.map(|entry| entry.name).filter(|name| !is_made(name)).collect();
    assert_eq!(untested, [""; 0], "calls that docs/syscalls.md says are whole");
}

#[test]
fn names_and_numbers_are_those_of_linux() {
    let linux: BTreeMap<_, _> = linux().into_iter().collect();
    for (number, entry) in entries() {
        assert_eq!(linux.get(&number), Some(&entry.name));
    }
}
