//! Introductions: a process that calls other components is told of each of them, and of their successors, by messages
//! ([`interfaces::introduction`]).
use crate::{keeper::Keeper, plan::Plan};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt::Debug;
use interfaces::{
    call::Caller,
    introduction::{Cause, Complaints, ComplaintsServer, IntroductionClient, Presence},
    service,
    supervisor::Listener,
    wire::Name,
};
use rt::{
    NoMemory,
    message::Endpoint,
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
}

/// Makes the listener by which the process of `plan`, which serves at `endpoint`, is introduced to its partners among `keepers`
/// at each start. Returns `None` if it has none.
pub(crate) fn listener(
    plan: &Plan,
    endpoint: &Endpoint,
    keepers: &[Arc<Keeper>],
) -> Result<Option<Arc<dyn Listener>>, NoMemory> {
    if plan.partners.is_empty() {
        return Ok(None);
    }
    let is_partner = |keeper: &&Arc<Keeper>| plan.partners.contains(&keeper.name());
    let partners: Vec<_> = keepers.iter().filter(is_partner).cloned().collect();
    let process = IntroductionClient::new(Caller::new(endpoint.clone(), 0, Some(TELL_NS)));
    for partner in &partners {
        let messenger = Messenger { process: process.clone(), partner: partner.clone() };
        partner.listen(Arc::new(messenger));
    }
    let complaints = Endpoint::new()?;
    let (hears, accused) = (complaints.clone(), partners.clone());
    let serves = move || {
        let ended = service::run(&hears, &[ComplaintsServer::new("", Arc::new(Accused(accused)))]);
        log::error!("complaints are heard no more: {ended:?}");
    };
    thread::spawn("complaints", Policy::Fair { nice: 0 }, serves)?;
    Ok(Some(Arc::new(Acquaintances { process, partners, complaints })))
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
        }
        self.introduce("", Presence::Started(0), &self.complaints)?;
        self.process.call_complete().map_err(failed)?.ok_or_else(|| failed("the end"))
    }
    fn given_up(&self) {}
}

/// A listener that tells a process of the successors of a component that it calls.
struct Messenger {
    process: IntroductionClient,
    partner: Arc<Keeper>,
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
        self.tell(self.partner.presence());
        Ok(())
    }
    fn given_up(&self) {
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
