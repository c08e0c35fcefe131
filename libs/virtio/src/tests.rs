//! Tests of queues and transports against the model, honest and hostile.
use crate::{
    Buffer, BufferAccess, Candidate, Device, Error, Queue, QueuePlan, Used, feature,
    model::{Behaviour, Model},
};
use rt::{device::DmaBuffer, thread::Woken};
use std::sync::Arc;

/// A behaviour that leaves everything to the test.
struct Passive;
impl Behaviour for Passive {
    fn notified(&self, _model: &Model, _queue: u16) {}
}

fn model(features: u64) -> Arc<Model> {
    Model::new(2, features, vec![1, 2, 3, 4, 5, 6, 7, 8], (2, 8), Box::new(Passive))
}

fn plan(indirect: u16) -> QueuePlan {
    QueuePlan { index: 1, size: 64, indirect, vector: 0 }
}

/// A device on its own page of registers, with one queue.
struct Rig {
    model: Arc<Model>,
    device: Device,
    queue: Queue<&'static str>,
    memory: DmaBuffer,
    _plugged: rt::host::Plugged,
}

fn rig(features: u64, indirect: u16, base: u64) -> Rig {
    let model = model(features);
    let (mmio, plugged) = model.plug_mmio(base, base as u32);
    let device = Device::open(Candidate::Mmio(mmio), 0).unwrap();
    let queue = device.queue(plan(indirect)).unwrap();
    device.start();
    let memory = DmaBuffer::allocate(4096).unwrap();
    Rig { model, device, queue, memory, _plugged: plugged }
}

impl Rig {
    fn buffer(&self, offset: u64, bytes: u32, access: BufferAccess) -> Buffer {
        Buffer { address: self.memory.device_address() + offset, bytes, access }
    }
    /// Returns a request of two pieces with an answer of eight bytes.
    fn pieces(&self) -> [Buffer; 3] {
        [
            self.buffer(0, 2, BufferAccess::Read),
            self.buffer(16, 3, BufferAccess::Read),
            self.buffer(32, 8, BufferAccess::Write),
        ]
    }
}

fn round_trips(features: u64, indirect: u16, base: u64) {
    let mut rig = rig(features, indirect, base);
    rig.memory.write(0, b"ab");
    rig.memory.write(16, b"cde");
    for turn in 0..100_000_u32 {
        rig.queue.add(&rig.pieces(), "ours").unwrap();
        rig.queue.publish();
        let chain = rig.model.pop(1).unwrap();
        assert_eq!(chain.read(), b"abcde");
        assert_eq!(chain.write(0, &turn.to_le_bytes()), 4);
        assert_eq!(rig.queue.take(), Ok(None));
        rig.model.push(1, &chain, 4);
        assert_eq!(rig.queue.take(), Ok(Some(Used { payload: "ours", written: 4 })));
        let mut answer = [0; 4];
        rig.memory.read(32, &mut answer);
        assert_eq!(answer, turn.to_le_bytes());
    }
    assert_eq!(rig.queue.in_flight(), 0);
}

#[test]
fn chains_go_round_past_the_wrap_of_the_index() {
    round_trips(0, 0, 0x1000);
}

#[test]
fn indirect_chains_with_event_index_go_round() {
    round_trips(feature::INDIRECT | feature::EVENT_INDEX, 4, 0x2000);
}

#[test]
fn an_indirect_chain_takes_one_descriptor_and_a_direct_one_as_many_as_buffers() {
    for (features, indirect, base, fits) in
        [(feature::INDIRECT, 4, 0x3000, 8), (0, 4, 0x4000, 2), (feature::INDIRECT, 2, 0x5000, 2)]
    {
        let mut rig = rig(features, indirect, base);
        for _ in 0..fits {
            rig.queue.add(&rig.pieces(), "").unwrap();
        }
        assert!(!rig.queue.has_room(3));
        assert_eq!(rig.queue.add(&rig.pieces(), "back"), Err("back"));
        rig.queue.publish();
        let chain = rig.model.pop(1).unwrap();
        rig.model.push(1, &chain, 0);
        rig.queue.take().unwrap().unwrap();
        rig.queue.add(&rig.pieces(), "").unwrap();
    }
}

#[test]
fn chains_longer_than_the_queue_are_refused() {
    let mut rig = rig(feature::INDIRECT, 64, 0x6000);
    let buffers = vec![rig.buffer(0, 1, BufferAccess::Read); 9];
    assert_eq!(rig.queue.chain_max(), 8);
    assert_eq!(rig.queue.add(&buffers, "long"), Err("long"));
    assert_eq!(rig.queue.add(&[], "none"), Err("none"));
}

