//! Files: open to unlink, positions, times, permissions.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    fs,
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
};

#[test]
fn what_was_written_is_read() {
    isolated(|| {
        let scratch = Scratch::new();
        let data: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
        let path = scratch.file("a", &data);
        assert_eq!(fs::read(path).unwrap(), data);
    });
}

#[test]
fn open_without_creat_wants_an_existing_file() {
    isolated(|| assert_eq!(open("/tmp/absent-file", libc::O_RDONLY, 0), Err(libc::ENOENT)));
}

#[test]
fn exclusive_creation_refuses_an_existing_file() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"");
        assert_eq!(
            open(path, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY, 0o600),
            Err(libc::EEXIST)
        );
    });
}

#[test]
fn exclusive_creation_refuses_a_dangling_symlink() {
    isolated(|| {
        let scratch = Scratch::new();
        symlink("nowhere", scratch.path("l")).unwrap();
        assert_eq!(
            open(scratch.path("l"), libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY, 0o600),
            Err(libc::EEXIST)
        );
    });
}

#[test]
fn truncation_at_open_empties() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"hello");
        close(open(&path, libc::O_WRONLY | libc::O_TRUNC, 0).unwrap());
        assert_eq!(stat(&path).unwrap().st_size, 0);
    });
}

#[test]
fn a_directory_cannot_be_opened_for_writing() {
    isolated(|| assert_eq!(open("/tmp", libc::O_WRONLY, 0), Err(libc::EISDIR)));
}

#[test]
fn o_directory_refuses_a_file() {
    isolated(|| {
        let scratch = Scratch::new();
        assert_eq!(open(scratch.file("a", b""), libc::O_DIRECTORY, 0), Err(libc::ENOTDIR));
    });
}

#[test]
fn o_nofollow_refuses_a_symlink() {
    isolated(|| {
        let scratch = Scratch::new();
        symlink("a", scratch.path("l")).unwrap();
        assert_eq!(open(scratch.path("l"), libc::O_RDONLY | libc::O_NOFOLLOW, 0), Err(libc::ELOOP));
    });
}

#[test]
fn append_writes_at_the_end_wherever_the_position_is() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"one");
        let mut file = fs::OpenOptions::new().append(true).read(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(file.stream_position().unwrap(), 6);
        assert_eq!(fs::read(path).unwrap(), b"onetwo");
    });
}

#[test]
fn positioned_reads_and_writes_leave_the_position() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"0123456789");
        let mut file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.write_at(b"AB", 4).unwrap();
        let mut two = [0; 4];
        file.read_at(&mut two, 3).unwrap();
        assert_eq!(&two, b"3AB6");
        assert_eq!(file.stream_position().unwrap(), 0);
    });
}

#[test]
fn a_seek_past_the_end_makes_a_hole_of_zeroes() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"x");
        let mut file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(100_000)).unwrap();
        file.write_all(b"y").unwrap();
        let all = fs::read(&path).unwrap();
        assert_eq!(all.len(), 100_001);
        assert!(all[1..100_000].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn seek_refuses_a_negative_position_and_an_unknown_whence() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"x"), libc::O_RDONLY, 0).unwrap();
        // SAFETY: plain numbers.
        assert_eq!(check(unsafe { libc::lseek(fd, -1, libc::SEEK_SET) }), Err(libc::EINVAL));
        // SAFETY: plain numbers.
        assert_eq!(check(unsafe { libc::lseek(fd, 0, 77) }), Err(libc::EINVAL));
    });
}

#[test]
fn a_pipe_cannot_seek() {
    isolated(|| {
        let (reader, _writer) = pipe();
        // SAFETY: plain numbers.
        assert_eq!(check(unsafe { libc::lseek(reader, 0, libc::SEEK_CUR) }), Err(libc::ESPIPE));
    });
}

#[test]
fn reading_a_write_only_descriptor_is_ebadf() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"x"), libc::O_WRONLY, 0).unwrap();
        assert_eq!(read(fd, 1), Err(libc::EBADF));
    });
}

#[test]
fn reading_a_directory_is_eisdir() {
    isolated(|| assert_eq!(read(open("/tmp", libc::O_RDONLY, 0).unwrap(), 1), Err(libc::EISDIR)));
}

