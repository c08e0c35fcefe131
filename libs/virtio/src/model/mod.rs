//! A model of a virtio device in the host world, for host tests of drivers.
//!
//! [`Model`] holds features, configuration and queues; [`Model::plug_mmio`] and [`Model::plug_pci`]
//! put it into the machine. Its [`Behaviour`] decides what it does: it is called on the driver's
//! thread at each notification and may keep chains for later. [`Model::tamper`] lets a test write
//! values that an honest device would not.
mod mmio;
mod pci;
mod queue;

use queue::QueueRegisters;
pub use queue::{Chain, ModelQueue};
use rt::{
    device::{MmioDevice, PciAddress},
    host,
};
use std::{
    boxed::Box,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    vec::Vec,
};

/// The behaviour of a device.
pub trait Behaviour: Send + Sync {
    /// Called when the driver notified queue `queue`.
    fn notified(&self, model: &Model, queue: u16);
    /// Called when the driver reset the device.
    fn reset(&self) {}
}

#[derive(Clone, Copy, Debug)]
enum ModelPlace {
    Mmio(u32),
    Pci(PciAddress),
}

struct ModelState {
    status: u8,
    driver_features: u64,
    feature_select: [u32; 2],
    queue_select: u16,
    interrupt_status: u32,
    /// Interrupts for chains that were given back.
    interrupts: usize,
    queues: Vec<ModelQueue>,
    registers: Vec<QueueRegisters>,
}

/// The model of a device.
pub struct Model {
    kind: u32,
    features: u64,
    config: Mutex<Vec<u8>>,
    place: Mutex<Option<ModelPlace>>,
    state: Mutex<ModelState>,
    behaviour: Box<dyn Behaviour>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model {
    /// Makes a device of type `kind` with `queues` queues of up to `queue_size` entries.
    pub fn new(
        kind: u32,
        features: u64,
        config: Vec<u8>,
        (queues, queue_size): (u16, u16),
        behaviour: Box<dyn Behaviour>,
    ) -> Arc<Model> {
        let state = ModelState {
            status: 0,
            driver_features: 0,
            feature_select: [0; 2],
            queue_select: 0,
            interrupt_status: 0,
            interrupts: 0,
            queues: (0..queues).map(|_| ModelQueue::default()).collect(),
            registers: (0..queues).map(|_| QueueRegisters::new(queue_size)).collect(),
        };
        Arc::new(Model {
            kind,
            features: features | crate::feature::VERSION_1,
            config: Mutex::new(config),
            place: Mutex::new(None),
            state: Mutex::new(state),
            behaviour,
        })
    }

    /// Puts the device on a page of registers at `base`.
    pub fn plug_mmio(self: &Arc<Model>, base: u64, interrupt: u32) -> (MmioDevice, host::Plugged) {
        *lock(&self.place) = Some(ModelPlace::Mmio(interrupt));
        let device = MmioDevice { base, bytes: 0x200, interrupt };
        (device, host::add_mmio(device, Arc::new(mmio::MmioRegisters(self.clone()))))
    }

    /// Puts the device on PCI, with `vectors` interrupts.
    pub fn plug_pci(
        self: &Arc<Model>,
        address: u16,
        vectors: u16,
    ) -> (rt::device::PciFunction, host::Plugged) {
        *lock(&self.place) = Some(ModelPlace::Pci(PciAddress(address)));
        pci::plug(self, PciAddress(address), vectors)
    }

    /// Returns the features that the driver accepted.
    pub fn driver_features(&self) -> u64 {
        lock(&self.state).driver_features
    }

    /// Returns whether the driver has said that it is ready.
    pub fn is_running(&self) -> bool {
        lock(&self.state).status & 4 != 0
    }

    /// Changes the device's configuration.
    pub fn set_config(&self, offset: usize, bytes: &[u8]) {
        if let Some(part) = lock(&self.config).get_mut(offset..offset + bytes.len()) {
            part.copy_from_slice(bytes);
        }
    }

    /// Takes the next chain that the driver put into `queue`.
    pub fn pop(&self, queue: u16) -> Option<Chain> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let index = usize::from(queue);
        state.queues.get_mut(index)?.pop(state.registers.get(index)?)
    }

