//! The client's side of the administration ([`super`]).
use super::{AdministrationRequest, ChangeAnswer, NumberedNotice};
use crate::{
    call::{Again, Failure},
    marshal::{self, Marshal},
    sockets::{
        AddressRecord, AdministrationError, AdministrationObserver, EntryMode, LinkRecord,
        MembershipRecord, NeighbourRecord, NetworkAdministration, NetworkChange, NetworkParameter,
        RouteQuery, RouteRecord, RuleRecord, SocketProtocol, SocketRecord, StackDrops, TableRecord,
        remote::{ControlChannel, ask, subject},
    },
};
use alloc::{borrow::Cow, sync::Arc, vec::Vec};
use rt::{
    lock_class,
    message::Error,
    ring::Corrupt,
    sync::{Event, Mutex, RwLock},
    time,
};

lock_class! {
    static OBSERVERS = "administration.observers";
    static HEARD = "administration.heard";
}

/// The longest wait for a notice of a change that was made, in nanoseconds.
const NOTICE_WAIT_NS: u64 = 1_000_000_000;

impl From<Failure> for AdministrationError {
    fn from(failure: Failure) -> AdministrationError {
        match failure {
            Failure::Lost(Error::Gone) => AdministrationError::NetworkDown,
            _ => AdministrationError::Restarted,
        }
    }
}

/// The notices of the server, as far as they were heard.
#[derive(Default)]
struct HeardNotices {
    /// The number of the last one.
    last: u64,
    /// Number of times that observers were told of lost ones.
    gaps: u64,
}

/// The administration of a stack in another world. A stack that is gone has empty lists.
///
/// Locks: `administration.observers`, for reading over calls of the observers; `administration.heard` for a moment.
pub struct RemoteAdministration {
    channel: Arc<dyn ControlChannel>,
    observers: RwLock<Vec<Arc<dyn AdministrationObserver>>>,
    heard: Mutex<HeardNotices>,
    /// Signalled when observers have heard of something.
    told: Event,
}

/// Returns whether a change that was made already has the same result when it is made again.
fn again(change: &NetworkChange) -> Again {
    match change {
        NetworkChange::Link(_)
        | NetworkChange::Address(_, EntryMode::Replace | EntryMode::Change)
        | NetworkChange::Route(_, EntryMode::Replace | EntryMode::Change)
        | NetworkChange::Neighbour(_, EntryMode::Replace | EntryMode::Change) => Again::OnRestart,
        _ => Again::Never,
    }
}

impl RemoteAdministration {
    /// Makes the client of the administration at the other end of `channel`.
    pub fn new(channel: Arc<dyn ControlChannel>) -> RemoteAdministration {
        RemoteAdministration {
            channel,
            observers: RwLock::new(&OBSERVERS, Vec::new()),
            heard: Mutex::new(&HEARD, HeardNotices::default()),
            told: Event::new(),
        }
    }

    /// Tells the observers of a notice that the server posted. Notices are heard one after the other, in the order in which they
    /// were posted.
    ///
    /// # Errors
    /// [`Corrupt`]: the bytes are no notice.
    pub fn heard(&self, bytes: &[u8]) -> Result<(), Corrupt> {
        let NumberedNotice { number, notice } = marshal::decode(bytes).ok_or(Corrupt)?;
        if number.wrapping_sub(self.heard.lock().last) != 1 {
            self.missed();
        }
        self.observers.read().iter().for_each(|one| one.changed(&notice));
        self.heard.lock().last = number;
        self.told.signal();
        Ok(())
    }

    /// Tells the observers that notices were lost: there was no room for them, or the stack died.
    pub fn missed(&self) {
        self.observers.read().iter().for_each(|one| one.missed());
        self.heard.lock().gaps += 1;
        self.told.signal();
    }

    /// Hears that the stack has a successor, which numbers its notices anew.
    pub fn restarted(&self) {
        self.heard.lock().last = 0;
        self.missed();
    }

    /// Blocks until observers have heard of notice `number`, or that some were lost.
    fn wait_for(&self, number: u64, gaps: u64) {
        let deadline = time::now().after_ns(NOTICE_WAIT_NS);
        while time::now() < deadline {
            let ticket = self.told.ticket();
            let is_told = {
                let heard = self.heard.lock();
                heard.last >= number || heard.gaps != gaps
            };
            if is_told {
                return;
            }
            self.told.wait(ticket, Some(deadline));
        }
    }

    fn ask<T: Marshal>(&self, request: &AdministrationRequest, again: Again) -> Result<T, Failure> {
        ask(&*self.channel, subject::ADMINISTRATION, request, again)
    }

    fn read<T: Marshal + Default>(&self, request: &AdministrationRequest) -> T {
        self.ask(request, Again::OnRestart).unwrap_or_default()
    }
}

impl NetworkAdministration for RemoteAdministration {
    fn links(&self) -> Vec<LinkRecord> {
        self.read(&AdministrationRequest::Links)
    }
    fn addresses(&self) -> Vec<AddressRecord> {
        self.read(&AdministrationRequest::Addresses)
    }
    fn routes(&self) -> Vec<RouteRecord> {
        self.read(&AdministrationRequest::Routes)
    }
    fn tables(&self) -> Vec<TableRecord> {
        self.read(&AdministrationRequest::Tables)
    }
    fn rules(&self) -> Vec<RuleRecord> {
        self.read(&AdministrationRequest::Rules)
    }
    fn neighbours(&self) -> Vec<NeighbourRecord> {
        self.read(&AdministrationRequest::Neighbours)
    }
    fn memberships(&self) -> Vec<MembershipRecord> {
        self.read(&AdministrationRequest::Memberships)
    }
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError> {
        let gaps = self.heard.lock().gaps;
        let request = AdministrationRequest::Change(change.clone());
        let answer: ChangeAnswer = self.ask(&request, again(change))?;
        self.wait_for(answer.last_notice, gaps);
        answer.result
    }
    fn route_to(&self, query: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
        self.ask(&AdministrationRequest::RouteTo(*query), Again::OnRestart)?
    }
    fn sockets(&self, protocol: SocketProtocol) -> Vec<SocketRecord> {
        self.read(&AdministrationRequest::Sockets(protocol))
    }
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        self.read(&AdministrationRequest::Counters)
    }
    fn drops(&self) -> Vec<StackDrops> {
        self.read(&AdministrationRequest::Drops)
    }
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>> {
        self.read(&AdministrationRequest::Parameter(parameter))
    }
    fn set_parameter(
        &self,
        parameter: NetworkParameter,
        values: &[i64],
    ) -> Result<(), AdministrationError> {
        let request = AdministrationRequest::SetParameter(parameter, values.to_vec());
        self.ask(&request, Again::OnRestart)?
    }
    fn observe(&self, observer: Arc<dyn AdministrationObserver>) {
        self.observers.write().push(observer);
    }
}
