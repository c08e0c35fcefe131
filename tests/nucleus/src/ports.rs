//! Ports of isolated components: by the processor's map of permissions, by instructions carried out, by lists; on the
//! second serial port.
use crate::{
    domains::{self, does, first, second},
    suite::in_threads,
};
use alloc::{sync::Arc, vec::Vec};
use calls::{Call, IMAGE_BASE, PORT_LIST_MAX, PortStep, SERVICE};
use core::arch::global_asm;
use ipc::{Error, Message};
use nucleus::{
    capability::Capability,
    domain::{Domain, End, Grants, PortAccess},
    memory::space::Protection,
    thread::{self, Endpoint, Sleep, Wait},
    time,
};

/// The second serial port, and one that only a plain instruction can name by itself.
const PORTS: [(u16, u16); 2] = [(0x2f8, 8), (0x80, 1)];
/// A page that components may write.
const DATA: u64 = IMAGE_BASE + 0x10_0000;

/// Returns the code: mov edx, `port`
fn in_dx(port: u16) -> [u8; 5] {
    let [low, high] = port.to_le_bytes();
    [0xba, low, high, 0, 0]
}

const IN: [u8; 1] = [0xec];
const LOOP: [u8; 2] = [0xeb, 0xfe];
const INVALID: [u8; 2] = [0x0f, 0x0b];

fn opens() -> Vec<u8> {
    [&first(0x2f8)[..], &second(8), &does(Call::PortsOpen)].concat()
}

/// Makes a domain that may open [`PORTS`], with a page at [`DATA`] that begins with `data`.
fn granted(access: PortAccess, code: &[u8], data: &[u8], held: Vec<Capability>) -> Arc<Domain> {
    let grants = Grants { ports: PORTS.into(), port_access: access, ..domains::grants(0) };
    let domain = Domain::new("test", grants).expect("no memory for a domain");
    let pages = [
        (IMAGE_BASE, code, Protection::READ | Protection::EXECUTE),
        (DATA, data, Protection::READ | Protection::WRITE),
    ];
    for (at, data, protection) in pages {
        domain.load(at, 1, data, protection).expect("no memory for a domain");
    }
    for capability in held {
        domain.grant(capability).expect("no room in a table");
    }
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    domain
}

fn end_of(domain: &Domain) -> End {
    domain.wait_end(Some(time::now_ns() + 5_000_000_000)).expect("an end")
}

/// Checks that the domain ended by a protection fault of the instruction at byte `at` of its code.
fn faulted_at(domain: &Domain, at: usize) {
    let end = end_of(domain);
    assert!(end.cause.starts_with("exception 13"), "{} at {:#x}", end.cause, end.registers.rip);
    assert_eq!(end.registers.rip, IMAGE_BASE + at as u64);
}

/// Tests that access to a port that is not granted or not open faults, and that one that was closed faults again.
pub fn only_open_ports_are_accessed() {
    let reads = [&in_dx(0x2ff)[..], &IN].concat();
    faulted_at(&domains::start(&reads, 0, Vec::new()), 5);
    for access in [PortAccess::Map, PortAccess::Trap, PortAccess::Call] {
        faulted_at(&granted(access, &reads, &[], Vec::new()), 5);
        // 0x300 is after the last one.
        let beyond = [&opens()[..], &reads, &in_dx(0x300), &IN].concat();
        faulted_at(&granted(access, &beyond, &[], Vec::new()), beyond.len() - 1);
        let shut = [&first(0x2f8)[..], &does(Call::PortsClose)].concat();
        let closed = [&opens()[..], &reads, &shut, &reads].concat();
        faulted_at(&granted(access, &closed, &[], Vec::new()), closed.len() - 1);
    }
}

