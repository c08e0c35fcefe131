//! The session: the standard files of the first program, and the shutdown after its end.
//!
//! With the parameter `skerry.exec` the host's ports `skerry.stdin`, `skerry.stdout` and `skerry.stderr` are the standard files
//! of `/bin/sh -c COMMAND`, plain streams of bytes, and `skerry.control` carries the command and the exit status. With
//! `skerry.ports=NAME` their names begin with NAME: two personalities of one machine have ports of their own. A personality that
//! was started again (`skerry.restarts=N`, from the supervisor) begins the same session anew. Else a login
//! shell (or `skerry.shell=PATH`) leads a session on the terminal. In both cases the machine is shut down when the leader has
//! ended, after all written output was sent.
//!
//! With `init=PATH` there is no session: that program is process 1, its standard files are the host's streams, or else
//! `/dev/console`, and the host's command is added to its arguments as `-c COMMAND`. The machine is shut down when a program
//! asks for it; if process 1 ends, the kernel stops.
use super::upcalls::Personality;
use super::{End, control::ControlMessages, parameters::ForProgram, trusted, window};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use interfaces::terminal::Port;
use linux_raw_sys::general as raw;
use objects::tty::{Stream, Terminal, WindowSize};
use process::{
    ExitStatus, Task,
    exec::{Program, Strings, replace::execute},
    files::{self, OnExec},
    init::{self, InitOutcome},
    tree,
};
use rt::{power::Action, user::Context};
use vfs::{Base, Errno, Namespace, OpenFile, OpenHow};

/// Time that programs have to end at power off.
const KILL_NS: u64 = 2_000_000_000;
/// Default size of the window.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;
/// Numbers of terminals by the names of their ports: `hvc0`, `ttyS0` and those that follow.
const NUMBERS: [(&str, (u32, u32)); 2] = [("hvc", (229, 0)), ("ttyS", (4, 64))];
const PATH: &[u8] = b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The standard files of the leader.
enum Files {
    /// Streams of the host: stdin, stdout, stderr, and the control port.
    Streams([Arc<Stream>; 3], Arc<ControlMessages>),
    /// The session is on the console terminal.
    Console,
}

/// A session to be run.
pub struct BootSession {
    ports: Vec<Arc<dyn Port>>,
    /// The console, if there is one, and other terminals.
    terminals: Vec<Arc<Terminal>>,
    files: Files,
}

