//! The access control lists of a vnode: which there are ([`AclKind`]), and those that were read ([`Acls`]).
use crate::base::rights::{HAS_ACCESS_ACL, HAS_DEFAULT_ACL};
use acl::Acl;
use alloc::sync::Arc;
use rt::memory::Charge;

/// The two kinds of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AclKind {
    /// The list that controls access to the file.
    Access,
    /// The default list of a directory, which new files in it inherit.
    Default,
}

impl AclKind {
    /// Returns the kind of list that an attribute's name stands for.
    pub(crate) fn named(name: &[u8]) -> Option<AclKind> {
        match name {
            acl::ACCESS_NAME => Some(AclKind::Access),
            acl::DEFAULT_NAME => Some(AclKind::Default),
            _ => None,
        }
    }
    /// Name of its attribute.
    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            AclKind::Access => acl::ACCESS_NAME,
            AclKind::Default => acl::DEFAULT_NAME,
        }
    }
    /// Its bit beside the permissions.
    pub(crate) fn hint(self) -> u16 {
        match self {
            AclKind::Access => HAS_ACCESS_ACL,
            AclKind::Default => HAS_DEFAULT_ACL,
        }
    }
}

/// A list in memory with its memory charge.
pub(crate) struct Kept {
    list: Acl,
    _charge: Charge,
}

impl Kept {
    /// `list`, for which `charge` was taken.
    pub(crate) fn charged(list: Acl, charge: Charge) -> Kept {
        Kept { list, _charge: charge }
    }
}

impl core::ops::Deref for Kept {
    type Target = Acl;
    fn deref(&self) -> &Acl {
        &self.list
    }
}

/// The lists that were read.
pub(crate) struct Acls {
    pub(crate) access: Option<Arc<Kept>>,
    pub(crate) default: Option<Arc<Kept>>,
}
