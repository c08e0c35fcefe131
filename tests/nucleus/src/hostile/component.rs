//! A component in machine code that makes random kernel calls and sends random messages.
//!
//! Numbers of calls, handles, addresses and deadlines are drawn from harmful values: stale and forged handles, the
//! component's own addresses, results of earlier calls. It ends often, by itself or killed.
use super::{Life, Victims};
use crate::domains;
use alloc::{format, sync::Arc, vec};
use calls::{Call, Grants, IMAGE_BASE, SERVICE};
use core::arch::global_asm;
use nucleus::{
    domain::Domain,
    memory::space::Protection,
    thread::{Endpoint, Policy},
};

/// Threads of the hostile component at first; it may start as many more.
const THREADS: usize = 4;
const MEMORY_BYTES: usize = 1 << 20;

global_asm!(
    r#"
    .pushsection .rodata.hostile, "a", @progbits
    .balign 8
    .global skerry_hostile
skerry_hostile:
    jmp 1f
    .balign 8
    # Seed, policy.
    .quad 0, 0
1:  mov edi, 0x10000
    mov eax, {map}
    syscall
    mov r14, rdi
    mov ebp, {threads}
    # An area a thread: message area, at 1032 the random state and what calls gave; the stack.
2:  lea rdi, [rip + 3f]
    lea rsi, [r14 + 4096]
    mov rdx, r14
    mov r8, r14
    mov rax, 0x9e3779b97f4a7c15
    imul rax, rbp
    xor rax, [rip + skerry_hostile + 8]
    mov [r14 + 1032], rax
    xor r10d, r10d
    mov r9, [rip + skerry_hostile + 16]
    mov eax, {spawn}
    syscall
    add r14, 4096
    dec ebp
    jnz 2b
    mov eax, {exit}
    syscall

3:  mov rbp, rdi
4:  call 6f
    mov r12, rax
    # Seldom moved, or to be read only.
    call 5f
    mov rcx, rax
    test al, 7
    jnz 10f
    shr rcx, 62
    shl rcx, 62
    or r12, rcx
10:
    call 6f
    mov rdi, rax
    call 6f
    mov rsi, rax
    call 6f
    mov rdx, rax
    call 6f
    mov r10, rax
    call 6f
    mov r8, rax
    call 6f
    mov r9, rax
    # Deadlines are past mostly, seldom none.
    call 5f
    xor ebx, ebx
    test al, 3
    jnz 7f
    mov rbx, rax
    shr rbx, 40
    test eax, 0x3f00
    jnz 7f
    mov rbx, -1
7:  call 5f
    mov r13, rax
    mov ecx, eax
    and ecx, 63
    # A call that ends it or fills the log comes once where others come a thousand times.
    mov rax, {seldom}
    bt rax, rcx
    jnc 8f
    test r13d, 0x3ff00
    jnz 4b
8:  mov eax, ecx
    test r13d, 0x700000
    jnz 9f
    or eax, {plain}
9:  push r13
    syscall
    pop r13
    mov rcx, r13
    shr rcx, 32
    and ecx, 7
    mov [rbp + 1040 + 8 * rcx], rdi
    jmp 4b

    # The next random number (xorshift) in rax; rcx is lost.
5:  mov rax, [rbp + 1032]
    mov rcx, rax
    shl rcx, 13
    xor rax, rcx
    mov rcx, rax
    shr rcx, 7
    xor rax, rcx
    mov rcx, rax
    shl rcx, 17
    xor rax, rcx
    mov [rbp + 1032], rax
    ret

    # An argument in rax: half of them handles, seldom of a slot's second use.
6:  call 5b
    mov rcx, rax
    shr rcx, 60
    cmp ecx, 8
    jae 20f
    cmp ecx, 1
    jb 30f
    je 21f
    cmp ecx, 3
    jb 22f
    je 23f
    cmp ecx, 5
    jb 24f
    je 25f
    cmp ecx, 7
    jb 26f
    mov eax, eax
    ret
20: mov ecx, eax
    and ecx, 15
    or ecx, 0x10000
    test eax, 0xf00
    jnz 29f
    add ecx, 0x10000
29: mov eax, ecx
30: ret
21: and eax, 15
    ret
22: mov rax, -1
    ret
23: and eax, 0xfff
    add rax, rbp
    ret
24: and eax, 7
    mov rax, [rbp + 1040 + 8 * rax]
    ret
25: and eax, 0x1fff
    add eax, {image}
    ret
26: xor eax, eax
    ret

    # Answers each call with its first word and one; gives back what capabilities come along.
    .balign 8
    .global skerry_victim
skerry_victim:
    mov esi, 4
31: mov edi, {service}
    mov rbx, -1
    mov r12, rbx
    mov eax, {reply_and_receive}
    syscall
    mov r13, rdx
    cmp r12, -1
    je 32f
    mov rdi, r12
    mov eax, {close}
    syscall
32: lea rdx, [r13 + 1]
    mov esi, 4
    jmp 31b
    .global skerry_victim_end
skerry_victim_end:
    .popsection
    "#,
    threads = const THREADS,
    map = const Call::Map as u64,
    spawn = const Call::Spawn as u64,
    exit = const Call::Exit as u64,
    reply_and_receive = const Call::ReplyAndReceive as u64,
    close = const Call::Close as u64,
    service = const SERVICE,
    plain = const calls::PLAIN,
    image = const IMAGE_BASE,
    seldom = const 1_u64 << Call::Exit as u64
        | 1 << Call::Panic as u64
        | 1 << Call::Spawn as u64
        | 1 << Call::Unmap as u64
        | 1 << Call::Log as u64,
);

