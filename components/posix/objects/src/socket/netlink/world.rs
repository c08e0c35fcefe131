//! The world that requests are about, `/proc/net/netlink`, and the ioctls of interfaces.
use super::{AuditCaller, NetlinkSocket, hub};
use crate::socket::{internet, local, packet};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use interfaces::sockets::NetworkAdministration;
use netadmin::{
    NetErrno,
    audit::AuditControl,
    diag::{LocalRecord, PacketRecord},
    session::NetlinkWorld,
};
use vfs::{
    Errno,
    errno::ErrorNumber,
    security::{self, SecuritySubject},
};

/// Returns the network's administration; `None` if there is no network.
pub(super) fn administration() -> Option<Arc<dyn NetworkAdministration>> {
    internet::administration()
}

/// The network and the sockets of the machine, as a subject sees them.
pub(super) struct LocalWorld<'a> {
    network: Option<Arc<dyn NetworkAdministration>>,
    subject: Arc<SecuritySubject>,
    /// Audit, for the program that asks.
    audit: AuditCaller<'a>,
}

impl<'a> LocalWorld<'a> {
    /// Returns the world that a subject sees.
    pub(super) fn of(subject: &Arc<SecuritySubject>, audit: AuditCaller<'a>) -> LocalWorld<'a> {
        let network = internet::administration_for(subject);
        LocalWorld { network, subject: subject.clone(), audit }
    }
}

impl NetlinkWorld for LocalWorld<'_> {
    fn network(&self) -> Option<&dyn NetworkAdministration> {
        self.network.as_deref()
    }
    fn local_sockets(&self) -> Vec<LocalRecord> {
        local::records(&self.subject)
    }
    fn packet_sockets(&self) -> Vec<PacketRecord> {
        packet::records(&self.subject)
    }
    fn audit(&self) -> Option<&dyn AuditControl> {
        Some(&self.audit)
    }
}

/// Returns the number that a program is told of an error of the administration.
pub fn ioctl_number(error: NetErrno) -> Errno {
    ErrorNumber::from_word(error.0.into()).map_or(Errno::EINVAL, Errno::Failed)
}

fn line(socket: &NetlinkSocket) -> String {
    let state = socket.state.lock();
    format!(
        "{:016x} {:<3} {:<10} {:08x} {:<8} {:<8} {:<5} {:<8} {:<8} {:<8}\n",
        0,
        socket.protocol as u8,
        state.port,
        state.groups as u32,
        state.queue.charged(),
        0,
        0,
        2,
        0,
        socket.common.number()
    )
}

/// Returns the content of `/proc/net/netlink`: the sockets that a subject may know of.
pub fn table(subject: &SecuritySubject) -> String {
    let mut text = String::from(
        "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n",
    );
    let all = hub::all();
    let seen = all.iter().filter(|socket| security::sees_socket(subject, socket.label));
    seen.for_each(|socket| text.push_str(&line(socket)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_administration_has_a_number_of_its_own() {
        for error in NetErrno::ALL {
            assert_eq!(ioctl_number(*error).number() as u64, u64::from(error.0), "{error:?}");
        }
    }
}
