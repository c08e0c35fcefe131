//! Introductions: a process that calls other components is told of each of them, and of their successors, by messages
//! ([`interfaces::introduction`]). When the process has ended, they let go of its memory before its successor is started.
//!
//! Locks: `rights` is a leaf. `order` is held over the message by which the process gets a right.
use crate::{control::Controlled, farewell, keeper::Keeper, plan::Plan};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::{
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};
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
    power,
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
    let rights = Arc::new(Lendings {
        has_process: AtomicBool::new(false),
        order: Mutex::new(&ORDER, ()),
        rights: Mutex::new(&RIGHTS, Vec::new()),
    });
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
    let controlled = Arc::new(Controlled::new(partners.clone()));
    let (may_power_down, powered) = (plan.may_power_down, controlled.clone());
    let machine = serve("machine", move |at| {
        Err(rt::machine::serve(at, |action| match may_power_down {
            true => power::down(action),
            false => powered.end(action),
        }))
    })?;
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
    static ORDER = "supervisor.lending";
    static RIGHTS = "supervisor.rights";
}

/// The rights to lend to components' devices that the process has, by the components' names. A right ends with the start of the
/// component for which it was given, and with the process.
struct Lendings {
    /// The process has begun to be introduced, and has not ended.
    has_process: AtomicBool,
    /// Held while a right is given, so that the process gets the rights in the order in which they are made.
    order: Mutex<()>,
    rights: Mutex<Vec<(&'static str, Derivation)>>,
}

impl Lendings {
    /// Gives the process the right to lend to the devices of `partner`, if they reach memory.
    fn lend(&self, process: &IntroductionClient, partner: &Keeper) -> Result<(), String> {
        let _order = self.order.lock();
        self.end(partner.name());
        let Some(window) = partner.window() else { return Ok(()) };
        let right = Derivation::new(&Capability::Lender(window), message::Rights::default(), 0);
        let right = right.map_err(failed)?;
        let given = right.capability();
        self.rights.lock().push((partner.name(), right));
        let Capability::Lender(window) = given else { return Err(failed("no lender")) };
        let told = process.call_lend(Name::cut(partner.name()), window);
        told.map_err(failed)?.ok_or_else(|| failed("a lender"))
    }

    /// Ends the right to lend to the devices of the component `name`. The driver has ended, or has let go of the frames.
    fn end(&self, name: &str) {
        let ended: Vec<_> = self.rights.lock().extract_if(.., |(of, _)| *of == name).collect();
        for (_, right) in ended {
            if let Capability::Lender(window) = right.capability() {
                window.take_back_all();
            }
        }
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
        // This comes before the presence of the components is read: a change meanwhile is told.
        self.rights.has_process.store(true, SeqCst);
        for partner in &self.partners {
            self.introduce(partner.name(), partner.presence(), &partner.endpoint())?;
            self.rights.lend(&self.process, partner)?;
        }
        self.introduce("", Presence::Started(0), &self.complaints)?;
        self.introduce(MACHINE, Presence::Started(0), &self.machine)?;
        self.introduce(SUPERVISOR, Presence::Started(0), &self.control)?;
        self.process.call_complete().map_err(failed)?.ok_or_else(|| failed("the end"))
    }
    fn ended(&self) {
        self.rights.has_process.store(false, SeqCst);
        for partner in &self.partners {
            // A component that does not run has nothing of the process.
            if partner.generation().is_some() && !farewell::has_let_go(&partner.endpoint()) {
                log::info!("{} is started afresh: its client has ended", partner.name());
                partner.start_afresh("its client has ended");
            }
            self.rights.end(partner.name());
        }
        rt::machine::stop_sampling(&self.machine);
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
        if !self.rights.has_process.load(SeqCst) {
            return;
        }
        let name = self.partner.name();
        if let Err(failure) = self.process.call_changed(Name::cut(name), presence) {
            log::warn!("the users of {name} were not told of a change: {failure:?}");
        }
    }
}

impl Listener for Messenger {
    fn started(&self) -> Result<(), String> {
        if self.rights.has_process.load(SeqCst)
            && let Err(failure) = self.rights.lend(&self.process, &self.partner)
        {
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
