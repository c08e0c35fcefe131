//! The tree of `/sys`: a [`Builder`] adds files at paths, then makes the nodes.
use super::{Content, Family, NodeKind, Setter, SysfsNode, network};
use crate::procfs::parsed;
use alloc::{
    borrow::ToOwned, boxed::Box, collections::BTreeMap, format, string::String, sync::Arc,
};
use core::fmt::Display;
use interfaces::file_system::FileType;
use memory::large;
use objects::{
    devices::{DiskDevice, NODES, tunnel::MAJOR as TUNNEL_MAJOR},
    file_systems,
};
use vfs::{Errno, security};

/// A directory or file in a tree that is being built.
enum Draft {
    Directory(BTreeMap<String, Draft>),
    MountPoint,
    Family(Box<dyn Family>),
    File(Content, Option<Setter>),
    /// A file with counts of all levels together.
    OfAll(Content),
    Link(String),
}

pub(super) struct Builder {
    root: BTreeMap<String, Draft>,
    last_inode: u64,
}

impl Builder {
    /// Returns the directory at `path`, which is made if necessary.
    fn directory(&mut self, path: &str) -> Option<&mut BTreeMap<String, Draft>> {
        let mut at = &mut self.root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let made = || Draft::Directory(BTreeMap::new());
            match at.entry(name.to_owned()).or_insert_with(made) {
                Draft::Directory(below) => at = below,
                _ => return None,
            }
        }
        Some(at)
    }
    fn put(&mut self, path: &str, draft: Draft) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(names) = self.directory(directory) {
            names.insert(name.to_owned(), draft);
        }
    }
    /// Adds a file whose content is made at each read.
    pub(super) fn live(
        &mut self,
        path: &str,
        content: impl Fn() -> String + Send + Sync + 'static,
    ) {
        self.put(path, Draft::File(Box::new(content), None));
    }
    /// Adds a file with counts of all levels together, which only subjects that may read system-high objects open.
    pub(super) fn of_all(
        &mut self,
        path: &str,
        content: impl Fn() -> String + Send + Sync + 'static,
    ) {
        self.put(path, Draft::OfAll(Box::new(content)));
    }
    /// Adds a file that can be written.
    pub(super) fn setting(
        &mut self,
        path: &str,
        content: impl Fn() -> String + Send + Sync + 'static,
        set: impl Fn(&[u8]) -> Result<(), Errno> + Send + Sync + 'static,
    ) {
        self.put(path, Draft::File(Box::new(content), Some(Box::new(set))));
    }
    /// Adds a file with one line that never changes.
    fn line(&mut self, path: &str, value: impl Display) {
        let text = format!("{value}\n");
        self.live(path, move || text.clone());
    }
    pub(super) fn link(&mut self, path: &str, target: String) {
        self.put(path, Draft::Link(target));
    }
    /// Adds a directory whose members come and go.
    pub(super) fn family(&mut self, path: &str, family: impl Family + 'static) {
        self.put(path, Draft::Family(Box::new(family)));
    }
    /// Returns a builder of a tree of its own, whose inodes follow `inode`.
    pub(super) fn beside(inode: u64) -> Builder {
        Builder { root: BTreeMap::new(), last_inode: inode }
    }
    /// Ends a tree of its own.
    pub(super) fn into_node(mut self) -> Arc<SysfsNode> {
        let root = core::mem::take(&mut self.root);
        self.finish(Draft::Directory(root))
    }
    fn finish(&mut self, draft: Draft) -> Arc<SysfsNode> {
        self.last_inode += 1;
        let inode = self.last_inode;
        let kind = match draft {
            Draft::Directory(names) => NodeKind::Directory(
                names.into_iter().map(|(name, draft)| (name, self.finish(draft))).collect(),
            ),
            Draft::MountPoint => NodeKind::MountPoint,
            Draft::Family(family) => NodeKind::Family(family),
            Draft::File(content, set) => NodeKind::File(content, set),
            Draft::OfAll(content) => NodeKind::OfAll(content),
            Draft::Link(target) => NodeKind::Link(target),
        };
        Arc::new(SysfsNode { inode, kind })
    }
}

/// Directories that exist although they are empty.
const EMPTY: [&str; 7] =
    ["block", "bus", "firmware", "fs/cgroup", "kernel/debug", "module", "power"];

