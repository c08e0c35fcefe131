//! Debian's cloud kernel, with which Skerry is compared. It is fetched by apt, and started with an initramfs that runs a script
//! on the root disk.
use crate::{
    qemu::{self, Config},
    shell,
};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Linux: its kernel and the initramfs that loads its disk modules.
#[derive(Debug)]
pub struct Linux {
    /// Path of the bzImage.
    pub kernel: PathBuf,
    /// Path of the initramfs.
    pub initrd: PathBuf,
}

/// Fetches `linux-image-cloud-amd64` into `build/linux` and makes the initramfs.
///
/// # Errors
/// Fails if apt has no such package.
pub fn prepare() -> Result<Linux> {
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

/// Modules of a virtio network card and those that answer ss, in order. They are not in the initramfs, whose boot is measured.
const NETWORK_MODULES: [&str; 8] = [
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "net/ipv4/inet_diag.ko",
    "net/ipv4/tcp_diag.ko",
    "net/ipv4/udp_diag.ko",
    "net/ipv4/raw_diag.ko",
    "net/unix/unix_diag.ko",
];

/// The module of `/dev/net/tun`.
pub const TUN_MODULE: &str = "drivers/net/tun.ko";

/// Returns whether [`prepare`] has fetched the kernel, in this run or in an earlier one.
///
/// # Errors
/// Fails if `build/` cannot be made.
pub fn is_prepared() -> Result<bool> {
    Ok(shell::build_path("linux")?.join("version").exists())
}

/// Copies the modules of the network, and `more`, into `modules/` of `folder`. From a root disk's `/` or `/compare` Linux loads
/// them in the order of their names before it starts the script.
///
/// # Errors
/// Fails before [`prepare`].
pub fn add_network_modules(folder: &Path, more: &[&str]) -> Result<()> {
    let kept = shell::build_path("linux")?;
    let version = fs::read_to_string(kept.join("version"))?;
    let modules = folder.join("modules");
    fs::create_dir_all(&modules)?;
    for (number, module) in NETWORK_MODULES.iter().chain(more).enumerate() {
        let from = kept.join(format!("tree/lib/modules/{version}/kernel/{module}"));
        fs::copy(&from, modules.join(format!("{number}.ko")))
            .with_context(|| format!("copying {module}"))?;
    }
    Ok(())
}

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

/// The script of the initramfs. For comparisons of boots, with `skerry.prompt` busybox in the initramfs answers at once, and
/// with `skerry.bash` bash is started on the disk. Otherwise the file systems that Skerry mounts are mounted, and the runner
/// starts on the disk.
const INIT: &str = r#"b=/bin/busybox
$b mount -t devtmpfs devtmpfs /dev
$b mount -t proc proc /proc
case "$($b cat /proc/cmdline)" in
*skerry.prompt*) echo prompt > /dev/ttyS1; $b poweroff -f;;
esac
$b mount -t ext4 /dev/vda /root
case "$($b cat /proc/cmdline)" in
*skerry.bash*)
    for d in dev proc; do $b mount --move /$d /root/$d; done
    exec $b chroot /root /bin/bash < /root/dev/ttyS1 > /root/dev/ttyS1 2>&1;;
