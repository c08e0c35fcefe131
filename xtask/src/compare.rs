//! The same commands on Skerry and under Debian's cloud kernel, in the same QEMU on the same image
//! (Z4): both run one script that prints each command's output and status between marks.
use crate::{
    build, disk,
    qemu::{self, Config},
    run, session, shell, test,
};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// One command's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// stdout and stderr together.
    pub output: Vec<u8>,
    /// Exit status.
    pub status: String,
}

/// Commands to compare, one a line; `#` opens a comment.
///
/// # Errors
/// Where the list cannot be read.
pub fn commands() -> Result<Vec<String>> {
    let text = fs::read_to_string(shell::root().join("tests/system/busybox.txt"))?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

const MARK: &str = "@@skerry@@";
/// Longest time the whole list may take on one system.
const LIMIT: Duration = Duration::from_secs(900);

/// The image both systems run on: the busybox root with the commands and their runner.
///
/// # Errors
/// As [`disk::pack`].
pub fn image(commands: &[String]) -> Result<PathBuf> {
    let tree = shell::build_path("compare-root")?;
    disk::busybox_tree(&tree)?;
    fs::create_dir_all(tree.join("compare/cases"))?;
    for (at, command) in commands.iter().enumerate() {
        fs::write(tree.join(format!("compare/cases/{:04}", at + 1)), format!("{command}\n"))?;
    }
    fs::create_dir_all(tree.join("compare/data"))?;
    fs::write(tree.join("compare/data/text"), sample_text())?;
    fs::write(
        tree.join("compare/data/bytes"),
        (0..70_000u64).map(|n| (n * n % 251) as u8).collect::<Vec<_>>(),
    )?;
    symlink("data/text", tree.join("compare/link"))?;
    let player = build::abi_programs()?
        .into_iter()
        .find(|program| program.ends_with("on_pty"))
        .context("tests/abi has no on_pty")?;
    fs::copy(player, tree.join("compare/on_pty"))?;
    fs::write(tree.join("compare/runner"), RUNNER.replace("MARK", MARK))?;
    let image = shell::build_path("compare.ext4")?;
    disk::pack(&tree, &image, &[])?;
    Ok(image)
}

fn sample_text() -> String {
    (1..=400)
        .map(|n| {
            format!("line {n} {} the quick brown fox {}\n", n * 7919 % 101, "x".repeat(n % 17))
        })
        .collect()
}

/// Each case runs in an empty folder of a tmpfs with a clean environment and no input.
const RUNNER: &str = r#"#!/bin/sh
export PATH=/bin:/sbin HOME=/root TERM=dumb LC_ALL=C TZ=UTC
unset USER
umask 022
for case in /compare/cases/*; do
    rm -rf /tmp/work; mkdir /tmp/work; cd /tmp/work
    printf '\nMARK begin\n'
    timeout -s KILL 30 /bin/sh "$case" </dev/null 2>&1
    printf '\nMARK status %s\n' $?
done
printf '\nMARK done\n'
"#;

fn parse(output: &[u8]) -> Result<Vec<Answer>> {
    let text = String::from_utf8_lossy(output);
    let mut answers = Vec::new();
    for part in text.split(&format!("\n{MARK} begin\n")).skip(1) {
        let (output, rest) =
            part.split_once(&format!("\n{MARK} status ")).context("a command never ended")?;
        let status = rest.lines().next().unwrap_or_default().to_owned();
        answers.push(Answer { output: output.as_bytes().to_vec(), status });
    }
    if !text.contains(&format!("\n{MARK} done\n")) {
        bail!("the runner stopped after {} commands", answers.len());
    }
    Ok(answers)
}

/// Runs the list on Skerry.
///
/// # Errors
/// Where the boot fails or the list does not end.
pub fn on_skerry(kernel: &Path, image: &Path) -> Result<Vec<Answer>> {
    let config = test::machine(kernel, image, "compare-skerry.log")?;
    let (outcome, output, _) =
        run_captured(&config, "/bin/sh /compare/runner", "", LIMIT.as_secs())?;
    parse(&output).with_context(|| format!("Skerry ({outcome}; log in {})", config.log.display()))
}

/// Runs a command on a machine with `input` as its stdin and its output kept: (how it ended, stdout, stderr).
///
/// # Errors
/// What kept QEMU from starting.
pub fn run_captured(
    config: &Config,
    command: &str,
    input: &str,
    limit_seconds: u64,
) -> Result<(run::Outcome, Vec<u8>, Vec<u8>)> {
    let (output, error) = (Captured::default(), Captured::default());
    let streams = session::Streams {
        input: Box::new(io::Cursor::new(input.as_bytes().to_vec())),
        output: Box::new(output.clone()),
        error: Box::new(error.clone()),
    };
    let outcome = run::execute(config, command, streams, Some(limit_seconds), false)?;
    Ok((outcome, output.take(), error.take()))
}

/// A sink that another thread writes.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// What was written.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }

    /// Nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_ok_and(|bytes| bytes.is_empty())
    }
}

impl Write for Captured {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if let Ok(mut bytes) = self.0.lock() {
            bytes.extend_from_slice(data);
        }
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Linux: its kernel and the initramfs that loads its disk modules.
#[derive(Debug)]
pub struct Linux {
    /// bzImage.
    pub kernel: PathBuf,
    /// initramfs.
    pub initrd: PathBuf,
}

/// Fetches `linux-image-cloud-amd64` into `build/linux` and makes the initramfs.
///
/// # Errors
/// Where apt has no such package.
pub fn linux() -> Result<Linux> {
    let folder = shell::build_path("linux")?;
    fs::create_dir_all(&folder)?;
    let kernel = folder.join("vmlinuz");
    let initrd = folder.join("initramfs");
    let known = folder.join("version");
    if !kernel.exists() || !known.exists() {
        let version = fetch(&folder)?;
        fs::copy(folder.join(format!("tree/boot/vmlinuz-{version}")), &kernel)?;
        fs::write(&known, version)?;
    }
    initramfs(&folder, &fs::read_to_string(&known)?, &initrd)?;
    Ok(Linux { kernel, initrd })
}

fn fetch(folder: &Path) -> Result<String> {
    let find = || -> Option<String> {
        let output =
            Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find_map(|line| line.trim().strip_prefix("Depends: ").map(str::to_owned))
    };
    let package = match find() {
        Some(package) => package,
        None => {
            shell::quietly(
                "updating Debian's package lists",
                Command::new("apt-get").args(["update", "-qq"]),
            )?;
            find().context("apt knows no linux-image-cloud-amd64")?
        }
    };
    shell::quietly(
        "fetching Debian's cloud kernel",
        Command::new("apt-get").args(["download", "-qq", &package]).current_dir(folder),
    )?;
    let archive = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    shell::quietly(
        "unpacking it",
        Command::new("dpkg-deb").arg("-x").arg(&archive).arg(folder.join("tree")),
    )?;
    fs::remove_file(archive)?;
    Ok(package.trim_start_matches("linux-image-").to_owned())
}

/// Modules that reach a virtio disk, in order.
const MODULES: [&str; 6] = [
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
];

fn initramfs(folder: &Path, version: &str, initrd: &Path) -> Result<()> {
    let tree = folder.join("initramfs.tree");
    let _ = fs::remove_dir_all(&tree);
    for part in ["bin", "dev", "proc", "sys", "root", "modules"] {
        fs::create_dir_all(tree.join(part))?;
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox"))?;
    symlink("busybox", tree.join("bin/sh"))?;
    let mut init = String::from("#!/bin/sh\n");
    for module in MODULES {
        let name = module.rsplit('/').next().unwrap_or(module);
        let from = folder.join(format!("tree/lib/modules/{version}/kernel/{module}"));
        if from.exists() {
            fs::copy(&from, tree.join("modules").join(name))?;
            init.push_str(&format!("/bin/busybox insmod /modules/{name}\n"));
        }
    }
    init.push_str(INIT);
    fs::write(tree.join("init"), init)?;
    fs::set_permissions(tree.join("init"), fs::Permissions::from_mode(0o755))?;
    let script = format!(
        "cd '{}' && find . | cpio --quiet -o -H newc > '{}'",
        tree.display(),
        initrd.display()
    );
    shell::quietly("making Linux's initramfs", Command::new("sh").args(["-c", &script]))?;
    Ok(())
}

/// With `skerry.prompt` the busybox of the initramfs answers at once (the boot comparison), else the
/// disk is mounted as Skerry mounts it and the runner starts in it.
const INIT: &str = r#"b=/bin/busybox
$b mount -t devtmpfs devtmpfs /dev
$b mount -t proc proc /proc
case "$($b cat /proc/cmdline)" in
*skerry.prompt*) echo prompt > /dev/ttyS1; $b poweroff -f;;
esac
$b mount -t sysfs sysfs /sys
$b mount -t ext4 /dev/vda /root
for d in tmp run; do $b mount -t tmpfs -o mode=1777 tmpfs /root/$d; done
$b mount -t proc proc /root/proc
$b mount -t devtmpfs devtmpfs /root/dev
$b ln -s /proc/self/fd /root/dev/fd
for n in 0:stdin 1:stdout 2:stderr; do $b ln -s /proc/self/fd/${n%:*} /root/dev/${n#*:}; done
$b mkdir /root/dev/pts
$b mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /root/dev/pts
$b mount -t sysfs sysfs /root/sys
$b stty -F /dev/ttyS1 raw -echo
$b hostname skerry
$b mkfifo /out
$b cat /out > /dev/ttyS1 & copier=$!
runner=$($b sed -n 's/.*skerry.runner=\([^ ]*\).*/\1/p' /proc/cmdline)
$b chroot /root /bin/sh $runner < /dev/null > /out 2>&1
# What the commands left running holds the pipe open.
for p in /proc/[0-9]*; do
    p=${p#/proc/}
    [ $p = 1 ] || [ $p = $copier ] || kill -9 $p
done
wait $copier
$b stty -F /dev/ttyS1 sane
$b poweroff -f
"#;

/// Runs the list on Linux.
///
/// # Errors
/// As [`on_skerry`].
pub fn on_linux(linux: &Linux, image: &Path) -> Result<Vec<Answer>> {
    let config = test::machine(&linux.kernel, image, "compare-linux.log")?;
    let output = boot_linux(linux, config, "skerry.runner=/compare/runner", LIMIT.as_secs())?;
    parse(&output).context("Linux")
}

/// Boots Linux, which runs the script that `parameters` name (`skerry.runner=PATH`) in the root disk;
/// what the script said.
///
/// # Errors
/// Where QEMU cannot be started.
pub fn boot_linux(
    linux: &Linux,
    config: Config,
    parameters: &str,
    limit_seconds: u64,
) -> Result<Vec<u8>> {
    let mut said = Vec::new();
    follow_linux(linux, config, parameters, limit_seconds, &mut said)?;
    Ok(said)
}

/// How often what Linux says is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// [`boot_linux`], what the script says going to `sink` as it comes.
///
/// # Errors
/// Where QEMU cannot be started, or the sink does not take it.
pub fn follow_linux(
    linux: &Linux,
    mut config: Config,
    parameters: &str,
    limit_seconds: u64,
    sink: &mut dyn Write,
) -> Result<()> {
    config.initrd = Some(linux.initrd.clone());
    config.has_iommu = false;
    config.append = format!("{LINUX_PARAMETERS} {parameters}");
    let output = config.log.with_extension("out");
    fs::write(&output, "")?;
    config.extra.extend(["-serial".to_owned(), format!("file:{}", qemu::escaped(&output))]);
    let mut child = config
        .command()
        .args(["-display", "none", "-monitor", "none"])
        .stdin(Stdio::null())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    let start = Instant::now();
    let mut seen = fs::File::open(&output)?;
    while child.try_wait()?.is_none() {
        if start.elapsed() > Duration::from_secs(limit_seconds) {
            child.kill()?;
            break;
        }
        std::thread::sleep(LOOK);
        io::copy(&mut seen, sink)?;
    }
    child.wait()?;
    io::copy(&mut seen, sink)?;
    Ok(())
}

/// Linux at its best.
pub const LINUX_PARAMETERS: &str =
    "console=ttyS0 mitigations=off init_on_alloc=0 tsc=reliable quiet panic=-1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_part_outputs_and_statuses() {
        let output = format!(
            "\n{MARK} begin\nhello\n\n{MARK} status 0\n\n{MARK} begin\n\n{MARK} status 3\n\n{MARK} done\n"
        );
        let answers = parse(output.as_bytes()).expect("a whole run");
        assert_eq!(answers.len(), 2);
        assert_eq!(
            (answers[0].output.as_slice(), answers[0].status.as_str()),
            (&b"hello\n"[..], "0")
        );
        assert_eq!(answers[1].status, "3");
    }

    #[test]
    fn a_run_cut_short_is_an_error() {
        assert!(parse(format!("\n{MARK} begin\nhello").as_bytes()).is_err());
    }

    #[test]
    #[ignore = "boots Linux: half a minute"]
    fn linux_runs_the_whole_list() {
        let commands = commands().expect("the list");
        let image = image(&commands).expect("an image");
        let answers = on_linux(&linux().expect("a kernel"), &image).expect("a whole run");
        assert_eq!(answers.len(), commands.len());
        for (command, answer) in commands.iter().zip(&answers) {
            println!("$ {command}\n{}[{}]", String::from_utf8_lossy(&answer.output), answer.status);
        }
    }
}
