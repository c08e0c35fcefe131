//! Kernel calls with any number and arguments, and accesses to any address.
use core::arch::{asm, global_asm};

/// Registers of a message or of another call.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Number of the call, with its flags.
    pub number: u64,
    /// rdi, rsi, rdx, r10, r8 and r9.
    pub arguments: [u64; 6],
    /// rbx: the deadline of a message.
    pub deadline: u64,
    /// r12: the capability that goes along.
    pub along: u64,
}

/// Does a call. Returns rax, the values, and r12.
pub fn ask(asked: Asked) -> (u64, [u64; 3], u64) {
    let [first, second, third, fourth, fifth, sixth] = asked.arguments;
    let (status, along): (u64, u64);
    let (rdi, rsi, rdx): (u64, u64, u64);
    // SAFETY: none: the call may take memory of the component away or change it. This component is to end by that at any time.
    // A run changes every register but the stack pointer.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov rbx, r13",
            "syscall",
            "cld",
            "pop rbp",
            "pop rbx",
            inlateout("rax") asked.number => status,
            inlateout("rdi") first => rdi,
            inlateout("rsi") second => rsi,
            inlateout("rdx") third => rdx,
            inlateout("r10") fourth => _,
            inlateout("r8") fifth => _,
            inlateout("r9") sixth => _,
            inlateout("r12") asked.along => along,
            inlateout("r13") asked.deadline => _,
            lateout("r14") _,
            lateout("r15") _,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    (status, [rdi, rsi, rdx], along)
}

/// Does a call that is no message. Returns rax and the values.
pub fn call(number: u64, arguments: [u64; 6]) -> (u64, [u64; 3]) {
    let (status, values, _) =
        ask(Asked { number, arguments, deadline: 0, along: calls::NO_HANDLE });
    (status, values)
}

global_asm!(
    r#"
    .pushsection .text.raw, "ax", @progbits
    # Loads from rdi, or stores there if rsi is not 0. A fault may go on at the end.
    .global skerry_hostile_touch
    .global skerry_hostile_touched
skerry_hostile_touch:
    test rsi, rsi
    jnz 1f
    mov rax, [rdi]
    ret
1:  mov [rdi], rsi
skerry_hostile_touched:
    ret
    # A thread that ends at once.
    .global skerry_hostile_leave
skerry_hostile_leave:
    mov eax, {exit}
    syscall
    .popsection
    "#,
    exit = const calls::Call::Exit as u64,
);

unsafe extern "sysv64" {
    fn skerry_hostile_touch(address: u64, value: u64);
    fn skerry_hostile_touched();
    fn skerry_hostile_leave();
}

/// Loads from `address`, or stores `value` there if it is not 0.
pub fn touch(address: u64, value: u64) {
    // SAFETY: none, as in `ask`.
    unsafe { skerry_hostile_touch(address, value) }
}

/// Returns the fix-up of [`touch`].
pub fn touch_fixup() -> [u64; 3] {
    let end = skerry_hostile_touched as *const () as u64;
    [skerry_hostile_touch as *const () as u64, end, end]
}

/// Returns the entry of a thread that ends at once.
pub fn leave() -> u64 {
    skerry_hostile_leave as *const () as u64
}
