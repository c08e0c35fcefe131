//! The code of the programs: a page of short pieces, each of which does something that the nucleus must survive.
use xorshift::Xorshift;

/// Bytes of a piece.
pub const PIECE: usize = 32;
/// Pieces of a page.
pub const PIECES: usize = 4096 / PIECE;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// jmp to itself.
const SPIN: [u8; 2] = [0xeb, 0xfe];

/// Pieces that are always the same.
const FIXED: [&[u8]; 24] = [
    // syscall; jmp back
    &[0x0f, 0x05, 0xeb, 0xfc],
    &SPIN,
    // ud2
    &[0x0f, 0x0b],
    // hlt
    &[0xf4],
    // int3; int 0x80; icebp; into
    &[0xcc],
    &[0xcd, 0x80],
    &[0xf1],
    // int 14
    &[0xcd, 14],
    // sysenter
    &[0x0f, 0x34],
    // sysretq
    &[0x48, 0x0f, 0x07],
    // swapgs
    &[0x0f, 0x01, 0xf8],
    // pushfq; or qword [rsp], TF; popfq; syscall; ud2
    &[0x9c, 0x48, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d, 0x0f, 0x05, 0x0f, 0x0b],
    // pushfq; or qword [rsp], NT, AC, IOPL; popfq; syscall
    &[0x9c, 0x48, 0x81, 0x0c, 0x24, 0, 0x70, 4, 0, 0x9d, 0x0f, 0x05],
    // std; syscall; ud2
    &[0xfd, 0x0f, 0x05, 0x0f, 0x0b],
    // mov eax, 0x2b; mov ss, eax; syscall; jmp back
    &[0xb8, 0x2b, 0, 0, 0, 0x8e, 0xd0, 0x0f, 0x05, 0xeb, 0xfc],
    // wrfsbase rdi; wrgsbase rsi; syscall; jmp back
    &[0xf3, 0x48, 0x0f, 0xae, 0xd7, 0xf3, 0x48, 0x0f, 0xae, 0xde, 0x0f, 0x05, 0xeb, 0xfc],
    // xor ecx, ecx; xgetbv; xrstor [rdi]; fninit; ldmxcsr [rsi]
    &[0x31, 0xc9, 0x0f, 0x01, 0xd0, 0x48, 0x0f, 0xae, 0x2f, 0xdb, 0xe3, 0x0f, 0xae, 0x16],
    // mov [rdi], rax; mov rax, [rsi]; syscall; jmp back
    &[0x48, 0x89, 0x07, 0x48, 0x8b, 0x06, 0x0f, 0x05, 0xeb, 0xfc],
    // lea rax, [rip + 14]; mov [rsp], eax; mov dword [rsp + 4], 0x23; jmp far [rsp]; syscall in 32 bits; jmp to itself
    &[
        0x48, 0x8d, 5, 14, 0, 0, 0, 0x89, 4, 0x24, 0xc7, 0x44, 0x24, 4, 0x23, 0, 0, 0, 0xff, 0x2c,
        0x24, 0x0f, 0x05, 0xeb, 0xfe,
    ],
    // push 0x2b; push rsp; pushfq; push 0x33; push rdi; iretq
    &[0x6a, 0x2b, 0x54, 0x9c, 0x6a, 0x33, 0x57, 0x48, 0xcf],
    // mov rax, cr3
    &[0x0f, 0x20, 0xd8],
    // mov dr7, rax
    &[0x0f, 0x23, 0xf8],
    // 1: inc qword [rdi]; jmp 1b
    &[0x48, 0xff, 0x07, 0xeb, 0xfb],
    // call to itself, until the stack ends
    &[0xe8, 0xfb, 0xff, 0xff, 0xff],
];

/// Returns a piece: a fixed one, random bytes, or a system call with a number that stands for something to the nucleus.
fn piece(random: &mut Xorshift) -> [u8; PIECE] {
    let mut piece = [0x90; PIECE];
    match random.below(4) {
        0 => piece.fill_with(|| random.next() as u8),
        1 => {
            // mov eax, number; syscall; jmp back to the call
            let number = match random.below(3) {
                0 => calls::RUN as u32,
                1 => random.below(64) as u32 | 1 << 31,
                _ => random.next() as u32,
            };
            piece[0] = 0xb8;
            piece[1..5].copy_from_slice(&number.to_le_bytes());
            piece[5..7].copy_from_slice(&SYSCALL);
            piece[7..9].copy_from_slice(&[0xeb, 0xf7]);
        }
        _ => {
            let fixed = FIXED[random.below(FIXED.len())];
            piece[..fixed.len()].copy_from_slice(fixed);
        }
    }
    piece
}

/// Returns a page of pieces. None has the prefixes of AVX: QEMU 7.2 ends with an assertion at some instructions that do not
/// exist.
pub fn page(random: &mut Xorshift) -> [[u8; PIECE]; PIECES] {
    let without_avx = |byte| if matches!(byte, 0x62 | 0xc4 | 0xc5) { 0x90 } else { byte };
    core::array::from_fn(|_| piece(random).map(without_avx))
}
