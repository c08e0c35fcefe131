//! The hardware ([`Unit`]), and the memory that a driver's functions reach ([`FrameWindow`]).
use crate::{
    Access, Coherency, ENTRIES, Fault, Machine,
    entries::{self, Capabilities, register},
    get,
    interrupts::{self, Remapping, Route},
    set,
};
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

/// The domain of the functions that reach all of memory. Domain 0 is reserved (6.2.2.1).
const PASSING: u16 = 1;
const DOMAINS_RESERVED: u64 = 0b11;
/// Number of reads of a register after which the hardware counts as dead.
const PATIENCE: usize = 100_000_000;

/// The memory that a function reaches.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// No memory.
    Nothing,
    /// All of memory.
    All,
    /// The memory that is lent to the window.
    Window(&'a FrameWindow),
}

/// The hardware, which translates.
#[derive(Debug)]
pub struct Unit<M> {
    machine: M,
    capabilities: Capabilities,
    root: u32,
    /// Domains in use, one bit each.
    domains: u64,
    /// Number of frames: the end of memory.
    frames: u32,
    /// The record at which the search for the next fault starts.
    next_record: usize,
    /// The remapping of interrupts, if it is enabled.
    remapping: Option<Remapping>,
    /// An empty window that was freed, kept for the next user, because most of a window's cost is its tables.
    spare: Option<FrameWindow>,
}

/// The frames that the functions attached to it reach. Any number of threads may lend and take back at once.
#[derive(Debug)]
pub struct FrameWindow {
    domain: u16,
    coherency: Coherency,
    /// The hardware may cache that an entry was absent.
    remembers_nothing: bool,
    root: u32,
    /// Tables of all levels above the leaves, with the root.
    tables: Vec<u32>,
    /// Leaf tables, by number of the frame divided by 512.
    leaves: Vec<u32>,
    /// Number of frames that are lent.
    lent: AtomicUsize,
    /// Number of loans that gave a reached frame further rights, and the number of them up to which the hardware knows.
    widened: AtomicUsize,
    known: AtomicUsize,
}

