//! Components in machine code for the measurements of messages, each as small as a stub can be.
//!
//! Each is one page of position-independent code that begins with a jump and its parameters. Its first thread starts
//! the others and ends; the last instruction of a component that succeeded is the `ud2` at its end.
use crate::domains;
use alloc::{sync::Arc, vec::Vec};
use archive::Executable;
use calls::IMAGE_BASE;
use core::{arch::global_asm, sync::atomic::Ordering::Relaxed};
use nucleus::{
    arch::smp,
    capability::Capability,
    dma::DmaBuffer,
    domain::{Domain, Grants},
    memory::{PAGE, space::Protection},
    thread::Policy,
    time,
};

/// The words that a component's code begins with.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Number of times that each thread repeats its operation.
    pub count: u64,
    /// Number of threads.
    pub threads: u64,
    /// Words of each message.
    pub words: u64,
}

global_asm!(
    r#"
    .macro component name
    .pushsection .rodata.components, "a", @progbits
    .balign 8
    .global skerry_probe_\name
skerry_probe_\name:
    jmp 1f
    .balign 8
    # Count, threads, words, policy.
    .quad 0, 0, 0, 0
1:
    .endm
    .macro end_component name
    ud2
    .global skerry_probe_\name\()_end
skerry_probe_\name\()_end:
    .popsection
    .endm

    # Starts as many threads as the parameters say at `3:`, each with a message area of its own, and ends.
    .macro start_threads name
    mov rbp, [rip + skerry_probe_\name + 16]
    mov edi, 0x100000
    mov eax, {map}
    syscall
    test eax, eax
    jnz 9f
    mov r8, rdi
2:  lea rdi, [rip + 3f]
    lea rsi, [r8 + 0x80000]
    mov rdx, rbp
    xor r10d, r10d
    mov r9, [rip + skerry_probe_\name + 32]
    mov eax, {spawn}
    syscall
    test eax, eax
    jnz 9f
    add r8, 512
    dec rbp
    jnz 2b
    mov eax, {exit}
    syscall
9:  int3
3:
    .endm

    # No deadline, no capability.
    .macro no_more
    mov rbx, -1
    mov r12, rbx
    .endm

    .macro a_server name, flag
    component \name
    start_threads \name
    mov esi, 0
3:  mov edi, {service}
    .ifeq \flag
    no_more
    .endif
    mov eax, {reply_and_receive} + \flag
    syscall
    inc rdx
    jmp 3b
    end_component \name
    .endm
    a_server server, {plain}
    a_server long_server, 0

    # As server, but lets everybody call before it answers.
    component slow_server
    start_threads slow_server
    mov esi, 0
3:  mov edi, {service}
    mov eax, {reply_and_receive} + {plain}
    syscall
    inc rdx
    mov r13, rsi
    mov r14, rdx
    mov eax, {yield_now}
    syscall
    mov rsi, r13
    mov rdx, r14
    jmp 3b
    end_component slow_server

    .macro a_client name, flag
    component \name
    start_threads \name
    mov rbp, [rip + skerry_probe_\name + 8]
3:  mov edi, {service}
    mov esi, [rip + skerry_probe_\name + 24]
    .ifeq \flag
    no_more
    .endif
    mov eax, {call} + \flag
    syscall
    test eax, eax
    jnz 9f
    dec ebp
    jnz 3b
    mov eax, {exit}
    syscall
9:  int3
    end_component \name
    .endm
    a_client client, {plain}
    a_client long_client, 0

    # A client that marks its message as only the nucleus may, and one that looks at what a call keeps, in turn.
    component strict_client
    start_threads strict_client
    mov rbp, [rip + skerry_probe_strict_client + 8]
3:  mov edi, {service}
    mov esi, 0x70304
    mov rdx, rbp
    mov eax, {call} + {plain}
    syscall
    test eax, eax
    jnz 9f
    cmp esi, 0x70004
    jne 9f
    dec rdx
    cmp rdx, rbp
    jne 9f
    mov edi, {service}
    mov esi, 0x70004
    mov rdx, rbp
    no_more
    mov r13d, 13
    mov r14d, 14
    mov r15d, 15
    mov eax, {call}
    syscall
    test eax, eax
    jnz 9f
    cmp rbx, -1
    jne 9f
    cmp r12, -1
    jne 9f
    cmp r13d, 13
    jne 9f
    cmp r14d, 14
    jne 9f
    cmp r15d, 15
    jne 9f
    dec rdx
    cmp rdx, rbp
    jne 9f
    dec ebp
    jnz 3b
    mov eax, {exit}
    syscall
9:  int3
    end_component strict_client

    # Two handles: it is served at the first and signals at the second.
    component waiter
    start_threads waiter
3:  mov edi, {service}
    xor esi, esi
    mov eax, {reply_and_receive} + {plain}
    syscall
    mov edi, {second}
    mov esi, 1
    mov eax, {signal} + {plain}
    syscall
    jmp 3b
    end_component waiter

    component signaller
    start_threads signaller
    mov rbp, [rip + skerry_probe_signaller + 8]
3:  mov edi, {second}
    mov esi, 1
    mov eax, {signal} + {plain}
    syscall
    test eax, eax
    jnz 9f
    mov edi, {service}
    xor esi, esi
    mov eax, {reply_and_receive} + {plain}
    syscall
    test eax, eax
    jnz 9f
    dec ebp
    jnz 3b
    mov eax, {exit}
    syscall
9:  int3
    end_component signaller

    # A server and its client in one address space.
    component pair
    start_threads pair
    mov esi, 0
    cmp edi, 2
    jne 5f
4:  mov edi, {service}
    mov eax, {reply_and_receive} + {plain}
    syscall
    inc rdx
    jmp 4b
5:  mov rbp, [rip + skerry_probe_pair + 8]
6:  mov edi, {service}
    mov esi, [rip + skerry_probe_pair + 24]
    mov eax, {call} + {plain}
    syscall
    test eax, eax
    jnz 9f
    dec ebp
    jnz 6b
    ud2
9:  int3
    end_component pair

    # As pair; the client looks at every word, the badge and what the call keeps.
    component checked_pair
    start_threads checked_pair
    mov esi, 0
    cmp edi, 2
    jne 5f
4:  mov edi, {service}
    mov eax, {reply_and_receive} + {plain}
    syscall
    test eax, eax
    jnz 9f
    inc rdx
    inc r9
    jmp 4b
5:  mov rbp, [rip + skerry_probe_checked_pair + 8]
6:  mov edi, {service}
    mov esi, 0x70004
    mov rdx, rbp
    mov r10d, 10
    mov r8d, 8
    mov r9d, 9
    mov eax, {call} + {plain}
    syscall
    test eax, eax
    jnz 9f
    dec rdx
    cmp rdx, rbp
    jne 9f
    cmp r10d, 10
    jne 9f
    cmp r8d, 8
    jne 9f
    cmp r9d, 10
    jne 9f
    cmp esi, 0x70004
    jne 9f
    cmp r12, -1
    jne 9f
    dec ebp
    jnz 6b
    ud2
9:  int3
    end_component checked_pair

    # As many bytes as words from a window.
    component copier
    start_threads copier
    mov rbp, [rip + skerry_probe_copier + 8]
3:  mov edi, {service}
    lea rsi, [rsp - 0x4000]
    xor edx, edx
    mov r10, [rip + skerry_probe_copier + 24]
    xor r8d, r8d
    mov eax, {copy}
    syscall
    test eax, eax
    jnz 9f
    dec ebp
    jnz 3b
    mov eax, {exit}
    syscall
9:  int3
    end_component copier

    # The same in 16 pieces at once, 128 bytes apart in the window.
    component lister
    start_threads lister
    lea rcx, [rsp - 0x1000]
    lea rsi, [rsp - 0x4000]
    xor edx, edx
4:  mov [rcx], rsi
    mov [rcx + 8], rdx
    mov rax, [rip + skerry_probe_lister + 24]
    mov [rcx + 16], rax
    add rcx, 24
    add rsi, rax
    add edx, 128
    cmp edx, 2048
    jne 4b
    mov rbp, [rip + skerry_probe_lister + 8]
3:  mov edi, {service}
    lea rsi, [rsp - 0x1000]
    mov edx, 16
    xor r8d, r8d
    mov eax, {copy_list}
    syscall
    test eax, eax
    jnz 9f
    dec ebp
    jnz 3b
    mov eax, {exit}
    syscall
9:  int3
    end_component lister

    # A call that does not exist.
    component nothing
    start_threads nothing
    mov rbp, [rip + skerry_probe_nothing + 8]
3:  mov eax, 0xffff
    syscall
    dec ebp
    jnz 3b
    mov eax, {exit}
    syscall
    end_component nothing
    "#,
    service = const calls::SERVICE,
    second = const calls::SERVICE + 1,
    map = const calls::Call::Map as u64,
    spawn = const calls::Call::Spawn as u64,
    exit = const calls::Call::Exit as u64,
    copy = const calls::Call::Copy as u64,
    copy_list = const calls::Call::CopyList as u64,
    yield_now = const calls::Call::Yield as u64,
    call = const calls::Call::Call as u64,
    signal = const calls::Call::Signal as u64,
    plain = const calls::PLAIN,
    reply_and_receive = const calls::Call::ReplyAndReceive as u64,
);

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident: $start:ident to $end:ident,)+) => {
        unsafe extern "C" {
            $(static $start: u8; static $end: u8;)+
        }
        $($(#[$meta])*
        pub fn $name() -> &'static [u8] {
            let (start, end) = (&raw const $start, &raw const $end);
            // SAFETY: two labels of one section, the code between them.
            unsafe { core::slice::from_raw_parts(start, end.addr() - start.addr()) }
        })+
    };
}

