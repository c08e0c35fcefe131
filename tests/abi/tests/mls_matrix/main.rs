//! The matrix of multilevel security: each row of the tables of operations in `docs/mls*.md`, tried by a subject that dominates,
//! equals, is dominated by or cannot be compared with the object in secrecy, and that is above, equal or below in grade.
//!
//! A row says by which rule its operation is decided. The expected results follow from the rule and the relation alone ([`Rule`]).
//! The first test compares rows, rules and errors with the tables of the docs, and runs on each system. The others need a
//! monitor, and do nothing elsewhere: they load a policy that is the shipped one with domains and types of each grade.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]
mod composed;
mod docs;
mod files;
mod interfaces;
mod ipc;
mod network;
mod place;
mod policy;
mod processes;
mod rule;

use abi::{
    Ended, c, fork, isolated,
    mls::{self, Stage},
    rights, wait,
};
use place::{Attempt, Place, nothing};
use policy::{Cell, Subject};
use rule::{Errors, Rule};
use std::path::{Path, PathBuf};

/// A way to do the operation of a row of the docs.
pub struct Row {
    /// The first cell of the row of the docs.
    pub doc: &'static str,
    /// The way.
    pub name: &'static str,
    /// The rule that decides.
    pub rule: Rule,
    /// The errors if it refuses.
    pub errors: Errors,
    /// Makes the object. The test itself calls it, which has all privileges.
    pub prepare: fn(&Place),
    /// Does the operation.
    pub attempt: fn(&Attempt<'_>) -> Result<(), i32>,
}

/// Returns a row whose object is there.
fn row(
    doc: &'static str,
    name: &'static str,
    rule: Rule,
    errors: Errors,
    attempt: fn(&Attempt<'_>) -> Result<(), i32>,
) -> Row {
    Row { doc, name, rule, errors, prepare: nothing, attempt }
}

/// Returns the number of an error.
fn raw(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Returns a result without its value.
fn done(result: Result<i64, i32>) -> Result<(), i32> {
    result.map(drop)
}

/// Executes a program in a child.
fn executes(path: &Path) -> Result<(), i32> {
    let path = c(path);
    let child = fork(|| {
        let error = rights::execute(&path).expect_err("it does not return");
        unsafe { libc::_exit(error) }
    });
    answer_of(child)
}

/// Returns the answer of a child, which ends with the number of an error.
fn answer_of(child: libc::pid_t) -> Result<(), i32> {
    match wait(child) {
        Ended::Exited(0) => Ok(()),
        Ended::Exited(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// A family of rows, by name.
type Family = (&'static str, fn() -> Vec<Row>);

const FAMILIES: [Family; 6] = [
    ("files", files::rows),
    ("processes", processes::rows),
    ("ipc", ipc::rows),
    ("interfaces", interfaces::rows),
    ("network", network::rows),
    ("configuration", network::configuration),
];

fn rows_of(family: &str) -> Vec<Row> {
    FAMILIES.iter().find(|(name, _)| *name == family).map(|(_, rows)| rows()).expect("a family")
}

/// The folders in which objects are made: in memory, and on the disk.
const STAGES: [&str; 2] = ["/run/matrix", "/mnt/matrix"];

fn place(stage: usize, row: usize, subject: Subject, cell: Cell) -> Place {
    let name = format!("{row}-{}-{}", subject.domain(), cell.number());
    let path = PathBuf::from(STAGES[stage]).join(name);
    Place {
        path,
        number: cell.number(),
        object: cell.object(),
        kind: cell.multilevel(),
        own: subject.own_object(),
    }
}

/// Makes the objects of all rows that a subject tries.
fn prepare(rows: &[Row], stage: usize, subject: Subject) {
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| subject.tries(row.rule)) {
        for cell in Cell::all() {
            (row.prepare)(&place(stage, number, subject, cell));
        }
    }
}

/// Tries all rows as a subject with the objects of the cells that it was told of, or all, and compares the results with what the rules
/// say.
fn play(rows: &[Row], stage: usize, subject: Subject) {
    let only: Option<usize> =
        std::env::var("CELL").ok().map(|text| text.parse().expect("a number"));
    let cells = || Cell::all().filter(|cell| only.is_none_or(|only| only == cell.number()));
    let (mut wrong, mut allowed, mut refused) = (Vec::new(), 0, 0);
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| subject.tries(row.rule)) {
        for cell in cells() {
            let place = place(stage, number, subject, cell);
            let process = std::env::var(format!("PROCESS{}", cell.number()));
            let process = process.map_or(0, |text| text.parse().expect("a number"));
            let found = (row.attempt)(&Attempt { place: &place, cell, subject, process });
            let expected = match row.rule.allows(subject, cell) {
                true => Ok(()),
                false => Err(row.errors.of(row.rule, subject, cell)),
            };
            match expected {
                Ok(()) => allowed += 1,
                Err(_) => refused += 1,
            }
            if found != expected {
                wrong.push(format!(
                    "{} ({}), {} and {cell:?}: {found:?}, not {expected:?}",
                    row.doc,
                    row.name,
                    subject.domain()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), allowed + refused, wrong.join("\n"));
    println!("{}: {allowed} allowed, {refused} refused", subject.context());
}

/// Runs a family of rows at each stage with each subject.
fn run(
    test: &str,
    family: &str,
    stages: &[usize],
    start: impl FnOnce(Stage) -> (Stage, Vec<place::Actor>),
) {
    if !mls::is_here() {
        return;
    }
    let rows = rows_of(family);
    if mls::part().is_some() {
        processes::play_child();
        ipc::play_child();
        play(&rows, mls::given("STAGE") as usize, Subject::numbered(mls::given("SUBJECT")));
        return;
    }
    isolated(|| {
        policy::load();
        let (mut stage, _actors) = start(Stage::new(test));
        for at in stages.iter().copied() {
            let _stand = place::make_stage(STAGES[at]);
            for subject in Subject::all() {
                if !rows.iter().any(|row| subject.tries(row.rule)) {
                    continue;
                }
                prepare(&rows, at, subject);
                stage = stage.give("STAGE", at as i32).give("SUBJECT", subject.number());
                assert_eq!(stage.run(&subject.context(), "try"), Ended::Exited(0), "{subject:?}");
            }
        }
    });
}

#[test]
fn the_rows_of_the_docs_are_those_of_the_tests() {
    docs::compare(FAMILIES.iter().flat_map(|(_, rows)| rows()).collect());
}

#[test]
fn files_are_accessed_by_the_rules() {
    run("files_are_accessed_by_the_rules", "files", &[0, 1], |stage| (stage, Vec::new()));
}

#[test]
fn processes_are_accessed_by_the_rules() {
    run("processes_are_accessed_by_the_rules", "processes", &[0], processes::start);
}

#[test]
fn objects_of_ipc_are_accessed_by_the_rules() {
    run("objects_of_ipc_are_accessed_by_the_rules", "ipc", &[0], ipc::start);
}

#[test]
fn interfaces_of_selinux_are_used_by_the_rules() {
    run("interfaces_of_selinux_are_used_by_the_rules", "interfaces", &[0], processes::start);
}

#[test]
fn the_network_is_used_by_the_rules() {
    run("the_network_is_used_by_the_rules", "network", &[0], network::start);
}

#[test]
fn the_network_is_changed_by_the_rules() {
    const TEST: &str = "the_network_is_changed_by_the_rules";
    if !mls::is_here() || mls::part().is_some() {
        return run(TEST, "configuration", &[], |stage| (stage, Vec::new()));
    }
    isolated(|| {
        abi::internet::bring_up_loopback();
        let mut stage = Stage::new(TEST).give("STAGE", 0);
        for (subject, cell) in
            Subject::all().into_iter().flat_map(|one| Cell::all().map(move |cell| (one, cell)))
        {
            if subject.privilege.is_some() {
                continue;
            }
            policy::load_with(&cell.object());
            let (number, at) = (subject.number(), cell.number() as i32);
            stage = stage.give("SUBJECT", number).give("CELL", at);
            assert_eq!(
                stage.run(&subject.context(), "try"),
                Ended::Exited(0),
                "{subject:?} {cell:?}"
            );
        }
    });
}
