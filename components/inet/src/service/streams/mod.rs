//! Sockets of streams: TCP.
//!
//! A segment finds its connection in [`flows`], or a listener in [`ports`], or ends in a reset ([`input`]). What a connection
//! answers goes to a packet, or straight to the connection of this host that it is for ([`output`]).
pub(crate) mod arrival;
mod by_time;
pub(crate) mod captured;
pub(crate) mod claims;
mod control;
mod direct;
pub(crate) mod ends;
mod fast_open;
mod filter;
pub(crate) mod flows;
pub(crate) mod handle;
mod header;
pub(crate) mod held;
mod input;
pub mod kept;
mod listen;
mod listening;
mod options;
mod orphans;
mod output;
pub(crate) mod parameters;
pub(crate) mod path;
pub(crate) mod ports;
pub(crate) mod records;
pub(crate) mod socket;
#[cfg(test)]
mod tests;
mod time_wait;
mod timers;
mod waiting;
mod work;

use crate::sockets::errors::Quoted;
use alloc::{sync::Arc, vec::Vec};
use arrival::SynSaving;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use fast_open::CookieCache;
use flows::{FlowOwner, Flows};
use interfaces::nic::PacketSegment;
use orphans::{ORPHANS, OrphanTable};
use parameters::StreamParameters;
use ports::TcpPorts;
use socket::TcpSocket;
use tcp::{Flow, Secret};
use timers::StreamTimers;
use waiting::WaitingTable;

/// All streams of a stack.
pub(crate) struct Streams {
    pub(crate) flows: Flows,
    pub(crate) ports: TcpPorts,
    pub(crate) timers: StreamTimers,
    pub(crate) waiting: WaitingTable,
    orphans: OrphanTable,
    pub(crate) secret: Secret,
    pub(crate) parameters: StreamParameters,
    pub(crate) cookies: CookieCache,
    numbers: AtomicU64,
    /// A listener keeps the headers of SYNs, or did so once.
    saves_syns: AtomicBool,
}

impl Streams {
    /// Returns no streams. `secret` are random bytes.
    pub(crate) fn new(secret: [u8; 16]) -> Streams {
        Streams {
            flows: Flows::new(secret),
            ports: TcpPorts::new(),
            timers: StreamTimers::new(),
            waiting: WaitingTable::new(&waiting::TABLE),
            orphans: OrphanTable::new(&ORPHANS),
            secret: Secret::new(secret),
            parameters: StreamParameters::new(),
            cookies: CookieCache::new(),
            numbers: AtomicU64::new(1),
            saves_syns: AtomicBool::new(false),
        }
    }
    /// Returns a number that was not returned before.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
    /// Returns whether the headers of SYNs are needed.
    pub(crate) fn syn_saving(&self) -> SynSaving {
        if self.saves_syns.load(Ordering::Relaxed) { SynSaving::On } else { SynSaving::Off }
    }
    /// Has the headers of SYNs kept from now on.
    pub(super) fn save_syns(&self) {
        self.saves_syns.store(true, Ordering::Relaxed);
    }
    /// Returns the first time at which the timers have something to do.
    pub(crate) fn earliest_ns(&self) -> u64 {
        let timers = self.timers.earliest_ns().min(self.orphans.earliest_ns());
        timers.min(self.waiting.earliest_ns())
    }
    /// Returns the socket that sent the segment which an error quotes, and the segment's sequence number. Only one that waits for its
    /// acknowledgement counts, so that an outsider has to guess (RFC 5927). Adds a socket to `awaited` if its backlog is to be taken
    /// afterwards.
    pub(crate) fn sender(
        &self,
        quoted: &Quoted<'_, PacketSegment>,
        awaited: &mut Vec<Arc<TcpSocket>>,
    ) -> Option<(Arc<TcpSocket>, u32)> {
        let [a, b, c, d, e, f, g, h] = *quoted.payload.head().first_chunk()?;
        let flow = Flow {
            local: ends::octets(quoted.source),
            remote: ends::octets(quoted.destination),
            local_port: u16::from_be_bytes([a, b]),
            remote_port: u16::from_be_bytes([c, d]),
            label: quoted.label,
        };
        let seq = u32::from_be_bytes([e, f, g, h]);
        let FlowOwner::Live(socket) = self.flows.find(&flow, self.flows.hash(&flow))? else {
            return None;
        };
        let (is_sender, has_backlog) = socket.look_within(|state| state.has_in_flight(&flow, seq));
        if has_backlog {
            awaited.push(Arc::clone(&socket));
        }
        is_sender.then_some((socket, seq))
    }
}
