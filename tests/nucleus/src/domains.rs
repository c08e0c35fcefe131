//! Tests of isolated components in machine code.
use crate::costs::components::{self, Parameters};
use alloc::{string::String, sync::Arc, vec::Vec};
use calls::{Call, IMAGE_BASE, SERVICE, Status};
use ipc::{Error, Header, Message};
use nucleus::{
    arch::{apic, pci, percpu},
    capability::{Capability, EndpointRight},
    device::{self, Registers},
    domain::{Domain, Grants, PortAccess},
    irq::Interrupt,
    memory::{space::Protection, statistics},
    thread::{self, Endpoint, Policy, Sleep, Wait},
    time,
};
use program::PciAddress;

/// Returns the grants of a domain of the tests, without the `denied` ones.
pub fn grants(denied: u64) -> Grants {
    Grants {
        command_line: String::new(),
        calls: Call::ALL.iter().copied().filter(|&call| denied >> call as u64 & 1 == 0).collect(),
        ports: Vec::new(),
        port_access: PortAccess::Map,
        lines: Vec::new(),
        functions: Vec::new(),
        transports: Vec::new(),
        can_run: false,
        can_use_dma: false,
        memory_bytes: 64 * 4096,
        vectors: 4,
        log_lines: (1, 2),
        threads: 4,
        policy: Policy::Fair { nice: 0 },
        share_percent: 100,
    }
}

/// Makes a domain with `code` and the capabilities in `held`, not started.
pub fn with(code: &[u8], denied: u64, held: Vec<Capability>) -> Arc<Domain> {
    let domain = Domain::new("test", grants(denied)).expect("no memory for a domain");
    domain
        .load(IMAGE_BASE, 1, code, Protection::READ | Protection::EXECUTE)
        .expect("no memory for a domain");
    for capability in held {
        domain.grant(capability).expect("no room in a table");
    }
    domain
}

/// Makes and starts such a domain.
pub fn start(code: &[u8], denied: u64, held: Vec<Capability>) -> Arc<Domain> {
    let domain = with(code, denied, held);
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    domain
}

/// Returns grants with room for a thousand threads.
pub fn big_grants() -> Grants {
    Grants { memory_bytes: 8 << 20, log_lines: (1000, 1000), threads: 1024, ..grants(0) }
}

/// Makes an empty domain with room for a thousand threads.
pub fn big(name: &str) -> Arc<Domain> {
    Domain::new(name, big_grants()).expect("no memory for a domain")
}

/// Returns the right to serve `endpoint`.
pub fn serve(endpoint: &Arc<Endpoint>) -> Capability {
    Capability::Endpoint(EndpointRight::to(endpoint.clone()))
}

/// Returns the right to call `endpoint`.
pub fn call(endpoint: &Arc<Endpoint>) -> Capability {
    Capability::Endpoint(EndpointRight::to(endpoint.clone()).badged(5))
}

/// Returns the code: mov eax, `number`; syscall
pub fn does(call: Call) -> [u8; 7] {
    [0xb8, call as u8, 0, 0, 0, 0x0f, 0x05]
}

/// Returns the code: mov edi, `value`
pub fn first(value: u64) -> [u8; 5] {
    let [a, b, c, d, ..] = value.to_le_bytes();
    [0xbf, a, b, c, d]
}

/// Returns the code: mov esi, `value`
pub fn second(value: u32) -> [u8; 5] {
    let [a, b, c, d] = value.to_le_bytes();
    [0xbe, a, b, c, d]
}

/// mov rbx, -1; mov r12, rbx: no deadline, no capability.
pub const FOREVER: [u8; 10] = [0x48, 0xc7, 0xc3, 0xff, 0xff, 0xff, 0xff, 0x49, 0x89, 0xdc];
/// inc rdx: the first word of a message.
const NEXT_WORD: [u8; 3] = [0x48, 0xff, 0xc2];

/// Returns code that answers each call with its first word and one, for ever.
pub fn server() -> Vec<u8> {
    let body = [&first(SERVICE)[..], &FOREVER, &does(Call::ReplyAndReceive), &NEXT_WORD].concat();
    let back = (-(body.len() as i8) - 2) as u8;
    [&body[..], &[0xeb, back]].concat()
}

