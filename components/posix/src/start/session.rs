//! The session: who the first program talks to, and what happens when it has ended.
//!
//! With the parameter `skerry.exec` the host's ports `skerry.stdin`, `skerry.stdout` and
//! `skerry.stderr` are the standard files of `/bin/sh -c COMMAND`, plain streams of bytes, and
//! `skerry.control` carries the command and the end. Else a login shell (or `init=PATH`) leads a
//! session on the terminal. Either way the machine goes down when the leader has ended, after what
//! was written has left.
use super::{control::Control, window};
use crate::{
    devices,
    exec::{Program, Strings},
    files::{self, OnExec},
    process::{
        ExitStatus, Task,
        exec::execute,
        init::{self, Outcome},
        tree,
    },
    tty::{Stream, Terminal, Window},
};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use interfaces::terminal::Port;
use linux_raw_sys::general as raw;
use rt::{power::Action, user::Context};
use vfs::{Base, Errno, Namespace, OpenFile, OpenHow};

/// How long programs may take to end at power off.
const KILL_NS: u64 = 2_000_000_000;
/// Default window.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;
/// Numbers of terminals by the names of their ports: `hvc0`, `ttyS0` and those that follow.
const NUMBERS: [(&str, (u32, u32)); 2] = [("hvc", (229, 0)), ("ttyS", (4, 64))];
const PATH: &[u8] = b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the leader's standard files are.
enum Files {
    /// Streams of the host: stdin, stdout, stderr, and the control port.
    Streams([Arc<Stream>; 3], Arc<Control>),
    /// The console terminal.
    Console,
}

/// A session to be run.
pub struct Session {
    ports: Vec<Arc<dyn Port>>,
    /// The console, if there is one, and others.
    terminals: Vec<Arc<Terminal>>,
    files: Files,
}

