//! The fixed part of `/proc`: tables of names, and the nodes made from them.
use super::{
    components, cpuinfo, disks,
    frames::{About, FrameWords},
    ipc,
    items::{Item, ItemTable, PERMISSIONS, parse_id},
    network, network_settings,
    process::ProcessDirectory,
    settings, sysrq, system,
};
use crate::listing;
use alloc::{format, sync::Arc, vec::Vec};
use core::ops::ControlFlow;
use interfaces::{
    file_system::{Attributes, DirectoryEntry, FileType, TakeEntry},
    monitor::Initial,
};
use memory::{
    commit::{ADMIN_RESERVE, USER_RESERVE},
    map::REGIONS_MAX,
};
use objects::{
    audit_log, inotify,
    pipe::limits::PipeLimit,
    socket::{
        common::{BACKLOG_MAX, RECEIVE_DEFAULT, RECEIVE_MAX, SEND_DEFAULT, SEND_MAX},
        local,
    },
    tty::trusted,
};
use process::{
    Process, exec, files::slots::NEW_MAX, profile, seccomp::audit, system as names, tree,
    visible::exists_for,
};
use vfs::{
    ChildCache, Errno, Principal,
    digits::{Digits, write_decimal},
    file::{File, POSITION_MAX, Places, Ready},
    generated::{self, Child, GENERATED_END, Node, Viewer, attributes},
    protection::Protection,
    security::{Label, initial, is_enforced},
};

/// Name of the link to the network files of the process that follows it, and of the directory that they are in.
const NETWORK: &str = "net";

const ROOT_INODE: u64 = 1;
/// The greatest number of names in a directory of a table.
const TABLE_MAX: u64 = 64;
const ROOT_USER: (u32, u32) = (0, 0);
const ROOT: ItemTable = &[
    ("self", Item::Link(|viewer| number_text(viewer.process.into()))),
    (
        "thread-self",
        Item::Link(|viewer| {
            let mut text = number_text(viewer.process.into());
            text.extend_from_slice(b"/task/");
            write_decimal(&mut text, viewer.thread.into());
            text
        }),
    ),
    ("mounts", Item::Link(|_| b"self/mounts".to_vec())),
    ("meminfo", Item::Graded(system::meminfo)),
    ("uptime", Item::Graded(system::uptime)),
    ("loadavg", Item::Graded(system::loadavg)),
    ("stat", Item::Graded(system::stat)),
    ("cpuinfo", Item::File(cpuinfo::cpuinfo)),
    ("version", Item::File(system::version)),
    ("filesystems", Item::File(disks::types)),
    ("diskstats", Item::OfAll(disks::statistics)),
    ("partitions", Item::File(disks::partitions)),
    ("swaps", Item::File(disks::swaps)),
    ("locks", Item::OfAll(system::file_locks)),
    ("vmstat", Item::OfAll(system::memory_events)),
    ("cmdline", Item::File(system::cmdline)),
    ("interrupts", Item::OfAll(system::interrupts)),
    ("devices", Item::File(system::devices)),
    ("driver", Item::Directory(DRIVER)),
    (NETWORK, Item::Link(|_| b"self/net".to_vec())),
    ("sys", Item::Directory(SETTINGS)),
    ("kpagecount", Item::Frames(About::Mappings)),
    ("kpageflags", Item::Frames(About::Use)),
    ("sysvipc", Item::Directory(ipc::OBJECTS)),
    ("sysrq-trigger", Item::Trigger(sysrq::trigger)),
    ("skerry", Item::Directory(SKERRY)),
];

const DRIVER: ItemTable = &[("rtc", Item::File(components::clock))];

const SETTINGS: ItemTable = &[
    ("fs", Item::Directory(FILES)),
    ("kernel", Item::Directory(KERNEL)),
    ("net", Item::Directory(NET_SETTINGS)),
    ("vm", Item::Directory(VM)),
];

const NET_SETTINGS: ItemTable = &[
    ("core", Item::Directory(NET_CORE)),
    ("ipv4", Item::Node(network_settings::version4)),
    ("ipv6", Item::Node(network_settings::version6)),
    ("unix", Item::Directory(NET_UNIX)),
];

const NET_CORE: ItemTable = &[
    ("somaxconn", Item::Number(&BACKLOG_MAX)),
    ("wmem_default", Item::Number(&SEND_DEFAULT)),
    ("wmem_max", Item::Number(&SEND_MAX)),
    ("rmem_default", Item::Number(&RECEIVE_DEFAULT)),
    ("rmem_max", Item::Number(&RECEIVE_MAX)),
];

