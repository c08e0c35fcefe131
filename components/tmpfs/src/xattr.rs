//! Extended attributes of the classes `user.`, `trusted.` and `security.`, and access control lists.
use crate::{
    node::{Node, State},
    space::Space,
};
use alloc::{collections::BTreeMap, vec::Vec};
use interfaces::file_system::{
    AclChange, AttributeChange, Attributes, FileTime, FileType, FsError, NewAcls, XattrMode,
};
use rt::memory::Charge;

/// The cost of an attribute beside name and value.
const XATTR_BYTES: usize = 96;
/// Longest value (`XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 65536;

/// Attributes by full name, with what each is charged.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, (Vec<u8>, Charge)>;

/// Gives a new inode its access control lists.
#[cold]
pub(crate) fn set_new(space: &Space, node: &Node, acls: &NewAcls<'_>) -> Result<(), FsError> {
    for (name, value) in [(acl::ACCESS_NAME, acls.access), (acl::DEFAULT_NAME, acls.default)] {
        if !value.is_empty() {
            let value = charged(name, value)?;
            put(space, &mut node.state.lock(), name, value)?;
        }
    }
    Ok(())
}

/// Returns the bytes that an attribute takes of the mount's limit.
fn cost(name: &[u8], value: &[u8]) -> u64 {
    (XATTR_BYTES + name.len() + value.len()) as u64
}

/// Sets an attribute, which the mount's limit must have room for.
#[inline(never)]
fn put(
    space: &Space,
    state: &mut State,
    name: &[u8],
    value: (Vec<u8>, Charge),
) -> Result<(), FsError> {
    let before = state.xattrs.get(name).map_or(0, |(value, _)| cost(name, value));
    let wanted = state.inode_bytes - before + cost(name, &value.0);
    space.change_inode_bytes(&mut state.inode_bytes, wanted)?;
    state.xattrs.insert(name.to_vec(), value);
    Ok(())
}

/// Takes an attribute out; whether there was one.
fn take_out(space: &Space, state: &mut State, name: &[u8]) -> bool {
    let Some((value, _)) = state.xattrs.remove(name) else { return false };
    let bytes = cost(name, &value);
    state.inode_bytes -= bytes;
    space.give_inode_bytes(bytes);
    true
}

fn charged(name: &[u8], value: &[u8]) -> Result<(Vec<u8>, Charge), FsError> {
    let charge = Charge::take(XATTR_BYTES + name.len() + value.len());
    Ok((value.to_vec(), charge.map_err(|_| FsError::NoMemory)?))
}

fn check_name(node: &Node, name: &[u8]) -> Result<(), FsError> {
    if name.len() > crate::NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    let has = |class: &[u8]| name.strip_prefix(class).is_some_and(|rest| !rest.is_empty());
    let takes_user = matches!(node.file_type, FileType::Regular | FileType::Directory);
    if has(b"trusted.") || has(b"security.") || (has(b"user.") && takes_user) {
        Ok(())
    } else {
        Err(FsError::Unsupported)
    }
}

/// The value of an attribute.
pub(crate) fn get(node: &Node, name: &[u8]) -> Result<Vec<u8>, FsError> {
    let state = node.state.lock();
    match state.xattrs.get(name) {
        Some((value, _)) => Ok(value.clone()),
        None if matches!(name, acl::ACCESS_NAME | acl::DEFAULT_NAME) => Err(FsError::NoAttribute),
        None => check_name(node, name).and(Err(FsError::NoAttribute)),
    }
}

/// Names of all attributes.
pub(crate) fn list(node: &Node) -> Vec<Vec<u8>> {
    node.state.lock().xattrs.keys().cloned().collect()
}

/// Sets an attribute.
pub(crate) fn set(
    space: &Space,
    node: &Node,
    name: &[u8],
    value: &[u8],
    mode: XattrMode,
    now: FileTime,
) -> Result<(), FsError> {
    check_name(node, name)?;
    if value.len() > VALUE_MAX {
        return Err(FsError::NoSpace);
    }
    let value = charged(name, value)?;
    let mut state = node.state.lock();
    check_mode(&state, name, mode)?;
    put(space, &mut state, name, value)?;
    state.changed = now;
    Ok(())
}

fn check_mode(state: &State, name: &[u8], mode: XattrMode) -> Result<(), FsError> {
    match (mode, state.xattrs.contains_key(name)) {
        (XattrMode::Create, true) => Err(FsError::Exists),
        (XattrMode::Replace, false) => Err(FsError::NoAttribute),
        _ => Ok(()),
    }
}

/// Takes an attribute away.
pub(crate) fn remove(
    space: &Space,
    node: &Node,
    name: &[u8],
    now: FileTime,
) -> Result<(), FsError> {
    check_name(node, name)?;
    let mut state = node.state.lock();
    if !take_out(space, &mut state, name) {
        return Err(FsError::NoAttribute);
    }
    state.changed = now;
    Ok(())
}

/// Sets or takes away an access control list.
pub(crate) fn set_acl(
    space: &Space,
    node: &Node,
    change: &AclChange<'_>,
) -> Result<Attributes, FsError> {
    if node.file_type == FileType::Symlink {
        return Err(FsError::Unsupported);
    }
    let value = match change.value {
        [] => None,
        value => Some(charged(change.name, value)?),
    };
    let mut state = node.state.lock();
    match value {
        Some(value) => put(space, &mut state, change.name, value)?,
        None => _ = take_out(space, &mut state, change.name),
    }
    let (permissions, changed) = (change.permissions, Some(change.now));
    state.apply_change(&AttributeChange { permissions, changed, ..Default::default() });
    Ok(node.attributes(&state))
}