fn parameter_number(name: &str, or: u16) -> u16 {
    rt::system::parameter(name).and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// The number of the terminal over a port of that name.
fn terminal_number(name: &str) -> Option<(u32, u32)> {
    NUMBERS.iter().find_map(|(start, (major, first))| {
        let index: u32 = name.strip_prefix(start)?.parse().ok()?;
        Some((*major, first + index))
    })
}

/// A terminal over each console port, virtio ports first; the first is the console.
fn make_terminals(ports: &[Arc<dyn Port>]) -> Vec<Arc<Terminal>> {
    let mut consoles: Vec<_> = ports.iter().filter(|port| port.is_console()).collect();
    consoles.sort_by_key(|port| !port.name().starts_with("hvc"));
    consoles.into_iter().filter_map(make_terminal).collect()
}

fn make_terminal(port: &Arc<dyn Port>) -> Option<Arc<Terminal>> {
    let number = terminal_number(&port.name())?;
    let window = Window {
        rows: parameter_number("skerry.rows", ROWS),
        columns: parameter_number("skerry.columns", COLUMNS),
        ..Window::default()
    };
    Terminal::start(port.clone(), number, window).ok()
}

impl Session {
    /// Takes the ports the session needs.
    ///
    /// # Errors
    /// In words, where a port is missing.
    pub fn prepare(ports: &[Arc<dyn Port>]) -> Result<Session, String> {
        let named = |name: &str| {
            let found = ports.iter().find(|port| port.name() == name).cloned();
            found.ok_or_else(|| format!("there is no port {name}"))
        };
        let terminals = make_terminals(ports);
        let console = terminals.first();
        let files = if rt::system::parameter("skerry.exec").is_some() {
            let streams =
                [named("skerry.stdin")?, named("skerry.stdout")?, named("skerry.stderr")?];
            Files::Streams(streams.map(Stream::new), Control::new(named("skerry.control")?))
        } else if console.is_none() {
            return Err("there is no console".into());
        } else {
            Files::Console
        };
        let follows = ports.iter().find(|port| port.name() == window::PORT_NAME);
        if let (Some(port), Some(console)) = (follows, console) {
            window::follow(port, console);
        }
        Ok(Session { ports: ports.to_vec(), terminals, files })
    }

    /// The terminals over ports; the first is the console.
    pub fn terminals(&self) -> &[Arc<Terminal>] {
        &self.terminals
    }

    /// Runs the session to its end; what is to be done with the machine then.
    ///
    /// # Errors
    /// In words, where the leader could not be started.
    pub fn run(self, namespace: Arc<Namespace>) -> Result<Action, String> {
        let init = init::create(Arc::new(files::FsContext::new(namespace.clone())));
        let leader = self.start_leader(&init)?;
        let outcome = init::reap_until(&init, leader);
        init::kill_all(&init, rt::time::now().after_ns(KILL_NS));
        self.ports.iter().for_each(|port| port.drain());
        vfs::shut_down();
        Ok(self.finish(outcome))
    }

    fn start_leader(&self, init: &Arc<Task>) -> Result<u32, String> {
        let (program, files) = match &self.files {
            Files::Console => {
                let name = self.terminals.first().map(|console| console.name()).unwrap_or_default();
                (console_program(), Standard::Terminal(format!("/dev/{name}")))
            }
            Files::Streams(streams, control) => {
                let command =
                    control.command().ok_or("the control port closed before the command came")?;
                (command_program(command), Standard::Streams(streams.clone()))
            }
        };
        let body =
            move |task: &Arc<Task>, context: &mut Context| lead(task, context, files, program);
        init::spawn(init, body)
            .map_err(|errno| format!("cannot start the session's leader: {errno:?}"))
    }

    fn finish(&self, outcome: Outcome) -> Action {
        let (action, line) = match outcome {
            Outcome::Ended(ExitStatus::Exited(code)) => (Action::Off, format!("exited {code}\n")),
            Outcome::Ended(ExitStatus::Signalled(signal)) => {
                (Action::Off, format!("signalled {signal}\n"))
            }
            Outcome::Asked(action) => (action, String::from("exited 0\n")),
        };
        log::info!("session {}", line.trim_end());
        if let Files::Streams(_, control) = &self.files {
            control.tell(&line);
        }
        action
    }
}

/// The standard files of the leader.
enum Standard {
    /// stdin, stdout, stderr.
    Streams([Arc<Stream>; 3]),
    /// All three are the terminal with this path, which becomes the session's by being opened.
    Terminal(String),
}

/// A program with its arguments.
struct Command {
    path: Vec<u8>,
    arguments: Strings,
}

fn command_program(command: Vec<u8>) -> Command {
    Command {
        path: b"/bin/sh".to_vec(),
        arguments: [&b"/bin/sh"[..], b"-c", &command].into_iter().collect(),
    }
}

/// The login shell, or the program that `init=` names.
fn console_program() -> Command {
    match rt::system::parameter("init").filter(|path| !path.is_empty()) {
        Some(path) => {
            Command { path: path.into(), arguments: [path.as_bytes()].into_iter().collect() }
        }
        None => {
            Command { path: b"/bin/sh".to_vec(), arguments: [&b"-sh"[..]].into_iter().collect() }
        }
    }
}

/// The leader's first steps, on its own thread: session, standard files, program.
fn lead(
    task: &Arc<Task>,
    context: &mut Context,
    standard: Standard,
    program: Command,
) -> Result<(), Errno> {
    tree::write().start_session(&task.process);
    let table = task.files();
    match standard {
        Standard::Streams(streams) => {
            for stream in streams {
                let place = devices::anonymous::stream_place(stream.clone())?;
                insert(&table, OpenFile::new(stream, place, raw::O_RDWR))?;
            }
        }
        Standard::Terminal(path) => {
            let scope = files::Scope::of(task);
            let how = OpenHow::new(raw::O_RDWR);
            let terminal = scope.caller().open(Base::Cwd, path.as_bytes(), how)?;
            for _ in 0..3 {
                insert(&table, terminal.clone())?;
            }
        }
    }
    let term = rt::system::parameter("skerry.term").unwrap_or("linux");
    let term = format!("TERM={term}");
    let environment =
        [&b"HOME=/root"[..], PATH, term.as_bytes(), &b"USER=root"[..]].into_iter().collect();
    let Command { path, arguments } = program;
    let program =
        Program { directory: raw::AT_FDCWD, name: path, flags: 0, arguments, environment };
    execute(task, context, program)
}

fn insert(table: &files::Table, file: Arc<OpenFile>) -> Result<(), Errno> {
    const LIMIT: usize = 16;
    table.insert_from(file, 0, LIMIT, OnExec::Keep)?;
    Ok(())
}
