//! Users and permissions on files: classes, sticky and setgid directories, umask, chmod and chown,
//! privileges lost by writing, protected links (path_resolution(7), chmod(2), chown(2), proc_sys_fs(5)).
//! Run as root.
use abi::{Scratch, c, check, close, identity::as_user, isolated, must, open, stat, write};
use libc::*;
use std::path::Path;

const USER: u32 = 1000;
const OTHER: u32 = 2000;

fn chmod(path: impl AsRef<Path>, mode: u32) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::chmod(c(path).as_ptr(), mode) })
}

fn chown(path: impl AsRef<Path>, user: u32, group: u32) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::chown(c(path).as_ptr(), user, group) })
}

fn unlink(path: impl AsRef<Path>) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::unlink(c(path).as_ptr()) })
}

fn link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<i64, i32> {
    // SAFETY: NUL-terminated paths.
    check(unsafe { libc::link(c(from).as_ptr(), c(to).as_ptr()) })
}

fn mkdir(path: impl AsRef<Path>, mode: u32) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::mkdir(c(path).as_ptr(), mode) })
}

fn access(path: impl AsRef<Path>, want: i32, flags: i32) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { syscall(SYS_faccessat2, AT_FDCWD, c(path).as_ptr(), want, flags) })
}

fn mode(path: impl AsRef<Path>) -> u32 {
    stat(path).expect("stat").st_mode & 0o7777
}

const KEEP: u32 = u32::MAX;

/// Makes a scratch folder with `mode` in which every user may work.
fn scratch(mode: u32) -> Scratch {
    let scratch = Scratch::new();
    chmod(scratch.path(""), mode).expect("chmod");
    scratch
}

/// Makes a file in it with owner, group and mode.
fn file(scratch: &Scratch, name: &str, owner: (u32, u32), mode: u32) -> std::path::PathBuf {
    let path = scratch.file(name, b"text");
    chown(&path, owner.0, owner.1).expect("chown");
    chmod(&path, mode).expect("chmod");
    path
}

/// Sets a rule of /proc/sys/fs for the length of `body`.
fn with_rule(name: &str, level: &str, body: impl FnOnce()) {
    let path = format!("/proc/sys/fs/{name}");
    let before = std::fs::read(&path).expect("the rule");
    std::fs::write(&path, level).expect("setting the rule");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    std::fs::write(&path, before).expect("setting the rule back");
    assert!(result.is_ok(), "its message is above");
}

#[test]
fn the_first_class_that_fits_decides() {
    isolated(|| {
        let scratch = scratch(0o755);
        let path = file(&scratch, "f", (USER, OTHER), 0o037);
        as_user(USER, &[OTHER], || assert_eq!(open(&path, O_RDONLY, 0), Err(EACCES)));
        as_user(3000, &[OTHER], || {
            assert_eq!(open(&path, O_RDONLY, 0), Err(EACCES));
            assert_eq!(access(&path, W_OK | X_OK, 0), Ok(0));
        });
        as_user(3000, &[], || assert!(open(&path, O_RDWR, 0).is_ok()));
    });
}

#[test]
fn the_superuser_needs_some_execute_bit_only() {
    isolated(|| {
        let scratch = scratch(0o700);
        let path = file(&scratch, "f", (USER, USER), 0);
        assert!(open(&path, O_RDWR, 0).is_ok());
        assert_eq!(access(&path, X_OK, 0), Err(EACCES));
        chmod(&path, 0o001).expect("chmod");
        assert_eq!(access(&path, X_OK, 0), Ok(0));
    });
}

#[test]
fn a_sticky_directory_lets_owners_remove_and_rename_only() {
    isolated(|| {
        let scratch = scratch(0o1777);
        let mine = file(&scratch, "mine", (USER, USER), 0o666);
        let yours = file(&scratch, "yours", (OTHER, OTHER), 0o666);
        as_user(USER, &[], || {
            assert_eq!(unlink(&yours), Err(EPERM));
            let rename = |from: &Path, to: &Path| {
                // SAFETY: NUL-terminated paths.
                check(unsafe { libc::rename(c(from).as_ptr(), c(to).as_ptr()) })
            };
            assert_eq!(rename(&yours, &scratch.path("z")), Err(EPERM));
            assert_eq!(rename(&mine, &yours), Err(EPERM), "it would remove the other");
            assert_eq!(unlink(&mine), Ok(0));
        });
        chown(scratch.path(""), USER, USER).expect("chown");
        as_user(USER, &[], || assert_eq!(unlink(&yours), Ok(0), "the directory's owner may"));
        chown(scratch.path(""), 0, 0).expect("chown");
    });
}

