//! Files by a descriptor of a folder and a name in it (openat(2) and related calls), how far a path may lead (openat2(2)),
//! and where paths begin (fchdir(2), chroot(2)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    *,
};
use std::{
    env,
    ffi::CString,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
};

/// An open folder.
struct Folder {
    scratch: Scratch,
    fd: i32,
}

impl Folder {
    fn new() -> Folder {
        let scratch = Scratch::new();
        let fd = open(scratch.path(""), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        Folder { scratch, fd }
    }
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path(name)
    }
}

#[test]
fn names_are_made_moved_and_read_in_an_open_folder() {
    isolated(|| {
        let folder = Folder::new();
        let fd = folder.fd;
        let mknodat = |fd: i32, name: &str, mode: u32| {
            check(unsafe { libc::syscall(libc::SYS_mknodat, fd, c(name).as_ptr(), mode, 0) })
        };
        unsafe { libc::umask(0) };
        assert_eq!(mknodat(fd, "fifo", libc::S_IFIFO | 0o640), Ok(0));
        let found = fs::metadata(folder.path("fifo")).unwrap();
        assert!(found.file_type().is_fifo() && found.mode() & 0o777 == 0o640);
        assert_eq!(mknodat(fd, "file", 0o600), Ok(0), "no kind is a regular file");
        assert!(fs::metadata(folder.path("file")).unwrap().is_file());
        assert_eq!(mknodat(fd, "file", 0o600), Err(libc::EEXIST));
        assert_eq!(mknodat(fd, "folder", libc::S_IFDIR | 0o700), Err(libc::EPERM));
        assert_eq!(mknodat(-1, "new", 0o600), Err(libc::EBADF));
        let file = open(folder.path("file"), libc::O_RDONLY, 0).unwrap();
        assert_eq!(mknodat(file, "new", 0o600), Err(libc::ENOTDIR));

        let symlinkat = |to: &str, fd: i32, name: &str| {
            let (to, name) = (c(to), c(name));
            check(unsafe { libc::syscall(libc::SYS_symlinkat, to.as_ptr(), fd, name.as_ptr()) })
        };
        assert_eq!(symlinkat("some/where", fd, "link"), Ok(0));
        assert_eq!(symlinkat("", fd, "empty"), Err(libc::ENOENT));
        assert_eq!(symlinkat("x", fd, "link"), Err(libc::EEXIST));
        let readlinkat = |fd: i32, name: &str, room: usize| {
            let mut text = vec![0u8; room];
            let (name, to) = (c(name), text.as_mut_ptr());
            let call = libc::SYS_readlinkat;
            let length = check(unsafe { libc::syscall(call, fd, name.as_ptr(), to, room) })?;
            text.truncate(length as usize);
            Ok(String::from_utf8(text).unwrap())
        };
        assert_eq!(readlinkat(fd, "link", 100).unwrap(), "some/where");
        assert_eq!(readlinkat(fd, "link", 4).unwrap(), "some", "what has no room is left out");
        assert_eq!(readlinkat(fd, "link", 0), Err(libc::EINVAL));
        assert_eq!(readlinkat(fd, "file", 10), Err(libc::EINVAL));
        let link = open(folder.path("link"), libc::O_PATH | libc::O_NOFOLLOW, 0).unwrap();
        assert_eq!(readlinkat(link, "", 100).unwrap(), "some/where", "a link's own descriptor");

        let renameat = |from: i32, old: &str, to: i32, new: &str| {
            let (old, new) = (c(old), c(new));
            let call = libc::SYS_renameat;
            check(unsafe { libc::syscall(call, from, old.as_ptr(), to, new.as_ptr()) })
        };
        fs::create_dir(folder.path("inner")).unwrap();
        let inner = open(folder.path("inner"), libc::O_PATH, 0).unwrap();
        assert_eq!(renameat(fd, "link", inner, "moved"), Ok(0));
        assert_eq!(fs::read_link(folder.path("inner/moved")).unwrap().to_str(), Some("some/where"));
        assert_eq!(renameat(fd, "inner", inner, "x"), Err(libc::EINVAL), "into itself");
        assert_eq!(renameat(fd, "none", inner, "x"), Err(libc::ENOENT));
        // For an absolute path the descriptor is not used.
        let whole = folder.path("whole");
        assert_eq!(mknodat(-1, whole.to_str().unwrap(), 0o600), Ok(0));
    });
}