/// Returns code that calls `count` times and ends.
pub fn client(count: u32) -> Vec<u8> {
    // The code is: mov ebp, count
    let [a, b, c, d] = count.to_le_bytes();
    let head = [0xbd, a, b, c, d];
    // mov esi, 4: a message of four words
    let message = [0xbe, 4, 0, 0, 0];
    let body = [&first(SERVICE)[..], &message, &FOREVER, &does(Call::Call)].concat();
    // test eax, eax; jnz to ud2; dec ebp; jnz back
    let back = (-(body.len() as i8) - 8) as u8;
    let tail = [0x85, 0xc0, 0x75, 11, 0xff, 0xcd, 0x75, back];
    [&head[..], &body, &tail, &does(Call::Exit), &[0x0f, 0x0b, 0x0f, 0x0b]].concat()
}

/// Tests that a component's end is seen and its resources come back.
pub fn calls_and_leaves() {
    let domain = start(&[&does(Call::Current)[..], &does(Call::Exit)].concat(), 0, Vec::new());
    let end = domain.wait_end(None).expect("an end");
    assert_eq!(end.cause, "its last thread ended");
    assert_eq!(domain.usage().calls, 2);
    // A component that was never started can be killed, too.
    with(&[], 0, Vec::new()).kill("test");
}

/// Tests that a denied call, an unknown handle and a port are refused.
pub fn lacks_are_refused() {
    let code = [
        &does(Call::Current)[..],
        &first(SERVICE),
        &does(Call::Receive),
        &first(0x60),
        &does(Call::PortRead),
        &does(Call::Exit),
    ];
    let domain = start(&code.concat(), 1 << Call::Current as u64, Vec::new());
    domain.wait_end(None).expect("an end");
    let refused = domain.usage().refused;
    let names: Vec<&str> = refused.iter().map(|&(name, _)| name).collect();
    assert_eq!(names, ["Receive", "Current", "PortRead"]);
}

/// Tests each field of a grant: without it the call is refused and counted, with it the call is done, and other
/// components are not disturbed.
pub fn each_grant_counts() {
    const LINE: u64 = 3;
    const PORTS: (u16, u16) = (0x2f8, 8);
    const TRANSPORT: u64 = 0x1000;
    let endpoint = Arc::new(Endpoint::new());
    let serving = start(&server(), 0, [serve(&endpoint)].into());
    let bystander = start(&client(2000), 0, [call(&endpoint)].into());
    let page = first(4096);
    let ports = [&first(PORTS.0.into())[..], &second(PORTS.1.into())].concat();
    let policy = [&does(Call::Current)[..], &second(Policy::Fifo(10).pack())].concat();
    is_needed(Call::Yield, &[], |grants| grants.calls = Call::ALL.iter().copied().collect());
    is_needed(Call::PortsOpen, &ports, |grants| grants.ports.push(PORTS));
    is_needed(Call::InterruptOpen, &first(LINE), |grants| {
        (grants.lines, grants.vectors) = ([LINE as u32].into(), 1);
    });
    let disk = disk();
    is_needed(Call::PciOpen, &first(disk.into()), |grants| {
        grants.functions.push(PciAddress(disk));
    });
    is_needed(Call::DmaAllocate, &page, |grants| grants.can_use_dma = true);
    is_needed(Call::Map, &first(32 * 4096), |grants| grants.memory_bytes = 64 * 4096);
    is_needed(Call::Spawn, &first(IMAGE_BASE), |grants| grants.threads = 2);
    is_needed(Call::SetPolicy, &policy, |grants| grants.policy = Policy::Fifo(20));
    is_needed(
        Call::Log,
        &[&first(1)[..], &second(IMAGE_BASE as u32), &[0xba, 1, 0, 0, 0]].concat(),
        |grants| {
            grants.log_lines = (1, 1);
        },
    );
    // The line has no free vector.
    let no_vector = Grants { lines: [LINE as u32].into(), vectors: 0, ..grants(0) };
    assert_eq!(attempt(Call::InterruptOpen, &first(LINE), no_vector), [1]);
    // Four pages of tables and one of code; where mappings go are two tables more.
    for (pages, outcome) in [(7, &[1][..]), (8, &[])] {
        let granted = Grants { memory_bytes: pages * 4096, ..grants(0) };
        assert_eq!(
            attempt(Call::Map, &page, granted),
            outcome,
            "a page with {pages} pages granted"
        );
    }
    // This machine has no such transports.
    assert_eq!(attempt(Call::TransportOpen, &first(TRANSPORT), grants(0)), [1]);
    let end = bystander.wait_end(None).expect("an end");
    assert_eq!(end.cause, "its last thread ended");
    serving.kill("test");
}

