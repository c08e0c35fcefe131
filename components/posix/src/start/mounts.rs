//! The first mounts: the root from a disk, tmpfs over directories that programs write to, `/dev`,
//! `/proc`.
use super::Boot;
use alloc::{format, string::String, sync::Arc, vec::Vec};
use interfaces::file_system::FileType;
use objects::{
    devices::{self, DiskDevice},
    file_systems::{self, Diskless, Writes},
    ipc::queue,
    tty::{Terminal, pty::devpts},
};
use proc::{procfs, selinuxfs, sysfs};
use process::HOST;
use vfs::{
    Base, Caller, Credentials, Errno, MountFlags, NOBODY, Namespace, Path, Walk, devices::Registry,
    security,
};

/// The directories that get a tmpfs if the root has them: place, mode.
const SCRATCH: [(&str, &str); 2] = [("/tmp", "mode=1777"), ("/run", "mode=755")];
/// More such directories if the root is read-only.
const SCRATCH_READ_ONLY: [(&str, &str); 1] = [("/var", "mode=755")];
/// The directory of shm_open(3).
const SHARED_MEMORY: &str = "/dev/shm";
/// File systems without disks, in Linux's order; the last one needs a monitor.
const DISKLESS: &[Diskless] = &[
    ("sysfs", sysfs::mount),
    ("tmpfs", file_systems::tmpfs),
    ("proc", procfs::mount),
    ("devtmpfs", file_systems::devtmpfs),
    (devpts::TYPE_NAME, devpts::mount),
    (queue::directory::TYPE_NAME, queue::directory::activate),
    (selinuxfs::TYPE_NAME, selinuxfs::mount),
];
/// Directories made in that `/var`.
const VAR: [&str; 4] = ["/var/log", "/var/tmp", "/var/run", "/var/cache"];

/// Mounts everything; returns the namespace of the first process.
///
/// # Errors
/// The reason why the root was not mounted, in words. The other mounts are named in the log if they fail.
pub fn mount_all(boot: &Boot, terminals: &[Arc<Terminal>]) -> Result<Arc<Namespace>, String> {
    let registry = Arc::new(Registry::new());
    let mut disks = devices::find_all(&boot.disks);
    objects::audit_log::start(boot.audit_log.clone(), &mut disks, terminals.first());
    devices::register(&registry, terminals, &disks);
    let without_monitor = DISKLESS.split_last().map_or(DISKLESS, |(_, others)| others);
    let diskless = if security::monitor().is_some() { DISKLESS } else { without_monitor };
    file_systems::announce(&disks, diskless, &boot.file_systems);
    let (writes, flags) = match rt::system::parameter("ro") {
        Some(_) => (Writes::Never, MountFlags::READ_ONLY),
        None => (Writes::Possible, MountFlags::empty()),
    };
    let wanted = rt::system::parameter("root").map(|name| name.trim_start_matches("/dev/"));
    let (source, active) = file_systems::activate_root(wanted, writes)?;
    let is_read_only = active.instance().is_read_only();
    let namespace = Namespace::new(HOST, &source, active, flags, registry);
    let (who, root) = (Credentials::root(), namespace.root());
    let caller = kernel_caller(&namespace, &who, &root);
    let plain = MountFlags::empty();
    // Programs need a place for their files even if the root cannot be written.
    let scratch = SCRATCH.iter().chain(SCRATCH_READ_ONLY.iter().filter(|_| is_read_only));
    for &(place, options) in scratch {
        report(place, mount(&caller, "tmpfs", options, place, plain));
    }
    for directory in VAR.iter().filter(|_| is_read_only) {
        report(directory, caller.make_directory(Base::Cwd, directory.as_bytes(), 0o755));
    }
    report("/proc", mount(&caller, "proc", "", "/proc", plain));
    // Not every root has this directory.
    let _ = mount(&caller, "sysfs", "", "/sys", plain);
    if security::monitor().is_some() {
        report(
            "/sys/fs/selinux",
            mount(&caller, selinuxfs::TYPE_NAME, "", "/sys/fs/selinux", plain),
        );
    }
    let nodes = nodes(terminals, &disks);
    report("/dev", mount_devices(&caller, &nodes));
    report("/dev/pts", mount_pseudo_terminals(&caller));
    report("/dev/mqueue", mount_queues(&caller));
    super::security::load_policy(&caller)?;
    let directories = SCRATCH.iter().map(|(place, _)| *place).chain([SHARED_MEMORY]);
    let nodes = nodes.iter().map(|node| node.path.as_str());
    super::security::label_places(&caller, directories.chain(nodes));
    Ok(namespace.clone())
}

