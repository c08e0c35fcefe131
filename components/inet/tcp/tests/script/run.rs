//! The machine that runs a packet script: sockets of one host, peers by number, virtual time.
use crate::script::parse::{Action, Line, Wire, cookie, number, parse, seconds};
use labels::SecrecyId;
use std::collections::{BTreeMap, VecDeque};
use tcp::*;

const START_NS: u64 = 1000 * clock::SECOND;
/// Tolerance of times, in nanoseconds.
const TOLERANCE_NS: u64 = clock::MILLISECOND;

type Outcome = Result<(), String>;

/// The local side of one peer.
enum Socket {
    Open(Box<Connection>),
    TimeWait(TimeWait),
}

/// The state of one peer.
#[derive(Default)]
struct Peer {
    socket: Option<Socket>,
    iss: u32,
    last_clock: u32,
    /// The window of its last segment, which later ones repeat.
    window: Option<u16>,
    events: TcpEvents,
    error: Option<TcpError>,
    cookie: Option<FastOpenCookie>,
}

struct Machine {
    now_ns: u64,
    secret: Secret,
    settings: Settings,
    listening: ListenerSettings,
    listener: Option<Listener>,
    peers: BTreeMap<u16, Peer>,
    current: u16,
    room: u64,
    limit: u32,
    peer_isn: u32,
    sent: VecDeque<(u64, u16, Outgoing)>,
    icmp_errors: u32,
}

/// Runs a script.
pub fn run(text: &str) -> Outcome {
    let mut machine = Machine::new();
    for line in parse(text)? {
        machine.line(&line).map_err(|fault| format!("line {}: {fault}", line.number))?;
    }
    machine.expect_silence()
}

fn flow(peer: u16) -> Flow {
    Flow {
        local: [1; 16],
        remote: [2; 16],
        local_port: 80,
        remote_port: 1000 + peer,
        label: SecrecyId::NONE,
    }
}

/// A segment in the syntax of scripts.
fn show(segment: &TcpSegment) -> String {
    let names = ["F", "S", "R", "P", ".", "U", "E", "W"];
    let flags: String = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| segment.flags.bits() >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect();
    let (seq, length) = (segment.seq.cast_signed(), segment.length);
    let end = i64::from(seq) + i64::from(length);
    let mut text = format!("{flags} {seq}:{end}({length})");
    if segment.has(TcpFlags::ACK) {
        text += &format!(" ack {}", segment.ack.cast_signed());
    }
    text += &format!(" win {}", segment.window);
    if segment.has(TcpFlags::URG) {
        text += &format!(" urg {}", segment.urgent);
    }
    let options = &segment.options;
    let mut all = Vec::new();
    all.extend(options.mss.map(|mss| format!("mss {mss}")));
    all.extend(options.sack_permitted.then(|| "sackOK".to_owned()));
    all.extend(options.timestamps.map(|clock| {
        format!("TS val {} ecr {}", clock.value.cast_signed(), clock.echo.cast_signed())
    }));
    all.extend(options.wscale.map(|scale| format!("wscale {scale}")));
    if !options.sack.is_empty() {
        let blocks: Vec<_> =
            options.sack.iter().map(|(start, end)| format!("{start}:{end}")).collect();
        all.push(format!("sack {}", blocks.join(" ")));
    }
    all.extend(options.fast_open.map(|cookie| format!("FO {:02x?}", cookie.bytes())));
    text + &format!(" <{}>", all.join(","))
}

impl Machine {
    fn new() -> Machine {
        let settings = Settings { ecn: Ecn::Off, ..Settings::default() };
        Machine {
            now_ns: START_NS,
            secret: Secret::new([7; 16]),
            settings,
            listening: ListenerSettings { child: settings, ..ListenerSettings::default() },
            listener: None,
            peers: BTreeMap::new(),
            current: 1,
            room: 65535,
            limit: 1,
            peer_isn: 0x7000_0000,
            sent: VecDeque::new(),
            icmp_errors: 0,
        }
    }

