//! `/sys/fs/selinux`: SELinux's file system, of a system with a monitor.
//!
//! | file | what |
//! | --- | --- |
//! | `classes` | classes of objects and their permissions |
//! | `queries` | `context`, `access`, `create`, `relabel`, `member`, `user` |
//! | `policy` | `load`, `policy`, `status` |
//!
//! A question is answered from the policy alone, and leaves nothing behind: its files have the label of `/dev/null`, so that
//! subjects of each level may ask. The counts of caches are zeroes: they would tell what other levels do.
//! Source: Linux `security/selinux/selinuxfs.c`.
mod classes;
mod policy;
mod queries;

use crate::{listing, procfs::parsed};
use alloc::{format, sync::Arc, vec::Vec};
use classes::{CLASSES, Class};
use interfaces::{
    file_system::{Attributes, FileType, TakeEntry},
    monitor::Initial,
};
use policy::{PolicyFile, loads};
use queries::{OpenQuery, Query};
use rt::sync::Once;
use vfs::{
    Active, Errno, Principal,
    file::{File, Places},
    generated::{Child, GENERATED_END, Node, Viewer, attributes},
    security::{self, Label},
};

/// Name of the type.
pub const TYPE_NAME: &str = "selinuxfs";

type SelinuxTable = &'static [(&'static str, SelinuxItem)];

