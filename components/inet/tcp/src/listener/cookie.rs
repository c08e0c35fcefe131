//! SYN cookies (RFC 4987 section 3.6): a connection whose half-open state is in the numbers that the peer returns.
//!
//! The sequence number holds the MSS. The low six bits of the timestamp hold window scale, SACK and ECN, as on Linux.
use super::{Context, Listener, ListenerReply, request::HalfOpen};
use crate::{
    clock::{SECOND, tick},
    wire::segment::{SegmentOptions, TcpFlags, TcpSegment, Timestamps},
};

/// The segment sizes that a cookie can hold.
const SIZES: [u16; 8] = [536, 1200, 1300, 1380, 1440, 1460, 4312, 8940];
/// Time after the last cookie for which cookies are accepted.
const COOKIE_LIFE_NS: u64 = 120 * SECOND;
/// The bits of a timestamp that hold options.
const OPTION_BITS: u32 = 0x3f;
const SCALE_BITS: u32 = 0xf;
const SACK_BIT: u32 = 0x10;
const ECN_BIT: u32 = 0x20;

impl Listener {
    /// Answers a SYN without state.
    pub(super) fn answer_by_cookie(
        &mut self,
        context: &Context<'_>,
        syn: &TcpSegment,
    ) -> ListenerReply {
        self.cookies_until_ns = context.now_ns.saturating_add(COOKIE_LIFE_NS);
        let size = syn.options.mss.unwrap_or(536);
        let index = SIZES.iter().rposition(|one| *one <= size).unwrap_or(0) as u32;
        let iss = context.secret.syn_cookie(&context.flow, syn.seq, context.now_ns, index);
        let offset = context.secret.timestamps_offset(&context.flow);
        let mut syn = *syn;
        if syn.options.timestamps.is_none() || !self.settings.child.timestamps {
            // Only the timestamp can hold these.
            syn.options.wscale = None;
            syn.options.sack_permitted = false;
            syn.flags.remove(TcpFlags::ECE | TcpFlags::CWR);
        }
        let request = HalfOpen::new(context, &syn, iss, offset, None);
        let mut segment = request.syn_ack(context.now_ns, &self.settings.child);
        if let Some(clock) = &mut segment.options.timestamps {
            clock.value = encode(tick(context.now_ns), &syn).wrapping_add(offset);
        }
        ListenerReply::Send(segment)
    }

    /// Makes a child of an acknowledgement that returns a SYN cookie.
    pub(super) fn input_cookie(
        &mut self,
        context: &Context<'_>,
        segment: &TcpSegment,
    ) -> ListenerReply {
        let reset = || segment.reset_reply().map_or(ListenerReply::Drop, ListenerReply::Send);
        if segment.has(TcpFlags::SYN) || context.now_ns > self.cookies_until_ns {
            return reset();
        }
        let (irs, iss) = (segment.seq.wrapping_sub(1), segment.ack.wrapping_sub(1));
        let data = context.secret.cookie_data(&context.flow, irs, context.now_ns, iss);
        let Some(mss) = data.and_then(|index| SIZES.get(index as usize)) else { return reset() };
        if self.is_full() {
            return ListenerReply::Drop;
        }
        let offset = context.secret.timestamps_offset(&context.flow);
        let syn = decode(segment, *mss, offset);
        let request = HalfOpen::new(context, &syn, iss, offset, None);
        let mut child = request.connection(&self.settings.child);
        // The time of the SYN-ACK is unknown: as a repeated one it gives no round-trip time.
        child.note_syn_ack(context.now_ns, Some(context.now_ns));
        let arrival = child.input(context.now_ns, segment, context.room);
        self.ready.push_back(context.flow);
        ListenerReply::Child(child, arrival)
    }
}

/// The clock of a SYN-ACK with the SYN's options in its low bits. It is not later than `now`.
fn encode(now: u32, syn: &TcpSegment) -> u32 {
    let mut bits = syn.options.wscale.map_or(SCALE_BITS, |scale| u32::from(scale.min(14)));
    if syn.options.sack_permitted {
        bits |= SACK_BIT;
    }
    if syn.flags.contains(TcpFlags::ECE | TcpFlags::CWR) {
        bits |= ECN_BIT;
    }
    let clock = now & !OPTION_BITS | bits;
    if clock > now { clock.wrapping_sub(OPTION_BITS + 1) } else { clock }
}

/// The SYN that a cookie stands for.
fn decode(segment: &TcpSegment, mss: u16, offset: u32) -> TcpSegment {
    let mut flags = TcpFlags::SYN;
    let mut options = SegmentOptions { mss: Some(mss), ..SegmentOptions::default() };
    if let Some(clock) = segment.options.timestamps {
        let bits = clock.echo.wrapping_sub(offset);
        let scale = bits & SCALE_BITS;
        options.wscale = (scale != SCALE_BITS).then_some(scale as u8);
        options.sack_permitted = bits & SACK_BIT != 0;
        options.timestamps = Some(Timestamps { value: clock.value, echo: 0 });
        flags.set(TcpFlags::ECE | TcpFlags::CWR, bits & ECN_BIT != 0);
    }
    let window = segment.window;
    TcpSegment { seq: segment.seq.wrapping_sub(1), flags, window, options, ..TcpSegment::default() }
}