codes! {
    /// A server that answers each call with the first word and one, for ever.
    server: skerry_probe_server to skerry_probe_server_end,
    /// A server of messages that do not fit in registers.
    long_server: skerry_probe_long_server to skerry_probe_long_server_end,
    /// A server that does the same, but gives the processor away before it answers.
    slow_server: skerry_probe_slow_server to skerry_probe_slow_server_end,
    /// A client that calls.
    client: skerry_probe_client to skerry_probe_client_end,
    /// A client whose messages do not fit in registers.
    long_client: skerry_probe_long_client to skerry_probe_long_client_end,
    /// A client that checks what a call may send and what it keeps.
    strict_client: skerry_probe_strict_client to skerry_probe_strict_client_end,
    /// A thread that waits for bits at its first endpoint and signals at its second, for ever.
    waiter: skerry_probe_waiter to skerry_probe_waiter_end,
    /// Signals at its second endpoint and waits for bits at its first.
    signaller: skerry_probe_signaller to skerry_probe_signaller_end,
    /// Two threads, one like `server` and one like `client`; ends by an invalid instruction.
    pair: skerry_probe_pair to skerry_probe_pair_end,
    /// Two threads that do the same, and check the answers.
    checked_pair: skerry_probe_checked_pair to skerry_probe_checked_pair_end,
    /// A component that copies from a window.
    copier: skerry_probe_copier to skerry_probe_copier_end,
    /// The same, 16 pieces a call.
    lister: skerry_probe_lister to skerry_probe_lister_end,
    /// A component that makes a call that does not exist.
    nothing: skerry_probe_nothing to skerry_probe_nothing_end,
}