const NET_UNIX: ItemTable = &[("max_dgram_qlen", Item::Number(&local::DATAGRAMS_MAX))];

const FILES: ItemTable = &[
    ("dir-notify-enable", Item::Writable(settings::notes, settings::set_notes)),
    ("file-max", Item::Writable(settings::file_max, settings::set_file_max)),
    ("file-nr", Item::Graded(settings::file_count)),
    ("nr_open", Item::Number(&NEW_MAX)),
    (
        "pipe-max-size",
        Item::Writable(
            || settings::pipe_limit(PipeLimit::Size),
            |data| settings::set_pipe_limit(PipeLimit::Size, data),
        ),
    ),
    (
        "pipe-user-pages-soft",
        Item::Writable(
            || settings::pipe_limit(PipeLimit::Soft),
            |data| settings::set_pipe_limit(PipeLimit::Soft, data),
        ),
    ),
    (
        "pipe-user-pages-hard",
        Item::Writable(
            || settings::pipe_limit(PipeLimit::Hard),
            |data| settings::set_pipe_limit(PipeLimit::Hard, data),
        ),
    ),
    ("overflowuid", Item::Number(&settings::OVERFLOW[0])),
    ("overflowgid", Item::Number(&settings::OVERFLOW[1])),
    (
        "protected_symlinks",
        Item::Writable(
            || system::protection(Protection::Symlinks),
            |data| system::set_protection(Protection::Symlinks, data),
        ),
    ),
    (
        "protected_hardlinks",
        Item::Writable(
            || system::protection(Protection::Hardlinks),
            |data| system::set_protection(Protection::Hardlinks, data),
        ),
    ),
    (
        "protected_fifos",
        Item::Writable(
            || system::protection(Protection::Fifos),
            |data| system::set_protection(Protection::Fifos, data),
        ),
    ),
    (
        "protected_regular",
        Item::Writable(
            || system::protection(Protection::Regular),
            |data| system::set_protection(Protection::Regular, data),
        ),
    ),
    ("inotify", Item::Directory(INOTIFY)),
    ("mqueue", Item::Directory(ipc::POSIX_QUEUES)),
];

const INOTIFY: ItemTable = &[
    ("max_queued_events", Item::Number(&inotify::EVENTS_MAX)),
    ("max_user_instances", Item::Number(&inotify::INSTANCES_MAX)),
    ("max_user_watches", Item::Number(&inotify::WATCHES_MAX)),
];

const KERNEL: ItemTable = &[
    ("hostname", Item::Name(system::host_name, system::set_host_name, names::host_changes)),
    ("domainname", Item::Name(system::domain_name, system::set_domain_name, names::domain_changes)),
    ("ostype", Item::File(|| b"Linux\n".to_vec())),
    ("osrelease", Item::File(|| format!("{}\n", process::system::RELEASE).into_bytes())),
    ("version", Item::File(|| format!("{}\n", process::system::VERSION).into_bytes())),
    ("pid_max", Item::Number(&tree::ID_MAX)),
    ("ns_last_pid", Item::Open(settings::last_id, settings::set_last_id)),
    (
        "threads-max",
        Item::Writable(|| settings::number(tree::tasks_max()), |data| tree::TASKS_MAX.set(data)),
    ),
    ("ngroups_max", Item::File(|| b"65536\n".to_vec())),
    ("cap_last_cap", Item::File(|| b"40\n".to_vec())),
    ("ctrl-alt-del", Item::Writable(settings::restart_keys, settings::set_restart_keys)),
    ("dmesg_restrict", Item::Writable(settings::log_secrecy, settings::set_log_secrecy)),
    ("overflowuid", Item::Number(&settings::OVERFLOW[2])),
    ("overflowgid", Item::Number(&settings::OVERFLOW[3])),
    ("core_pattern", Item::Writable(settings::core_pattern, settings::set_core_pattern)),
    ("core_pipe_limit", Item::Number(&settings::CORE_PIPE_LIMIT)),
    ("core_uses_pid", Item::Number(&settings::CORE_USES_ID)),
    ("printk", Item::Writable(settings::console_levels, settings::set_console_levels)),
    ("tainted", Item::Writable(settings::taints, settings::set_taints)),
    ("randomize_va_space", Item::Number(&exec::RANDOMISES)),
    ("sched_rr_timeslice_ms", Item::Writable(settings::slice, settings::set_slice)),
    ("random", Item::Directory(RANDOM)),
    ("seccomp", Item::Directory(SECCOMP)),
    ("msgmax", ipc::MESSAGE_BYTES),
    ("msgmnb", ipc::QUEUE_BYTES),
    ("msgmni", ipc::QUEUES),
    ("sem", ipc::SEMAPHORES),
    ("shmmax", ipc::SEGMENT_BYTES),
    ("shmall", ipc::SEGMENT_PAGES),
    ("shmmni", ipc::SEGMENTS),
    ("shm_rmid_forced", ipc::FORCES_REMOVAL),
];

