//! Protection domains: a component in the process world, its memory, its capabilities, its threads (X1, K3).
//!
//! A [`Domain`] can do what its [`Grants`] say and nothing else; what it asks beyond that is refused,
//! counted and traced. Its threads run in user mode and come here by kernel calls (`calls`). It ends when it says
//! so, when it does what the processor refuses, or when it is killed; then its devices are quiesced, and
//! only after that is the memory they could reach given back: devices reset, interrupts masked and bus mastering
//! off, then capabilities, then the space.
//!
//! Locks, each a leaf but where said: `mapped` (over `held`, `taken` and the space's), `held` (capabilities; what is taken
//! out is dropped after), `taken`, `threads`, `end`.
mod calls;
mod devices;
mod gifts;
mod memory;
mod run;

pub use devices::watch_faults;
pub use gifts::take_back;

use crate::{
    arch::{iommu::Window, pci, smp},
    capability::{Capability, Gift, Table},
    device,
    dma::{DmaBuffer, Loan},
    memory::{
        NoMemory, PAGE, charge,
        space::{Protection, Space},
    },
    objects::{self, Kind},
    spin::{PreemptLock, SpinLock},
    thread, trace,
};
use ::calls::{Call, Lines, MAPPINGS, Quota, Status};
pub use ::calls::{CallSet, End, Grants, PortAccess, Usage};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
pub(crate) use run::here;
use runqueue::Share;
use x86::port::Ranges;

/// The things it has opened and mapped.
#[derive(Debug, Default)]
struct Taken {
    ports: Ranges,
    functions: Vec<u16>,
    transports: Vec<u64>,
    /// Capabilities given: under which handle, and what ends them.
    given: Vec<(u64, Arc<Gift>)>,
    /// Of the memory that outlives it, to its devices.
    kept: Option<Loan>,
    /// Registers mapped: physical address, and where.
    registers: Vec<(u64, u64)>,
    /// The place of the next mapping.
    next: u64,
}

/// An isolated component.
#[derive(Debug)]
pub struct Domain {
    name: String,
    space: Space,
    grants: Grants,
    /// The memory that its functions reach, where there is an IOMMU.
    window: Option<Arc<Window>>,
    held: SpinLock<Table>,
    /// Counted up when a capability goes, so that nobody believes what he remembers of the table.
    version: AtomicU32,
    /// Counted up after memory went, so that nobody believes what he remembers of an address.
    unmapped: AtomicU32,
    taken: SpinLock<Taken>,
    /// Regions mapped. Held while they are mapped and unmapped.
    mapped: PreemptLock<Vec<memory::Mapped>>,
    /// Pages of memory: charged here, the regions that it made, and page tables.
    quota: Arc<Quota>,
    pages: AtomicUsize,
    /// Interrupt vectors.
    vectors: Arc<Quota>,
    lines: SpinLock<Lines>,
    threads: SpinLock<Vec<u64>>,
    /// Threads that have not left for good.
    alive: AtomicU32,
    is_ending: AtomicBool,
    is_finishing: AtomicBool,
    /// 1 once the last thread has left after the end; waited for.
    has_ended: AtomicU32,
    end: SpinLock<Option<End>>,
    calls: AtomicU64,
    refused: [AtomicU32; Call::ALL.len()],
    /// Times its devices reached for what was not lent to them.
    strays: AtomicU32,
    /// Of the processors' time; `None` where it may have all.
    share: Option<Arc<Share>>,
}

