//! The probes of `bench/probes`: static C programs, the same files on every side, in the same disk image; and their
//! results. `bench/probes/harness.c` has the format.
use super::{card::Card, programs};
use crate::values::{fit::Point, unit::Unit};
use anyhow::{Context, Result, bail};
use harness::{disk, linux, selinux, shell};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// The measurements of one probe in one boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the row.
    pub name: String,
    /// Nanoseconds of a unit that are waits by design, not a cost.
    pub agreed_ns: f64,
    /// Counts, each with ticks or instructions.
    pub points: Vec<Point>,
    /// The points of the overhead to be subtracted.
    pub overhead: Vec<Point>,
    /// Ticks that a probe of latencies reported itself, in place of points.
    #[serde(default)]
    pub figures: Vec<f64>,
    /// Reason why it did not end.
    pub failed: Option<String>,
}

/// The words of the probes in one boot.
#[derive(Debug, Default)]
pub struct Said {
    /// Measurements by ticks of the time stamp counter.
    pub measured: Vec<Measured>,
    /// Ticks in a nanosecond of the host, and the error of that number.
    pub rate: Option<(f64, f64)>,
    /// All probes came to their end.
    pub is_whole: bool,
}

/// The greatest number of seconds by which a line may be read late: the guest's output passes through a file, or through QEMU's
/// threads.
const LATE_SECONDS: f64 = 0.03;

/// Parses `lines`, each with the time at which it came.
pub fn parse(lines: &[(Instant, String)]) -> Said {
    let mut said = Said::default();
    let mut clocks = Vec::new();
    for (when, line) in lines {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let current = said.measured.last_mut();
        match (word, current) {
            ("clock", _) => clocks.extend(rest.parse::<f64>().ok().map(|ticks| (*when, ticks))),
            ("probe", _) => said.measured.extend(probe(rest)),
            ("point", Some(current)) => current.points.extend(point(rest)),
            ("overhead", Some(current)) => current.overhead.extend(point(rest)),
            ("figure", Some(current)) => current.figures.extend(rest.parse::<f64>().ok()),
            ("failed", Some(current)) => current.failed = Some(rest.to_owned()),
            ("done", _) => said.is_whole = true,
            _ => {}
        }
    }
    if let [first, .., last] = clocks.as_slice() {
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        said.rate = Some(((last.1 - first.1) / (seconds * 1e9), LATE_SECONDS / seconds));
    }
    said
}

fn probe(rest: &str) -> Option<Measured> {
    let (agreed_ns, name) = rest.split_once(' ')?;
    let agreed_ns = agreed_ns.parse().ok()?;
    Some(Measured { name: name.to_owned(), agreed_ns, ..Measured::default() })
}

impl Measured {
    /// Iterates over all points, in the order in which they were measured.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Point> {
        self.points.iter_mut().chain(&mut self.overhead)
    }
}

fn point(rest: &str) -> Option<Point> {
    let (count, ticks) = rest.split_once(' ')?;
    Some((count.parse().ok()?, ticks.parse().ok()?))
}

/// The plan of a boot.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The unit of the counts.
    pub unit: Unit,
    /// Number of processors.
    pub cpus: u32,
    /// Number of times that each count is measured.
    pub rounds: u32,
    /// Only probes whose name contains this, or one of its parts: `a|b`.
    pub filter: Option<&'a str>,
    /// Names of suites of `bench/probes`.
    pub suites: &'a [&'a str],
    /// The network card of the machine.
    pub card: Card,
}