#[test]
fn chains_end_in_any_order() {
    let mut rig = rig(feature::INDIRECT, 4, 0x7000);
    for payload in ["first", "second", "third"] {
        rig.queue.add(&rig.pieces(), payload).unwrap();
    }
    rig.queue.publish();
    let chains: Vec<_> = std::iter::from_fn(|| rig.model.pop(1)).collect();
    chains.iter().rev().for_each(|chain| rig.model.push(1, chain, 0));
    let order: Vec<_> = std::iter::from_fn(|| rig.queue.take().unwrap()).collect();
    let order: Vec<_> = order.iter().map(|used| used.payload).collect();
    assert_eq!(order, ["third", "second", "first"]);
}

#[test]
fn more_used_than_in_flight_is_corrupt() {
    let mut rig = rig(0, 0, 0x8000);
    rig.queue.add(&rig.pieces(), "").unwrap();
    rig.queue.publish();
    rig.model.skip_used(1, 2);
    assert!(matches!(rig.queue.take(), Err(Error::Corrupt(_))));
    rig.model.skip_used(1, u16::MAX);
    rig.model.skip_used(1, u16::MAX - 5);
    assert!(matches!(rig.queue.take(), Err(Error::Corrupt(_))));
    assert_eq!(rig.queue.abandon(), [""]);
    assert_eq!(rig.queue.add(&rig.pieces(), "late"), Err("late"));
}

#[test]
fn a_head_that_is_not_in_flight_is_corrupt() {
    for (head, base) in [(1, 0x9000), (7, 0xa000), (8, 0xb000), (u32::MAX, 0xc000), (65536, 0xd000)]
    {
        let mut rig = rig(feature::INDIRECT, 4, base);
        rig.queue.add(&rig.pieces(), "").unwrap();
        rig.queue.publish();
        rig.model.tamper(1, head, 0);
        assert!(matches!(rig.queue.take(), Err(Error::Corrupt(_))), "head {head}");
    }
}

#[test]
fn a_chain_used_twice_is_corrupt() {
    let mut rig = rig(feature::INDIRECT, 4, 0xe000);
    rig.queue.add(&rig.pieces(), "one").unwrap();
    rig.queue.add(&rig.pieces(), "two").unwrap();
    rig.queue.publish();
    let chain = rig.model.pop(1).unwrap();
    rig.model.push(1, &chain, 0);
    rig.model.push(1, &chain, 0);
    assert_eq!(rig.queue.take().unwrap().unwrap().payload, "one");
    assert!(matches!(rig.queue.take(), Err(Error::Corrupt(_))));
}

#[test]
fn a_written_length_beyond_the_chain_is_cut() {
    let mut rig = rig(0, 0, 0xf000);
    rig.queue.add(&rig.pieces(), "").unwrap();
    rig.queue.publish();
    let chain = rig.model.pop(1).unwrap();
    rig.model.push(1, &chain, u32::MAX);
    assert_eq!(rig.queue.take().unwrap().unwrap().written, 8);
}

#[test]
fn the_device_interrupts_only_where_the_driver_armed() {
    let mut rig = rig(feature::EVENT_INDEX, 0, 0x1_0000);
    let vector = rig.device.vectors(1).unwrap().pop().unwrap();
    let soon = || Some(rt::time::now().after_ns(1_000_000));
    let mut use_one = |arm: bool| {
        rig.queue.add(&[rig.memory_buffer()], "").unwrap();
        rig.queue.publish();
        if arm {
            assert!(!rig.queue.arm());
        }
        let chain = rig.model.pop(1).unwrap();
        rig.model.push(1, &chain, 0);
        rig.queue.take().unwrap().unwrap();
        vector.wait(soon())
    };
    assert_eq!(use_one(true), Woken::Signalled);
    assert_eq!(use_one(false), Woken::TimedOut);
    assert_eq!(use_one(true), Woken::Signalled);
}

#[test]
fn the_device_interrupts_after_as_many_chains_as_the_driver_asked_for() {
    let mut rig = rig(feature::EVENT_INDEX, 0, 0x1_3000);
    for round in 0..3 {
        assert!(!rig.queue.arm_after(3));
        for number in 1..=3 {
            rig.queue.add(&[rig.memory_buffer()], "").unwrap();
            rig.queue.publish();
            let chain = rig.model.pop(1).unwrap();
            rig.model.push(1, &chain, 0);
            assert_eq!(rig.model.interrupts(), round + number / 3);
            assert_eq!((rig.queue.ready(), rig.queue.arm_after(3)), (number as u16, number == 3));
        }
        while rig.queue.take().unwrap().is_some() {}
    }
}