fn parameter_number(name: &str, or: u16) -> u16 {
    rt::system::parameter(name).and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// Returns the number of the terminal over a port of that name.
fn terminal_number(name: &str) -> Option<(u32, u32)> {
    NUMBERS.iter().find_map(|(start, (major, first))| {
        let index: u32 = name.strip_prefix(start)?.parse().ok()?;
        Some((*major, first + index))
    })
}

/// Name of the port to which the kernel's log is written.
const LOG_PORT: &str = "ttyS0";

/// Makes a terminal over each console port, virtio ports first; the first is the console. The port of the log is used only if
/// there is no other.
fn make_terminals(ports: &[Arc<dyn Port>]) -> Vec<Arc<Terminal>> {
    let mut consoles: Vec<_> = ports.iter().filter(|port| port.is_console()).collect();
    consoles.sort_by_key(|port| !port.name().starts_with("hvc"));
    if consoles.len() > 1 {
        consoles.retain(|port| port.name() != LOG_PORT);
    }
    consoles.into_iter().filter_map(make_terminal).collect()
}

fn make_terminal(port: &Arc<dyn Port>) -> Option<Arc<Terminal>> {
    let number = terminal_number(&port.name())?;
    let window = WindowSize {
        rows: parameter_number("skerry.rows", ROWS),
        columns: parameter_number("skerry.columns", COLUMNS),
        ..WindowSize::default()
    };
    match trusted::attention() {
        Some(attention) => trusted::start_line(port, (number, window), attention).ok(),
        None => Terminal::start(port.clone(), number, window).ok(),
    }
}

impl BootSession {
    /// Takes the ports that the session needs.
    ///
    /// # Errors
    /// A message, if a port is missing.
    pub fn prepare(ports: &[Arc<dyn Port>]) -> Result<BootSession, String> {
        let prefix = rt::system::parameter("skerry.ports").unwrap_or("skerry");
        let named = |name: &str| {
            let name = format!("{prefix}.{name}");
            let found = ports.iter().find(|port| port.name() == name).cloned();
            found.ok_or_else(|| format!("there is no port {name}"))
        };
        let terminals = make_terminals(ports);
        let console = terminals.first();
        let files = if rt::system::parameter("skerry.exec").is_some() {
            let streams = [named("stdin")?, named("stdout")?, named("stderr")?];
            Files::Streams(streams.map(Stream::new), ControlMessages::new(named("control")?))
        } else if console.is_none() {
            return Err("there is no console".into());
        } else {
            Files::Console
        };
        let follows = ports.iter().find(|port| port.name() == window::PORT_NAME);
        if let (Some(port), Some(console)) = (follows, console) {
            window::follow(port, console);
        }
        Ok(BootSession { ports: ports.to_vec(), terminals, files })
    }

    /// Returns the terminals over ports; the first is the console.
    pub fn terminals(&self) -> &[Arc<Terminal>] {
        &self.terminals
    }

    /// Runs the session to its end. Returns the power action for the machine.
    ///
    /// # Errors
    /// An [`End`] if the leader could not be started, or process 1 ended.
    pub fn run(self, namespace: Arc<Namespace>) -> Result<Action, End> {
        trusted::announce(&namespace);
        let fs = Arc::new(files::FsContext::new(namespace));
        let outcome = match named_program("init") {
            Some(path) => self.run_first(fs, path)?,
            None => {
                let init = init::create(fs, &Personality);
                let leader = self.start_leader(&init).map_err(End::Unstarted)?;
                init::reap_until(&init, leader)
            }
        };
        init::kill_all(rt::time::now().after_ns(KILL_NS));
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
                (command_program(command_of(control)?), Standard::Streams(streams.clone()))
            }
        };
        let body =
            move |task: &Arc<Task>, context: &mut Context| lead(task, context, files, program);
        init::spawn(init, body)
            .map_err(|errno| format!("cannot start the session's leader: {errno:?}"))
    }

    /// Runs the program at `path` as process 1 until a program asks to stop the machine.
    fn run_first(&self, fs: Arc<files::FsContext>, path: &str) -> Result<InitOutcome, End> {
        let given = ForProgram::of(rt::system::command_line());
        let arguments = core::iter::once(path).chain(given.arguments.iter().map(String::as_str));
        let mut arguments: Strings = arguments.map(str::as_bytes).collect();
        let environment = ["HOME=/", "TERM=linux"].into_iter();
        let environment = environment.chain(given.environment.iter().map(String::as_str));
        let environment: Strings = environment.map(str::as_bytes).collect();
        let standard = match &self.files {
            Files::Console => Standard::Terminal(String::from("/dev/console")),
            Files::Streams(streams, control) => {
                arguments.push(b"-c");
                arguments.push(&command_of(control).map_err(End::Unstarted)?);
                Standard::Streams(streams.clone())
            }
        };
        let program = Command { path: path.into(), arguments };
        let body = move |task: &Arc<Task>, context: &mut Context| {
            if let Err(errno) = open_standard(task, standard) {
                log::warn!("process 1 has no standard files: {errno:?}");
            }
            run_command(task, context, program, environment)
        };
        match init::run_program(fs, &Personality, body) {
            Err(errno) => Err(End::Unstarted(format!("no process 1: {errno:?}"))),
            Ok(InitOutcome::Failed(errno)) => {
                Err(End::NoInit(format!("Requested init {path} failed (error -{}).", errno as u64)))
            }
            Ok(InitOutcome::Ended(status)) => Err(End::NoInit(format!(
                "Attempted to kill init! exitcode={:#010x}",
                status.wait_word()
            ))),
            Ok(asked) => Ok(asked),
        }
    }

    fn finish(&self, outcome: InitOutcome) -> Action {
        let (action, line) = match outcome {
            InitOutcome::Ended(ExitStatus::Exited(code)) => {
                (Action::Off, format!("exited {code}\n"))
            }
            InitOutcome::Ended(ExitStatus::Signalled(signal)) => {
                (Action::Off, format!("signalled {signal}\n"))
            }
            InitOutcome::Asked(action) => (action, String::from("exited 0\n")),
            InitOutcome::Failed(_) => (Action::Off, String::from("exited 127\n")),
        };
        log::info!("session {}", line.trim_end());
        if let Files::Streams(_, control) = &self.files {
            control.tell(&line);
        }
        action
    }
}

