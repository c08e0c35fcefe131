//! Classes of system calls: by the permission that a watch asks for, and as bits at the end of a rule's mask.
use crate::rule::SyscallMask;

/// Permissions of a watch (`AUDIT_PERM_...`).
mod permission {
    pub(super) const EXECUTE: u32 = 1;
    pub(super) const WRITE: u32 = 2;
    pub(super) const READ: u32 = 4;
    pub(super) const ATTRIBUTES: u32 = 8;
}

/// Calls that change directories: rename, mkdir, rmdir, creat, link, unlink, symlink, mknod, and mkdirat to renameat2.
const DIRECTORIES: &[u32] = &[82, 83, 84, 85, 86, 87, 88, 133, 258, 259, 263, 264, 265, 266, 316];
/// Calls that write files: acct, swapon, quotactl, truncate, bind, fallocate.
const WRITERS: &[u32] = &[163, 167, 179, 76, 49, 285];
/// Calls that read files: readlink, quotactl, listxattr and its relatives, getxattr and its relatives, readlinkat.
const READERS: &[u32] = &[89, 179, 194, 195, 196, 191, 192, 193, 267];
/// Calls that change attributes: chmod, fchmod, chown, fchown, lchown, setxattr and removexattr with their relatives, fchownat,
/// fchmodat, link, linkat.
const CHANGERS: &[u32] = &[90, 91, 92, 93, 94, 188, 189, 190, 197, 198, 199, 260, 268, 86, 265];
/// Calls that send signals: kill, tkill, tgkill.
const SIGNALS: &[u32] = &[62, 200, 234];
/// execve, execveat.
const EXECUTIONS: &[u32] = &[59, 322];
/// First number behind those of a mask.
const NUMBERS: u32 = 2048;

/// Replaces the bits that stand for classes by the calls of the class. The odd ones are those of 32-bit calls, which are not there.
pub(crate) fn expand(mask: &mut SyscallMask) {
    let classes: [&[&[u32]]; 5] =
        [&[DIRECTORIES], &[CHANGERS], &[READERS], &[DIRECTORIES, WRITERS], &[SIGNALS]];
    for (number, lists) in classes.iter().enumerate() {
        let bit = NUMBERS - 1 - 2 * number as u32;
        if mask.remove(bit) {
            lists.iter().copied().flatten().for_each(|call| mask.add(*call));
        }
        mask.remove(bit - 1);
    }
    (NUMBERS - 16..NUMBERS - 10).for_each(|bit| {
        mask.remove(bit);
    });
}

/// open(2), openat(2): calls whose flags are an argument.
pub(crate) const OPENS: [u32; 2] = [2, 257];
/// creat(2), and openat2(2), whose flags are in memory.
const OTHER_OPENS: [u32; 2] = [85, 437];

/// Returns whether a call accesses a file in one of the ways that a watch asks for (`audit_match_perm`). `open_flags` are those of
/// a call that opens a file.
pub(crate) fn has_access(number: u32, open_flags: Option<u64>, wanted: u32) -> bool {
    if let Some(flags) = open_flags {
        let opened = match flags & 3 {
            0 => permission::READ,
            1 => permission::WRITE,
            _ => permission::READ | permission::WRITE,
        };
        return wanted & opened != 0;
    }
    if EXECUTIONS.contains(&number) {
        return wanted & permission::EXECUTE != 0;
    }
    let is = |bit, lists: &[&[u32]]| {
        wanted & bit != 0 && lists.iter().any(|list| list.contains(&number))
    };
    is(permission::WRITE, &[DIRECTORIES, WRITERS])
        || is(permission::READ, &[READERS])
        || is(permission::ATTRIBUTES, &[CHANGERS])
}

/// Returns whether a call can access a file in one of these ways, if its arguments are not known.
pub(crate) fn may_access(number: u32, wanted: u32) -> bool {
    let is_open = OPENS.contains(&number) || OTHER_OPENS.contains(&number);
    is_open && wanted & (permission::READ | permission::WRITE) != 0
        || has_access(number, None, wanted)
}
