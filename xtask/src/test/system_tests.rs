//! Whole boots, described in `tests/system/*.toml` and in `tests/*.toml` of components' folders: a machine, a command, and what is expected.
use super::{
    terminal_test, test_disk,
    test_net::{self, Orders},
    test_user_net::HostEnd,
};
use crate::profile;
use anyhow::{Context, Result, bail};
use description::Sources;
use harness::{
    build::{self, Features},
    debian, disk, frames, guest,
    linux::{self, Linux},
    qemu::{Config, Machine},
    session::{Captured, Streams},
    shell::{self, Lane},
    tally::{Tally, Target},
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A file of tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    test: Vec<Case>,
}

/// A boot, or the same boot on several machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Names of the systems on which it runs; empty for all.
    #[serde(default)]
    systems: Vec<String>,
    /// A system of its own on which it runs instead of `default`.
    system: Option<String>,
    /// The command of the session.
    run: String,
    /// The command of the second personality's session, on a system with two.
    run_two: Option<String>,
    /// Contents of the root disk.
    #[serde(default)]
    root: Root,
    /// Further disks.
    #[serde(default)]
    disk: Vec<test_disk::Description>,
    /// Whether Debian's Linux, in the same machine with the same disks, must print the same first.
    #[serde(default)]
    on_linux: bool,
    /// Whether it runs on that Linux alone: it tests the machine, because Skerry has no driver of it.
    #[serde(default)]
    only_on_linux: bool,
    /// A network card.
    net: Option<test_net::Description>,
    /// A network card on QEMU's own network, with servers on the host.
    #[serde(default)]
    user_net: bool,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    machine: Option<String>,
    #[serde(default = "default_cpus")]
    cpus: Vec<u32>,
    #[serde(default = "default_memory")]
    memory: Vec<u32>,
    #[serde(default)]
    append: String,
    /// Further arguments of QEMU, behind the others.
    #[serde(default)]
    qemu: Vec<String>,
    /// Further disks of 1 MiB that read as zeroes, eight to a slot of q35's bus.
    #[serde(default)]
    empty_disks: u32,
    /// Whether the kernel has lock checks and statistics, as it has on a system of its own.
    #[serde(default)]
    instrumented: bool,
    /// Whether no other machine runs meanwhile: a watchdog of the guest would take a starved component for a hung one.
    #[serde(default)]
    alone: bool,
    /// Seconds of a boot after which it counts as hung.
    #[serde(default = "default_timeout")]
    timeout: u64,
    /// The exact stdout that is expected.
    stdout: Option<String>,
    /// The exact stdout of the second personality's session that is expected.
    stdout_two: Option<String>,
    /// Texts that stdout must contain.
    #[serde(default)]
    contains: Vec<String>,
    /// The exact stderr that is expected.
    stderr: Option<String>,
    /// The texts that the kernel's log holds.
    #[serde(default)]
    log: Vec<String>,
    /// The expected end of the run (`build/run.status`).
    #[serde(default = "default_outcome")]
    outcome: String,
}

/// A disk to boot from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Root {
    /// Debian's busybox.
    #[default]
    Busybox,
    /// Debian's busybox, with the programs of the campaigns in /abi.
    Programs,
    /// Debian with SELinux's tools.
    Labelled,
}

/// The packages of [`Root::Labelled`].
const LABELLED: [&str; 4] = ["auditd", "newrole", "policycoreutils", "selinux-utils"];

impl Root {
    fn image(self) -> Result<PathBuf> {
        match self {
            Root::Busybox => disk::default_root(),
            Root::Programs => disk::programs_image(),
            Root::Labelled => debian::image(&LABELLED.map(str::to_owned)),
        }
    }

    fn tree(self, tree: &Path) -> Result<()> {
        match self {
            Root::Busybox => disk::busybox_tree(tree),
            Root::Programs => disk::programs_tree(tree),
            Root::Labelled => bail!("Linux's initramfs holds no Debian"),
        }
    }
}

