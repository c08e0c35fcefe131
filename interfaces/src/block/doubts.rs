//! Errors that a driver reports, and requests that it does not end: whether the driver may be believed.
//!
//! An error is not passed on at once, for the driver may have reported it because it is about to fail. A tenth of a second
//! later it is asked something by message; if the same driver has answered and is not to be
//! ended, the error is the client's. Otherwise the request is issued again to the successor, and
//! to its successor where that errs and dies, too; the third such successor's error is passed on. Frames of such a request are
//! not lent meanwhile.
//!
//! A request that is overdue ([`crate::overdue`]) is asked for by the keeper's ping ([`BlockProxy::overdue`]).
use super::{BlockProxy, Whereabouts, slots::Flight};
use crate::{
    call::Failure,
    overdue::{Answer, Check, UnderWay},
};
use alloc::{format, string::String};
use rt::message::Error;

/// No request has this tag.
const NO_TAG: u64 = u64::MAX;

impl BlockProxy {
    /// Whether the driver must be ended because of a request, and why; called once a ping period.
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
            // Another driver is about to have the rings.
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

    /// Tells clients of the first `errors` errors, which were held back, where the driver that reported them lives on; where it
    /// does not its successor is sent those requests. Nothing is done where the driver does not answer.
    pub(super) fn settle_doubts(&self, errors: u64) {
        let Some(attached) = self.attached() else {
            return self.tell_doubtful(|flight, _| flight.is_retried_enough());
        };
        if self.control.call_find(NO_TAG).ok().flatten().is_none() {
            return;
        }
        // The running driver is looked up after the answer: where it is the same it was not a successor that answered.
        let is_running = (self.runs)().generation == Some(attached.1);
        if is_running && self.attached() == Some(attached) {
            self.tell_doubtful(|_, which| which < errors);
        }
    }

    /// Counts the drivers, and says which of the supervisor's this one is; `None` while there is none.
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
