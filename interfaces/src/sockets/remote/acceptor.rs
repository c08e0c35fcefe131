//! [`FarAcceptor`]: the stack's side of a listener whose client is in another world.
use super::{
    cells::Record,
    kinds::back,
    sender::RecordSender,
    server::{Ends, ServedStream},
};
use crate::{
    marshal::Marshal,
    sockets::{Acceptor, EndNumber, FarEnd, ReadReport, Stream, StreamSocket},
};
use alloc::sync::Arc;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static REPORT = "network.listener";
}

/// The client of a listener, as the stack sees it. The stack numbers the streams of connections itself, because it must not wait.
pub(crate) struct FarAcceptor {
    listener: EndNumber,
    ends: Arc<Ends>,
    post: Arc<RecordSender>,
    /// The memory that a connection's received bytes may hold until the client says it.
    report: Mutex<ReadReport>,
}

impl FarAcceptor {
    pub(crate) fn new(
        listener: EndNumber,
        (ends, post): (Arc<Ends>, Arc<RecordSender>),
        report: ReadReport,
    ) -> FarAcceptor {
        let report = ReadReport { read: 0, received: 0, held: 0, ..report };
        FarAcceptor { listener, ends, post, report: Mutex::new(&REPORT, report) }
    }
}

impl Acceptor for FarAcceptor {
    fn stream(&self) -> Option<Arc<Stream>> {
        let number = self.ends.next_of_stack();
        let stream = Arc::new(Stream::at_stack(FarEnd::new(number, self.post.clone())));
        stream.note_reads(&self.report.lock());
        self.ends.add_stream(number, ServedStream { stream: Arc::clone(&stream), socket: None });
        self.post.tell(back::MADE, number.0, self.listener.0.into());
        Some(stream)
    }
    fn arrived(&self, stream: Arc<Stream>, socket: Arc<dyn StreamSocket>) {
        let Some(number) = stream.end_number() else { return };
        let names = (socket.local(), socket.peer());
        if !self.ends.set_socket(number, &socket) {
            // The client has refused the connection meanwhile.
            return;
        }
        self.post.send(|outbox, body| {
            names.put(body);
            let (kind, number, value) = (back::ARRIVED, number.0, self.listener.0.into());
            outbox.put(&Record { kind, number, value, body, ..Record::default() });
        });
    }
}
