//! [`Permission`]: the rights to use an object (`struct kern_ipc_perm`, `ipcperms` of Linux `ipc/util.c`).
//!
//! An object has a creator, who stays, and an owner, whom IPC_SET changes. Both have the rights of the first class.

/// Read permission, in the bits of all classes.
pub const READ: u16 = 0o444;
/// Permission to write (to alter a semaphore).
pub const WRITE: u16 = 0o222;
/// The bits of a mode that are permissions.
pub const MODE_BITS: u16 = 0o777;

/// The caller of an operation: the properties on which permissions depend.
pub trait Subject {
    /// Returns the effective user.
    fn user(&self) -> u32;
    /// Returns the effective group, which a new object gets.
    fn group(&self) -> u32;
    /// Returns whether the caller is in `group`.
    fn is_in_group(&self, group: u32) -> bool;
    /// Returns whether permissions are ignored (CAP_IPC_OWNER).
    fn ignores_permissions(&self) -> bool;
    /// Returns whether the caller may change and remove objects of other users (CAP_SYS_ADMIN).
    fn is_administrator(&self) -> bool;
}

/// Owner, creator and mode of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// User id of the owner.
    pub user: u32,
    /// The owner's group.
    pub group: u32,
    /// User id of the creator.
    pub creator: u32,
    /// The creator's group.
    pub creator_group: u32,
    /// Permission bits, and flags of the object's kind above them.
    pub mode: u16,
}

impl Permission {
    /// Makes the permission of an object that `who` makes with the flags of its `get` call.
    pub fn new(who: &dyn Subject, flags: i32) -> Permission {
        Permission {
            user: who.user(),
            group: who.group(),
            creator: who.user(),
            creator_group: who.group(),
            mode: flags as u16 & MODE_BITS,
        }
    }
    /// Returns whether `who` has the permissions in `wanted`, which is a mode or the flags of a `get` call: a permission
    /// that it has for any class is wanted.
    pub fn allows(&self, who: &dyn Subject, wanted: u16) -> bool {
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        let granted = if self.is_first_class(who) {
            self.mode >> 6
        } else if who.is_in_group(self.creator_group) || who.is_in_group(self.group) {
            self.mode >> 3
        } else {
            self.mode
        };
        wanted & !granted == 0 || who.ignores_permissions()
    }
    /// Returns whether `who` may change or remove the object.
    pub fn is_controlled_by(&self, who: &dyn Subject) -> bool {
        self.is_first_class(who) || who.is_administrator()
    }
    fn is_first_class(&self, who: &dyn Subject) -> bool {
        let user = who.user();
        user == self.creator || user == self.user
    }
    /// Sets a new owner and new permission bits (IPC_SET).
    pub fn set(&mut self, user: u32, group: u32, mode: u16) {
        (self.user, self.group) = (user, group);
        self.mode = self.mode & !MODE_BITS | mode & MODE_BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Who {
        user: u32,
        groups: &'static [u32],
        is_root: bool,
    }

    impl Subject for Who {
        fn user(&self) -> u32 {
            self.user
        }
        fn group(&self) -> u32 {
            self.groups[0]
        }
        fn is_in_group(&self, group: u32) -> bool {
            self.groups.contains(&group)
        }
        fn ignores_permissions(&self) -> bool {
            self.is_root
        }
        fn is_administrator(&self) -> bool {
            self.is_root
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let owner = Who { user: 1, groups: &[10], is_root: false };
        let member = Who { user: 2, groups: &[20, 10], is_root: false };
        let other = Who { user: 3, groups: &[30], is_root: false };
        let permission = Permission::new(&owner, 0o1_642);
        assert_eq!(permission.mode, 0o642);
        assert!(permission.allows(&owner, READ) && permission.allows(&owner, WRITE));
        assert!(permission.allows(&member, READ) && !permission.allows(&member, WRITE));
        assert!(!permission.allows(&other, READ) && permission.allows(&other, WRITE));
        assert!(permission.allows(&other, 0));
        let root = Who { user: 0, groups: &[0], is_root: true };
        assert!(permission.allows(&root, READ | WRITE));
    }

    #[test]
    fn creator_and_owner_control() {
        let creator = Who { user: 1, groups: &[10], is_root: false };
        let heir = Who { user: 2, groups: &[20], is_root: false };
        let mut permission = Permission::new(&creator, 0o600);
        permission.mode |= 0o1000;
        assert!(!permission.is_controlled_by(&heir));
        permission.set(2, 20, 0o7_060);
        assert_eq!(permission.mode, 0o1060, "flags of the kind stay");
        assert!(permission.is_controlled_by(&heir) && permission.is_controlled_by(&creator));
        assert!(!permission.allows(&creator, READ), "the first class has nothing");
        let member = Who { user: 3, groups: &[10], is_root: false };
        assert!(permission.allows(&member, READ), "the creator's group");
    }
}
