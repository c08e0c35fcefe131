//! A handshake between two ends of this host within one call: no request waits for its acknowledgement.
use super::{Context, Cookies, Listener};
use crate::{
    connection::Connection,
    wire::secret::{Flow, OwnNumbers},
};
use alloc::boxed::Box;

impl Listener {
    /// Returns whether a SYN of `flow` whose sender acknowledges the answer at once would make a child. Otherwise the segments show
    /// what becomes of it.
    pub fn would_open(&self, flow: &Flow) -> bool {
        !self.is_full()
            && self.requests.len() < self.settings.backlog.max(1)
            && self.settings.cookies != Cookies::Always
            && self.settings.defer_timeouts == 0
            && !self.requests.contains_key(flow)
    }

    /// Opens the connection of `client`, whose SYN this listener would get, as SYN, SYN-ACK and acknowledgement would do. Returns the
    /// child, which waits in the accept queue, and the bytes of the options of the three segments. `None`, and nothing has changed, if
    /// `client` is to send more than a SYN, or [`Listener::would_open`] is false.
    pub fn open(
        &mut self,
        context: &Context<'_>,
        numbers: OwnNumbers,
        client: &mut Connection,
    ) -> Option<(Box<Connection>, u64)> {
        if !self.would_open(&context.flow) {
            return None;
        }
        let now_ns = context.now_ns;
        let syn = client.give_syn(now_ns)?;
        let OwnNumbers { iss, clock_offset } = numbers;
        let settings = &self.settings.child;
        let mut child = Connection::answer(now_ns, settings, &syn, iss, clock_offset, context.room);
        let syn_ack = child.give_syn_ack(now_ns);
        let ack = client.take_syn_ack(now_ns, &syn_ack);
        child.take_last_of_open(now_ns, &ack);
        self.ready.push_back(context.flow);
        let options = [&syn, &syn_ack, &ack].map(|one| u64::from(one.options.encoded_len()));
        Some((child, options.iter().sum()))
    }
}
