//! Access control lists, on disk and in memory: setting and showing them, their effect on checks,
//! changes of the mode, and inheritance (acl(5), xattr(7)). Run as root.
use abi::{
    Ended, Scratch, c, check, close, fork,
    identity::{as_user, become_user_with},
    isolated, must, open, stat, wait,
};
use libc::*;
use std::{
    ffi::CStr,
    path::{Path, PathBuf},
};

const ACCESS: &CStr = c"system.posix_acl_access";
const DEFAULT: &CStr = c"system.posix_acl_default";
const USER: u32 = 1000;
const OTHER: u32 = 2000;
const TEAM: u32 = 77;
/// The id of entries without one.
const NONE: u32 = u32::MAX;

/// Entries: tag, permissions, id.
type Entries<'e> = &'e [(u16, u16, u32)];
const OWNER: u16 = 1;
const NAMED_USER: u16 = 2;
const OWNER_GROUP: u16 = 4;
const NAMED_GROUP: u16 = 8;
const MASK: u16 = 16;
const REST: u16 = 32;

const MINIMAL: Entries<'static> = &[(OWNER, 7, NONE), (OWNER_GROUP, 4, NONE), (REST, 0, NONE)];
const FULL: Entries<'static> = &[
    (OWNER, 7, NONE),
    (NAMED_USER, 7, USER),
    (OWNER_GROUP, 4, NONE),
    (NAMED_GROUP, 6, TEAM),
    (MASK, 5, NONE),
    (REST, 0, NONE),
];

/// Returns a list in the form of programs.
fn list(entries: Entries<'_>) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// Returns the permissions of a list, in order.
fn permissions(list: &[u8]) -> Vec<u16> {
    list[4..].chunks(8).map(|entry| u16::from_le_bytes([entry[2], entry[3]])).collect()
}

fn set_bytes(path: &Path, name: &CStr, value: &[u8], flags: i32) -> Result<i64, i32> {
    // SAFETY: NUL-terminated path and name, and a value of its length.
    check(unsafe {
        lsetxattr(c(path).as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
    })
}

fn set(path: &Path, name: &CStr, entries: Entries<'_>) -> Result<i64, i32> {
    set_bytes(path, name, &list(entries), 0)
}

fn get(path: &Path, name: &CStr) -> Result<Vec<u8>, i32> {
    let mut value = vec![0_u8; 66_000];
    // SAFETY: NUL-terminated path and name, and room of that length.
    let count = check(unsafe {
        lgetxattr(c(path).as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
    } as i64)?;
    value.truncate(count as usize);
    Ok(value)
}

fn remove(path: &Path, name: &CStr) -> Result<i64, i32> {
    // SAFETY: NUL-terminated path and name.
    check(unsafe { lremovexattr(c(path).as_ptr(), name.as_ptr()) })
}

/// Returns the lists that listxattr names.
fn names(path: &Path) -> Vec<&'static CStr> {
    let mut found = [0_u8; 1000];
    // SAFETY: NUL-terminated path, and room of that length.
    let count = must(
        unsafe { llistxattr(c(path).as_ptr(), found.as_mut_ptr().cast(), found.len()) } as i64,
    );
    let found: Vec<&[u8]> = found[..count as usize].split(|byte| *byte == 0).collect();
    let is_there = |name: &&CStr| found.contains(&name.to_bytes());
    [ACCESS, DEFAULT].into_iter().filter(is_there).collect()
}

fn chmod(path: &Path, mode: u32) {
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::chmod(c(path).as_ptr(), mode) });
}

fn chown(path: &Path, user: u32, group: u32) {
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::chown(c(path).as_ptr(), user, group) });
}

fn mkdir(path: &Path, mode: u32) {
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::mkdir(c(path).as_ptr(), mode) });
}

fn access(path: &Path, want: i32) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::access(c(path).as_ptr(), want) })
}

fn mode(path: &Path) -> u32 {
    stat(path).expect("stat").st_mode & 0o7777
}