fn default_cpus() -> Vec<u32> {
    vec![2]
}

fn default_memory() -> Vec<u32> {
    vec![512]
}

/// A boot takes ten seconds on an idle machine; a busy host can stall it for a minute.
fn default_timeout() -> u64 {
    240
}

fn default_outcome() -> String {
    "exited 0".to_owned()
}

impl Case {
    /// Returns whether it is for the target, and its name holds `filter`.
    fn is_meant(&self, target: &Target, filter: Option<&str>) -> bool {
        let is_named = filter.is_none_or(|filter| self.name.contains(filter));
        let is_about = match &self.system {
            Some(own) => *own == target.system || target.system == "default",
            None => self.systems.is_empty() || self.systems.contains(&target.system),
        };
        is_named && is_about
    }

    /// Returns the contents of the root that Linux boots, and whether it needs modules for a network card.
    fn linux_root(&self) -> (Root, bool) {
        (self.root, self.net.is_some() || self.user_net)
    }

    /// Returns its boots for the target.
    fn boots(&self, target: &Target, images: &mut Images) -> Result<Vec<Boot<'_>>> {
        let system = self.system.as_ref().unwrap_or(&target.system);
        let is_instrumented = self.instrumented || self.system.is_some();
        let kernel = match self.only_on_linux {
            true => PathBuf::new(),
            false => images.kernel(system, is_instrumented)?,
        };
        let image = images.root(self.root)?;
        let mut boots = Vec::new();
        for &cpus in target.some(&self.cpus) {
            for &memory in target.some(&self.memory) {
                let name = format!("{} ({system}, {cpus} processors, {memory} MiB)", self.name);
                let boot = |on, name: String| {
                    let (kernel, root) = (kernel.clone(), image.clone());
                    Boot { case: self, name, on, kernel, root, cpus, memory }
                };
                if (self.on_linux || self.only_on_linux) && !target.is_short {
                    boots.push(boot(Booted::Linux, format!("{name} on Linux")));
                }
                if !self.only_on_linux {
                    boots.push(boot(Booted::Skerry, name));
                }
            }
        }
        Ok(boots)
    }
}

/// The kernels and roots that were built for this run.
#[derive(Default)]
struct Images {
    /// By the name of the system, and whether it is instrumented.
    kernels: BTreeMap<(String, bool), PathBuf>,
    roots: BTreeMap<Root, PathBuf>,
}

impl Images {
    fn kernel(&mut self, system: &str, is_instrumented: bool) -> Result<PathBuf> {
        match self.kernels.entry((system.to_owned(), is_instrumented)) {
            Entry::Occupied(built) => Ok(built.get().clone()),
            Entry::Vacant(missing) => {
                let features = Features::for_tests(is_instrumented);
                Ok(missing.insert(build::image(system, &features)?).clone())
            }
        }
    }

    fn root(&mut self, root: Root) -> Result<PathBuf> {
        match self.roots.entry(root) {
            Entry::Occupied(made) => Ok(made.get().clone()),
            Entry::Vacant(missing) => Ok(missing.insert(root.image()?).clone()),
        }
    }
}

/// The kernel of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Booted {
    Skerry,
    Linux,
}

/// A boot of a case on one machine.
struct Boot<'c> {
    case: &'c Case,
    name: String,
    on: Booted,
    kernel: PathBuf,
    root: PathBuf,
    cpus: u32,
    memory: u32,
}

