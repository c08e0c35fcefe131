//! The components, programs and memory beside a hostile component.
use super::component;
use crate::{program, servers};
use ::program::{Registers, Trap};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use ipc::{Header, Message};
use nucleus::{
    arch::user,
    capability::{Capability, Derivation},
    dma::DmaBuffer,
    domain::{self, Domain},
    memory::space::Protection,
    thread::{self, Endpoint, Policy, Sleep, Wait},
    time,
};

/// Pages of the memory that must not change, and of that which is given away and taken back.
const GUARDED_PAGES: usize = 16;
const GIVEN_PAGES: usize = 2;
/// Times that memory is given away before it is taken back from all.
const GIVEN: usize = 4;
const PAGE: usize = 4096;
/// Time that a busy thread wants at once: some ticks.
const BURN_NS: u64 = 20_000_000;
/// Address of the memory of the program.
const DATA: u64 = 0x2000_0000;

/// The victims, which must not be affected.
pub(super) struct Victims {
    /// Endpoints that a thread of the kernel world and a component serve.
    pub(super) endpoints: [Arc<Endpoint>; 2],
    /// The endpoint at which memory is given away for a while.
    pub(super) giver: Arc<Endpoint>,
    /// Memory that others may read.
    pub(super) guarded: Arc<DmaBuffer>,
    is_over: AtomicBool,
    /// Calls that were answered, and threads that have not left.
    pub(super) exchanges: AtomicU64,
    running: AtomicU32,
    /// Processor time that the thread that needs no other wanted, and that it had.
    pub(super) wanted_ns: AtomicU64,
    pub(super) busy_ns: AtomicU64,
    isolated: Arc<Domain>,
}

impl Victims {
    /// Starts all.
    pub(super) fn start() -> Arc<Victims> {
        let endpoints = [(); 2].map(|()| Arc::new(Endpoint::new()));
        let guarded = DmaBuffer::allocate(GUARDED_PAGES * PAGE).expect("no memory for a region");
        fill(&guarded);
        let victims = Arc::new(Victims {
            isolated: component::victim(&endpoints[1]),
            endpoints,
            giver: Arc::default(),
            guarded: Arc::new(guarded),
            is_over: AtomicBool::new(false),
            exchanges: AtomicU64::new(0),
            running: AtomicU32::new(0),
            wanted_ns: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
        });
        victims.spawn("victim", Victims::serve);
        victims.spawn("client", Victims::call);
        victims.spawn("busy", Victims::burn);
        victims.spawn("guard", Victims::guard);
        victims.spawn("giver", Victims::give);
        victims.spawn("program", Victims::run_program);
        victims.spawn("keeper", Victims::keep_server);
        victims
    }

