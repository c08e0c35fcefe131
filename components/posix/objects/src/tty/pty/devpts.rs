//! devpts: the file system of ptys. Opening `ptmx` makes a pair, `N` is slave N while its master is
//! open.
//!
//! Every mount is an instance of its own with its own numbers, as on Linux. `/dev/ptmx` makes pairs in
//! the instance mounted on `pts` beside it ([`Multiplexer`]). Locks: `devpts.slaves` is a leaf.
use super::{Master, Pair};
use crate::tty::{Claim, Terminal, TerminalDevice};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::{Arc, Weak},
};
use interfaces::{
    file_system::{Attributes, DirectoryEntry, FileType, TakeEntry},
    monitor::ObjectAccess,
};
use process::Task;
use rt::{
    lock_class,
    sync::{Mutex, StaticRef},
};
use vfs::{
    Active, Base, Caller, Errno, Namespace, Path, Principal, Vnode, Walk,
    digits::Digits,
    file::{File, Opener, Places},
    generated::{Child, Node, Viewer, attributes},
    security::{self, Label, Level},
};

lock_class! {
    static SLAVES = "devpts.slaves";
    static ATTRIBUTES = "devpts.attributes";
}

/// Name of the file system type.
pub const TYPE_NAME: &str = "devpts";

/// A new mount of devpts.
///
/// # Errors
/// `EINVAL` for a wrong option, `ENOMEM`.
pub fn mount(options: &[u8]) -> Result<Arc<Active>, Errno> {
    let root = Instance::new(options)?;
    let shown = root.options_text();
    let active = Active::generated(TYPE_NAME, root)?;
    active.instance().set_options(shown);
    Ok(active)
}
/// Device number of `ptmx`.
pub const MULTIPLEXER: (u32, u32) = (5, 2);
/// Major number of slaves; the minor is the slave's number.
pub const SLAVE_MAJOR: u32 = 136;
const ROOT_INODE: u64 = 1;
const MULTIPLEXER_INODE: u64 = 2;
const SLAVE_INODE: u64 = 3;
const MULTIPLEXER_NAME: &[u8] = b"ptmx";
/// The greatest number of pairs of an instance (Linux's `kernel.pty.max`).
const SLAVES_MAX: u32 = 4096;
/// Minor numbers of devices have 20 bits.
const MINORS: u32 = 1 << 20;

/// The mount options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DevptsOptions {
    user: Option<u32>,
    group: Option<u32>,
    mode: u16,
    multiplexer_mode: u16,
    slaves_max: u32,
}

impl DevptsOptions {
    /// Parses mount(2)'s data.
    fn decode(text: &[u8]) -> Result<DevptsOptions, Errno> {
        let mut options = DevptsOptions {
            user: None,
            group: None,
            mode: 0o600,
            multiplexer_mode: 0,
            slaves_max: SLAVES_MAX,
        };
        let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let decimal = || value.parse::<u32>().map_err(|_| Errno::EINVAL);
            let octal = || {
                let mode = u16::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)?;
                Ok::<u16, Errno>(mode & 0o7777)
            };
            match name {
                "uid" => options.user = Some(decimal()?),
                "gid" => options.group = Some(decimal()?),
                "mode" => options.mode = octal()?,
                "ptmxmode" => options.multiplexer_mode = octal()?,
                "max" => {
                    options.slaves_max =
                        decimal().ok().filter(|max| *max <= SLAVES_MAX).ok_or(Errno::EINVAL)?;
                }
                "newinstance" => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(options)
    }
}

/// The entry of a slave.
struct Slave {
    pair: Arc<Pair>,
    terminal: Arc<Terminal>,
    /// The label of a terminal that its maker's subject made.
    label: Option<Arc<StaticRef<Label>>>,
    attributes: Mutex<Attributes>,
}

/// A devpts; the root of its tree.
pub struct Instance {
    this: Weak<Instance>,
    options: DevptsOptions,
    slaves: Mutex<Slaves>,
    multiplexer: Mutex<Attributes>,
}

#[derive(Default)]
struct Slaves {
    named: BTreeMap<u32, Arc<Slave>>,
    used: BTreeSet<u32>,
}