global_asm!(
    r#"
    .pushsection .rodata.components, "a", @progbits
    .global skerry_port_forms
skerry_port_forms:
    mov edi, 0x80
    mov esi, 1
    mov eax, {open}
    syscall
    test eax, eax
    jnz 9f
    mov edi, 0x2f8
    mov esi, 8
    mov eax, {open}
    syscall
    test eax, eax
    jnz 9f
    # 8 bits, FIFOs cleared and on, what is written comes back.
    mov edx, 0x2fb
    mov al, 3
    out dx, al
    mov edx, 0x2fa
    mov al, 7
    out dx, al
    mov edx, 0x2fc
    mov al, 0x10
    out dx, al
    out 0x80, al
    mov edx, 0x2f8
    mov rax, 0xffffff5a
    out dx, al
    mov rax, -1
    in al, dx
    cmp rax, -(0x100 - 0x5a)
    jne 9f
    mov eax, 0x77
    out dx, ax
    mov rax, -1
    in ax, dx
    cmp rax, -(0x10000 - 0x77)
    jne 9f
    # The upper bytes go to the registers behind: no interrupts, FIFOs on, 8 bits.
    mov eax, 0x03010066
    out dx, eax
    mov rax, -1
    in eax, dx
    cmp al, 0x66
    jne 9f
    shr rax, 32
    jnz 9f
    mov esi, {data}
    mov ecx, 16
    rep outsb
    mov edi, {data} + 16
    mov ecx, 16
    rep insb
    cmp edi, {data} + 32
    jne 9f
    mov esi, {data}
    mov edi, {data} + 16
    mov ecx, 16
    repe cmpsb
    jne 9f
    ud2
9:  int3
    .global skerry_port_forms_end
skerry_port_forms_end:
    .popsection
    "#,
    open = const Call::PortsOpen as u64,
    data = const DATA,
);

unsafe extern "C" {
    static skerry_port_forms: u8;
    static skerry_port_forms_end: u8;
}

/// Tests that bytes, words, longs and strings have the same effect in every way; with the map the nucleus is not
/// involved.
pub fn every_form_is_carried_out() {
    let (start, end) = (&raw const skerry_port_forms, &raw const skerry_port_forms_end);
    // SAFETY: two labels of one section, the code between them.
    let code = unsafe { core::slice::from_raw_parts(start, end.addr() - start.addr()) };
    let accesses = [(PortAccess::Map, 0), (PortAccess::Trap, 12), (PortAccess::Call, 12)];
    for (access, carried_out) in accesses {
        let domain = granted(access, code, b"sixteen letters.", Vec::new());
        let end = end_of(&domain);
        assert!(end.cause.starts_with("exception 6"), "{} at {:#x}", end.cause, end.registers.rip);
        assert_eq!(domain.usage().calls, 2 + carried_out, "{access:?}");
    }
}

/// Tests that a list is done as a whole, and not at all if one of its ports is not open.
pub fn lists_are_done_whole() {
    let write = |port, value| PortStep { port, width: 1, is_write: true, value };
    let read = |port, width| PortStep { port, width, is_write: false, value: 0 };
    let good = [write(0x2ff, 0x12), read(0x2ff, 1), write(0x2ff, 0x34), read(0x2ff, 1)];
    let foreign = [write(0x2ff, 0x56), read(0x300, 1)];
    let wide = [write(0x2ff, 0x56), read(0x2ff, 2)];
    let odd = [write(0x2ff, 0x56), read(0x2ff, 3)];
    let after = [read(0x2ff, 1)];
    let lists: [&[PortStep]; 5] = [&good, &foreign, &wide, &odd, &after];
    let (mut code, mut data, mut at) = (opens(), Vec::new(), DATA);
    for list in lists {
        let arguments = [&first(at)[..], &second(list.len() as u32)].concat();
        code.extend([&arguments[..], &does(Call::PortList)].concat());
        data.extend(list.iter().flat_map(|step| step.pack()));
        at += 8 * list.len() as u64;
    }
    let too_many =
        [&first(DATA)[..], &second(PORT_LIST_MAX as u32 + 1), &does(Call::PortList)].concat();
    code.extend([&too_many[..], &INVALID].concat());
    let domain = granted(PortAccess::Map, &code, &data, Vec::new());
    assert!(end_of(&domain).cause.starts_with("exception 6"));
    assert_eq!(domain.usage().refused, [("PortList", 3)]);
    let mut words = [[0; 8]; 11];
    domain.space().read(DATA, words.as_flattened_mut()).expect("its page");
    let values = words.map(|word| PortStep::unpack(word).value);
    assert_eq!(values, [0x12, 0x12, 0x34, 0x34, 0x56, 0, 0x56, 0, 0x56, 0, 0x34]);
}