/// Checks that `call` with `arguments` is refused to a domain, and not to one with the grants of `give`.
fn is_needed(call: Call, arguments: &[u8], give: impl FnOnce(&mut Grants)) {
    let without = || Grants {
        memory_bytes: 16 * 4096,
        vectors: 0,
        log_lines: (0, 0),
        threads: 1,
        ..grants(1 << Call::Yield as u64)
    };
    assert_eq!(attempt(call, arguments, without()), [1], "{call:?} without its grant");
    let mut with = without();
    give(&mut with);
    assert_eq!(attempt(call, arguments, with), [], "{call:?} with its grant");
}

/// Makes `call` once. Returns how often each call was refused; only this one may be, and its caller must get the
/// error.
fn attempt(call: Call, arguments: &[u8], granted: Grants) -> Vec<u32> {
    // A thread may be started at the first instruction. test eax, eax; jz over ud2
    let leave = does(Call::Exit);
    let tail = [0x85, 0xc0, 0x74, 2, 0x0f, 0x0b];
    let code = [&leave[..], arguments, &does(call), &tail, &leave].concat();
    let domain = Domain::new("test", granted).expect("no memory for a domain");
    let protection = Protection::READ | Protection::EXECUTE;
    domain.load(IMAGE_BASE, 1, &code, protection).expect("no memory for a domain");
    domain.start(IMAGE_BASE + leave.len() as u64).expect("no memory for a domain");
    let end = domain.wait_end(None).expect("an end");
    let refused = domain.usage().refused;
    assert!(refused.iter().all(|&(name, _)| name == call.name()), "{refused:?}");
    let is_told = end.cause.starts_with("exception 6");
    assert_eq!(is_told, !refused.is_empty(), "{call:?}: {}", end.cause);
    refused.iter().map(|&(_, count)| count).collect()
}

/// Tests that a fault ends the call that the component received, and that its place and type are recorded.
pub fn fault_ends_it() {
    let endpoint = Arc::new(Endpoint::new());
    let code = [&first(SERVICE)[..], &FOREVER, &does(Call::Receive), &[0x0f, 0x0b]].concat();
    let domain = start(&code, 0, [serve(&endpoint)].into());
    let mut message = Message { header: Header::new(1, 1), ..Message::default() };
    assert_eq!(endpoint.call(&mut message, Wait::default()), Err(Error::Restarted));
    let end = domain.wait_end(None).expect("an end");
    assert_eq!(end.registers.rip, IMAGE_BASE + code.len() as u64 - 2);
    assert!(end.cause.starts_with("exception 6"), "{}", end.cause);
}

/// Tests that an interrupt that is bound to bits of an endpoint comes to its receiver, also if it came before it was
/// bound.
pub fn interrupt_comes_as_bits() {
    for came_before in [false, true] {
        let endpoint = Arc::new(Endpoint::new());
        let (interrupt, message) = Interrupt::message(7, None).expect("a vector");
        let come = || apic::send_ipi(percpu::cpu(), message.data as u8);
        if came_before {
            come();
        }
        // The bytes are: mov edx, 2
        let bound = [&second(SERVICE as u32)[..], &[0xba, 2, 0, 0, 0], &does(Call::InterruptBind)];
        let bind = [&first(SERVICE + 1)[..], &bound.concat()].concat();
        let receive = [&first(SERVICE)[..], &FOREVER, &does(Call::Receive), &[0xcc]].concat();
        let held = [serve(&endpoint), Capability::Interrupt(Arc::new(interrupt))].into();
        let domain = start(&[bind, receive].concat(), 0, held);
        while !came_before && domain.usage().calls < 2 {
            thread::yield_now();
        }
        if !came_before {
            come();
        }
        let end = domain.wait_end(Some(time::now_ns() + 10_000_000_000)).expect("an end");
        assert!(end.cause.starts_with("exception 3"), "{}", end.cause);
        assert_eq!(end.registers.rdi, 2);
    }
}

