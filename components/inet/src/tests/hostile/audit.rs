//! The limits of what packets can make the host hold (docs/network.md), and the end of all of it.
use super::life::Life;
use crate::{
    Inet,
    service::streams::{flows::FlowOwner, held::HeldPayload, socket::SocketRole},
    tables::{neighbours, reassembly},
    tests::{
        sockets::RECEIVE_MAX,
        streams::world::{CARD, RECEIVE_ROOM},
    },
};
use rt::PAGE_BYTES;

/// Connections of the host, at most: those that programs hold, that wait to be accepted, and that end without a program.
const LIVE_MAX: usize = 600;
/// Bytes of a packet of IP and its charge, by which a queue may go beyond its limit.
const PACKET_MAX: usize = 80_000;

/// Returns the frames and the number of the bytes that a connection holds out of order.
fn held(owner: &FlowOwner) -> Option<(usize, usize)> {
    let FlowOwner::Live(socket) = owner else { return None };
    let (held, _) = socket.look_within(|state| match &state.role {
        SocketRole::Live(live) => (live.held.frames(), live.held.length()),
        _ => (0, 0),
    });
    Some(held)
}

/// Checks the limits during a life.
pub fn bounds(life: &Life, lent: usize) {
    let inet = &life.pair.hosts[1].inet;
    let (streams, stack) = (inet.streams(), inet.stack());
    let mut live = 0;
    for (_, owner) in streams.flows.all() {
        let Some((frames, length)) = held(&owner) else { continue };
        live += 1;
        assert!(length <= RECEIVE_ROOM, "{length} bytes out of order");
        let most = HeldPayload::pieces_max(length);
        assert!(frames <= most, "{frames} frames for {length} bytes out of order");
    }
    assert!(live <= LIVE_MAX, "{live} connections");
    assert!(streams.timers.count() <= LIVE_MAX, "{} timers", streams.timers.count());
    for server in &life.programs.servers {
        assert!(server.waiting() <= 33, "{} wait for accept", server.waiting());
    }
    for (_, queue) in &life.programs.datagrams {
        assert!(queue.usage().0 <= RECEIVE_MAX + PACKET_MAX, "{:?}", queue.usage());
    }
    assert!(stack.neighbours().len() <= neighbours::ENTRIES_MAX);
    assert!(stack.reassembly.lock().memory() <= reassembly::MEMORY_MAX);
    let view = stack.view();
    assert!(view.configuration.routes.iter().count() < 200);
    assert!(view.configuration.interface(CARD).is_some_and(|card| card.addresses.len() <= 24));
    let stream = 2 * RECEIVE_ROOM + HeldPayload::pieces_max(0) * PAGE_BYTES;
    let sockets =
        (live + 1) * stream + life.programs.datagrams.len() * (2 * RECEIVE_MAX + 4 * PACKET_MAX);
    let limit = (sockets + reassembly::MEMORY_MAX).div_ceil(PAGE_BYTES);
    assert!(lent <= limit, "{lent} buffers are lent, of {limit} at most");
}

/// Checks that a host whose programs have ended has nothing left of connections and packets.
pub fn nothing_left(inet: &Inet, counts: (usize, usize, usize)) {
    assert_eq!(counts, (0, 0, 0), "connections, claims on ports and timers are left");
    assert_eq!(inet.streams().waiting.count(), 0, "TIME-WAIT is left");
    assert_eq!(inet.stack().reassembly.lock().memory(), 0, "fragments are left");
    assert!(!inet.taps().are_watching(), "a tap is left");
    let view = inet.stack().view();
    let card = view.configuration.interface(CARD).unwrap();
    assert!(card.wanted == Default::default(), "{:?}", card.wanted);
}