    /// Returns the number of interrupts for chains that were given back.
    pub fn interrupts(&self) -> usize {
        lock(&self.state).interrupts
    }

    /// Returns the number of chains in `queue` that were not taken.
    pub fn waiting(&self, queue: u16) -> u16 {
        let state = lock(&self.state);
        let index = usize::from(queue);
        let parts = state.queues.get(index).zip(state.registers.get(index));
        parts.map_or(0, |(ring, registers)| ring.waiting(registers))
    }

    /// Gives a chain back with `written` bytes, and interrupts if the driver wants it.
    pub fn push(&self, queue: u16, chain: &Chain, written: u32) {
        self.tamper(queue, chain.head().into(), written);
    }

    /// Writes a used entry, true or not, and interrupts if the driver wants it.
    pub fn tamper(&self, queue: u16, head: u32, written: u32) {
        let vector = {
            let mut state = lock(&self.state);
            let state = &mut *state;
            let index = usize::from(queue);
            let (Some(ring), Some(registers)) =
                (state.queues.get_mut(index), state.registers.get(index))
            else {
                return;
            };
            // A reset device writes to no memory.
            if !registers.is_enabled {
                return;
            }
            let has_event_index = state.driver_features & crate::feature::EVENT_INDEX != 0;
            let is_wanted = ring.push(registers, head, written) || !has_event_index;
            state.interrupt_status |= 1;
            state.interrupts += usize::from(is_wanted);
            is_wanted.then_some(registers.vector)
        };
        if let Some(vector) = vector {
            self.interrupt(vector);
        }
    }

    /// Moves a queue's used index by `by` although nothing was used.
    pub fn skip_used(&self, queue: u16, by: u16) {
        let vector = {
            let state = lock(&self.state);
            let Some(registers) = state.registers.get(usize::from(queue)) else { return };
            if !registers.is_enabled {
                return;
            }
            let index = host::device_load16(registers.device + 2);
            host::device_store16(registers.device + 2, index.wrapping_add(by));
            registers.vector
        };
        self.interrupt(vector);
    }

    /// Changes the device's configuration and interrupts for it.
    pub fn change_config(&self, offset: usize, bytes: &[u8]) {
        self.set_config(offset, bytes);
        lock(&self.state).interrupt_status |= 2;
        self.interrupt(0);
    }

    /// Raises the interrupt of `vector`.
    pub fn interrupt(&self, vector: u16) {
        match *lock(&self.place) {
            Some(ModelPlace::Mmio(line)) => host::raise_line(line),
            Some(ModelPlace::Pci(address)) => host::raise_msix(address, vector),
            None => {}
        }
    }

    fn read_config(&self, offset: usize, bytes: usize) -> u64 {
        let config = lock(&self.config);
        let byte = |index: usize| u64::from(config.get(offset + index).copied().unwrap_or(0));
        (0..bytes).map(|index| byte(index) << (index * 8)).sum()
    }

    fn set_status(&self, status: u8) {
        {
            let mut state = lock(&self.state);
            state.status = status;
            if status != 0 {
                return;
            }
            state.interrupt_status = 0;
            state.driver_features = 0;
            state.queues.iter_mut().for_each(|queue| *queue = ModelQueue::default());
            state.registers.iter_mut().for_each(QueueRegisters::reset);
        }
        self.behaviour.reset();
    }

    fn with_selected<R>(&self, visit: impl FnOnce(&mut QueueRegisters) -> R) -> Option<R> {
        let mut state = lock(&self.state);
        let selected = usize::from(state.queue_select);
        state.registers.get_mut(selected).map(visit)
    }
}
