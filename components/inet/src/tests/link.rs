//! A link between hosts, or between a host and a test that writes frames.
use super::sockets::Ears;
use crate::*;
use std::{collections::VecDeque, net::IpAddr};

/// A second.
pub const S: u64 = 1_000_000_000;
/// The card of each host.
pub const CARD: InterfaceIndex = InterfaceIndex(2);

/// The world around a host: frames that it sent, packets of protocols that the stack does not have.
#[derive(Default)]
pub struct World {
    pub sent: VecDeque<Vec<u8>>,
    /// Work that was left to the card, for each of these frames.
    pub left: VecDeque<Option<TransportOffload>>,
    pub delivered: Vec<(IpAddr, u8, Vec<u8>)>,
    /// Errors about packets of other protocols: protocol, destination, error.
    pub errors: Vec<(u8, IpAddr, SocketError)>,
    /// Protocols that somebody knows.
    pub known: Vec<u8>,
}

impl Surroundings<SharedBytes> for World {
    fn transmit(&mut self, interface: InterfaceIndex, packet: Departure<SharedBytes>) {
        assert_eq!(interface, CARD);
        self.left.push_back(packet.offload);
        self.sent.push_back([packet.headers.as_slice(), &packet.payload.to_vec()].concat());
    }
    fn deliver(&mut self, delivery: &Delivery<'_, SharedBytes>) -> Claim {
        let bytes = delivery.payload.to_chain().unwrap().to_vec();
        self.delivered.push((delivery.source, delivery.protocol, bytes));
        if self.known.contains(&delivery.protocol) { Claim::Taken } else { Claim::Unknown }
    }
    fn hear_error(&mut self, quoted: &Quoted<'_, SharedBytes>, error: &RemoteError) -> Claim {
        self.errors.push((quoted.protocol, quoted.destination, error.error));
        if self.known.contains(&quoted.protocol) { Claim::Taken } else { Claim::Unknown }
    }
}

/// A host.
pub struct Station {
    pub stack: Stack<SharedBytes>,
    pub worker: Worker<SharedBytes>,
    pub world: World,
    pub now_ns: u64,
    pub mac: [u8; 6],
    pub ears: Ears,
}

impl Station {
    /// Makes a host whose card has the address 02:00:00:00:00:`number`, and the given addresses.
    pub fn new(number: u8, addresses: &[(&str, u8)]) -> Station {
        let stack = Stack::new([number; 16]);
        let mac = [2, 0, 0, 0, 0, number];
        let mut card = Interface::ethernet(CARD, "eth0", mac, 1500);
        card.flags |= InterfaceFlags::UP | InterfaceFlags::RUNNING;
        card.addresses = addresses
            .iter()
            .map(|(text, length)| InterfaceAddress::new(ip(text), *length).unwrap())
            .collect();
        stack.configure(|all| all.add_interface(card)).unwrap();
        let (worker, ears) = (stack.worker(), Ears::new(&stack));
        Station { stack, worker, world: World::default(), now_ns: S, mac, ears }
    }
    /// Does `work` in a run.
    pub fn run<T>(
        &mut self,
        work: impl FnOnce(&Stack<SharedBytes>, &mut StackRun<'_, SharedBytes>) -> T,
    ) -> T {
        let stack = &self.stack;
        stack.run(&mut self.worker, &mut self.world, self.now_ns, |run| work(stack, run))
    }
    /// Gives a frame whose first `head` bytes are contiguous.
    pub fn receive_split(&mut self, frame: &[u8], head: usize) {
        let body = BufferChain::copy_of(frame).unwrap();
        self.run(|stack, run| {
            let head = &frame[..head.min(frame.len())];
            stack.input(run, CARD, &Arrival::new(head, &body, 0).unwrap());
        });
    }
    /// Gives a frame.
    pub fn receive(&mut self, frame: &[u8]) {
        self.receive_split(frame, HEAD_MIN);
    }
    /// Waits until `now_ns`, and does on the way what time demands.
    pub fn wait_until(&mut self, now_ns: u64) {
        while self.now_ns < now_ns {
            let next = self.run(|stack, run| stack.poll(run));
            self.now_ns = next.clamp(self.now_ns + 1, now_ns);
        }
        self.run(|stack, run| stack.poll(run));
    }
    /// Takes the frames that the host sent.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        self.world.left.clear();
        self.world.sent.drain(..).collect()
    }
    /// Adds the default route through `gateway`.
    pub fn add_gateway(&mut self, gateway: &str) {
        let gateway = ip(gateway);
        let all = Prefix::all(Family::of(gateway));
        let route = Route::through(gateway, all, CARD);
        self.stack.configure(|config| config.routes.add(TableId::MAIN, route)).unwrap();
    }
}

/// Brings frames between two hosts until both are silent. Returns the number of frames.
pub fn exchange(one: &mut Station, other: &mut Station) -> usize {
    let mut count = 0;
    loop {
        let (there, back) = (one.sent(), other.sent());
        if there.is_empty() && back.is_empty() {
            return count;
        }
        count += there.len() + back.len();
        assert!(count < 10_000, "the hosts do not fall silent");
        there.iter().for_each(|frame| other.receive(frame));
        back.iter().for_each(|frame| one.receive(frame));
    }
}

/// Parses an address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
