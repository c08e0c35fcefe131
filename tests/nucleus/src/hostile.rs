//! A component that makes random kernel calls and sends random messages, and other components beside it that must not be
//! affected (K3, X5).
//!
//! Numbers of calls, handles, addresses and deadlines are drawn from harmful values: stale and forged handles, the
//! component's own addresses, results of earlier calls. It ends often, by itself or killed, and is started again.
use crate::domains;
use alloc::{boxed::Box, format, sync::Arc, vec};
use calls::{Call, Grants, IMAGE_BASE, SERVICE};
use core::{
    arch::global_asm,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};
use ipc::{Header, Message};
use nucleus::{
    capability::Capability,
    dma::DmaBuffer,
    domain::Domain,
    memory::space::Protection,
    params,
    thread::{self, Endpoint, Policy, Sleep, Wait},
    time,
};

/// Threads of the hostile component at first; it may start as many more.
const THREADS: usize = 4;
const MEMORY_BYTES: usize = 1 << 20;
/// The greatest number of kernel calls of one life, and the nanoseconds without a call after which it is ended.
const LIFE: u64 = 40_000;
const STUCK_NS: u64 = 20_000_000;
/// The capability that its handles name beside its own endpoint.
const COUNTER: u64 = SERVICE + 1;

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
1:  mov edi, {counter}
    mov eax, {map_region}
    syscall
    mov r15, rdi
    mov edi, 0x10000
    mov eax, {map}
    syscall
    mov r14, rdi
    mov ebp, {threads}
    # An area a thread: message area, at 1024 where to count, the random state and what calls gave; the stack.
2:  lea rdi, [rip + 3f]
    lea rsi, [r14 + 4096]
    mov rdx, r14
    mov r8, r14
    mov [r14 + 1024], r15
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
    # What ends it or fills the log comes once where others come a thousand times.
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
    mov rcx, [rbp + 1024]
    lock inc qword ptr [rcx]
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
    counter = const COUNTER,
    threads = const THREADS,
    map_region = const Call::MapRegion as u64,
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

/// The victims, which must not be affected.
struct Victims {
    /// Endpoints that a thread of the kernel world and a component serve.
    endpoints: [Arc<Endpoint>; 2],
    is_over: AtomicBool,
    /// Calls that were answered, and threads that have not left.
    exchanges: AtomicU64,
    running: AtomicU32,
    /// Processor time of the thread that needs no other.
    busy_ns: AtomicU64,
}

