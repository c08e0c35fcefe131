//! The table of sockets, as `/proc/net/packet` and sock_diag(7) tell it.
use super::{KeptMembership, PacketSocket, fanout, receive::option_bit};
use crate::socket::interface::Socket;
use alloc::{
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::sockets::LinkMembership;
use netadmin::{
    diag::{PacketFlags, PacketMembership, PacketRecord},
    tables,
};
use rt::{lock_class, sync::Mutex};
use vfs::security::{self, SecuritySubject};

lock_class! {
    static SOCKETS = "packet.sockets";
}

/// All sockets, in the order in which they were made.
static ALL: Mutex<Vec<Weak<PacketSocket>>> = Mutex::new(&SOCKETS, Vec::new());

/// Adds a socket to the table.
pub(super) fn add(socket: &Arc<PacketSocket>) {
    ALL.lock().push(Arc::downgrade(socket));
}

/// Takes a socket from the table.
pub(super) fn remove(socket: &PacketSocket) {
    let own = core::ptr::from_ref(socket);
    let removed = {
        let mut all = ALL.lock();
        let place = all.iter().position(|one| core::ptr::eq(one.as_ptr(), own));
        place.map(|place| all.remove(place))
    };
    drop(removed);
}

/// Returns all sockets.
pub fn records(subject: &SecuritySubject) -> Vec<PacketRecord> {
    let all: Vec<Arc<PacketSocket>> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    let sees = |socket: &&Arc<PacketSocket>| security::sees_socket(subject, socket.label);
    all.iter().filter(sees).map(|socket| describe(socket)).collect()
}

/// Returns the content of `/proc/net/packet`.
pub fn table(subject: &SecuritySubject) -> String {
    tables::packet_sockets(&records(subject))
}

fn membership(one: &KeptMembership) -> PacketMembership {
    let address = match one.membership {
        LinkMembership::Address(address) => address,
        LinkMembership::Promiscuous | LinkMembership::AllGroups => [0; 6],
    };
    PacketMembership {
        interface: one.interface,
        count: one.count,
        kind: one.kind,
        length: one.length,
        address,
    }
}

fn describe(socket: &PacketSocket) -> PacketRecord {
    let control = socket.control.lock();
    let is_running = fanout::running(&control).is_some();
    let mut flags = PacketFlags::empty();
    flags.set(PacketFlags::RUNNING, is_running);
    flags.set(PacketFlags::AUXDATA, socket.receiver.is_on(option_bit::AUXDATA));
    flags.set(PacketFlags::ORIGINAL, socket.receiver.is_on(option_bit::ORIGINAL));
    flags.set(PacketFlags::LOSS, socket.receiver.is_on(option_bit::LOSS));
    let (charged, dropped) = socket.receiver.usage();
    let filter = socket.common.filter.get();
    PacketRecord {
        kind: socket.common.kind() as u8,
        protocol: control.protocol,
        interface: control.interface,
        flags,
        inode: socket.common.number() as u32,
        user: socket.user,
        version: control.version as u32,
        reserved: control.reserved,
        copy_threshold: socket.receiver.copy_threshold(),
        timestamp: control.timestamp,
        memberships: control.memberships.iter().map(membership).collect(),
        rings: [
            socket.receiver.state.lock().ring.as_ref().map(|ring| ring.described()),
            control.transmit.as_ref().map(|ring| ring.described()),
        ],
        fanout: control.fanout.as_ref().map(|place| place.value() & 0x00ff_ffff),
        charged: charged as u32,
        limits: (socket.receive_buffer() as u32, socket.send_buffer() as u32),
        dropped,
        filter: filter.map_or_else(Vec::new, |program| program.words().to_vec()),
    }
}