const SECCOMP: ItemTable = &[
    ("actions_avail", Item::File(audit::available)),
    ("actions_logged", Item::Checked(audit::logged, audit::set_logged)),
];

const RANDOM: ItemTable = &[
    ("boot_id", Item::File(system::boot_id)),
    ("uuid", Item::File(system::uuid)),
    ("entropy_avail", Item::File(|| b"256\n".to_vec())),
    ("poolsize", Item::File(|| b"256\n".to_vec())),
    // As on Linux, written data is accepted and ignored.
    ("write_wakeup_threshold", Item::Writable(|| b"256\n".to_vec(), |_| Ok(()))),
    ("urandom_min_reseed_secs", Item::Writable(|| b"60\n".to_vec(), |_| Ok(()))),
];

const VM: ItemTable = &[
    ("drop_caches", Item::Trigger(settings::drop_caches)),
    ("overcommit_memory", Item::Writable(settings::overcommit, settings::set_overcommit)),
    (
        "overcommit_ratio",
        Item::Writable(settings::overcommit_ratio, settings::set_overcommit_ratio),
    ),
    ("overcommit_kbytes", Item::Writable(settings::overcommit_kib, settings::set_overcommit_kib)),
    (
        "user_reserve_kbytes",
        Item::Writable(
            || settings::number(USER_RESERVE.kib()),
            |data| settings::parsed(data).map(|kib| USER_RESERVE.set_kib(kib)),
        ),
    ),
    (
        "admin_reserve_kbytes",
        Item::Writable(
            || settings::number(ADMIN_RESERVE.kib()),
            |data| settings::parsed(data).map(|kib| ADMIN_RESERVE.set_kib(kib)),
        ),
    ),
    ("max_map_count", Item::Number(&REGIONS_MAX)),
    ("mmap_min_addr", Item::Checked(settings::lowest, settings::set_lowest)),
];

const SKERRY: ItemTable = &[
    ("audit", Item::Guarded(audit_log::status, audit_log::obey)),
    ("audit_records", Item::Records),
    ("objects", Item::OfAll(system::objects)),
    ("processors", Item::OfAll(system::processors)),
    ("pages", Item::OfAll(system::pages)),
    ("locks", Item::OfAll(system::locks)),
    ("profile", Item::Private(profile::contents, profile::set_rate)),
    ("components", Item::OfAll(components::components)),
    ("isolated", Item::OfAll(components::isolated)),
    ("control", Item::Trigger(components::control)),
    ("net", Item::Graded(network::report)),
    ("trusted", Item::Open(trusted::facts, trusted::order)),
];

/// A node of the fixed part.
struct Fixed {
    inode: u64,
    item: Item,
}

fn file_type(item: &Item) -> (FileType, u16) {
    match item {
        Item::File(_) | Item::Graded(_) | Item::OfAll(_) => (FileType::Regular, 0o444),
        Item::Writable(..) | Item::Checked(..) | Item::Name(..) | Item::Number(_) => {
            (FileType::Regular, 0o644)
        }
        Item::Open(..) | Item::Guarded(..) => (FileType::Regular, 0o666),
        Item::Records => (FileType::Regular, 0o444),
        Item::Frames(_) => (FileType::Regular, 0o400),
        Item::Private(..) => (FileType::Regular, 0o600),
        Item::Trigger(_) => (FileType::Regular, 0o200),
        Item::Directory(_) | Item::Node(_) => (FileType::Directory, 0o555),
        Item::Link(_) => (FileType::Symlink, 0o777),
    }
}

/// Returns whether the inode number is that of `/proc/sys` or of a file below it.
fn is_setting(inode: u64) -> bool {
    let mut at = inode;
    loop {
        let (parent, index) = ((at - 1) / TABLE_MAX, (at - 1) % TABLE_MAX);
        if parent <= ROOT_INODE {
            return ROOT.get(index as usize).is_some_and(|(name, _)| *name == "sys");
        }
        at = parent;
    }
}