impl Victims {
    /// Runs `body` in a thread of the kernel world that ends with the victims.
    fn spawn(self: &Arc<Victims>, name: &str, body: impl FnOnce(&Victims) + Send + 'static) {
        let own = self.clone();
        self.running.fetch_add(1, Relaxed);
        let body: thread::Body = Box::new(Box::new(move || {
            body(&own);
            own.running.fetch_sub(1, Relaxed);
        }));
        thread::spawn(name, Policy::Fair { nice: 0 }, body).expect("no memory for a test's thread");
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Serves every caller, whatever the message, until no others are left.
    fn serve(&self) {
        let mut now = Message::default();
        let mut is_calling = false;
        while !self.is_over() || self.running.load(Relaxed) > 1 {
            let wait = soon(1_000_000);
            let endpoint = &self.endpoints[0];
            let got = if is_calling {
                now = Message { header: Header::new(0, 4), ..now };
                now.words[0] = now.words[0].wrapping_add(1);
                endpoint.reply_and_receive(&mut now, wait)
            } else {
                endpoint.receive(&mut now, wait)
            };
            is_calling = got.is_ok() && !now.header.is_notification();
            drop(thread::take_along());
        }
    }

    /// Calls both and checks every answer.
    fn call(&self) {
        let mut word = 0;
        while !self.is_over() {
            for (index, endpoint) in self.endpoints.iter().enumerate() {
                word += 1;
                let mut now =
                    Message { header: Header::new(1, 1), badge: 0, words: [word, 0, 0, 0] };
                // The server is busy with other callers at times, but not for long.
                let answered = endpoint.call(&mut now, soon(5_000_000_000));
                if answered.is_err() {
                    thread::log_all(format_args!("endpoint {index} does not answer"));
                }
                assert_eq!(answered, Ok(()));
                assert_eq!(now.words[0], word + 1, "somebody else's answer");
                self.exchanges.fetch_add(1, Relaxed);
            }
        }
    }

    /// Uses all the time of a processor.
    fn burn(&self) {
        while !self.is_over() {
            core::hint::spin_loop();
        }
        let used = thread::cpu_time(thread::current_number());
        self.busy_ns.store(used.map_or(0, |used| used.user_ns + used.system_ns), Relaxed);
    }
}

fn soon(ns: u64) -> Wait {
    Wait { deadline_ns: Some(time::now_ns() + ns), sleep: Sleep::Uninterruptible }
}

/// Makes as many random calls as the parameter `skerry.calls` says, or a few without it, and checks the victims.
pub fn harms_nobody() {
    let total = params::number("skerry.calls").unwrap_or(100_000);
    let start_ns = time::now_ns();
    let victims = Arc::new(Victims {
        endpoints: [(); 2].map(|()| Arc::new(Endpoint::new())),
        is_over: AtomicBool::new(false),
        exchanges: AtomicU64::new(0),
        running: AtomicU32::new(0),
        busy_ns: AtomicU64::new(0),
    });
    let isolated = domains::start(codes(0).1, 0, vec![domains::serve(&victims.endpoints[1])]);
    victims.spawn("victim", Victims::serve);
    victims.spawn("client", Victims::call);
    victims.spawn("busy", Victims::burn);
    let counter = Arc::new(DmaBuffer::allocate(4096).expect("no memory for a region"));
    let (mut lives, mut told) = (0, 0);
    while counter.words()[0].load(Relaxed) < total {
        lives += 1;
        let domain = begin(lives, &victims, &counter);
        watch(&domain, &counter.words()[0], total);
        domain.kill("it has lived long enough");
        let done = counter.words()[0].load(Relaxed);
        if done / 1_000_000 > told {
            told = done / 1_000_000;
            log::info!("hostile: {done} calls in {lives} lives");
        }
    }
    victims.is_over.store(true, Relaxed);
    while victims.running.load(Relaxed) > 0 {
        thread::park(Some(time::now_ns() + 1_000_000), Sleep::Uninterruptible);
    }
    isolated.kill("the test is over");
    let elapsed_ns = time::now_ns() - start_ns;
    let [exchanges, busy_ns] =
        [&victims.exchanges, &victims.busy_ns].map(|count| count.load(Relaxed));
    log::info!(
        "hostile: {total} calls in {lives} lives; beside it {exchanges} calls were answered, and a busy thread had {} %",
        busy_ns * 100 / elapsed_ns
    );
    assert!(exchanges > lives, "others are kept from each other");
    assert!(busy_ns > elapsed_ns / 4, "others are kept from the processor");
}

/// Starts one life of the hostile component.
fn begin(seed: u64, victims: &Victims, counter: &Arc<DmaBuffer>) -> Arc<Domain> {
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
    let held = [own, Capability::Region(counter.clone().into())].into_iter().chain(others);
    held.for_each(|capability| assert!(domain.grant(capability).is_ok()));
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    domain
}

/// Watches the component until it has ended, makes no more calls, or has lived long enough, and checks that it never has
/// more memory than granted.
fn watch(domain: &Domain, counter: &AtomicU64, total: u64) {
    let first = counter.load(Relaxed);
    let (mut last, mut seen_ns) = (first, time::now_ns());
    while domain.wait_end(soon(1_000_000).deadline_ns).is_none() {
        assert!(domain.usage().memory_bytes <= MEMORY_BYTES, "more memory than granted");
        let (now, now_ns) = (counter.load(Relaxed), time::now_ns());
        if now >= total || now - first > LIFE || (now == last && now_ns - seen_ns > STUCK_NS) {
            return;
        }
        if now != last {
            (last, seen_ns) = (now, now_ns);
        }
    }
}
