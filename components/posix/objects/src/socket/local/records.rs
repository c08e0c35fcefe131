//! The table of sockets as sock_diag(7) tells it.
use super::{ALL_SOCKETS, Address, LocalSocket, SocketLink};
use crate::socket::interface::{Shut, Socket};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::monitor::ObjectAccess;
use netadmin::diag::LocalRecord;
use vfs::security::{self, SecuritySubject};

/// States, with the numbers of TCP.
const CONNECTED: u8 = 1;
const UNCONNECTED: u8 = 7;
const LISTENS: u8 = 10;

/// Returns all sockets.
pub fn records(subject: &SecuritySubject) -> Vec<LocalRecord> {
    let all: Vec<Arc<LocalSocket>> =
        ALL_SOCKETS.lock().values().filter_map(Weak::upgrade).collect();
    let sees = |socket: &&Arc<LocalSocket>| {
        security::check(subject, socket.label(), ObjectAccess::Read).is_ok()
    };
    all.iter().filter(sees).filter_map(|socket| describe(socket)).collect()
}

/// Returns the inode of the peer; zero for one that is gone.
fn peer_of(peer: &Weak<LocalSocket>) -> u32 {
    peer.upgrade().map_or(0, |peer| peer.common.number() as u32)
}

fn describe(socket: &LocalSocket) -> Option<LocalRecord> {
    let mut record = LocalRecord {
        kind: socket.common.kind() as u8,
        state: UNCONNECTED,
        inode: socket.common.number() as u32,
        limits: (socket.receive_buffer() as u32, socket.budget.limit() as u32),
        user: socket.budget.user_id(),
        ..LocalRecord::default()
    };
    let waiting: Vec<Arc<LocalSocket>> = {
        let state = socket.state.lock();
        if state.is_closed {
            return None;
        }
        record.name = match &state.name {
            Address::None => Vec::new(),
            Address::Abstract(name) => [&[0], &name[..]].concat(),
            Address::Path(path) => path.to_vec(),
        };
        record.shut = u8::from(state.shut.contains(Shut::RECEIVE))
            | u8::from(state.shut.contains(Shut::SEND)) << 1;
        let bytes: usize = state.inbox.iter().map(|message| message.left()).sum();
        record.receive_queue = bytes as u32;
        record.send_queue = socket.budget.used() as u32;
        match &state.link {
            SocketLink::Free => Vec::new(),
            SocketLink::To(peer, _) => {
                record.state = CONNECTED;
                record.peer = Some(peer_of(peer));
                Vec::new()
            }
            SocketLink::Listening { limit, waiting } => {
                record.state = LISTENS;
                record.receive_queue = waiting.len() as u32;
                record.send_queue = *limit as u32;
                waiting.iter().cloned().collect()
            }
        }
    };
    for made in waiting {
        if let SocketLink::To(peer, _) = &made.state.lock().link {
            record.waiting.push(peer_of(peer));
        }
    }
    Some(record)
}