/// Tests that a server that gives a capability back between a call and its reply still answers.
pub fn closing_keeps_the_call() {
    let endpoint = Arc::new(Endpoint::new());
    let code = [
        &first(SERVICE)[..],
        &FOREVER,
        &does(Call::Receive),
        // The endpoint made is the second capability: slot 1, used once.
        &does(Call::EndpointNew),
        &first(SERVICE + 1),
        &does(Call::Close),
        &first(SERVICE),
        &does(Call::Reply),
        &does(Call::Exit),
    ];
    let domain = start(&code.concat(), 0, [serve(&endpoint)].into());
    let mut message = Message { header: Header::new(1, 1), ..Message::default() };
    assert_eq!(endpoint.call(&mut message, Wait::default()), Ok(()));
    domain.wait_end(None).expect("an end");
}

/// Tests that memory that a component shares stays charged to it, whatever it unmaps and to whomever it moves it.
pub fn shared_memory_stays_charged() {
    let region = [&first(16 * 4096)[..], &does(Call::RegionNew)].concat();
    // mov esi, 16 pages: its address is in rdi.
    let unmap = [&second(16 * 4096)[..], &does(Call::Unmap)].concat();
    let is_told = [0x83, 0xf8, Status::Invalid as u8, 0x74, 2, 0x0f, 0x0b];
    let body = [&region[..], &unmap, &is_told].concat();
    let code = [&body[..], &[0xeb, (-(body.len() as i8) - 2) as u8]].concat();
    // The fourth region does not fit beside the component's other memory.
    let domain = start(&code, 0, Vec::new());
    while domain.usage().refused.is_empty() {
        thread::yield_now();
    }
    assert_eq!(domain.usage().refused, [("RegionNew", domain.usage().refused[0].1)]);
    domain.kill("test");
    // The message goes to an endpoint without a server, so the deadline of the sender passes; each time the handle is
    // moved and taken back.
    let send = [
        // r12: the handle with MOVED; rbx: the deadline 1.
        &[0x49, 0x89, 0xf4, 0x49, 0x0f, 0xba, 0xec, 63][..],
        &[0xbb, 1, 0, 0, 0],
        &first(SERVICE),
        &second(0),
        &does(Call::Send),
    ];
    let body = [&region[..], &send.concat()].concat();
    let code = [&body[..], &[0xeb, (-(body.len() as i8) - 2) as u8]].concat();
    let endpoint = Arc::new(Endpoint::new());
    let before = statistics().free_frames;
    let domain = start(&code, 0, [call(&endpoint)].into());
    while !domain.usage().refused.iter().any(|&(name, count)| name == "RegionNew" && count > 100) {
        thread::yield_now();
    }
    let taken = before.saturating_sub(statistics().free_frames);
    assert!(taken < 256, "{taken} frames gone");
    domain.kill("test");
}

/// Tests that registers are mapped once, however often that is requested, and that their tables are charged.
pub fn registers_are_mapped_once() {
    let address = disk();
    let open = [&first(u64::from(address))[..], &does(Call::PciOpen)].concat();
    // The code maps BAR 4, for ever.
    let bar = [&first(u64::from(address))[..], &second(4), &does(Call::PciBar)].concat();
    let code = [&open[..], &bar, &[0xeb, (-(bar.len() as i8) - 2) as u8]].concat();
    let granted = Grants { functions: [PciAddress(address)].into(), ..grants(0) };
    let domain = Domain::new("test", granted).expect("no memory for a domain");
    let protection = Protection::READ | Protection::EXECUTE;
    domain.load(IMAGE_BASE, 1, &code, protection).expect("no memory for a domain");
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    while domain.usage().calls < 5_000 {
        thread::yield_now();
    }
    assert_eq!(domain.usage().memory_bytes, 7 * 4096, "a page of code and six of tables");
    assert!(domain.usage().refused.is_empty());
    domain.kill("test");
}

/// Tests the limit of vectors: a component that asks for more is refused, and others can still get theirs.
pub fn vectors_are_limited() {
    const LINE: u64 = 3;
    let open = [&first(LINE)[..], &does(Call::InterruptOpen)].concat();
    let code = [&open[..], &[0xeb, (-(open.len() as i8) - 2) as u8]].concat();
    let granted = Grants { lines: [LINE as u32].into(), vectors: 3, ..grants(0) };
    let domain = Domain::new("test", granted).expect("no memory for a domain");
    let protection = Protection::READ | Protection::EXECUTE;
    domain.load(IMAGE_BASE, 1, &code, protection).expect("no memory for a domain");
    let before = taken_vectors();
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    while domain.usage().calls < 300 {
        thread::yield_now();
    }
    assert_eq!(taken_vectors() - before, 3);
    let refused = domain.usage().refused;
    assert!(refused[0].0 == "InterruptOpen" && refused[0].1 > 200, "{refused:?}");
    domain.kill("test");
    assert_eq!(taken_vectors(), before);
}

