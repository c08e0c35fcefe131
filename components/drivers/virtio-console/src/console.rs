//! A console device: negotiation, control messages, and its thread.
//!
//! Without the MULTIPORT feature there is one port, a console, and no control queues. With it the device announces its ports
//! one by one. All ports' queues are set up in advance (queues cannot be added later); a port's buffers are allocated when it
//! is announced.
use crate::{
    control::{ControlQueues, DeviceMessage, MESSAGE_BYTES, Tell},
    ledger::{BUFFERS, Ledger, PortLedger},
    port::{BUFFER_BYTES, ConsolePort},
    slots::BufferSlots,
};
use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use interfaces::terminal::Port;
use rt::{
    device::DmaBuffer,
    lock_class,
    sync::{Event, Mutex},
    system,
    thread::{self, Policy},
    time::{self, Instant},
};
use virtio::{Candidate, Device, Error, Queue, QueuePlan, Vector, candidates, kind};

lock_class! {
    static PORTS = "virtio-console.ports";
    static CONTROL = "virtio-console.control";
    static CONVERSATION = "virtio-console.conversation";
    static UNUSED = "virtio-console.unused";
}

const F_SIZE: u64 = 1 << 0;
const F_MULTIPORT: u64 = 1 << 1;

/// Offsets in the configuration space.
mod config {
    pub(super) const COLUMNS: usize = 0;
    pub(super) const PORTS_MAX: usize = 4;
}

/// The greatest number of ports used of one device.
const PORTS_MAX: u32 = 32;
const QUEUE_SIZE: u16 = 16;
/// Entries of the control queues. QEMU drops messages for which there is no buffer, and sends up to four messages for a port.
const CONTROL_BUFFERS: u16 = 32;
const NS_PER_MS: u64 = 1_000_000;
const DRIVER_NICE: i8 = -10;

/// Number of consoles found so far in the whole system, for `hvc` numbers.
static CONSOLES: AtomicUsize = AtomicUsize::new(0);

/// The times of silence after which a device's announcement of ports counts as complete. The system description sets both for
/// an isolated driver, and the command line for any.
struct SilenceLimits {
    /// Silence after which a device to which no request was sent meanwhile counts as having announced all its ports, and all
    /// it has to say of them; `virtio-console.silence_ms`.
    silence_ns: u64,
    /// Silence after which, once every port is identified, ports that are not open yet are not waited for;
    /// `virtio-console.settled_ms`.
    settled_ns: u64,
}

impl SilenceLimits {
    fn of_system() -> SilenceLimits {
        SilenceLimits {
            silence_ns: ms("virtio-console.silence_ms", 200),
            settled_ns: ms("virtio-console.settled_ms", 2),
        }
    }
}

/// Returns the value of the parameter `name`, given in milliseconds, in nanoseconds; `default_ms` if it is missing or not a
/// number.
fn ms(name: &str, default_ms: u64) -> u64 {
    let given = system::parameter(name).and_then(|text| text.parse().ok());
    given.unwrap_or(default_ms).saturating_mul(NS_PER_MS)
}

type QueuePair = (Queue<u16>, Queue<u16>);

/// A console device.
pub struct Console {
    device: Device,
    vector: Arc<Vector>,
    control: Option<Mutex<ControlQueues>>,
    /// The ledger, if the driver can have a successor.
    ledger: Option<Ledger>,
    /// Queues of ports that are not announced yet: input, output.
    unused: Mutex<BTreeMap<u32, QueuePair>>,
    ports: Mutex<BTreeMap<u32, Arc<ConsolePort>>>,
    /// Held by the thread that handles control messages, so that each is handled before the next; no other lock is held then.
    conversation: Mutex<()>,
    /// Signalled at every control message.
    news: Event,
    is_stopping: AtomicBool,
}

/// Opens every console device, starts its thread and waits until its ports are announced. It waits as long as the device has
/// not taken the messages it was sent; only the driver's supervisor knows how long that may take. A device that cannot be
/// used is named in the log and left out. The first device has the memory that outlives the driver.
pub fn probe() -> Vec<Arc<Console>> {
    let mut consoles = Vec::new();
    let mut kept = rt::device::kept();
    for candidate in candidates(kind::CONSOLE) {
        match Console::open(candidate, kept.take()) {
            Ok(console) => consoles.push(console),
            Err(error) => log::error!("virtio-console: {candidate:?}: {error:?}"),
        }
    }
    consoles.iter().for_each(|console| console.wait_ports(None));
    consoles
}

/// Returns the queue numbers of a port: input, output (section 5.3.2).
fn port_queues(port: u32) -> (u16, u16) {
    // Queues 2 and 3 are those of the control messages.
    let first = match port {
        0 => 0,
        _ => 2 + 2 * port as u16,
    };
    (first, first + 1)
}