/// Builds the whole tree.
pub(super) fn build() -> Arc<SysfsNode> {
    let mut builder = Builder::beside(0);
    for path in EMPTY {
        builder.directory(path);
    }
    processors(&mut builder);
    kernel(&mut builder);
    let devices = file_systems::devices();
    for device in devices {
        disk(&mut builder, device, devices);
    }
    for (name, file_type, _, number) in NODES {
        if *file_type == FileType::Character {
            let class = match number.0 {
                1 => "mem",
                TUNNEL_MAJOR => "misc",
                _ => "tty",
            };
            character(&mut builder, class, name, *number);
        }
    }
    network::interfaces(&mut builder);
    for file_system in file_systems::types() {
        if !file_system.1 {
            builder.directory(&format!("fs/{}", file_system.0));
        }
    }
    if security::monitor().is_some() {
        builder.put("fs/selinux", Draft::MountPoint);
    }
    builder.into_node()
}

fn processors(builder: &mut Builder) {
    const SYSTEM: &str = "devices/system/cpu";
    let count = rt::thread::processors().0.max(1);
    let list = if count == 1 { "0".to_owned() } else { format!("0-{}", count - 1) };
    for name in ["online", "possible", "present"] {
        builder.line(&format!("{SYSTEM}/{name}"), &list);
    }
    builder.line(&format!("{SYSTEM}/offline"), "");
    builder.line(&format!("{SYSTEM}/isolated"), "");
    builder.line(&format!("{SYSTEM}/kernel_max"), 63);
    for processor in 0..count {
        let at = format!("{SYSTEM}/cpu{processor}");
        builder.line(&format!("{at}/topology/core_id"), processor);
        builder.line(&format!("{at}/topology/physical_package_id"), 0);
        for name in ["thread_siblings", "core_cpus"] {
            builder.line(&format!("{at}/topology/{name}"), mask(processor..processor + 1));
            builder.line(&format!("{at}/topology/{name}_list"), processor);
        }
        for name in ["core_siblings", "package_cpus"] {
            builder.line(&format!("{at}/topology/{name}"), mask(0..count));
            builder.line(&format!("{at}/topology/{name}_list"), &list);
        }
        if processor > 0 {
            builder.line(&format!("{at}/online"), 1);
        }
    }
    builder.line("devices/system/node/online", 0);
}

/// Returns a bit mask of processors, in words of 32 bits.
fn mask(processors: core::ops::Range<usize>) -> String {
    let bits = processors.fold(0u64, |bits, at| bits | 1u64.checked_shl(at as u32).unwrap_or(0));
    match bits >> 32 {
        0 => format!("{bits:x}"),
        high => format!("{high:x},{:08x}", bits as u32),
    }
}

fn kernel(builder: &mut Builder) {
    builder.line("kernel/address_bits", 64);
    builder.line("kernel/cpu_byteorder", "little");
    builder.line("kernel/fscaps", 0);
    builder.line("kernel/uevent_seqnum", 0);
    let place = "kernel/mm/transparent_hugepage";
    builder.setting(&format!("{place}/enabled"), large::policy_text, large::set_policy);
    builder.line(&format!("{place}/hpage_pmd_size"), rt::user::LARGE_BYTES);
}

/// Adds a disk, or a partition within its disk.
fn disk(builder: &mut Builder, device: &Arc<DiskDevice>, all: &[Arc<DiskDevice>]) {
    let is_whole = |other: &&Arc<DiskDevice>| {
        other.number.0 == device.number.0
            && other.number.1 < device.number.1
            && device.name.starts_with(&other.name)
    };
    let whole = all.iter().find(is_whole);
    let place = match whole {
        Some(whole) => format!("devices/virtual/block/{}/{}", whole.name, device.name),
        None => format!("devices/virtual/block/{}", device.name),
    };
    let (major, minor) = device.number;
    let info = device.block.info();
    let kind = if whole.is_some() { "partition" } else { "disk" };
    builder.line(&format!("{place}/dev"), format!("{major}:{minor}"));
    builder.line(&format!("{place}/size"), info.sectors);
    let shown = device.clone();
    builder.live(&format!("{place}/ro"), move || format!("{}\n", u8::from(shown.is_read_only())));
    builder.live(&format!("{place}/uevent"), {
        let name = device.name.clone();
        move || format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE={kind}\n")
    });
    let statistics = device.statistics.clone();
    builder.of_all(&format!("{place}/stat"), move || format!("{}\n", statistics.columns()));
    match whole {
        Some(whole) => builder.line(&format!("{place}/partition"), minor - whole.number.1),
        None => {
            builder.line(&format!("{place}/removable"), 0);
            for name in ["logical_block_size", "hw_sector_size", "physical_block_size"] {
                builder.line(&format!("{place}/queue/{name}"), info.block_bytes);
            }
            builder.line(&format!("{place}/queue/rotational"), 0);
            read_ahead(builder, &format!("{place}/queue/read_ahead_kb"), device);
            backing(builder, device);
            builder.link(&format!("block/{}", device.name), format!("../{place}"));
        }
    }
    builder.link(&format!("{place}/subsystem"), up(&place, "class/block"));
    builder.link(&format!("class/block/{}", device.name), format!("../../{place}"));
    builder.link(&format!("dev/block/{major}:{minor}"), format!("../../{place}"));
}