#[test]
fn modes_owners_and_rights_are_those_of_names_in_an_open_folder() {
    isolated(|| {
        let folder = Folder::new();
        let fd = folder.fd;
        folder.scratch.file("file", b"");
        symlink("file", folder.path("link")).unwrap();
        let mode = || fs::metadata(folder.path("file")).unwrap().mode() & 0o7777;
        let name = |name: &str| c(name);
        let fchmodat = |fd: i32, of: &str, mode: u32| {
            check(unsafe { libc::syscall(libc::SYS_fchmodat, fd, name(of).as_ptr(), mode) })
        };
        assert_eq!(fchmodat(fd, "link", 0o4751), Ok(0), "links are followed");
        assert_eq!(mode(), 0o4751);
        assert_eq!(fchmodat(-1, "file", 0), Err(libc::EBADF));
        assert_eq!(fchmodat(fd, "", 0), Err(libc::ENOENT));
        let fchmodat2 = |fd: i32, of: &str, mode: u32, flags: i32| {
            const FCHMODAT2: i64 = 452;
            check(unsafe { libc::syscall(FCHMODAT2, fd, name(of).as_ptr(), mode, flags) })
        };
        assert_eq!(fchmodat2(fd, "file", 0o600, libc::AT_SYMLINK_NOFOLLOW), Ok(0));
        assert_eq!(mode(), 0o600);
        let of_link = fchmodat2(fd, "link", 0o644, libc::AT_SYMLINK_NOFOLLOW);
        assert_eq!(of_link, Err(libc::EOPNOTSUPP), "links have no modes of their own");
        let file = open(folder.path("file"), libc::O_PATH, 0).unwrap();
        assert_eq!(fchmodat2(file, "", 0o640, libc::AT_EMPTY_PATH), Ok(0));
        assert_eq!(mode(), 0o640);
        assert_eq!(fchmodat2(fd, "file", 0, libc::AT_REMOVEDIR), Err(libc::EINVAL));

        let fchownat = |fd: i32, of: &str, user: u32, flags: i32| {
            let (call, of) = (libc::SYS_fchownat, name(of));
            check(unsafe { libc::syscall(call, fd, of.as_ptr(), user, u32::MAX, flags) })
        };
        let owners = || {
            let of = |name: &str| fs::symlink_metadata(folder.path(name)).unwrap().uid();
            (of("file"), of("link"))
        };
        assert_eq!(fchownat(fd, "link", 5, 0), Ok(0));
        assert_eq!(fchownat(fd, "link", 6, libc::AT_SYMLINK_NOFOLLOW), Ok(0));
        assert_eq!(owners(), (5, 6));
        assert_eq!(fchownat(file, "", 7, libc::AT_EMPTY_PATH), Ok(0));
        assert_eq!(owners(), (7, 6));
        assert_eq!(fchownat(file, "", 7, 0), Err(libc::ENOENT));
        assert_eq!(fchownat(fd, "file", 7, libc::AT_REMOVEDIR), Err(libc::EINVAL));

        let faccessat = |of: &str, mode: i32| {
            check(unsafe { libc::syscall(libc::SYS_faccessat, fd, name(of).as_ptr(), mode) })
        };
        assert_eq!(faccessat("file", libc::R_OK | libc::W_OK), Ok(0));
        assert_eq!(faccessat("file", libc::X_OK), Err(libc::EACCES), "nobody may execute it");
        assert_eq!(faccessat("none", libc::F_OK), Err(libc::ENOENT));
        assert_eq!(faccessat("file", 8), Err(libc::EINVAL));
        fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        as_user(NOBODY, &[], || {
            assert_eq!(faccessat("file", libc::F_OK), Ok(0));
            assert_eq!(faccessat("file", libc::R_OK), Err(libc::EACCES));
            assert_eq!(fchmodat(fd, "file", 0o777), Err(libc::EPERM));
        });
    });
}