unsafe extern "C" {
    static skerry_hostile: u8;
    static skerry_victim: u8;
    static skerry_victim_end: u8;
}

/// Returns the hostile component's code with its seed, and the victim's.
fn codes(seed: u64) -> (vec::Vec<u8>, &'static [u8]) {
    let (start, middle, end) =
        (&raw const skerry_hostile, &raw const skerry_victim, &raw const skerry_victim_end);
    // SAFETY: labels of one section, the code between them.
    let (hostile, victim) = unsafe {
        (
            core::slice::from_raw_parts(start, middle.addr() - start.addr()),
            core::slice::from_raw_parts(middle, end.addr() - middle.addr()),
        )
    };
    let mut hostile = hostile.to_vec();
    let policy = u64::from(POLICY.pack());
    for (place, value) in hostile[8..24].chunks_mut(8).zip([seed, policy]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    (hostile, victim)
}

/// The best policy that its threads may have.
const POLICY: Policy = Policy::Fair { nice: 10 };

/// Starts one life of the hostile component.
pub(super) fn begin(seed: u64, victims: &Victims) -> Life {
    let grants = Grants {
        memory_bytes: MEMORY_BYTES,
        threads: 2 * THREADS,
        // Ports without a device, and an interrupt line that never interrupts.
        ports: vec![(0x2e8, 8)],
        lines: vec![5],
        policy: POLICY,
        ..domains::grants(0)
    };
    let domain = Domain::new(&format!("hostile {seed}"), grants).expect("no memory for a domain");
    let code = codes(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1).0;
    domain
        .load(IMAGE_BASE, 1, &code, Protection::READ | Protection::EXECUTE)
        .expect("no memory for a domain");
    let own = domains::serve(&Arc::new(Endpoint::new()));
    let others = victims.endpoints.iter().map(domains::call);
    let held = [own, domains::call(&victims.giver)].into_iter().chain(others);
    held.for_each(|capability| assert!(domain.grant(capability).is_ok()));
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    Life { domain, memory_bytes: MEMORY_BYTES, stuck_ns: 20_000_000 }
}

/// Starts the victim that is a component, as the server of `endpoint`.
pub(super) fn victim(endpoint: &Arc<Endpoint>) -> Arc<Domain> {
    domains::start(codes(0).1, 0, vec![domains::serve(endpoint)])
}