    /// Ends all.
    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
        while self.running.load(Relaxed) > 0 {
            pause();
        }
        self.isolated.kill("the test is over");
    }

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
            }
            // The component makes few calls if others use all of the time.
            if self.exchanges.fetch_add(2, Relaxed) % 32 == 0 {
                pause();
            }
        }
    }

    /// Looks at memory that nobody may change: of the kernel, and shown to the hostile one.
    fn guard(&self) {
        let own = DmaBuffer::allocate(GUARDED_PAGES * PAGE).expect("no memory");
        let heap: Vec<u64> = (0..GUARDED_PAGES * PAGE / 8).map(pattern).collect();
        fill(&own);
        while !self.is_over() {
            for memory in [&own, &*self.guarded] {
                assert_eq!(changed(memory), None, "memory of others was changed");
            }
            let is_whole = heap.iter().enumerate().all(|(at, &word)| word == pattern(at));
            assert!(is_whole, "the kernel's memory was changed");
            pause();
        }
    }

    /// Gives each caller some memory. Takes it back from all of them now and then, and looks whether they still write there.
    fn give(&self) {
        let memory = Arc::new(DmaBuffer::allocate(GIVEN_PAGES * PAGE).expect("no memory"));
        let region = Capability::Region(memory.clone().into());
        let mut given: Vec<Arc<Derivation>> = Vec::new();
        while !self.is_over() {
            let mut now = Message::default();
            let got = self.giver.receive(&mut now, soon(1_000_000));
            drop(thread::take_along());
            if got.is_ok() && !now.header.is_notification() {
                let (copy, derivation) = region.give(calls::MAY_WRITE, 0).expect("a derivation");
                given.push(derivation);
                now.header = Header::new(0, 0).as_sent(true);
                thread::lay_along(Some(copy));
                // The caller may have ended.
                let _ = self.giver.reply(&mut now);
                drop(thread::take_along());
            }
            if given.len() < GIVEN && got.is_ok() {
                continue;
            }
            domain::revoke(given.drain(..));
            fill(&memory);
            (0..GIVEN).for_each(|_| pause());
            assert_eq!(changed(&memory), None, "memory that was taken back was changed");
        }
    }

    /// Runs a program that counts in its memory, and checks its registers and the count.
    fn run_program(&self) {
        // 1: inc qword [rdi]; syscall; jmp 1b
        let space = program::with_code(&[0x48, 0xff, 0x07, 0x0f, 0x05, 0xeb, 0xf9]);
        let rights = Protection::READ | Protection::WRITE;
        assert_eq!(space.map_zeroed(DATA, 1, rights), Ok(1));
        let mut registers = Registers { rdi: DATA, rbx: 1, r15: 2, r8: 3, ..program::start() };
        for count in 1_u64.. {
            assert_eq!(user::run(&mut registers, &space), Trap::Syscall);
            let mut word = [0; 8];
            assert!(space.read(DATA, &mut word).is_ok());
            assert_eq!(u64::from_le_bytes(word), count, "the memory of a program was changed");
            let Registers { rdi, rbx, r15, r8, .. } = registers;
            assert_eq!([rdi, rbx, r15, r8], [DATA, 1, 2, 3], "the registers of a program changed");
            if self.is_over() {
                break;
            }
            if count % 16 == 0 {
                pause();
            }
        }
    }

    /// Keeps a component that runs programs, and checks that it ends well each time.
    fn keep_server(&self) {
        while let Some(server) = servers::load(10) {
            server.start(Vec::new());
            while server.domain.wait_end(soon(20_000_000).deadline_ns).is_none() {
                if self.is_over() {
                    return server.domain.kill("the test is over");
                }
            }
            servers::check_end(&server);
        }
    }

    /// Uses all the time of a processor, now and then.
    fn burn(&self) {
        let mut wanted_ns = 0;
        while !self.is_over() {
            let start_ns = time::now_ns();
            while time::now_ns() < start_ns + BURN_NS {
                core::hint::spin_loop();
            }
            wanted_ns += time::now_ns() - start_ns;
            (0..40).for_each(|_| pause());
        }
        self.wanted_ns.store(wanted_ns, Relaxed);
        let used = thread::cpu_time(thread::current_number());
        self.busy_ns.store(used.map_or(0, |used| used.user_ns + used.system_ns), Relaxed);
    }
}

pub(super) fn soon(ns: u64) -> Wait {
    Wait { deadline_ns: Some(time::now_ns() + ns), sleep: Sleep::Uninterruptible }
}

/// Waits for a moment.
fn pause() {
    thread::park(Some(time::now_ns() + 1_000_000), Sleep::Uninterruptible);
}

fn pattern(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn fill(memory: &DmaBuffer) {
    memory.words().iter().enumerate().for_each(|(at, word)| word.store(pattern(at), Relaxed));
}

/// Returns the first word that is not as it was filled, and its number.
fn changed(memory: &DmaBuffer) -> Option<(usize, u64)> {
    let words = memory.words().iter().map(|word| word.load(Relaxed)).enumerate();
    words.into_iter().find(|&(at, word)| word != pattern(at))
}
