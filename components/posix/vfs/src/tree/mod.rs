//! The floor of names: mounted file systems, their vnodes and dentries, and places in the tree of files.
//!
//! Seven files refer to each other here, because their objects do: a vnode belongs to an instance, which finds its vnodes and
//! names its dentries; a dentry names a vnode, and a directory in memory holds the dentries in it; a generated vnode has a
//! node, whose link may lead to a path, which is a dentry seen through a mount of an instance.
pub(crate) mod child_cache;
pub(crate) mod dentry;
pub(crate) mod hidden_names;
pub(crate) mod instance;
pub(crate) mod mount;
pub(crate) mod name_cache;
pub(crate) mod name_lock;
pub(crate) mod names;
pub(crate) mod node;
pub mod notify;
pub(crate) mod vnode;
