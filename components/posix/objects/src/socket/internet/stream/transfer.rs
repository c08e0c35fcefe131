//! Sending and receiving bytes.
use super::{InternetStream, StreamPhase, UnsentShare};
use crate::{
    pipe::broken_pipe,
    socket::{
        common::wait,
        interface::{Receive, Received, ReceivedControl, Send, Shut},
        internet::{network::errno, settings::Flags},
    },
};
use core::sync::atomic::Ordering;
use interfaces::sockets::{MoreData, Stream, StreamState};
use linux_raw_sys::net;
use vfs::{
    Errno,
    io::{Sink, Source},
};

/// Bytes that are copied before the stack is told of them, so that it sends the first while the next are copied.
const STEP: usize = 64 << 10;

/// The reason why a read of available bytes ended.
enum ReadEnd {
    /// There are no more.
    Empty,
    /// The next byte is urgent, or the room is used up.
    Stop,
}

impl InternetStream {
    /// Sends the bytes of `source`. Returns the number of bytes sent.
    ///
    /// # Errors
    /// `EPIPE` (with a signal), the error for which the connection ended, `EAGAIN`, `EFAULT`, and for a signal `EINTR` or a restart.
    pub(super) fn send_bytes(&self, source: &mut dyn Source, how: Send) -> Result<usize, Errno> {
        self.send_rest(source, how, 0)
    }
    /// Does the same after `sent` bytes were sent.
    pub(super) fn send_rest(
        &self,
        source: &mut dyn Source,
        how: Send,
        mut sent: usize,
    ) -> Result<usize, Errno> {
        let result = self.send_steps(source, how, &mut sent);
        if sent > 0 && how.is_urgent {
            self.socket().mark_urgent();
        }
        if sent > 0 && how.is_zero_copy && self.common.options.is_kept(net::SO_ZEROCOPY) {
            self.notices.complete();
            self.wakes.arrived.wake();
        }
        match result {
            _ if sent > 0 => Ok(sent),
            Ok(()) => Ok(0),
            Err(Errno::EPIPE) => {
                if !how.is_silent {
                    broken_pipe(source.caller());
                }
                Err(Errno::EPIPE)
            }
            Err(error) => Err(error),
        }
    }
    fn send_steps(
        &self,
        source: &mut dyn Source,
        how: Send,
        sent: &mut usize,
    ) -> Result<(), Errno> {
        let stream = self.stream();
        let mut timeout = None;
        loop {
            let ticket = self.wakes.room.ticket();
            let state = stream.state();
            if self.may_send(&stream, state)? {
                if source.remaining() == 0 {
                    return Ok(());
                }
                let has_room = self.has_unsent_room(UnsentShare::Whole);
                let count = if has_room { self.put_bytes(&stream, source)? } else { 0 };
                if count > 0 {
                    *sent += count;
                    let follows = how.is_more || how.is_urgent && source.remaining() == 0;
                    self.socket().written(if follows { MoreData::Soon } else { MoreData::No });
                    if source.remaining() == 0 {
                        return Ok(());
                    }
                    continue;
                }
                self.grow_send_limit();
                if has_room && stream.room() > 0 {
                    continue;
                }
            }
            if self.phase() == StreamPhase::Deferred {
                *sent += self.send_deferred(source, how)?;
                if source.remaining() == 0 {
                    return Ok(());
                }
                continue;
            }
            if how.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            let timeout = *timeout.get_or_insert_with(|| self.common.send_deadline());
            wait(&self.wakes.room, ticket, timeout)?;
        }
    }
    /// Returns whether bytes can be sent now, or `false` if the connection is not established yet.
    ///
    /// # Errors
    /// The error for which the connection ended, `EPIPE`.
    #[inline]
    fn may_send(&self, stream: &Stream, state: StreamState) -> Result<bool, Errno> {
        let is_open = state.contains(StreamState::CONNECTED)
            && !state.contains(StreamState::SEND_ENDED)
            && !self.shut().contains(Shut::SEND);
        if is_open {
            return Ok(true);
        }
        match stream.take_error() {
            Some(error) => Err(errno(error)),
            None if self.is_connecting(state) && !self.shut().contains(Shut::SEND) => Ok(false),
            None => Err(Errno::EPIPE),
        }
    }
    /// Appends bytes of `source` to the stream, as many as there is room for, but not more than a step. Frames that the source can
    /// share are not copied.
    fn put_bytes(&self, stream: &Stream, source: &mut dyn Source) -> Result<usize, Errno> {
        let most = source.remaining().min(STEP);
        if source.shares_frames() {
            return Ok(stream.write_shared(most, |room, take| source.share(room, take))?);
        }
        stream.write(most, |frames, offset, length| source.take_into_frames(frames, offset, length))
    }

