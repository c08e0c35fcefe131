//! A test of the profiler: its counts of a command's calls are those that the command made.
use anyhow::Result;
use harness::{
    build::{self, Features},
    disk,
    guest::{self, Outcome},
    profile::calls::{self, Profile, Span, USER, Wanted},
    session::{Captured, Ended, Streams},
    shell,
    tally::{Tally, Target},
};

const NAME: &str = "profile: the calls of a command are counted";
/// A shell that forks three times.
const COMMAND: &str = "/bin/true; /bin/true; /bin/true; exit 3";
const FORKS: u64 = 3;
const FORK: &str = "process::fork::clone";

/// Runs the test if `filter` names it.
///
/// # Errors
/// Fails if the system does not build.
pub fn run(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    if filter.is_some_and(|filter| !NAME.contains(filter)) {
        return Ok(());
    }
    let kernel = build::image(&target.system, &Features::default())?;
    let config = guest::machine(&kernel, &disk::default_root()?, "profile-test.log")?;
    let bar = shell::progress(NAME);
    let streams = Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(Captured::default()),
        error: Box::new(Captured::default()),
    };
    let wanted =
        Wanted { span: Span::Session, trace: Vec::new(), events: 1000, limit_seconds: Some(60) };
    let result = calls::follow(&config, COMMAND, streams, &wanted);
    bar.finish_and_clear();
    let result = result.map_err(|error| format!("{error:#}"));
    tally.count(NAME, result.and_then(|(outcome, profile)| judge(&outcome, &profile)));
    Ok(())
}

fn judge(outcome: &Outcome, profile: &Profile) -> std::result::Result<(), String> {
    let net: u64 = profile.nodes.iter().map(|node| node.net).sum();
    let user: u64 =
        profile.nodes.iter().filter(|node| node.name == USER).map(|node| node.net).sum();
    let has_left = profile.events.iter().any(|event| event.entered.is_none());
    let checks = [
        ("ended as it should", *outcome == Outcome::Session(Ended::Exited(3))),
        ("each fork is a call", profile.calls_of(FORK) == FORKS),
        ("every instruction is some function's", net == profile.kernel + profile.user),
        ("user mode is a function", user == profile.user && user > 0),
        ("interrupts are masked", (1..profile.kernel).contains(&profile.masking)),
        ("entries and exits are listed", has_left && profile.events.len() == 1000),
    ];
    match checks.iter().find(|(_, is_so)| !is_so) {
        Some((what, _)) => {
            Err(format!("not so: {what}; {outcome}, {} calls of {FORK}", profile.calls_of(FORK)))
        }
        None => Ok(()),
    }
}
