//! Memory: every advice, every combination of mmap's, mremap's and the locks' flags; other processes' memory; barriers.
use super::{
    Cases,
    setting::{at, file, made, map, raw, room, soon, subsets, tick},
};

const BYTES: usize = 8 * 4096;

/// Makes a mapping of a type.
fn mapped(sort: &str) -> i64 {
    let memory = match sort {
        "anonymous" => map(BYTES, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        "shared" => map(BYTES, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        "file" => map(BYTES, libc::MAP_SHARED, file()),
        "private file" => map(BYTES, libc::MAP_PRIVATE, file()),
        _ => return 0x1000,
    };
    // SAFETY: a byte of the mapping; the file has it.
    unsafe { memory.write(1) };
    memory as i64
}

const SORTS: [&str; 5] = ["anonymous", "shared", "file", "private file", "nothing"];

/// Adds the cases of the family.
pub fn memory(cases: &mut Cases) {
    changes(cases);
    mappings(cases);
    barriers(cases);
    other_memory(cases);
    filters(cases);
}

/// Changes of a mapping of each sort.
fn changes(cases: &mut Cases) {
    for sort in SORTS {
        for advice in (0..27).chain([100, 101]) {
            cases.add(format!("madvise({sort}, {advice})"), move || {
                made(libc::SYS_madvise, [mapped(sort), BYTES as i64, advice, 0, 0, 0])
            });
        }
        for flags in 0..8 {
            for (what, bytes) in [("shrink", BYTES / 2), ("grow", BYTES * 2), ("keep", BYTES)] {
                cases.add(format!("mremap({sort}, {what}, {flags})"), move || {
                    let place = map(4 * BYTES, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1) as i64;
                    let memory = mapped(sort);
                    made(libc::SYS_mremap, [memory, BYTES as i64, bytes as i64, flags, place, 0])
                });
            }
            cases.add(format!("mprotect({sort}, {flags})"), move || {
                made(libc::SYS_mprotect, [mapped(sort), BYTES as i64, flags, 0, 0, 0])
            });
            cases.add(format!("mlock2({sort}, {flags})"), move || {
                made(libc::SYS_mlock2, [mapped(sort), BYTES as i64, flags, 0, 0, 0])
            });
        }
        for (call, number) in [
            ("mlock", libc::SYS_mlock),
            ("munlock", libc::SYS_munlock),
            ("munmap", libc::SYS_munmap),
            ("mincore", libc::SYS_mincore),
        ] {
            cases.add(format!("{call}({sort})"), move || {
                made(number, [mapped(sort), BYTES as i64, room(&mut [0u8; 64]), 0, 0, 0])
            });
        }
    }
}

/// mlockall and mmap with every flag.
fn mappings(cases: &mut Cases) {
    for flags in 0..16 {
        cases.add(format!("mlockall({flags})"), move || {
            made(libc::SYS_mlockall, [flags, 0, 0, 0, 0, 0])
        });
    }
    let flags = [
        libc::MAP_SHARED,
        libc::MAP_PRIVATE,
        libc::MAP_ANONYMOUS,
        libc::MAP_FIXED_NOREPLACE,
        libc::MAP_GROWSDOWN,
        libc::MAP_LOCKED,
        libc::MAP_NORESERVE,
        libc::MAP_POPULATE,
        libc::MAP_HUGETLB,
        libc::MAP_SYNC,
    ];
    for flags in subsets(&flags.map(i64::from)) {
        cases.add(format!("mmap({flags:#x})"), move || {
            let fd = file();
            made(libc::SYS_mmap, [0x10_0000_0000, BYTES as i64, 3, flags, fd.into(), 0])
        });
    }
}

/// membarrier with every command.
fn barriers(cases: &mut Cases) {
    for command in subsets(&[1, 2, 4, 8, 16, 32, 64, 128, 256]) {
        for flags in [0, 1] {
            cases.add(format!("membarrier({command:#x}, {flags})"), move || {
                made(libc::SYS_membarrier, [command, flags, 0, 0, 0, 0])
            });
        }
    }
}

/// The memory of another process.
fn other_memory(cases: &mut Cases) {
    for (call, number) in [
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
    ] {
        for flags in [0, 1] {
            cases.add(format!("{call}(a child, {flags})"), move || {
                let (mine, theirs) = (mapped("anonymous"), mapped("anonymous"));
                let child = soon(|| ());
                let (mine, theirs) = ([mine, BYTES as i64], [theirs, BYTES as i64]);
                made(number, [child.into(), at(&mine), 1, at(&theirs), 1, flags])
            });
        }
    }
}

/// seccomp, and a listener of it.
fn filters(cases: &mut Cases) {
    const ALLOW: u64 = 0x7fff_0000_0000_0006;
    for operation in 0..4 {
        for flags in subsets(&[1, 2, 4, 8, 16, 32]) {
            cases.add(format!("seccomp({operation}, {flags:#x})"), move || {
                raw(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS.into(), 1, 0, 0, 0, 0]);
                let program = [1i64, at(&ALLOW)];
                // Strict mode would end the case after its call.
                let argument = if operation == 0 { 1 } else { at(&program) };
                made(libc::SYS_seccomp, [operation, flags, argument, 0, 0, 0])
            });
        }
    }
    cases.add("ioctl(a listener, SECCOMP_IOCTL_NOTIF_RECV)".into(), || {
        const NOTIF_RECV: i64 = 0xc050_2100;
        raw(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS.into(), 1, 0, 0, 0, 0]);
        let listener = raw(libc::SYS_seccomp, [1, 8, at(&[1i64, at(&ALLOW)]), 0, 0, 0]);
        tick();
        made(libc::SYS_ioctl, [listener, NOTIF_RECV, room(&mut [0u64; 16]), 0, 0, 0])
    });
}
