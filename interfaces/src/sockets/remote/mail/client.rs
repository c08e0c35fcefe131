//! The client's side of the mail ([`super`]).
use super::{
    ANSWER_MAX, Exchange, MailControlClient, MailError, NO_TICKET, PLACE_BYTES, PLACES,
    REGION_BYTES, REQUEST_MAX, place_of, read, write,
};
use crate::{
    AttachError,
    call::{Again, Caller, Failure, Refusal},
    sockets::remote::ControlChannel,
};
use alloc::{boxed::Box, vec::Vec};
use core::cell::Cell;
use rt::{
    lock_class,
    memory::Region,
    message::Error,
    sync::{Event, Mutex},
    thread,
};

lock_class! {
    static EPOCH = "mail.epoch";
    static FREE = "mail.free";
}

/// Attempts of one exchange before it is given up.
const ATTEMPTS: usize = 16;

/// A place that no exchange has.
struct MailPlace {
    number: usize,
    /// The ticket of its last exchange.
    ticket: u64,
    /// The server may still be at work with it, because an exchange was given up.
    is_doubtful: bool,
}

/// The reason why an attempt of an exchange has no answer.
enum Trouble {
    /// The request was not handled.
    Undone,
    /// The server died. Whether it handled the request is not known.
    Died,
    /// Another attempt will have none either.
    Final(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Final(failure)
    }
}

/// A channel to the mail of a server, by message.
///
/// Locks: `mail.epoch`, held over the message that attaches the region; `mail.free` for a moment.
pub struct MailChannel {
    control: MailControlClient,
    region: Region,
    /// Number of the last attachment.
    epoch: Mutex<u64>,
    free: Mutex<Vec<MailPlace>>,
    /// Signalled when a place is free again.
    returned: Event,
    on_corrupt: Box<dyn Fn() + Send + Sync>,
}

impl MailChannel {
    /// Makes a channel to the mail behind `caller`. Calls need no deadline: a server that hangs is ended. `on_corrupt` is called
    /// when a server breaks the protocol; it must not wait for the server's end.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        caller: Caller,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
    ) -> Result<MailChannel, AttachError> {
        let place = |number| MailPlace { number, ticket: NO_TICKET, is_doubtful: false };
        let channel = MailChannel {
            control: MailControlClient::new(caller),
            region: Region::new(REGION_BYTES)?,
            epoch: Mutex::new(&EPOCH, 0),
            free: Mutex::new(&FREE, (0..PLACES).map(place).collect()),
            returned: Event::new(),
            on_corrupt,
        };
        channel.attach_after(0)??;
        Ok(channel)
    }

    /// Attaches the region to a server that has none of `epoch`, unless another thread has done so.
    fn attach_after(&self, epoch: u64) -> Result<Result<(), AttachError>, Failure> {
        let mut last = self.epoch.lock();
        if *last != epoch {
            return Ok(Ok(()));
        }
        let result = self.control.call_attach(self.region.clone(), epoch + 1)?;
        if result.is_ok() {
            *last = epoch + 1;
        }
        Ok(result)
    }

    fn take_place(&self) -> MailPlace {
        loop {
            let ticket = self.returned.ticket();
            if let Some(place) = self.free.lock().pop() {
                return place;
            }
            self.returned.wait(ticket, None);
        }
    }

    fn return_place(&self, place: MailPlace) {
        self.free.lock().push(place);
        self.returned.signal();
    }
}

/// Sends a message again as long as the thread is kicked. Returns whether it was, and the result.
fn through<T>(kicked: &Cell<bool>, send: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        match send() {
            Err(Failure::Lost(Error::Cancelled)) => kicked.set(true),
            result => return result,
        }
    }
}

/// One exchange under way.
struct ExchangeRun<'c> {
    channel: &'c MailChannel,
    place: &'c mut MailPlace,
    /// The thread was kicked meanwhile, and its kick consumed.
    kicked: Cell<bool>,
}

