//! SELinux's interfaces, audit and the trusted path: `docs/mls-interfaces.md` and two rows of `docs/mls.md`.
use crate::{
    Row, answer_of,
    place::{Attempt, Place, folder, open_folder, program, relabel},
    policy::Cell,
    raw, row,
    rule::{Errors, LEFT_OUT, Rule},
};
use abi::{c, check, close, fork, must, rights};
use libc::*;
use std::fs;

const LOOK: &str = "look at `attr` of a process";
const WRITE: &str = "write to a file";
const MADE: &str = "`fscreate`, `sockcreate`";
const AUDIT: &str = "control audit; write to it; read its records";
const TRUSTED: &str = "learn of a session, give orders about it (`/proc/skerry/trusted`)";
const NETLINK_AUDIT: i32 = 9;
const OWN: &str = "/proc/thread-self/attr";

/// Asks for a context of the thread itself.
fn ask(name: &str, context: &str) -> Result<(), i32> {
    fs::write(format!("{OWN}/{name}"), context).map_err(raw)
}

/// Makes a folder with the label, in which files of the cell's context shall be made.
fn made(it: &Attempt<'_>, object: &str) -> Result<(), i32> {
    ask("fscreate", object)?;
    let found = fs::write(it.place.path.join("new"), "").map_err(raw);
    ask("fscreate", "\n")?;
    found
}

/// A folder of the subject's.
fn own_folder(place: &Place) {
    open_folder(&place.path);
    relabel(&place.path, &place.own);
}

/// A program of the subject's.
fn own_program(place: &Place) {
    program(place);
    relabel(&place.path, &place.own);
}

/// Sends a request to audit. Returns the error that it answers with.
fn audited(kind: u16, body: &[u8]) -> Result<(), i32> {
    let fd = must(unsafe { socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT) }) as i32;
    let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(((NLM_F_REQUEST | NLM_F_ACK) as u16).to_ne_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(body);
    let sent = check(unsafe { send(fd, bytes.as_ptr().cast(), bytes.len(), 0) } as i64);
    let found = sent.and_then(|_| {
        loop {
            let answer = abi::read(fd, 8192)?;
            let word = |at: usize| i32::from_ne_bytes(answer[at..at + 4].try_into().expect("four"));
            if word(4) & 0xffff == NLMSG_ERROR {
                break if word(16) == 0 { Ok(()) } else { Err(-word(16)) };
            }
        }
    });
    close(fd);
    found
}

pub fn rows() -> Vec<Row> {
    [attributes(), objects(), audit_and_path()].into_iter().flatten().collect()
}

fn objects() -> Vec<Row> {
    let own = |name, rule, errors, attempt| Row {
        doc: MADE,
        name,
        rule,
        errors,
        prepare: own_folder,
        attempt,
    };
    vec![
        own("a file in an own folder", Rule::Write, Errors::all(EACCES), |it| {
            made(it, &it.place.object)
        }),
        Row {
            prepare: folder,
            ..own("a file in a folder with the label", Rule::Write, Errors::all(EACCES), |it| {
                made(it, &it.place.own)
            })
        },
        own("a socket", Rule::Write, Errors::all(EACCES), |it| {
            ask("sockcreate", &it.place.object)?;
            let fd = check(unsafe { socket(AF_UNIX, SOCK_STREAM, 0) });
            let mut pair = [0; 2];
            let both = unsafe { socketpair(AF_UNIX, SOCK_DGRAM, 0, pair.as_mut_ptr()) };
            ask("sockcreate", "\n")?;
            assert_eq!(fd.err(), check(both as i64).err(), "socketpair(2) is as socket(2)");
            pair.into_iter().filter(|end| *end > 0).for_each(close);
            fd.map(|fd| close(fd as i32))
        }),
    ]
}