#[test]
fn a_bad_buffer_is_efault_not_death() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"hello"), libc::O_RDWR, 0).unwrap();
        for address in [0usize, 8, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, usize::MAX - 2] {
            // SAFETY: the kernel must refuse the address.
            assert_eq!(
                check(unsafe { libc::read(fd, address as *mut _, 4) } as i64),
                Err(libc::EFAULT),
                "{address:x}"
            );
            // SAFETY: the kernel must refuse the address.
            assert_eq!(
                check(unsafe { libc::write(fd, address as *const _, 4) } as i64),
                Err(libc::EFAULT),
                "{address:x}"
            );
        }
    });
}

#[test]
fn a_path_at_a_bad_address_is_efault() {
    isolated(|| {
        // SAFETY: the kernel must refuse the address.
        assert_eq!(check(unsafe { libc::open(16 as *const _, libc::O_RDONLY) }), Err(libc::EFAULT));
    });
}

#[test]
fn a_read_stops_where_memory_stops() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", &[7; 8192]), libc::O_RDONLY, 0).unwrap();
        // SAFETY: a fresh private mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                8192,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        // SAFETY: our own mapping's second page.
        must(unsafe { libc::munmap(memory.byte_add(4096), 4096) });
        // SAFETY: the kernel must stop at the hole.
        assert_eq!(check(unsafe { libc::read(fd, memory, 8192) } as i64), Ok(4096));
    });
}

#[test]
fn vectored_io_gathers_and_scatters() {
    isolated(|| {
        let scratch = Scratch::new();
        let mut file = fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(scratch.path("v"))
            .unwrap();
        let wrote = file
            .write_vectored(&[
                std::io::IoSlice::new(b"ab"),
                std::io::IoSlice::new(b""),
                std::io::IoSlice::new(b"cde"),
            ])
            .unwrap();
        assert_eq!(wrote, 5);
        file.rewind().unwrap();
        let (mut one, mut two) = ([0; 3], [0; 3]);
        let got = file
            .read_vectored(&mut [
                std::io::IoSliceMut::new(&mut one),
                std::io::IoSliceMut::new(&mut two),
            ])
            .unwrap();
        assert_eq!((got, &one, &two[..2]), (5, b"abc", &b"de"[..]));
    });
}

#[test]
fn too_many_vectors_are_refused() {
    isolated(|| {
        let (_reader, writer) = pipe();
        let vectors = vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 1025];
        // SAFETY: readable vectors of no bytes.
        assert_eq!(
            check(unsafe { libc::writev(writer, vectors.as_ptr(), 1025) } as i64),
            Err(libc::EINVAL)
        );
    });
}

#[test]
fn ftruncate_shrinks_and_grows_with_zeroes() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", &[9; 5000]);
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(10).unwrap();
        file.set_len(5000).unwrap();
        let all = fs::read(&path).unwrap();
        assert!(all[..10].iter().all(|&byte| byte == 9) && all[10..].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"still here");
        let mut file = fs::File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
    });
}

#[test]
fn a_hard_link_is_the_same_file() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"x");
        fs::hard_link(&path, scratch.path("b")).unwrap();
        let (one, two) = (stat(&path).unwrap(), stat(scratch.path("b")).unwrap());
        assert_eq!((one.st_ino, one.st_nlink), (two.st_ino, 2));
    });
}

#[test]
fn a_directory_cannot_be_linked() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        let error = fs::hard_link(scratch.path("d"), scratch.path("e")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    });
}

#[test]
fn a_symlink_reads_back_and_is_followed() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("a", b"x");
        symlink("a", scratch.path("l")).unwrap();
        assert_eq!(fs::read_link(scratch.path("l")).unwrap().to_str(), Some("a"));
        assert_eq!(fs::read(scratch.path("l")).unwrap(), b"x");
        assert!(fs::symlink_metadata(scratch.path("l")).unwrap().is_symlink());
        assert_eq!(fs::symlink_metadata(scratch.path("l")).unwrap().len(), 1);
    });
}

#[test]
fn a_ring_of_symlinks_is_eloop() {
    isolated(|| {
        let scratch = Scratch::new();
        symlink("b", scratch.path("a")).unwrap();
        symlink("a", scratch.path("b")).unwrap();
        assert_eq!(open(scratch.path("a"), libc::O_RDONLY, 0), Err(libc::ELOOP));
    });
}