    fn line(&mut self, line: &Line) -> Outcome {
        match &line.action {
            Action::Leave(wire) => self.leave(line.after_ns, wire),
            Action::Arrive(wire) => {
                self.advance(line.after_ns)?;
                self.arrive(wire);
                Ok(())
            }
            Action::Call(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                if let ["drain", time] = words.as_slice() {
                    let end = self.now_ns + seconds(time)?;
                    self.run_until(end, None);
                    self.now_ns = end;
                    self.sent.clear();
                    return Ok(());
                }
                self.advance(line.after_ns)?;
                self.call(&words)
            }
        }
    }

    fn peer(&mut self, number: u16) -> &mut Peer {
        self.peers.entry(number).or_default()
    }

    fn expect_silence(&self) -> Outcome {
        match self.sent.front() {
            None => Ok(()),
            Some((at, peer, outgoing)) => {
                let text = self.show(*peer, &outgoing.segment);
                Err(format!("unexpected at +{}: {text}", self.show_time(*at)))
            }
        }
    }

    fn show_time(&self, at: u64) -> f64 {
        (at as f64 - self.now_ns as f64) / 1e9
    }

    fn advance(&mut self, after_ns: u64) -> Outcome {
        self.expect_silence()?;
        let end = self.now_ns + after_ns;
        if after_ns > 0 {
            self.run_until(end, Some(1));
        }
        self.expect_silence()?;
        self.now_ns = end;
        Ok(())
    }

    /// Runs the timers up to `end`, or until so many segments wait.
    fn run_until(&mut self, end: u64, most: Option<usize>) {
        let start = self.now_ns;
        for _ in 0..100_000 {
            if most.is_some_and(|most| self.sent.len() >= most) {
                break;
            }
            let sockets = self.peers.values().filter_map(|peer| match &peer.socket {
                Some(Socket::Open(connection)) => connection.deadline(),
                Some(Socket::TimeWait(wait)) => Some(wait.deadline()),
                None => None,
            });
            let listener = self.listener.as_ref().and_then(Listener::deadline);
            let Some(next) = sockets.chain(listener).min().filter(|at| *at <= end) else { break };
            self.now_ns = next.max(self.now_ns);
            self.expire();
        }
        self.now_ns = start;
    }

    fn expire(&mut self) {
        let now = self.now_ns;
        for peer in self.peers.values_mut() {
            match &mut peer.socket {
                Some(Socket::Open(connection)) => peer.events |= connection.expired(now),
                Some(Socket::TimeWait(wait)) if wait.deadline() <= now => peer.socket = None,
                _ => {}
            }
        }
        while let Some((to, segment)) = self.listener.as_mut().and_then(|one| one.output(now)) {
            self.send_bare(to.remote_port - 1000, segment);
        }
        self.flush();
    }

    /// Takes what all connections send, and buries those that ended.
    fn flush(&mut self) {
        let (now, limit) = (self.now_ns, self.limit);
        for (number, peer) in &mut self.peers {
            let Some(Socket::Open(connection)) = &mut peer.socket else { continue };
            while let Some(outgoing) = connection.output(now, limit) {
                if outgoing.segment.has(TcpFlags::SYN) {
                    peer.iss = outgoing.segment.seq;
                }
                if let Some(clock) = outgoing.segment.options.timestamps {
                    peer.last_clock = clock.value;
                }
                self.sent.push_back((now, *number, outgoing));
            }
            peer.error = connection.error().or(peer.error);
            peer.cookie = connection.fast_open_cookie().or(peer.cookie);
            match connection.state() {
                TcpState::Closed => peer.socket = None,
                TcpState::TimeWait => peer.socket = connection.time_wait().map(Socket::TimeWait),
                _ => {}
            }
        }
    }

    fn send_bare(&mut self, number: u16, segment: TcpSegment) {
        let peer = self.peer(number);
        if segment.has(TcpFlags::SYN) {
            peer.iss = segment.seq;
        }
        if let Some(clock) = segment.options.timestamps {
            peer.last_clock = clock.value;
        }
        let outgoing = Outgoing { segment, payload: 0..0, mss: 0, is_ecn_capable: false };
        self.sent.push_back((self.now_ns, number, outgoing));
    }

