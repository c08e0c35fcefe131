//! `skerryctl`: shows and controls the components of Skerry, through `/proc/skerry`.
#![forbid(unsafe_code)]
mod tables;

use std::{
    env, fs,
    io::{self, Write},
    process::ExitCode,
    thread,
    time::Duration,
};
use tables::{Row, block, changed, drops, list, rows};

const COMPONENTS: &str = "/proc/skerry/components";
const ISOLATED: &str = "/proc/skerry/isolated";
const NETWORK: &str = "/proc/skerry/net";
const CONTROL: &str = "/proc/skerry/control";
/// The component whose drops `show` adds.
const STACK: &str = "inet";
const FOLLOW_PERIOD: Duration = Duration::from_millis(50);
const USAGE: &str =
    "usage: skerryctl list | show NAME | net | follow | start NAME | stop NAME | restart NAME | kill NAME

list     every component: world, state, restarts, memory, refused calls, how it ended last
show     all that is known of one: what it was refused, its last ends with registers and backtrace
net      every socket of the network stack: state, queues, drops by cause; and the drops of the stack
follow   a line for every change, until interrupted
start    starts one that was stopped or given up
stop     ends one until it is started
restart  ends one and starts its successor
kill     ends one without a word, as a fault would, and starts its successor
";

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn say(text: &str) -> Result<(), String> {
    let written = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    written.map_err(|error| error.to_string())
}

fn now() -> Result<Vec<Row>, String> {
    Ok(rows(&read(COMPONENTS)?))
}

fn show(name: &str) -> Result<(), String> {
    if let Some(text) = block(&read(ISOLATED)?, name) {
        return say(&format!("{}\n", text.trim_end()));
    }
    let row = now()?.into_iter().find(|row| row.name() == name);
    let row = row.ok_or_else(|| format!("there is no component `{name}`"))?;
    row.fields().try_for_each(|(field, value)| say(&format!("{field:<14}{value}\n")))?;
    match name {
        STACK => drops(&read(NETWORK)?)
            .try_for_each(|(reason, count)| say(&format!("dropped       {count} {reason}\n"))),
        _ => Ok(()),
    }
}

fn order(verb: &str, name: &str) -> Result<(), String> {
    fs::write(CONTROL, format!("{verb} {name}\n")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => format!("only root may {verb} components"),
        io::ErrorKind::ResourceBusy => format!("`{name}` is in no state to {verb}"),
        _ if error.raw_os_error() == Some(NO_DEVICE) => {
            format!("there is no isolated component `{name}`")
        }
        _ => format!("{CONTROL}: {error}"),
    })
}

/// The error number `ENODEV`.
const NO_DEVICE: i32 = 19;

fn follow() -> Result<(), String> {
    let mut before = Vec::new();
    loop {
        let after = now()?;
        changed(&before, &after).try_for_each(|row| say(&format!("{}\n", row.summary())))?;
        before = after;
        thread::sleep(FOLLOW_PERIOD);
    }
}

fn run(arguments: &[&str]) -> Result<(), String> {
    match *arguments {
        ["list"] | [] => say(&list(&now()?)),
        ["show", name] => show(name),
        ["net"] => say(&read(NETWORK)?),
        ["follow"] => follow(),
        [verb @ ("start" | "stop" | "restart" | "kill"), name] => order(verb, name),
        _ => Err(USAGE.to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If the reader is gone, there is no one else to tell.
            let _ = writeln!(io::stderr(), "skerryctl: {}", why.trim_end());
            ExitCode::FAILURE
        }
    }
}