#[test]
fn forty_symlinks_are_followed_and_not_one_more() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("l0", b"end");
        for n in 1..=41 {
            symlink(format!("l{}", n - 1), scratch.path(&format!("l{n}"))).unwrap();
        }
        assert!(open(scratch.path("l40"), libc::O_RDONLY, 0).is_ok());
        assert_eq!(open(scratch.path("l41"), libc::O_RDONLY, 0), Err(libc::ELOOP));
    });
}

#[test]
fn rename_replaces_its_target() {
    isolated(|| {
        let scratch = Scratch::new();
        let (a, b) = (scratch.file("a", b"new"), scratch.file("b", b"old"));
        fs::rename(&a, &b).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"new");
        assert!(!a.exists());
    });
}

#[test]
fn rename_checks_the_kinds_of_both() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        fs::create_dir(scratch.path("d")).unwrap();
        fs::create_dir_all(scratch.path("full/x")).unwrap();
        let code = |from: &std::path::Path, to: &std::path::Path| {
            fs::rename(from, to).unwrap_err().raw_os_error()
        };
        assert_eq!(code(&file, &scratch.path("d")), Some(libc::EISDIR));
        assert_eq!(code(&scratch.path("d"), &file), Some(libc::ENOTDIR));
        assert_eq!(code(&scratch.path("d"), &scratch.path("full")), Some(libc::ENOTEMPTY));
        assert_eq!(code(&scratch.path("full"), &scratch.path("full/x/y")), Some(libc::EINVAL));
        fs::rename(scratch.path("full"), scratch.path("d")).unwrap();
        assert!(scratch.path("d/x").is_dir());
    });
}

#[test]
fn renameat2_can_refuse_to_replace() {
    isolated(|| {
        let scratch = Scratch::new();
        let (a, b) = (c(scratch.file("a", b"a")), c(scratch.file("b", b"b")));
        // SAFETY: NUL-terminated paths.
        let result = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                a.as_ptr(),
                libc::AT_FDCWD,
                b.as_ptr(),
                1,
            )
        };
        assert_eq!(check(result), Err(libc::EEXIST));
    });
}

#[test]
fn permissions_are_what_chmod_set() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"");
        for mode in [0o644, 0o4755, 0o1777, 0] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(stat(&path).unwrap().st_mode & 0o7777, mode);
        }
    });
}

#[test]
fn umask_takes_bits_from_new_files() {
    isolated(|| {
        let scratch = Scratch::new();
        // SAFETY: a plain number.
        unsafe { libc::umask(0o027) };
        close(open(scratch.path("a"), libc::O_CREAT | libc::O_WRONLY, 0o666).unwrap());
        assert_eq!(stat(scratch.path("a")).unwrap().st_mode & 0o777, 0o640);
        fs::create_dir(scratch.path("d")).unwrap();
        assert_eq!(stat(scratch.path("d")).unwrap().st_mode & 0o777, 0o750);
    });
}

#[test]
fn times_are_set_to_the_nanosecond() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = c(scratch.file("a", b""));
        let times = [
            libc::timespec { tv_sec: 1_000_000_000, tv_nsec: 123_456_789 },
            libc::timespec { tv_sec: 2_000_000_000, tv_nsec: 5 },
        ];
        // SAFETY: two whole timespecs and a NUL-terminated path.
        must(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), 0) });
        let stat = stat(scratch.path("a")).unwrap();
        assert_eq!(
            (stat.st_atime, stat.st_atime_nsec, stat.st_mtime, stat.st_mtime_nsec),
            (1_000_000_000, 123_456_789, 2_000_000_000, 5)
        );
    });
}

#[test]
fn a_write_moves_the_modification_time() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"x");
        let old = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
        // SAFETY: two whole timespecs and a NUL-terminated path.
        must(unsafe { libc::utimensat(libc::AT_FDCWD, c(&path).as_ptr(), old.as_ptr(), 0) });
        fs::write(&path, b"y").unwrap();
        assert!(stat(&path).unwrap().st_mtime > 1_000_000);
    });
}

