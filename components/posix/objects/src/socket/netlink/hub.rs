//! The ports of all sockets, and the groups' messages.
use super::{NetlinkSocket, Parcel, world};
use alloc::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::sockets::{AdministrationObserver, NetworkNotice};
use labels::SecrecyId;
use netadmin::{policy, route, session::NetlinkProtocol};
use rt::{
    lock_class,
    sync::{Mutex, Once},
};

lock_class! {
    static PORTS = "netlink.ports";
}

/// The first port of those that are chosen when that of the process is taken; they count down, as negative numbers.
const FIRST_CHOICE: u32 = (-4096i32) as u32;

type Ports = BTreeMap<(NetlinkProtocol, u32), Weak<NetlinkSocket>>;

static ALL: Mutex<Ports> = Mutex::new(&PORTS, BTreeMap::new());
static LISTENS: Once<()> = Once::new();

/// Takes a port for a socket: `wanted`, or that of its process, or another one. Returns `None` if it is taken.
pub(super) fn take(
    protocol: NetlinkProtocol,
    wanted: u32,
    process: u32,
    socket: &Weak<NetlinkSocket>,
) -> Option<u32> {
    let mut all = ALL.lock();
    let is_free = |all: &Ports, port| !all.contains_key(&(protocol, port));
    let port = match wanted {
        0 if is_free(&all, process) => process,
        0 => (0..FIRST_CHOICE / 2)
            .map(|step| FIRST_CHOICE.wrapping_sub(step))
            .find(|port| is_free(&all, *port))?,
        wanted if is_free(&all, wanted) => wanted,
        _ => return None,
    };
    all.insert((protocol, port), socket.clone());
    Some(port)
}

/// Gives a port back.
pub(super) fn release(protocol: NetlinkProtocol, port: u32) {
    let dropped = ALL.lock().remove(&(protocol, port));
    drop(dropped);
}

/// Returns the socket of a port.
pub(super) fn find(protocol: NetlinkProtocol, port: u32) -> Option<Arc<NetlinkSocket>> {
    ALL.lock().get(&(protocol, port)).and_then(Weak::upgrade)
}

/// Returns all sockets that have a port.
pub(super) fn all() -> Vec<Arc<NetlinkSocket>> {
    ALL.lock().values().filter_map(Weak::upgrade).collect()
}

/// Returns whether a socket listens to a group.
pub(super) fn hears(protocol: NetlinkProtocol, group: u32) -> bool {
    all().iter().any(|socket| socket.protocol == protocol && socket.hears(group))
}

/// Sends a message to all that listen to its group, but to the port `sender`; a program's to those of its secrecy alone.
pub(super) fn broadcast(
    protocol: NetlinkProtocol,
    parcel: &Parcel,
    (sender, label): (u32, Option<SecrecyId>),
) {
    let hears = |socket: &Arc<NetlinkSocket>| {
        socket.protocol == protocol
            && socket.hears(parcel.group)
            && label.is_none_or(|label| label == socket.label)
    };
    for socket in all() {
        if hears(&socket) && socket.state.lock().port != sender {
            socket.deliver(parcel.clone());
        }
    }
}

/// Tells those that keep decisions of the policy that another one was loaded, which is the `number`th.
pub fn policy_loaded(number: u32) {
    let told = Parcel::of_kernel(policy::loaded(number), policy::KEEPERS);
    broadcast(NetlinkProtocol::Policy, &told, (0, None));
}

/// The observer of the network.
struct Teller;

impl AdministrationObserver for Teller {
    fn changed(&self, notice: &NetworkNotice) {
        for told in route::notifications(notice) {
            broadcast(
                NetlinkProtocol::Route,
                &Parcel::of_kernel(told.message, told.group),
                (0, None),
            );
        }
    }
    fn missed(&self) {
        let listens = |socket: &Arc<NetlinkSocket>| {
            socket.protocol == NetlinkProtocol::Route && socket.hears_any()
        };
        all().into_iter().filter(listens).for_each(|socket| socket.lose());
    }
}

/// Begins to hear of changes of the network, with the first socket.
pub(super) fn listen() {
    if LISTENS.get().is_none()
        && let Some(network) = world::administration()
        && LISTENS.set(()).is_ok()
    {
        network.observe(Arc::new(Teller));
    }
}