/// Returns the command that the host sends.
fn command_of(control: &ControlMessages) -> Result<Vec<u8>, String> {
    if rt::system::parameter("skerry.restarts").is_some() {
        control.ask_again();
    }
    let command = control.command();
    command.ok_or_else(|| String::from("the control port closed before the command came"))
}

/// The standard files of the leader.
pub(super) enum Standard {
    /// Streams for stdin, stdout, stderr.
    Streams([Arc<Stream>; 3]),
    /// All three are the terminal with this path; opening it makes it the session's terminal.
    Terminal(String),
}

/// A program with its arguments.
pub(super) struct Command {
    pub path: Vec<u8>,
    pub arguments: Strings,
}

fn command_program(command: Vec<u8>) -> Command {
    Command {
        path: b"/bin/sh".to_vec(),
        arguments: [&b"/bin/sh"[..], b"-c", &command].into_iter().collect(),
    }
}

/// Returns the value of a parameter that names a program.
fn named_program(parameter: &str) -> Option<&'static str> {
    rt::system::parameter(parameter).filter(|path| !path.is_empty())
}

/// Returns the login shell, or the program that `skerry.shell=` names.
fn console_program() -> Command {
    match named_program("skerry.shell") {
        Some(path) => {
            Command { path: path.into(), arguments: [path.as_bytes()].into_iter().collect() }
        }
        None => {
            Command { path: b"/bin/sh".to_vec(), arguments: [&b"-sh"[..]].into_iter().collect() }
        }
    }
}

/// Does the leader's first steps, on its own thread: session, standard files, program.
fn lead(
    task: &Arc<Task>,
    context: &mut Context,
    standard: Standard,
    program: Command,
) -> Result<(), Errno> {
    tree::write().start_session(&task.process);
    open_standard(task, standard)?;
    let term = rt::system::parameter("skerry.term").unwrap_or("linux");
    let term = format!("TERM={term}");
    let environment =
        [&b"HOME=/root"[..], PATH, term.as_bytes(), &b"USER=root"[..]].into_iter().collect();
    run_command(task, context, program, environment)
}

/// Gives a task that has no descriptors its first three.
pub(super) fn open_standard(task: &Arc<Task>, standard: Standard) -> Result<(), Errno> {
    let table = task.files();
    match standard {
        Standard::Streams(streams) => {
            for stream in streams {
                let place = files::anonymous::stream_place(stream.clone())?;
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
    Ok(())
}

/// Executes a program in a task.
pub(super) fn run_command(
    task: &Arc<Task>,
    context: &mut Context,
    Command { path, arguments }: Command,
    environment: Strings,
) -> Result<(), Errno> {
    let program =
        Program { directory: raw::AT_FDCWD, name: path, flags: 0, arguments, environment };
    execute(task, context, program)
}

fn insert(table: &files::DescriptorTable, file: Arc<OpenFile>) -> Result<(), Errno> {
    const LIMIT: usize = 16;
    table.insert_from(file, 0, LIMIT, OnExec::Keep)?;
    Ok(())
}