impl ExchangeRun<'_> {
    /// Waits until the server has finished with a doubtful place.
    fn settle(&mut self) -> Result<(), Failure> {
        let exchange = self.exchange(*self.channel.epoch.lock(), NO_TICKET);
        match through(&self.kicked, || self.channel.control.call_fetch(exchange, 0)) {
            // The server that was at work with it is dead, if it is not this one.
            Ok(_) | Err(Failure::Lost(Error::Restarted)) => {
                self.place.is_doubtful = false;
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    fn exchange(&self, epoch: u64, ticket: u64) -> Exchange {
        Exchange { epoch, place: self.place.number, ticket }
    }

    /// Asks until there is an answer.
    fn run(&mut self, request: &[u8], again: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        if self.place.is_doubtful {
            self.settle()?;
        }
        self.place.ticket += 1;
        for _ in 0..ATTEMPTS {
            match self.attempt(request, answer) {
                Ok(()) => return Ok(()),
                Err(Trouble::Undone) => {}
                Err(Trouble::Died) if again == Again::OnRestart => {}
                Err(Trouble::Died) => break,
                Err(Trouble::Final(failure)) => {
                    self.place.is_doubtful = true;
                    return Err(failure);
                }
            }
        }
        Err(Failure::Lost(Error::Restarted))
    }

    fn attempt(&self, request: &[u8], answer: &mut Vec<u8>) -> Result<(), Trouble> {
        let epoch = *self.channel.epoch.lock();
        let exchange = self.exchange(epoch, self.place.ticket);
        let region = &self.channel.region;
        let place = place_of(region, exchange.place).ok_or(Failure::Malformed)?;
        let last = self.send_pieces(exchange, request)?;
        write(place, last);
        let was_kicked = self.kicked.replace(false);
        let called =
            through(&self.kicked, || self.channel.control.call_call(exchange, request.len()));
        // A message that was broken off may have been handled by a server that has died since.
        let is_sure = !self.kicked.get();
        self.kicked.set(was_kicked || !is_sure);
        let length = match called {
            Ok(Ok(length)) if length <= ANSWER_MAX => length,
            Ok(Err(MailError::Detached)) => {
                self.attach(epoch)?;
                return Err(if is_sure { Trouble::Undone } else { Trouble::Died });
            }
            Ok(Err(MailError::Unknown)) => return Err(Trouble::Undone),
            Ok(Ok(_) | Err(MailError::Malformed | MailError::Lost)) => {
                self.channel.report_corrupt();
                return Err(Trouble::Final(Failure::Malformed));
            }
            Err(Failure::Lost(Error::Restarted)) => return Err(Trouble::Died),
            Err(failure) => return Err(Trouble::Final(failure)),
        };
        self.take_answer(exchange, length, answer)
    }

    /// Sends all pieces of a request but the last, which is returned.
    fn send_pieces<'r>(&self, exchange: Exchange, request: &'r [u8]) -> Result<&'r [u8], Trouble> {
        let place = place_of(&self.channel.region, exchange.place).ok_or(Failure::Malformed)?;
        let (mut from, mut rest) = (0, request);
        while let Some((piece, behind)) = rest.split_at_checked(PLACE_BYTES)
            && !behind.is_empty()
        {
            write(place, piece);
            match through(&self.kicked, || self.channel.control.call_post(exchange, from)) {
                Ok(Ok(())) => {}
                Ok(Err(MailError::Detached)) => {
                    self.attach(exchange.epoch)?;
                    return Err(Trouble::Undone);
                }
                // A server whose message is lost has not got the whole request.
                Ok(Err(MailError::Unknown)) | Err(Failure::Lost(Error::Restarted)) => {
                    return Err(Trouble::Undone);
                }
                Ok(Err(_)) => return Err(Trouble::Final(Failure::Refused(Refusal::Malformed))),
                Err(failure) => return Err(Trouble::Final(failure)),
            }
            (from, rest) = (from + PLACE_BYTES, behind);
        }
        Ok(rest)
    }

    /// Copies an answer from the place, and has the server put it there piece by piece.
    fn take_answer(
        &self,
        exchange: Exchange,
        length: usize,
        answer: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        let place = place_of(&self.channel.region, exchange.place).ok_or(Failure::Malformed)?;
        answer.clear();
        answer.try_reserve_exact(length).map_err(|_| Failure::Lost(Error::Cancelled))?;
        read(place, length.min(PLACE_BYTES), answer);
        while answer.len() < length {
            let from = answer.len();
            match through(&self.kicked, || self.channel.control.call_fetch(exchange, from)) {
                Ok(Ok(same)) if same == length => {}
                // Another server does not have the answer of the one that died.
                Ok(Err(MailError::Detached | MailError::Unknown))
                | Err(Failure::Lost(Error::Restarted)) => return Err(Trouble::Died),
                Ok(_) => {
                    self.channel.report_corrupt();
                    return Err(Trouble::Final(Failure::Malformed));
                }
                Err(failure) => return Err(Trouble::Final(failure)),
            }
            read(place, (length - from).min(PLACE_BYTES), answer);
        }
        if length > PLACE_BYTES {
            // The server need not keep a long answer. If this is lost, it keeps it until the next one.
            let exchange = Exchange { ticket: NO_TICKET, ..exchange };
            let _ = through(&self.kicked, || self.channel.control.call_fetch(exchange, 0));
        }
        Ok(())
    }

    fn attach(&self, epoch: u64) -> Result<(), Trouble> {
        match through(&self.kicked, || self.channel.attach_after(epoch)) {
            Ok(Ok(())) => Ok(()),
            // The next attempt finds out more.
            Err(Failure::Lost(Error::Restarted)) => Err(Trouble::Undone),
            Ok(Err(_)) => Err(Trouble::Final(Failure::Malformed)),
            Err(failure) => Err(Trouble::Final(failure)),
        }
    }
}

impl ControlChannel for MailChannel {
    fn exchange(&self, request: &[u8], again: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        if request.len() > REQUEST_MAX {
            return Err(Failure::Refused(Refusal::Malformed));
        }
        let mut place = self.take_place();
        let mut under_way =
            ExchangeRun { channel: self, place: &mut place, kicked: Cell::new(false) };
        let result = under_way.run(request, again, answer);
        let was_kicked = under_way.kicked.get();
        self.return_place(place);
        if was_kicked {
            // The thread still has to see to its signals.
            thread::kick(thread::current());
        }
        result
    }
    fn report_corrupt(&self) {
        (self.on_corrupt)();
    }
}

impl core::fmt::Debug for MailChannel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MailChannel").finish_non_exhaustive()
    }
}
