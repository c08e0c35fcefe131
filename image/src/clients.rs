//! Clients of isolated components, which stand for the components. Each client that shares memory with its component is
//! told of every successor.
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::fmt::Debug;
use interfaces::{
    AttachError,
    audit_log::{AuditLog, AuditLogClient},
    block::{Block, BlockControlClient, BlockProxy},
    call::Caller,
    clock::{Clock, ClockClient},
    entropy::{Entropy, EntropyClient},
    nic::{Nic, NicControlClient, NicProxy},
    overdue::Check,
    service::ServiceClient,
    sockets::{
        Network,
        remote::{
            NetworkProxy, StackControlClient, StackMessages,
            mail::{MailChannel, MailControlClient},
        },
    },
    supervisor::{Listener, Services as _},
    terminal::{Port, PortControlClient, PortProxy},
};
use rt::{
    message::Endpoint,
    time::{self, Instant},
};
use supervisor::Supervisor;

/// Timeout of a call, including a restart of the component.
const DEADLINE_NS: u64 = 10_000_000_000;
/// Timeout of the call by which a successor takes memory that is shared with it.
const ATTACH_NS: u64 = 1_000_000_000;
/// The greatest number of tries of that call, because a message may be lost.
const ATTACH_TRIES: usize = 3;
/// The greatest number of instances that are used of a component. A component that reports too many must not delay the boot.
const INSTANCES_MAX: u64 = 256;

/// Longest time that boot waits for a component whose calls fail, and time between two log lines about it.
const BOOT_NS: u64 = 120_000_000_000;
const SAY_NS: u64 = 5_000_000_000;
/// Pause between two calls during boot.
const TRY_NS: u64 = 10_000_000;

/// A component that boot cannot do without. It may fail and be restarted meanwhile.
struct RequiredComponent<'s> {
    supervisor: &'s Supervisor,
    name: &'static str,
    began: Instant,
    said: Option<Instant>,
}

impl<'s> RequiredComponent<'s> {
    fn new(supervisor: &'s Supervisor, name: &'static str) -> RequiredComponent<'s> {
        RequiredComponent { supervisor, name, began: time::now(), said: None }
    }

    /// Calls `ask` until it succeeds and returns its answer; `None` once the component is given up.
    fn insist<T, E: Debug>(&mut self, what: &str, ask: impl Fn() -> Result<T, E>) -> Option<T> {
        loop {
            let error = match ask() {
                Ok(answer) => return Some(answer),
                Err(error) => error,
            };
            let (name, now) = (self.name, time::now());
            if self.said.is_none_or(|said| now.since(said) >= SAY_NS) {
                log::warn!("boot waits for {name} {what}: {error:?}");
                self.said = Some(now);
            }
            time::sleep_until(now.after_ns(TRY_NS));
            let answers = self.supervisor.wait_for_service(name);
            if !answers || now.since(self.began) >= BOOT_NS {
                log::error!("boot goes on without {name} {what}: {error:?}");
                return None;
            }
        }
    }

    /// Returns the numbers of its instances of `interface`.
    fn instances(&mut self, endpoint: &Endpoint, interface: u16) -> Vec<u64> {
        let service = ServiceClient::new(Caller::new(endpoint.clone(), 0, Some(DEADLINE_NS)));
        let mut numbers = Vec::new();
        for index in 0..=INSTANCES_MAX {
            let described = self.insist("to say what it serves", || service.call_describe(index));
            match described.flatten() {
                Some(_) if index == INSTANCES_MAX => {
                    log::warn!("{}: only {INSTANCES_MAX} of its instances are used", self.name);
                }
                Some(description) if description.interface == interface => numbers.push(index),
                Some(_) => {}
                None => break,
            }
        }
        numbers
    }
}

/// Returns a caller of each instance of `interface` of component `name`. This is the client of an interface whose calls are
/// only messages.
fn callers(supervisor: &Supervisor, name: &'static str, interface: u16) -> Vec<Caller> {
    let Some(endpoint) = supervisor.endpoint(name) else { return Vec::new() };
    let instances =
        RequiredComponent::new(supervisor, name).instances(&endpoint, interface).into_iter();
    instances.map(|instance| Caller::new(endpoint.clone(), instance, Some(DEADLINE_NS))).collect()
}

