//! A driver as `/proc/skerry` shows it.
use std::fs;

const CONTROL: &str = "/proc/skerry/control";
const ISOLATED: &str = "/proc/skerry/isolated";

/// A component, by its name.
#[derive(Clone, Copy, Debug)]
pub struct Component(pub &'static str);

/// The present state of a component.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub is_running: bool,
    pub restarts: u64,
}

fn value(lines: &[String], field: &str) -> Option<String> {
    lines.iter().find_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        (name == field).then(|| value.trim().to_owned())
    })
}

impl Component {
    /// Returns its lines in [`ISOLATED`].
    fn lines(self) -> Vec<String> {
        let text = fs::read_to_string(ISOLATED).unwrap_or_default();
        let is_meant = |block: &&str| {
            let mut words = block.split_whitespace();
            (words.next(), words.next()) == (Some("component"), Some(self.0))
        };
        text.split("\n\n").find(is_meant).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Reads the present state; `None` if the supervisor lists no such component.
    pub fn state(self) -> Option<State> {
        let lines = self.lines();
        let restarts = value(&lines, "restarts")?.parse().ok()?;
        Some(State { is_running: value(&lines, "state")? == "running", restarts })
    }

    /// Returns the cause of the last end.
    pub fn last_end(self) -> Option<String> {
        let end = value(&self.lines(), "end")?;
        Some(end.split_once(": ")?.1.to_owned())
    }

    /// Ends the component, so that its successor behaves correctly.
    pub fn kill(self) -> Result<(), String> {
        fs::write(CONTROL, format!("kill {}", self.0))
            .map_err(|error| format!("{CONTROL}: {error}"))
    }
}