    fn arrive(&mut self, wire: &Wire) {
        let isn = self.peer_isn;
        let offset = self.secret.timestamps_offset(&flow(wire.peer));
        let right = self.secret.fast_open_cookie(&flow(wire.peer));
        let peer = self.peer(wire.peer);
        let mut segment = wire.segment;
        segment.seq = segment.seq.wrapping_add(isn);
        if !wire.has_window {
            segment.window = peer.window.unwrap_or(u16::MAX);
        }
        peer.window = Some(segment.window);
        if segment.has(TcpFlags::ACK) {
            segment.ack = segment.ack.wrapping_add(peer.iss);
            let mut blocks = SackBlocks::default();
            for (start, end) in segment.options.sack.iter() {
                blocks.push(start.wrapping_add(peer.iss), end.wrapping_add(peer.iss));
            }
            segment.options.sack = blocks;
        }
        if wire.right_cookie {
            segment.options.fast_open = Some(right);
        }
        if let Some(clock) = &mut segment.options.timestamps {
            let is_first = segment.flags == TcpFlags::SYN;
            let given =
                if wire.has_echo { clock.echo.wrapping_add(offset) } else { peer.last_clock };
            clock.echo = if is_first { 0 } else { given };
        }
        self.deliver(wire.peer, &segment);
        self.flush();
    }

    fn deliver(&mut self, number: u16, segment: &TcpSegment) {
        let (now, capacity) = (self.now_ns, self.room);
        let mut iss = None;
        let peer = self.peers.entry(number).or_default();
        match &mut peer.socket {
            Some(Socket::Open(connection)) => {
                let unread = connection.received() - connection.read();
                let room = capacity.saturating_sub(unread);
                peer.events |= connection.input(now, segment, room).events;
                return;
            }
            Some(Socket::TimeWait(wait)) => match wait.input(now, segment) {
                TimeWaitReply::Drop => return,
                TimeWaitReply::Acknowledge(ack) => return self.send_bare(number, ack),
                TimeWaitReply::Close => {
                    peer.socket = None;
                    return;
                }
                TimeWaitReply::Reuse(first) => {
                    peer.socket = None;
                    iss = Some(first);
                }
            },
            None => {}
        }
        let context = Context {
            now_ns: now,
            flow: flow(number),
            secret: &self.secret,
            room: capacity,
            headers: None,
        };
        let reply = match &mut self.listener {
            Some(listener) => listener.input(&context, segment, iss),
            None => segment.reset_reply().map_or(ListenerReply::Drop, ListenerReply::Send),
        };
        match reply {
            ListenerReply::Drop => {}
            ListenerReply::Send(reply) => self.send_bare(number, reply),
            ListenerReply::Child(child, arrival) => {
                let peer = self.peer(number);
                peer.socket = Some(Socket::Open(child));
                peer.events |= arrival.events;
            }
        }
    }

    /// Expects a segment at a time.
    fn leave(&mut self, after_ns: u64, wire: &Wire) -> Outcome {
        let due = self.now_ns + after_ns;
        if self.sent.is_empty() {
            self.run_until(due + wire.within_ns + TOLERANCE_NS, Some(1));
        }
        let wanted = self.show_wanted(wire);
        let Some((at, number, outgoing)) = self.sent.pop_front() else {
            return Err(format!("nothing sent, expected {wanted}"));
        };
        let text = self.show(number, &outgoing.segment);
        if at + TOLERANCE_NS < due || at > due + wire.within_ns + TOLERANCE_NS {
            let time = self.show_time(at);
            return Err(format!("sent at +{time}: {text}, expected {wanted}"));
        }
        self.now_ns = at;
        if number != wire.peer || !self.matches(wire, &outgoing) {
            return Err(format!("sent {text} to peer {number}, expected {wanted}"));
        }
        Ok(())
    }

