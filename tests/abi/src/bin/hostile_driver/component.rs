//! The driver as the supervisor has it.
use std::fs;

const NAME: &str = "hostile-blk";
const CONTROL: &str = "/proc/skerry/control";
const ISOLATED: &str = "/proc/skerry/isolated";

/// The present state of the driver.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub is_running: bool,
    pub restarts: u64,
}

/// Its lines in [`ISOLATED`].
fn lines() -> Vec<String> {
    let text = fs::read_to_string(ISOLATED).unwrap_or_default();
    let is_ours = |block: &&str| {
        let mut words = block.split_whitespace();
        (words.next(), words.next()) == (Some("component"), Some(NAME))
    };
    text.split("\n\n").find(is_ours).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn value(lines: &[String], field: &str) -> Option<String> {
    lines.iter().find_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        (name == field).then(|| value.trim().to_owned())
    })
}

/// Reads the present state; `None` if the supervisor lists no such component.
pub fn state() -> Option<State> {
    let lines = lines();
    let restarts = value(&lines, "restarts")?.parse().ok()?;
    Some(State { is_running: value(&lines, "state")? == "running", restarts })
}

/// Why the last one ended.
pub fn last_end() -> Option<String> {
    let end = value(&lines(), "end")?;
    Some(end.split_once(": ")?.1.to_owned())
}

/// Ends it, so that its successor is the driver again.
pub fn kill() -> Result<(), String> {
    fs::write(CONTROL, format!("kill {NAME}")).map_err(|error| format!("{CONTROL}: {error}"))
}