/// Returns the rights of `user` with `groups` among reading, writing and executing.
fn rights(path: &Path, user: u32, groups: &[u32]) -> i32 {
    let child = fork(|| {
        become_user_with(user, groups);
        let may = |want: &i32| access(path, *want).is_ok();
        let sum: i32 = [R_OK, W_OK, X_OK].iter().filter(|want| may(want)).sum();
        assert_eq!(access(path, sum), Ok(0), "all at once too");
        // SAFETY: ends the child.
        unsafe { _exit(sum) };
    });
    match wait(child) {
        Ended::Exited(sum) => sum,
        other => panic!("{other:?}"),
    }
}

/// Runs a test in a folder on disk, and in one in memory.
#[track_caller]
fn on_both(body: impl Fn(&Scratch)) {
    isolated(|| {
        // SAFETY: a plain number.
        unsafe { umask(0o022) };
        for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
            chmod(&scratch.path(""), 0o755);
            body(&scratch);
        }
    });
}

/// Makes a file of [`USER`] and the group [`OTHER`].
fn file(scratch: &Scratch, name: &str, mode: u32) -> PathBuf {
    let path = scratch.file(name, b"text");
    chown(&path, USER, OTHER);
    chmod(&path, mode);
    path
}

#[test]
fn a_list_is_kept_and_its_mode_is_the_files() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o4640);
        assert_eq!(get(&file, ACCESS), Err(ENODATA));
        assert_eq!(set(&file, ACCESS, FULL), Ok(0));
        assert_eq!(get(&file, ACCESS), Ok(list(FULL)));
        assert_eq!((mode(&file), names(&file)), (0o4750, vec![ACCESS]));
        assert_eq!(get(&file, DEFAULT), Err(ENODATA));
        // Flags that matter for other attributes have no effect here.
        let flags = XATTR_CREATE | XATTR_REPLACE;
        assert_eq!(set_bytes(&file, ACCESS, &list(FULL), flags), Ok(0));
        assert_eq!(set_bytes(&file, ACCESS, &list(FULL), 4), Err(EINVAL));
        assert_eq!(remove(&file, ACCESS), Ok(0));
        assert_eq!(remove(&file, ACCESS), Ok(0), "there is none");
        assert_eq!((mode(&file), get(&file, ACCESS)), (0o4750, Err(ENODATA)));
        assert!(names(&file).is_empty());
    });
}

#[test]
fn a_list_that_is_a_mode_is_only_the_mode() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o600);
        assert_eq!(set(&file, ACCESS, FULL), Ok(0));
        assert_eq!(set(&file, ACCESS, MINIMAL), Ok(0));
        assert_eq!((mode(&file), get(&file, ACCESS)), (0o740, Err(ENODATA)));
        // A directory may still have such a list as its default.
        let folder = scratch.path("d");
        mkdir(&folder, 0o777);
        assert_eq!(set(&folder, DEFAULT, MINIMAL), Ok(0));
        assert_eq!((get(&folder, DEFAULT), names(&folder)), (Ok(list(MINIMAL)), vec![DEFAULT]));
        assert_eq!(mode(&folder), 0o755);
    });
}

#[test]
fn an_empty_list_takes_the_list_away() {
    on_both(|scratch| {
        let folder = scratch.path("d");
        mkdir(&folder, 0o777);
        for (name, empty) in [(ACCESS, &b""[..]), (DEFAULT, &[2, 0, 0, 0])] {
            assert_eq!(set(&folder, name, FULL), Ok(0));
            assert_eq!(set_bytes(&folder, name, empty, 0), Ok(0));
            assert_eq!((get(&folder, name), names(&folder)), (Err(ENODATA), vec![]));
        }
        assert_eq!(mode(&folder), 0o750);
    });
}

