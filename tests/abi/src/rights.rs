//! Small programs whose rights are checked from outside: each is one page at a known address, with a secret
//! in it.
use crate::{c, check};
use std::{ffi::CString, path::Path};

/// The address of a small program's page.
pub const SMALL_AT: usize = 0x40_0000;
/// Address of its secret.
pub const SECRET_AT: usize = SMALL_AT + SECRET_OFFSET;
/// Bytes of a secret.
pub const SECRET_BYTES: usize = 16;

const SECRET_OFFSET: usize = 0x100;
const CODE_OFFSET: usize = 0x200;
const PAGE: usize = 4096;
/// `mov eax, SYS_pause; syscall`, and again.
const WAITS: [u8; 9] = [0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7];

/// Returns an ELF file of one page that waits for ever, with `secret` in its memory.
pub fn small_program(secret: &[u8; SECRET_BYTES]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    file.resize(16, 0);
    // An executable for x86-64, version 1.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [SMALL_AT + CODE_OFFSET, 64, 0] {
        file.extend((word as u64).to_le_bytes());
    }
    // Flags, the header's size, the program headers' size and number, no sections.
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // This program header is PT_LOAD, readable and executable.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, SMALL_AT, SMALL_AT, PAGE, PAGE, PAGE] {
        file.extend((word as u64).to_le_bytes());
    }
    file.resize(PAGE, 0);
    file[SECRET_OFFSET..SECRET_OFFSET + SECRET_BYTES].copy_from_slice(secret);
    file[CODE_OFFSET..CODE_OFFSET + WAITS.len()].copy_from_slice(&WAITS);
    file
}

/// Writes a program with an owner and a mode.
///
/// # Panics
/// Panics if the system refuses that.
#[track_caller]
pub fn install_program(path: &Path, contents: &[u8], (user, group): (u32, u32), mode: u32) {
    std::fs::write(path, contents).expect("writing a program");
    let name = c(path);
    // SAFETY: a NUL-terminated path.
    crate::must(unsafe { libc::chown(name.as_ptr(), user, group) });
    // SAFETY: a NUL-terminated path.
    crate::must(unsafe { libc::chmod(name.as_ptr(), mode) });
}

/// Executes a program without arguments and environment.
///
/// # Errors
/// The error number. After a success it does not return.
pub fn execute(program: &CString) -> Result<i64, i32> {
    let words = [program.as_ptr(), std::ptr::null()];
    let nothing = [std::ptr::null()];
    // SAFETY: a NUL-terminated path, and lists that end with a null pointer.
    check(unsafe { libc::execve(program.as_ptr(), words.as_ptr(), nothing.as_ptr()) })
}

/// Reads another process's memory at `address`.
///
/// # Errors
/// The error number.
pub fn read_memory(process: i32, address: usize, into: &mut [u8]) -> Result<i64, i32> {
    let own = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let their = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the caller's own buffer, and another process's address.
    check(unsafe { libc::process_vm_readv(process, &own, 1, &their, 1, 0) } as i64)
}
