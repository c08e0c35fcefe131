//! [`StackImage`]: the state that is kept, as a value.
use crate::{
    ip::output::neighbour_times,
    service::inet::Inet,
    tables::{
        configuration::{ChangeError, Configuration},
        interface::{Interface, InterfaceIndex},
        neighbours::NeighbourState,
        routes::{Route, TableId},
        rules::Rules,
    },
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::marshal::{self, Marshal};
use packet::MacAddress;

/// The form of images. A successor of another form begins without a predecessor.
const FORM: u32 = 0x696e_0003;

/// A neighbour whose address on the link is known.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub(super) struct KeptNeighbour {
    interface: InterfaceIndex,
    address: IpAddr,
    mac: MacAddress,
    /// A user set it, for good.
    is_permanent: bool,
}

/// The state that is kept.
#[derive(Marshal)]
pub(super) struct StackImage {
    form: u32,
    pub(super) secret: [u8; 32],
    ports: (u16, u16),
    /// Those of [`EchoSettings`](crate::tables::echo::EchoSettings).
    echo: (bool, bool),
    parameters: Vec<i64>,
    interfaces: Vec<Interface>,
    routes: Vec<(TableId, Route)>,
    rules: Rules,
    neighbours: Vec<KeptNeighbour>,
}

impl StackImage {
    /// Returns the state of a stack.
    pub(super) fn of(inet: &Inet, secret: [u8; 32]) -> StackImage {
        let stack = inet.stack();
        let configuration = stack.view().configuration;
        let neighbours = stack.neighbours.lock();
        let known = neighbours.iter().filter(|(_, state, _)| *state != NeighbourState::Incomplete);
        let kept = known.map(|((interface, address), state, mac)| KeptNeighbour {
            interface,
            address,
            mac,
            is_permanent: state == NeighbourState::Permanent,
        });
        StackImage {
            form: FORM,
            secret,
            ports: stack.port_range.get(),
            echo: stack.echo.all(),
            parameters: inet.streams().parameters.all(),
            interfaces: configuration.interfaces().cloned().collect(),
            routes: configuration.routes.iter().map(|(id, route)| (id, route.clone())).collect(),
            rules: configuration.rules().clone(),
            neighbours: kept.collect(),
        }
    }
    /// Returns the state of which these are the bytes; `None` if they are of another form, or not all bytes are part of it.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<StackImage> {
        marshal::decode(bytes).filter(|image: &StackImage| image.form == FORM)
    }
    /// Gives a fresh stack the state.
    pub(super) fn restore(self, inet: &Inet) {
        let stack = inet.stack();
        let (first, last) = self.ports;
        if first != 0 && first <= last {
            stack.port_range.set(self.ports);
        }
        stack.echo.set(self.echo);
        inet.streams().parameters.set_all(&self.parameters);
        let configuration = Configuration::of(self.interfaces, self.routes, self.rules);
        let _ = stack.configure(|all| {
            *all = configuration;
            Ok::<(), ChangeError>(())
        });
        let view = stack.view();
        inet.run(|stack, run| {
            let interfaces = view.configuration.interfaces();
            interfaces.for_each(|interface| stack.resume_ipv6(run, interface));
        });
        for KeptNeighbour { interface, address, mac, is_permanent } in self.neighbours {
            let Some(of) = view.configuration.interface(interface) else { continue };
            // It is used, and asked for a sign of life at once.
            let state =
                if is_permanent { NeighbourState::Permanent } else { NeighbourState::Probe };
            let (key, times) = ((interface, address), neighbour_times(of));
            // No packet waits for it yet.
            let _ = stack.neighbours.lock().set(key, (state, mac), times, inet.now_ns());
        }
    }
}
