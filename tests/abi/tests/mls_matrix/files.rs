//! Files and names: `docs/mls.md`.
use crate::{
    Row, done, executes,
    place::{
        self, Attempt, Place, device, fifo, file, file_in_own, folder, folder_in_own, link,
        multilevel, program, relabel, script,
    },
    policy::Cell,
    raw,
    rule::{Errors, LEFT_OUT, Rule},
};
use abi::{Ended, c, check, close, fork, wait};
use libc::*;
use std::{ffi::CStr, fs, path::Path};

const DENIED: Errors = Errors::all(EACCES);

/// Opens and closes.
fn opens(path: &Path, flags: i32) -> Result<(), i32> {
    abi::open(path, flags, 0o666).map(close)
}

fn inner(it: &Attempt<'_>) -> std::path::PathBuf {
    it.place.path.join("inner")
}

fn accesses(path: &Path, mode: i32) -> Result<(), i32> {
    done(check(unsafe { access(c(path).as_ptr(), mode) }))
}

fn sets(path: &Path, name: &CStr, value: &[u8]) -> Result<(), i32> {
    done(check(unsafe {
        lsetxattr(c(path).as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    }))
}

/// A row of files without privileges.
fn row(
    doc: &'static str,
    name: &'static str,
    rule: Rule,
    prepare: fn(&Place),
    attempt: fn(&Attempt<'_>) -> Result<(), i32>,
) -> Row {
    Row { doc, name, rule, errors: DENIED, prepare, attempt }
}

pub fn rows() -> Vec<Row> {
    [walks(), opened(), executed(), made(), removed(), changed(), excepted(), hidden()]
        .into_iter()
        .flatten()
        .collect()
}

fn walks() -> Vec<Row> {
    const END: &str = "the end of every walk: stat, O_PATH, readlink, chdir, attributes";
    vec![
        row("search a directory", "stat", Rule::Read, folder, |it| abi::stat(inner(it)).map(drop)),
        row("search a directory", "open", Rule::Read, folder, |it| opens(&inner(it), O_RDWR)),
        row(
            "find the hidden directory of one's level in a multilevel one",
            "stat",
            Rule::Read,
            multilevel,
            |it| {
                let found = abi::stat(&it.place.path)?;
                // The test made no name there. So a level above has a directory of its own.
                let own = fs::read_dir(&it.place.path).map_err(raw)?.count();
                assert_eq!(own, 0, "{:?}", it.cell);
                let other = abi::stat(it.place.path.join("."))?;
                assert_eq!(found.st_ino, other.st_ino);
                Ok(())
            },
        ),
        row(END, "stat", Rule::Read, file, |it| abi::stat(&it.place.path).map(drop)),
        row(END, "O_PATH", Rule::Read, file, |it| opens(&it.place.path, O_PATH)),
        row(END, "readlink", Rule::Read, link, |it| {
            fs::read_link(inner(it)).map(drop).map_err(raw)
        }),
        row(END, "chdir", Rule::Read, folder, |it| {
            std::env::set_current_dir(&it.place.path).map_err(raw)?;
            std::env::set_current_dir("/").map_err(raw)
        }),
        row(END, "getxattr", Rule::Read, file, |it| {
            let (path, name, mut text) = (c(&it.place.path), c"security.selinux", [0u8; 256]);
            let into = text.as_mut_ptr().cast();
            done(check(unsafe { getxattr(path.as_ptr(), name.as_ptr(), into, 256) as i64 }))
        }),
        row(END, "statfs", Rule::Read, file, |it| {
            let mut found: statfs = unsafe { abi::zeroed() };
            done(check(unsafe { statfs(c(&it.place.path).as_ptr(), &mut found) }))
        }),
        row(END, "inotify_add_watch", Rule::Read, file, |it| {
            let watch = abi::must(unsafe { inotify_init1(0) }) as i32;
            let path = c(&it.place.path);
            let found = check(unsafe { inotify_add_watch(watch, path.as_ptr(), IN_MODIFY) });
            close(watch);
            found.map(drop)
        }),
        row("follow a symbolic link", "stat", Rule::Read, link, |it| {
            abi::stat(inner(it)).map(drop)
        }),
        row("follow a symbolic link", "open", Rule::Read, link, |it| opens(&inner(it), O_RDONLY)),
    ]
}

fn opened() -> Vec<Row> {
    const OPEN: &str = "open, access, truncate; a FIFO opened to read also needs write";
    const LOCK: &str = "lock a file";
    vec![
        row(OPEN, "read", Rule::Read, file, |it| opens(&it.place.path, O_RDONLY)),
        row(OPEN, "write", Rule::Write, file, |it| opens(&it.place.path, O_WRONLY)),
        row(OPEN, "read and write", Rule::Write, file, |it| opens(&it.place.path, O_RDWR)),
        row(OPEN, "O_TRUNC", Rule::Write, file, |it| opens(&it.place.path, O_WRONLY | O_TRUNC)),
        row(OPEN, "O_CREAT of a file that is there", Rule::Write, file, |it| {
            opens(&it.place.path, O_WRONLY | O_CREAT)
        }),
        row(OPEN, "read a directory", Rule::Read, folder, |it| {
            fs::read_dir(&it.place.path).map(drop).map_err(raw)
        }),
        row(OPEN, "read a FIFO", Rule::Write, fifo, |it| {
            opens(&it.place.path, O_RDONLY | O_NONBLOCK)
        }),
        row(OPEN, "read and write a FIFO", Rule::Write, fifo, |it| {
            opens(&it.place.path, O_RDWR | O_NONBLOCK)
        }),
        row(
            "open a character device to read, which takes input away",
            "open",
            Rule::Equal,
            device,
            |it| opens(&it.place.path, O_RDONLY | O_NONBLOCK),
        ),
        row(OPEN, "R_OK", Rule::Read, file, |it| accesses(&it.place.path, R_OK)),
        row(OPEN, "W_OK", Rule::Write, file, |it| accesses(&it.place.path, W_OK)),
        row(OPEN, "X_OK", Rule::Execute, program, |it| accesses(&it.place.path, X_OK)),
        row(OPEN, "X_OK of a directory", Rule::Read, folder, |it| accesses(&it.place.path, X_OK)),
        row(OPEN, "truncate", Rule::Write, file, |it| {
            done(check(unsafe { truncate(c(&it.place.path).as_ptr(), 3) }))
        }),
        row(LOCK, "flock", Rule::Write, file, |it| {
            let fd = abi::open(&it.place.path, O_RDONLY, 0)?;
            let found = check(unsafe { flock(fd, LOCK_SH | LOCK_NB) });
            close(fd);
            found.map(drop)
        }),
        row(LOCK, "F_SETLK", Rule::Write, file, |it| {
            let fd = abi::open(&it.place.path, O_RDONLY, 0)?;
            let mut lock: flock = unsafe { abi::zeroed() };
            lock.l_type = F_RDLCK as i16;
            let found = check(unsafe { fcntl(fd, F_SETLK, &lock) });
            close(fd);
            found.map(drop)
        }),
        row(LOCK, "F_OFD_SETLK", Rule::Write, file, |it| {
            let fd = abi::open(&it.place.path, O_RDONLY, 0)?;
            let mut lock: flock = unsafe { abi::zeroed() };
            lock.l_type = F_RDLCK as i16;
            let found = check(unsafe { fcntl(fd, F_OFD_SETLK, &lock) });
            close(fd);
            found.map(drop)
        }),
    ]
}

fn executed() -> Vec<Row> {
    const EXECUTE: &str = "execute a program, also its interpreter";
    vec![
        row(EXECUTE, "a program", Rule::Execute, program, |it| executes(&it.place.path)),
        row(EXECUTE, "an interpreter", Rule::Execute, script, |it| {
            executes(&it.place.path.join("script"))
        }),
    ]
}

fn made() -> Vec<Row> {
    const MAKE: &str = "make a name";
    vec![
        row("make a name that begins with `.mls:`", "mkdir", Rule::Nobody, folder, |it| {
            fs::create_dir(it.place.path.join(".mls:s3")).map_err(raw)
        }),
        row("make a name that begins with `.mls:`", "open", Rule::Nobody, multilevel, |it| {
            opens(&it.place.path.join(".mls:s3"), O_RDWR | O_CREAT)
        }),
        row(MAKE, "open", Rule::Write, folder, |it| {
            opens(&it.place.path.join("new"), O_RDWR | O_CREAT)
        }),
        row(MAKE, "mkdir", Rule::Write, folder, |it| {
            fs::create_dir(it.place.path.join("new")).map_err(raw)
        }),
        row(MAKE, "symlink", Rule::Write, folder, |it| {
            std::os::unix::fs::symlink("a", it.place.path.join("new")).map_err(raw)
        }),
        row(MAKE, "mkfifo", Rule::Write, folder, |it| {
            done(check(unsafe { mkfifo(c(it.place.path.join("new")).as_ptr(), 0o600) }))
        }),
        row(MAKE, "bind", Rule::Write, folder, |it| {
            std::os::unix::net::UnixListener::bind(it.place.path.join("new")).map(drop).map_err(raw)
        }),
        row(MAKE, "O_TMPFILE", Rule::Write, folder, |it| opens(&it.place.path, O_TMPFILE | O_RDWR)),
    ]
}

fn removed() -> Vec<Row> {
    const REMOVE: &str = "remove or move a name";
    const LINK: &str = "give another name";
    vec![
        row(REMOVE, "unlink, the object", Rule::Write, file_in_own, |it| {
            fs::remove_file(inner(it)).map_err(raw)
        }),
        row(REMOVE, "unlink, the directory", Rule::Write, folder, |it| {
            fs::remove_file(inner(it)).map_err(raw)
        }),
        row(REMOVE, "rmdir, the object", Rule::Write, folder_in_own, |it| {
            fs::remove_file(inner(it).join("file")).map_err(raw)?;
            fs::remove_dir(inner(it)).map_err(raw)
        }),
        row(REMOVE, "rename, the object", Rule::Write, file_in_own, |it| {
            fs::rename(inner(it), it.place.path.join("new")).map_err(raw)
        }),
        row(REMOVE, "rename, the directory", Rule::Write, folder, |it| {
            fs::rename(inner(it), it.place.path.join("new")).map_err(raw)
        }),
        row(REMOVE, "rename, the object that makes place", Rule::Write, file_in_own, |it| {
            fs::rename(it.place.path.join("own"), inner(it)).map_err(raw)
        }),
        row(REMOVE, "rename, the other directory", Rule::Write, folder_in_own, |it| {
            fs::rename(it.place.path.join("own/file"), inner(it).join("new")).map_err(raw)
        }),
        row(REMOVE, "RENAME_EXCHANGE", Rule::Write, file_in_own, |it| {
            let (one, other) = (c(inner(it)), c(it.place.path.join("own")));
            let at = AT_FDCWD;
            done(check(unsafe {
                syscall(SYS_renameat2, at, one.as_ptr(), at, other.as_ptr(), RENAME_EXCHANGE)
            }))
        }),
        row(LINK, "the object", Rule::Write, file_in_own, |it| {
            fs::hard_link(inner(it), it.place.path.join("new")).map_err(raw)
        }),
        row(LINK, "the directory", Rule::Write, folder, |it| {
            fs::hard_link(inner(it), it.place.path.join("new")).map_err(raw)
        }),
    ]
}

fn changed() -> Vec<Row> {
    const CHANGE: &str = "change mode, owner, times or inode flags";
    const ATTRIBUTES: &str = "set or remove extended attributes and lists";
    /// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`.
    const FLAGS: [u64; 2] = [0x8008_6601, 0x4008_6602];
    vec![
        row(CHANGE, "chmod", Rule::Write, file, |it| {
            done(check(unsafe { chmod(c(&it.place.path).as_ptr(), 0o700) }))
        }),
        row(CHANGE, "fchmod", Rule::Write, file, |it| {
            let fd = abi::open(&it.place.path, O_RDONLY, 0)?;
            let found = check(unsafe { fchmod(fd, 0o700) });
            close(fd);
            found.map(drop)
        }),
        row(CHANGE, "chown", Rule::Write, file, |it| {
            done(check(unsafe { chown(c(&it.place.path).as_ptr(), 1000, 1000) }))
        }),
        row(CHANGE, "lchown", Rule::Write, link, |it| {
            done(check(unsafe { lchown(c(inner(it)).as_ptr(), 1000, 1000) }))
        }),
        row(CHANGE, "utimensat", Rule::Write, file, |it| {
            let path = c(&it.place.path);
            done(check(unsafe { utimensat(AT_FDCWD, path.as_ptr(), std::ptr::null(), 0) }))
        }),
        row(CHANGE, "inode flags", Rule::Write, file, |it| {
            let fd = abi::open(&it.place.path, O_RDONLY, 0)?;
            let mut flags = 0u32;
            if check(unsafe { ioctl(fd, FLAGS[0] as _, &mut flags) }).is_err() {
                // This file system has none: the mode stands in.
                let found = check(unsafe { fchmod(fd, 0o700) });
                close(fd);
                return found.map(drop);
            }
            let found = check(unsafe { ioctl(fd, FLAGS[1] as _, &flags) });
            close(fd);
            found.map(drop)
        }),
        row(ATTRIBUTES, "setxattr", Rule::Write, file, |it| {
            sets(&it.place.path, c"user.name", b"value")
        }),
        row(ATTRIBUTES, "trusted", Rule::Write, file, |it| {
            sets(&it.place.path, c"trusted.name", b"value")
        }),
        row(ATTRIBUTES, "removexattr", Rule::Write, attribute, |it| {
            let path = c(&it.place.path);
            done(check(unsafe { removexattr(path.as_ptr(), c"user.name".as_ptr()) }))
        }),
        row(ATTRIBUTES, "an access list", Rule::Write, file, |it| {
            sets(&it.place.path, c"system.posix_acl_access", &LIST)
        }),
        row(ATTRIBUTES, "removal of an access list", Rule::Write, listed, |it| {
            let (path, name) = (c(&it.place.path), c"system.posix_acl_access");
            done(check(unsafe { removexattr(path.as_ptr(), name.as_ptr()) }))
        }),
        row(ATTRIBUTES, "file capabilities", Rule::Write, file, |it| {
            let mut value = [0u8; 20];
            value[3] = 2;
            sets(&it.place.path, c"security.capability", &value)
        }),
    ]
}

/// An access list with a named user: version 2; owner 7, user 1000: 7, group 7, mask 7, others 7.
const LIST: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 7, 0, 232, 3, 0, 0, 4, 0, 7, 0, 255, 255,
    255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255, 255,
];

fn attribute(place: &Place) {
    file(place);
    sets(&place.path, c"user.name", b"value").expect("an attribute");
}

fn listed(place: &Place) {
    file(place);
    sets(&place.path, c"system.posix_acl_access", &LIST).expect("a list");
}

/// A multilevel folder with the label, in which is a hidden folder of a level above all others.
fn divided(place: &Place) {
    multilevel(place);
    let child = fork(|| {
        let above = "system_u:system_r:kernel_t:s5:c0.c9-s15:c0.c1023";
        fs::write("/proc/thread-self/attr/current", above).expect("another level");
        abi::stat(&place.path).expect("the hidden folder");
    });
    assert_eq!(wait(child), Ended::Exited(0));
}

/// A row of files for subjects with and without a privilege.
fn privileged(
    (doc, name): (&'static str, &'static str),
    rule: Rule,
    errors: Errors,
    prepare: fn(&Place),
    attempt: fn(&Attempt<'_>) -> Result<(), i32>,
) -> Row {
    Row { doc, name, rule, errors, prepare, attempt }
}

fn hidden() -> Vec<Row> {
    const HIDDEN: &str = "find a hidden directory by its name, list those names";
    vec![
        privileged(
            (HIDDEN, "by its name"),
            Rule::With("read-up", &Rule::NotBelow, &Rule::Nobody),
            Errors::hidden(EACCES, ENOENT),
            divided,
            |it| abi::stat(it.place.path.join(".mls:s5:c0.c9")).map(drop),
        ),
        privileged(
            (HIDDEN, "in a list"),
            Rule::With("read-up", &Rule::NotBelow, &Rule::Nobody),
            Errors::hidden(EACCES, LEFT_OUT),
            divided,
            |it| {
                let count = fs::read_dir(&it.place.path).map_err(raw)?.count();
                if count == 1 { Ok(()) } else { Err(LEFT_OUT) }
            },
        ),
    ]
}

fn excepted() -> Vec<Row> {
    const RELABEL: &str = "relabel (`security.selinux`)";
    const MOUNT: &str = "mount, move, remount, unmount";
    const MOUNTS: Rule = Rule::With("mount", &Rule::Read, &Rule::Nobody);
    let devices = Rule::With("raw-devices", &Rule::Write, &Rule::Nobody);
    let mounting = DENIED.lacking(EPERM);
    vec![
        privileged(("make a device", "mknod"), devices, DENIED.lacking(EPERM), folder, |it| {
            let path = c(it.place.path.join("new"));
            done(check(unsafe { mknod(path.as_ptr(), S_IFCHR | 0o600, makedev(1, 3)) }))
        }),
        privileged(
            (RELABEL, "another type"),
            Rule::With("relabel", &Rule::Write, &Rule::Nobody),
            Errors::named(EPERM, EACCES).unread(EACCES).lacking_first(EPERM),
            file,
            |it| {
                let other = Cell { relation: it.cell.relation, grade: it.subject.grade };
                sets(&it.place.path, c"security.selinux", other.multilevel().as_bytes())
            },
        ),
        privileged((MOUNT, "mount"), MOUNTS, mounting, folder, |it| {
            let (at, kind) = (c(&it.place.path), c"tmpfs".as_ptr());
            check(unsafe { mount(kind, at.as_ptr(), kind, 0, std::ptr::null()) })?;
            done(check(unsafe { umount2(at.as_ptr(), 0) }))
        }),
        privileged((MOUNT, "bind"), MOUNTS, mounting, folder, |it| {
            let (at, nothing) = (c(&it.place.path), std::ptr::null());
            check(unsafe { mount(at.as_ptr(), at.as_ptr(), nothing, MS_BIND, nothing.cast()) })?;
            done(check(unsafe { umount2(at.as_ptr(), 0) }))
        }),
        privileged((MOUNT, "remount"), MOUNTS, mounting, mounted, |it| {
            let (at, nothing) = (c(&it.place.path), std::ptr::null());
            let flags = MS_REMOUNT | MS_BIND | MS_NOATIME;
            done(check(unsafe { mount(nothing, at.as_ptr(), nothing, flags, nothing.cast()) }))
        }),
        privileged((MOUNT, "unmount"), MOUNTS, mounting, mounted, |it| {
            done(check(unsafe { umount2(c(&it.place.path).as_ptr(), 0) }))
        }),
    ]
}

/// A mount of a file system in memory with the label, at a folder of the subject's.
fn mounted(place: &Place) {
    place::open_folder(&place.path);
    relabel(&place.path, &place.own);
    let (at, kind) = (c(&place.path), c"tmpfs".as_ptr());
    let options = c(format!("size=64k,mode=777,rootcontext=\"{}\"", place.object));
    abi::must(unsafe { mount(kind, at.as_ptr(), kind, 0, options.as_ptr().cast()) });
}