    fn show_wanted(&self, wire: &Wire) -> String {
        show(&wire.segment)
    }

    /// The segment with relative numbers.
    fn relative(&self, number: u16, segment: &TcpSegment) -> TcpSegment {
        let mut segment = *segment;
        let iss = self.peers.get(&number).map_or(0, |peer| peer.iss);
        let offset = self.secret.timestamps_offset(&flow(number));
        // A reset that answers a segment without ACK has the absolute number 0.
        if segment.seq != 0 || !segment.has(TcpFlags::RST) {
            segment.seq = segment.seq.wrapping_sub(iss);
        }
        if segment.has(TcpFlags::ACK) {
            segment.ack = segment.ack.wrapping_sub(self.peer_isn);
        }
        let mut blocks = SackBlocks::default();
        for (start, end) in segment.options.sack.iter() {
            blocks.push(start.wrapping_sub(self.peer_isn), end.wrapping_sub(self.peer_isn));
        }
        segment.options.sack = blocks;
        if let Some(clock) = &mut segment.options.timestamps {
            clock.value = clock
                .value
                .wrapping_sub(offset)
                .wrapping_sub((START_NS / clock::MILLISECOND) as u32);
        }
        segment
    }

    fn show(&self, number: u16, segment: &TcpSegment) -> String {
        show(&self.relative(number, segment))
    }

    fn matches(&self, wire: &Wire, outgoing: &Outgoing) -> bool {
        let mut got = self.relative(wire.peer, &outgoing.segment);
        let want = &wire.segment;
        if !wire.has_window {
            got.window = want.window;
        }
        if !wire.has_options {
            got.options = want.options;
        }
        if wire.any_cookie && got.options.fast_open.take().is_none_or(|cookie| cookie.is_request())
        {
            return false;
        }
        if let (Some(got), Some(want)) = (&mut got.options.timestamps, want.options.timestamps) {
            if !wire.has_value {
                got.value = want.value;
            }
            if !wire.has_echo {
                got.echo = want.echo;
            }
        }
        let is_capable = wire.is_capable.unwrap_or(outgoing.is_ecn_capable);
        got == *want
            && is_capable == outgoing.is_ecn_capable
            && outgoing.payload.end - outgoing.payload.start == u64::from(want.length)
    }

    fn connection(&mut self) -> Result<&mut Connection, String> {
        let current = self.current;
        match &mut self.peer(current).socket {
            Some(Socket::Open(connection)) => Ok(connection),
            _ => Err("no connection".to_owned()),
        }
    }

    fn call(&mut self, words: &[&str]) -> Outcome {
        match words {
            ["option", rest @ ..] => rest.iter().try_for_each(|one| self.option(one))?,
            ["peer", number] => self.current = number.parse().map_err(|_| "bad peer")?,
            ["nothing"] => {}
            ["establish", rest @ ..] => self.establish(rest)?,
            ["expect", rest @ ..] => return self.expect(rest),
            ["connect", rest @ ..] => self.connect(rest)?,
            ["listen"] => self.listener = Some(Listener::new(self.listening)),
            ["accept", "=", "none"] => {
                let child = self.listener.as_mut().ok_or("no listener")?.accept();
                return if child.is_none() { Ok(()) } else { Err("accepted a child".to_owned()) };
            }
            ["accept"] => {
                let child = self.listener.as_mut().ok_or("no listener")?.accept();
                self.current = child.ok_or("no child")?.remote_port - 1000;
            }
            ["unconnect"] => {
                let current = self.current;
                self.peer(current).socket = None;
            }
            ["unlisten"] => self.listener = None,
            ["kill"] => self.kill()?,
            ["icmp", kind, rest @ ..] => self.icmp(kind, rest)?,
            _ => self.socket_call(words)?,
        }
        self.flush();
        Ok(())
    }

