//! Names: the entries of directories, and extended attributes, as contents of inodes that the caller has locked.
pub(crate) mod block;
pub(crate) mod directory;
pub(crate) mod directory_edit;
pub(crate) mod entries;
pub(crate) mod hash;
pub(crate) mod hash_order;
pub(crate) mod htree;
pub(crate) mod htree_edit;
pub(crate) mod inline;
pub(crate) mod inline_edit;
pub(crate) mod leaf_edit;
pub(crate) mod name_index;
pub(crate) mod xattr;
pub(crate) mod xattr_edit;
