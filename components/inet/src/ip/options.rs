//! Options of the header of IPv4: those of packets that come, and of packets that are sent.
use super::{
    path::{HeaderExtension, Path, SendError, SendRequest},
    stack::{Cast, Delivery, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        buffer::Buffer,
        packets::{Arrival, Departure, HEAD_MIN},
    },
    tables::configuration::Configuration,
};
use core::net::{IpAddr, Ipv4Addr};
use interfaces::sockets::{Ipv4OptionList, OptionSide, ReceivedOptions};
use packet::{
    icmp::IcmpMessage,
    ipv4::{HEADER_LENGTH, Ipv4},
};

const NS_A_MS: u64 = 1_000_000;
const MS_A_DAY: u64 = 24 * 60 * 60 * 1000;

/// Returns the milliseconds since midnight UTC.
fn midnight_ms() -> u32 {
    (rt::time::wall_ns() / NS_A_MS % MS_A_DAY) as u32
}

/// Returns whether an address is that of another host (`inet_addr_type`).
fn is_other_host(configuration: &Configuration, address: Ipv4Addr) -> bool {
    let is_special = address.is_multicast() || address.is_broadcast() || address.octets()[0] == 0;
    !is_special && configuration.local_kind(address.into()).is_none()
}

/// Returns the options of a received packet, after this host's were written; `None` without options.
#[inline]
pub(crate) fn options_of<B: Buffer>(delivery: &Delivery<'_, B>) -> Option<Ipv4OptionList> {
    let of_header = delivery.payload.start().saturating_sub(delivery.network.start());
    if of_header <= HEADER_LENGTH || delivery.source.is_ipv6() {
        return None;
    }
    let bytes = delivery.network.head().get(HEADER_LENGTH..of_header)?;
    Ipv4OptionList::padded(bytes)
}

/// Returns the options of a received packet as its receiver is told of them.
#[inline]
pub(crate) fn received<B: Buffer>(delivery: &Delivery<'_, B>) -> Option<ReceivedOptions> {
    let came = options_of(delivery)?;
    Some(ReceivedOptions { came, answer: answer_to(&came, delivery.source) })
}

/// Returns the options of an answer to a packet of `source` with the options `came`; `None` if they would be malformed.
pub(crate) fn answer_to(came: &Ipv4OptionList, source: IpAddr) -> Option<Ipv4OptionList> {
    match source {
        IpAddr::V4(source) => came.answer(source),
        IpAddr::V6(_) => None,
    }
}

/// Has a request go to the first host of the route that the sender chose, if it did. Returns the destination behind it.
pub(crate) fn route_by(options: &Ipv4OptionList, request: &mut SendRequest) -> IpAddr {
    let destination = request.destination;
    request.extension = HeaderExtension { bytes: options.length() as u16, first: 0, repeated: 0 };
    if let Some(route) = options.source_route() {
        request.destination = route.first.into();
    }
    destination
}

/// Checks that a path goes straight to the first host of a strict route.
///
/// # Errors
/// [`SendError::NoRoute`].
pub(crate) fn check_strict(
    options: &Ipv4OptionList,
    request: &SendRequest,
    path: &Path,
) -> Result<(), SendError> {
    let is_strict = options.source_route().is_some_and(|route| route.is_strict);
    let is_far = path.next_hop != request.destination;
    if is_strict && is_far { Err(SendError::NoRoute) } else { Ok(()) }
}

/// Returns options as a packet to `destination`, the last host of its route, has them.
pub(crate) fn written(
    configuration: &Configuration,
    options: &Ipv4OptionList,
    path: &Path,
    destination: IpAddr,
) -> Ipv4OptionList {
    match (path.source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let is_other = |address| is_other_host(configuration, address);
            options.written((source, destination), midnight_ms(), &is_other)
        }
        _ => Ipv4OptionList::EMPTY,
    }
}

impl<B: Buffer> Stack<B> {
    /// Sends a packet with options, which it does not have yet.
    ///
    /// # Errors
    /// [`SendError`].
    pub(crate) fn send_with_options(
        &self,
        run: &mut StackRun<'_, B>,
        request: &SendRequest,
        options: &Ipv4OptionList,
        mut packet: Departure<B>,
    ) -> Result<(), SendError> {
        let mut request = *request;
        let destination = route_by(options, &mut request);
        let path = self.path(run, &request)?;
        check_strict(options, &request, &path)?;
        let list = written(run.configuration, options, &path, destination);
        packet.headers.prepend(list.as_slice())?;
        self.send_on(run, &path, &request, packet)
    }
    /// Takes a packet whose header has options, and writes what they ask this host for.
    #[cold]
    pub(crate) fn input_with_options(
        &self,
        run: &mut StackRun<'_, B>,
        parsed: &Ipv4<'_>,
        delivery: &Delivery<'_, B>,
    ) {
        let side = OptionSide::Received(own_address(run, delivery), midnight_ms());
        let is_other = |address| is_other_host(run.configuration, address);
        let list = match Ipv4OptionList::checked(parsed.options, side, &is_other) {
            // Linux refuses source routes by default (`accept_source_route`).
            Ok(list) if list.source_route().is_some() => return self.dropped(DropReason::Option),
            Ok(list) => list,
            Err(fault) => {
                let problem = IcmpMessage::ParameterProblem { code: 0, pointer: fault.pointer };
                self.send_error4(run, delivery, problem);
                return self.dropped(DropReason::Option);
            }
        };
        if list.as_slice() == parsed.options {
            return self.accept4(run, parsed, delivery);
        }
        let (network, start) = (&delivery.network, HEADER_LENGTH + list.length());
        let mut bytes = [0; HEAD_MIN];
        let Some((chain, count)) = network.gather(&mut bytes) else {
            return self.dropped(DropReason::NoMemory);
        };
        let written = bytes.iter_mut().skip(HEADER_LENGTH).zip(list.as_slice());
        written.for_each(|(to, from)| *to = *from);
        let body = chain.slice(start..usize::MAX);
        let head = bytes.get(..count).unwrap_or_default();
        let (Some(arrival), Ok(parsed)) =
            (Arrival::new(head, &body, start), Ipv4::parse_quoted(head))
        else {
            return self.dropped(DropReason::Malformed);
        };
        let arrival = arrival.with_checksum(network.checksum()).with_segment(network.segment());
        let delivery =
            Delivery { payload: arrival.part(start..usize::MAX), network: arrival, ..*delivery };
        self.accept4(run, &parsed, &delivery);
    }
}

/// Returns the address by which this host is known to the sender of a packet (`fib_compute_spec_dst`).
fn own_address<B: Buffer>(run: &StackRun<'_, B>, delivery: &Delivery<'_, B>) -> Ipv4Addr {
    let interface = run.configuration.interface(delivery.origin.interface);
    let of_link = interface.and_then(|one| {
        one.addresses.iter().find_map(|one| match one.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    });
    match delivery.destination {
        IpAddr::V4(address) if delivery.cast == Cast::Unicast => address,
        _ => of_link.unwrap_or(Ipv4Addr::UNSPECIFIED),
    }
}