    fn socket_call(&mut self, words: &[&str]) -> Outcome {
        let (now, capacity) = (self.now_ns, self.room);
        let connection = self.connection()?;
        match words {
            ["write", count] | ["write", count, "urgent"] => {
                let end = connection.written() + u64::from(number(count)?);
                connection.write_to(end);
                if connection.written() != end {
                    return Err("the write was refused".to_owned());
                }
                if words.len() == 3 {
                    connection.mark_urgent_byte();
                }
            }
            ["write", count, "refused"] => {
                let end = connection.written() + u64::from(number(count)?);
                connection.write_to(end);
                if connection.written() == end {
                    return Err("the write was taken".to_owned());
                }
            }
            ["read", count] => {
                let end = connection.read() + u64::from(number(count)?);
                if end > connection.received() {
                    return Err(format!(
                        "only {} to read",
                        connection.received() - connection.read()
                    ));
                }
                connection.read_to(end, capacity.saturating_sub(connection.received() - end));
            }
            ["close"] => {
                connection.close(now);
            }
            ["shutdown"] => {
                connection.shutdown_write();
            }
            ["abort"] => connection.abort(),
            ["quickack", "0"] => connection.set_quick_ack(QuickAck::Off),
            ["quickack", "1"] => connection.set_quick_ack(QuickAck::On),
            ["path", mss] => connection.set_path_mss(number(mss)? as u16),
            ["set", rest @ ..] => {
                let mut settings = *connection.settings();
                rest.iter().try_for_each(|one| setting(&mut settings, one))?;
                connection.set_settings(now, settings);
            }
            _ => return Err(format!("unknown call {words:?}")),
        }
        Ok(())
    }

    fn option(&mut self, text: &str) -> Outcome {
        let (key, value) = text.split_once('=').ok_or("an option is KEY=VALUE")?;
        match key {
            "room" => self.room = value.parse().map_err(|_| "bad room")?,
            "offload" => self.limit = number(value)?,
            "peer_isn" => self.peer_isn = number(value)?,
            "backlog" => self.listening.backlog = number(value)? as usize,
            "defer" => self.listening.defer_timeouts = timeouts_for(u64::from(number(value)?)),
            "overflow" => self.listening.abort_on_overflow = value == "1",
            "fastopen" => self.listening.fast_open_limit = number(value)? as usize,
            "cookies" => {
                self.listening.cookies = match value {
                    "off" => Cookies::Off,
                    "full" => Cookies::WhenFull,
                    "always" => Cookies::Always,
                    _ => return Err(format!("unknown use of cookies `{value}`")),
                }
            }
            _ => setting(&mut self.settings, text)?,
        }
        self.listening.child = self.settings;
        Ok(())
    }

    fn connect(&mut self, rest: &[&str]) -> Outcome {
        let fast_open = match rest {
            [] | [_] if !rest.contains(&"fastopen") => FastOpen::Off,
            ["fastopen"] => FastOpen::Request,
            ["fastopen", hex] | ["fastopen", hex, _] => FastOpen::Cookie(cookie(hex)?),
            _ => return Err("bad connect".to_owned()),
        };
        let data = rest.iter().find_map(|word| word.strip_prefix("data="));
        let flow = flow(self.current);
        let mut connection = Connection::connect(
            self.now_ns,
            &flow,
            &self.secret,
            self.settings,
            self.room,
            fast_open,
        );
        if let Some(data) = data {
            connection.write_to(u64::from(number(data)?));
        }
        let current = self.current;
        let peer = self.peer(current);
        *peer = Peer { socket: Some(Socket::Open(connection)), ..Peer::default() };
        Ok(())
    }