#[test]
fn what_does_not_hold_together_is_refused() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o640);
        let good = list(FULL);
        let mut other_version = good.clone();
        for version in [0, 1, 3] {
            other_version[0] = version;
            assert_eq!(set_bytes(&file, ACCESS, &other_version, 0), Err(EOPNOTSUPP));
        }
        for length in [1, 3, 5, 11, good.len() - 1] {
            assert_eq!(set_bytes(&file, ACCESS, &good[..length], 0), Err(EINVAL), "{length}");
        }
        let refused: [Entries<'_>; 9] = [
            &[(OWNER, 7, NONE), (OWNER_GROUP, 4, NONE)],
            &[(OWNER, 7, NONE), (REST, 0, NONE)],
            &[(OWNER_GROUP, 4, NONE), (OWNER, 7, NONE), (REST, 0, NONE)],
            &[(OWNER, 8, NONE), (OWNER_GROUP, 4, NONE), (REST, 0, NONE)],
            &[(OWNER, 7, NONE), (OWNER_GROUP, 4, NONE), (REST, 0, NONE), (REST, 0, NONE)],
            &[(OWNER, 7, NONE), (NAMED_USER, 4, 5), (OWNER_GROUP, 4, NONE), (REST, 0, NONE)],
            &[(OWNER, 7, NONE), (OWNER_GROUP, 4, NONE), (MASK, 7, NONE), (NAMED_GROUP, 4, 5)],
            &[(OWNER, 7, NONE), (OWNER_GROUP, 4, NONE), (REST, 0, NONE), (64, 0, NONE)],
            &[
                (OWNER, 7, NONE),
                (NAMED_USER, 7, NONE),
                (OWNER_GROUP, 4, NONE),
                (MASK, 7, NONE),
                (REST, 0, NONE),
            ],
        ];
        for entries in refused {
            assert_eq!(set(&file, ACCESS, entries), Err(EINVAL), "{entries:?}");
        }
        assert_eq!((mode(&file), get(&file, ACCESS)), (0o640, Err(ENODATA)));
        // Ids are ignored in entries without one; names may come twice and in any order.
        let odd: Entries<'_> = &[
            (OWNER, 7, 3),
            (NAMED_USER, 4, 9),
            (NAMED_USER, 5, 8),
            (NAMED_USER, 6, 9),
            (OWNER_GROUP, 4, 4),
            (MASK, 7, 5),
            (REST, 0, 6),
        ];
        let mut kept = odd.to_vec();
        for at in [0, 4, 5, 6] {
            kept[at].2 = NONE;
        }
        assert_eq!(set(&file, ACCESS, odd), Ok(0));
        assert_eq!(get(&file, ACCESS), Ok(list(&kept)));
    });
}

#[test]
fn symbolic_links_have_none_and_only_directories_hand_on() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o640);
        let (link, fifo) = (scratch.path("l"), scratch.path("p"));
        std::os::unix::fs::symlink("f", &link).expect("symlink");
        // SAFETY: a NUL-terminated path.
        must(unsafe { mkfifo(c(&fifo).as_ptr(), 0o600) });
        for name in [ACCESS, DEFAULT] {
            assert_eq!(set(&link, name, FULL), Err(EOPNOTSUPP));
            assert_eq!(set_bytes(&link, name, b"x", 0), Err(EINVAL));
            assert_eq!(get(&link, name), Err(EOPNOTSUPP));
            assert_eq!(remove(&link, name), Err(EOPNOTSUPP));
        }
        assert_eq!(set(&fifo, ACCESS, FULL), Ok(0));
        assert_eq!((get(&fifo, ACCESS), mode(&fifo)), (Ok(list(FULL)), 0o750));
        for path in [&file, &fifo] {
            assert_eq!(set(path, DEFAULT, FULL), Err(EACCES));
            assert_eq!(set_bytes(path, DEFAULT, b"", 0), Ok(0));
            assert_eq!(remove(path, DEFAULT), Ok(0));
        }
        assert_eq!(set_bytes(&file, c"system.posix_acl", b"", 0), Err(EOPNOTSUPP));
        assert_eq!(get(&file, c"system.other"), Err(EOPNOTSUPP));
        // SAFETY: NUL-terminated strings and a value of its length.
        let followed = check(unsafe {
            setxattr(c(&link).as_ptr(), ACCESS.as_ptr(), list(FULL).as_ptr().cast(), 52, 0)
        });
        assert_eq!((followed, get(&file, ACCESS)), (Ok(0), Ok(list(FULL))));
    });
    isolated(|| {
        let file = Path::new("/proc/self/stat");
        assert_eq!(get(file, ACCESS), Err(EOPNOTSUPP));
        assert_eq!(set(file, ACCESS, FULL), Err(EOPNOTSUPP));
    });
}

