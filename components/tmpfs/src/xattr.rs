//! Extended attributes of the classes `user.`, `trusted.` and `security.`.
use crate::node::{Node, State};
use alloc::vec::Vec;
use interfaces::file_system::{FileTime, FileType, FsError, XattrMode};
use rt::memory::Charge;

/// What an attribute costs beside name and value.
const XATTR_BYTES: usize = 96;
/// Longest value (`XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 65536;

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
        None => check_name(node, name).and(Err(FsError::NoAttribute)),
    }
}

/// Names of all attributes.
pub(crate) fn list(node: &Node) -> Vec<Vec<u8>> {
    node.state.lock().xattrs.keys().cloned().collect()
}

/// Sets an attribute.
pub(crate) fn set(
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
    let charge = Charge::take(XATTR_BYTES + name.len() + value.len());
    let charge = charge.map_err(|_| FsError::NoMemory)?;
    let mut state = node.state.lock();
    check_mode(&state, name, mode)?;
    state.xattrs.insert(name.to_vec(), (value.to_vec(), charge));
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
pub(crate) fn remove(node: &Node, name: &[u8], now: FileTime) -> Result<(), FsError> {
    check_name(node, name)?;
    let mut state = node.state.lock();
    state.xattrs.remove(name).ok_or(FsError::NoAttribute)?;
    state.changed = now;
    Ok(())
}