/// Path of the script that runs the probes. Its work is in a parameter of the kernel,
/// `skerry.bench=ROUNDS,FILTER,SUITE...` with `~` for a blank.
pub const RUNNER: &str = "/bench/run";
const SCRIPT: &str = r#"#!/bin/sh
export PATH=/bin:/sbin
. /bench/levels
words=$(sed -n 's/.*skerry\.bench=\([^ ]*\).*/\1/p' /proc/cmdline)
IFS=,
set -- $words
IFS=' '
rounds=$1 filter=$(echo "$2" | tr '~' ' ')
shift 2
# Linux has the drivers of cards and tunnels in modules.
if grep -q skerry.wire= /proc/cmdline && [ ! -e /proc/skerry ]; then
    for module in /bench/modules/*.ko; do insmod "$module"; done
fi
/bench/probes "$rounds" "$filter" "$@" || exit
[ ! -e /proc/skerry/locks ] || sed 's/^/lock /' /proc/skerry/locks
"#;

/// The part of both scripts that loads SELinux's policy, where it is to enforce levels, and says what is enforced.
const LEVELS: &str = r#"if grep -q security=selinux /proc/cmdline; then
    mount -t selinuxfs selinuxfs /sys/fs/selinux
    dd if=/bench/policy bs=64M of=/sys/fs/selinux/load 2>/dev/null
    echo "levels enforced $(cat /sys/fs/selinux/enforce) mls $(cat /sys/fs/selinux/mls) by $(cat /proc/self/attr/current)"
    /bench/covert label
fi
"#;

/// Path of the script that runs covert channels, by a parameter of the kernel, `skerry.covert=CLOCK+FILTER+SLOT,BITS...` with
/// `~` for a blank.
pub const COVERT_RUNNER: &str = "/bench/channels";
const COVERT_SCRIPT: &str = r#"#!/bin/sh
export PATH=/bin:/sbin
. /bench/levels
words=$(sed -n 's/.*skerry\.covert=\([^ ]*\).*/\1/p' /proc/cmdline)
IFS=+
set -- $words
IFS=' '
clock=$1 filter=$(echo "$2" | tr '~' ' ')
shift 2
ifconfig lo up
exec /bench/covert run "$clock" "$filter" "$@"
"#;

/// Path of the script that prints the memory in use.
pub const MEMORY_RUNNER: &str = "/bench/memory";
const MEMORY_SCRIPT: &str = "#!/bin/sh\nexec /bin/cat /proc/meminfo\n";

/// Returns the kernel parameter for [`RUNNER`].
pub fn parameter(plan: &Plan) -> String {
    let filter = plan.filter.unwrap_or("-").replace(' ', "~");
    format!("skerry.bench={},{filter},{}", plan.rounds, plan.suites.join(","))
}

/// Builds the probes, and the image they are in. It has the modules of Debian's kernel if that was prepared.
///
/// # Errors
/// The compiler's messages; or mke2fs fails.
pub fn image() -> Result<PathBuf> {
    let tree = shell::build_path("bench-root")?;
    disk::busybox_tree(&tree)?;
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    programs(&folder)?;
    fs::write(folder.join("run"), SCRIPT)?;
    fs::write(folder.join("memory"), MEMORY_SCRIPT)?;
    fs::write(folder.join("levels"), LEVELS)?;
    fs::write(folder.join("channels"), COVERT_SCRIPT)?;
    compile(&sources("bench/covert")?, &folder.join("covert"))?;
    if selinux::is_prepared()? {
        fs::copy(selinux::prepare()?, folder.join("policy"))?;
    }
    if linux::is_prepared()? {
        linux::add_network_modules(&folder, &[linux::TUN_MODULE])?;
    }
    programs::add(&folder)?;
    trees(&folder)?;
    let image = shell::build_path("bench.ext4")?;
    disk::pack(&tree, &image, &[])?;
    Ok(image)
}

/// Checks that a probe of `suites` has a name that contains `filter`. The probes were built, by [`image`].
///
/// # Errors
/// None has.
pub fn check_row(filter: &str, suites: &[&str]) -> Result<()> {
    if !has_row(filter, suites)? {
        bail!("no row of {} has `{filter}` in its name", suites.join(", "));
    }
    Ok(())
}

/// Returns whether a probe of `suites` has a name that contains `filter`. The probes were built, by [`image`].
///
/// # Errors
/// Fails if the probes do not run on this machine.
pub fn has_row(filter: &str, suites: &[&str]) -> Result<bool> {
    let mut probes = Command::new(folder()?.join("probes"));
    probes.args(["names", filter]).args(suites);
    let said = probes.output().context("asking the probes for names")?;
    if !said.status.success() {
        bail!("asking the probes for names: {}", String::from_utf8_lossy(&said.stderr));
    }
    Ok(!said.stdout.is_empty())
}

