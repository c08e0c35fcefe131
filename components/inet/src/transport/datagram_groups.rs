//! Groups that sockets of datagrams take part in.
use super::datagram_control::DatagramHandle;
use crate::{
    base::{address::Family, buffer::Buffer},
    ip::{
        path::SendRequest,
        stack::{Stack, StackRun},
    },
    sockets::errors::SocketError,
    tables::interface::InterfaceIndex,
};
use interfaces::sockets::Membership;
use packet::protocol;

/// Memberships of a socket in groups of IPv4, at most (`igmp_max_memberships`).
const MEMBERSHIPS_MAX4: usize = 20;
/// Memberships of a socket in groups of IPv6, at most: what `optmem_max` of Linux lets it have.
const MEMBERSHIPS_MAX6: usize = 512;

impl<B: Buffer> Stack<B> {
    /// Lets a socket take part in a group. An interface of number zero stands for that of the route.
    ///
    /// # Errors
    /// [`SocketError::Invalid`] if the address is no group; [`SocketError::NoInterface`]; [`SocketError::InUse`] if the socket takes
    /// part; [`SocketError::NoMemory`] for too many.
    pub fn datagram_join(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        membership: Membership,
    ) -> Result<(), SocketError> {
        let group = membership.group;
        let mut state = socket.state.lock();
        if !group.is_multicast() || state.is_closed {
            return Err(SocketError::Invalid);
        }
        let index = self.group_interface(run, &membership).ok_or(SocketError::NoInterface)?;
        let membership = Membership { interface: index.0, ..membership };
        if state.memberships.contains(&membership) {
            return Err(SocketError::InUse);
        }
        let family = Family::of(group);
        let most = if family == Family::V4 { MEMBERSHIPS_MAX4 } else { MEMBERSHIPS_MAX6 };
        let of_family = |one: &&Membership| Family::of(one.group) == family;
        if state.memberships.iter().filter(of_family).count() >= most {
            return Err(SocketError::NoMemory);
        }
        self.join_group(run, index, group).map_err(|_| SocketError::NoMemory)?;
        state.memberships.push(membership);
        Ok(())
    }
    /// Ends the part of a socket in a group. An interface of number zero stands for any.
    ///
    /// # Errors
    /// [`SocketError::NoAddress`] if the socket takes no part.
    pub fn datagram_leave(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        membership: Membership,
    ) -> Result<(), SocketError> {
        let mut state = socket.state.lock();
        let is_meant = |one: &Membership| {
            one.group == membership.group
                && (membership.interface == 0 || membership.interface == one.interface)
        };
        let place = state.memberships.iter().position(is_meant).ok_or(SocketError::NoAddress)?;
        let left = state.memberships.remove(place);
        // The interface may be gone, and the membership with it.
        let _ = self.leave_group(run, InterfaceIndex(left.interface), left.group);
        Ok(())
    }
    fn group_interface(
        &self,
        run: &StackRun<'_, B>,
        membership: &Membership,
    ) -> Option<InterfaceIndex> {
        if membership.interface != 0 {
            let index = InterfaceIndex(membership.interface);
            return run.configuration.interface(index).map(|one| one.index);
        }
        let request = SendRequest::new(membership.group, protocol::UDP);
        self.path(run, &request).ok().map(|path| path.interface)
    }
}