impl Rig {
    fn memory_buffer(&self) -> Buffer {
        self.buffer(0, 8, BufferAccess::Write)
    }
}

#[test]
fn a_device_on_pci_is_found_opened_and_read() {
    let model = model(feature::INDIRECT);
    let (function, _plugged) = model.plug_pci(0x18, 3);
    assert!(crate::candidates(2).contains(&Candidate::Pci(function)));
    let device = Device::open(Candidate::Pci(function), 1 << 5).unwrap();
    assert!(Device::open(Candidate::Pci(function), 0).is_err());
    assert!(device.has(feature::INDIRECT | feature::VERSION_1));
    assert!(!device.has(1 << 5));
    assert_eq!(device.config::<4>(2), [3, 4, 5, 6]);
    assert_eq!(device.vectors(8).unwrap().len(), 3);
    let mut queue = device.queue::<u32>(plan(4)).unwrap();
    assert_eq!(queue.size(), 8);
    let missing = device.queue::<u32>(QueuePlan { index: 2, ..plan(4) });
    assert!(matches!(missing, Err(Error::NoQueue)));
    device.start();
    assert!(model.is_running());
    let memory = DmaBuffer::allocate(64).unwrap();
    let buffer = Buffer { address: memory.device_address(), bytes: 5, access: BufferAccess::Read };
    queue.add(&[buffer], 7).unwrap();
    queue.publish();
    assert_eq!(model.pop(1).unwrap().read().len(), 5);
    drop(device);
    assert!(!model.is_running());
}

#[test]
fn a_legacy_only_device_is_refused() {
    let model = Model::new(2, 0, Vec::new(), (1, 8), Box::new(Passive));
    let (mmio, _plugged) = model.plug_mmio(0x1_1000, 0x1_1000);
    assert!(Device::open(Candidate::Mmio(mmio), 0).is_ok());
    // A device whose capabilities point nowhere is not a modern device.
    struct Empty;
    impl rt::host::DeviceRegisters for Empty {
        fn read(&self, _offset: usize, _bytes: usize) -> u64 {
            u64::MAX
        }
        fn write(&self, _offset: usize, _bytes: usize, _value: u64) {}
    }
    let function = rt::device::PciFunction {
        address: rt::device::PciAddress(0x20),
        vendor: 0x1af4,
        device: 0x1042,
        class: 0,
        subsystem: 0,
    };
    let _plugged = rt::host::add_pci(rt::host::PciModel {
        function,
        config: Arc::new(Empty),
        bars: [const { None }; 6],
        msix_entries: 0,
    });
    let opened = Device::open(Candidate::Pci(function), 0);
    assert!(matches!(opened, Err(Error::NotModern)));
}

/// A fixed sequence of numbers that look random (xorshift).
struct Dice(u64);
impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Runs a queue beside a device that writes random nonsense. Returns the payloads that came back.
fn live_with_liar(dice: &mut Dice, rig: &mut Rig, queue: &mut Queue<u32>) -> Vec<u32> {
    let mut back = Vec::new();
    for payload in 0..200 {
        let buffers = rig.pieces();
        let count = 1 + dice.roll(3) as usize;
        let _ = queue.add(&buffers[..count], payload);
        queue.publish();
        match dice.roll(8) {
            0 => rig.model.tamper(1, dice.roll(12) as u32, dice.roll(1 << 32) as u32),
            1 => rig.model.skip_used(1, dice.roll(1 << 16) as u16),
            2..6 => {
                if let Some(chain) = rig.model.pop(1) {
                    rig.model.push(1, &chain, dice.roll(20) as u32);
                }
            }
            _ => {}
        }
        loop {
            match queue.take() {
                Ok(Some(used)) => {
                    assert!(used.written <= 8);
                    back.push(used.payload);
                }
                Ok(None) => break,
                Err(_) => {
                    rig.device.reset();
                    back.extend(queue.abandon());
                    return back;
                }
            }
        }
    }
    rig.device.reset();
    back.extend(queue.abandon());
    back
}

#[test]
fn whatever_a_device_tells_each_payload_comes_back_at_most_once() {
    let mut dice = Dice(0x5eed);
    for round in 0..500 {
        let features = if round % 2 == 0 { feature::INDIRECT } else { feature::EVENT_INDEX };
        let mut rig = rig(features, 4, 0x20_0000);
        // The rig's own queue is replaced by one whose payloads are numbers.
        rig.device.reset();
        let mut queue = rig.device.queue::<u32>(plan(4)).unwrap();
        let back = live_with_liar(&mut dice, &mut rig, &mut queue);
        let mut unique = back.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), back.len());
    }
}