/// Returns the folder whose contents become the image's `/bench`.
///
/// # Errors
/// Fails if `build/` cannot be made.
pub fn folder() -> Result<PathBuf> {
    Ok(shell::build_path("bench-root")?.join("bench"))
}

/// Names of the programs with one source file each; all other files make one program.
const ALONE: [&str; 2] = ["nothing", "first"];

fn programs(folder: &Path) -> Result<()> {
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let is_alone = |path: &PathBuf| stem(path).is_some_and(|stem| ALONE.contains(&stem.as_str()));
    let (alone, together): (Vec<PathBuf>, Vec<PathBuf>) =
        sources("bench/probes")?.into_iter().partition(is_alone);
    for source in alone {
        let program = folder.join(stem(&source).unwrap_or_default());
        compile(&[source], &program)?;
    }
    compile(&together, &folder.join("probes"))
}

/// Trees of files that `disk` works on, all alike, and one packed.
fn trees(folder: &Path) -> Result<()> {
    const TREES: usize = 5;
    const FOLDERS: usize = 12;
    const FILES: usize = 12;
    for tree in 0..TREES {
        for (inner, file) in
            (0..FOLDERS).flat_map(|inner| (0..FILES).map(move |file| (inner, file)))
        {
            let folder = folder.join(format!("trees/{tree}/folder{inner}"));
            fs::create_dir_all(&folder)?;
            let lines = 40 * (1 + (inner * FILES + file) * 7 % 20);
            let text: String =
                (0..lines).map(|line| format!("line {line} of file {file}\n")).collect();
            fs::write(folder.join(format!("file{file}")), text)?;
        }
    }
    let mut tar = Command::new("/bin/busybox");
    tar.args(["tar", "cf"])
        .arg(folder.join("tree.tar"))
        .arg("-C")
        .arg(folder.join("trees/0"))
        .arg(".");
    shell::quietly("packing a tree", &mut tar)?;
    Ok(())
}

/// Returns the files of C in a folder.
fn sources(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = shell::root().join(folder);
    let mut found: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    found.sort();
    Ok(found)
}

fn compile(sources: &[PathBuf], program: &Path) -> Result<()> {
    let mut compiler = Command::new("cc");
    compiler.args([
        "-static",
        "-pthread",
        "-O2",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
    ]);
    compiler.arg(program).args(sources);
    shell::quietly("building the probes", &mut compiler)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_probes_say_is_understood() {
        let start = Instant::now();
        let text = "clock 1000\nprobe 0 read /dev/zero\npoint 30 900\nprobe 5 nap\nfailed read: x\nclock 3001000\ndone";
        let late = |at: usize| start + Duration::from_millis(if at < 5 { 0 } else { 3 });
        let lines: Vec<(Instant, String)> =
            text.lines().enumerate().map(|(at, line)| (late(at), line.to_owned())).collect();
        let said = parse(&lines);
        assert!(said.is_whole);
        assert!((said.rate.unwrap().0 - 1.0).abs() < 1e-9);
        let [read, nap] = said.measured.as_slice() else { panic!("two probes") };
        assert_eq!(
            (read.name.as_str(), read.points.as_slice()),
            ("read /dev/zero", &[(30.0, 900.0)][..])
        );
        assert_eq!((nap.agreed_ns, nap.failed.as_deref()), (5.0, Some("read: x")));
    }

    #[test]
    fn blanks_of_a_filter_pass_the_command_line() {
        let suites = &["a", "b"];
        let plan = Plan {
            unit: Unit::Clock,
            cpus: 1,
            rounds: 2,
            filter: Some("sh -c"),
            suites,
            card: Card::None,
        };
        assert_eq!(parameter(&plan), "skerry.bench=2,sh~-c,a,b");
    }
}
