//! Doubts about a driver: errors that it reports, and requests that it does not end.
//!
//! An error is not passed on at once, because the driver may have reported it when it was about to fail. A tenth of a second
//! later the driver is asked something by message. If the same driver answers and is not to be ended, the error goes to the
//! client. Otherwise the request is issued again to the successor, and to the next successor if that one reports an error and
//! dies, too. The error of the third such successor is passed on. The frames of such a request are not lent meanwhile.
//!
//! For a request that is overdue ([`crate::overdue`]), the keeper's ping asks the driver ([`BlockProxy::overdue`]).
use super::{BlockProxy, Whereabouts, slots::Flight};
use crate::{
    call::Failure,
    overdue::{Answer, Check, UnderWay},
};
use alloc::{format, string::String};
use rt::message::Error;

/// A tag that no request has.
const NO_TAG: u64 = u64::MAX;

impl BlockProxy {
    /// Checks for overdue requests. Returns the reason if the driver must be ended because of one. Called once a ping period.
    pub fn overdue(&self, check: &Check) -> Option<String> {
        let (epoch, next) = {
            let linked = self.link.lock();
            (linked.epoch_up()?, linked.traffic.next_order())
        };
        let oldest = self.slots.oldest();
        let seen = UnderWay { epoch, oldest: oldest.map(|(order, _)| order), next };
        let age_ns = self.watch.lock().see(check, &seen)?;
        let (_, tag) = oldest?;
        let answer = match self.control.call_find(tag) {
            Ok(Some(Whereabouts::UnderWay)) => Answer::Has,
            // The rings are about to go to another driver.
            Err(Failure::Lost(Error::Restarted | Error::Gone)) => {
                return None;
            }
            _ => Answer::Denies,
        };
        let has_ended = self.slots.oldest() != oldest;
        if has_ended || self.link.lock().epoch_up() != Some(epoch) {
            return None;
        }
        let cause = self.watch.lock().hear(check, age_ns, answer)?;
        Some(format!("{}: {cause}", self.info.name))
    }

    /// Settles the first `errors` errors that were held back. If the driver that reported them still runs, clients are told;
    /// otherwise its successor gets those requests. Does nothing if the driver does not answer.
    pub(super) fn settle_doubts(&self, errors: u64) {
        let Some(attached) = self.attached() else {
            return self.tell_doubtful(|flight, _| flight.is_retried_enough());
        };
        if self.control.call_find(NO_TAG).ok().flatten().is_none() {
            return;
        }
        // The running driver is looked up after the answer. If it is the same, the answer did not come from a successor.
        let is_running = (self.runs)().generation == Some(attached.1);
        if is_running && self.attached() == Some(attached) {
            self.tell_doubtful(|_, which| which < errors);
        }
    }

    /// Returns the count of drivers so far and the supervisor's number of the present one; `None` if there is none.
    fn attached(&self) -> Option<(u64, u64)> {
        let linked = self.link.lock();
        Some((linked.epoch_up()?, linked.traffic.generation()?))
    }

    fn tell_doubtful(&self, may_end: impl Fn(&Flight, u64) -> bool) {
        while let Some(mut ended) = self.slots.end_doubtful(&may_end) {
            ended.tell();
            self.room.signal();
        }
    }
}
