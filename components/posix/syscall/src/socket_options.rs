//! getsockopt and setsockopt: the options of SOL_SOCKET (socket(7), unix(7)). Those of other levels are the family's.
use super::{socket::opened, socket_filter};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linux_raw_sys::net;
use memory::AddressSpace;
use objects::socket::{
    Socket,
    common::{RECEIVE_MAX, SEND_MAX, SocketOptions},
    interface::Party,
    internet::{OptionInput, link_named, link_numbered},
};
use process::{Task, call::Call};
use vfs::{Capabilities, Errno, security::Label};
use zerocopy::IntoBytes;

const NS_A_SECOND: u64 = 1_000_000_000;
const NS_A_MICROSECOND: u64 = 1000;
/// Smallest SO_SNDBUF and SO_RCVBUF, as on Linux.
const SEND_BUFFER_MIN: usize = 4608;
const RECEIVE_BUFFER_MIN: usize = 2304;
/// Highest SO_PRIORITY without CAP_NET_ADMIN.
const PRIORITY_MAX: i32 = 6;

/// Options without an effect on AF_UNIX, whose values are kept and reported.
const KEPT: &[u32] = &[
    net::SO_REUSEADDR,
    net::SO_DONTROUTE,
    net::SO_BROADCAST,
    net::SO_KEEPALIVE,
    net::SO_OOBINLINE,
    net::SO_NO_CHECK,
    net::SO_REUSEPORT,
    net::SO_TIMESTAMP_OLD,
    net::SO_TIMESTAMPNS_OLD,
    net::SO_PASSSEC,
    net::SO_RXQ_OVFL,
    net::SO_WIFI_STATUS,
    net::SO_NOFCS,
    net::SO_LOCK_FILTER,
    net::SO_SELECT_ERR_QUEUE,
    net::SO_TIMESTAMP_NEW,
    net::SO_TIMESTAMPNS_NEW,
];
/// SO_NETNS_COOKIE: the number of the only namespace, which on Linux is that of the first one.
const NAMESPACE: u64 = 1;
/// SO_BPF_EXTENSIONS: the size of the range of SKF_AD_OFF that filters know (`SKF_AD_MAX`).
const ANCILLARY_FIELDS: i32 = 64;
/// Bytes of the longest name of a device.
const DEVICE_BYTES: usize = 15;

fn is_of_internet(socket: &dyn Socket) -> bool {
    matches!(u32::from(socket.family()), net::AF_INET | net::AF_INET6)
}

/// Does setsockopt(2).
///
/// # Errors
/// `EOPNOTSUPP` for levels that the family lacks, `ENOPROTOOPT`, `EINVAL`, `EDOM`, `EPERM`, `EACCES`, `EFAULT`.
pub fn set(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    let socket = opened.socket()?;
    let length = usize::try_from(call.int(4)).map_err(|_| Errno::EINVAL)?;
    let (level, option, at) = (call.uint(1), call.uint(2), call.word(3));
    if level != net::SOL_SOCKET {
        let read = |offset: usize, bytes: &mut [u8]| {
            call.memory.read_bytes(at.wrapping_add(offset as u64), bytes)
        };
        let mut input = OptionInput::new(length, read)?;
        if socket.takes_program((level, option)) {
            input.program = socket_filter::read_program(call, length);
        }
        return socket.set_option(call.task, (level, option), &input).map(|()| 0);
    }
    match option {
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => {
            let ns = read_timeout(call.memory, at, length)?;
            socket.common().options.receive_timeout_ns.store(ns, Ordering::Relaxed);
            return Ok(0);
        }
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => {
            let ns = read_timeout(call.memory, at, length)?;
            socket.common().options.send_timeout_ns.store(ns, Ordering::Relaxed);
            return Ok(0);
        }
        net::SO_BINDTODEVICE => return bind_to_device(call, socket, length),
        _ => {}
    }
    if length < size_of::<i32>() {
        return Err(Errno::EINVAL);
    }
    let value = call.memory.read::<i32>(at)?;
    if let Some(done) = socket_filter::set(call, socket, (option, value), length) {
        return done.map(|()| 0);
    }
    set_number(call, socket, option, value, length)?;
    socket.options_changed();
    Ok(0)
}