impl Instance {
    /// Makes an instance with mount options `options`.
    ///
    /// # Errors
    /// `EINVAL` for unknown options.
    pub fn new(options: &[u8]) -> Result<Arc<Instance>, Errno> {
        let options = DevptsOptions::decode(options)?;
        let multiplexer = Attributes {
            device: MULTIPLEXER,
            ..attributes(MULTIPLEXER_INODE, FileType::Character, options.multiplexer_mode, (0, 0))
        };
        Ok(Arc::new_cyclic(|this| Instance {
            this: this.clone(),
            options,
            slaves: Mutex::new(&SLAVES, Slaves::default()),
            multiplexer: Mutex::new(&ATTRIBUTES, multiplexer),
        }))
    }
    /// Returns its options for `/proc/mounts`, in Linux's format.
    pub fn options_text(&self) -> String {
        let options = &self.options;
        let mut text = String::new();
        for (name, id) in [("uid", options.user), ("gid", options.group)] {
            if let Some(id) = id {
                text.push_str(&format!(",{name}={id}"));
            }
        }
        text.push_str(&format!(
            ",mode={:03o},ptmxmode={:03o}",
            options.mode, options.multiplexer_mode
        ));
        if options.slaves_max < SLAVES_MAX {
            text.push_str(&format!(",max={}", options.slaves_max));
        }
        text
    }
    /// Makes a pair; its slave is owned by `maker` and locked.
    fn make_pair(&self, maker: &dyn Principal) -> Result<Master, Errno> {
        let instance = self.this.upgrade().ok_or(Errno::ENODEV)?;
        let who = Task::of(maker).map(Task::credentials);
        let level = who.as_ref().map(|who| who.subject.level());
        let index = self.allocate(level)?;
        let pair = Pair::new(index, &instance);
        let terminal = Terminal::over(pair.clone(), (SLAVE_MAJOR, index));
        let (user, group) = who.as_ref().map_or((0, 0), |who| (who.user.fs, who.group.fs));
        let owner = (self.options.user.unwrap_or(user), self.options.group.unwrap_or(group));
        let inode = SLAVE_INODE + u64::from(index);
        let attributes = Attributes {
            device: (SLAVE_MAJOR, index),
            ..attributes(inode, FileType::Character, self.options.mode, owner)
        };
        let maker = who.as_ref().filter(|_| security::is_enforced());
        let label = maker.map(|who| Arc::new(StaticRef::new(who.subject.anonymous())));
        if let Some(label) = &label {
            terminal.note_device(TerminalDevice::Pseudo(label.clone()));
        }
        let slave = Slave {
            pair: pair.clone(),
            terminal: terminal.clone(),
            label,
            attributes: Mutex::new(&ATTRIBUTES, attributes),
        };
        self.slaves.lock().named.insert(index, Arc::new(slave));
        Ok(Master::new(pair, terminal, instance))
    }
    /// Takes the lowest free number of those that belong to a level; each may have as many as there may be in all on Linux.
    fn allocate(&self, level: Option<&Level>) -> Result<u32, Errno> {
        let own = level.map_or(0..MINORS, |level| level.part(0..MINORS));
        let mut slaves = self.slaves.lock();
        let free =
            own.take(self.options.slaves_max as usize).find(|index| !slaves.used.contains(index));
        let index = free.ok_or(Errno::ENOSPC)?;
        slaves.used.insert(index);
        Ok(index)
    }
    /// Removes the name of slave `index`; its number stays in use.
    pub(super) fn remove(&self, index: u32) {
        let slave = self.slaves.lock().named.remove(&index);
        drop(slave);
    }
    /// Frees the number `index`.
    pub(super) fn free(&self, index: u32) {
        self.slaves.lock().used.remove(&index);
    }
    fn slave(&self, index: u32) -> Option<Arc<Slave>> {
        self.slaves.lock().named.get(&index).cloned()
    }
    /// Returns the place at which it is mounted in `namespace`.
    pub(super) fn place(&self, namespace: &Namespace) -> Option<Path> {
        let is_here = |node: &Arc<dyn Node>| core::ptr::addr_eq(Arc::as_ptr(node), self);
        let mounts = namespace.mounts();
        let mount =
            mounts.into_iter().find(|mount| mount.root().vnode().node().is_some_and(is_here))?;
        Some(Path { dentry: mount.root().clone(), mount })
    }
}

fn parse_index(name: &[u8]) -> Option<u32> {
    let is_plain = name == b"0" || name.first() != Some(&b'0');
    let is_number = is_plain && name.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(name).ok().filter(|_| is_number)?.parse().ok()
}

