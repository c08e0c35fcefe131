//! The IOMMU, if there is one: it limits the memory that each PCI function reaches (logic and tables: `libs/vtd`).
//!
//! A function that is not open reaches nothing. One that a component of the kernel world has open reaches all of memory.
//! One that a domain has open reaches the frames lent to the domain's [`Window`]. Frames keep their physical addresses. One
//! lock, a leaf, guards the unit; loans in windows change without it.
use super::{acpi, boot::phys_to_virt};
use crate::{
    device::{self, Registers},
    irq::Interrupt,
    memory::{NoMemory, frames},
    objects::{self, Kind},
    spin::PreemptLock,
};
use alloc::sync::Arc;
use core::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
pub use vtd::{Access, Fault};
use vtd::{Machine, Reach, Route, TranslationTable, Unit};

static UNIT: PreemptLock<Option<Unit<Hardware>>> = PreemptLock::new(class!("nucleus.iommu"), None);
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Registers of the IOMMU, and memory for its tables.
#[derive(Clone, Copy, Debug)]
struct Hardware(Registers);

impl Machine for Hardware {
    #[inline]
    fn read(&self, register: usize, width: usize) -> u64 {
        self.0.read(register, width)
    }
    #[inline]
    fn write(&self, register: usize, width: usize, value: u64) {
        self.0.write(register, width, value);
    }
    fn allocate(&self) -> Option<u32> {
        let frame = frames::allocate_zeroed(frames::For::Program)?;
        objects::count(Kind::TableFrame, 1);
        table(frame).iter().step_by(8).for_each(flush);
        Some(frame)
    }
    fn free(&self, frame: u32) {
        objects::count(Kind::TableFrame, -1);
        frames::free(frame);
    }
    fn table(&self, frame: u32) -> &TranslationTable {
        table(frame)
    }
    fn flush(&self, entry: &AtomicU64) {
        flush(entry);
    }
}

/// Returns the table in `frame`, which `allocate` returned.
fn table<'a>(frame: u32) -> &'a TranslationTable {
    // SAFETY: a frame of ours in the direct map; atomics may be shared with anyone. It is looked at only while it is held.
    unsafe { &*(phys_to_virt(u64::from(frame) << 12) as *const TranslationTable) }
}

fn flush(entry: &AtomicU64) {
    // SAFETY: writes a cache line of ours back, for hardware that does not look into caches.
    unsafe { asm!("clflush [{}]", in(reg) entry, options(nostack, preserves_flags)) };
}

/// Enables the IOMMU, if there is one that this driver supports, and logs the result.
pub fn init() {
    let started = match acpi::tables().iommu {
        None => Err("this machine has none"),
        Some(found) => Unit::start(Hardware(device::map(found.registers, 4096)), frames::end()),
    };
    match started {
        Ok(unit) => {
            *UNIT.lock() = Some(unit);
            IS_ON.store(true, Relaxed);
            log::info!("iommu: isolated drivers' devices reach only memory that is lent to them");
            if !with_unit(|unit| unit.remaps_interrupts()).unwrap_or(false) {
                log::warn!("iommu: no interrupt remapping: a device may raise any interrupt");
            }
        }
        Err(lack) => log::warn!("no IOMMU ({lack}): drivers are trusted with DMA and interrupts"),
    }
}

fn with_unit<R>(act: impl FnOnce(&mut Unit<Hardware>) -> R) -> Option<R> {
    if IS_ON.load(Relaxed) { UNIT.lock().as_mut().map(act) } else { None }
}

/// The memory that the functions of a domain reach. Its tables exist until it is dropped.
#[derive(Debug)]
pub struct Window {
    window: Option<vtd::FrameWindow>,
    hardware: Hardware,
}

impl Window {
    /// Makes an empty window; `None` without an IOMMU.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Option<Arc<Window>>, NoMemory> {
        let make = |unit: &mut Unit<Hardware>| {
            let window = Some(unit.window().ok_or(NoMemory)?);
            Ok(Arc::new(Window { window, hardware: *unit.machine() }))
        };
        with_unit(make).transpose()
    }

    /// Lends each of `loans`. A frame stays allocated until it has been taken back as often as it was lent.
    ///
    /// # Errors
    /// [`NoMemory`] if one has too many loans; then none was lent.
    pub fn lend<I>(&self, loans: I) -> Result<(), NoMemory>
    where
        I: Iterator<Item = (u32, Access)> + Clone,
    {
        let Some(window) = &self.window else { return Ok(()) };
        if let Err(done) = window.lend_all(&self.hardware, loans.clone(), frames::retain) {
            self.take_back(loans.map(|loan| loan.0).take(done));
            return Err(NoMemory);
        }
        if window.needs_forgetting() {
            with_unit(|unit| unit.forget_domain(window));
        }
        Ok(())
    }

    /// Takes back one loan of each of `loans`. When this returns, no device reaches them through the window any more.
    pub fn take_back<I: Iterator<Item = u32> + Clone>(&self, loans: I) {
        let Some(window) = &self.window else { return };
        let take = |last, frame| window.take_back(&self.hardware, frame) | last;
        if loans.clone().fold(false, take) {
            with_unit(|unit| unit.forget_domain(window));
        }
        loans.for_each(frames::release);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Some(window) = self.window.take() {
            with_unit(|unit| unit.free(window));
        }
    }
}

/// Lets `function` reach the frames lent to `window`, or all of memory without a window. Returns `false` if there is no
/// memory for the tables, or if the function has a window but does not go through the IOMMU.
#[must_use]
pub fn attach(function: u16, window: Option<&Window>) -> bool {
    let is_served = acpi::tables().iommu.is_some_and(|iommu| iommu.serves(function));
    if window.is_some() && !is_served {
        log::error!(
            "the firmware names no IOMMU for function {}: not for isolated drivers",
            program::PciAddress(function)
        );
        return false;
    }
    let reach = window.and_then(|window| window.window.as_ref()).map_or(Reach::All, Reach::Window);
    with_unit(|unit| unit.attach(function, reach)).unwrap_or(true)
}

/// Lets `function` reach nothing.
pub fn detach(function: u16) {
    with_unit(|unit| unit.attach(function, Reach::Nothing));
}

/// Lets the sender of `route` (any function, if the sender is not known) raise its vector. Returns the address of the message,
/// whose data are 0; `None` if interrupts are not remapped.
pub fn route(route: Route) -> Option<u64> {
    with_unit(|unit| unit.route(route))?
}

/// Lets no device raise `vector`.
pub fn unroute(vector: u8) {
    with_unit(|unit| unit.unroute(vector));
}

/// Returns the interrupt that announces faults; `None` without an IOMMU or a free vector.
pub fn fault_interrupt() -> Option<Interrupt> {
    const SOURCE: u32 = u32::MAX;
    with_unit(|unit| {
        let (interrupt, message) = Interrupt::message(SOURCE, None)?;
        unit.tell_faults(message.address, message.data);
        Some(interrupt)
    })?
}

/// Takes the next recorded fault. After a `None` the interrupt comes for the next fault.
pub fn next_fault() -> Option<Fault> {
    with_unit(Unit::next_fault)?
}
