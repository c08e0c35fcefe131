//! `trusted-shell`: the shell of the trusted path. The kernel starts it on a terminal that the user took with the secure attention
//! sequence; the programs of the session there are held until it ends.
//!
//! It ends only after the kernel accepted an order. If it is killed the kernel ends the session.
#![forbid(unsafe_code)]
mod session;

use session::{AuditOrder, Command, Named, Session, User};
use std::{
    collections::VecDeque,
    fs,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process,
};

/// The kernel's file: the session's facts are read, and orders written.
const CONTROL: &str = "/proc/skerry/trusted";
/// The kernel's files about audit, which serve the trusted shell if the leader of the session has the rights.
const AUDIT: &str = "/proc/skerry/audit";
const AUDIT_RECORDS: &str = "/proc/skerry/audit_records";
/// Number of records that are shown.
const RECORDS_SHOWN: usize = 20;
const POLICY: &str = "/sys/fs/selinux/policy";
const PASSWORD_PROGRAMS: [&str; 2] = ["/usr/bin/passwd", "/bin/passwd"];
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const HELP: &str = "\
  continue     give the terminal back to the session
  level        show the user and the level of the session
  new LEVEL    begin a session of the same user at another level; this one goes on when it ends
  password     change the user's password
  audit        show the state of audit; `audit on`, `audit off`, `audit last`, `audit release BLOCK`: for the auditor
  end          end the session: all its programs are killed
";

fn show(text: &str) {
    let mut out = io::stdout();
    // If the terminal is gone nobody reads it.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn facts() -> Session {
    Session::parse(&fs::read_to_string(CONTROL).unwrap_or_default())
}

fn user_of(session: &Session) -> Option<User> {
    session.number?;
    User::find(&fs::read_to_string("/etc/passwd").ok()?, session.user)
}

/// Gives the kernel an order. It is carried out when this program has ended.
fn order(text: &str) {
    match fs::write(CONTROL, text) {
        Ok(()) => process::exit(0),
        Err(error) => show(&format!("That was refused: {error}\n")),
    }
}

fn show_session() {
    let session = facts();
    let policy = fs::read_to_string(POLICY).unwrap_or_default();
    let Some(number) = session.number else { return show("There is no session.\n") };
    let name = user_of(&session).map_or_else(|| "?".to_owned(), |user| user.name);
    let (level, highest) = session.levels();
    let named = |level| Named { level, policy: &policy };
    show(&format!(
        "User:    {name} (uid {})\nSession: {number} ({})\nLevel:   {}, at most {}\n",
        session.user,
        session.context,
        named(level),
        named(highest),
    ));
}

fn new_session(level: &str) {
    let session = facts();
    let Some(user) = user_of(&session) else { return show("There is no session of a user.\n") };
    let groups = user.groups(&fs::read_to_string("/etc/group").unwrap_or_default());
    let User { name, id, group, home, shell } = user;
    order(&format!("begin\t{level}\t{id}\t{group}\t{groups}\t{name}\t{home}\t{shell}\n"));
}

fn change_password() {
    let Some(user) = user_of(&facts()) else { return show("There is no session of a user.\n") };
    let Some(program) =
        PASSWORD_PROGRAMS.into_iter().find(|path| fs::exists(path).is_ok_and(|it| it))
    else {
        return show("There is no passwd.\n");
    };
    let mut passwd = process::Command::new(program);
    passwd.env_clear().env("PATH", PATH);
    if user.id != 0 {
        passwd.uid(user.id).gid(user.group);
    }
    match passwd.status() {
        Ok(status) if status.success() => {}
        Ok(status) => show(&format!("The password was not changed ({status}).\n")),
        Err(error) => show(&format!("{program}: {error}\n")),
    }
}

/// Returns the last records on the medium.
fn last_records() -> io::Result<String> {
    let mut last = VecDeque::new();
    for line in io::BufReader::new(fs::File::open(AUDIT_RECORDS)?).lines() {
        last.push_back(line? + "\n");
        if last.len() > RECORDS_SHOWN {
            last.pop_front();
        }
    }
    Ok(last.into_iter().collect())
}

fn audit(order: &AuditOrder) {
    let result = match order {
        AuditOrder::Show => fs::read_to_string(AUDIT),
        AuditOrder::Last => last_records(),
        AuditOrder::Give(text) => fs::write(AUDIT, text).and_then(|()| fs::read_to_string(AUDIT)),
    };
    match result {
        Ok(text) => show(&text),
        Err(error) => show(&format!("That was refused: {error}\n")),
    }
}

fn main() {
    let terminal = facts().terminal;
    show(&format!(
        "\n\n[ Skerry: the trusted path is open on {terminal}. The session is held. ]\n"
    ));
    show_session();
    show(HELP);
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        show("trusted> ");
        line.clear();
        // The kernel ends this program with the terminal.
        let _ = input.read_until(b'\n', &mut line);
        match Command::parse(&line) {
            Command::Continue => order("continue\n"),
            Command::Level => show_session(),
            Command::New(level) => new_session(&level),
            Command::Password => change_password(),
            Command::Audit(order) => audit(&order),
            Command::End => order("end\n"),
            Command::Help => show(HELP),
            Command::Nothing => {}
            Command::Unknown => show("There is no such command; `help` lists them.\n"),
        }
    }
}