/// Returns the inode of [`network_directory`]. The link `/proc/net` has no entries, so the number of its first one is free.
pub fn network_inode() -> u64 {
    let index = ROOT.iter().position(|(name, _)| *name == NETWORK).unwrap_or(0);
    child_inode(child_inode(ROOT_INODE, index), 0)
}

/// Makes the directory `net` of processes, which is the same for all.
pub fn network_directory() -> Child {
    Arc::new(Fixed { inode: network_inode(), item: Item::Directory(network::FILES) })
}

fn child_inode(parent: u64, index: usize) -> u64 {
    parent * TABLE_MAX + index as u64 + 1
}

/// Returns the number of directories in `table`.
fn directories(table: ItemTable) -> u32 {
    table.iter().filter(|(_, item)| matches!(item, Item::Directory(_) | Item::Node(_))).count()
        as u32
}

fn find(table: ItemTable, parent: u64, name: &[u8]) -> Result<Child, Errno> {
    let index =
        table.iter().position(|(known, _)| known.as_bytes() == name).ok_or(Errno::ENOENT)?;
    let (_, item) = table.get(index).ok_or(Errno::ENOENT)?;
    let inode = child_inode(parent, index);
    Ok(match item {
        Item::Node(make) => make(inode),
        item => Arc::new(Fixed { inode, item: *item }),
    })
}

fn list(table: ItemTable, parent: u64, position: u64, take: &mut TakeEntry<'_>) -> ControlFlow<()> {
    let named = table.iter().enumerate().map(|(index, (name, item))| {
        (child_inode(parent, index), file_type(item).0, name.as_bytes())
    });
    listing::list(named, position, take)
}

impl Node for Fixed {
    fn attributes(&self) -> Attributes {
        let (file_type, permissions) = file_type(&self.item);
        let known = attributes(self.inode, file_type, permissions, ROOT_USER);
        match self.item {
            // Linux does not count the links of directories of settings.
            Item::Directory(_) if is_setting(self.inode) => Attributes { links: 1, ..known },
            Item::Directory(table) => Attributes { links: 2 + directories(table), ..known },
            _ => known,
        }
    }
    fn permissions(&self) -> u16 {
        file_type(&self.item).1
    }
    fn label(&self) -> Option<&'static Label> {
        match self.item {
            Item::OfAll(_) | Item::Frames(_) | Item::Records => initial(Initial::Unlabeled).ok(),
            _ => None,
        }
    }
    /// A setting has an end, after which it has no bytes; the text of another file is a sequence.
    fn places(&self) -> Places {
        match self.item {
            Item::Directory(_) => Places::UpTo(GENERATED_END),
            _ if is_setting(self.inode) => Places::UpTo(POSITION_MAX),
            _ => Places::Endless,
        }
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        match self.item {
            Item::Directory(table) => find(table, self.inode, name),
            _ => Err(Errno::ENOTDIR),
        }
    }
    fn keeps(&self, _: &[u8]) -> bool {
        true
    }
    fn entries(
        &self,
        position: u64,
        _: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let Item::Directory(table) = self.item else { return Err(Errno::ENOTDIR) };
        let _ = list(table, self.inode, position, take);
        Ok(())
    }
    fn read_link(&self, viewer: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        match self.item {
            Item::Link(text) => Ok(text(viewer)),
            _ => Err(Errno::EINVAL),
        }
    }
    fn generate(&self, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
        match self.item {
            Item::Graded(content) | Item::Open(content, _) => Ok(content(reader)),
            Item::Guarded(content, _) => content(reader),
            Item::File(content)
            | Item::OfAll(content)
            | Item::Writable(content, _)
            | Item::Checked(content, _)
            | Item::Name(content, ..)
            | Item::Private(content, _) => Ok(content()),
            Item::Number(setting) => Ok(setting.text()),
            Item::Trigger(_) => Err(Errno::EIO),
            _ => Err(Errno::EINVAL),
        }
    }
    fn write(&self, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        match self.item {
            Item::Writable(_, write)
            | Item::Name(_, write, _)
            | Item::Private(_, write)
            | Item::Trigger(write) => write(data),
            Item::Checked(_, write) | Item::Open(_, write) | Item::Guarded(_, write) => {
                write(data, writer)
            }
            Item::Number(setting) => setting.set(data),
            _ => Err(Errno::EIO),
        }
    }
    /// Data written at an offset after a number's start is ignored, and so is empty data (`sysctl_writes_strict`).
    fn write_at(&self, offset: u64, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        match self.item {
            Item::Number(_) | Item::Open(..) if offset > 0 || data.is_empty() => Ok(()),
            _ => self.write(data, writer),
        }
    }
    fn open(&self, _: u32, _: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        match self.item {
            Item::Frames(about) => Ok(Some(Arc::new(FrameWords(about)))),
            Item::Records => Ok(Some(Arc::new(audit_log::RecordsFile::open()))),
            Item::Name(.., changes) => {
                let node = Arc::new(Fixed { inode: self.inode, item: self.item });
                Ok(Some(generated::watched_file_of(node, changes(), Ready::ALWAYS)))
            }
            _ => Ok(None),
        }
    }
}