/// Returns the clocks of component `name`, if it is isolated.
pub(crate) fn clocks(supervisor: &Supervisor, name: &'static str) -> Vec<Arc<dyn Clock>> {
    let callers = callers(supervisor, name, ClockClient::INTERFACE).into_iter();
    callers.map(|caller| Arc::new(ClockClient::new(caller)) as Arc<dyn Clock>).collect()
}

/// Returns the audit writers of component `name`, if it is isolated.
pub(crate) fn audit_logs(supervisor: &Supervisor, name: &'static str) -> Vec<Arc<dyn AuditLog>> {
    let callers = callers(supervisor, name, AuditLogClient::INTERFACE).into_iter();
    callers.map(|caller| Arc::new(AuditLogClient::new(caller)) as Arc<dyn AuditLog>).collect()
}

/// Returns the sources of entropy of component `name`, if it is isolated.
pub(crate) fn entropy(supervisor: &Supervisor, name: &'static str) -> Vec<Arc<dyn Entropy>> {
    let callers = callers(supervisor, name, EntropyClient::INTERFACE).into_iter();
    callers.map(|caller| Arc::new(EntropyClient::new(caller)) as Arc<dyn Entropy>).collect()
}

/// A client of an instance in another world, whose server may be succeeded.
trait Remote: Send + Sync + 'static {
    fn name(&self) -> String;
    fn restarted(&self) -> Result<(), AttachError>;
    fn overdue(&self, check: &Check) -> Option<String>;
    fn close(&self);
}

impl Remote for BlockProxy {
    fn name(&self) -> String {
        self.info().name
    }
    fn restarted(&self) -> Result<(), AttachError> {
        BlockProxy::restarted(self)
    }
    fn overdue(&self, check: &Check) -> Option<String> {
        BlockProxy::overdue(self, check)
    }
    fn close(&self) {
        BlockProxy::close(self);
    }
}

impl Remote for PortProxy {
    fn name(&self) -> String {
        Port::name(self)
    }
    fn restarted(&self) -> Result<(), AttachError> {
        PortProxy::restarted(self)
    }
    fn overdue(&self, check: &Check) -> Option<String> {
        PortProxy::overdue(self, check)
    }
    fn close(&self) {
        PortProxy::close(self);
    }
}

impl Remote for NicProxy {
    fn name(&self) -> String {
        self.info().name
    }
    fn restarted(&self) -> Result<(), AttachError> {
        NicProxy::restarted(self)
    }
    fn overdue(&self, check: &Check) -> Option<String> {
        NicProxy::overdue(self, check)
    }
    fn close(&self) {
        NicProxy::close(self);
    }
}

impl Remote for NetworkProxy {
    fn name(&self) -> String {
        "inet".into()
    }
    fn restarted(&self) -> Result<(), AttachError> {
        NetworkProxy::restarted(self)
    }
    fn overdue(&self, _: &Check) -> Option<String> {
        // A program waits for each request, and a server that answers no ping is ended.
        None
    }
    fn close(&self) {
        NetworkProxy::close(self);
    }
}

/// A listener that tells a client of its server's successors.
struct Follower<R>(Arc<R>);

impl<R: Remote> Listener for Follower<R> {
    fn started(&self) -> Result<(), String> {
        let mut attached = self.0.restarted();
        for _ in 1..ATTACH_TRIES {
            if attached.is_err() {
                attached = self.0.restarted();
            }
        }
        attached.map_err(|error| format!("{} is not attached: {error:?}", self.0.name()))
    }
    fn overdue(&self, check: &Check) -> Option<String> {
        self.0.overdue(check)
    }
    fn given_up(&self) {
        self.0.close();
    }
}

/// A function that is called when a server broke the protocol of its rings.
type OnCorrupt = Box<dyn Fn() + Send + Sync>;