/// Runs every case whose name contains `filter` and that is for the target. First everything is built; then as many machines
/// run at once as there are processors.
///
/// # Errors
/// Fails if a description is wrong or the system does not build.
pub fn run(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    let mut cases = cases()?;
    cases.retain(|case| case.is_meant(target, filter));
    let (mut boots, mut images) = (Vec::new(), Images::default());
    for case in &cases {
        boots.extend(case.boots(target, &mut images)?);
    }
    if !boots.is_empty() {
        let linux = LinuxSide::prepare(&boots)?;
        let bar = shell::progress(&format!("{} boots of {}", boots.len(), target.system));
        let shared = Mutex::new(&mut *tally);
        let run = |lane, boot: &Boot<'_>| {
            shell::next_step(&bar, &boot.name);
            let verdict = boot.run(lane, &linux)?;
            shared.lock().unwrap_or_else(PoisonError::into_inner).count(&boot.name, verdict);
            Ok(())
        };
        let (alone, others): (Vec<_>, Vec<_>) = boots.into_iter().partition(|boot| boot.case.alone);
        let results = shell::side_by_side(&others, shell::processors(), run);
        results.into_iter().chain(shell::side_by_side(&alone, 1, run)).collect::<Result<()>>()?;
        bar.finish_and_clear();
    }
    check_frames(tally, target, filter)?;
    terminal_test::run(tally, target, filter)?;
    profile::test::run(tally, target, filter)?;
    xtask_bench::test::run(tally, target, filter)
}

/// Largest frame of a function of the kernel, in bytes: a quarter of a kernel stack.
const LARGEST_FRAME: u64 = 8 << 10;

/// Checks the stack frames of the target's kernel.
fn check_frames(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    let name = format!("frames: no function takes a quarter of a kernel stack ({})", target.system);
    if filter.is_some_and(|filter| !name.contains(filter)) {
        return Ok(());
    }
    let kernel = build::image(&target.system, &Features::default())?;
    let lines: Vec<String> = frames::above(&kernel, LARGEST_FRAME)?
        .iter()
        .map(|frame| {
            format!("{} bytes in {}: keep large values in a box", frame.bytes, frame.function)
        })
        .collect();
    tally.count(&name, if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) });
    Ok(())
}

/// Returns the files of tests in `folder`; none if there is no such folder.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

/// Returns the subject of the tests in `path`: the name of the file, behind that of the component in whose folder it is.
fn subject(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let component = path.parent().filter(|folder| folder.ends_with("tests")).and_then(Path::parent);
    component.map(|folder| format!("{} ", stem(folder))).unwrap_or_default() + &stem(path)
}

fn cases() -> Result<Vec<Case>> {
    let root = shell::root();
    let mut files = files_in(&root.join("tests/system"));
    for folder in Sources::of_tree(&root)?.components() {
        files.extend(files_in(&root.join(folder).join("tests")));
    }
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let file: File = toml::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("in {}", path.display()))?;
        let subject = subject(&path);
        let named = |case: Case| Case { name: format!("{subject}: {}", case.name), ..case };
        cases.extend(file.test.into_iter().map(named));
    }
    Ok(cases)
}

/// The verdict on a boot.
type Verdict = std::result::Result<(), String>;

