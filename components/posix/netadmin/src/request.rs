//! Types shared by the handlers of netlink requests: the asking program, the world that it asks about, and the result.
use crate::{audit::AuditControl, base::ExplainedErrno, wire::Quote};
use alloc::vec::Vec;
use interfaces::sockets::NetworkAdministration;

/// A socket of AF_UNIX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalRecord {
    /// Type (`SOCK_*`).
    pub kind: u8,
    /// State, with the numbers of TCP: 1 with a peer, 7 without, 10 listening.
    pub state: u8,
    /// Inode.
    pub inode: u32,
    /// Name: a path, or a zero and an abstract name; empty for none.
    pub name: Vec<u8>,
    /// Inode and device of the node that bears the name.
    pub node: Option<(u32, u32)>,
    /// Inode of the peer; zero for one that is gone.
    pub peer: Option<u32>,
    /// Inodes of the peers of connections that wait.
    pub waiting: Vec<u32>,
    /// Bytes that wait to be read; of a listener, connections that wait.
    pub receive_queue: u32,
    /// Bytes under way; of a listener, the limit of connections that wait.
    pub send_queue: u32,
    /// Limits of both queues, in bytes.
    pub limits: (u32, u32),
    /// Directions that were shut down: 1 for reception, 2 for sending.
    pub shut: u8,
    /// User id of the owner.
    pub user: u32,
}

bitflags::bitflags! {
    /// The state of a socket of AF_PACKET (`PDI_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PacketFlags: u32 {
        /// It sees frames.
        const RUNNING = 1;
        /// PACKET_AUXDATA.
        const AUXDATA = 2;
        /// PACKET_ORIGDEV.
        const ORIGINAL = 4;
        /// PACKET_LOSS.
        const LOSS = 16;
    }
}

/// A membership of a socket of AF_PACKET (`struct packet_diag_mclist`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketMembership {
    /// Number of the interface.
    pub interface: u32,
    /// The number of times that it was added.
    pub count: u32,
    /// Type (`PACKET_MR_*`).
    pub kind: u16,
    /// Bytes of the address.
    pub length: u16,
    /// The address.
    pub address: [u8; 6],
}

/// A socket of AF_PACKET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketRecord {
    /// Type (`SOCK_*`).
    pub kind: u8,
    /// EtherType; zero for none.
    pub protocol: u16,
    /// Number of the interface; zero for all.
    pub interface: u32,
    /// State.
    pub flags: PacketFlags,
    /// Inode.
    pub inode: u32,
    /// User id of the owner.
    pub user: u32,
    /// Format of rings (PACKET_VERSION).
    pub version: u32,
    /// Bytes that the program keeps of each frame of a ring (PACKET_RESERVE).
    pub reserved: u32,
    /// PACKET_COPY_THRESH.
    pub copy_threshold: u32,
    /// PACKET_TIMESTAMP.
    pub timestamp: u32,
    /// Memberships of interfaces.
    pub memberships: Vec<PacketMembership>,
    /// The rings to receive and to send: bytes and number of blocks, bytes and number of frames, milliseconds until a block is handed
    /// over, private bytes of a block, features (`struct packet_diag_ring`).
    pub rings: [Option<[u32; 7]>; 2],
    /// Identifier and type of its fan-out.
    pub fanout: Option<u32>,
    /// Memory of frames that wait, in bytes.
    pub charged: u32,
    /// Limits of memory for reception and for sending, in bytes.
    pub limits: (u32, u32),
    /// Frames that were lost.
    pub dropped: u32,
    /// The instructions of the filter.
    pub filter: Vec<u64>,
}

/// The program that asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The port of its socket.
    pub port: u32,
    /// It may change the network (CAP_NET_ADMIN).
    pub may_administer: bool,
    /// It wants its requests checked strictly (`NETLINK_GET_STRICT_CHK`).
    pub is_strict: bool,
    /// The part of failed requests that it wants back.
    pub quote: Quote,
    /// It wants texts of errors (`NETLINK_EXT_ACK`).
    pub wants_texts: bool,
    /// User id.
    pub user: u32,
}

/// The world that requests are about.
pub trait NetlinkWorld {
    /// Returns the network; `None` if there is none.
    fn network(&self) -> Option<&dyn NetworkAdministration>;
    /// Returns the sockets of AF_UNIX.
    fn local_sockets(&self) -> Vec<LocalRecord>;
    /// Returns the sockets of AF_PACKET.
    fn packet_sockets(&self) -> Vec<PacketRecord>;
    /// Returns audit; `None` if there is none.
    fn audit(&self) -> Option<&dyn AuditControl> {
        None
    }
}

/// The result of one message.
pub(crate) enum NetlinkOutcome {
    /// It was done. These are the answers; an acknowledgement follows if one was asked for.
    Done(Vec<Vec<u8>>),
    /// The messages of a dump, with which a filter was applied or not.
    Dump(Vec<Vec<u8>>),
    /// It was done. The acknowledgement comes first, then these datagrams.
    Followed(Vec<Vec<u8>>),
    /// A dump that ended by an error.
    Failed(ExplainedErrno),
}
