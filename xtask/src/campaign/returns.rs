//! `./x campaign returns`: each system call, with each combination of flags, in a state where Linux answers (the cases are in
//! tests/abi/src/returns/). The host's Linux is asked first: a case that does not return there is wrong. Then Skerry.
use super::Options;
use anyhow::{Context, Result, bail, ensure};
use harness::{
    build::{self, Features},
    disk,
    guest::{self, Outcome},
    qemu::Config,
    session::Ended,
    shell,
};
use std::{collections::BTreeMap, fs, process::Command};

/// Time limit of a call on a machine without hardware virtualisation that runs other work, too.
const BOUND_MS: u32 = 20_000;

/// Runs the campaign; `--only` names one family.
///
/// # Errors
/// An error if the programs do not build or start, or if a case does not return on Linux.
pub fn run(options: &Options) -> Result<u8> {
    let family = options.only.first().map_or("", String::as_str);
    let linux = on_linux(family)?;
    ensure!(!linux.is_empty(), "no family `{family}`: tests/abi/src/returns/mod.rs names them");
    let skerry = on_skerry(options, family)?;
    let failures: Vec<_> =
        linux.keys().filter_map(|name| failure(name, skerry.get(name))).collect();
    failures.iter().for_each(|failure| println!("{failure}"));
    let differences = shell::build_path("returns-differences.txt")?;
    let count = write_differences(&differences, &linux, &skerry)?;
    println!(
        "{} cases, {} did not return; {count} end otherwise than on this Linux: {}",
        linux.len(),
        failures.len(),
        differences.display()
    );
    Ok(u8::from(!failures.is_empty() || linux.is_empty()))
}

/// The end of each case, by its name.
type Ends = BTreeMap<String, String>;

fn parse(output: &[u8]) -> Ends {
    let text = String::from_utf8_lossy(output);
    let case =
        |line: &str| line.split_once(" = ").map(|(name, end)| (name.to_owned(), end.to_owned()));
    text.lines().filter_map(case).collect()
}

/// Returns whether a call came back.
fn has_returned(end: &str) -> bool {
    end == "done" || end.starts_with("error ")
}

fn failure(name: &str, end: Option<&String>) -> Option<String> {
    match end {
        Some(end) if has_returned(end) => None,
        Some(end) => Some(format!("{name}: {end}")),
        None => Some(format!("{name}: not tried, or the machine stopped")),
    }
}

fn on_linux(family: &str) -> Result<Ends> {
    let programs = build::abi_programs()?;
    let program =
        programs.iter().find(|path| path.ends_with("returns")).context("no such program")?;
    let mut command = Command::new(program);
    let workers = shell::processors().to_string();
    command.args(Some(family).filter(|family| !family.is_empty())).args(["--workers", &workers]);
    let output = command.output().context("starting the cases on Linux")?;
    let ends = parse(&output.stdout);
    let wrong: Vec<_> = ends.iter().filter(|(_, end)| !has_returned(end)).collect();
    if !wrong.is_empty() || !output.status.success() {
        bail!(
            "wrong cases, as Linux does not return: {wrong:?} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(ends)
}

fn on_skerry(options: &Options, family: &str) -> Result<Ends> {
    let kernel = build::image("default", &Features::default())?;
    let image = disk::programs_image()?;
    let config = Config { cpus: options.cpus, ..guest::machine(&kernel, &image, "campaign.log")? };
    let command = format!("/abi/returns {family} --workers {} --bound {BOUND_MS}", options.cpus);
    let bar = shell::progress("the campaign on Skerry");
    let (outcome, output, error) = guest::run_captured(&config, &command, "", 3600)?;
    bar.finish_and_clear();
    if !matches!(outcome, Outcome::Session(Ended::Exited(_))) {
        println!("{outcome}; {}log in {}", String::from_utf8_lossy(&error), config.log.display());
    }
    Ok(parse(&output))
}

/// Writes the cases whose ends differ from Linux's. Returns their number. Errors differ by version and file system.
fn write_differences(path: &std::path::Path, linux: &Ends, skerry: &Ends) -> Result<usize> {
    let differs = |(name, theirs): (&String, &String)| {
        let ours = skerry.get(name).filter(|ours| *ours != theirs)?;
        Some(format!("{name}: Linux {theirs}, Skerry {ours}\n"))
    };
    let lines: Vec<String> = linux.iter().filter_map(differs).collect();
    fs::write(path, lines.concat())?;
    Ok(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_is_missing_or_did_not_return_is_a_failure() {
        let ends = parse(b"pause() = DID NOT RETURN\nread(0) = error 9\nnoise\nfork = done\n");
        assert_eq!(ends.len(), 3);
        assert!(failure("fork", ends.get("fork")).is_none());
        assert!(failure("read(0)", ends.get("read(0)")).is_none());
        assert!(failure("pause()", ends.get("pause()")).is_some());
        assert!(failure("gone", ends.get("gone")).is_some());
    }
}
