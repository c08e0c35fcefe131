//! The components to which the supervisor has introduced this process ([`Introductions`]).
//!
//! Locks: `known` is a leaf, never held over a call or to a listener. `changed` is signalled after each change.
use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use interfaces::{
    block::RunningDriver,
    call::Caller,
    introduction::{
        Cause, Complaints, ComplaintsClient, Introduction, MACHINE, Presence, SUPERVISOR,
    },
    supervisor::{Listener, Services, Supervisor, SupervisorControlClient, SupervisorProxy},
    wire::Name,
};
use rt::{
    device::DmaWindow,
    lock_class,
    message::Endpoint,
    sync::{Event, Mutex},
};

lock_class! {
    static KNOWN = "launch.known";
}

/// Timeout of a complaint.
const COMPLAIN_NS: u64 = 1_000_000_000;

/// A component to which the process was introduced.
struct Partner {
    name: String,
    endpoint: Endpoint,
    window: DmaWindow,
    presence: Presence,
    /// The presence of which the listeners were told.
    told: Presence,
    listeners: Vec<Arc<dyn Listener>>,
}

impl Partner {
    fn generation(&self) -> Option<u64> {
        match self.presence {
            Presence::Started(generation) => Some(generation),
            Presence::GivenUp => None,
        }
    }
}

/// Makes the machine known to rt. In other worlds rt knows it.
fn attach_machine(endpoint: Endpoint) {
    #[cfg(all(target_os = "none", skerry_process))]
    rt::machine::attach(endpoint);
    #[cfg(not(all(target_os = "none", skerry_process)))]
    drop(endpoint);
}

/// The contents of the messages of the supervisor so far.
#[derive(Default)]
struct IntroducedPartners {
    partners: Vec<Partner>,
    complaints: Option<Endpoint>,
    supervisor: Option<Endpoint>,
    is_complete: bool,
}

/// A change of a component's presence, and the listeners to be told.
struct PresenceChange {
    name: String,
    presence: Presence,
    listeners: Vec<Arc<dyn Listener>>,
}

/// All components to which the process was introduced.
pub(crate) struct Introductions {
    known: Mutex<IntroducedPartners>,
    changed: Event,
}

impl Default for Introductions {
    fn default() -> Introductions {
        Introductions {
            known: Mutex::new(&KNOWN, IntroducedPartners::default()),
            changed: Event::new(),
        }
    }
}

impl Introductions {
    fn change<R>(&self, act: impl FnOnce(&mut IntroducedPartners) -> R) -> R {
        let result = act(&mut self.known.lock());
        self.changed.signal();
        result
    }

    fn with<R>(&self, name: &str, look: impl FnOnce(&mut Partner) -> R) -> Option<R> {
        let mut known = self.known.lock();
        known.partners.iter_mut().find(|partner| partner.name == name).map(look)
    }

    /// Blocks until the supervisor has introduced all components.
    pub(crate) fn wait_until_complete(&self) {
        loop {
            let ticket = self.changed.ticket();
            if self.known.lock().is_complete {
                return;
            }
            self.changed.wait(ticket, None);
        }
    }

    /// Returns the supervisor, which shows and controls the components to which the process was introduced, and the process.
    pub(crate) fn supervisor(&self) -> Option<Arc<dyn Supervisor>> {
        let endpoint = self.known.lock().supervisor.clone()?;
        // An order ends with the component that it is about.
        let control = SupervisorControlClient::new(Caller::new(endpoint, 0, None));
        Some(Arc::new(SupervisorProxy::new(control)))
    }

    /// Tells listeners of changes, for ever.
    pub(crate) fn tell(&self) {
        loop {
            let ticket = self.changed.ticket();
            match self.take_news() {
                Some(news) => self.tell_all(&news),
                None => {
                    self.changed.wait(ticket, None);
                }
            }
        }
    }

    /// Returns a change of which the listeners were not told yet.
    fn take_news(&self) -> Option<PresenceChange> {
        let mut known = self.known.lock();
        let mut partners = known.partners.iter_mut();
        let partner = partners.find(|partner| partner.presence != partner.told)?;
        partner.told = partner.presence;
        let (name, listeners) = (partner.name.clone(), partner.listeners.clone());
        Some(PresenceChange { name, presence: partner.presence, listeners })
    }

    fn tell_all(&self, news: &PresenceChange) {
        for listener in &news.listeners {
            match news.presence {
                Presence::GivenUp => listener.given_up(),
                Presence::Started(_) => {
                    if let Err(cause) = listener.started() {
                        self.blame(&news.name, &cause);
                    }
                }
            }
        }
    }
}