fn bind_to_device(call: &Call<'_>, socket: &dyn Socket, length: usize) -> Result<u64, Errno> {
    let mut name = [0; DEVICE_BYTES];
    let place = name.get_mut(..length.min(DEVICE_BYTES)).unwrap_or_default();
    call.memory.read_bytes(call.word(3), place)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let number = match name {
        [] => 0,
        _ => link_named(name).ok_or(Errno::ENODEV)?.index,
    };
    set_device(call, socket, number)?;
    socket.options_changed();
    Ok(0)
}

/// Binds a socket to the interface of this number, or to none. Without a privilege it can be bound once.
fn set_device(call: &Call<'_>, socket: &dyn Socket, number: u32) -> Result<(), Errno> {
    let interface = &socket.common().options.interface;
    if interface.load(Ordering::Relaxed) != 0 {
        check(call.task, Capabilities::NET_RAW)?;
    }
    interface.store(number, Ordering::Relaxed);
    Ok(())
}

/// Sets an option about a socket's packets.
fn set_of_packets(
    call: &Call<'_>,
    socket: &dyn Socket,
    (option, value): (u32, i32),
    length: usize,
) -> Result<(), Errno> {
    let options = &socket.common().options;
    match option {
        net::SO_PRIORITY => {
            if !(0..=PRIORITY_MAX).contains(&value) {
                check_mark(call.task)?;
            }
            options.priority.store(value, Ordering::Relaxed);
        }
        net::SO_MARK => {
            check_mark(call.task)?;
            options.mark.store(value, Ordering::Relaxed);
        }
        net::SO_INCOMING_CPU => socket.incoming_processor().store(value, Ordering::Relaxed),
        net::SO_MAX_PACING_RATE => {
            let rate = match length {
                8.. => call.memory.read::<u64>(call.word(3))?,
                // All bits stand for no limit.
                _ if value == -1 => u64::MAX,
                _ => u64::from(value as u32),
            };
            options.pacing_rate.store(rate, Ordering::Relaxed);
        }
        net::SO_ZEROCOPY if !socket.has_zero_copy() => return Err(Errno::EOPNOTSUPP),
        net::SO_ZEROCOPY if !(0..=1).contains(&value) => return Err(Errno::EINVAL),
        net::SO_ZEROCOPY => options.keep(option, value),
        _ => {
            let number = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
            set_device(call, socket, number)?;
        }
    }
    Ok(())
}

/// Checks that a task may choose how its packets are treated.
fn check_mark(task: &Task) -> Result<(), Errno> {
    check(task, Capabilities::NET_RAW).or_else(|_| check(task, Capabilities::NET_ADMIN))
}

