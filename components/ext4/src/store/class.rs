//! [`Class`]: when a changed block may go in place.

/// The class of a changed block, in the order in which blocks are written in place on a volume without a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Nothing on the device points to the block yet.
    Fresh,
    /// Inodes, nodes of extent trees, bitmaps, descriptors, attributes.
    Other,
    /// The block holds entries of a directory.
    Directory,
    /// A root or node of a hash tree.
    Index,
}

impl Class {
    /// Returns the class of a block of this class after another change. A fresh block, or one of an index, keeps
    /// its class.
    pub(crate) fn with(self, class: Class) -> Class {
        match (self, class) {
            (_, Class::Fresh) => Class::Fresh,
            (Class::Fresh | Class::Index, _) => self,
            (_, class) => class,
        }
    }
}