    /// Opens a connection by the peer's usual answers: `mss=1000 win=65535` and on demand `sack`, `ts`, `wscale=N`, `passive`.
    fn establish(&mut self, rest: &[&str]) -> Outcome {
        let value = |key: &str, default: &str| {
            let found = rest.iter().find_map(|one| one.strip_prefix(key));
            found.unwrap_or(default).to_owned()
        };
        let mut options = format!("mss {}", value("mss=", "1000"));
        if rest.contains(&"sack") {
            options += ",sackOK";
        }
        if rest.contains(&"ts") {
            options += ",TS val 1";
        }
        let scale = value("wscale=", "");
        if !scale.is_empty() {
            options += &format!(",wscale {scale}");
        }
        let ecn = rest.contains(&"ecn");
        let window = value("win=", "65535");
        let clock = if rest.contains(&"ts") { " <TS val 1>" } else { "" };
        let lines = if rest.contains(&"passive") {
            let flags = if ecn { "SEW" } else { "S" };
            self.call(&["listen"])?;
            let first = format!("+0 < {flags} 0:0(0) win {window} <{options}>");
            let last = format!("+0 < . 1:1(0) ack 1 win {window}{clock}");
            [first, String::new(), last]
        } else {
            self.connect(&[])?;
            self.flush();
            let flags = if ecn { "S.E" } else { "S." };
            [
                String::new(),
                format!("+0 < {flags} 0:0(0) ack 1 win {window} <{options}>"),
                String::new(),
            ]
        };
        for line in lines {
            self.sent.clear();
            for line in parse(&line)? {
                self.line(&line)?;
            }
        }
        self.sent.clear();
        if self.listener.is_some() {
            self.call(&["accept"])?;
        }
        self.connection().map(|_| ())
    }

    /// Ends the stack and makes the connection of its kept state.
    fn kill(&mut self) -> Outcome {
        let (now, capacity, settings) = (self.now_ns, self.room, self.settings);
        let connection = self.connection()?;
        let kept = connection.kept().ok_or("nothing is kept in this state")?;
        let room = capacity.saturating_sub(kept.received - kept.read);
        let again = Connection::rebuild(now, &kept, settings, room);
        *connection = again.map_err(|_| "the kept state is refused")?;
        Ok(())
    }

    fn icmp(&mut self, kind: &str, rest: &[&str]) -> Outcome {
        let (error, seq) = match (kind, rest) {
            ("port", [seq]) => (IcmpError::Port, seq),
            ("host", [seq]) => (IcmpError::Host, seq),
            ("network", [seq]) => (IcmpError::Network, seq),
            ("protocol", [seq]) => (IcmpError::Protocol, seq),
            ("mtu", [mtu, seq]) => (IcmpError::TooBig(number(mtu)? as u16 - 40), seq),
            _ => return Err("bad icmp".to_owned()),
        };
        let now = self.now_ns;
        let current = self.current;
        let peer = self.peer(current);
        let seq = number(seq)?.wrapping_add(peer.iss);
        if let Some(Socket::Open(connection)) = &mut peer.socket {
            peer.events |= connection.icmp(now, error, seq);
        }
        self.icmp_errors += 1;
        Ok(())
    }

    fn expect(&mut self, words: &[&str]) -> Outcome {
        let current = self.current;
        let [what, want] = words else { return Err("expect WHAT VALUE".to_owned()) };
        let got = match *what {
            "state" => self.state(),
            "error" => {
                let peer = self.peer(current);
                peer.error.take().map_or("none".to_owned(), |error| format!("{error:?}"))
            }
            "event" => {
                let peer = self.peer(current);
                let flag = TcpEvents::from_name(want).ok_or("unknown event")?;
                let has = peer.events.contains(flag);
                peer.events.remove(flag);
                if has { (*want).to_owned() } else { format!("none of {:?}", peer.events) }
            }
            "noevent" => {
                let flag = TcpEvents::from_name(want).ok_or("unknown event")?;
                let has = self.peer(current).events.contains(flag);
                if has { "the event".to_owned() } else { (*want).to_owned() }
            }
            "half_open" => self.listener.as_ref().map_or(0, Listener::half_open).to_string(),
            "ready" => self.listener.as_ref().map_or(0, Listener::ready).to_string(),
            "cookie" => {
                let cookie = self.peer(current).cookie;
                cookie.map_or("none".to_owned(), |one| {
                    one.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
                })
            }
            _ => self.number(what)?,
        };
        if got == *want { Ok(()) } else { Err(format!("{what} is {got}, expected {want}")) }
    }

