//! Why rows are not what they are to be, and what would change it: `bench/causes.toml`, written by people.
use anyhow::{Context, Result};
use harness::shell;
use serde::Deserialize;

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Causes {
    #[serde(default)]
    cause: Vec<Cause>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    /// Names of rows, or of locks.
    rows: Vec<String>,
    /// The cause and the remedy.
    why: String,
}

impl Causes {
    /// Reads the known causes.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed.
    pub fn read() -> Result<Causes> {
        let path = shell::root().join("bench/causes.toml");
        let text = std::fs::read_to_string(&path);
        Causes::parse(&text.with_context(|| format!("reading {}", path.display()))?)
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// Fails if the text does not have the format of the file.
    pub fn parse(text: &str) -> Result<Causes> {
        toml::from_str(text).context("bench/causes.toml")
    }

    /// Returns the reason why the row or lock `name` misses its bar.
    pub fn of(&self, name: &str) -> &str {
        let is_of = |cause: &&Cause| cause.rows.iter().any(|row| row == name);
        self.cause.iter().find(is_of).map_or("not yet accounted for", |cause| cause.why.as_str())
    }
}