fn attributes() -> Vec<Row> {
    vec![
        row(LOOK, "current", Rule::Read, Errors::all(ENOENT), |it| {
            fs::read(format!("/proc/{}/attr/current", it.process)).map(drop).map_err(raw)
        }),
        row(LOOK, "listing", Rule::Read, Errors::all(ENOENT), |it| {
            fs::read_dir(format!("/proc/{}/attr", it.process)).map(drop).map_err(raw)
        }),
        row(WRITE, "of another process", Rule::Nobody, Errors::hidden(ENOENT, EACCES), |it| {
            let path = format!("/proc/{}/attr/exec", it.process);
            fs::write(path, it.cell.process()).map_err(raw)
        }),
        row("`exec`", "ask", Rule::Everybody, Errors::all(EINVAL), |it| {
            ask("exec", &it.cell.process())?;
            ask("exec", "\n")
        }),
        Row {
            prepare: own_program,
            ..row("`exec`", "execute", Rule::Same, Errors::all(EACCES), |it| {
                // The policy has no way from one of these domains to another.
                let child = fork(|| {
                    ask("exec", &it.cell.process()).expect("a subject of the policy");
                    let error =
                        rights::execute(&c(&it.place.path)).expect_err("it does not return");
                    unsafe { _exit(error) }
                });
                answer_of(child)
            })
        },
        row("`keycreate`", "ask", Rule::Everybody, Errors::all(EINVAL), |it| {
            ask("keycreate", &it.cell.process())?;
            ask("keycreate", "\n")
        }),
        row(
            "`current`",
            "another range",
            Rule::With("set-range", &Rule::Everybody, &Rule::Nobody),
            Errors::all(EACCES),
            |it| {
                // A child, because the attempts that follow are those of the subject.
                let domain = it.subject.domain();
                let context = format!("matrix_u:matrix_r:{domain}:{}", it.cell.relation.level());
                let child = fork(|| match ask("current", &context) {
                    Ok(()) => {}
                    Err(error) => unsafe { _exit(error) },
                });
                answer_of(child)
            },
        ),
        row("`current`", "another domain", Rule::Nobody, Errors::all(EACCES), |it| {
            let other = Cell { grade: it.cell.grade, relation: it.cell.relation }.process();
            match other == it.subject.context() {
                // There is nothing to change.
                true => Err(EACCES),
                false => ask("current", &other),
            }
        }),
        row("`prev`", "write", Rule::Nobody, Errors::all(EINVAL), |it| {
            ask("prev", &it.cell.process())
        }),
    ]
}

fn audit_and_path() -> Vec<Row> {
    /// `AUDIT_GET`, and the type of messages of programs.
    const GET: u16 = 1000;
    const USER: u16 = 1112;
    let audit = |name, rule, attempt| row(AUDIT, name, rule, Errors::all(EPERM), attempt);
    vec![
        audit("control", Rule::With("audit-control", &Rule::Everybody, &Rule::Nobody), |_| {
            audited(GET, &[])
        }),
        audit("write", Rule::With("audit-write", &Rule::Everybody, &Rule::Nobody), |_| {
            audited(USER, b"matrix\0")
        }),
        audit("read", Rule::With("audit-read", &Rule::Everybody, &Rule::Nobody), |_| {
            let fd = must(unsafe { socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT) }) as i32;
            let mut name: sockaddr_nl = unsafe { abi::zeroed() };
            (name.nl_family, name.nl_groups) = (AF_NETLINK as u16, 1);
            let bytes = size_of_val(&name) as u32;
            let found = check(unsafe { bind(fd, (&raw const name).cast(), bytes) });
            close(fd);
            found.map(drop)
        }),
        row(TRUSTED, "learn", Rule::Nobody, Errors::all(LEFT_OUT), |_| {
            let text = fs::read("/proc/skerry/trusted").map_err(raw)?;
            if text.is_empty() { Err(LEFT_OUT) } else { Ok(()) }
        }),
        // The level of the file is another one.
        row(TRUSTED, "order", Rule::Nobody, Errors::all(EACCES), |_| {
            fs::write("/proc/skerry/trusted", "continue").map_err(raw)
        }),
    ]
}
