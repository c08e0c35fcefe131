//! The first mounts: the root from a disk, tmpfs over directories that programs write to, `/dev`,
//! `/proc`.
use super::Boot;
use alloc::{format, string::String, sync::Arc};
use interfaces::file_system::FileType;
use objects::{
    devices::{self, DiskDevice},
    file_systems::{self, Diskless, Writes},
    ipc::queue,
    tty::{Terminal, pty::devpts},
};
use proc::{procfs, sysfs};
use process::HOST;
use vfs::{
    Base, Caller, Credentials, Errno, MountFlags, NOBODY, Namespace, Walk, devices::Registry,
};

/// The directories that get a tmpfs if the root has them: place, mode.
const SCRATCH: [(&str, &str); 2] = [("/tmp", "mode=1777"), ("/run", "mode=755")];
/// More such directories if the root is read-only.
const SCRATCH_READ_ONLY: [(&str, &str); 1] = [("/var", "mode=755")];
/// File systems without disks, in Linux's order.
const DISKLESS: &[Diskless] = &[
    ("sysfs", sysfs::mount),
    ("tmpfs", file_systems::tmpfs),
    ("proc", procfs::mount),
    ("devtmpfs", file_systems::devtmpfs),
    (devpts::TYPE_NAME, devpts::mount),
    (queue::directory::TYPE_NAME, queue::directory::activate),
];
/// Directories made in that `/var`.
const VAR: [&str; 4] = ["/var/log", "/var/tmp", "/var/run", "/var/cache"];

/// Mounts everything; returns the namespace of the first process.
///
/// # Errors
/// The reason why the root was not mounted, in words. The other mounts are named in the log if they fail.
pub fn mount_all(boot: &Boot, terminals: &[Arc<Terminal>]) -> Result<Arc<Namespace>, String> {
    let registry = Arc::new(Registry::new());
    let disks = devices::find_all(&boot.disks);
    devices::register(&registry, terminals, &disks);
    file_systems::announce(&disks, DISKLESS, &boot.file_systems);
    let (writes, flags) = match rt::system::parameter("ro") {
        Some(_) => (Writes::Never, MountFlags::READ_ONLY),
        None => (Writes::Possible, MountFlags::empty()),
    };
    let wanted = rt::system::parameter("root").map(|name| name.trim_start_matches("/dev/"));
    let (source, active) = file_systems::activate_root(wanted, writes)?;
    let is_read_only = active.instance().is_read_only();
    let namespace = Namespace::new(HOST, &source, active, flags, registry);
    let who = Credentials::root();
    let root = namespace.root();
    let caller = Caller {
        task: NOBODY,
        namespace: &namespace,
        credentials: &who,
        root: &root,
        cwd: &root,
        umask: 0,
        process: 1,
        thread: 1,
    };
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
    report("/dev", mount_devices(&caller, terminals, &disks));
    report("/dev/pts", mount_pseudo_terminals(&caller));
    report("/dev/mqueue", mount_queues(&caller));
    Ok(namespace.clone())
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
        options.as_bytes(),
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

/// Mounts a tree with the nodes of every device.
fn mount_devices(
    caller: &Caller<'_>,
    terminals: &[Arc<Terminal>],
    disks: &[Arc<DiskDevice>],
) -> Result<(), Errno> {
    mount(caller, "devtmpfs", "", "/dev", MountFlags::empty())?;
    caller.make_directory(Base::Cwd, b"/dev/net", 0o755)?;
    for &(name, file_type, mode, number) in devices::NODES {
        caller.make_node(
            Base::Cwd,
            format!("/dev/{name}").as_bytes(),
            (file_type, mode),
            number,
        )?;
    }
    if devices::hardware_random::exists() {
        let kind = (FileType::Character, 0o600);
        caller.make_node(Base::Cwd, b"/dev/hwrng", kind, devices::hardware_random::NUMBER)?;
    }
    for terminal in terminals {
        let path = format!("/dev/{}", terminal.name());
        let kind = (FileType::Character, 0o600);
        caller.make_node(Base::Cwd, path.as_bytes(), kind, terminal.number())?;
    }
    for disk in disks {
        let path = format!("/dev/{}", disk.name);
        caller.make_node(Base::Cwd, path.as_bytes(), (FileType::Block, 0o600), disk.number)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        caller.make_link(target.as_bytes(), Base::Cwd, format!("/dev/{name}").as_bytes())?;
    }
    caller.make_directory(Base::Cwd, b"/dev/shm", 0o1777)
}