/// Returns the kernel as a user of files.
pub(super) fn kernel_caller<'a>(
    namespace: &'a Arc<Namespace>,
    who: &'a Credentials,
    root: &'a Path,
) -> Caller<'a> {
    let (process, thread) = (1, 1);
    let (credentials, cwd) = (who, root);
    Caller { task: NOBODY, namespace, credentials, root, cwd, umask: 0, process, thread }
}

fn report(place: &str, result: Result<(), Errno>) {
    if let Err(errno) = result {
        log::warn!("{place} is not as it should be: {errno:?}");
    }
}

/// Mounts a file system that needs no disk.
fn mount(
    caller: &Caller<'_>,
    type_name: &str,
    options: &str,
    place: &str,
    flags: MountFlags,
) -> Result<(), Errno> {
    let active = file_systems::activate(
        type_name,
        file_systems::no_disk,
        Writes::Possible,
        (options.as_bytes(), caller.credentials),
    )?;
    let at = caller.walk(Base::Cwd, place.as_bytes(), Walk::FOLLOW | Walk::DIRECTORY)?;
    caller.namespace.mount(caller.credentials, type_name, active, &at, flags)?;
    Ok(())
}

/// Mounts a devpts with Debian's options.
fn mount_pseudo_terminals(caller: &Caller<'_>) -> Result<(), Errno> {
    caller.make_directory(Base::Cwd, b"/dev/pts", 0o755)?;
    let flags = MountFlags::NO_SETUID | MountFlags::NO_EXECUTE;
    mount(caller, devpts::TYPE_NAME, "gid=5,mode=620,ptmxmode=000", "/dev/pts", flags)
}

/// Mounts the file system of message queues in Debian's place.
fn mount_queues(caller: &Caller<'_>) -> Result<(), Errno> {
    caller.make_directory(Base::Cwd, b"/dev/mqueue", 0o755)?;
    let flags = MountFlags::NO_SETUID | MountFlags::NO_DEVICES | MountFlags::NO_EXECUTE;
    mount(caller, queue::directory::TYPE_NAME, "", "/dev/mqueue", flags)
}

/// A device node.
struct DeviceNode {
    path: String,
    kind: (FileType, u16),
    number: (u32, u32),
}

/// Returns the nodes of all devices.
fn nodes(terminals: &[Arc<Terminal>], disks: &[Arc<DiskDevice>]) -> Vec<DeviceNode> {
    let node = |name: &str, kind, number| DeviceNode { path: format!("/dev/{name}"), kind, number };
    let fixed = devices::NODES.iter();
    let fixed = fixed.map(|&(name, file_type, mode, number)| node(name, (file_type, mode), number));
    let entropy = devices::hardware_random::exists()
        .then(|| node("hwrng", (FileType::Character, 0o600), devices::hardware_random::NUMBER));
    let terminals = terminals
        .iter()
        .map(|terminal| node(&terminal.name(), (FileType::Character, 0o600), terminal.number()));
    let disks = disks.iter().map(|disk| node(&disk.name, (FileType::Block, 0o600), disk.number));
    fixed.chain(entropy).chain(terminals).chain(disks).collect()
}

/// Mounts a tree with the nodes of every device.
fn mount_devices(caller: &Caller<'_>, nodes: &[DeviceNode]) -> Result<(), Errno> {
    mount(caller, "devtmpfs", "", "/dev", MountFlags::empty())?;
    caller.make_directory(Base::Cwd, b"/dev/net", 0o755)?;
    for node in nodes {
        caller.make_node(Base::Cwd, node.path.as_bytes(), node.kind, node.number)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        caller.make_link(target.as_bytes(), Base::Cwd, format!("/dev/{name}").as_bytes())?;
    }
    caller.make_directory(Base::Cwd, SHARED_MEMORY.as_bytes(), 0o1777)
}