#[test]
fn descriptors_reach_lists_too() {
    on_both(|scratch| {
        let fd = open(file(scratch, "f", 0o640), O_RDONLY, 0).expect("open");
        let value = list(FULL);
        let mut found = [0_u8; 100];
        let (name, room) = (ACCESS.as_ptr(), found.as_mut_ptr());
        // SAFETY: a NUL-terminated name and a value of its length.
        must(unsafe { fsetxattr(fd, name, value.as_ptr().cast(), value.len(), 0) });
        // SAFETY: a NUL-terminated name, and no room.
        assert_eq!(must(unsafe { fgetxattr(fd, name, room.cast(), 0) } as i64), 52);
        // SAFETY: a NUL-terminated name, and room of that length.
        assert_eq!(check(unsafe { fgetxattr(fd, name, room.cast(), 51) } as i64), Err(ERANGE));
        // SAFETY: a NUL-terminated name.
        must(unsafe { fremovexattr(fd, name) });
        // SAFETY: room of that length.
        let length = must(unsafe { flistxattr(fd, room.cast(), 100) } as i64) as usize;
        // Where files have labels, the name of that attribute stays.
        let mut names = found[..length].split(|byte| *byte == 0);
        assert!(!names.any(|left| left == ACCESS.to_bytes()), "{found:?}");
        close(fd);
    });
}

#[test]
fn only_owners_set_lists_and_foreign_groups_lose_setgid() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o2750);
        let link = scratch.path("l");
        std::os::unix::fs::symlink("f", &link).expect("symlink");
        as_user(3000, &[OTHER], || {
            assert_eq!(set(&file, ACCESS, FULL), Err(EPERM));
            assert_eq!(set(&file, ACCESS, &FULL[1..]), Err(EPERM));
            assert_eq!(set_bytes(&file, ACCESS, b"x", 0), Err(EINVAL));
            assert_eq!(set_bytes(&file, ACCESS, b"", 0), Err(EPERM));
            assert_eq!(remove(&file, ACCESS), Err(EPERM));
            assert_eq!(set(&file, DEFAULT, FULL), Err(EACCES));
            assert_eq!(remove(&file, DEFAULT), Ok(0));
            assert_eq!(set(&link, ACCESS, FULL), Err(EOPNOTSUPP));
            assert_eq!(get(&file, ACCESS), Err(ENODATA), "asking needs no right");
        });
        as_user(USER, &[OTHER], || assert_eq!(set(&file, ACCESS, FULL), Ok(0)));
        assert_eq!(mode(&file), 0o2750, "a member may keep it");
        as_user(USER, &[], || assert_eq!(set(&file, ACCESS, MINIMAL), Ok(0)));
        assert_eq!(mode(&file), 0o740);
        chmod(&file, 0o2750);
        assert_eq!(set(&file, ACCESS, FULL), Ok(0));
        assert_eq!(mode(&file), 0o2750, "the superuser may");
    });
}

#[test]
fn taking_a_list_away_takes_setgid_with_it_in_memory_alone() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o2750);
        let left = if file.starts_with("/dev/shm") { 0o750 } else { 0o2750 };
        as_user(USER, &[], || assert_eq!(remove(&file, ACCESS), Ok(0)));
        assert_eq!(mode(&file), left, "although there was none");
        chmod(&file, 0o2750);
        as_user(USER, &[], || assert_eq!(set_bytes(&file, ACCESS, b"", 0), Ok(0)));
        assert_eq!(mode(&file), left);
        chmod(&file, 0o2750);
        as_user(USER, &[OTHER], || assert_eq!(remove(&file, ACCESS), Ok(0)));
        assert_eq!(mode(&file), 0o2750, "a member keeps it");
        assert_eq!(remove(&file, ACCESS), Ok(0));
        assert_eq!(mode(&file), 0o2750, "and so does the superuser");
    });
}

