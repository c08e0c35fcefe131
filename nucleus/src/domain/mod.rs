//! Protection domains: a component in the process world, its memory, its capabilities, its threads (X1, K3).
//!
//! A [`Domain`] can do only what its [`Grants`] allow; any other request is refused, counted and traced. Its threads run
//! in user mode and enter the nucleus by kernel calls (`calls`). It ends on its own request, after a fault of the
//! processor, or when it is killed. Then its devices are quiesced (reset, with interrupts masked and bus mastering off).
//! Only after that its capabilities and then its space are given back, with the memory that the devices could reach.
//!
//! Locks, each a leaf except `mapped`: `mapped` (over `held`, `taken` and the space's), `held` (capabilities; one that is
//! removed is dropped after the lock is released), `taken`, `threads`, `end`.
mod calls;
mod derivations;
mod devices;
mod memory;
mod programs;
mod run;

pub use derivations::revoke;
pub use devices::watch_faults;

use crate::{
    arch::{iommu::Window, pci, smp},
    capability::{Capability, Derivation, Table},
    device,
    dma::{DmaBuffer, Lending, Loan},
    memory::{
        NoMemory, PAGE, charge,
        space::{Protection, Space},
    },
    objects::{self, Kind},
    spin::{PreemptLock, SpinLock},
    thread, trace,
};
use ::calls::{Call, Lines, MAPPINGS, Quota, SERVER_BASE, SHARED_PAGE, Status};
pub use ::calls::{CallSet, End, Grants, PortAccess, Usage};
use alloc::{string::String, sync::Arc, vec::Vec};
pub(crate) use calls::{PLAIN_CALL, PLAIN_REPLY, PLAIN_SIGNAL};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
pub(crate) use run::{ENTERED, plain};
use runqueue::Share;
use x86::port::Ranges;

/// The resources that the domain has opened and mapped.
#[derive(Debug, Default)]
struct Taken {
    ports: Ranges,
    functions: Vec<u16>,
    transports: Vec<u64>,
    /// Capabilities that the domain gave: the handle of each, and the derivation that ends it.
    given: Vec<(u64, Arc<Derivation>)>,
    /// Loan of the memory that outlives the domain to its devices.
    kept: Option<Loan>,
    /// Mapped registers: physical address, and address in the space.
    registers: Vec<(u64, u64)>,
    /// Address of the next mapping.
    next: u64,
}

/// An isolated component.
#[derive(Debug)]
pub struct Domain {
    name: String,
    space: Space,
    grants: Grants,
    /// The memory that its PCI functions reach.
    lending: Lending,
    held: SpinLock<Table>,
    /// Counted up when a capability is removed, which invalidates threads' cached copies of the table.
    version: AtomicU32,
    /// Counted up after memory was unmapped, which invalidates threads' cached addresses.
    unmapped: AtomicU32,
    taken: SpinLock<Taken>,
    /// Mapped regions. Held while they are mapped and unmapped.
    mapped: PreemptLock<Vec<memory::Mapped>>,
    /// Quota of memory in pages: pages charged to the domain, the regions that it made, and page tables.
    quota: Arc<Quota>,
    pages: AtomicUsize,
    /// Quota of interrupt vectors.
    vectors: Arc<Quota>,
    lines: SpinLock<Lines>,
    /// Numbers of its threads, ascending.
    threads: SpinLock<Vec<u64>>,
    /// Number of threads that have not left for good.
    alive: AtomicU32,
    is_ending: AtomicBool,
    is_finishing: AtomicBool,
    /// 1 once the domain has ended and its last thread has left. `wait_end` waits on it.
    has_ended: AtomicU32,
    end: SpinLock<Option<End>>,
    calls: AtomicU64,
    refused: [AtomicU32; Call::ALL.len()],
    /// Number of times its devices accessed memory that was not lent to them.
    strays: AtomicU32,
    programs: programs::Programs,
    /// Its share of the processors' time; `None` without a limit.
    share: Option<Arc<Share>>,
}