fn taken_vectors() -> usize {
    nucleus::irq::statistics().iter().filter(|(name, _)| name.contains(" device ")).count()
}

/// Tests that a component that logs for ever is refused most lines, which is logged once.
pub fn log_lines_are_limited() {
    let says = [&first(1)[..], &second(IMAGE_BASE as u32), &[0xba, 12, 0, 0, 0], &does(Call::Log)];
    let body = [
        &[0xeb, 12][..],
        b"flood
forged",
        &says.concat(),
    ]
    .concat();
    let mut code = [&body[..], &[0xeb, (-(body.len() as i8) - 2) as u8]].concat();
    // The text is read from behind the first jump.
    let at = code.windows(5).position(|bytes| bytes == second(IMAGE_BASE as u32)).expect("there");
    code[at + 1] += 2;
    let before = nucleus::log::contents().0 + nucleus::log::contents().1.len() as u64;
    let domain = start(&code, 0, Vec::new());
    while domain.usage().calls < 1_000 {
        thread::yield_now();
    }
    domain.kill("test");
    let (start, bytes) = nucleus::log::contents();
    let text =
        alloc::string::String::from_utf8_lossy(&bytes[(before.saturating_sub(start)) as usize..])
            .into_owned();
    let count = |what| text.lines().filter(|line| line.contains(what)).count();
    assert!((2..=4).contains(&count("test: flood forged")), "{text}");
    assert_eq!(count("test: log lines are refused, 1 more"), 1, "{text}");
    let refused = domain.usage().refused;
    assert!(refused[0].0 == "Log" && refused[0].1 > 900, "{refused:?}");
}

/// Tests that memory beyond the grant is refused, and none of it is kept.
pub fn refused_memory_is_not_kept() {
    // The code requests 256 pages with 64 granted, again and again; makes a call that tells that the others are over;
    // and loops.
    let region = [&first(256 * 4096)[..], &does(Call::RegionNew)].concat();
    let code = [&region[..], &region, &region, &region, &does(Call::Current), &[0xeb, 0xfe]];
    let before = statistics().free_frames;
    let domain = start(&code.concat(), 0, Vec::new());
    while domain.usage().calls < 5 {
        thread::yield_now();
    }
    let taken = before.saturating_sub(statistics().free_frames);
    assert!(taken < 256, "{taken} frames gone");
    domain.kill("test");
}

/// Tests that a component that loops in user mode without calls can be killed.
pub fn loop_is_killed() {
    let domain = start(&[0xeb, 0xfe], 0, Vec::new());
    let soon = time::now_ns() + 2_000_000;
    assert!(domain.wait_end(Some(soon)).is_none());
    domain.kill("test");
    assert_eq!(domain.wait_end(None).expect("an end").cause, "test");
}

/// Returns the registers of a virtio function and the offset of its status among them (VIRTIO 1.2, 4.1.4).
fn status(address: u16) -> (Registers, usize) {
    let read = |at, bytes| pci::read_part(&pci::Ports, address, at, bytes);
    let mut at = read(0x34, 1) as u16;
    while read(at, 1) != 9 || read(at + 3, 1) != 1 {
        at = read(at + 1, 1) as u16;
        assert_ne!(at, 0, "no common registers");
    }
    let bar = device::map_bar(address, read(at + 4, 1) as u8).expect("a BAR");
    (bar, read(at + 8, 4) as usize + 20)
}

/// Returns the address of the machine's disk.
fn disk() -> u16 {
    const DISK: u32 = 0x1042_1af4;
    let all = pci::functions();
    all.iter().find(|one| one.id == DISK).expect("a virtio disk").address
}