/// Adds the setting of a disk's read-ahead, in KiB.
fn read_ahead(builder: &mut Builder, path: &str, device: &Arc<DiskDevice>) {
    const SECTORS_A_KIB: u64 = 2;
    let (shown, set) = (device.clone(), device.clone());
    builder.setting(
        path,
        move || format!("{}\n", shown.read_ahead_sectors() / SECTORS_A_KIB),
        move |data| {
            let kib: u32 = parsed(data)?;
            set.set_read_ahead(u64::from(kib) * SECTORS_A_KIB);
            Ok(())
        },
    );
}

/// Adds the device that represents the cached pages of a disk, by its number.
fn backing(builder: &mut Builder, device: &Arc<DiskDevice>) {
    let (major, minor) = device.number;
    let place = format!("devices/virtual/bdi/{major}:{minor}");
    read_ahead(builder, &format!("{place}/read_ahead_kb"), device);
    for (name, value) in [("min_ratio", 0), ("max_ratio", 100), ("stable_pages_required", 0)] {
        builder.line(&format!("{place}/{name}"), value);
    }
    builder.live(&format!("{place}/uevent"), String::new);
    builder.link(&format!("{place}/subsystem"), up(&place, "class/bdi"));
    builder.link(&format!("class/bdi/{major}:{minor}"), format!("../../{place}"));
}

fn character(builder: &mut Builder, class: &str, name: &str, (major, minor): (u32, u32)) {
    let (path, name) = (name, name.rsplit('/').next().unwrap_or(name));
    let place = format!("devices/virtual/{class}/{name}");
    builder.line(&format!("{place}/dev"), format!("{major}:{minor}"));
    let text = format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={path}\n");
    builder.live(&format!("{place}/uevent"), move || text.clone());
    builder.link(&format!("{place}/subsystem"), up(&place, &format!("class/{class}")));
    builder.link(&format!("class/{class}/{name}"), format!("../../{place}"));
    builder.link(&format!("dev/char/{major}:{minor}"), format!("../../{place}"));
}

/// Returns the relative path from the directory `place` to `target`, both given from the root.
pub(super) fn up(place: &str, target: &str) -> String {
    format!("{}{target}", "../".repeat(place.split('/').count()))
}

#[cfg(test)]
mod tests {
    use super::{super::NodeKind, *};

    fn find<'a>(entry: &'a SysfsNode, path: &str) -> Option<&'a SysfsNode> {
        path.split('/').try_fold(entry, |at, name| match &at.kind {
            NodeKind::Directory(names) => {
                names.iter().find(|(known, _)| known == name).map(|(_, entry)| &**entry)
            }
            _ => None,
        })
    }

    #[test]
    fn processors_are_bits() {
        assert_eq!((mask(0..2), mask(1..2)), ("3".to_owned(), "2".to_owned()));
        assert_eq!(mask(0..33), "1,ffffffff");
    }

    #[test]
    fn files_and_links_are_where_they_were_put() {
        let root = build();
        let Some(NodeKind::File(content, None)) =
            find(&root, "devices/virtual/mem/null/dev").map(|it| &it.kind)
        else {
            panic!("no dev file");
        };
        assert_eq!(content(), "1:3\n");
        let Some(NodeKind::Link(target)) = find(&root, "class/mem/null").map(|it| &it.kind) else {
            panic!("no link");
        };
        assert_eq!(target, "../../devices/virtual/mem/null");
        assert_eq!(up("devices/virtual/mem/null", "class/mem"), "../../../../class/mem");
    }
}
