//! The server's side of the administration ([`super`]).
use super::{AdministrationRequest, ChangeAnswer, NumberedNotice};
use crate::{
    marshal::{self, Marshal},
    sockets::{
        AdministrationObserver, NetworkAdministration, NetworkNotice,
        remote::{ControlHandler, Post},
    },
};
use alloc::{sync::Arc, vec::Vec};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static NOTICES = "administration.notices";
}

/// Posts notices with numbers.
struct Notifier {
    /// The number of the last notice. The lock is held over the post, so that notices are posted in their order.
    last: Mutex<u64>,
    post: Post,
}

impl AdministrationObserver for Notifier {
    fn changed(&self, notice: &NetworkNotice) {
        let mut last = self.last.lock();
        *last += 1;
        let numbered = NumberedNotice { number: *last, notice: notice.clone() };
        (self.post)(&marshal::encode(&numbered));
    }
    fn missed(&self) {
        // The client sees that a number is missing.
        *self.last.lock() += 1;
    }
}

/// Gives requests to an administration.
pub struct AdministrationService {
    administration: Arc<dyn NetworkAdministration>,
    notifier: Arc<Notifier>,
}

impl AdministrationService {
    /// Serves `administration`, and sends its notices by `post`.
    pub fn new(
        administration: Arc<dyn NetworkAdministration>,
        post: Post,
    ) -> AdministrationService {
        let notifier = Arc::new(Notifier { last: Mutex::new(&NOTICES, 0), post });
        administration.observe(notifier.clone());
        AdministrationService { administration, notifier }
    }
}

impl ControlHandler for AdministrationService {
    fn handle(&self, request: &[u8], answer: &mut Vec<u8>) {
        let all = &*self.administration;
        match marshal::decode(request) {
            None => {}
            Some(AdministrationRequest::Links) => all.links().put(answer),
            Some(AdministrationRequest::Addresses) => all.addresses().put(answer),
            Some(AdministrationRequest::Routes) => all.routes().put(answer),
            Some(AdministrationRequest::Tables) => all.tables().put(answer),
            Some(AdministrationRequest::Rules) => all.rules().put(answer),
            Some(AdministrationRequest::Neighbours) => all.neighbours().put(answer),
            Some(AdministrationRequest::Memberships) => all.memberships().put(answer),
            Some(AdministrationRequest::Change(change)) => {
                let result = all.change(&change);
                let last_notice = *self.notifier.last.lock();
                ChangeAnswer { result, last_notice }.put(answer);
            }
            Some(AdministrationRequest::RouteTo(query)) => all.route_to(&query).put(answer),
            Some(AdministrationRequest::Sockets(protocol)) => all.sockets(protocol).put(answer),
            Some(AdministrationRequest::Counters) => all.counters().put(answer),
            Some(AdministrationRequest::Drops) => all.drops().put(answer),
            Some(AdministrationRequest::Parameter(parameter)) => {
                all.parameter(parameter).put(answer);
            }
            Some(AdministrationRequest::SetParameter(parameter, values)) => {
                all.set_parameter(parameter, &values).put(answer);
            }
        }
    }
}