/// Tests that a thread that reads a port in a loop, on another processor if there is one, faults as soon as another
/// thread of the component has closed the port.
pub fn closing_reaches_every_processor() {
    let mask = |mask| {
        let me = does(Call::Current);
        [&me[..], &second(mask), &does(Call::SetAffinity)].concat()
    };
    for _ in 0..20 {
        // 1: in al, dx; mov byte ptr [DATA], 1; jmp 1b
        let [a, b, c, d, ..] = DATA.to_le_bytes();
        let tells = [0xc6, 0x04, 0x25, a, b, c, d, 1, 0xeb, 0xf5];
        let spinner = [&mask(2)[..], &in_dx(0x2ff), &IN, &tells].concat();
        let reads_at = 2 + spinner.len() - 11;
        // The first thread starts behind it. The code is: mov r9d, policy
        let policy = thread::Policy::Fair { nice: 0 }.pack().to_le_bytes();
        let spawn =
            [&[0x41, 0xb9][..], &policy, &first(IMAGE_BASE + 2), &does(Call::Spawn)].concat();
        // 1: yield; cmp byte ptr [DATA], 0; je 1b
        let waits =
            [&does(Call::Yield)[..], &[0x80, 0x3c, 0x25, a, b, c, d, 0, 0x74, 0xef]].concat();
        let shut = [&first(0x2f8)[..], &second(8), &does(Call::PortsClose)].concat();
        let main = [&mask(1)[..], &opens(), &spawn, &waits, &shut, &LOOP];
        // The first instruction jumps over the spinner.
        let code = [&[0xeb, spinner.len() as u8][..], &spinner, &main.concat()].concat();
        let domain = granted(PortAccess::Map, &code, &[], Vec::new());
        faulted_at(&domain, reads_at);
    }
}

/// Tests that a component without ports cannot read those of another one with which it takes turns, on one processor by
/// the fast path and on all.
pub fn maps_are_not_shared() {
    let endpoint = Arc::new(Endpoint::new());
    // Opens; 1: reads; replies and receives; jmp 1b
    let body =
        [&in_dx(0x2ff)[..], &IN, &first(SERVICE), &domains::FOREVER, &does(Call::ReplyAndReceive)]
            .concat();
    let back = (-(body.len() as i8) - 2) as u8;
    let code = [&opens()[..], &body, &[0xeb, back]].concat();
    let serving = granted(PortAccess::Map, &code, &[], [domains::serve(&endpoint)].into());
    let once = [&first(SERVICE)[..], &second(4), &domains::FOREVER, &does(Call::Call)].concat();
    let client = [&once.repeat(3)[..], &in_dx(0x2ff), &IN].concat();
    let shared = endpoint.clone();
    in_threads(2, move |_| {
        for _ in 0..50 {
            let calling = domains::start(&client, 0, [domains::call(&shared)].into());
            faulted_at(&calling, client.len() - 1);
        }
    });
    assert_eq!(endpoint.call(&mut Message::default(), Wait::default()), Ok(()));
    serving.kill("test");
    assert_eq!(end_of(&serving).cause, "test");
    let soon =
        Wait { deadline_ns: Some(time::now_ns() + 1_000_000), sleep: Sleep::Uninterruptible };
    assert_eq!(endpoint.call(&mut Message::default(), soon), Err(Error::TimedOut));
}