    fn state(&mut self) -> String {
        let current = self.current;
        match &self.peer(current).socket {
            None => "CLOSED".to_owned(),
            Some(Socket::TimeWait(_)) => "TIME_WAIT".to_owned(),
            Some(Socket::Open(connection)) => match connection.state() {
                TcpState::Closed => "CLOSED",
                TcpState::SynSent => "SYN_SENT",
                TcpState::SynReceived => "SYN_RECEIVED",
                TcpState::Established => "ESTABLISHED",
                TcpState::FinWait1 => "FIN_WAIT1",
                TcpState::FinWait2 => "FIN_WAIT2",
                TcpState::CloseWait => "CLOSE_WAIT",
                TcpState::Closing => "CLOSING",
                TcpState::LastAck => "LAST_ACK",
                TcpState::TimeWait => "TIME_WAIT",
            }
            .to_owned(),
        }
    }

    fn number(&mut self, what: &str) -> Result<String, String> {
        let now = self.now_ns;
        let connection = self.connection()?;
        let info = connection.info(now);
        Ok(match what {
            "readable" => connection.received() - connection.read(),
            "received" => connection.received(),
            "acked" => connection.acked(),
            "sent" => connection.sent(),
            "written" => connection.written(),
            "unsent" => connection.unsent(),
            "unacknowledged" => connection.unacknowledged(),
            "edge" => connection.window_edge(),
            "urgent" => {
                return Ok(connection
                    .urgent_mark()
                    .map_or("none".to_owned(), |mark| mark.to_string()));
            }
            "quickack" => u64::from(connection.is_quick_ack()),
            "send_mss" => u64::from(info.send_mss),
            "receive_mss" => u64::from(info.receive_mss),
            "send_window" => info.send_window,
            "probes" => u64::from(info.probes),
            "timestamps" => u64::from(info.has_timestamps),
            "sack" => u64::from(info.has_sack),
            "scaling" => u64::from(info.has_scaling),
            "ecn" => u64::from(info.has_ecn),
            "syn_data" => u64::from(info.has_syn_data),
            "send_scale" => u64::from(info.send_scale),
            "challenges" => u64::from(info.challenges),
            "out_of_order" => u64::from(info.out_of_order),
            "bytes_received" => info.bytes_received,
            "segments_in" => info.segments_in,
            "timeouts" => u64::from(info.recovery.timeouts),
            "cwnd" => info.recovery.cwnd,
            _ => return Err(format!("cannot expect `{what}`")),
        }
        .to_string())
    }
}

fn setting(settings: &mut Settings, text: &str) -> Outcome {
    let (key, value) = text.split_once('=').ok_or("an option is KEY=VALUE")?;
    let flag = value == "1";
    match key {
        "mss" => (settings.mss, settings.path_mss) = (number(value)? as u16, number(value)? as u16),
        "path" => settings.path_mss = number(value)? as u16,
        "buffer" => settings.buffer_limit = u64::from(number(value)?),
        "wscale" => settings.window_scaling = flag,
        "ts" => settings.timestamps = flag,
        "sack" => settings.sack = flag,
        "ecn" => {
            settings.ecn = match value {
                "request" => Ecn::Request,
                "accept" => Ecn::Accept,
                _ => Ecn::Off,
            }
        }
        "nodelay" => settings.no_delay = flag,
        "cork" => settings.cork = flag,
        "keepalive" => settings.keepalive = flag,
        "keepidle" => settings.keep_idle_ns = seconds(value)?,
        "keepintvl" => settings.keep_interval_ns = seconds(value)?,
        "keepcnt" => settings.keep_count = number(value)?,
        "user_timeout" => settings.user_timeout_ns = seconds(value)?,
        "syn_retries" => settings.syn_retries = number(value)?,
        "synack_retries" => settings.synack_retries = number(value)?,
        "retries" => settings.retries = number(value)?,
        "fin_timeout" => settings.fin_timeout_ns = seconds(value)?,
        "rfc1337" => settings.protect_time_wait = flag,
        _ => return Err(format!("unknown option `{key}`")),
    }
    Ok(())
}
