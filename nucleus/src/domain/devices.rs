//! Kernel calls about devices: ports, interrupts, PCI functions, virtio-mmio transports.
//!
//! A device must be granted to the domain and, for all calls but opening, be open.
use super::{Domain, End, PortAccess, calls::Done, run::Pinned};
use crate::{
    arch::{
        iommu::{self, Fault},
        pci,
    },
    capability::Capability,
    device::{self, DeviceError, MmioDevice},
    irq::Interrupt,
    memory::PAGE,
    spin::SpinLock,
    thread::{self, Policy},
    trace,
};
use ::calls::{Call, PORT_LIST_MAX, PortStep, Status, do_port_list};
use alloc::{
    boxed::Box,
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{ops::Range, sync::atomic::Ordering::Relaxed};
use program::{PciAddress, Registers};
use x86::port::{self, INSTRUCTION_MAX, Machine};

/// The last opener of each function.
static OWNERS: SpinLock<Vec<(u16, Weak<Domain>)>> =
    SpinLock::new(class!("nucleus.domain.owners"), Vec::new());

/// Starts the thread that ends a domain whose device accesses memory that was not lent to it, if an IOMMU reports
/// that.
pub fn watch_faults() {
    const PRIORITY: u8 = 98;
    let Some(interrupt) = iommu::fault_interrupt() else { return };
    let watch = move || loop {
        judge_all();
        interrupt.wait(None, thread::Sleep::Uninterruptible);
    };
    let started = thread::spawn("iommu", Policy::RoundRobin(PRIORITY), Box::new(Box::new(watch)));
    started.expect("no memory for a thread at boot");
}

/// Handles every recorded fault.
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
    /// Maps `bytes` bytes of registers at physical address `base`, without pages that contain a part of `hidden`.
    /// Returns their address, which stays the same for a second request.
    fn map_registers(&self, base: u64, bytes: u64, hidden: &[Range<u64>]) -> Result<u64, Status> {
        const BYTES: u64 = PAGE as u64;
        if let Some(&(_, at)) = self.taken.lock().registers.iter().find(|known| known.0 == base) {
            return Ok(at);
        }
        let offset = base % BYTES;
        let pages = usize::try_from((offset + bytes).div_ceil(BYTES)).unwrap_or(usize::MAX);
        let start = self.room(pages);
        for page in (0..pages as u64).map(|page| page * BYTES) {
            let at = base - offset + page;
            if !hidden.iter().any(|range| range.start < at + BYTES && at < range.end) {
                self.space.map_device(start + page, at, 1)?;
            }
        }
        self.taken.lock().registers.push((base, start + offset));
        Ok(start + offset)
    }

    /// Returns a handle for the interrupt that `open` opens, if the domain may have one more.
    fn grant_interrupt(
        &self,
        open: impl FnOnce() -> Result<Interrupt, DeviceError>,
    ) -> Result<u64, Status> {
        let held = self.vectors.hold(1).ok_or(Status::Refused)?;
        let interrupt = open()?.held_as(held);
        Ok(self.grant(Capability::Interrupt(Arc::new(interrupt)))?)
    }

    /// Returns the transport at `base`, if it is granted.
    fn transport(&self, base: u64) -> Option<MmioDevice> {
        let is_granted = self.grants.transports.contains(&base);
        device::transports().into_iter().find(|one| is_granted && one.base == base)
    }

    pub(super) fn device(self: &Arc<Domain>, call: Call, registers: &mut Registers) -> Done {
        let (first, second) = (registers.rdi, registers.rsi);
        match call {
            Call::PortsOpen
            | Call::PortsClose
            | Call::PortRead
            | Call::PortWrite
            | Call::PortList => return self.port(call, registers),
            Call::InterruptOpen
            | Call::InterruptAcknowledge
            | Call::InterruptWake
            | Call::InterruptBind => return self.interrupt_call(call, registers),
            Call::PciFunction => {
                let address = *self.grants.functions.get(first as usize).ok_or(Status::NotFound)?;
                let found = pci::find(address.0)?;
                registers.rdi = u64::from(address.0)
                    | u64::from(found.id) << 16
                    | u64::from(found.subsystem >> 16) << 48;
                registers.rsi = u64::from(found.class);
            }
            Call::Transport => {
                let base = *self.grants.transports.get(first as usize).ok_or(Status::NotFound)?;
                let found = self.transport(base).ok_or(Status::NotFound)?;
                (registers.rdi, registers.rsi, registers.rdx) =
                    (found.base, found.bytes, u64::from(found.interrupt));
            }
            Call::TransportOpen => {
                let found = self.transport(first).filter(|found| second <= found.bytes);
                let MmioDevice { base, bytes, .. } = found.ok_or(Status::Refused)?;
                let mut taken = self.taken.lock();
                if !taken.transports.contains(&base) {
                    taken.transports.push(base);
                }
                drop(taken);
                registers.rdi = self.map_registers(base, bytes, &[])?;
            }
            _ => return self.function(call, registers),
        }
        Ok(())
    }

    /// Does a call about a PCI function, which must be granted and, for all calls but opening, be open.
    fn function(self: &Arc<Domain>, call: Call, registers: &mut Registers) -> Done {
        let (second, third) = (registers.rsi, registers.rdx);
        let address = u16::try_from(registers.rdi).map_err(|_| Status::Invalid)?;
        if !self.grants.functions.contains(&PciAddress(address)) {
            return Err(Status::Refused);
        }
        if call == Call::PciOpen {
            pci::open(address, self.lending.window.as_deref())?;
            // Faults of the previous owner are handled first, so that they are not taken for those of the new one.
            judge_all();
            let mut owners = OWNERS.lock();
            owners.retain(|(function, _)| *function != address);
            owners.push((address, Arc::downgrade(self)));
            drop(owners);
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
                // The nucleus chooses destinations and numbers of interrupts, so these pages are not mapped.
                let messages = pci::msix_areas(&pci::Ports, &function);
                registers.rdi = self.map_registers(base, bytes, &messages)?;
                registers.rsi = bytes;
            }
            Call::PciMsix => {
                let bind = || device::bind_msix(address, second as u16);
                registers.rdi = self.grant_interrupt(bind)?;
            }
            Call::PciMsixEntries => {
                registers.rdi = u64::from(pci::msix_entries(&pci::Ports, address))
            }
            _ => return Err(Status::Unknown),
        }
        Ok(())
    }

    fn interrupt_call(&self, call: Call, registers: &mut Registers) -> Done {
        if call == Call::InterruptOpen {
            let line = u32::try_from(registers.rdi).map_err(|_| Status::Invalid)?;
            let mut all = device::transports().into_iter();
            let is_transport =
                all.any(|one| one.interrupt == line && self.grants.transports.contains(&one.base));
            if !is_transport && !self.grants.lines.contains(&line) {
                return Err(Status::Refused);
            }
            registers.rdi = self.grant_interrupt(|| device::take_line(line))?;
            return Ok(());
        }
        let interrupt = self.interrupt(registers.rdi)?;
        match call {
            Call::InterruptAcknowledge => interrupt.acknowledge(),
            Call::InterruptBind => {
                interrupt.bind_to(&self.endpoint(registers.rsi)?, registers.rdx)?;
            }
            _ => interrupt.wake(),
        }
        Ok(())
    }

    fn port(&self, call: Call, registers: &mut Registers) -> Done {
        let (first, second) = (registers.rdi, registers.rsi);
        if call == Call::PortList {
            return self.port_list(first, second);
        }
        let first = u16::try_from(first).map_err(|_| Status::Invalid)?;
        match call {
            Call::PortsOpen => {
                let count = u16::try_from(second).map_err(|_| Status::Refused)?;
                let is_inside = |&range: &(u16, u16)| device::holds(range, (first, count));
                if !self.grants.ports.iter().any(is_inside) || count == 0 {
                    return Err(Status::Refused);
                }
                device::take_ports(first, count)?;
                // This comes before any other thread can close them.
                self.space.show_ports(first, count);
                self.taken.lock().ports.add((first, count));
                registers.rdi = u64::from(self.grants.port_access != PortAccess::Call);
            }
            Call::PortsClose => {
                let range = (first, second as u16);
                if !self.taken.lock().ports.remove(range) {
                    return Err(Status::Refused);
                }
                self.space.hide_ports(range.0, range.1);
                device::close_ports(range.0, range.1);
            }
            _ => {
                let (is_write, value) = (call == Call::PortWrite, registers.rdx as u32);
                let width = u8::try_from(second).map_err(|_| Status::Refused)?;
                let step = PortStep { port: first, width, is_write, value };
                if !self.has_ports([step].into_iter()) {
                    return Err(Status::Refused);
                }
                let word = match registers.r10 {
                    0 => None,
                    at => Some(Pinned::new(self, at, 8)?),
                };
                registers.rdi = u64::from(access(step));
                if let Some(word) = word {
                    word.store(registers.r8 << 32 | registers.rdi);
                }
            }
        }
        Ok(())
    }

    /// Returns whether the ports of all `steps` are open, and their widths valid.
    fn has_ports(&self, mut steps: impl Iterator<Item = PortStep>) -> bool {
        let taken = self.taken.lock();
        steps.all(|PortStep { port, width, .. }| {
            matches!(width, 1 | 2 | 4) && taken.ports.has((port, width.into()))
        })
    }

    fn port_list(&self, at: u64, count: u64) -> Done {
        let mut list = [[0; 8]; PORT_LIST_MAX];
        let list = list.get_mut(..count as usize).ok_or(Status::Invalid)?;
        self.space.read(at, list.as_flattened_mut())?;
        if !self.has_ports(list.iter().map(|&packed| PortStep::unpack(packed))) {
            return Err(Status::Refused);
        }
        do_port_list(list, access);
        Ok(self.space.write(at, list.as_flattened())?)
    }

    /// Emulates the instruction at `registers` that the processor refused, if it accesses open ports. Counted as a
    /// call.
    pub(super) fn carry_out(&self, registers: &mut Registers) -> bool {
        self.calls.fetch_add(1, Relaxed);
        let mut code = [0; INSTRUCTION_MAX];
        // Bytes that cannot be read stay zero, which decodes to no port instruction.
        let _ = self.space.read(registers.rip, &mut code);
        port::carry_out(registers, &code, &mut { self })
    }
}

/// Accesses an open port. Returns the value read or written.
fn access(PortStep { port, width, is_write, value }: PortStep) -> u32 {
    if is_write {
        device::write_port(port, width, value);
        return value;
    }
    device::read_port(port, width)
}

impl Machine for &Domain {
    fn has(&self, step: PortStep) -> bool {
        self.has_ports([step].into_iter())
    }
    fn access(&mut self, step: PortStep) -> u32 {
        access(step)
    }
    fn load(&mut self, address: u64, to: &mut [u8]) -> bool {
        self.space.read(address, to).is_ok()
    }
    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        self.space.write(address, from).is_ok()
    }
}