impl Node for Instance {
    fn attributes(&self) -> Attributes {
        attributes(ROOT_INODE, FileType::Directory, 0o755, (0, 0))
    }
    fn places(&self) -> Places {
        Places::Endless
    }
    /// The slaves that the viewer may not read have no names for it.
    fn lookup(&self, name: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        if name == MULTIPLEXER_NAME {
            return Ok(Arc::new(MultiplexerNode(self.this.upgrade().ok_or(Errno::ENOENT)?)));
        }
        let slave = parse_index(name).and_then(|index| self.slave(index));
        let slave = slave.filter(|slave| slave.exists_for(viewer.task));
        Ok(slave.ok_or(Errno::ENOENT)?)
    }
    fn entries(
        &self,
        position: u64,
        viewer: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let file_type = Some(FileType::Character);
        let mut take_it =
            |inode, name: &[u8]| take(&DirectoryEntry { inode, file_type, name, next: inode });
        if position < MULTIPLEXER_INODE && take_it(MULTIPLEXER_INODE, MULTIPLEXER_NAME).is_break() {
            return Ok(());
        }
        let slaves = self.slaves.lock();
        let shown = slaves.named.iter().filter(|(_, slave)| slave.exists_for(viewer));
        let inodes = shown.map(|(index, _)| SLAVE_INODE + u64::from(*index));
        let _ = inodes
            .filter(|inode| *inode > position)
            .try_for_each(|inode| take_it(inode, Digits::decimal(inode - SLAVE_INODE).bytes()));
        Ok(())
    }
}

impl Slave {
    /// Returns whether it exists for a caller: the caller may read it.
    fn exists_for(&self, viewer: &dyn Principal) -> bool {
        let Some((task, label)) = Task::of(viewer).zip(self.label()) else { return true };
        security::check(&task.credentials().subject, label, ObjectAccess::Read).is_ok()
    }
}

impl Node for Slave {
    fn label(&self) -> Option<&'static Label> {
        Some(self.label.as_ref()?.get())
    }
    fn label_place(&self) -> Option<&StaticRef<Label>> {
        self.label.as_deref()
    }
    fn attributes(&self) -> Attributes {
        *self.attributes.lock()
    }
    fn open(&self, flags: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        if self.pair.state.lock().is_locked {
            return Err(Errno::EIO);
        }
        Ok(Some(Arc::new(self.terminal.open(flags, Claim::IfFree, opener)?)))
    }
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        *self.attributes.lock() = *wanted;
        Ok(())
    }
}

/// The node `ptmx` of an instance.
struct MultiplexerNode(Arc<Instance>);

impl Node for MultiplexerNode {
    fn attributes(&self) -> Attributes {
        *self.0.multiplexer.lock()
    }
    fn open(&self, _: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(Some(Arc::new(self.0.make_pair(opener)?)))
    }
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        *self.0.multiplexer.lock() = *wanted;
        Ok(())
    }
}

/// The opener of a `ptmx` outside devpts: it opens the `ptmx` of the devpts mounted on `pts` beside
/// it.
pub struct Multiplexer;

impl Opener for Multiplexer {
    fn open(&self, _: &Arc<Vnode>, _: u32, _: &Caller<'_>) -> Result<Arc<dyn File>, Errno> {
        Err(Errno::ENODEV)
    }
    fn open_at(
        &self,
        place: &Path,
        flags: u32,
        caller: &Caller<'_>,
    ) -> Result<Arc<dyn File>, Errno> {
        let parent = place.parent().ok_or(Errno::ENODEV)?;
        let pts =
            caller.walk(Base::At(&parent), b"pts", Walk::FOLLOW).map_err(|_| Errno::ENODEV)?;
        let is_devpts = pts.mount.instance().info().type_name == TYPE_NAME;
        let node = pts.vnode().node().filter(|_| is_devpts).ok_or(Errno::ENODEV)?;
        let file = node.lookup(MULTIPLEXER_NAME, &caller.viewer())?.open(flags, caller.task)?;
        file.ok_or(Errno::ENODEV)
    }
}

/// The opener of nodes with a slave's device number outside devpts: they have no slave.
pub struct Strayed;

impl Opener for Strayed {
    fn open(&self, _: &Arc<Vnode>, _: u32, _: &Caller<'_>) -> Result<Arc<dyn File>, Errno> {
        Err(Errno::EIO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_options_are_those_of_linux_and_others_are_refused() {
        let options = DevptsOptions::decode(b"newinstance,gid=5,mode=620,ptmxmode=0666").unwrap();
        assert_eq!((options.user, options.group), (None, Some(5)));
        assert_eq!((options.mode, options.multiplexer_mode), (0o620, 0o666));
        for wrong in [&b"mode=9"[..], b"gid=x", b"size=3", b"max=99999"] {
            assert_eq!(DevptsOptions::decode(wrong), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn slaves_are_named_by_plain_numbers() {
        assert_eq!(parse_index(b"0"), Some(0));
        assert_eq!(parse_index(b"17"), Some(17));
        for wrong in [&b"00"[..], b"01", b"", b"x", b"-1"] {
            assert_eq!(parse_index(wrong), None);
        }
    }
}