/// The argument structure of openat2.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const NO_XDEV: u64 = 0x01;
const NO_MAGICLINKS: u64 = 0x02;
const NO_SYMLINKS: u64 = 0x04;
const BENEATH: u64 = 0x08;
const IN_ROOT: u64 = 0x10;

fn openat2(fd: i32, path: &str, how: How) -> Result<i32, i32> {
    let (path, size) = (c(path), size_of::<How>());
    check(unsafe { libc::syscall(libc::SYS_openat2, fd, path.as_ptr(), &how, size) })
        .map(|fd| fd as i32)
}

fn resolving(resolve: u64) -> How {
    How { flags: libc::O_RDONLY as u64, mode: 0, resolve }
}

#[test]
fn openat2_keeps_a_path_within_what_it_is_told() {
    isolated(|| {
        let folder = Folder::new();
        fs::create_dir(folder.path("in")).unwrap();
        folder.scratch.file("in/file", b"inner");
        folder.scratch.file("file", b"outer");
        symlink("file", folder.path("in/near")).unwrap();
        symlink("../file", folder.path("in/out")).unwrap();
        symlink("/file", folder.path("in/whole")).unwrap();
        let inner = open(folder.path("in"), libc::O_PATH, 0).unwrap();
        let text = |path: &str, resolve: u64| {
            openat2(inner, path, resolving(resolve)).map(|fd| {
                let text = read(fd, 100).unwrap();
                close(fd);
                String::from_utf8(text).unwrap()
            })
        };
        let is = |text: &str| Ok(text.to_string());
        assert_eq!(text("out", 0), is("outer"));
        assert_eq!(text("near", BENEATH), is("inner"));
        assert_eq!(text("./near", BENEATH), is("inner"));
        for path in ["out", "../file", "/file", "whole", "../in/file", "/"] {
            assert_eq!(text(path, BENEATH), Err(libc::EXDEV), "{path}");
        }
        // With a root of its own a path cannot lead out of it, whatever it contains.
        for path in ["out", "../file", "/file", "whole", "../../../file", "/../near"] {
            assert_eq!(text(path, IN_ROOT), is("inner"), "{path}");
        }
        assert_eq!(text("near", NO_SYMLINKS), Err(libc::ELOOP));
        assert_eq!(text("../in/file", NO_SYMLINKS), is("inner"));
        assert_eq!(text("near", NO_MAGICLINKS), is("inner"), "an ordinary link");
        let file = open(folder.path("file"), libc::O_RDONLY, 0).unwrap();
        let magic = format!("/proc/self/fd/{file}");
        assert_eq!(text(&magic, 0), is("outer"));
        assert_eq!(text(&magic, NO_MAGICLINKS), Err(libc::ELOOP));
        assert_eq!(text("/proc/version", NO_XDEV), Err(libc::EXDEV));
        assert_eq!(text("../file", NO_XDEV), is("outer"));
        // If a link is not to be followed, the walk ends at the link itself.
        let how = How { flags: (libc::O_PATH | libc::O_NOFOLLOW) as u64, ..resolving(NO_SYMLINKS) };
        assert!(openat2(inner, "near", how).is_ok());
        let new =
            How { flags: (libc::O_CREAT | libc::O_WRONLY) as u64, mode: 0o600, resolve: BENEATH };
        assert!(openat2(inner, "new", new).is_ok());
        assert_eq!(openat2(inner, "../new", new), Err(libc::EXDEV));
        assert!(!folder.path("new").exists());
    });
}