impl Domain {
    /// An empty domain.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(name: &str, grants: Grants) -> Result<Arc<Domain>, NoMemory> {
        let has_map = grants.port_access == PortAccess::Map && !grants.ports.is_empty();
        let quota = Arc::new(Quota::new(grants.memory_bytes / PAGE));
        let make = if has_map { Space::with_port_map } else { Space::charged_to };
        let space = make(Some(quota.clone()))?;
        let window = if grants.functions.is_empty() { None } else { Window::new()? };
        let share = Share::new(grants.share_percent, smp::online());
        let vectors = Arc::new(Quota::new(grants.vectors));
        let lines = Lines::new(grants.log_lines.0, grants.log_lines.1);
        objects::count(Kind::Domain, 1);
        // Never longer, so that nothing is allocated under the lock.
        let threads = Vec::with_capacity(grants.threads);
        let taken = Taken { next: MAPPINGS, ..Taken::default() };
        let domain = Arc::new(Domain {
            name: String::from(name),
            space,
            grants,
            window,
            held: SpinLock::new(class!("nucleus.domain.held"), Table::new()),
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
            share: share.map(Arc::new),
        });
        gifts::enter(&domain);
        Ok(domain)
    }

    /// The memory that its functions reach, where there is an IOMMU.
    pub fn window(&self) -> Option<Arc<Window>> {
        self.window.clone()
    }

    /// Its space, for whoever loads it.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Maps new memory at `start` and copies `data` to its beginning.
    ///
    /// # Errors
    /// [`NoMemory`], also where the grant is used up.
    pub fn load(
        &self,
        start: u64,
        pages: usize,
        data: &[u8],
        protection: Protection,
    ) -> Result<(), NoMemory> {
        self.charge(pages).map_err(|_| NoMemory)?;
        self.space.map_zeroed(start, pages, protection | Protection::WRITE)?;
        let copied = self.space.write(start, &data[..data.len().min(pages * PAGE)]);
        self.space.protect(start, start + (pages * PAGE) as u64, protection)?;
        copied.map_err(|_| NoMemory)
    }

    /// Maps `buffer`, charged to it, with `rights` but to write.
    ///
    /// # Errors
    /// As [`Domain::load`].
    pub fn show(&self, at: u64, buffer: &DmaBuffer, rights: Protection) -> Result<(), NoMemory> {
        let frames: Vec<u32> = buffer.frames().collect();
        self.charge(frames.len()).map_err(|_| NoMemory)?;
        self.space.map(at, &frames, rights.difference(Protection::WRITE)).map(|_| ())
    }

    /// Puts `capability` into its table; the handle.
    ///
    /// # Errors
    /// [`NoMemory`] where the table is full.
    pub fn grant(&self, capability: Capability) -> Result<u64, NoMemory> {
        let handle = self.held.lock().reserve().ok_or(NoMemory)?;
        self.put(handle, capability);
        Ok(handle)
    }

    /// Starts its first thread at `entry`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn start(self: &Arc<Domain>, entry: u64) -> Result<(), NoMemory> {
        let start = run::Start { rip: entry, policy: self.grants.policy, ..run::Start::default() };
        run::spawn(self, start).map(|_| ()).map_err(|_| NoMemory)
    }

    /// Ends it because of `cause`, if it has not ended, and blocks until its last thread has left and its
    /// devices are quiet.
    pub fn kill(&self, cause: &str) {
        self.condemn(cause);
        let _ = self.wait_end(None);
    }

    /// Ends it because of `cause`, if it has not ended, as soon as its threads can leave: one of them may be the caller.
    pub fn condemn(&self, cause: &str) {
        self.end(End::because(cause));
    }

    /// Blocks until it has ended and its devices are quiet; why it did, or `None` at the deadline.
    pub fn wait_end(&self, deadline_ns: Option<u64>) -> Option<End> {
        while self.has_ended.load(Acquire) == 0 {
            let outcome = thread::wait_on(&self.has_ended, 0, deadline_ns, false);
            if outcome == sync::Outcome::TimedOut {
                return None;
            }
        }
        self.end.lock().clone()
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.quota.used() * PAGE
    }

    /// The domain's usage.
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

    /// Notes the first cause and calls every thread out.
    fn end(&self, end: End) {
        self.end.lock().get_or_insert(end);
        let threads = {
            let threads = self.threads.lock();
            self.is_ending.store(true, SeqCst);
            threads.clone()
        };
        // A thread that starts just now looks before it enters.
        threads.into_iter().for_each(thread::kick);
        if self.alive.load(SeqCst) == 0 {
            self.finish();
        }
    }

    /// The last thread has left: quiesces devices, then gives back what they could reach.
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
        // Its gifts are nobody's any more.
        take_back(taken.given.into_iter().map(|(_, gift)| gift));
        let held = self.held.lock().drain();
        drop(held);
        self.has_ended.store(1, Release);
        thread::wake(&self.has_ended, u32::MAX);
    }

    /// A thread is gone; the last takes the domain along.
    fn leave(&self) {
        if self.alive.fetch_sub(1, SeqCst) == 1 {
            self.end.lock().get_or_insert_with(|| End::because("its last thread ended"));
            self.is_ending.store(true, SeqCst);
            self.finish();
        }
    }

    /// Charges `pages` of memory to it.
    fn charge(&self, pages: usize) -> Result<(), Status> {
        charge::charge_to(&self.quota, pages)?;
        self.pages.fetch_add(pages, Relaxed);
        Ok(())
    }

    fn uncharge(&self, pages: usize) {
        self.pages.fetch_sub(pages, Relaxed);
        charge::uncharge_from(&self.quota, pages);
    }

    /// A call was refused, or memory or a thread for it.
    #[cold]
    fn note_refused(&self, call: Call) {
        self.refused[call as usize].fetch_add(1, Relaxed);
        trace::point("refused", call as u64, thread::current_number());
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        gifts::leave();
        self.uncharge(self.pages.load(Relaxed));
        objects::count(Kind::Domain, -1);
    }
}