#[test]
fn a_setgid_directory_gives_its_group_and_its_bit() {
    isolated(|| {
        let scratch = scratch(0o777);
        chown(scratch.path(""), KEEP, 77).expect("chown");
        chmod(scratch.path(""), 0o2777).expect("chmod");
        as_user(USER, &[], || {
            close(open(scratch.path("f"), O_CREAT | O_RDWR, 0o2775).expect("creating"));
            let status = stat(scratch.path("f")).expect("stat");
            assert_eq!((status.st_uid, status.st_gid), (USER, 77));
            assert_eq!(status.st_mode & 0o7777, 0o755, "no setgid program for a foreign group");
            mkdir(scratch.path("d"), 0o755).expect("mkdir");
            let status = stat(scratch.path("d")).expect("stat");
            assert_eq!((status.st_gid, status.st_mode & 0o7777), (77, 0o2755));
        });
        as_user(USER, &[77], || {
            close(open(scratch.path("g"), O_CREAT | O_RDWR, 0o2755).expect("creating"));
            assert_eq!(mode(scratch.path("g")), 0o2755, "a member may make one");
        });
    });
}

#[test]
fn umask_takes_bits_from_what_is_made() {
    isolated(|| {
        let scratch = scratch(0o755);
        // SAFETY: plain numbers, here and below.
        unsafe { umask(0o027) };
        // SAFETY: as above.
        assert_eq!(unsafe { umask(0o7027) }, 0o027);
        // SAFETY: as above.
        assert_eq!(unsafe { umask(0o027) }, 0o027, "permission bits only");
        close(open(scratch.path("f"), O_CREAT | O_RDWR, 0o6777).expect("creating"));
        assert_eq!(mode(scratch.path("f")), 0o6750);
        mkdir(scratch.path("d"), 0o7777).expect("mkdir");
        assert_eq!(mode(scratch.path("d")), 0o1750);
        // SAFETY: NUL-terminated path.
        must(unsafe { mkfifo(c(scratch.path("p")).as_ptr(), 0o666) });
        assert_eq!(mode(scratch.path("p")), 0o640);
    });
}

#[test]
fn only_owners_change_modes_and_foreign_groups_lose_setgid() {
    isolated(|| {
        let scratch = scratch(0o777);
        let path = file(&scratch, "f", (USER, 77), 0o644);
        as_user(OTHER, &[], || assert_eq!(chmod(&path, 0o777), Err(EPERM)));
        as_user(USER, &[], || {
            chmod(&path, 0o6755).expect("chmod");
            assert_eq!(mode(&path), 0o4755);
        });
        as_user(USER, &[77], || {
            chmod(&path, 0o6755).expect("chmod");
            assert_eq!(mode(&path), 0o6755);
        });
        chmod(&path, 0o6711).expect("chmod");
        assert_eq!(mode(&path), 0o6711, "the superuser may");
    });
}

#[test]
fn owners_give_files_to_their_groups_only() {
    isolated(|| {
        let scratch = scratch(0o777);
        let path = file(&scratch, "f", (USER, USER), 0o644);
        as_user(USER, &[77], || {
            assert_eq!(chown(&path, KEEP, 77), Ok(0));
            assert_eq!(chown(&path, USER, USER), Ok(0));
            assert_eq!(chown(&path, KEEP, 78), Err(EPERM));
            assert_eq!(chown(&path, OTHER, KEEP), Err(EPERM));
        });
        as_user(OTHER, &[77], || assert_eq!(chown(&path, KEEP, 77), Err(EPERM)));
    });
}

#[test]
fn a_change_of_owner_takes_setuid_and_setgid_away() {
    isolated(|| {
        let scratch = scratch(0o777);
        let path = file(&scratch, "f", (USER, 77), 0o6755);
        chown(&path, KEEP, 78).expect("chown");
        assert_eq!(mode(&path), 0o755, "even of the superuser's");
        chmod(&path, 0o6745).expect("chmod");
        chown(&path, USER, USER).expect("chown");
        assert_eq!(mode(&path), 0o2745, "without group execution it is no program's bit");
        let directory = scratch.path("d");
        mkdir(&directory, 0o755).expect("mkdir");
        chmod(&directory, 0o6755).expect("chmod");
        chown(&directory, USER, USER).expect("chown");
        assert_eq!(mode(&directory), 0o6755, "directories keep them");
    });
}