impl Domain {
    /// Makes an empty domain.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(name: &str, grants: Grants) -> Result<Arc<Domain>, NoMemory> {
        let has_map = grants.port_access == PortAccess::Map && !grants.ports.is_empty();
        let quota = Arc::new(Quota::new(grants.memory_bytes / PAGE));
        let make = match () {
            () if grants.can_run => Space::of_server,
            () if has_map => Space::with_port_map,
            () => Space::charged_to,
        };
        let space = make(quota.clone())?;
        let window = if grants.functions.is_empty() { None } else { Window::new()? };
        let share = Share::new(grants.share_percent, smp::online());
        let vectors = Arc::new(Quota::new(grants.vectors));
        let lines = Lines::new(grants.log_lines.0, grants.log_lines.1);
        objects::count(Kind::Domain, 1);
        // The list never grows beyond this, so nothing is allocated under the lock.
        let threads = Vec::with_capacity(grants.threads);
        // Each space and each pool of frames of a component that runs programs is a capability.
        let (base, most) = if grants.can_run { (SERVER_BASE, 65_536) } else { (0, 1_024) };
        let taken = Taken { next: base + MAPPINGS, ..Taken::default() };
        let domain = Arc::new(Domain {
            name: String::from(name),
            space,
            grants,
            lending: Lending::new(window),
            held: SpinLock::new(class!("nucleus.domain.held"), Table::new(most)),
            version: AtomicU32::new(0),
            unmapped: AtomicU32::new(0),
            taken: SpinLock::new(class!("nucleus.domain.taken"), taken),
            mapped: PreemptLock::new(class!("nucleus.domain.mapped"), Vec::new()),
            quota,
            pages: AtomicUsize::new(0),
            vectors,
            lines: SpinLock::new(class!("nucleus.domain.lines"), lines),
            threads: SpinLock::new(class!("nucleus.domain.threads"), threads),
            alive: AtomicU32::new(0),
            is_ending: AtomicBool::new(false),
            is_finishing: AtomicBool::new(false),
            has_ended: AtomicU32::new(0),
            end: SpinLock::new(class!("nucleus.domain.end"), None),
            calls: AtomicU64::new(0),
            refused: [const { AtomicU32::new(0) }; Call::ALL.len()],
            strays: AtomicU32::new(0),
            programs: programs::Programs::default(),
            share: share.map(Arc::new),
        });
        derivations::enter(&domain);
        Ok(domain)
    }

    /// Returns the memory that the domain's functions reach, for clients that lend to it.
    pub fn lending(&self) -> Lending {
        self.lending.clone()
    }

    /// Returns the domain's space, for the functions that load it.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Maps new memory at `start` and copies `data` to its beginning.
    ///
    /// # Errors
    /// [`NoMemory`], also if the grant is used up.
    pub fn load(
        &self,
        start: u64,
        pages: usize,
        data: &[u8],
        protection: Protection,
    ) -> Result<(), NoMemory> {
        self.charge_image(start, pages)?;
        self.space.map_zeroed(start, pages, protection | Protection::WRITE)?;
        let copied = self.space.write(start, &data[..data.len().min(pages * PAGE)]);
        self.space.protect(start, start + (pages * PAGE) as u64, protection)?;
        copied.map_err(|_| NoMemory)
    }

    /// Maps `buffer`, charged to the domain, with `rights`, but never for writing.
    ///
    /// # Errors
    /// Those of [`Domain::load`].
    pub fn show(&self, at: u64, buffer: &DmaBuffer, rights: Protection) -> Result<(), NoMemory> {
        let frames: Vec<u32> = buffer.frames().collect();
        self.charge_image(at, frames.len())?;
        self.space.map(at, &frames, rights.difference(Protection::WRITE)).map(|_| ())
    }

    /// Charges a part of the image, if it is inside the space.
    fn charge_image(&self, start: u64, pages: usize) -> Result<(), NoMemory> {
        let is_inside = self.space.bytes_from(start) >= (pages * PAGE) as u64;
        if is_inside && start.is_multiple_of(PAGE as u64) {
            self.charge(pages).map_err(|_| NoMemory)
        } else {
            Err(NoMemory)
        }
    }

    /// Returns the address of the page that every component reads.
    pub fn shared_page(&self) -> u64 {
        if self.grants.can_run { SERVER_BASE } else { SHARED_PAGE }
    }

    /// Puts `capability` into the domain's table. Returns its handle.
    ///
    /// # Errors
    /// [`NoMemory`] if the table is full.
    pub fn grant(&self, capability: Capability) -> Result<u64, NoMemory> {
        let handle = self.held.lock().reserve().ok_or(NoMemory)?;
        self.put(handle, capability);
        Ok(handle)
    }

    /// Starts the domain's first thread at `entry`, with its grant of memory in rdi.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn start(self: &Arc<Domain>, entry: u64) -> Result<(), NoMemory> {
        let (argument, policy) = (self.grants.memory_bytes as u64, self.grants.policy);
        let start = run::Start { rip: entry, argument, policy, ..run::Start::default() };
        run::spawn(self, start).map(|_| ()).map_err(|_| NoMemory)
    }

    /// Ends the domain because of `cause`, if it has not ended, and blocks until its last thread has left and its devices
    /// are quiet.
    pub fn kill(&self, cause: &str) {
        self.condemn(cause);
        let _ = self.wait_end(None);
    }

    /// Ends the domain because of `cause`, if it has not ended, as soon as its threads can leave. The caller may be one of
    /// them.
    pub fn condemn(&self, cause: &str) {
        self.end(End::because(cause));
    }

    /// Blocks until the domain has ended and its devices are quiet. Returns its end, or `None` at the deadline.
    pub fn wait_end(&self, deadline_ns: Option<u64>) -> Option<End> {
        while self.has_ended.load(Acquire) == 0 {
            let sleep = thread::Sleep::Uninterruptible;
            if thread::wait_on(&self.has_ended, 0, deadline_ns, sleep) == sync::Outcome::TimedOut {
                return None;
            }
        }
        self.end.lock().clone()
    }

    /// Returns the domain's memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.quota.used() * PAGE
    }

    /// Returns the domain's usage.
    pub fn usage(&self) -> Usage {
        let over_share = self.share.as_ref().map_or(0, |share| share.refused());
        let threads = self.threads.lock().clone();
        let times = threads.iter().filter_map(|&number| thread::cpu_time(number));
        let counts = self.refused.iter().map(|count| count.load(Relaxed));
        let refused = Call::ALL.iter().map(|call| call.name()).zip(counts);
        Usage {
            memory_bytes: self.memory_bytes(),
            threads: threads.len(),
            cpu_ns: times.map(|time| time.user_ns + time.system_ns).sum(),
            calls: self.calls.load(Relaxed),
            refused: refused
                .chain([("dma", self.strays.load(Relaxed)), ("share", over_share)])
                .filter(|&(_, count)| count > 0)
                .collect(),
        }
    }

    /// Notes the first cause of the end and kicks every thread out of user mode.
    fn end(&self, end: End) {
        self.end.lock().get_or_insert(end);
        let threads = {
            let threads = self.threads.lock();
            self.is_ending.store(true, SeqCst);
            threads.clone()
        };
        // A thread that is just starting checks for the end before it enters user mode.
        threads.into_iter().for_each(thread::kick);
        if self.alive.load(SeqCst) == 0 {
            self.finish();
        }
    }

    /// Finishes the end after the last thread has left: quiesces devices, then gives back the memory that they could
    /// reach.
    fn finish(&self) {
        if self.is_finishing.swap(true, SeqCst) {
            return;
        }
        trace::point("component-end", thread::current_number(), self.calls.load(Relaxed));
        let taken = core::mem::take(&mut *self.taken.lock());
        taken.functions.into_iter().for_each(pci::close);
        taken.transports.into_iter().for_each(device::quiesce_transport);
        taken.ports.into_iter().for_each(|(first, count)| device::close_ports(first, count));
        drop(taken.kept);
        // Its derivations are revoked from all holders.
        revoke(taken.given.into_iter().map(|(_, derivation)| derivation));
        let mut held = self.held.lock().drain();
        // The pages of programs go first: some are a region's.
        drop(held.extract_if(.., |one| matches!(one, Capability::Space(_))).collect::<Vec<_>>());
        drop(held);
        self.programs.give_back_retired();
        self.has_ended.store(1, Release);
        thread::wake(&self.has_ended, u32::MAX);
    }

    /// Counts a thread out. The last one finishes the domain.
    fn leave(&self) {
        if self.alive.fetch_sub(1, SeqCst) == 1 {
            self.end.lock().get_or_insert_with(|| End::because("its last thread ended"));
            self.is_ending.store(true, SeqCst);
            self.finish();
        }
    }

    /// Charges `pages` of memory to the domain.
    fn charge(&self, pages: usize) -> Result<(), Status> {
        charge::charge_to(&self.quota, pages)?;
        self.pages.fetch_add(pages, Relaxed);
        Ok(())
    }

    fn uncharge(&self, pages: usize) {
        self.pages.fetch_sub(pages, Relaxed);
        charge::uncharge_from(&self.quota, pages);
    }

    /// Adds `by` to the number of kernel calls made.
    #[inline(always)]
    fn count_calls(&self, by: i64) {
        self.calls.store(self.calls.load(Relaxed).wrapping_add_signed(by), Relaxed);
    }

    /// Counts a refusal of a call, or of memory or a thread for it.
    #[cold]
    fn note_refused(&self, call: Call) {
        self.refused[call as usize].fetch_add(1, Relaxed);
        trace::point("refused", call as u64, thread::current_number());
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        derivations::leave();
        self.uncharge(self.pages.load(Relaxed));
        objects::count(Kind::Domain, -1);
    }
}