impl Console {
    /// Opens a device and starts its thread. An earlier driver, if there was one, left its ports in `kept`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(candidate: Candidate, kept: Option<DmaBuffer>) -> Result<Arc<Console>, Error> {
        let device = Device::open(candidate, F_SIZE | F_MULTIPORT)?;
        let is_multiport = device.has(F_MULTIPORT);
        let vector = device.vectors(1)?.pop().ok_or(Error::NotModern)?;
        let queue = |index, memory| {
            device.queue_in(QueuePlan { index, size: QUEUE_SIZE, indirect: 0, vector: 0 }, memory)
        };
        let count = if is_multiport {
            u32::from_le_bytes(device.config(config::PORTS_MAX)).clamp(1, PORTS_MAX)
        } else {
            1
        };
        let ledger = kept.and_then(|kept| {
            let ledger = Ledger::open(&kept, count);
            if ledger.is_none() {
                log::warn!("virtio-console: {} bytes are too few for {count} ports", kept.bytes());
            }
            ledger
        });
        let mut unused = BTreeMap::new();
        for number in 0..count {
            let (input, output) = port_queues(number);
            let port = ledger.as_ref().and_then(|ledger| ledger.port(number));
            let memory = |part: fn(&PortLedger) -> Option<DmaBuffer>| port.as_ref().and_then(part);
            let input = queue(input, memory(PortLedger::input_queue))?;
            let output = queue(output, memory(PortLedger::output_queue))?;
            if let Some(port) = &port {
                port.begin(input.size(), output.size());
            }
            unused.insert(number, (input, output));
        }
        if let Some(ledger) = &ledger {
            ledger.go_live();
        }
        let control = if is_multiport {
            let control = |index| {
                let (size, indirect, vector) = (CONTROL_BUFFERS, 0, 0);
                let queue = device.queue(QueuePlan { index, size, indirect, vector })?;
                BufferSlots::new(queue, CONTROL_BUFFERS, MESSAGE_BYTES)
            };
            let (input, output) = (control(2)?, control(3)?);
            Some(Mutex::new(&CONTROL, ControlQueues::new(input, output)))
        } else {
            None
        };
        let console = Arc::new(Console {
            device,
            vector: Arc::new(vector),
            control,
            ledger,
            unused: Mutex::new(&UNUSED, unused),
            ports: Mutex::new(&PORTS, BTreeMap::new()),
            conversation: Mutex::new(&CONVERSATION, ()),
            news: Event::new(),
            is_stopping: AtomicBool::new(false),
        });
        console.start()?;
        Ok(console)
    }

    fn start(self: &Arc<Console>) -> Result<(), Error> {
        self.device.start();
        match &self.control {
            Some(control) => {
                let mut control = control.lock();
                control.input.offer_all();
                control.tell(Tell::DRIVER_READY);
                control.pump()?;
            }
            None => {
                self.add_port(0)?;
                self.make_console(0);
                self.read_window();
            }
        }
        let console = self.clone();
        let policy = Policy::Fair { nice: DRIVER_NICE };
        let spawned = thread::spawn("virtio-console", policy, move || console.serve());
        spawned.map(|_| ()).map_err(|refused| Error::Device(refused.into()))
    }

    /// Returns the ports announced so far, in the order of their numbers.
    pub fn ports(&self) -> Vec<Arc<ConsolePort>> {
        self.ports.lock().values().cloned().collect()
    }

    /// Returns the port of that name, if it was announced.
    pub fn port(&self, name: &str) -> Option<Arc<ConsolePort>> {
        self.ports().into_iter().find(|port| port.name() == name)
    }

    /// Waits for the port of that name; `None` after `deadline`.
    pub fn wait_port(&self, name: &str, deadline: Instant) -> Option<Arc<ConsolePort>> {
        loop {
            let ticket = self.news.ticket();
            if let Some(port) = self.port(name) {
                return Some(port);
            }
            if self.news.wait(ticket, Some(deadline)) == thread::Woken::TimedOut {
                return self.port(name);
            }
        }
    }

    /// Blocks until every announced port is identified and open (or no more messages come), at most until `deadline`. A
    /// device announces its ports in one go, so all are announced once one port's own question is answered.
    pub fn wait_ports(&self, deadline: Option<Instant>) {
        let limits = SilenceLimits::of_system();
        loop {
            let ticket = self.news.ticket();
            let is_settled = self.is_settled();
            if is_settled && self.ports().iter().all(|port| port.is_connected()) {
                return;
            }
            let is_heard = self.is_heard();
            let silence_ns = if is_settled { limits.settled_ns } else { limits.silence_ns };
            let until = time::now().after_ns(silence_ns);
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            if self.news.wait(ticket, Some(until)) != thread::Woken::TimedOut {
                continue;
            }
            // Messages of the device may be unread yet, because its interrupt can be late.
            if self.converse() == Ok(true) {
                continue;
            }
            if is_settled || is_heard || deadline.is_some_and(|at| at <= time::now()) {
                return;
            }
        }
    }

    /// Returns whether all ports of an earlier driver are announced and all announced ports are settled.
    fn is_settled(&self) -> bool {
        let ports = self.ports();
        let announced = self.ledger.as_ref().map(Ledger::announced).into_iter().flatten();
        let is_there = |number| ports.iter().any(|port| port.number() == number);
        !ports.is_empty()
            && announced.into_iter().all(is_there)
            && ports.iter().all(|port| port.is_settled())
    }

    /// Returns whether the device has taken all messages, or takes none any more.
    fn is_heard(&self) -> bool {
        let heard = self.control.as_ref().map(|control| control.lock().is_heard());
        heard.is_none_or(|heard| heard.unwrap_or(true))
    }

    /// Handles messages of the device. Returns whether there were any.
    fn converse(&self) -> Result<bool, Error> {
        let Some(control) = &self.control else { return Ok(false) };
        let _conversation = self.conversation.lock();
        let mut has_any = false;
        loop {
            control.lock().pump()?;
            let Some((port, told)) = control.lock().receive()? else { return Ok(has_any) };
            self.obey(port, told)?;
            self.news.signal();
            has_any = true;
        }
    }

    /// Ends the thread and resets the device.
    pub fn stop(&self) {
        self.is_stopping.store(true, Release);
        self.vector.wake();
    }

    fn serve(&self) {
        let mut scratch = vec![0; BUFFER_BYTES];
        while !self.is_stopping.load(Acquire) {
            if let Err(error) = self.service(&mut scratch) {
                log::error!("virtio-console: {error:?}; the device is given up");
                break;
            }
            if self.vector.wait(None) == thread::Woken::Signalled && self.control.is_none() {
                self.read_window();
            }
        }
        self.device.reset();
        self.ports().iter().for_each(|port| port.kill());
        for port in self.ports() {
            // This cannot fail on a dead port; its sink is told of the end.
            let _ = port.service(&mut scratch);
        }
        self.news.signal();
    }

    fn service(&self, scratch: &mut [u8]) -> Result<(), Error> {
        self.converse()?;
        self.ports().iter().try_for_each(|port| port.service(scratch))
    }

    fn obey(&self, number: u32, told: DeviceMessage) -> Result<(), Error> {
        if told == DeviceMessage::Add {
            return self.add_port(number);
        }
        let port = self.ports.lock().get(&number).cloned();
        let Some(port) = port else { return Ok(()) };
        match told {
            DeviceMessage::Add => {}
            DeviceMessage::Remove => port.set_open(false),
            DeviceMessage::IsConsole => self.make_console(number),
            DeviceMessage::Resize { rows, columns } => port.set_window(rows, columns),
            DeviceMessage::Open(is_open) => port.set_open(is_open),
            DeviceMessage::Name(name) => port.set_name(name),
        }
        Ok(())
    }

    fn add_port(&self, number: u32) -> Result<(), Error> {
        let queues = self.unused.lock().remove(&number);
        let Some((input, output)) = queues else {
            log::warn!("virtio-console: port {number} announced twice or beyond the last");
            return Ok(());
        };
        let ledger = self.ledger.as_ref().and_then(|ledger| ledger.port(number));
        let buffers = ledger
            .as_ref()
            .and_then(|ledger| Some((ledger.input_buffers()?, ledger.output_buffers()?)));
        let (input, output) = match (buffers, &ledger) {
            (Some((inward, outward)), Some(ledger)) => {
                let output =
                    BufferSlots::within(output, outward, BUFFER_BYTES).marked(ledger.clone());
                (BufferSlots::within(input, inward, BUFFER_BYTES), output)
            }
            _ => {
                let input = BufferSlots::new(input, BUFFERS, BUFFER_BYTES)?;
                (input, BufferSlots::new(output, BUFFERS, BUFFER_BYTES)?)
            }
        };
        let port = ConsolePort::new(number, input, output, self.vector.clone(), ledger);
        self.ports.lock().insert(number, Arc::new(port));
        if let Some(control) = &self.control {
            let mut control = control.lock();
            control.tell(Tell::port_ready(number));
            control.tell(Tell::port_open(number));
        }
        Ok(())
    }

    fn make_console(&self, number: u32) {
        let port = self.ports.lock().get(&number).cloned();
        if let Some(port) = port
            && !port.is_console()
        {
            port.set_console(CONSOLES.fetch_add(1, Relaxed));
        }
    }

    /// Reads the window from the configuration, where it is if there are no control messages.
    fn read_window(&self) {
        if !self.device.has(F_SIZE) {
            return;
        }
        let [c0, c1, r0, r1] = self.device.config(config::COLUMNS);
        let (columns, rows) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([r0, r1]));
        if let Some(port) = self.ports.lock().get(&0) {
            port.set_window(rows, columns);
        }
    }
}

impl core::fmt::Debug for Console {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Console").field("device", &self.device).finish_non_exhaustive()
    }
}