impl Boot<'_> {
    /// Boots, with the case's network card if it has one, and judges the output and the wire. Files that it makes are named
    /// after the lane.
    fn run(&self, lane: Lane, linux: &LinuxSide) -> Result<Verdict> {
        let mut config = self.machine(lane)?;
        if self.case.user_net {
            let end = HostEnd::start()?;
            config.extra.extend(end.arguments(&config));
            let case = Case { run: end.commands(&self.case.run), ..self.case.clone() };
            return self.judged(&config, &case, lane, linux, Some(end.orders()));
        }
        let Some(net) = &self.case.net else {
            return self.judged(&config, self.case, lane, linux, None);
        };
        let capture = shell::build_path(&format!("system-test-{lane}.pcapng"))?;
        let (wire, peer, arguments) = net.start(&config, Some(capture))?;
        config.extra.extend(arguments);
        let orders = Some(test_net::orders_to(peer));
        let verdict = self.judged(&config, self.case, lane, linux, orders)?;
        Ok(verdict.and_then(|()| net.judge(wire)))
    }

    /// Returns the machine without its network card, with fresh disks.
    fn machine(&self, lane: Lane) -> Result<Config> {
        let case = self.case;
        let machine = match case.machine.as_deref() {
            Some("pc") => Machine::Pc,
            Some("microvm") => Machine::Microvm,
            _ => Machine::Q35,
        };
        let disks = case.disk.iter().enumerate();
        let disks = disks.map(|(number, disk)| disk.make(&format!("test-disk-{lane}-{number}")));
        let config = guest::machine(&self.kernel, &self.root, &format!("system-test-{lane}.log"))?;
        Ok(Config {
            machine,
            cpus: self.cpus,
            memory: self.memory,
            disks: disks.collect::<Result<_>>()?,
            is_for_two: case.run_two.is_some(),
            append: format!("{} {}", config.append, case.append),
            extra: [case.qemu.clone(), empty_disks(case.empty_disks)].concat(),
            ..config
        })
    }

    fn judged(
        &self,
        config: &Config,
        case: &Case,
        lane: Lane,
        linux: &LinuxSide,
        orders: Option<Orders>,
    ) -> Result<Verdict> {
        match self.on {
            Booted::Skerry => boot(config, case, orders),
            Booted::Linux => linux.boot(config, case, lane),
        }
    }
}

fn boot(config: &Config, case: &Case, orders: Option<Orders>) -> Result<Verdict> {
    let (output, error) = (Captured::default(), Captured::default());
    let mut streams = Streams {
        input: Box::new(Cursor::new(case.stdin.as_bytes().to_vec())),
        output: Box::new(output.clone()),
        error: Box::new(error.clone()),
    };
    if let Some(orders) = orders {
        streams = test_net::with_orders(streams, orders);
    }
    let second = Captured::default();
    let streams_two = case.run_two.as_deref().map(|command| (command, captured(&second)));
    let running = guest::start_sessions(config, (&case.run, streams), streams_two)?;
    let outcome = running.finish(&config.log, Some(case.timeout))?;
    let (output, error) = (output.take(), error.take());
    let second = String::from_utf8_lossy(&second.take()).into_owned();
    if case.stdout_two.as_ref().is_some_and(|expected| *expected != second) {
        return Ok(Err(format!("the second session printed:\n{second}")));
    }
    let log = fs::read(&config.log).unwrap_or_default();
    let texts = [&output, &error, &log].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if let Err(why) = judge(case, &outcome.to_string(), texts) {
        return Ok(Err(why));
    }
    for (disk, description) in config.disks.iter().zip(&case.disk) {
        if let Err(why) = description.judge(&disk.image)? {
            let log = String::from_utf8_lossy(&log);
            return Ok(Err(format!("{}: {why}\nlog:\n{log}", disk.image.display())));
        }
    }
    Ok(Ok(()))
}

/// Returns the streams of a session without input, of which `output` is kept.
fn captured(output: &Captured) -> Streams {
    Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(output.clone()),
        error: Box::new(std::io::sink()),
    }
}

/// Returns QEMU's arguments for `count` disks without a file.
fn empty_disks(count: u32) -> Vec<String> {
    const FIRST_SLOT: u32 = 0x10;
    const FUNCTIONS: u32 = 8;
    let disk = |number: u32| {
        let (slot, function) = (FIRST_SLOT + number / FUNCTIONS, number % FUNCTIONS);
        let device = format!(
            "virtio-blk-pci,disable-legacy=on,iommu_platform=on,drive=empty{number},addr={slot:x}.{function},multifunction=on"
        );
        let backing = format!("driver=null-co,read-zeroes=on,size=1048576,node-name=empty{number}");
        ["-blockdev".to_owned(), backing, "-device".to_owned(), device]
    };
    (0..count).flat_map(disk).collect()
}

/// The place of the script on the disk that Linux boots from.
const SCRIPT_PATH: &str = "/script";

