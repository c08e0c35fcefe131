//! The state that few inodes have: extended attributes of the classes `user.`, `trusted.` and `security.`, access control
//! lists, and the space reserved for a long symbolic link's target.
use crate::space::LevelSpace;
use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use interfaces::file_system::{FsError, InodeNumber, XattrMode};
use rt::{lock_class, memory::Charge, sync::Mutex};

lock_class! {
    static EXTRAS = "tmpfs.extras";
}

/// Charge for an attribute in addition to its name and value.
const XATTR_BYTES: usize = 96;
/// Greatest length of a value (`XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 65536;
/// Charge for an inode's entry.
const EXTRA_BYTES: usize = size_of::<(InodeNumber, Extra)>() + 16;

/// The extended attributes of one inode, with their memory charges.
struct Extra {
    /// Memory charged to the mount's limit of inodes.
    bytes: u64,
    /// Attributes by full name, each with its charge.
    xattrs: BTreeMap<Vec<u8>, (Vec<u8>, Charge)>,
    _charge: Charge,
}

impl Extra {
    fn new() -> Result<Extra, FsError> {
        let charge = Charge::take(EXTRA_BYTES).map_err(|_| FsError::NoMemory)?;
        Ok(Extra { bytes: 0, xattrs: BTreeMap::new(), _charge: charge })
    }
}

type Inodes = BTreeMap<InodeNumber, Extra>;

/// The table of the inodes that have extras.
pub(crate) struct Extras {
    inodes: Mutex<Inodes>,
    /// Number of inodes in the table. It is mostly 0, in which case the lock is not taken.
    count: AtomicUsize,
}

impl Extras {
    pub(crate) fn new() -> Extras {
        Extras { inodes: Mutex::new(&EXTRAS, Inodes::new()), count: AtomicUsize::new(0) }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Calls `change` on the extras of an inode. Extras that are empty afterwards are removed.
    fn change<T>(
        &self,
        inode: InodeNumber,
        change: impl FnOnce(&mut Extra) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let mut inodes = self.inodes.lock();
        let mut place = match inodes.entry(inode) {
            Entry::Occupied(place) => place,
            Entry::Vacant(place) => place.insert_entry(Extra::new()?),
        };
        let result = change(place.get_mut());
        if place.get().bytes == 0 {
            place.remove();
        }
        self.count.store(inodes.len(), Relaxed);
        result
    }

    /// Reserves `bytes` for an inode.
    pub(crate) fn reserve(
        &self,
        part: LevelSpace<'_>,
        inode: InodeNumber,
        bytes: u64,
    ) -> Result<(), FsError> {
        self.change(inode, |extra| {
            let wanted = extra.bytes + bytes;
            part.change_inode_bytes(&mut extra.bytes, wanted)
        })
    }

    /// Removes the extras of an inode that ends. Returns the bytes that were reserved for it.
    pub(crate) fn remove(&self, inode: InodeNumber) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut inodes = self.inodes.lock();
        let removed = inodes.remove(&inode);
        self.count.store(inodes.len(), Relaxed);
        drop(inodes);
        removed.map_or(0, |extra| extra.bytes)
    }

    /// Returns the value of an attribute.
    pub(crate) fn get(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let inodes = self.inodes.lock();
        match inodes.get(&inode).and_then(|extra| extra.xattrs.get(name)) {
            Some((value, _)) => Ok(value.clone()),
            None => check_name(name).and(Err(FsError::NoAttribute)),
        }
    }

    /// Returns the names of all attributes.
    pub(crate) fn list(&self, inode: InodeNumber) -> Vec<Vec<u8>> {
        let inodes = self.inodes.lock();
        inodes.get(&inode).map_or(Vec::new(), |extra| extra.xattrs.keys().cloned().collect())
    }

    /// Sets an attribute, if the mount's limit has room for it.
    pub(crate) fn set(
        &self,
        part: LevelSpace<'_>,
        inode: InodeNumber,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<(), FsError> {
        check_name(name)?;
        if value.len() > VALUE_MAX {
            return Err(FsError::NoSpace);
        }
        let charge = Charge::take(XATTR_BYTES + name.len() + value.len());
        let value = (value.to_vec(), charge.map_err(|_| FsError::NoMemory)?);
        self.change(inode, |extra| {
            let before = extra.xattrs.get(name).map(|(value, _)| cost(name, value));
            match (mode, before) {
                (XattrMode::Create, Some(_)) => return Err(FsError::Exists),
                (XattrMode::Replace, None) => return Err(FsError::NoAttribute),
                _ => {}
            }
            let wanted = extra.bytes - before.unwrap_or(0) + cost(name, &value.0);
            part.change_inode_bytes(&mut extra.bytes, wanted)?;
            extra.xattrs.insert(name.to_vec(), value);
            Ok(())
        })
    }

    /// Removes an attribute.
    pub(crate) fn take_out(
        &self,
        part: LevelSpace<'_>,
        inode: InodeNumber,
        name: &[u8],
    ) -> Result<(), FsError> {
        check_name(name)?;
        self.change(inode, |extra| {
            let (value, _) = extra.xattrs.remove(name).ok_or(FsError::NoAttribute)?;
            let wanted = extra.bytes - cost(name, &value);
            part.change_inode_bytes(&mut extra.bytes, wanted)
        })
    }
}

/// Returns the bytes that an attribute is charged against the mount's limit.
fn cost(name: &[u8], value: &[u8]) -> u64 {
    (XATTR_BYTES + name.len() + value.len()) as u64
}

/// Refuses a name of a class that is not kept. The personality checks which inodes may have which class.
fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > crate::NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    let has = |class: &[u8]| name.strip_prefix(class).is_some_and(|rest| !rest.is_empty());
    let is_list = matches!(name, acl::ACCESS_NAME | acl::DEFAULT_NAME);
    if is_list || has(b"trusted.") || has(b"security.") || has(b"user.") {
        Ok(())
    } else {
        Err(FsError::Unsupported)
    }
}
