//! Whole boots, described in `tests/system/*.toml` and in `tests/*.toml` of components' folders: a machine, a command, and what is expected.
use super::{
    terminal_test, test_disk,
    test_net::{self, Orders},
    test_user_net::HostEnd,
};
use crate::profile;
use anyhow::{Context, Result};
use description::Sources;
use harness::{
    build::{self, Features},
    disk, guest, linux,
    qemu::{Config, Machine},
    session::{Captured, Streams},
    shell,
    tally::{Tally, Target},
};
use serde::Deserialize;
use std::{
    fs,
    io::Cursor,
    path::{Path, PathBuf},
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
    #[serde(default)]
    lock_checks: bool,
    #[serde(default)]
    lock_statistics: bool,
    /// Seconds of a boot after which it counts as hung.
    #[serde(default = "default_timeout")]
    timeout: u64,
    /// The exact stdout that is expected.
    stdout: Option<String>,
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
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Root {
    /// Debian's busybox.
    #[default]
    Busybox,
    /// Debian's busybox, with the programs of the campaigns in /abi.
    Programs,
}

impl Root {
    fn image(self) -> Result<PathBuf> {
        match self {
            Root::Busybox => disk::default_root(),
            Root::Programs => disk::programs_image(),
        }
    }

    fn tree(self, tree: &Path) -> Result<()> {
        match self {
            Root::Busybox => disk::busybox_tree(tree),
            Root::Programs => disk::programs_tree(tree),
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

/// Runs every case whose name contains `filter` and that is for the target.
///
/// # Errors
/// Fails if a description is wrong or the system does not build.
pub fn run(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    let is_meant = |case: &Case| {
        let is_named = filter.is_none_or(|filter| case.name.contains(filter));
        let is_about = match &case.system {
            Some(own) => *own == target.system || target.system == "default",
            None => case.systems.is_empty() || case.systems.contains(&target.system),
        };
        is_named && is_about
    };
    for case in cases()?.into_iter().filter(is_meant) {
        let features = Features { check: case.lock_checks, statistics: case.lock_statistics };
        let system = case.system.as_ref().unwrap_or(&target.system);
        let kernel = match case.only_on_linux {
            true => PathBuf::new(),
            false => build::image(system, &features)?,
        };
        let root = case.root.image()?;
        for &cpus in target.some(&case.cpus) {
            for &memory in target.some(&case.memory) {
                let machine = format!("{system}, {cpus} processors, {memory} MiB");
                let name = format!("{} ({machine})", case.name);
                let machine = match case.machine.as_deref() {
                    Some("pc") => Machine::Pc,
                    Some("microvm") => Machine::Microvm,
                    _ => Machine::Q35,
                };
                let mut config = guest::machine(&kernel, &root, "system-test.log")?;
                config.append = format!("{} {}", config.append, case.append);
                let extra = [case.qemu.clone(), empty_disks(case.empty_disks)].concat();
                let config = Config { machine, cpus, memory, extra, ..config };
                if (case.on_linux || case.only_on_linux) && !target.is_short {
                    let name = format!("{name} on Linux");
                    let bar = shell::progress(&name);
                    let result = with_network(&config, &case, boot_linux)?;
                    bar.finish_and_clear();
                    tally.count(&name, result);
                }
                if !case.only_on_linux {
                    let bar = shell::progress(&name);
                    let result = with_network(&config, &case, boot)?;
                    bar.finish_and_clear();
                    tally.count(&name, result);
                }
            }
        }
    }
    terminal_test::run(tally, target, filter)?;
    profile::test::run(tally, target, filter)?;
    xtask_bench::test::run(tally, target, filter)
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

/// Does `boot` with the case's network card, if it has one, and judges its wire too.
fn with_network(
    config: &Config,
    case: &Case,
    boot: fn(&Config, &Case, Option<Orders>) -> Result<Verdict>,
) -> Result<Verdict> {
    let with_card = |arguments| {
        let extra = [config.extra.clone(), arguments].concat();
        Config { extra, ..config.clone() }
    };
    if case.user_net {
        let end = HostEnd::start()?;
        let case = Case { run: end.commands(&case.run), ..case.clone() };
        return boot(&with_card(end.arguments(config)), &case, Some(end.orders()));
    }
    let Some(net) = &case.net else { return boot(config, case, None) };
    let capture = shell::build_path(test_net::CAPTURE)?;
    let (wire, peer, arguments) = net.start(config, Some(capture))?;
    let verdict = boot(&with_card(arguments), case, Some(test_net::orders_to(peer)))?;
    Ok(verdict.and_then(|()| net.judge(wire)))
}

fn boot(config: &Config, case: &Case, orders: Option<Orders>) -> Result<Verdict> {
    let config = with_disks(config, case)?;
    let (output, error) = (Captured::default(), Captured::default());
    let mut streams = Streams {
        input: Box::new(Cursor::new(case.stdin.as_bytes().to_vec())),
        output: Box::new(output.clone()),
        error: Box::new(error.clone()),
    };
    if let Some(orders) = orders {
        streams = test_net::with_orders(streams, orders);
    }
    let outcome = guest::execute(&config, &case.run, streams, Some(case.timeout))?;
    let (output, error) = (output.take(), error.take());
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

/// Returns the machine with the case's disks, fresh.
fn with_disks(config: &Config, case: &Case) -> Result<Config> {
    let disks = case.disk.iter().enumerate();
    let disks = disks.map(|(number, disk)| disk.make(&format!("test-disk-{number}")));
    Ok(Config { disks: disks.collect::<Result<_>>()?, ..config.clone() })
}

/// The place of the script on the disk that Linux boots from.
const SCRIPT_PATH: &str = "/script";

/// Returns the output of Linux. Its disks are not judged, and stderr and stdout are one stream there.
fn boot_linux(config: &Config, case: &Case, _: Option<Orders>) -> Result<Verdict> {
    let linux = linux::prepare()?;
    let tree = shell::build_path("linux-test-root")?;
    case.root.tree(&tree)?;
    if case.net.is_some() || case.user_net {
        linux::add_network_modules(&tree)?;
    }
    let script = format!("export PATH=/bin:/sbin\nexec 2>/dev/null\n{}", case.run);
    fs::write(tree.join(SCRIPT_PATH.trim_start_matches('/')), script)?;
    let root = shell::build_path("linux-test.ext4")?;
    disk::pack(&tree, &root, &[])?;
    let kernel = linux.kernel.clone();
    let config = with_disks(&Config { kernel, root, ..config.clone() }, case)?;
    let parameters = format!("skerry.runner={SCRIPT_PATH}");
    let output = linux::boot(&linux, config, &parameters, case.timeout)?;
    let output = String::from_utf8_lossy(&output).replace('\r', "");
    Ok(judge(
        &Case { log: Vec::new(), stderr: None, ..case.clone() },
        &case.outcome,
        [output, String::new(), String::new()],
    ))
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