impl Introduction for Introductions {
    fn introduce(&self, name: Name, presence: Presence, endpoint: Endpoint) -> Option<()> {
        self.change(|known| {
            let name = name.as_str();
            if name.is_empty() {
                known.complaints = Some(endpoint);
            } else if name == MACHINE {
                attach_machine(endpoint);
            } else if name == SUPERVISOR {
                known.supervisor = Some(endpoint);
            } else if known.partners.iter().all(|partner| partner.name != name) {
                let (name, listeners) = (name.to_string(), Vec::new());
                let told = presence;
                let window = DmaWindow::default();
                let partner = Partner { name, endpoint, window, presence, told, listeners };
                known.partners.push(partner);
            }
        });
        Some(())
    }
    fn lend(&self, name: Name, window: DmaWindow) -> Option<()> {
        self.with(name.as_str(), |partner| partner.window = window)
    }
    fn complete(&self) -> Option<()> {
        self.change(|known| known.is_complete = true);
        Some(())
    }
    fn changed(&self, name: Name, presence: Presence) -> Option<()> {
        self.with(name.as_str(), |partner| partner.presence = presence)?;
        self.changed.signal();
        Some(())
    }
}

impl Services for Introductions {
    fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.with(name, |partner| partner.endpoint.clone())
    }
    fn wait_for_service(&self, name: &str) -> bool {
        // A call waits for the successor by itself.
        self.generation(name).is_some()
    }
    fn generation(&self, name: &str) -> Option<u64> {
        self.with(name, |partner| partner.generation())?
    }
    fn running(&self, name: &str) -> RunningDriver {
        let running = self.with(name, |partner| RunningDriver {
            generation: partner.generation(),
            window: partner.window.clone(),
        });
        running.unwrap_or_default()
    }
    fn blame(&self, name: &str, cause: &str) {
        log::warn!("{name}: {cause}");
        let complaints = self.known.lock().complaints.clone();
        if let Some(endpoint) = complaints {
            let client = ComplaintsClient::new(Caller::new(endpoint, 0, Some(COMPLAIN_NS)));
            // The supervisor pings the component, too: a complaint that is lost only costs time.
            let _ = client.complain(Name::cut(name), Cause::cut(cause));
        }
    }
    fn listen(&self, name: &str, listener: Arc<dyn Listener>) -> bool {
        self.with(name, |partner| partner.listeners.push(listener)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interfaces::{
        introduction::{ComplaintsServer, IntroductionClient, IntroductionServer},
        service,
        supervisor::{
            Order, OrderError, STATUS_PART_BYTES, SupervisorControl, SupervisorControlServer,
        },
        wire::Bytes,
    };
    use rt::{device::Loan, host, memory::Frame};
    use std::{sync::mpsc, thread};

    /// A listener that notes what it is told, and complains of every successor.
    #[derive(Default)]
    struct Notes(std::sync::Mutex<Vec<&'static str>>);

    impl Listener for Notes {
        fn started(&self) -> Result<(), String> {
            self.0.lock().unwrap().push("started");
            Err("it takes no rings".to_string())
        }
        fn given_up(&self) {
            self.0.lock().unwrap().push("given up");
        }
    }

    /// Passes complaints on.
    struct Heard(std::sync::Mutex<mpsc::Sender<(String, String)>>);

    impl Complaints for Heard {
        fn complain(&self, name: Name, cause: Cause) -> Option<()> {
            let said = (name.as_str().to_string(), cause.as_str().to_string());
            self.0.lock().unwrap().send(said).ok()
        }
    }

    fn introduced(name: &str) -> Introductions {
        let introductions = Introductions::default();
        let endpoint = Endpoint::new().unwrap();
        introductions.introduce(Name::cut(name), Presence::Started(1), endpoint).unwrap();
        introductions
    }

    fn tell_news(introductions: &Introductions) -> bool {
        introductions.take_news().map(|news| introductions.tell_all(&news)).is_some()
    }

    #[test]
    fn only_components_that_were_introduced_are_known() {
        let known = introduced("uart");
        known.complete().unwrap();
        known.wait_until_complete();
        assert!(known.endpoint("uart").is_some() && known.endpoint("rtc").is_none());
        assert_eq!((known.generation("uart"), known.generation("rtc")), (Some(1), None));
        assert!(!known.listen("rtc", Arc::new(Notes::default())));
        assert_eq!(known.changed(Name::cut("rtc"), Presence::GivenUp), None);
    }

    /// A supervisor of no components.
    struct Nobody;

    impl SupervisorControl for Nobody {
        fn order(&self, _: Name, _: Order) -> Result<(), OrderError> {
            Err(OrderError::Unknown)
        }
        fn changes(&self) -> Option<u64> {
            Some(5)
        }
        fn look(&self) -> Option<u64> {
            Some(0)
        }
        fn part(&self, _: u64) -> Option<Bytes<STATUS_PART_BYTES>> {
            None
        }
    }

    #[test]
    fn the_supervisor_that_was_introduced_takes_orders() {
        let (known, endpoint) = (introduced("uart"), Endpoint::new().unwrap());
        assert!(known.supervisor().is_none());
        let right = endpoint.badged(1).unwrap();
        known.introduce(Name::cut(SUPERVISOR), Presence::Started(0), right).unwrap();
        assert!(known.endpoint(SUPERVISOR).is_none(), "it is no component");
        let serves = SupervisorControlServer::new("", Arc::new(Nobody));
        thread::spawn(move || service::run(&endpoint, &[serves]));
        let supervisor = known.supervisor().unwrap();
        assert_eq!(supervisor.changes(), 5);
        assert_eq!(supervisor.order("uart", Order::Kill), Err(OrderError::Unknown));
    }

    #[test]
    fn a_listener_is_told_once_of_each_change() {
        let (known, notes) = (introduced("uart"), Arc::new(Notes::default()));
        assert!(known.listen("uart", notes.clone()));
        assert!(!tell_news(&known), "it is the component that was introduced");
        for presence in [Presence::Started(2), Presence::GivenUp] {
            known.changed(Name::cut("uart"), presence).unwrap();
            known.changed(Name::cut("uart"), presence).unwrap();
            assert!(tell_news(&known) && !tell_news(&known));
        }
        assert_eq!(*notes.0.lock().unwrap(), ["started", "given up"]);
        assert!(!known.wait_for_service("uart"));
    }

    #[test]
    fn frames_are_lent_by_the_window_that_came_with_the_latest_start() {
        let (known, endpoint) = (Arc::new(introduced("virtio-blk")), Endpoint::new().unwrap());
        let right = endpoint.badged(1).unwrap();
        let supervisor = IntroductionClient::new(Caller::new(right, 0, Some(COMPLAIN_NS)));
        let serves = known.clone();
        thread::spawn(move || service::run(&endpoint, &[IntroductionServer::new("", serves)]));
        let windows = [(); 2].map(|()| host::recording_window());
        let (name, frame) = (Name::cut("virtio-blk"), Frame::zeroed().unwrap());
        let loan = Loan { frame: frame.id(), is_written: false };
        for (generation, window) in (1..).zip(&windows) {
            assert!(!host::is_lent(window, loan));
            assert_eq!(supervisor.call_lend(name, window.clone()), Ok(Some(())));
            let presence = Presence::Started(generation);
            assert_eq!(supervisor.call_changed(name, presence), Ok(Some(())));
            let running = known.running("virtio-blk");
            running.window.lend(&[loan]).unwrap();
            assert_eq!(running.generation, Some(generation));
            assert!(host::is_lent(window, loan));
        }
        assert_eq!(supervisor.call_lend(Name::cut("rtc"), windows[0].clone()), Ok(None));
        supervisor.call_changed(name, Presence::GivenUp).unwrap();
        assert_eq!(known.running("virtio-blk").generation, None);
    }

    #[test]
    fn a_successor_that_takes_no_part_is_complained_about() {
        let known = Arc::new(introduced("uart"));
        let (complaints, (tells, told)) = (Endpoint::new().unwrap(), mpsc::channel());
        let right = complaints.badged(1).unwrap();
        known.introduce(Name::cut(""), Presence::Started(0), right).unwrap();
        thread::spawn(move || {
            let heard = Arc::new(Heard(std::sync::Mutex::new(tells)));
            service::run(&complaints, &[ComplaintsServer::new("", heard)])
        });
        let tells_news = known.clone();
        thread::spawn(move || tells_news.tell());
        known.listen("uart", Arc::new(Notes::default()));
        known.changed(Name::cut("uart"), Presence::Started(2)).unwrap();
        let expected = ("uart".to_string(), "it takes no rings".to_string());
        assert_eq!(told.recv().unwrap(), expected);
    }
}