/// Tests that a device is reset, and does not reach memory, before its component's memory is given back.
pub fn device_is_quiesced() {
    const MASTER: u32 = 1 << 2;
    let address = disk();
    let (registers, status) = status(address);
    let open = [&first(u64::from(address))[..], &does(Call::PciOpen), &does(Call::Current)];
    let code = [&open.concat()[..], &[0xeb, 0xfe]].concat();
    for _ in 0..2 {
        let granted = Grants { functions: [PciAddress(address)].into(), ..grants(0) };
        let domain = Domain::new("test", granted).expect("no memory for a domain");
        domain
            .load(IMAGE_BASE, 1, &code, Protection::READ | Protection::EXECUTE)
            .expect("no memory for a domain");
        domain.start(IMAGE_BASE).expect("no memory for a domain");
        while domain.usage().calls < 2 {
            thread::yield_now();
        }
        assert_eq!(pci::read_part(&pci::Ports, address, 4, 2) & MASTER, MASTER);
        assert_eq!(pci::open(address, None), Err(device::DeviceError::Refused));
        registers.write(status, 1, 3);
        assert_eq!(registers.read(status, 1), 3);
        domain.kill("test");
        assert_eq!(registers.read(status, 1), 0);
        assert_eq!(pci::read_part(&pci::Ports, address, 4, 2) & MASTER, 0);
    }
}

/// Tests that a client that is killed while its call is being handled gets no answer, and that the server is told.
pub fn killed_client_is_not_answered() {
    let endpoint = Arc::new(Endpoint::new());
    let calling = start(&client(1), 0, [call(&endpoint)].into());
    let mut message = Message::default();
    assert_eq!(endpoint.receive(&mut message, Wait::default()), Ok(()));
    calling.kill("test");
    assert_eq!(endpoint.reply(&mut message), Err(Error::NoCaller));
}

/// Tests calls and replies between threads of one domain, with checked answers.
pub fn calls_within() {
    for _ in 0..5 {
        let endpoint = Arc::new(Endpoint::new());
        let both = Parameters { count: 2000, threads: 2, words: 4 };
        let domain = components::start(components::checked_pair(), both, [serve(&endpoint)].into());
        let end = domain.wait_end(None).expect("an end");
        assert!(end.cause.starts_with("exception 6"), "{} at {:#x}", end.cause, end.registers.rip);
    }
}

/// Tests that a message that passes in registers says no more than its sender may, and that a call without this keeps them.
pub fn calls_keep_to_the_rules() {
    let endpoint = Arc::new(Endpoint::new());
    let many = Parameters { count: 500, threads: 1, words: 4 };
    let serving = components::start(components::server(), many, [serve(&endpoint)].into());
    let calling = components::start(components::strict_client(), many, [call(&endpoint)].into());
    let end = calling.wait_end(None).expect("an end");
    assert_eq!(end.cause, "its last thread ended", "at {:#x}", end.registers.rip);
    serving.kill("test");
}

/// Signals to and fro between two domains: each is waited for before the next.
pub fn signal_each_other() {
    let (here, there) = (Arc::new(Endpoint::new()), Arc::new(Endpoint::new()));
    let once = Parameters { count: 1000, threads: 1, words: 0 };
    let waiting =
        components::start(components::waiter(), once, [serve(&there), call(&here)].into());
    let signalling =
        components::start(components::signaller(), once, [serve(&here), call(&there)].into());
    assert_eq!(signalling.wait_end(None).expect("an end").cause, "its last thread ended");
    waiting.kill("test");
}

/// Tests a client and a server, each in its own domain.
pub fn call_each_other() {
    let endpoint = Arc::new(Endpoint::new());
    let serving = start(&server(), 0, [serve(&endpoint)].into());
    let clients = [100, 200].map(|count| start(&client(count), 0, [call(&endpoint)].into()));
    for client in clients {
        let end = client.wait_end(None).expect("an end");
        assert_eq!(end.cause, "its last thread ended");
    }
    let mut message = Message { header: Header::new(1, 1), words: [7, 0, 0, 0], badge: 0 };
    assert_eq!(endpoint.call(&mut message, Wait::default()), Ok(()));
    assert_eq!(message.words[0], 8);
    serving.kill("test");
    let soon =
        Wait { deadline_ns: Some(time::now_ns() + 1_000_000), sleep: Sleep::Uninterruptible };
    assert_eq!(endpoint.call(&mut message, soon), Err(Error::TimedOut));
    assert_eq!(Status::of(Error::TimedOut as u64), Status::TimedOut);
}