/// The meaning of a name.
#[derive(Clone, Copy)]
enum SelinuxItem {
    Directory(SelinuxTable),
    Text(&'static str),
    /// A text that may be written, with its permissions and the one number that is accepted.
    Setting(u16, &'static str, u32),
    Initial(Initial),
    Query(Query),
    Policy(u16, PolicyFile),
    Null,
    Classes,
    Class(usize),
    Permissions(usize),
    Number(usize),
}

/// The names in Linux's order.
const ROOT: SelinuxTable = &[
    ("load", SelinuxItem::Policy(0o600, PolicyFile::Load)),
    ("enforce", SelinuxItem::Setting(0o644, "1", 1)),
    ("context", SelinuxItem::Query(Query::Context)),
    ("access", SelinuxItem::Query(Query::Access)),
    ("create", SelinuxItem::Query(Query::Create)),
    ("relabel", SelinuxItem::Query(Query::Relabel)),
    ("user", SelinuxItem::Query(Query::User)),
    ("policyvers", SelinuxItem::Text("33")),
    ("commit_pending_bools", SelinuxItem::Setting(0o200, "", 0)),
    ("mls", SelinuxItem::Text("1")),
    ("disable", SelinuxItem::Setting(0o200, "", 0)),
    ("member", SelinuxItem::Query(Query::Member)),
    ("checkreqprot", SelinuxItem::Setting(0o644, "0", 0)),
    ("reject_unknown", SelinuxItem::Text("0")),
    ("deny_unknown", SelinuxItem::Text("0")),
    ("status", SelinuxItem::Policy(0o444, PolicyFile::Status)),
    ("policy", SelinuxItem::Policy(0o444, PolicyFile::Text)),
    ("booleans", SelinuxItem::Directory(&[])),
    ("null", SelinuxItem::Null),
    ("avc", SelinuxItem::Directory(CACHE)),
    ("ss", SelinuxItem::Directory(&[("sidtab_hash_stats", SelinuxItem::Text(NO_ENTRIES))])),
    ("initial_contexts", SelinuxItem::Directory(INITIAL)),
    ("class", SelinuxItem::Classes),
    ("policy_capabilities", SelinuxItem::Directory(&[])),
];

const NO_ENTRIES: &str = "entries: 0\nbuckets used: 0/512\nlongest chain: 0\n";
const CACHE: SelinuxTable = &[
    ("cache_threshold", SelinuxItem::Setting(0o644, "512\n", 512)),
    ("hash_stats", SelinuxItem::Text(NO_ENTRIES)),
    (
        "cache_stats",
        SelinuxItem::Text("lookups hits misses allocations reclaims frees\n0 0 0 0 0 0\n"),
    ),
];
const INITIAL: SelinuxTable = &[
    ("kernel", SelinuxItem::Initial(Initial::Kernel)),
    ("security", SelinuxItem::Initial(Initial::Kernel)),
    ("unlabeled", SelinuxItem::Initial(Initial::Unlabeled)),
    ("file", SelinuxItem::Initial(Initial::File)),
    ("netif", SelinuxItem::Initial(Initial::Interface)),
    ("netmsg", SelinuxItem::Initial(Initial::Packet)),
    ("anonymous", SelinuxItem::Initial(Initial::Anonymous)),
];

/// The greatest number of names in a directory, and one more.
const NAMES_MAX: u64 = 64;

impl SelinuxItem {
    /// Returns the names and meanings in a directory; `None` if it is none.
    fn names(self) -> Option<Vec<(&'static str, SelinuxItem)>> {
        Some(match self {
            SelinuxItem::Directory(table) => table.to_vec(),
            SelinuxItem::Classes => {
                let classes = CLASSES.iter().zip(1..);
                classes.map(|(class, number)| (class.name, SelinuxItem::Class(number))).collect()
            }
            SelinuxItem::Class(number) => Vec::from([
                ("index", SelinuxItem::Number(number)),
                ("perms", SelinuxItem::Permissions(number)),
            ]),
            SelinuxItem::Permissions(number) => {
                let permissions = Class::numbered(number).into_iter().flat_map(Class::permissions);
                permissions
                    .zip(1..)
                    .map(|((name, _), at)| (name, SelinuxItem::Number(at)))
                    .collect()
            }
            _ => return None,
        })
    }
    fn kind(self) -> (FileType, u16) {
        match self {
            SelinuxItem::Directory(_)
            | SelinuxItem::Classes
            | SelinuxItem::Class(_)
            | SelinuxItem::Permissions(_) => (FileType::Directory, 0o555),
            SelinuxItem::Text(_) | SelinuxItem::Initial(_) | SelinuxItem::Number(_) => {
                (FileType::Regular, 0o444)
            }
            SelinuxItem::Setting(permissions, ..) | SelinuxItem::Policy(permissions, _) => {
                (FileType::Regular, permissions)
            }
            SelinuxItem::Query(_) => (FileType::Regular, 0o666),
            SelinuxItem::Null => (FileType::Character, 0o666),
        }
    }
}

struct SelinuxNode {
    inode: u64,
    place: SelinuxItem,
}

impl SelinuxNode {
    fn inode_of(&self, index: usize) -> u64 {
        self.inode * NAMES_MAX + index as u64 + 1
    }
}

static MOUNTED: Once<Arc<Active>> = Once::new();

/// The mount of selinuxfs: one however often it is mounted.
///
/// # Errors
/// `ENOMEM`.
pub fn mount(_: &[u8]) -> Result<Arc<Active>, Errno> {
    let root = || {
        let root = SelinuxNode { inode: 1, place: SelinuxItem::Directory(ROOT) };
        Active::generated(TYPE_NAME, Arc::new(root))
    };
    MOUNTED.get_or_try_init(root).cloned()
}

impl Node for SelinuxNode {
    fn attributes(&self) -> Attributes {
        const NULL: (u32, u32) = (1, 3);
        let (file_type, permissions) = self.place.kind();
        let mut known = attributes(self.inode, file_type, permissions, (0, 0));
        if matches!(self.place, SelinuxItem::Null) {
            known.device = NULL;
        }
        let is_directory = |(_, place): &(&str, SelinuxItem)| place.kind().0 == FileType::Directory;
        if let Some(names) = self.place.names() {
            known.links = 2 + names.iter().filter(|named| is_directory(named)).count() as u32;
        }
        known
    }
    fn permissions(&self) -> u16 {
        self.place.kind().1
    }
    fn label(&self) -> Option<&'static Label> {
        match self.place {
            SelinuxItem::Query(_) | SelinuxItem::Null => security::of_device("/dev/null"),
            _ => None,
        }
    }
    fn lookup(&self, wanted: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        let mut names = self.place.names().ok_or(Errno::ENOTDIR)?.into_iter().enumerate();
        let found = names.find(|(_, (name, _))| name.as_bytes() == wanted);
        let (index, (_, place)) = found.ok_or(Errno::ENOENT)?;
        Ok(Arc::new(SelinuxNode { inode: self.inode_of(index), place }))
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
        let names = self.place.names().ok_or(Errno::ENOTDIR)?;
        let named = names
            .iter()
            .enumerate()
            .map(|(index, (name, place))| (self.inode_of(index), place.kind().0, name.as_bytes()));
        let _ = listing::list(named, position, take);
        Ok(())
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
    }
    fn open(&self, _: u32, _: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(match self.place {
            SelinuxItem::Query(query) => Some(Arc::new(OpenQuery::new(query))),
            SelinuxItem::Policy(_, file) => Some(Arc::new(file)),
            _ => None,
        })
    }
    fn generate(&self, _: &dyn Principal) -> Result<Vec<u8>, Errno> {
        Ok(match self.place {
            SelinuxItem::Setting(0o200, ..) => return Err(Errno::EINVAL),
            SelinuxItem::Text(text) | SelinuxItem::Setting(_, text, _) => text.into(),
            SelinuxItem::Number(number) => format!("{number}").into_bytes(),
            SelinuxItem::Initial(of) => security::initial(of)?.text().to_vec(),
            _ => return Err(Errno::EINVAL),
        })
    }
    /// Accepts what changes nothing.
    fn write_at(&self, offset: u64, data: &[u8], _: &dyn Principal) -> Result<(), Errno> {
        let SelinuxItem::Setting(_, _, present) = self.place else { return Err(Errno::EINVAL) };
        if offset != 0 {
            return Err(Errno::EINVAL);
        }
        let number: u32 = parsed(data)?;
        (number == present).then_some(()).ok_or(Errno::EACCES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(node: &SelinuxNode, seen: &mut Vec<u64>) {
        seen.push(node.inode);
        let Some(names) = node.place.names() else { return };
        assert!((names.len() as u64) < NAMES_MAX);
        for (index, (_, place)) in names.into_iter().enumerate() {
            check(&SelinuxNode { inode: node.inode_of(index), place }, seen);
        }
    }

    #[test]
    fn each_node_has_an_inode_number_of_its_own() {
        let mut seen = Vec::new();
        check(&SelinuxNode { inode: 1, place: SelinuxItem::Directory(ROOT) }, &mut seen);
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert!(count > 500 && seen.len() == count);
    }
}