#[test]
fn writing_takes_setuid_and_setgid_away_but_not_from_the_superuser() {
    isolated(|| {
        let scratch = scratch(0o777);
        let path = file(&scratch, "f", (USER, 77), 0o6777);
        let fd = open(&path, O_WRONLY, 0).expect("open");
        assert_eq!(write(fd, b"x"), Ok(1));
        assert_eq!(mode(&path), 0o6777);
        as_user(OTHER, &[], || {
            let fd = open(&path, O_WRONLY, 0).expect("open");
            assert_eq!(mode(&path), 0o6777, "opening alone changes nothing");
            assert_eq!(write(fd, b"x"), Ok(1));
            assert_eq!(mode(&path), 0o777);
        });
        chmod(&path, 0o6777).expect("chmod");
        as_user(OTHER, &[], || {
            // SAFETY: a NUL-terminated path.
            must(unsafe { truncate(c(&path).as_ptr(), 1) });
            assert_eq!(mode(&path), 0o777);
        });
        chmod(&path, 0o6777).expect("chmod");
        as_user(OTHER, &[], || {
            let fd = open(&path, O_WRONLY, 0).expect("open");
            // SAFETY: plain numbers.
            must(unsafe { ftruncate(fd, 0) });
            assert_eq!(mode(&path), 0o777);
        });
    });
}

#[test]
fn access_looks_with_the_real_ids_unless_told_otherwise() {
    isolated(|| {
        let scratch = scratch(0o755);
        let path = file(&scratch, "f", (USER, USER), 0o600);
        // SAFETY: plain numbers.
        must(unsafe { setresuid(OTHER, 0, 0) });
        assert_eq!(access(&path, R_OK, 0), Err(EACCES));
        assert_eq!(access(&path, R_OK, AT_EACCESS), Ok(0));
        assert_eq!(access(&path, F_OK, 0), Ok(0));
        assert_eq!(access(&path, 8, 0), Err(EINVAL));
        // SAFETY: as above.
        must(unsafe { setresuid(0, USER, 0) });
        assert_eq!(access(&path, X_OK, 0), Err(EACCES));
        assert_eq!(access(&path, R_OK | W_OK, 0), Ok(0));
    });
}

#[test]
fn reading_without_a_trace_is_the_owner_s() {
    isolated(|| {
        let scratch = scratch(0o755);
        let path = file(&scratch, "f", (USER, USER), 0o666);
        as_user(USER, &[], || assert!(open(&path, O_RDONLY | O_NOATIME, 0).is_ok()));
        as_user(OTHER, &[], || {
            assert_eq!(open(&path, O_RDONLY | O_NOATIME, 0), Err(EPERM));
            let fd = open(&path, O_RDONLY, 0).expect("open");
            // SAFETY: plain numbers.
            assert_eq!(check(unsafe { fcntl(fd, F_SETFL, O_NOATIME) }), Err(EPERM));
        });
    });
}

#[test]
fn links_in_sticky_directories_are_followed_for_their_owners() {
    isolated(|| {
        let scratch = scratch(0o1777);
        let inside = Scratch::new();
        chmod(inside.path(""), 0o755).expect("chmod");
        let target = file(&inside, "f", (0, 0), 0o644);
        as_user(USER, &[], || {
            std::os::unix::fs::symlink(&target, scratch.path("l")).expect("symlink");
            std::os::unix::fs::symlink(inside.path(""), scratch.path("d")).expect("symlink");
        });
        with_rule("protected_symlinks", "1", || {
            as_user(USER, &[], || assert!(open(scratch.path("l"), O_RDONLY, 0).is_ok()));
            let refused = || {
                assert_eq!(open(scratch.path("l"), O_RDONLY, 0), Err(EACCES));
                assert_eq!(stat(scratch.path("l")).map(|_| ()), Err(EACCES));
                assert!(open(scratch.path("d/f"), O_RDONLY, 0).is_ok(), "not at the end");
            };
            as_user(OTHER, &[], refused);
            refused();
            chown(scratch.path(""), USER, USER).expect("chown");
            as_user(OTHER, &[], || assert!(open(scratch.path("l"), O_RDONLY, 0).is_ok()));
            chown(scratch.path(""), 0, 0).expect("chown");
        });
        with_rule("protected_symlinks", "0", || {
            as_user(OTHER, &[], || assert!(open(scratch.path("l"), O_RDONLY, 0).is_ok()));
        });
    });
}