#[test]
fn the_mode_moves_owner_mask_and_others() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o640);
        assert_eq!(set(&file, ACCESS, FULL), Ok(0));
        chmod(&file, 0o4623);
        assert_eq!(mode(&file), 0o4623);
        assert_eq!(permissions(&get(&file, ACCESS).unwrap()), [6, 7, 4, 6, 2, 3]);
        chown(&file, 3000, 3000);
        assert_eq!(mode(&file), 0o623);
        assert_eq!(permissions(&get(&file, ACCESS).unwrap()), [6, 7, 4, 6, 2, 3]);
    });
}

#[test]
fn the_first_entry_that_fits_decides() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o640);
        let entries: Entries<'_> = &[
            (OWNER, 2, NONE),
            (NAMED_USER, 7, 3000),
            (NAMED_USER, 0, 4000),
            (OWNER_GROUP, 4, NONE),
            (NAMED_GROUP, 3, TEAM),
            (MASK, 5, NONE),
            (REST, 6, NONE),
        ];
        assert_eq!(set(&file, ACCESS, entries), Ok(0));
        assert_eq!(mode(&file), 0o256);
        assert_eq!(rights(&file, USER, &[OTHER]), 2, "the owner");
        assert_eq!(rights(&file, 3000, &[]), 5, "a user, less the mask");
        assert_eq!(rights(&file, 4000, &[OTHER, TEAM]), 0, "a user who gets nothing");
        assert_eq!(rights(&file, 5000, &[OTHER]), 4, "the file's group");
        assert_eq!(rights(&file, 5000, &[TEAM]), 1, "a group, less the mask");
        assert_eq!(rights(&file, 5000, &[]), 6, "others");
        as_user(5000, &[OTHER, TEAM], || {
            assert_eq!((access(&file, R_OK), access(&file, X_OK)), (Ok(0), Ok(0)));
            assert_eq!(access(&file, R_OK | X_OK), Err(EACCES), "no group allows both");
            assert_eq!(open(&file, O_RDWR, 0), Err(EACCES));
            close(open(&file, O_RDONLY, 0).expect("open"));
        });
        assert_eq!(access(&file, R_OK | W_OK | X_OK), Ok(0), "the superuser");
        // If the mask has no rights the list is not evaluated.
        chmod(&file, 0o604);
        assert_eq!(rights(&file, 4000, &[]), 4);
        assert_eq!(rights(&file, 5000, &[OTHER]), 0);
        chmod(&file, 0o644);
        assert_eq!(rights(&file, 4000, &[]), 0);
    });
}

#[test]
fn directories_are_searched_and_changed_as_their_lists_say() {
    on_both(|scratch| {
        let folder = scratch.path("d");
        mkdir(&folder, 0o700);
        let inner = file(scratch, "d/f", 0o666);
        let entries: Entries<'_> = &[
            (OWNER, 7, NONE),
            (NAMED_USER, 7, USER),
            (NAMED_USER, 0, OTHER),
            (OWNER_GROUP, 5, NONE),
            (MASK, 7, NONE),
            (REST, 5, NONE),
        ];
        assert_eq!(set(&folder, ACCESS, entries), Ok(0));
        assert_eq!(mode(&folder), 0o775);
        as_user(USER, &[], || {
            close(open(folder.join("mine"), O_CREAT | O_WRONLY, 0o600).expect("creating"));
        });
        as_user(OTHER, &[], || assert_eq!(open(&inner, O_RDONLY, 0), Err(EACCES)));
        as_user(3000, &[], || {
            close(open(&inner, O_RDONLY, 0).expect("open"));
            assert_eq!(open(folder.join("new"), O_CREAT | O_WRONLY, 0o600), Err(EACCES));
        });
        // The mode allows everyone; the list names the users that are refused.
        chmod(&folder, 0o777);
        as_user(OTHER, &[], || assert_eq!(open(&inner, O_RDONLY, 0), Err(EACCES)));
        assert_eq!(remove(&folder, ACCESS), Ok(0));
        as_user(OTHER, &[], || close(open(&inner, O_RDONLY, 0).expect("open")));
    });
}