#[test]
fn openat2_refuses_what_it_does_not_know() {
    isolated(|| {
        let folder = Folder::new();
        folder.scratch.file("file", b"");
        let fd = folder.fd;
        let refused = |how: How| openat2(fd, "file", how).map(|_| ());
        assert_eq!(refused(How { resolve: 1 << 40, ..How::default() }), Err(libc::EINVAL));
        assert_eq!(refused(How { flags: 1 << 40, ..How::default() }), Err(libc::EINVAL));
        assert_eq!(refused(How { mode: 0o600, ..How::default() }), Err(libc::EINVAL), "no O_CREAT");
        let creating = How { flags: libc::O_CREAT as u64, mode: 1 << 20, resolve: 0 };
        assert_eq!(refused(creating), Err(libc::EINVAL));
        assert_eq!(refused(resolving(BENEATH | IN_ROOT)), Err(libc::EINVAL));
        let path_only =
            How { flags: (libc::O_PATH | libc::O_RDWR | libc::O_TRUNC) as u64, ..How::default() };
        assert_eq!(refused(path_only), Err(libc::EINVAL));
        let sized = |bytes: &[u64], size: usize| {
            let path = c("file");
            let call = libc::SYS_openat2;
            check(unsafe { libc::syscall(call, fd, path.as_ptr(), bytes.as_ptr(), size) })
                .map(|_| ())
        };
        assert_eq!(sized(&[0; 8], 23), Err(libc::EINVAL), "shorter than the first that was");
        assert_eq!(sized(&[0; 8], 64), Ok(()), "what a newer one has is not asked for");
        assert_eq!(sized(&[0, 0, 0, 0, 1, 0, 0, 0], 64), Err(libc::E2BIG));
        assert_eq!(sized(&[0; 1024], 8192), Err(libc::E2BIG));
        let call = libc::SYS_openat2;
        let lost = unsafe { libc::syscall(call, fd, c("file").as_ptr(), 8usize, 24usize) };
        assert_eq!(check(lost), Err(libc::EFAULT));
    });
}

