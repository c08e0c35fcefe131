//! Kernel calls about devices: ports, interrupts, PCI functions, virtio-mmio transports.
//!
//! What is named must be granted, and but for opening it, open.
use super::{
    Domain, End,
    calls::{Done, until},
    run::Pinned,
};
use crate::{
    arch::{
        iommu::{self, Fault},
        pci,
    },
    capability::Capability,
    device,
    memory::PAGE,
    spin::SpinLock,
    thread::{self, Policy},
    trace,
};
use ::calls::{Call, Status};
use alloc::{
    boxed::Box,
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{ops::Range, sync::atomic::Ordering::Relaxed};
use program::{PciAddress, Registers};
use sync::class::LockClass;

static OWNERS_CLASS: LockClass = LockClass::new("nucleus.domain.owners");
/// Who opened each function last.
static OWNERS: SpinLock<Vec<(u16, Weak<Domain>)>> = SpinLock::new(&OWNERS_CLASS, Vec::new());

/// Starts the thread that ends whoever's device reaches for what was not lent to it, where an IOMMU stops that.
pub fn watch_faults() {
    const PRIORITY: u8 = 98;
    let Some(interrupt) = iommu::fault_interrupt() else { return };
    let watch = move || loop {
        judge_all();
        interrupt.wait(None, false);
    };
    let started = thread::spawn("iommu", Policy::RoundRobin(PRIORITY), Box::new(Box::new(watch)));
    started.expect("no memory for a thread at boot");
}

/// Judges every fault recorded.
fn judge_all() {
    while let Some(fault) = iommu::next_fault() {
        judge(fault);
    }
}

fn judge(fault: Fault) {
    trace::point("dma-fault", u64::from(fault.function), fault.address);
    let is_its = |(function, _): &&(u16, _)| *function == fault.function;
    let owner = OWNERS.lock().iter().find(is_its).and_then(|(_, owner)| owner.upgrade());
    match owner {
        Some(domain) => {
            domain.strays.fetch_add(1, Relaxed);
            domain.end(End::because(&format!("DMA that was not lent: {fault}")));
        }
        None => log::warn!("DMA of nobody's: {fault}"),
    }
}

impl Domain {
    /// Maps `bytes` bytes of registers at physical address `base`, but for pages with any of `hidden`; where.
    fn map_registers(&self, base: u64, bytes: u64, hidden: &[Range<u64>]) -> Result<u64, Status> {
        const BYTES: u64 = PAGE as u64;
        let offset = base % BYTES;
        let pages = usize::try_from((offset + bytes).div_ceil(BYTES)).unwrap_or(usize::MAX);
        let start = self.room(pages);
        for page in (0..pages as u64).map(|page| page * BYTES) {
            let at = base - offset + page;
            if !hidden.iter().any(|range| range.start < at + BYTES && at < range.end) {
                self.space.map_device(start + page, at, 1)?;
            }
        }
        Ok(start + offset)
    }

    pub(super) fn device(self: &Arc<Domain>, call: Call, registers: &mut Registers) -> Done {
        let (first, second, third) = (registers.rdi, registers.rsi, registers.rdx);
        match call {
            Call::PortsOpen | Call::PortsClose | Call::PortRead | Call::PortWrite => {
                self.port(call, registers)
            }
            Call::InterruptOpen
            | Call::InterruptWait
            | Call::InterruptAcknowledge
            | Call::InterruptWake => self.interrupt(call, registers),
            Call::PciFunction => {
                let address = *self.grants.functions.get(first as usize).ok_or(Status::NotFound)?;
                let found = pci::find(address.0)?;
                registers.rdi = u64::from(address.0)
                    | u64::from(found.id) << 16
                    | u64::from(found.subsystem >> 16) << 48;
                registers.rsi = u64::from(found.class);
                Ok(())
            }
            Call::Transport => {
                let base = *self.grants.transports.get(first as usize).ok_or(Status::NotFound)?;
                let found = device::transports().into_iter().find(|one| one.base == base);
                let found = found.ok_or(Status::NotFound)?;
                (registers.rdi, registers.rsi, registers.rdx) =
                    (found.base, found.bytes, u64::from(found.interrupt));
                Ok(())
            }
            Call::TransportOpen => {
                let found = device::transports().into_iter().find(|one| one.base == first);
                let is_granted = self.grants.transports.contains(&first);
                let fits = found.is_some_and(|found| second <= found.bytes);
                if !is_granted || !fits {
                    return Err(Status::Refused);
                }
                {
                    let open = &mut self.taken.lock().transports;
                    if !open.contains(&first) {
                        open.push(first);
                    }
                }
                registers.rdi = self.map_registers(first, second, &[])?;
                Ok(())
            }
            _ => self.function(call, first, second, third, registers),
        }
    }

    /// A call about a PCI function, which must be granted and, but for opening it, open.
    fn function(
        self: &Arc<Domain>,
        call: Call,
        first: u64,
        second: u64,
        third: u64,
        registers: &mut Registers,
    ) -> Done {
        let address = u16::try_from(first).map_err(|_| Status::Invalid)?;
        if !self.grants.functions.contains(&PciAddress(address)) {
            return Err(Status::Refused);
        }
        if call == Call::PciOpen {
            pci::open(address, self.window.as_deref())?;
            // Those of who had it before, whom nobody is to take for this one.
            judge_all();
            {
                let mut owners = OWNERS.lock();
                owners.retain(|(function, _)| *function != address);
                owners.push((address, Arc::downgrade(self)));
            }
            self.taken.lock().functions.push(address);
            return Ok(());
        }
        if !self.taken.lock().functions.contains(&address) {
            return Err(Status::Refused);
        }
        match call {
            Call::PciClose => {
                self.taken.lock().functions.retain(|&open| open != address);
                pci::close(address);
            }
            Call::PciRead => {
                registers.rdi =
                    u64::from(pci::read_part(&pci::Ports, address, second as u16, third as u8));
            }
            Call::PciBar => {
                let function = pci::find(address)?;
                let (base, bytes) = function.bar(second as u8)?;
                // Where and which interrupts go is the nucleus's to say.
                let messages = pci::msix_areas(&pci::Ports, &function);
                registers.rdi = self.map_registers(base, bytes, &messages)?;
                registers.rsi = bytes;
            }
            Call::PciMsix => {
                let interrupt = device::bind_msix(address, second as u16)?;
                registers.rdi = self.grant(Capability::Interrupt(Arc::new(interrupt)))?;
            }
            Call::PciMsixEntries => {
                registers.rdi = u64::from(pci::msix_entries(&pci::Ports, address))
            }
            _ => return Err(Status::Unknown),
        }
        Ok(())
    }

    fn interrupt(&self, call: Call, registers: &mut Registers) -> Done {
        if call == Call::InterruptOpen {
            let line = u32::try_from(registers.rdi).map_err(|_| Status::Invalid)?;
            let mut all = device::transports().into_iter();
            let is_transport =
                all.any(|one| one.interrupt == line && self.grants.transports.contains(&one.base));
            if !is_transport && !self.grants.lines.contains(&line) {
                return Err(Status::Refused);
            }
            let interrupt = device::take_line(line, is_transport)?;
            registers.rdi = self.grant(Capability::Interrupt(Arc::new(interrupt)))?;
            return Ok(());
        }
        let Capability::Interrupt(interrupt) = self.held(registers.rdi)? else {
            return Err(Status::Refused);
        };
        match call {
            Call::InterruptWait => match interrupt.wait(until(registers.rsi).deadline_ns, true) {
                sync::Outcome::Signalled => Ok(()),
                sync::Outcome::TimedOut => Err(Status::TimedOut),
                sync::Outcome::Kicked => Err(Status::Cancelled),
            },
            Call::InterruptAcknowledge => {
                interrupt.acknowledge();
                Ok(())
            }
            _ => {
                interrupt.wake();
                Ok(())
            }
        }
    }

    fn port(&self, call: Call, registers: &mut Registers) -> Done {
        let first = u16::try_from(registers.rdi).map_err(|_| Status::Invalid)?;
        let (second, value) = (registers.rsi, registers.rdx);
        let holds = |&(start, length): &(u16, u16), bytes: u64| {
            start <= first && u64::from(first) + bytes <= u64::from(start) + u64::from(length)
        };
        match call {
            Call::PortsOpen => {
                if !self.grants.ports.iter().any(|range| holds(range, second)) || second == 0 {
                    return Err(Status::Refused);
                }
                device::take_ports(first, second as u16)?;
                self.taken.lock().ports.push((first, second as u16));
                Ok(())
            }
            Call::PortsClose => {
                let mut taken = self.taken.lock();
                let range = (first, second as u16);
                let at = taken.ports.iter().position(|&open| open == range);
                taken.ports.swap_remove(at.ok_or(Status::Refused)?);
                device::close_ports(range.0, range.1);
                Ok(())
            }
            _ => {
                let is_width = matches!(second, 1 | 2 | 4);
                let is_open = self.taken.lock().ports.iter().any(|range| holds(range, second));
                if !is_width || !is_open {
                    return Err(Status::Refused);
                }
                let word = match registers.r10 {
                    0 => None,
                    at => Some(Pinned::new(self, at, 8)?),
                };
                if call == Call::PortRead {
                    registers.rdi = u64::from(device::read_port(first, second as u8));
                } else {
                    device::write_port(first, second as u8, value as u32);
                    registers.rdi = value & 0xffff_ffff;
                }
                if let Some(word) = word {
                    word.store(registers.r8 << 32 | registers.rdi);
                }
                Ok(())
            }
        }
    }
}