fn set_number(
    call: &Call<'_>,
    socket: &dyn Socket,
    option: u32,
    value: i32,
    length: usize,
) -> Result<(), Errno> {
    let options = &socket.common().options;
    // A negative number is the largest, as the comparison in Linux is unsigned; the privileged ones take it for 0.
    let (wanted, forced) = (value as u32 as usize, value.max(0) as usize);
    match option {
        net::SO_PASSCRED => options.passes_identity.store(value != 0, Ordering::Relaxed),
        net::SO_SNDBUF => socket.set_send_buffer(send_buffer(wanted.min(SEND_MAX.size()))),
        net::SO_SNDBUFFORCE => {
            check(call.task, Capabilities::NET_ADMIN)?;
            socket.set_send_buffer(send_buffer(forced.min(i32::MAX as usize / 2)));
        }
        net::SO_RCVBUF | net::SO_RCVBUFFORCE => {
            let most = match option {
                net::SO_RCVBUF => RECEIVE_MAX.size(),
                _ => check(call.task, Capabilities::NET_ADMIN).map(|()| i32::MAX as usize / 2)?,
            };
            let wanted = if option == net::SO_RCVBUF { wanted } else { forced };
            socket.set_receive_buffer((wanted.min(most) * 2).max(RECEIVE_BUFFER_MIN));
        }
        net::SO_RCVLOWAT => {
            let bytes = if value < 0 { i32::MAX } else { value.max(1) };
            options.low_water.store(bytes, Ordering::Relaxed);
        }
        net::SO_PEEK_OFF if !socket.has_peek_offset() => return Err(Errno::EOPNOTSUPP),
        net::SO_PEEK_OFF => options.peek_offset.store(value.max(-1), Ordering::Relaxed),
        net::SO_PRIORITY
        | net::SO_MARK
        | net::SO_INCOMING_CPU
        | net::SO_MAX_PACING_RATE
        | net::SO_ZEROCOPY
        | net::SO_BINDTOIFINDEX => set_of_packets(call, socket, (option, value), length)?,
        net::SO_LINGER => set_linger(call, socket, length)?,
        net::SO_DEBUG => {
            if value != 0 && !call.task.credentials().has(Capabilities::NET_ADMIN) {
                return Err(Errno::EACCES);
            }
            options.keep(option, value);
        }
        // There are no routes.
        net::SO_BSDCOMPAT | net::SO_CNX_ADVICE => {}
        net::SO_BUSY_POLL | net::SO_PREFER_BUSY_POLL | net::SO_BUSY_POLL_BUDGET => {
            set_busy_poll(call.task, options, (option, value))?;
        }
        net::SO_RESERVE_MEM => return Err(refused_reserve(value)),
        // Other families do not share their names.
        net::SO_REUSEPORT if value != 0 && !is_of_internet(socket) => {
            return Err(Errno::EOPNOTSUPP);
        }
        option if KEPT.contains(&option) => options.keep(option, value),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Returns the error of SO_RESERVE_MEM: memory is not charged to groups of processes.
fn refused_reserve(value: i32) -> Errno {
    if value < 0 { Errno::EINVAL } else { Errno::EOPNOTSUPP }
}

/// Sets an option about the polling of cards; more of it needs a privilege.
fn set_busy_poll(
    task: &Task,
    options: &SocketOptions,
    (option, value): (u32, i32),
) -> Result<(), Errno> {
    let (place, most) = match option {
        net::SO_BUSY_POLL => (&options.busy_poll, i32::MAX),
        net::SO_BUSY_POLL_BUDGET => (&options.busy_poll_budget, i32::from(u16::MAX)),
        _ => {
            if value != 0 {
                check(task, Capabilities::NET_ADMIN)?;
            }
            options.prefers_busy_poll.store(value != 0, Ordering::Relaxed);
            return Ok(());
        }
    };
    if value > place.load(Ordering::Relaxed) {
        check(task, Capabilities::NET_ADMIN)?;
    }
    if !(0..=most).contains(&value) {
        return Err(Errno::EINVAL);
    }
    place.store(value, Ordering::Relaxed);
    Ok(())
}

fn set_linger(call: &Call<'_>, socket: &dyn Socket, length: usize) -> Result<(), Errno> {
    if length < size_of::<[i32; 2]>() {
        return Err(Errno::EINVAL);
    }
    let [is_on, seconds] = call.memory.read::<[i32; 2]>(call.word(3))?;
    let seconds = if is_on != 0 { seconds.max(0) } else { -1 };
    socket.common().options.linger_seconds.store(seconds, Ordering::Relaxed);
    Ok(())
}

fn send_buffer(wanted: usize) -> usize {
    (wanted * 2).max(SEND_BUFFER_MIN)
}

fn check(task: &Task, wanted: Capabilities) -> Result<(), Errno> {
    if task.credentials().has(wanted) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Reads the nanoseconds of a `struct timeval`; a time of 0 means no limit and gives 0.
fn read_timeout(memory: &AddressSpace, at: u64, length: usize) -> Result<u64, Errno> {
    if length < size_of::<[i64; 2]>() {
        return Err(Errno::EINVAL);
    }
    let [seconds, micros] = memory.read::<[i64; 2]>(at)?;
    let micros = u64::try_from(micros).ok().filter(|micros| *micros < 1_000_000);
    let micros = micros.ok_or(Errno::EDOM)?;
    let Ok(seconds) = u64::try_from(seconds) else {
        // Linux treats a negative time as one that has passed.
        return Ok(1);
    };
    Ok(seconds.saturating_mul(NS_A_SECOND).saturating_add(micros * NS_A_MICROSECOND))
}

fn timeval(ns: u64) -> [u64; 2] {
    [ns / NS_A_SECOND, ns % NS_A_SECOND / NS_A_MICROSECOND]
}

/// Does getsockopt(2).
///
/// # Errors
/// `EOPNOTSUPP` for levels that the family lacks, `ENOPROTOOPT`, `EINVAL`, `ENODATA`, `ERANGE` if groups do not fit, `EFAULT`.
pub fn get(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    let socket = opened.socket()?;
    let (level, option) = (call.uint(1), call.uint(2));
    let room = call.memory.read::<i32>(call.word(4))?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    if level != net::SOL_SOCKET {
        if socket.takes_argument((level, option)) {
            if room < size_of::<i32>() {
                return Err(Errno::EINVAL);
            }
            let argument = call.memory.read::<i32>(call.word(3))?;
            return answer(call, &socket.option_of((level, option), argument)?, room);
        }
        return answer(call, &socket.option((level, option), room)?, room);
    }
    let options = &socket.common().options;
    match option {
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => {
            let time = timeval(options.receive_timeout_ns.load(Ordering::Relaxed));
            answer(call, time.as_bytes(), room)
        }
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => {
            let time = timeval(options.send_timeout_ns.load(Ordering::Relaxed));
            answer(call, time.as_bytes(), room)
        }
        net::SO_LINGER => {
            let seconds = options.linger_seconds.load(Ordering::Relaxed);
            answer(call, [i32::from(seconds >= 0), seconds.max(0)].as_bytes(), room)
        }
        net::SO_PEERCRED => {
            let told = match socket.peer() {
                Some((who, _)) => [who.process, who.user, who.group],
                None => [0, u32::MAX, u32::MAX],
            };
            answer(call, told.as_bytes(), room)
        }
        net::SO_PEERSEC => peer_label(call, socket.peer_label(), room),
        net::SO_PEERGROUPS => peer_groups(call, socket.peer(), room),
        net::SO_BINDTODEVICE => device(call, options.interface.load(Ordering::Relaxed), room),
        net::SO_GET_FILTER => socket_filter::get(call, socket, room),
        net::SO_MAX_PACING_RATE if room >= size_of::<u64>() => {
            answer(call, options.pacing_rate.load(Ordering::Relaxed).as_bytes(), room)
        }
        net::SO_COOKIE if room < size_of::<u64>() => Err(Errno::EINVAL),
        net::SO_COOKIE => answer(call, socket.common().number().as_bytes(), room),
        net::SO_NETNS_COOKIE if room != size_of::<u64>() => Err(Errno::EINVAL),
        net::SO_NETNS_COOKIE => answer(call, NAMESPACE.as_bytes(), room),
        net::SO_MEMINFO => answer(call, memory_of(socket).as_bytes(), room),
        net::SO_PEERNAME => {
            // Linux refuses room for more bytes than the name has.
            let name = socket.peer_name().map_err(|_| Errno::ENOTCONN)?;
            match name.bytes().len() < room {
                true => Err(Errno::EINVAL),
                false => answer(call, name.bytes(), room),
            }
        }
        _ => answer(call, number(socket, option)?.as_bytes(), room),
    }
}

/// Returns the value of SO_MEMINFO (`SK_MEMINFO_*`): bytes that wait to be read, SO_RCVBUF, bytes under way, SO_SNDBUF, memory that
/// is kept for later, bytes that wait to be sent, memory of options, segments that wait for the socket's lock, and drops.
fn memory_of(socket: &dyn Socket) -> [u32; 9] {
    let bytes = |found: Result<usize, Errno>| {
        found.ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
    };
    let (received, sent) = (bytes(socket.readable_bytes()), bytes(socket.unsent_bytes()));
    let limits = (socket.receive_buffer() as u32, socket.send_buffer() as u32);
    [received, limits.0, sent, limits.1, 0, sent, 0, 0, 0]
}

fn device(call: &Call<'_>, interface: u32, room: usize) -> Result<u64, Errno> {
    if interface == 0 {
        return answer_nothing(call);
    }
    if room <= DEVICE_BYTES {
        return Err(Errno::EINVAL);
    }
    let name = link_numbered(interface).ok_or(Errno::ENODEV)?.name;
    answer(call, &[name.as_bytes(), b"\0"].concat(), room)
}

fn answer_nothing(call: &Call<'_>) -> Result<u64, Errno> {
    call.memory.write(call.word(4), &0i32)?;
    Ok(0)
}

fn number(socket: &dyn Socket, option: u32) -> Result<i32, Errno> {
    let options = &socket.common().options;
    Ok(match option {
        net::SO_TYPE => socket.common().kind() as i32,
        net::SO_DOMAIN => i32::from(socket.family()),
        net::SO_PROTOCOL => socket.protocol(),
        net::SO_ERROR => socket.take_error().map_or(0, |error| error.number() as i32),
        net::SO_ACCEPTCONN => i32::from(socket.is_listening()),
        net::SO_PASSCRED => i32::from(options.passes_identity.load(Ordering::Relaxed)),
        net::SO_SNDBUF => socket.send_buffer() as i32,
        net::SO_RCVBUF => socket.receive_buffer() as i32,
        net::SO_RCVLOWAT => options.low_water.load(Ordering::Relaxed).max(1),
        net::SO_SNDLOWAT => 1,
        net::SO_PEEK_OFF if !socket.has_peek_offset() => return Err(Errno::EOPNOTSUPP),
        net::SO_PEEK_OFF => options.peek_offset.load(Ordering::Relaxed),
        net::SO_PRIORITY => options.priority.load(Ordering::Relaxed),
        net::SO_MARK => options.mark.load(Ordering::Relaxed),
        net::SO_INCOMING_CPU => socket.incoming_processor().load(Ordering::Relaxed),
        net::SO_BINDTOIFINDEX => options.interface.load(Ordering::Relaxed) as i32,
        net::SO_MAX_PACING_RATE => {
            u32::try_from(options.pacing_rate.load(Ordering::Relaxed)).unwrap_or(u32::MAX) as i32
        }
        net::SO_DEBUG | net::SO_ZEROCOPY => i32::from(options.is_kept(option)),
        option if KEPT.contains(&option) => i32::from(options.is_kept(option)),
        net::SO_BPF_EXTENSIONS => ANCILLARY_FIELDS,
        net::SO_BSDCOMPAT | net::SO_INCOMING_NAPI_ID | net::SO_RESERVE_MEM => 0,
        net::SO_BUSY_POLL => options.busy_poll.load(Ordering::Relaxed),
        net::SO_PREFER_BUSY_POLL => i32::from(options.prefers_busy_poll.load(Ordering::Relaxed)),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

fn peer_groups(call: &Call<'_>, peer: Option<Party>, room: usize) -> Result<u64, Errno> {
    let Some((_, groups)) = peer else { return Err(Errno::ENODATA) };
    let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_le_bytes()).collect();
    if bytes.len() > room {
        call.memory.commit(call.word(4), &(bytes.len() as i32))?;
        return Err(Errno::ERANGE);
    }
    answer(call, &bytes, room)
}

/// Tells the context of the peer, in systems that have contexts.
fn peer_label(call: &Call<'_>, label: Option<&'static Label>, room: usize) -> Result<u64, Errno> {
    let text = label.map(Label::text).filter(|text| !text.is_empty());
    let text = text.ok_or(Errno::ENOPROTOOPT)?;
    if text.len() > room {
        call.memory.commit(call.word(4), &(text.len() as i32))?;
        return Err(Errno::ERANGE);
    }
    answer(call, text, room)
}

/// Writes as much of a value as there is room for, and the number of bytes written.
fn answer(call: &Call<'_>, value: &[u8], room: usize) -> Result<u64, Errno> {
    let told = value.get(..room.min(value.len())).unwrap_or_default();
    call.memory.commit_bytes(call.word(3), told)?;
    call.memory.commit(call.word(4), &(told.len() as i32))?;
    Ok(0)
}