#[test]
fn hard_links_are_made_by_owners_or_to_what_can_be_written() {
    isolated(|| {
        let scratch = scratch(0o777);
        let secret = file(&scratch, "s", (0, 0), 0o644);
        let shared = file(&scratch, "w", (0, 0), 0o666);
        let program = file(&scratch, "p", (0, 0), 0o4777);
        with_rule("protected_hardlinks", "1", || {
            as_user(USER, &[], || {
                assert_eq!(link(&secret, scratch.path("1")), Err(EPERM));
                assert_eq!(link(&program, scratch.path("2")), Err(EPERM));
                assert_eq!(link(&shared, scratch.path("3")), Ok(0));
            });
            assert_eq!(link(&secret, scratch.path("4")), Ok(0));
        });
        with_rule("protected_hardlinks", "0", || {
            as_user(USER, &[], || assert_eq!(link(&secret, scratch.path("1")), Ok(0)));
        });
    });
}

#[test]
fn what_lies_in_sticky_directories_is_not_opened_to_be_created() {
    isolated(|| {
        let scratch = scratch(0o1777);
        let path = file(&scratch, "f", (USER, USER), 0o666);
        // SAFETY: a NUL-terminated path.
        must(unsafe { mkfifo(c(scratch.path("p")).as_ptr(), 0o666) });
        chown(scratch.path("p"), USER, USER).expect("chown");
        with_rule("protected_regular", "1", || {
            assert_eq!(open(&path, O_CREAT | O_RDWR, 0o600), Err(EACCES), "not even by root");
            assert!(open(&path, O_RDWR, 0).is_ok());
            as_user(USER, &[], || assert!(open(&path, O_CREAT | O_RDWR, 0o600).is_ok()));
            chmod(scratch.path(""), 0o1770).expect("chmod");
            assert!(open(&path, O_CREAT | O_RDWR, 0o600).is_ok());
            std::fs::write("/proc/sys/fs/protected_regular", "2").expect("the rule");
            assert_eq!(open(&path, O_CREAT | O_RDWR, 0o600), Err(EACCES));
            chmod(scratch.path(""), 0o1777).expect("chmod");
        });
        with_rule("protected_fifos", "1", || {
            let flags = O_CREAT | O_RDWR | O_NONBLOCK;
            assert_eq!(open(scratch.path("p"), flags, 0o600), Err(EACCES));
        });
        with_rule("protected_regular", "0", || {
            assert!(open(&path, O_CREAT | O_RDWR, 0o600).is_ok());
        });
    });
}

#[test]
fn an_immutable_file_stays_and_one_to_append_to_only_grows() {
    const GET: u64 = 0x8008_6601;
    const SET: u64 = 0x4008_6602;
    const IMMUTABLE: i32 = 0x10;
    const APPEND: i32 = 0x20;
    isolated(|| {
        let scratch = Scratch::on_disk();
        let path = scratch.file("f", b"one");
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        let get = || {
            let mut flags = 0i32;
            // SAFETY: a word to write to.
            check(unsafe { libc::ioctl(fd, GET as _, &raw mut flags) }).map(|_| flags)
        };
        // SAFETY: a word to read from.
        let set = |flags: i32| check(unsafe { libc::ioctl(fd, SET as _, &raw const flags) });
        let Ok(before) = get() else {
            return eprintln!("this file system has no flags: nothing was tested");
        };
        if set(before | IMMUTABLE) == Err(libc::EPERM) {
            return eprintln!("flags may not be set: nothing was tested");
        }
        assert_eq!(get(), Ok(before | IMMUTABLE));
        let refusal = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
        let other = scratch.path("other");
        assert_eq!(open(&path, libc::O_WRONLY | libc::O_APPEND, 0), Err(libc::EPERM));
        assert_eq!(refusal(std::fs::remove_file(&path)), Some(libc::EPERM));
        assert_eq!(refusal(std::fs::rename(&path, &other)), Some(libc::EPERM));
        assert_eq!(refusal(std::fs::hard_link(&path, &other)), Some(libc::EPERM));
        assert_eq!(set(before | APPEND), Ok(0));
        assert_eq!(open(&path, libc::O_WRONLY, 0), Err(libc::EPERM));
        let end = open(&path, libc::O_WRONLY | libc::O_APPEND, 0).unwrap();
        assert_eq!(write(end, b" more"), Ok(5));
        // SAFETY: an open file.
        assert_eq!(check(unsafe { libc::ftruncate(end, 0) }), Err(libc::EPERM));
        assert_eq!(refusal(std::fs::remove_file(&path)), Some(libc::EPERM));
        assert_eq!(set(before), Ok(0));
        assert_eq!(std::fs::read(&path).unwrap(), b"one more");
        std::fs::remove_file(&path).unwrap();
        let null = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        let mut flags = 0i32;
        // SAFETY: a word to write to.
        let refused = check(unsafe { libc::ioctl(null, GET as _, &raw mut flags) });
        assert_eq!(refused, Err(libc::ENOTTY));
    });
}
