//! Cases of opening with every combination of flags, of locks in every state, and of the calls that
//! write files to storage.
use super::{
    Cases,
    setting::{
        KINDS, at, file, made, map, name, named, open as open_kind, raw, soon, subsets, tick,
    },
};
use crate::must;

/// The type of file behind a name.
#[derive(Clone, Copy, Debug)]
enum Named {
    File,
    Folder,
    Fifo,
    Link,
    Terminal,
    Absent,
}

fn make(named_as: Named) -> std::ffi::CString {
    let name = name("entry");
    let at = name.as_ptr() as i64;
    match named_as {
        Named::File => i64::from(named("entry", libc::O_CREAT | libc::O_RDWR)),
        Named::Folder => must(raw(libc::SYS_mkdir, [at, 0o700, 0, 0, 0, 0])),
        Named::Fifo => must(raw(libc::SYS_mknod, [at, (libc::S_IFIFO | 0o600).into(), 0, 0, 0, 0])),
        Named::Link => must(raw(libc::SYS_symlink, [c".".as_ptr() as i64, at, 0, 0, 0, 0])),
        Named::Terminal => return c"/dev/tty".to_owned(),
        Named::Absent => 0,
    };
    name
}

/// Adds cases of open with every combination of flags. A FIFO's other end never comes, so a timer
/// interrupts the call.
pub fn open(cases: &mut Cases) {
    const O_TMPFILE: i32 = 0o20_000_000;
    let flags = [
        libc::O_CREAT,
        libc::O_EXCL,
        libc::O_TRUNC,
        libc::O_NONBLOCK,
        libc::O_DIRECTORY,
        libc::O_NOFOLLOW,
        libc::O_PATH,
        O_TMPFILE,
    ];
    for flags in subsets(&flags.map(i64::from)) {
        for access in 0..4 {
            for kind in [
                Named::File,
                Named::Folder,
                Named::Fifo,
                Named::Link,
                Named::Terminal,
                Named::Absent,
            ] {
                let flags = flags | access;
                cases.add(format!("open({kind:?}, {flags:#x})"), move || {
                    let name = make(kind);
                    tick();
                    let answer =
                        made(libc::SYS_open, [name.as_ptr() as i64, flags, 0o600, 0, 0, 0]);
                    raw(libc::SYS_unlink, [name.as_ptr() as i64, 0, 0, 0, 0, 0]);
                    raw(libc::SYS_rmdir, [name.as_ptr() as i64, 0, 0, 0, 0, 0]);
                    answer
                });
            }
        }
    }
}

/// Returns a record lock of the whole file.
fn record(kind: i32) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 }
}

/// Adds cases of flock and record locks, free and held by another process that releases them in a
/// moment.
pub fn locks(cases: &mut Cases) {
    for operation in (0..16).chain([32, 64, 128]) {
        for is_held in [false, true] {
            cases.add(format!("flock({operation}, held: {is_held})"), move || {
                let fd = file();
                if is_held {
                    let held =
                        must(raw(libc::SYS_open, [name("file").as_ptr() as i64, 2, 0, 0, 0, 0]));
                    must(raw(libc::SYS_flock, [held, libc::LOCK_EX.into(), 0, 0, 0, 0]));
                    // This process also holds the description, and ends.
                    soon(|| {
                        raw(libc::SYS_flock, [held, libc::LOCK_UN.into(), 0, 0, 0, 0]);
                    });
                }
                made(libc::SYS_flock, [fd.into(), operation, 0, 0, 0, 0])
            });
        }
    }
    let commands = [
        ("F_GETLK", libc::F_GETLK),
        ("F_SETLK", libc::F_SETLK),
        ("F_SETLKW", libc::F_SETLKW),
        ("F_OFD_GETLK", libc::F_OFD_GETLK),
        ("F_OFD_SETLK", libc::F_OFD_SETLK),
        ("F_OFD_SETLKW", libc::F_OFD_SETLKW),
    ];
    for (command, number) in commands {
        for kind in [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK, 7] {
            for held_by in ["nobody", "a process", "a description"] {
                cases.add(format!("fcntl({command}, {kind}, held by {held_by})"), move || {
                    let fd = file();
                    if held_by != "nobody" {
                        hold(if held_by == "a process" {
                            libc::F_SETLK
                        } else {
                            libc::F_OFD_SETLK
                        });
                    }
                    let lock = record(kind);
                    made(libc::SYS_fcntl, [fd.into(), number.into(), at(&lock), 0, 0, 0])
                });
            }
        }
    }
}

/// Makes another process hold a lock of the file for a moment.
fn hold(command: i32) {
    let path = name("file");
    let [from, to] = super::setting::pipe(0);
    crate::fork(|| {
        let fd = must(raw(libc::SYS_open, [path.as_ptr() as i64, 2, 0, 0, 0, 0]));
        let lock = record(libc::F_WRLCK);
        must(raw(libc::SYS_fcntl, [fd, command.into(), at(&lock), 0, 0, 0]));
        let _ = crate::write(to, b"x");
        super::setting::sleep_ms(4);
    });
    let _ = crate::read(from, 1);
}

/// Adds cases of fsync, msync, fallocate and similar calls.
pub fn sync(cases: &mut Cases) {
    for kind in KINDS {
        for (call, number) in [
            ("fsync", libc::SYS_fsync),
            ("fdatasync", libc::SYS_fdatasync),
            ("syncfs", libc::SYS_syncfs),
        ] {
            cases.add(format!("{call}({kind:?})"), move || {
                made(number, [open_kind(kind).into(), 0, 0, 0, 0, 0])
            });
        }
        for flags in 0..8 {
            cases.add(format!("sync_file_range({kind:?}, {flags})"), move || {
                made(libc::SYS_sync_file_range, [open_kind(kind).into(), 0, 4096, flags, 0, 0])
            });
        }
        for mode in subsets(&[1, 2, 8, 16, 32, 64]) {
            cases.add(format!("fallocate({kind:?}, {mode:#x})"), move || {
                made(libc::SYS_fallocate, [open_kind(kind).into(), mode, 4096, 4096, 0, 0])
            });
        }
        for advice in 0..8 {
            cases.add(format!("fadvise64({kind:?}, {advice})"), move || {
                made(libc::SYS_fadvise64, [open_kind(kind).into(), 0, 4096, advice, 0, 0])
            });
        }
    }
    for flags in 0..8 {
        for (what, sharing) in [("shared", libc::MAP_SHARED), ("private", libc::MAP_PRIVATE)] {
            cases.add(format!("msync({what}, {flags})"), move || {
                let memory = map(4 * 4096, sharing, file());
                // SAFETY: a byte of the mapping.
                unsafe { memory.write(9) };
                made(libc::SYS_msync, [memory as i64, 4 * 4096, flags, 0, 0, 0])
            });
        }
    }
}