/// `/proc` itself: the fixed names, then the processes.
pub struct Root;

impl Node for Root {
    fn attributes(&self) -> Attributes {
        // The number of all processes would tell each level of the others.
        let processes = if is_enforced() { 0 } else { tree::read().processes().count() as u32 };
        let links = 2 + directories(ROOT) + processes;
        let known = attributes(ROOT_INODE, FileType::Directory, PERMISSIONS, ROOT_USER);
        Attributes { links, ..known }
    }
    fn permissions(&self) -> u16 {
        PERMISSIONS
    }
    fn with_cache(
        &self,
        name: &[u8],
        caller: &dyn Principal,
        act: &mut dyn FnMut(&ChildCache, u64),
    ) {
        let process = parse_id(name).and_then(tree::process);
        if let Some(process) = process.filter(|process| exists_for(process, caller)) {
            act(&process.files_about_it, 0);
        }
    }
    fn lookup(&self, name: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        let known = |process: &Process| exists_for(process, viewer.task);
        match parse_id(name) {
            // A thread's id leads to the thread, although only processes are listed.
            Some(id) => match (tree::process(id), tree::task(id)) {
                (Some(process), _) if known(&process) => {
                    Ok(Arc::new(ProcessDirectory::of_process(process)))
                }
                (None, Some(task)) if known(&task.process) => {
                    Ok(Arc::new(ProcessDirectory::of_thread(task)))
                }
                _ => Err(Errno::ENOENT),
            },
            None => find(ROOT, ROOT_INODE, name),
        }
    }
    fn keeps(&self, name: &[u8]) -> bool {
        parse_id(name).is_none()
    }
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        if list(ROOT, ROOT_INODE, position, take).is_break() {
            return Ok(());
        }
        let first = position.saturating_sub(TABLE_MAX);
        let tree = tree::read();
        let later = tree.processes().filter(|process| u64::from(process.id()) > first);
        let shown = later.filter(|process| exists_for(process, caller)).map(|process| process.id());
        let _ = shown.into_iter().try_for_each(|id| {
            take(&DirectoryEntry {
                inode: super::process::inode(id, 0, 0),
                file_type: Some(FileType::Directory),
                name: Digits::decimal(id.into()).bytes(),
                next: TABLE_MAX + u64::from(id),
            })
        });
        Ok(())
    }
}

/// Returns `number` in decimal, with room for more of a path.
pub fn number_text(number: u64) -> Vec<u8> {
    const ROOM_BYTES: usize = 32;
    let mut text = Vec::with_capacity(ROOM_BYTES);
    write_decimal(&mut text, number);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_what_lies_below_their_directory() {
        let index =
            |table: ItemTable, name: &str| table.iter().position(|(known, _)| *known == name);
        let root = child_inode(ROOT_INODE, index(ROOT, "sys").unwrap());
        let kernel = child_inode(root, index(SETTINGS, "kernel").unwrap());
        let random = child_inode(kernel, index(KERNEL, "random").unwrap());
        assert!(is_setting(root) && is_setting(kernel) && is_setting(child_inode(random, 2)));
        let driver = child_inode(ROOT_INODE, index(ROOT, "driver").unwrap());
        assert!(!is_setting(driver) && !is_setting(child_inode(driver, 0)));
    }

    #[test]
    fn tables_fit_their_inode_numbers() {
        for table in
            [ROOT, SETTINGS, FILES, INOTIFY, KERNEL, RANDOM, SECCOMP, VM, SKERRY, ipc::OBJECTS]
        {
            assert!((table.len() as u64) < TABLE_MAX);
        }
    }
}
