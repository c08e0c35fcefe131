//! The first mounts: the root from a disk, tmpfs over what programs write to, `/dev`, `/proc`.
use super::Boot;
use crate::{
    devices::{self, Device},
    files::file_systems::{self, Writes},
    procfs, sysfs,
    tty::{Terminal, pty::devpts},
};
use alloc::{format, string::String, sync::Arc};
use interfaces::{
    block::Block,
    file_system::{FileSystem, FileType},
};
use vfs::{
    Active, Base, Caller, Credentials, Errno, MountFlags, Namespace, Walk, devices::Registry,
};

/// Where a tmpfs goes if the root has the directory: place, mode.
const SCRATCH: [(&str, &str); 2] = [("/tmp", "mode=1777"), ("/run", "mode=755")];
/// More of them where the root is read-only.
const SCRATCH_READ_ONLY: [(&str, &str); 1] = [("/var", "mode=755")];
/// Directories made in that `/var`.
const VAR: [&str; 4] = ["/var/log", "/var/tmp", "/var/run", "/var/cache"];

/// Mounts everything; returns the namespace of the first process.
///
/// # Errors
/// What kept the root from being mounted, in words. The other mounts are named in the log if they fail.
pub fn mount_all(boot: &Boot, terminals: &[Arc<Terminal>]) -> Result<Arc<Namespace>, String> {
    let registry = Arc::new(Registry::new());
    vfs::set_last_resort(crate::process::oom::relieve);
    let disks = devices::find_all(&boot.disks);
    devices::register(&registry, terminals, &disks);
    file_systems::announce(&disks, &boot.file_systems);
    let (writes, flags) = match rt::system::parameter("ro") {
        Some(_) => (Writes::Never, MountFlags::READ_ONLY),
        None => (Writes::Possible, MountFlags::empty()),
    };
    let wanted = rt::system::parameter("root").map(|name| name.trim_start_matches("/dev/"));
    let (source, active) = file_systems::activate_root(wanted, writes)?;
    let is_read_only = active.instance().is_read_only();
    let namespace = Namespace::new(&source, active, flags, registry);
    let who = Credentials::root();
    let root = namespace.root();
    let caller = Caller {
        namespace: &namespace,
        credentials: &who,
        root: &root,
        cwd: &root,
        umask: 0,
        process: 1,
        thread: 1,
    };
    // Where the root cannot be written, programs still need a place for their files.
    let scratch = SCRATCH.iter().chain(SCRATCH_READ_ONLY.iter().filter(|_| is_read_only));
    for &(place, options) in scratch {
        let made = make(boot, "tmpfs", None, options.as_bytes());
        report(place, made.and_then(|fs| mount(&caller, "tmpfs", Active::stored(fs, None), place)));
    }
    for directory in VAR.iter().filter(|_| is_read_only) {
        report(directory, caller.make_directory(Base::Cwd, directory.as_bytes(), 0o755));
    }
    report("/proc", mount(&caller, "proc", Active::generated("proc", procfs::root()), "/proc"));
    // Not every root has the directory.
    let _ = mount(&caller, "sysfs", Active::generated("sysfs", sysfs::root()), "/sys");
    report("/dev", mount_devices(boot, &caller, terminals, &disks));
    report("/dev/pts", mount_pseudo_terminals(&caller));
    Ok(namespace.clone())
}

fn report(place: &str, result: Result<(), Errno>) {
    if let Err(errno) = result {
        log::warn!("{place} is not as it should be: {errno:?}");
    }
}

fn make(
    boot: &Boot,
    name: &str,
    disk: Option<Arc<dyn Block>>,
    options: &[u8],
) -> Result<Arc<dyn FileSystem>, Errno> {
    let found = boot.file_systems.iter().find(|(known, _)| *known == name);
    let (_, make) = found.ok_or(Errno::ENODEV)?;
    make(disk, options).map_err(Errno::from)
}

fn mount(
    caller: &Caller<'_>,
    source: &str,
    active: Result<Arc<Active>, Errno>,
    place: &str,
) -> Result<(), Errno> {
    let at = caller.walk(Base::Cwd, place.as_bytes(), Walk::FOLLOW | Walk::DIRECTORY)?;
    caller.namespace.mount(caller.credentials, source, active?, &at, MountFlags::empty())?;
    Ok(())
}

/// A devpts as Debian mounts it.
fn mount_pseudo_terminals(caller: &Caller<'_>) -> Result<(), Errno> {
    caller.make_directory(Base::Cwd, b"/dev/pts", 0o755)?;
    let root = devpts::Instance::new(b"gid=5,mode=620,ptmxmode=000")?;
    let active = Active::generated(devpts::TYPE_NAME, root)?;
    let at = caller.walk(Base::Cwd, b"/dev/pts", Walk::FOLLOW | Walk::DIRECTORY)?;
    let flags = MountFlags::NO_SETUID | MountFlags::NO_EXECUTE;
    caller.namespace.mount(caller.credentials, devpts::TYPE_NAME, active, &at, flags)?;
    Ok(())
}

/// A tmpfs with the nodes of every device.
fn mount_devices(
    boot: &Boot,
    caller: &Caller<'_>,
    terminals: &[Arc<Terminal>],
    disks: &[Arc<Device>],
) -> Result<(), Errno> {
    let fs = make(boot, "tmpfs", None, b"mode=755")?;
    mount(caller, "devtmpfs", Active::stored(fs, None), "/dev")?;
    for &(name, file_type, mode, number) in devices::NODES {
        caller.make_node(
            Base::Cwd,
            format!("/dev/{name}").as_bytes(),
            (file_type, mode),
            number,
        )?;
    }
    for terminal in terminals {
        let path = format!("/dev/{}", terminal.name());
        let kind = (FileType::Character, 0o660);
        caller.make_node(Base::Cwd, path.as_bytes(), kind, terminal.number())?;
    }
    for disk in disks {
        let path = format!("/dev/{}", disk.name);
        caller.make_node(Base::Cwd, path.as_bytes(), (FileType::Block, 0o660), disk.number)?;
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