impl<M: Machine> Unit<M> {
    /// Starts translation for a machine with memory below frame `frames`. No function reaches anything at first.
    ///
    /// # Errors
    /// A description of what the hardware or memory lacks.
    pub fn start(machine: M, frames: u32) -> Result<Unit<M>, &'static str> {
        let low = machine.read(register::CAPABILITY, 8);
        let extended = machine.read(register::EXTENDED_CAPABILITY, 8);
        let capabilities = Capabilities::of(low, extended, frames)?;
        let root = machine.allocate().ok_or("there is no memory for its tables")?;
        let domains = DOMAINS_RESERVED;
        let (spare, remapping) = (None, None);
        let mut unit =
            Unit { machine, capabilities, root, domains, frames, next_record: 0, remapping, spare };
        unit.machine.write(register::ROOT_TABLE, 8, u64::from(root) << 12);
        unit.command(entries::SET_ROOT);
        unit.forget_contexts();
        unit.command(entries::TRANSLATE);
        if interrupts::is_able(extended) {
            unit.start_remapping();
        }
        Ok(unit)
    }

    /// Blocks every interrupt message but those of [routes](Unit::route), if there is memory for the table.
    fn start_remapping(&mut self) {
        let made = Remapping::new(&self.machine, self.capabilities.coherency);
        let Some(remapping) = made else { return };
        let [queue, table, remap] = interrupts::STEPS;
        remapping.set_queue(&self.machine);
        self.command(queue);
        remapping.set_table(&self.machine);
        self.command(table);
        self.remapping = Some(remapping);
        self.give(interrupts::ALL_ENTRIES);
        self.command(remap);
    }

    /// Gives a command by the queue, if there is one, and waits until it is done. Returns whether there is a queue.
    fn give(&mut self, command: u64) -> bool {
        let Some(remapping) = &mut self.remapping else { return false };
        let number = remapping.give(&self.machine, command);
        let answered = (0..PATIENCE).any(|_| remapping.is_done(&self.machine, number));
        assert!(answered, "the IOMMU does not answer");
        true
    }

    /// Returns whether interrupts are remapped: a function then raises only those of its routes.
    pub fn remaps_interrupts(&self) -> bool {
        self.remapping.is_some()
    }

    /// Lets the message of the route's vector raise `route`. Returns the address of that message; `None` if interrupts
    /// are not remapped.
    pub fn route(&mut self, route: Route) -> Option<u64> {
        let command = self.remapping.as_ref()?.set(&self.machine, route.vector, Some(route));
        self.give(command);
        Some(Route::message(route.vector))
    }

    /// Lets the message of `vector` raise nothing.
    pub fn unroute(&mut self, vector: u8) {
        if let Some(remapping) = &self.remapping {
            let command = remapping.set(&self.machine, vector, None);
            self.give(command);
        }
    }

    /// Gives a command by the register and waits until it is done.
    fn command(&self, bit: u64) {
        let status = self.machine.read(register::STATUS, 4);
        self.machine.write(register::COMMAND, 4, status & entries::KEPT | bit);
        self.wait(register::STATUS, 4, |status| status & bit != 0);
    }

    /// Waits until `is_done` returns `true` for the register's value.
    ///
    /// # Panics
    /// Panics if the hardware does not answer: the memory that devices reach is then unknown.
    fn wait(&self, register: usize, width: usize, is_done: impl Fn(u64) -> bool) {
        let answered = (0..PATIENCE).any(|_| is_done(self.machine.read(register, width)));
        assert!(answered, "the IOMMU does not answer");
    }

    fn forget(&self, what: u64) {
        let tlb = self.capabilities.tlb;
        self.machine.write(tlb, 8, what);
        self.wait(tlb, 8, |word| word & entries::IS_BUSY == 0);
    }

    fn forget_contexts(&mut self) {
        if self.give(interrupts::FORGET_CONTEXTS) {
            self.give(interrupts::FORGET_ALL);
            return;
        }
        self.machine.write(register::CONTEXT_COMMAND, 8, entries::FORGET_CONTEXTS);
        self.wait(register::CONTEXT_COMMAND, 8, |word| word & entries::IS_BUSY == 0);
        self.forget(entries::FORGET_ALL);
    }

    /// Lets `function` reach exactly the memory of `reach` from now on. Returns `false` if there is no memory for the
    /// tables; [`Reach::Nothing`] needs none.
    #[must_use]
    pub fn attach(&mut self, function: u16, reach: Reach<'_>) -> bool {
        let capabilities = &self.capabilities;
        let [low, high] = match reach {
            Reach::Nothing => [0, 0],
            Reach::All => entries::passing(capabilities.levels_most, PASSING),
            Reach::Window(window) => {
                entries::by_window(window.root, capabilities.levels, window.domain)
            }
        };
        let (bus, index) = (usize::from(function >> 8), 2 * usize::from(function & 0xff));
        let coherency = capabilities.coherency;
        let known = entries::frame_of(get(&self.machine, self.root, 2 * bus));
        let contexts = match known {
            None if low == 0 => return true,
            Some(contexts) => contexts,
            None => {
                let Some(contexts) = self.machine.allocate() else { return false };
                set(&self.machine, coherency, self.root, 2 * bus, entries::root(contexts));
                contexts
            }
        };
        // The context is absent while it changes, so that the hardware never uses a half of it.
        set(&self.machine, coherency, contexts, index, 0);
        set(&self.machine, coherency, contexts, index + 1, high);
        set(&self.machine, coherency, contexts, index, low);
        self.forget_contexts();
        true
    }

    /// Makes an empty window; `None` without memory, or if no domain is left.
    pub fn window(&mut self) -> Option<FrameWindow> {
        self.spare.take().or_else(|| self.new_window())
    }

    fn new_window(&mut self) -> Option<FrameWindow> {
        let domain = self.domains.trailing_ones();
        if domain >= self.capabilities.domains.min(u64::BITS) {
            return None;
        }
        let Capabilities { coherency, remembers_nothing, .. } = self.capabilities;
        let mut window = FrameWindow {
            domain: domain as u16,
            coherency,
            remembers_nothing,
            root: 0,
            tables: Vec::new(),
            leaves: Vec::new(),
            lent: AtomicUsize::new(0),
            widened: AtomicUsize::new(0),
            known: AtomicUsize::new(0),
        };
        self.domains |= 1 << domain;
        let root = window.fill(&self.machine, self.capabilities.levels, 0, self.frames);
        window.root = root.unwrap_or(0);
        if root.is_none() {
            self.give_back(window);
            return None;
        }
        Some(window)
    }

    /// Frees a window that no function is attached to. One is kept for the next user.
    pub fn free(&mut self, window: FrameWindow) {
        self.forget_domain(&window);
        if self.spare.is_none() && window.lent.load(Relaxed) == 0 {
            self.spare = Some(window);
        } else {
            self.give_back(window);
        }
    }

    fn give_back(&mut self, window: FrameWindow) {
        self.domains &= !(1 << window.domain);
        let all = window.tables.into_iter().chain(window.leaves);
        all.for_each(|frame| self.machine.free(frame));
    }

    /// Makes the hardware flush its cached entries of `window`.
    pub fn forget_domain(&mut self, window: &FrameWindow) {
        let widened = window.widened.load(SeqCst);
        if !self.give(interrupts::forget_domain(window.domain)) {
            self.forget(entries::forget(window.domain));
        }
        window.known.store(widened, SeqCst);
    }

    /// Returns the machine whose memory holds the tables.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Makes the hardware announce faults by a message of `data` to `address`.
    pub fn tell_faults(&self, address: u64, data: u32) {
        self.machine.write(register::FAULT_DATA, 4, u64::from(data));
        self.machine.write(register::FAULT_ADDRESS, 4, address & 0xffff_ffff);
        self.machine.write(register::FAULT_ADDRESS_HIGH, 4, address >> 32);
        self.machine.write(register::FAULT_CONTROL, 4, 0);
    }

    /// Takes the next recorded fault. After a `None` the message comes for the next fault.
    pub fn next_fault(&mut self) -> Option<Fault> {
        let Capabilities { records, record_count, .. } = self.capabilities;
        for step in 0..record_count {
            let index = (self.next_record + step) % record_count;
            let at = records + 16 * index;
            let high = self.machine.read(at + 8, 8);
            if let Some(fault) = entries::fault(self.machine.read(at, 8), high) {
                self.machine.write(at + 8, 8, entries::IS_FAULT);
                self.next_record = index + 1;
                return Some(fault);
            }
        }
        self.machine.write(register::FAULT_STATUS, 4, entries::OVERFLOW);
        None
    }
}

