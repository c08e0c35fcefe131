//! Announcements: an interface tells the link of its addresses, because the machine was moved to another place of the network.
//! Source: RFC 5227 section 3, RFC 4861 section 7.2.6; Linux `inetdev_send_gratuitous_arp`, `ndisc_send_unsol_na`.
use super::stack::{Stack, StackRun};
use crate::{
    base::buffer::Buffer,
    tables::{
        configuration::resolves,
        interface::{InterfaceAddress, InterfaceIndex},
    },
};
use core::net::IpAddr;
use packet::{
    arp::ArpPacket,
    ethernet,
    ipv6::ALL_NODES,
    ndp::{NdpMessage, NdpOption, NeighbourFlags},
};

impl<B: Buffer> Stack<B> {
    /// Tells the link of an interface of all addresses that are in use, once.
    pub fn announce(&self, run: &mut StackRun<'_, B>, index: InterfaceIndex) {
        let Some(interface) = self.up(run, index).filter(|one| resolves(one)) else { return };
        for one in interface.addresses.iter().filter(|one| InterfaceAddress::is_usable(one)) {
            match one.address {
                IpAddr::V4(own) => {
                    let request = ArpPacket::request(interface.mac, own, own);
                    self.send_arp(run, interface, ethernet::BROADCAST, &request);
                }
                IpAddr::V6(target) => {
                    let flags = NeighbourFlags::OVERRIDE;
                    let message = NdpMessage::NeighbourAdvertisement { flags, target };
                    let option = NdpOption::TargetLink(interface.mac);
                    self.send_ndp(run, interface, (target, ALL_NODES), &message, &[option]);
                }
            }
        }
    }
}