/// Debian's kernel and the roots that it boots from.
struct LinuxSide {
    linux: Option<Linux>,
    /// By [`Case::linux_root`].
    roots: Vec<((Root, bool), PathBuf)>,
}

impl LinuxSide {
    /// Makes what the boots of Linux among `boots` need.
    fn prepare(boots: &[Boot<'_>]) -> Result<LinuxSide> {
        let mut side = LinuxSide { linux: None, roots: Vec::new() };
        for boot in boots.iter().filter(|boot| boot.on == Booted::Linux) {
            let (root, has_card) = boot.case.linux_root();
            if side.linux.is_none() {
                side.linux = Some(linux::prepare()?);
            }
            if side.root((root, has_card)).is_none() {
                let tree = shell::build_path("linux-test-root")?;
                root.tree(&tree)?;
                if has_card {
                    linux::add_network_modules(&tree, &[])?;
                }
                let image =
                    shell::build_path(&format!("linux-test-root-{}.ext4", side.roots.len()))?;
                disk::pack(&tree, &image, &[])?;
                side.roots.push(((root, has_card), image));
            }
        }
        Ok(side)
    }

    fn root(&self, wanted: (Root, bool)) -> Option<&Path> {
        let found = self.roots.iter().find(|(root, _)| *root == wanted);
        found.map(|(_, image)| image.as_path())
    }

    /// Judges the output of Linux. Its messages and its disks are not judged, and stderr and stdout are one stream there.
    fn boot(&self, config: &Config, case: &Case, lane: Lane) -> Result<Verdict> {
        let linux = self.linux.as_ref().context("Linux was not prepared")?;
        let root = shell::build_path(&format!("linux-test-{lane}.ext4"))?;
        fs::copy(self.root(case.linux_root()).context("Linux has no such root")?, &root)?;
        let script = shell::build_path(&format!("linux-test-{lane}.script"))?;
        fs::write(&script, format!("export PATH=/bin:/sbin\nexec 2>/dev/null\n{}", case.run))?;
        disk::debugfs(&root, &format!("write {} {SCRIPT_PATH}", script.display()))?;
        let kernel = linux.kernel.clone();
        let config = Config { kernel, root, ..config.clone() };
        let (parameters, log) = (format!("skerry.runner={SCRIPT_PATH}"), config.log.clone());
        let output = linux::boot(linux, config, &parameters, case.timeout)?;
        let output = String::from_utf8_lossy(&output).replace('\r', "");
        let log = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok(judge(
            &Case { log: Vec::new(), stderr: None, ..case.clone() },
            &case.outcome,
            [output, String::new(), log],
        ))
    }
}

fn judge(
    case: &Case,
    outcome: &str,
    [output, error, log]: [String; 3],
) -> std::result::Result<(), String> {
    let everything =
        || format!("ended: {outcome}\nstdout:\n{output}\nstderr:\n{error}\nlog:\n{log}");
    if outcome != case.outcome {
        return Err(format!("expected `{}`\n{}", case.outcome, everything()));
    }
    if case.stdout.as_ref().is_some_and(|expected| *expected != output) {
        return Err(format!("another stdout\n{}", everything()));
    }
    if case.stderr.as_ref().is_some_and(|expected| *expected != error) {
        return Err(format!("another stderr\n{}", everything()));
    }
    for (wanted, place) in
        case.contains.iter().map(|w| (w, &output)).chain(case.log.iter().map(|w| (w, &log)))
    {
        if !place.contains(wanted.as_str()) {
            return Err(format!("`{wanted}` is missing\n{}", everything()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_in_the_folder_of_a_component_has_its_name() {
        let of = |path| subject(Path::new(path));
        assert_eq!(of("/skerry/components/drivers/uart/tests/kill.toml"), "uart kill");
        assert_eq!(of("/skerry/tests/system/isolation.toml"), "isolation");
    }
}
