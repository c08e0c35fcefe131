//! Reading, writing and moving bytes, on every kind of descriptor. Calls that would wait are interrupted by a timer.
use super::{
    Cases,
    setting::{KINDS, at, file, made, open, pipe, raw, room, subsets, tick},
};

/// The flags RWF_HIPRI, DSYNC, SYNC, NOWAIT, APPEND.
const RWF: [i64; 5] = [1, 2, 4, 8, 16];

/// Adds cases of read, write and similar calls.
pub fn transfer(cases: &mut Cases) {
    let calls = [
        ("read", libc::SYS_read),
        ("write", libc::SYS_write),
        ("pread64", libc::SYS_pread64),
        ("pwrite64", libc::SYS_pwrite64),
    ];
    let vectors = [("preadv2", libc::SYS_preadv2), ("pwritev2", libc::SYS_pwritev2)];
    for kind in KINDS {
        for (call, number) in calls {
            for bytes in [0, 8, 4096] {
                cases.add(format!("{call}({kind:?}, {bytes})"), move || {
                    let fd = i64::from(open(kind));
                    tick();
                    made(number, [fd, room(&mut [0u8; 4096]), bytes, 0, 0, 0])
                });
            }
            cases.add(format!("{call}({kind:?}, O_NONBLOCK)"), move || {
                let fd = i64::from(open(kind));
                raw(libc::SYS_fcntl, [fd, libc::F_SETFL.into(), libc::O_NONBLOCK.into(), 0, 0, 0]);
                made(number, [fd, room(&mut [0u8; 64]), 64, 0, 0, 0])
            });
        }
        for ((call, number), flags) in vectors
            .iter()
            .flat_map(|call| subsets(&RWF).into_iter().map(move |flags| (*call, flags)))
        {
            cases.add(format!("{call}({kind:?}, {flags:#x})"), move || {
                let fd = i64::from(open(kind));
                let room = [0u8; 16];
                let vector = [at(&room), 16];
                tick();
                made(number, [fd, at(&vector), 1, -1, -1, flags])
            });
        }
        for command in (0..17).chain(1024..1041) {
            cases.add(format!("fcntl({kind:?}, {command}, 0)"), move || {
                let fd = i64::from(open(kind));
                tick();
                made(libc::SYS_fcntl, [fd, command, 0, 0, 0, 0])
            });
        }
        let requests =
            [0x5401i64, 0x540b, 0x5413, 0x541b, 0x5421, 0x5425, 0x5409, 0x540a, 0x5451, 0x1260];
        for request in requests {
            cases.add(format!("ioctl({kind:?}, {request:#x})"), move || {
                let fd = i64::from(open(kind));
                tick();
                made(libc::SYS_ioctl, [fd, request, room(&mut [0u8; 256]), 0, 0, 0])
            });
        }
    }
}

/// Adds cases of splice, tee, vmsplice, sendfile and copy_file_range with every combination of flags.
pub fn splice(cases: &mut Cases) {
    let ways =
        ["file to pipe", "pipe to file", "pipe to pipe", "empty pipe to pipe", "pipe to full pipe"];
    for flags in subsets(&[1, 2, 4, 8]) {
        for way in ways {
            for (call, number) in [("splice", libc::SYS_splice), ("tee", libc::SYS_tee)] {
                cases.add(format!("{call}({way}, {flags:#x})"), move || {
                    let [from, to] = ends(way);
                    tick();
                    match number {
                        libc::SYS_tee => made(number, [from, to, 100, flags, 0, 0]),
                        _ => made(number, [from, 0, to, 0, 100, flags]),
                    }
                });
            }
        }
        for way in ways {
            cases.add(format!("vmsplice({way}, {flags:#x})"), move || {
                let [from, to] = ends(way);
                let room = [0u8; 64];
                let vector = [at(&room), 64];
                tick();
                let fd = if way.starts_with("pipe") { from } else { to };
                made(libc::SYS_vmsplice, [fd, at(&vector), 1, flags, 0, 0])
            });
        }
    }
    for from in KINDS {
        for to in KINDS {
            for (call, number) in [
                ("sendfile", libc::SYS_sendfile),
                ("copy_file_range", libc::SYS_copy_file_range),
                ("splice", libc::SYS_splice),
            ] {
                cases.add(format!("{call}({from:?}, {to:?})"), move || {
                    let (from, to) = (i64::from(open(from)), i64::from(open(to)));
                    tick();
                    match number {
                        libc::SYS_sendfile => made(number, [to, from, 0, 100, 0, 0]),
                        _ => made(number, [from, 0, to, 0, 100, 0]),
                    }
                });
            }
        }
    }
}

fn ends(way: &str) -> [i64; 2] {
    let pair = match way {
        "file to pipe" => [file(), pipe(0)[1]],
        "pipe to file" => [pipe(4096)[0], file()],
        "pipe to pipe" => [pipe(4096)[0], pipe(0)[1]],
        "empty pipe to pipe" => [pipe(0)[0], pipe(0)[1]],
        _ => [pipe(4096)[0], full_pipe()],
    };
    pair.map(i64::from)
}

fn full_pipe() -> i32 {
    let [_, writer] = pipe(0);
    let flags = |flags: i32| {
        raw(libc::SYS_fcntl, [writer.into(), libc::F_SETFL.into(), flags.into(), 0, 0, 0])
    };
    flags(libc::O_NONBLOCK);
    while crate::write(writer, &[0; 4096]).is_ok() {}
    flags(0);
    writer
}
