//! Results of tests, and the systems that are tested.

/// A system that is tested.
#[derive(Clone, Debug)]
pub struct Target {
    /// systems/NAME.toml.
    pub system: String,
    /// Each test on one machine only.
    pub is_short: bool,
}

impl Target {
    /// As many of `all` as are to be tested.
    pub fn some<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        if self.is_short { all.get(..1).unwrap_or(all) } else { all }
    }
}

/// The results so far.
#[derive(Default)]
pub struct Tally {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// The names of those that failed, each with the head of its report.
    pub failures: Vec<(String, String)>,
}

/// Lines of a report that the closing summary repeats: a log may hold no more than the end of a run.
pub const REPEATED_LINES: usize = 40;
/// The start of the line with the counts of a binary.
const RESULT: &str = "test result: ";

impl Tally {
    /// Counts a test and shows it if it failed.
    pub fn count(&mut self, name: &str, result: std::result::Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(why) => {
                self.failed += 1;
                println!("FAILED {name}\n{}", indented(&why));
                self.failures.push((name.to_owned(), head(&why, REPEATED_LINES)));
            }
        }
    }

    /// Prints each failure again, with the head of its report.
    pub fn print_failures(&self) {
        for (name, why) in &self.failures {
            println!("failed: {name}\n{}", indented(why));
        }
    }

    /// Counts what one libtest binary printed, whose tests start programs that are the binary again and print results, too: the last
    /// result is that of the binary. `ended` tells why the run was cut short.
    pub fn count_program(&mut self, suite: &str, output: &str, ended: Result<(), String>) {
        if let Err(why) = ended {
            return self.count(suite, Err(format!("{}\n{why}", tail(output, REPEATED_LINES))));
        }
        let is_result = |line: &str| line.starts_with(RESULT);
        let results = output.lines().filter(|line| is_result(line)).count();
        let mut before = 0;
        let own = output.lines().filter(|line| {
            before += usize::from(is_result(line));
            !is_result(line) || before == results
        });
        self.count_libtest(suite, &own.collect::<Vec<_>>().join("\n"));
    }

    /// Counts what libtest binaries printed; a run that was cut short is a failure.
    pub fn count_libtest(&mut self, suite: &str, output: &str) {
        let mut seen_end = false;
        let reported = self.failures.len();
        // The lines that the running test's own process wrote past the harness, after `test NAME ... ` if tests run one by one.
        let (mut running, mut said) = ("", Vec::new());
        for line in output.lines() {
            if let Some(rest) = line.strip_prefix(RESULT) {
                seen_end = true;
                self.passed += number_before(rest, " passed");
                self.failed += number_before(rest, " failed");
                continue;
            }
            let test = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
            let word = test.map_or(line, |(_, word)| word);
            if let Some((name, _)) = test {
                (running, said) = (name, Vec::new());
            }
            match word {
                "FAILED" => {
                    let said = tail(&said.join("\n"), REPEATED_LINES);
                    self.failures.push((format!("{suite}: {running}"), said));
                }
                word => said.push(word),
            }
        }
        if !seen_end {
            self.count(suite, Err(format!("it did not end\n{}", tail(output, REPEATED_LINES))));
        } else if output.contains("test result: FAILED") {
            println!("FAILED in {suite}\n{}", indented(&failure_parts(output)));
            for (name, why) in &mut self.failures[reported..] {
                let test = name.strip_prefix(suite).and_then(|name| name.strip_prefix(": "));
                let report = head(report_of(output, test.unwrap_or(name)), REPEATED_LINES);
                *why = format!("{why}\n{report}");
            }
        }
    }
}

/// The part of a libtest output that holds what the failed test wrote and its panic's message.
fn report_of<'o>(output: &'o str, test: &str) -> &'o str {
    let begin = format!("---- {test} stdout ----\n");
    let report = output.split_once(&begin).map_or("", |(_, report)| report);
    let end = ["\n---- ", "\nfailures:\n"].iter().filter_map(|end| report.find(end)).min();
    &report[..end.unwrap_or(report.len())]
}

fn number_before(text: &str, word: &str) -> usize {
    text.split(word)
        .next()
        .and_then(|before| before.rsplit(|c: char| !c.is_ascii_digit()).next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

fn head(text: &str, lines: usize) -> String {
    text.lines().take(lines).collect::<Vec<_>>().join("\n")
}

/// Returns the last `lines` lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The parts of a libtest output that tell of failures.
fn failure_parts(output: &str) -> String {
    output.split("\nfailures:\n").nth(1).map_or_else(|| tail(output, 60), |part| tail(part, 120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_lines_are_added_up() {
        let mut tally = Tally::default();
        tally.count_libtest("a", "test x ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed;");
        assert_eq!((tally.passed, tally.failed, tally.failures.len()), (5, 1, 1));
    }

    #[test]
    fn a_failure_tells_what_the_process_of_the_test_said() {
        let mut tally = Tally::default();
        let output = "test a ... ok\ntest b ... panicked at b.rs:1:\nit is 3\nFAILED\ntest c ... FAILED\n\nfailures:\n\n\
            ---- b stdout ----\nof b\n\n---- c stdout ----\nof c\n\nfailures:\n    b\n    c\n\n\
            test result: FAILED. 1 passed; 2 failed;";
        tally.count_libtest("suite", output);
        let failures = [("suite: b", "panicked at b.rs:1:\nit is 3\nof b"), ("suite: c", "\nof c")];
        for ((name, why), (wanted, all)) in tally.failures.iter().zip(failures) {
            assert_eq!((name.as_str(), why.trim_end()), (wanted, all));
        }
    }

    #[test]
    fn the_programs_of_a_test_are_no_tests() {
        let mut tally = Tally::default();
        let actor = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed;";
        let output =
            format!("test a ... {actor}\nok\ntest b ... ok\ntest result: ok. 2 passed; 0 failed;");
        tally.count_program("suite", &output, Ok(()));
        assert_eq!((tally.passed, tally.failed), (2, 0));
        tally.count_program("suite", &format!("test a ... {actor}"), Err("panicked".into()));
        assert_eq!((tally.passed, tally.failed), (2, 1));
    }

    #[test]
    fn a_suite_that_died_is_a_failure() {
        let mut tally = Tally::default();
        tally.count_libtest("a", "test x ... ");
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }
}