    /// Receives into `sink`.
    ///
    /// # Errors
    /// `ENOTCONN`, the error for which the connection ended, `EAGAIN`, `EFAULT`, `EINVAL` for an urgent byte that is not there, and
    /// for a signal `EINTR` or a restart.
    pub(super) fn receive_bytes(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
    ) -> Result<Received, Errno> {
        if self.phase() == StreamPhase::Listening {
            return Err(Errno::ENOTCONN);
        }
        if how.is_urgent {
            return self.receive_urgent(sink, how);
        }
        let room = sink.remaining();
        let least = self.common.options.low_water.load(Ordering::Relaxed);
        let least = usize::try_from(least).unwrap_or(1);
        let wanted = if how.is_whole { room } else { least.min(room) }.max(1);
        let stream = self.stream();
        let (mut done, mut timeout) = (0, None);
        loop {
            let ticket = self.wakes.arrived.ticket();
            match self.take_bytes(&stream, (sink, room - done.min(room)), how, &mut done) {
                Ok(ReadEnd::Empty) => {}
                Ok(ReadEnd::Stop) => break,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if done >= wanted || done > 0 && stream.has_error() {
                break;
            }
            match self.end_of_bytes(&stream) {
                Some(Err(error)) if done == 0 => return Err(error),
                Some(_) => break,
                None if room == 0 && stream.readable() > 0 => break,
                None => {}
            }
            if how.is_nonblocking {
                if done == 0 {
                    return Err(Errno::EAGAIN);
                }
                break;
            }
            let timeout = *timeout.get_or_insert_with(|| self.common.receive_deadline());
            match wait(&self.wakes.arrived, ticket, timeout) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
        }
        let mut found = Received { count: done, length: done, ..Received::default() };
        if self.has_flag(Flags::UNREAD) {
            found.control.push(self.unread(&stream));
        }
        Ok(found)
    }
    /// Returns the message that tells the bytes left to read (TCP_INQ); 1 if there is the end alone.
    #[cold]
    fn unread(&self, stream: &Stream) -> ReceivedControl {
        let has_end = stream.state().contains(StreamState::RECEIVE_ENDED);
        let left = u32::try_from(stream.readable()).unwrap_or(u32::MAX);
        let left = if left == 0 && has_end { 1 } else { left };
        ReceivedControl::new(net::IPPROTO_TCP as u32, net::TCP_CM_INQ, &left.to_le_bytes())
    }
    /// Moves available bytes to `sink`, or looks at them, and adds their number to `done`.
    #[inline]
    fn take_bytes(
        &self,
        stream: &Stream,
        (sink, room): (&mut dyn Sink, usize),
        how: Receive,
        done: &mut usize,
    ) -> Result<ReadEnd, Errno> {
        let mut most = room;
        if let Some(mark) = self.urgent_mark() {
            match self.before_mark(stream, mark, how, *done) {
                Some(0) => return Ok(ReadEnd::Stop),
                Some(before) => most = most.min(before),
                None => {}
            }
        }
        if most == 0 {
            return Ok(ReadEnd::Empty);
        }
        if how.is_peek {
            // Nothing was looked at where a part does not go whole into the program's memory, as on Linux.
            *done += stream.peek((*done, most), |frame, offset, length| {
                let count = sink.put_frame(frame, offset, length)?;
                if count < length { Err(Errno::EFAULT) } else { Ok(count) }
            })?;
        } else {
            let count = match how.is_discarding {
                true => stream.read(most, |_, _, length| Ok::<usize, Errno>(length))?,
                false => stream.read_frames(most, |frames, offset, length| {
                    sink.put_frames(frames, offset, length)
                })?,
            };
            if count > 0 {
                *done += count;
                self.tell_read(stream);
            }
        }
        Ok(if *done > 0 && most < room { ReadEnd::Stop } else { ReadEnd::Empty })
    }
    /// Tells the stack of a read, if it waits for that.
    #[inline]
    fn tell_read(&self, stream: &Stream) {
        if stream.is_read_awaited() {
            self.socket().read();
        }
    }
    /// Returns the place of the urgent byte, if there is one that was not read past.
    #[inline]
    fn urgent_mark(&self) -> Option<u64> {
        self.wakes.urgent_mark(|| self.socket().urgent_mark())
    }
    /// Returns the number of bytes before the urgent one that a call may read, of which it has read `done`; `None` if the urgent
    /// byte does not stop it. A call that begins at the mark passes over that byte, unless it is wanted in the stream.
    #[cold]
    fn before_mark(&self, stream: &Stream, mark: u64, how: Receive, done: usize) -> Option<usize> {
        let at = stream.counters().read + if how.is_peek { done as u64 } else { 0 };
        if at < mark {
            return Some((mark - at) as usize);
        }
        if done > 0 && at == mark {
            return Some(0);
        }
        let is_inline = self.common.options.is_kept(net::SO_OOBINLINE);
        if at == mark && !is_inline && !how.is_peek {
            let skipped = stream.read(1, |_, _, length| Ok::<usize, Errno>(length));
            if skipped == Ok(1) {
                self.tell_read(stream);
            }
        }
        None
    }
    /// Called when there are no bytes: returns the error, or the end of the stream, if none will come.
    fn end_of_bytes(&self, stream: &Stream) -> Option<Result<(), Errno>> {
        let state = stream.state();
        if state.contains(StreamState::SEND_ENDED)
            && let Some(error) = self.error_after_bytes(stream)
        {
            return Some(Err(error));
        }
        if self.ends(state).contains(Shut::RECEIVE) {
            // Bytes may have come before the end, after the caller looked.
            return (stream.readable() == 0 || self.shut().contains(Shut::RECEIVE))
                .then_some(Ok(()));
        }
        let is_linked = state.contains(StreamState::CONNECTED) || self.is_connecting(state);
        if is_linked { None } else { Some(Err(Errno::ENOTCONN)) }
    }
    fn error_after_bytes(&self, stream: &Stream) -> Option<Errno> {
        if stream.readable() > 0 { None } else { stream.take_error().map(errno) }
    }
    /// Receives the urgent byte (MSG_OOB).
    ///
    /// # Errors
    /// `EINVAL` if there is none, or if it was taken, or stands in the stream; `EAGAIN` if it has not come yet; `ENOTCONN`.
    fn receive_urgent(&self, sink: &mut dyn Sink, how: Receive) -> Result<Received, Errno> {
        let stream = self.stream();
        let is_inline = self.common.options.is_kept(net::SO_OOBINLINE);
        let mark = self.urgent_mark().filter(|_| !is_inline);
        let mark = mark.filter(|mark| self.urgent_taken.load(Ordering::Relaxed) != mark + 1);
        let mark = mark.ok_or(Errno::EINVAL)?;
        let skip = mark.checked_sub(stream.counters().read).ok_or(Errno::EINVAL)?;
        let mut found = Received { flags: net::MSG_OOB, length: 1, ..Received::default() };
        if stream.readable() as u64 <= skip {
            let is_over = self.ends(stream.state()).contains(Shut::RECEIVE);
            return if is_over { Ok(Received::default()) } else { Err(Errno::EAGAIN) };
        }
        if sink.remaining() > 0 {
            found.count = stream.peek((skip as usize, 1), |frame, offset, length| {
                sink.put_frame(frame, offset, length)
            })?;
        }
        if !how.is_peek {
            self.urgent_taken.store(mark + 1, Ordering::Relaxed);
        }
        Ok(found)
    }
    /// Returns whether an urgent byte can be received with MSG_OOB, or stands ahead in the stream (POLLPRI).
    pub(super) fn has_urgent_byte(&self) -> bool {
        let mark = self.urgent_mark();
        mark.is_some_and(|mark| self.urgent_taken.load(Ordering::Relaxed) != mark + 1)
    }
    /// Returns the number of bytes that the next read can return (FIONREAD): those before the urgent byte, unless it stands in the
    /// stream.
    pub(super) fn readable_before_mark(&self) -> usize {
        let stream = self.stream();
        let readable = stream.readable();
        if self.common.options.is_kept(net::SO_OOBINLINE) {
            return readable;
        }
        let Some(mark) = self.urgent_mark() else { return readable };
        match mark.checked_sub(stream.counters().read) {
            // The byte at the mark is passed over.
            Some(0) => readable.saturating_sub(1),
            Some(before) => readable.min(before as usize),
            None => readable,
        }
    }
    /// Returns whether the next byte is the urgent one (SIOCATMARK).
    pub(super) fn is_at_mark(&self) -> bool {
        let mark = self.urgent_mark();
        mark.is_some_and(|mark| mark == self.stream().counters().read)
    }
}
