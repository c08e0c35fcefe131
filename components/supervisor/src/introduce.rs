//! Introductions: a process that calls other components is told of each of them, and of their successors, by messages
//! ([`interfaces::introduction`]).
use crate::{control::Controlled, keeper::Keeper, plan::Plan};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt::Debug;
use interfaces::{
    call::Caller,
    introduction::{
        Cause, Complaints, ComplaintsServer, IntroductionClient, MACHINE, Presence, SUPERVISOR,
    },
    service,
    supervisor::{Listener, SupervisorControlServer},
    wire::Name,
};
use rt::{
    NoMemory, lock_class,
    message::{self, Capability, Derivation, Endpoint},
    sync::Mutex,
    thread::{self, Policy},
};

/// Timeout of a message to the process.
const TELL_NS: u64 = 1_000_000_000;
/// Badge of the rights to call that a process gets.
const BADGE: u64 = 1;

/// The components that a process calls, and the way to tell it.
struct Acquaintances {
    process: IntroductionClient,
    partners: Vec<Arc<Keeper>>,
    complaints: Endpoint,
    machine: Endpoint,
    control: Endpoint,
    rights: Arc<Lendings>,
}

/// The parts of the supervisor that serve one process.
pub(crate) struct Introducer {
    /// The listener by which the process is introduced to its partners at each start.
    pub(crate) listener: Arc<dyn Listener>,
    /// The components that the process shows and controls.
    pub(crate) controlled: Arc<Controlled>,
}

/// Makes the introducer of the process of `plan`, which serves at `endpoint`, to its partners among `keepers`. Returns `None` if it
/// has none.
pub(crate) fn introducer(
    plan: &Plan,
    endpoint: &Endpoint,
    keepers: &[Arc<Keeper>],
) -> Result<Option<Introducer>, NoMemory> {
    if plan.partners.is_empty() {
        return Ok(None);
    }
    let is_partner = |keeper: &&Arc<Keeper>| plan.partners.contains(&keeper.name());
    let partners: Vec<_> = keepers.iter().filter(is_partner).cloned().collect();
    let process = IntroductionClient::new(Caller::new(endpoint.clone(), 0, Some(TELL_NS)));
    let rights = Arc::new(Lendings(Mutex::new(&RIGHTS, Vec::new())));
    for partner in &partners {
        partner.listen(Arc::new(Messenger {
            process: process.clone(),
            partner: partner.clone(),
            rights: rights.clone(),
        }));
    }
    let accused = Accused(partners.clone());
    let complaints = serve("complaints", move |at| {
        service::run(at, &[ComplaintsServer::new("", Arc::new(accused))])
    })?;
    let machine = serve("machine", |at| Err(rt::machine::serve(at)))?;
    let controlled = Arc::new(Controlled::new(partners.clone()));
    let served = controlled.clone();
    let control = serve("supervisor", move |at| {
        service::run(at, &[SupervisorControlServer::new("", served)])
    })?;
    let told = Acquaintances { process, partners, complaints, machine, control, rights };
    Ok(Some(Introducer { listener: Arc::new(told), controlled }))
}

/// Makes an endpoint and a thread that serves there.
fn serve(
    name: &'static str,
    serve: impl FnOnce(&Endpoint) -> Result<u64, message::Error> + Send + 'static,
) -> Result<Endpoint, NoMemory> {
    let endpoint = Endpoint::new()?;
    let at = endpoint.clone();
    let serves = move || {
        let ended = serve(&at);
        log::error!("{name} is served no more: {ended:?}");
    };
    thread::spawn(name, Policy::Fair { nice: 0 }, serves)?;
    Ok(endpoint)
}

lock_class! {
    static RIGHTS = "supervisor.rights";
}

/// The rights to lend to components' devices that the process has, by the components' names. A right ends with the start of the
/// component for which it was given.
struct Lendings(Mutex<Vec<(&'static str, Derivation)>>);

impl Lendings {
    /// Gives the process the right to lend to the devices of `partner`, if they reach memory.
    fn lend(&self, process: &IntroductionClient, partner: &Keeper) -> Result<(), String> {
        self.end(partner.name());
        let Some(window) = partner.window() else { return Ok(()) };
        let right = Derivation::new(&Capability::Lender(window), message::Rights::default(), 0);
        let right = right.map_err(failed)?;
        let given = right.capability();
        self.0.lock().push((partner.name(), right));
        let Capability::Lender(window) = given else { return Err(failed("no lender")) };
        let told = process.call_lend(Name::cut(partner.name()), window);
        told.map_err(failed)?.ok_or_else(|| failed("a lender"))
    }

    /// Ends the right to lend to the devices of the component `name`.
    fn end(&self, name: &str) {
        let ended: Vec<_> = self.0.lock().extract_if(.., |(of, _)| *of == name).collect();
        drop(ended);
    }
}

fn failed(failure: impl Debug) -> String {
    format!("it was not told of the components that it calls: {failure:?}")
}

impl Acquaintances {
    fn introduce(&self, name: &str, presence: Presence, endpoint: &Endpoint) -> Result<(), String> {
        let right = endpoint.badged(BADGE).map_err(failed)?;
        let told = self.process.call_introduce(Name::cut(name), presence, right);
        told.map_err(failed)?.ok_or_else(|| failed(name))
    }
}

impl Listener for Acquaintances {
    fn started(&self) -> Result<(), String> {
        for partner in &self.partners {
            self.introduce(partner.name(), partner.presence(), &partner.endpoint())?;
            self.rights.lend(&self.process, partner)?;
        }
        self.introduce("", Presence::Started(0), &self.complaints)?;
        self.introduce(MACHINE, Presence::Started(0), &self.machine)?;
        self.introduce(SUPERVISOR, Presence::Started(0), &self.control)?;
        self.process.call_complete().map_err(failed)?.ok_or_else(|| failed("the end"))
    }
    fn given_up(&self) {}
}

/// A listener that tells a process of the successors of a component that it calls.
struct Messenger {
    process: IntroductionClient,
    partner: Arc<Keeper>,
    rights: Arc<Lendings>,
}

impl Messenger {
    /// Tells the process. A process that cannot be told learns of the component at its next start.
    fn tell(&self, presence: Presence) {
        let name = self.partner.name();
        if let Err(failure) = self.process.call_changed(Name::cut(name), presence) {
            log::warn!("the users of {name} were not told of a change: {failure:?}");
        }
    }
}

impl Listener for Messenger {
    fn started(&self) -> Result<(), String> {
        if let Err(failure) = self.rights.lend(&self.process, &self.partner) {
            log::warn!("{}: {failure}", self.partner.name());
        }
        self.tell(self.partner.presence());
        Ok(())
    }
    fn given_up(&self) {
        self.rights.end(self.partner.name());
        self.tell(Presence::GivenUp);
    }
}

/// The components about which a process may complain.
struct Accused(Vec<Arc<Keeper>>);

impl Complaints for Accused {
    fn complain(&self, name: Name, cause: Cause) -> Option<()> {
        let accused = self.0.iter().find(|keeper| keeper.name() == name.as_str())?;
        accused.blame(cause.as_str());
        Some(())
    }
}