#[test]
fn what_is_made_gets_the_list_of_its_directory_instead_of_the_umask() {
    on_both(|scratch| {
        let folder = scratch.path("d");
        mkdir(&folder, 0o777);
        assert_eq!(set(&folder, DEFAULT, FULL), Ok(0));
        assert_eq!(mode(&folder), 0o755, "for itself it says nothing");
        // SAFETY: a plain number.
        unsafe { umask(0o077) };
        let [file, inner, fifo, link] = ["f", "i", "p", "l"].map(|name| folder.join(name));
        close(open(&file, O_CREAT | O_RDWR, 0o666).expect("creating"));
        mkdir(&inner, 0o777);
        // SAFETY: a NUL-terminated path.
        must(unsafe { mkfifo(c(&fifo).as_ptr(), 0o622) });
        std::os::unix::fs::symlink("f", &link).expect("symlink");
        assert_eq!((mode(&file), names(&file)), (0o640, vec![ACCESS]));
        assert_eq!(permissions(&get(&file, ACCESS).unwrap()), [6, 7, 4, 6, 4, 0]);
        assert_eq!((mode(&inner), names(&inner)), (0o750, vec![ACCESS, DEFAULT]));
        assert_eq!(get(&inner, ACCESS), Ok(list(FULL)));
        assert_eq!(get(&inner, DEFAULT), Ok(list(FULL)));
        assert_eq!(permissions(&get(&fifo, ACCESS).unwrap()), [6, 7, 4, 6, 0, 0]);
        assert_eq!(mode(&fifo), 0o600);
        assert!(names(&link).is_empty());
        mkdir(&inner.join("deeper"), 0o700);
        assert_eq!(names(&inner.join("deeper")), [ACCESS, DEFAULT]);
        let fd = open(&folder, O_TMPFILE | O_RDWR, 0o666).expect("a file without a name");
        let path = PathBuf::from(format!("/proc/self/fd/{fd}"));
        assert_eq!(mode(&path), 0o640);
        close(fd);
        as_user(USER, &[], || close(open(&file, O_RDONLY, 0).expect("the list lets him")));
        // A list that is only a mode gives modes.
        assert_eq!(set(&folder, DEFAULT, MINIMAL), Ok(0));
        let plain = folder.join("plain");
        close(open(&plain, O_CREAT | O_RDWR, 0o666).expect("creating"));
        assert_eq!((mode(&plain), names(&plain)), (0o640, vec![]));
        assert_eq!(remove(&folder, DEFAULT), Ok(0));
        close(open(folder.join("last"), O_CREAT | O_RDWR, 0o666).expect("creating"));
        assert_eq!(mode(&folder.join("last")), 0o600, "the umask again");
        // SAFETY: a plain number.
        unsafe { umask(0o022) };
    });
}

#[test]
fn a_list_on_disk_ends_where_its_block_does() {
    on_both(|scratch| {
        let file = file(scratch, "f", 0o640);
        let long = |count: u32| {
            let users = (0..count).map(|number| (NAMED_USER, 4, 1000 + number));
            let ends = [FULL[2], FULL[4], FULL[5]];
            FULL[..1].iter().copied().chain(users).chain(ends).collect::<Vec<_>>()
        };
        // Headers, an end mark and the entries without a name are the rest of the block.
        // SAFETY: plain numbers.
        let mut usage: statvfs = unsafe { abi::zeroed() };
        // SAFETY: a NUL-terminated path and room for the answer.
        must(unsafe { statvfs(c(&file).as_ptr(), &mut usage) });
        let most = (usage.f_bsize as u32 - 72) / 8;
        assert_eq!(set(&file, ACCESS, &long(most)), Ok(0));
        assert_eq!(get(&file, ACCESS), Ok(list(&long(most))));
        let too_long = set(&file, ACCESS, &long(most + 1));
        if file.starts_with("/dev/shm") {
            assert_eq!(too_long, Ok(0));
        } else {
            assert_eq!(too_long, Err(ENOSPC));
            assert_eq!(get(&file, ACCESS), Ok(list(&long(most))));
        }
        assert_eq!(set_bytes(&file, ACCESS, &vec![0; 65_537], 0), Err(E2BIG));
    });
}