esac
$b mount -t sysfs sysfs /sys
$b mount -t tmpfs -o mode=1777 tmpfs /root/tmp
$b mount -t tmpfs -o mode=755 tmpfs /root/run
$b mount -t proc proc /root/proc
$b mount -t devtmpfs devtmpfs /root/dev
$b ln -s /proc/self/fd /root/dev/fd
for n in 0:stdin 1:stdout 2:stderr; do $b ln -s /proc/self/fd/${n%:*} /root/dev/${n#*:}; done
$b mkdir /root/dev/pts
$b mkdir -m 1777 /root/dev/shm
$b mount -t devpts -o nosuid,noexec,gid=5,mode=620,ptmxmode=000 devpts /root/dev/pts
$b mkdir /root/dev/mqueue
$b mount -t mqueue -o nosuid,nodev,noexec mqueue /root/dev/mqueue
$b mount -t sysfs sysfs /root/sys
$b stty -F /dev/ttyS1 raw -echo
for m in /root/modules/*.ko /root/compare/modules/*.ko; do [ ! -e $m ] || $b insmod $m; done
$b hostname skerry
# As systemd does.
echo 1 > /proc/sys/fs/protected_fifos
echo 2 > /proc/sys/fs/protected_regular
$b mkfifo /out
$b cat /out > /dev/ttyS1 & copier=$!
echo "skerry: the script starts" > /dev/ttyS0
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

/// Boots Linux, which runs the script that `parameters` name (`skerry.runner=PATH`) on the root disk. Returns the output of the
/// script. The kernel's messages are in `config.log`; a last line there says that the script took longer than `limit_seconds`.
///
/// # Errors
/// Fails if QEMU cannot be started, or Linux does not reach the script.
pub fn boot(
    linux: &Linux,
    config: Config,
    parameters: &str,
    limit_seconds: u64,
) -> Result<Vec<u8>> {
    let mut said = Vec::new();
    follow(linux, config, parameters, limit_seconds, &mut said)?;
    Ok(said)
}

/// Interval at which the output of Linux is read.
const LOOK: Duration = Duration::from_millis(10);

/// Time in which Linux reaches the script even on a busy host.
const BOOT_LIMIT: Duration = Duration::from_secs(120);

/// One boot in a hundred of Linux 6.1 on two processors of QEMU 7.2 stops before it starts init, if the host is busy.
const BOOTS: usize = 3;

/// Does the same as [`boot`], but writes the output of the script to `sink` as it comes.
///
/// # Errors
/// Fails if QEMU cannot be started, Linux does not reach the script, or `sink` refuses the output.
pub fn follow(
    linux: &Linux,
    mut config: Config,
    parameters: &str,
    limit_seconds: u64,
    sink: &mut dyn Write,
) -> Result<()> {
    config.initrd = Some(linux.initrd.clone());
    config.has_iommu = false;
    config.append = format!("{PARAMETERS} {parameters}");
    let output = config.log.with_extension("out");
    config.extra.extend(["-serial".to_owned(), format!("file:{}", qemu::escaped(&output))]);
    for _ in 0..BOOTS {
        if follow_one(&config, &output, Duration::from_secs(limit_seconds), sink)? {
            return Ok(());
        }
    }
    let log = String::from_utf8_lossy(&fs::read(&config.log)?).into_owned();
    bail!("Linux did not reach its script in {BOOTS} boots; the log of the last one:\n{log}")
}

/// Follows one boot. Returns whether it reached the script.
fn follow_one(
    config: &Config,
    output: &Path,
    limit: Duration,
    sink: &mut dyn Write,
) -> Result<bool> {
    fs::write(output, "")?;
    fs::write(&config.log, "")?;
    let mut child = config
        .command()
        .args(["-display", "none", "-monitor", "none"])
        .stdin(Stdio::null())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    let mut seen = fs::File::open(output)?;
    let (mut since, mut has_started) = (Instant::now(), false);
    while child.try_wait()?.is_none() {
        if !has_started && has_reached_script(&config.log)? {
            (since, has_started) = (Instant::now(), true);
        }
        if since.elapsed() > if has_started { limit } else { BOOT_LIMIT } {
            child.kill()?;
            let mut log = fs::OpenOptions::new().append(true).open(&config.log)?;
            writeln!(log, "x: stopped after {} s", since.elapsed().as_secs())?;
            break;
        }
        std::thread::sleep(LOOK);
        io::copy(&mut seen, sink)?;
    }
    child.wait()?;
    io::copy(&mut seen, sink)?;
    has_reached_script(&config.log)
}

fn has_reached_script(log: &Path) -> Result<bool> {
    Ok(String::from_utf8_lossy(&fs::read(log)?).contains(REACHED))
}

/// The initramfs writes it to the log before it starts the script.
const REACHED: &str = "skerry: the script starts";

/// Kernel parameters with which Linux is fastest. Without `no_timer_check` a boot ends with a panic if the host gives QEMU no
/// time during Linux's test of the timer, which Linux leaves out on other hypervisors.
pub const PARAMETERS: &str =
    "console=ttyS0 mitigations=off init_on_alloc=0 tsc=reliable no_timer_check quiet panic=-1";