impl FrameWindow {
    /// Builds the table of `levels` levels for the frames from `first` up to `end`, and the tables below it.
    fn fill(&mut self, machine: &impl Machine, levels: u8, first: u64, end: u32) -> Option<u32> {
        let table = machine.allocate()?;
        if levels == 1 {
            self.leaves.push(table);
            return Some(table);
        }
        self.tables.push(table);
        let step = 1 << (9 * (levels - 1));
        let starts = (0..ENTRIES as u64).map(|index| first + index * step);
        for (index, start) in starts.take_while(|&start| start < u64::from(end)).enumerate() {
            let below = self.fill(machine, levels - 1, start, end)?;
            let entry = entries::table(below, Access::Both as u64);
            set(machine, self.coherency, table, index, entry);
        }
        Some(table)
    }

    /// Returns whether [`Unit::forget_domain`] is needed after the loans of this thread, too: if the hardware caches absent
    /// entries, or if a loan gave a reached frame further rights, because the hardware may have cached the fewer ones.
    /// Returns `true`, too, if that was another thread's loan.
    pub fn needs_forgetting(&self) -> bool {
        self.remembers_nothing || self.widened.load(SeqCst) != self.known.load(SeqCst)
    }

    /// Changes the entry of `frame` to the value that `next` returns. Returns the old value; `None` if the frame is not
    /// memory or `next` refuses.
    fn change(
        &self,
        machine: &impl Machine,
        frame: u32,
        next: impl FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        let leaf = *self.leaves.get(frame as usize / ENTRIES)?;
        let entry = machine.table(leaf).get(frame as usize % ENTRIES)?;
        let before = entry.fetch_update(SeqCst, Relaxed, next).ok()?;
        if self.coherency == Coherency::Uncached {
            machine.flush(entry);
        }
        Some(before)
    }

    /// Adds a loan of `frame`. Returns `false` if it is not memory or has too many loans.
    #[must_use]
    pub fn lend(&self, machine: &impl Machine, frame: u32, access: Access) -> bool {
        let before = self.change(machine, frame, |entry| entries::lent(entry, frame, access));
        self.lent.fetch_add(usize::from(before == Some(0)), Relaxed);
        if before.is_some_and(|before| before != 0 && before & access as u64 != access as u64) {
            self.widened.fetch_add(1, SeqCst);
        }
        before.is_some()
    }

    /// Lends each of `loans` and calls `keep` for its frame.
    ///
    /// # Errors
    /// The number of loans that were added, if the next frame is not memory or has too many loans.
    pub fn lend_all(
        &self,
        machine: &impl Machine,
        loans: impl Iterator<Item = (u32, Access)>,
        keep: impl Fn(u32),
    ) -> Result<(), usize> {
        for (done, (frame, access)) in loans.enumerate() {
            if !self.lend(machine, frame, access) {
                return Err(done);
            }
            keep(frame);
        }
        Ok(())
    }

    /// Takes back one loan of `frame`. Returns whether it was the last, in which case the hardware must flush the
    /// entry.
    #[must_use]
    pub fn take_back(&self, machine: &impl Machine, frame: u32) -> bool {
        let before = self.change(machine, frame, |entry| Some(entries::taken_back(entry)));
        let is_last = before.is_some_and(|before| before != 0 && entries::taken_back(before) == 0);
        self.lent.fetch_sub(usize::from(is_last), Relaxed);
        is_last
    }
}