/// Starts `code` with its capabilities.
pub fn start(code: &[u8], parameters: Parameters, held: Vec<Capability>) -> Arc<Domain> {
    let Parameters { count, threads, words } = parameters;
    let policy = u64::from(Policy::Fair { nice: 0 }.pack());
    let mut code = code.to_vec();
    for (place, value) in code[8..40].chunks_mut(8).zip([count, threads, words, policy]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    let domain = domains::big("probe");
    domain
        .load(IMAGE_BASE, 1, &code, Protection::READ | Protection::EXECUTE)
        .expect("no memory for a domain");
    Loaded { domain: domain.clone(), entry: IMAGE_BASE }.start(held);
    domain
}

/// The executables of `bench/`.
static PROBES: &[u8] = include_bytes!(env!("SKERRY_PROBES"));

/// A component of `bench/`, not started.
#[derive(Debug)]
pub struct Loaded {
    /// The domain of the component.
    pub domain: Arc<Domain>,
    entry: u64,
}

/// Loads the component `name`, if it was built.
pub fn load(name: &str) -> Option<Loaded> {
    load_with(name, domains::big_grants())
}

/// Loads the component with `grants`.
pub fn load_with(name: &str, grants: Grants) -> Option<Loaded> {
    let executable = Executable::parse(archive::find(PROBES, name)?).expect("no executable");
    let domain = Domain::new(name, grants).expect("no memory for a domain");
    let shared = DmaBuffer::allocate(PAGE).expect("no memory for the shared page");
    let (base, factor, wall_offset) = time::scale();
    let words = [base, factor, wall_offset, smp::online() as u64];
    for (place, value) in shared.words().iter().zip(words) {
        place.store(value, Relaxed);
    }
    domain.show(domain.shared_page(), &shared, Protection::READ).expect("no memory for a domain");
    for segment in executable.segments() {
        let mut rights = Protection::READ;
        rights.set(Protection::WRITE, segment.is_writable);
        rights.set(Protection::EXECUTE, segment.is_executable);
        let pages = segment.bytes as usize / PAGE;
        domain.load(segment.address, pages, segment.data, rights).expect("no memory for a domain");
    }
    Some(Loaded { domain, entry: executable.entry() })
}

impl Loaded {
    /// Starts the component with its capabilities.
    pub fn start(&self, held: Vec<Capability>) {
        for capability in held {
            self.domain.grant(capability).expect("no room in a table");
        }
        self.domain.start(self.entry).expect("no memory for a domain");
    }
}