#[test]
fn a_file_in_the_way_of_a_path_is_enotdir() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("a", b"");
        assert_eq!(open(scratch.path("a/b"), libc::O_RDONLY, 0), Err(libc::ENOTDIR));
        assert_eq!(open(scratch.path("a/"), libc::O_RDONLY, 0), Err(libc::ENOTDIR));
    });
}

#[test]
fn names_and_paths_have_their_limits() {
    isolated(|| {
        let scratch = Scratch::new();
        assert!(
            open(scratch.path(&"n".repeat(255)), libc::O_CREAT | libc::O_WRONLY, 0o600).is_ok()
        );
        assert_eq!(
            open(scratch.path(&"n".repeat(256)), libc::O_CREAT | libc::O_WRONLY, 0o600),
            Err(libc::ENAMETOOLONG)
        );
        assert_eq!(open("/".repeat(4096), libc::O_RDONLY, 0), Err(libc::ENAMETOOLONG));
        assert!(open("/".repeat(4095), libc::O_RDONLY, 0).is_ok());
        assert_eq!(open("", libc::O_RDONLY, 0), Err(libc::ENOENT));
    });
}

#[test]
fn dot_dot_stops_at_the_root() {
    isolated(|| assert_eq!(stat("/../../..").unwrap().st_ino, stat("/").unwrap().st_ino));
}

#[test]
fn access_asks_for_the_real_user() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // SAFETY: NUL-terminated paths.
        unsafe {
            must(libc::access(c(&path).as_ptr(), libc::R_OK | libc::W_OK));
            assert_eq!(check(libc::access(c(&path).as_ptr(), libc::X_OK)), Err(libc::EACCES));
            assert_eq!(
                check(libc::access(c(scratch.path("no")).as_ptr(), libc::F_OK)),
                Err(libc::ENOENT)
            );
        }
    });
}

#[test]
fn statx_and_stat_agree() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"12345");
        // SAFETY: plain numbers.
        let mut x: libc::statx = unsafe { zeroed() };
        // SAFETY: a NUL-terminated path and room for the answer.
        must(unsafe {
            libc::statx(libc::AT_FDCWD, c(&path).as_ptr(), 0, libc::STATX_BASIC_STATS, &mut x)
        });
        let stat = stat(&path).unwrap();
        assert_eq!((x.stx_size, x.stx_ino, u32::from(x.stx_mode)), (5, stat.st_ino, stat.st_mode));
    });
}

#[test]
fn null_zero_and_full_do_as_they_are_called() {
    isolated(|| {
        let null = open("/dev/null", libc::O_RDWR, 0).unwrap();
        assert_eq!(read(null, 10), Ok(vec![]));
        assert_eq!(write(null, b"gone"), Ok(4));
        let zero = open("/dev/zero", libc::O_RDONLY, 0).unwrap();
        assert_eq!(read(zero, 10_000), Ok(vec![0; 10_000]));
        let full = open("/dev/full", libc::O_RDWR, 0).unwrap();
        assert_eq!(write(full, b"x"), Err(libc::ENOSPC));
        assert_eq!(read(full, 3), Ok(vec![0; 3]));
    });
}

#[test]
fn random_bytes_differ() {
    isolated(|| {
        let random = open("/dev/urandom", libc::O_RDONLY, 0).unwrap();
        let (one, two) = (read(random, 64).unwrap(), read(random, 64).unwrap());
        assert!(one.len() == 64 && one != two);
        let mut three = [0u8; 64];
        // SAFETY: room for 64 bytes.
        assert_eq!(unsafe { libc::getrandom(three.as_mut_ptr().cast(), 64, 0) }, 64);
        assert_ne!(three, [0; 64]);
    });
}

#[test]
fn a_missing_device_is_enxio() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = c(scratch.path("dev"));
        // SAFETY: a NUL-terminated path; the number belongs to no driver.
        match check(unsafe {
            libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(240, 77))
        }) {
            Ok(_) => {
                let opened = open(scratch.path("dev"), libc::O_RDONLY, 0);
                assert!(matches!(opened, Err(libc::ENXIO | libc::EACCES)), "{opened:?}");
            }
            Err(number) => assert_eq!(number, libc::EPERM),
        }
    });
}
