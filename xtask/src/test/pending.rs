//! ABI tests that pass on Linux and not yet on Skerry: `tests/abi/pending.txt`.
use anyhow::Result;
use harness::shell;
use std::fs;

/// The list of pending tests.
pub struct Pending(Vec<(String, String)>);

impl Pending {
    /// Reads the list: a line a test, its program and its name.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read() -> Result<Pending> {
        let text = fs::read_to_string(shell::root().join("tests/abi/pending.txt"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        Ok(Pending(pairs.map(|(program, test)| (program.into(), test.into())).collect()))
    }
    /// Returns the arguments by which `program` leaves out its pending tests.
    pub fn arguments(&self, program: &str) -> String {
        let own = self.0.iter().filter(|(of, _)| of == program);
        own.map(|(_, test)| format!(" --skip {test}")).collect()
    }
    /// Returns the number of tests in the list.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pending_test_is_in_its_program() {
        let pending = Pending::read().expect("the list");
        for (program, test) in &pending.0 {
            let path = shell::root().join(format!("tests/abi/tests/{program}.rs"));
            let source = fs::read_to_string(path).expect("the program's source");
            assert!(source.contains(&format!("fn {test}()")), "{program}: {test}");
        }
    }
}