/// Returns clients, made by `make`, of all instances of `interface` of component `name`, if it is isolated.
fn connect<R: Remote>(
    supervisor: &Arc<Supervisor>,
    name: &'static str,
    interface: u16,
    make: impl Fn(Caller, OnCorrupt) -> Result<Arc<R>, AttachError>,
) -> Vec<Arc<R>> {
    let Some(endpoint) = supervisor.endpoint(name) else { return Vec::new() };
    let mut wanted = RequiredComponent::new(supervisor, name);
    let mut clients = Vec::new();
    for instance in wanted.instances(&endpoint, interface) {
        let what = format!("to take the rings of instance {instance}");
        let client = wanted.insist(&what, || {
            let caller = Caller::new(endpoint.clone(), instance, Some(ATTACH_NS));
            let blames = supervisor.clone();
            let on_corrupt =
                Box::new(move || blames.blame(name, "it breaks the protocol of its rings"));
            match follow(supervisor, name, || make(caller, on_corrupt)) {
                // The component would give the same description again.
                Err(AttachError::Senseless) => Ok(None),
                followed => followed.map(Some),
            }
        });
        match client {
            Some(None) => log::error!("{name}: instance {instance} says of itself what cannot be"),
            client => clients.extend(client.flatten()),
        }
    }
    clients
}

/// Returns the client that `make` makes; it is told of every successor from now on.
fn follow<R: Remote>(
    supervisor: &Supervisor,
    name: &str,
    make: impl FnOnce() -> Result<Arc<R>, AttachError>,
) -> Result<Arc<R>, AttachError> {
    let before = supervisor.generation(name);
    let client = make()?;
    supervisor.listen(name, Arc::new(Follower(client.clone())));
    if before.is_none() || supervisor.generation(name) != before {
        // A successor answered before the client could be told. If this one fails too, the client is told of the next.
        let _ = client.restarted();
    }
    Ok(client)
}

/// Returns the disks of component `name`, if it is isolated.
pub(crate) fn disks(supervisor: &Arc<Supervisor>, name: &'static str) -> Vec<Arc<dyn Block>> {
    let disks = connect(supervisor, name, BlockControlClient::INTERFACE, |caller, on_corrupt| {
        let knows = supervisor.clone();
        BlockProxy::new(caller, on_corrupt, Box::new(move || knows.running(name)))
    });
    disks.into_iter().map(|disk| disk as Arc<dyn Block>).collect()
}

/// Returns the network interfaces of component `name`, if it is isolated.
pub(crate) fn nics(supervisor: &Arc<Supervisor>, name: &'static str) -> Vec<Arc<dyn Nic>> {
    let nics = connect(supervisor, name, NicControlClient::INTERFACE, |caller, on_corrupt| {
        let knows = supervisor.clone();
        NicProxy::new(caller, on_corrupt, Box::new(move || knows.running(name)))
    });
    nics.into_iter().map(|nic| nic as Arc<dyn Nic>).collect()
}

/// Returns the ports of component `name`, if it is isolated.
pub(crate) fn ports(supervisor: &Arc<Supervisor>, name: &'static str) -> Vec<Arc<dyn Port>> {
    let ports = connect(supervisor, name, PortControlClient::INTERFACE, PortProxy::new);
    ports.into_iter().map(|port| port as Arc<dyn Port>).collect()
}

/// Returns the network stacks of component `name`, if it is isolated. Their clients use `nics` for them.
pub(crate) fn networks(
    supervisor: &Arc<Supervisor>,
    name: &'static str,
    nics: Vec<Arc<dyn Nic>>,
) -> Vec<Arc<dyn Network>> {
    let Some(endpoint) = supervisor.endpoint(name) else { return Vec::new() };
    let mail = RequiredComponent::new(supervisor, name)
        .instances(&endpoint, MailControlClient::INTERFACE)
        .into_iter()
        .next();
    let Some(mail) = mail else { return Vec::new() };
    let stacks = connect(supervisor, name, StackControlClient::INTERFACE, |caller, on_corrupt| {
        let on_corrupt: Arc<dyn Fn() + Send + Sync> = Arc::from(on_corrupt);
        let blames = Arc::clone(&on_corrupt);
        // A request ends with its answer, or with the server.
        let channel = MailChannel::new(
            Caller::new(endpoint.clone(), mail, None),
            Box::new(move || blames()),
        )?;
        let ways = (Box::new(StackMessages::new(caller)) as _, Arc::new(channel) as _);
        NetworkProxy::new(ways, nics.clone(), Box::new(move || on_corrupt()))
    });
    stacks.into_iter().map(|stack| stack as Arc<dyn Network>).collect()
}