#[test]
fn fchdir_goes_to_an_open_folder_even_one_without_a_name() {
    isolated(|| {
        let folder = Folder::new();
        let fchdir = |fd: i32| check(unsafe { libc::syscall(libc::SYS_fchdir, fd) });
        assert_eq!(fchdir(folder.fd), Ok(0));
        assert_eq!(env::current_dir().unwrap(), fs::canonicalize(folder.path("")).unwrap());
        fs::create_dir("gone").unwrap();
        let gone = open("gone", libc::O_PATH, 0).unwrap();
        folder.scratch.file("file", b"");
        let file = open("file", libc::O_RDONLY, 0).unwrap();
        assert_eq!(fchdir(file), Err(libc::ENOTDIR));
        assert_eq!(fchdir(-1), Err(libc::EBADF));
        fs::remove_dir("gone").unwrap();
        assert_eq!(fchdir(gone), Ok(0));
        assert_eq!(env::current_dir().unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(open("new", libc::O_CREAT | libc::O_WRONLY, 0o600), Err(libc::ENOENT));
        assert_eq!(fchdir(folder.fd), Ok(0));
        fs::create_dir("closed").unwrap();
        let closed = open("closed", libc::O_RDONLY, 0).unwrap();
        fs::set_permissions("closed", fs::Permissions::from_mode(0o644)).unwrap();
        as_user(NOBODY, &[], || assert_eq!(fchdir(closed), Err(libc::EACCES)));
    });
}

#[test]
fn chroot_moves_where_paths_begin_for_the_process_and_its_children() {
    isolated(|| {
        let folder = Folder::new();
        fs::create_dir(folder.path("root")).unwrap();
        folder.scratch.file("root/file", b"inner");
        folder.scratch.file("outer", b"");
        symlink("/file", folder.path("root/link")).unwrap();
        let chroot =
            |path: &CString| check(unsafe { libc::syscall(libc::SYS_chroot, path.as_ptr()) });
        let root = c(folder.path("root"));
        assert_eq!(chroot(&c(folder.path("outer"))), Err(libc::ENOTDIR));
        assert_eq!(chroot(&c(folder.path("none"))), Err(libc::ENOENT));
        fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        as_user(NOBODY, &[], || assert_eq!(chroot(&root), Err(libc::EPERM)));
        let child = fork(|| {
            env::set_current_dir(folder.path("root")).unwrap();
            assert_eq!(chroot(&root), Ok(0));
            assert_eq!(env::current_dir().unwrap().to_str(), Some("/"));
            for path in ["/file", "/../../file", "/link", "file", "../file"] {
                assert_eq!(fs::read(path).unwrap(), b"inner", "{path}");
            }
            let grandchild = fork(|| assert_eq!(fs::read("/file").unwrap(), b"inner"));
            assert_eq!(wait(grandchild), Ended::Exited(0));
            // A descriptor that was open before still leads to its old place; a path of the old root is not found.
            must(unsafe { libc::fchdir(folder.fd) });
            assert!(fs::metadata("outer").is_ok());
            assert!(!fs::exists(folder.path("outer")).unwrap());
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert!(fs::metadata(folder.path("outer")).is_ok());
    });
}

#[test]
fn fstatfs_tells_what_statfs_tells_of_the_file_system() {
    isolated(|| {
        let told = |path: &str| {
            let fd = open(path, libc::O_PATH, 0).unwrap();
            let (mut by_path, mut by_file): (libc::statfs, libc::statfs) =
                unsafe { (zeroed(), zeroed()) };
            must(unsafe { libc::syscall(libc::SYS_statfs, c(path).as_ptr(), &mut by_path) });
            must(unsafe { libc::syscall(libc::SYS_fstatfs, fd, &mut by_file) });
            let of = |told: &libc::statfs| {
                (
                    told.f_type as u64,
                    told.f_bsize as u64,
                    told.f_blocks,
                    told.f_files,
                    told.f_namelen as u64,
                )
            };
            assert_eq!(of(&by_path), of(&by_file));
            by_file
        };
        assert_eq!(told("/proc").f_type as u64, 0x9fa0);
        assert_eq!(told("/dev/shm").f_type as u64, 0x0102_1994);
        assert_eq!(told("/dev/shm").f_namelen as u64, 255);
        let mut room: libc::statfs = unsafe { zeroed() };
        let bad = unsafe { libc::syscall(libc::SYS_fstatfs, -1, &mut room) };
        assert_eq!(check(bad), Err(libc::EBADF));
    });
}

#[test]
fn execveat_runs_a_file_by_a_folder_and_a_name_or_by_its_own_descriptor() {
    isolated(|| {
        let folder = Folder::new();
        let script = "#!/bin/sh\nexit $#\n";
        folder.scratch.file("script", script.as_bytes());
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path("script"), mode).unwrap();
        symlink("script", folder.path("link")).unwrap();
        folder.scratch.file("plain", b"#!/bin/sh\n");
        // Runs the file in a child and returns the child's end. If execveat fails, the child exits with 100 plus the error
        // number.
        let run = |fd: i32, name: &str, flags: i32| {
            let child = fork(|| {
                let (path, call) = (c(name), libc::SYS_execveat);
                let words = [c("me"), c("one")];
                let words = [words[0].as_ptr(), words[1].as_ptr(), std::ptr::null()];
                let none = [std::ptr::null::<libc::c_char>()];
                let (words, none) = (words.as_ptr(), none.as_ptr());
                let result = unsafe { libc::syscall(call, fd, path.as_ptr(), words, none, flags) };
                unsafe { libc::_exit(100 + check(result).unwrap_err()) }
            });
            wait(child)
        };
        let is = Ended::Exited;
        // A script gets its name and the words that follow the first.
        assert_eq!(run(folder.fd, "script", 0), is(1));
        assert_eq!(run(folder.fd, "link", 0), is(1));
        assert_eq!(run(folder.fd, "link", libc::AT_SYMLINK_NOFOLLOW), is(100 + libc::ELOOP));
        assert_eq!(run(folder.fd, "plain", 0), is(100 + libc::EACCES), "not to be executed");
        assert_eq!(run(folder.fd, "none", 0), is(100 + libc::ENOENT));
        assert_eq!(run(-1, "script", 0), is(100 + libc::EBADF));
        assert_eq!(run(folder.fd, "script", libc::AT_REMOVEDIR), is(100 + libc::EINVAL));
        let own = open(folder.path("script"), libc::O_PATH, 0).unwrap();
        assert_eq!(run(own, "", libc::AT_EMPTY_PATH), is(1));
        assert_eq!(run(own, "", 0), is(100 + libc::ENOENT));
        // The interpreter could not open a descriptor that is closed at exec.
        let closed = open(folder.path("script"), libc::O_PATH | libc::O_CLOEXEC, 0).unwrap();
        assert_eq!(run(closed, "", libc::AT_EMPTY_PATH), is(100 + libc::ENOENT));
        assert_eq!(run(folder.fd, "", libc::AT_EMPTY_PATH), is(100 + libc::EACCES), "a folder");
    });
}
