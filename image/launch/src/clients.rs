//! Clients of isolated components, which stand for the components. Each client that shares memory with its component is
//! told of every successor.
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::fmt::Debug;
use interfaces::{
    AttachError,
    audit_log::{AuditLog, AuditLogClient},
    call::Caller,
    clock::{Clock, ClockClient},
    entropy::{Entropy, EntropyClient},
    overdue::Check,
    service::ServiceClient,
    supervisor::{Listener, Services},
    terminal::{Port, PortControlClient, PortProxy},
};
use rt::{
    message::Endpoint,
    time::{self, Instant},
};

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
pub(crate) struct RequiredComponent<'s> {
    services: &'s Arc<dyn Services>,
    name: &'static str,
    began: Instant,
    said: Option<Instant>,
}

impl<'s> RequiredComponent<'s> {
    pub(crate) fn new(
        services: &'s Arc<dyn Services>,
        name: &'static str,
    ) -> RequiredComponent<'s> {
        RequiredComponent { services, name, began: time::now(), said: None }
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
            let answers = self.services.wait_for_service(name);
            if !answers || now.since(self.began) >= BOOT_NS {
                log::error!("boot goes on without {name} {what}: {error:?}");
                return None;
            }
        }
    }

    /// Returns the numbers of its instances of `interface`.
    pub(crate) fn instances(&mut self, endpoint: &Endpoint, interface: u16) -> Vec<u64> {
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
fn callers(services: &Arc<dyn Services>, name: &'static str, interface: u16) -> Vec<Caller> {
    let Some(endpoint) = services.endpoint(name) else { return Vec::new() };
    let instances =
        RequiredComponent::new(services, name).instances(&endpoint, interface).into_iter();
    instances.map(|instance| Caller::new(endpoint.clone(), instance, Some(DEADLINE_NS))).collect()
}

/// Returns the clocks of component `name`, if it is isolated.
pub(crate) fn clocks(services: &Arc<dyn Services>, name: &'static str) -> Vec<Arc<dyn Clock>> {
    let callers = callers(services, name, ClockClient::INTERFACE).into_iter();
    callers.map(|caller| Arc::new(ClockClient::new(caller)) as Arc<dyn Clock>).collect()
}

/// Returns the audit writers of component `name`, if it is isolated.
pub(crate) fn audit_logs(
    services: &Arc<dyn Services>,
    name: &'static str,
) -> Vec<Arc<dyn AuditLog>> {
    let callers = callers(services, name, AuditLogClient::INTERFACE).into_iter();
    callers.map(|caller| Arc::new(AuditLogClient::new(caller)) as Arc<dyn AuditLog>).collect()
}

/// Returns the sources of entropy of component `name`, if it is isolated.
pub(crate) fn entropy(services: &Arc<dyn Services>, name: &'static str) -> Vec<Arc<dyn Entropy>> {
    let callers = callers(services, name, EntropyClient::INTERFACE).into_iter();
    callers.map(|caller| Arc::new(EntropyClient::new(caller)) as Arc<dyn Entropy>).collect()
}

/// A client of an instance in another world, whose server may be succeeded.
pub(crate) trait Remote: Send + Sync + 'static {
    fn name(&self) -> String;
    fn restarted(&self) -> Result<(), AttachError>;
    fn overdue(&self, check: &Check) -> Option<String>;
    fn close(&self);
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
pub(crate) type OnCorrupt = Box<dyn Fn() + Send + Sync>;

/// Returns clients, made by `make`, of all instances of `interface` of component `name`, if it is isolated.
pub(crate) fn connect<R: Remote>(
    services: &Arc<dyn Services>,
    name: &'static str,
    interface: u16,
    make: impl Fn(Caller, OnCorrupt) -> Result<Arc<R>, AttachError>,
) -> Vec<Arc<R>> {
    let Some(endpoint) = services.endpoint(name) else { return Vec::new() };
    let mut wanted = RequiredComponent::new(services, name);
    let mut clients = Vec::new();
    for instance in wanted.instances(&endpoint, interface) {
        let what = format!("to take the rings of instance {instance}");
        let client = wanted.insist(&what, || {
            let caller = Caller::new(endpoint.clone(), instance, Some(ATTACH_NS));
            let blames = services.clone();
            let on_corrupt =
                Box::new(move || blames.blame(name, "it breaks the protocol of its rings"));
            match follow(services, name, || make(caller, on_corrupt)) {
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
    services: &Arc<dyn Services>,
    name: &str,
    make: impl FnOnce() -> Result<Arc<R>, AttachError>,
) -> Result<Arc<R>, AttachError> {
    let before = services.generation(name);
    let client = make()?;
    services.listen(name, Arc::new(Follower(client.clone())));
    if before.is_none() || services.generation(name) != before {
        // A successor answered before the client could be told. If this one fails too, the client is told of the next.
        let _ = client.restarted();
    }
    Ok(client)
}

/// Returns the ports of component `name`, if it is isolated.
pub(crate) fn ports(services: &Arc<dyn Services>, name: &'static str) -> Vec<Arc<dyn Port>> {
    let ports = connect(services, name, PortControlClient::INTERFACE, PortProxy::new);
    ports.into_iter().map(|port| port as Arc<dyn Port>).collect()
}
