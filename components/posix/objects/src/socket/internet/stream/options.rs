//! Options of a TCP socket.
use super::{InternetStream, StreamPhase};
use crate::socket::{
    internet::{
        address::AddressFamily,
        network::errno,
        options::{
            self, Having, LEVEL_IP, LEVEL_IP6, LEVEL_TCP, extension, group_option,
            is_extension_option, is_group_option, is_link_option, link_value, name_of_control,
            set_control, set_extension, set_link, shown,
        },
        settings::{Flags, InternetSettings},
    },
    option_input::OptionInput,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use interfaces::sockets::{ConnectionState, QuickAcknowledge, StreamInfo, StreamState};
use linux_raw_sys::net;
use netadmin::diag::tcp_info;
use vfs::{Credentials, Errno};

/// Least and greatest TCP_MAXSEG, in bytes.
const SEGMENT_LEAST: i32 = 88;
const SEGMENT_MOST: i32 = 32_767;
/// Segment size of a connection that has none yet (RFC 9293 section 3.7.1).
const SEGMENT_DEFAULT: u32 = 536;

/// Returns the error of TCP_ULP, for which there is no protocol.
///
/// # Errors
/// `EFAULT`.
fn no_protocol_above(input: &OptionInput) -> Result<Errno, Errno> {
    const NAME_MAX: usize = 15;
    if input.length == 0 {
        return Ok(Errno::EINVAL);
    }
    input.text(NAME_MAX).map(|_| Errno::ENOENT)
}

/// Refuses the options of TCP that this system lacks, in Linux's order of checks: those of a socket that is being repaired,
/// signatures, and protocols above.
///
/// # Errors
/// `EPERM`, `EINVAL`, `ENOENT`, `ENOPROTOOPT`, `EFAULT`.
fn check_missing(number: u32, input: &OptionInput) -> Result<(), Errno> {
    match number {
        net::TCP_ULP => Err(no_protocol_above(input)?),
        net::TCP_MD5SIG | net::TCP_MD5SIG_EXT => Err(Errno::ENOPROTOOPT),
        net::TCP_CONGESTION => Ok(()),
        _ if input.length < size_of::<i32>() => Err(Errno::EINVAL),
        net::TCP_REPAIR | net::TCP_REPAIR_QUEUE | net::TCP_REPAIR_WINDOW | net::TCP_TIMESTAMP => {
            Err(Errno::EPERM)
        }
        net::TCP_QUEUE_SEQ | net::TCP_REPAIR_OPTIONS => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Returns the clock of timestamps (TCP_TIMESTAMP), in milliseconds.
fn clock_ms() -> u32 {
    const NS_A_MS: u64 = 1_000_000;
    (rt::time::now().0 / NS_A_MS) as u32
}

impl InternetStream {
    /// Gives the stack the options. The caller holds `control`.
    pub(super) fn configure(&self) {
        let settings = self.settings.lock();
        let options = settings.of_stream(&self.common);
        self.publish(&settings);
        drop(settings);
        self.socket().configure(&options);
    }
    /// Copies the settings that calls on the fast path look at.
    pub(super) fn publish(&self, settings: &InternetSettings) {
        self.flags.store(settings.flags.bits(), Ordering::Relaxed);
        let before =
            self.unsent_low_water.swap(settings.stream.unsent_low_water, Ordering::Relaxed);
        if before != settings.stream.unsent_low_water {
            self.wakes.room.wake();
        }
    }
    /// Notes that an option sets the limit of a buffer.
    pub(super) fn note_buffer(&self, flag: Flags) {
        let mut settings = self.settings.lock();
        settings.flags |= flag;
        self.publish(&settings);
    }
    /// Checks that the socket has options of a level.
    ///
    /// # Errors
    /// `ENOPROTOOPT`.
    fn check_level(&self, level: u32) -> Result<(), Errno> {
        match level {
            LEVEL_IP | LEVEL_TCP => Ok(()),
            LEVEL_IP6 if self.family == AddressFamily::V6 => Ok(()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
    /// Sets TCP_MAXSEG.
    fn set_segment(&self, input: &OptionInput) -> Result<(), Errno> {
        let value = i32::from_le_bytes(input.bytes()?);
        if value != 0 && !(SEGMENT_LEAST..=SEGMENT_MOST).contains(&value) {
            return Err(Errno::EINVAL);
        }
        let segment = u16::try_from(value).ok().filter(|value| *value != 0);
        self.settings.lock().stream.segment_max = segment;
        Ok(())
    }
    /// Sets an option of another level than SOL_SOCKET.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL`, `EPERM`, `ENOENT` for an unknown congestion control, `EFAULT`.
    pub(super) fn set_internet_option(
        &self,
        who: &Credentials,
        (level, number): (u32, u32),
        input: &OptionInput,
    ) -> Result<(), Errno> {
        self.check_level(level)?;
        if level == LEVEL_TCP {
            check_missing(number, input)?;
        }
        let _control = self.control.lock();
        match (level, number) {
            (LEVEL_TCP, net::TCP_CONGESTION) => set_control(&mut self.settings.lock(), input)?,
            (LEVEL_TCP, net::TCP_MAXSEG) => self.set_segment(input)?,
            (LEVEL_IP6, net::IPV6_V6ONLY) => {
                let value = i32::from_le_bytes(input.bytes()?);
                if self.socket().local().port() != 0 {
                    return Err(Errno::EINVAL);
                }
                self.settings.lock().flags.set(Flags::ONLY_V6, value != 0);
            }
            // It is a listener's.
            (LEVEL_TCP, net::TCP_FASTOPEN) if self.is_in_use() => return Err(Errno::EINVAL),
            (LEVEL_IP, net::IP_OPTIONS) => {
                let list = options::given_header_options(who, input)?;
                self.settings.lock().stream.ip.header_options = Some(list);
            }
            _ if is_extension_option(level, number) => {
                set_extension(&mut self.settings.lock(), who, number, input)?;
            }
            // Groups are for datagrams.
            _ if is_group_option(level, number) => {
                match number {
                    net::MCAST_JOIN_GROUP | net::MCAST_LEAVE_GROUP => {
                        group_option((level, number), input)?;
                    }
                    _ if level == LEVEL_IP6 => drop(input.bytes::<20>()?),
                    _ => {}
                }
                return Err(Errno::EPROTO);
            }
            _ if is_link_option(level, number) => {
                let device = self.common.options.interface.load(Ordering::Relaxed);
                let key = (level, number, Having::STREAM);
                set_link(&self.settings, key, input, device)?;
            }
            _ => {
                let may = |wanted| who.has(wanted);
                let mut settings = self.settings.lock();
                options::set(&mut settings, (level, number, Having::STREAM), input, &may)?;
                let is_quick = settings.flags.contains(Flags::QUICK);
                drop(settings);
                if (level, number) == (LEVEL_TCP, net::TCP_QUICKACK) {
                    let quick = if is_quick { QuickAcknowledge::On } else { QuickAcknowledge::Off };
                    self.socket().set_quick_ack(quick);
                    return Ok(());
                }
            }
        }
        if (level, number) == (LEVEL_IP, net::IP_TOS) {
            options::follow_service(&self.settings.lock(), &self.common);
        }
        self.configure();
        Ok(())
    }
    /// Returns the value of such an option, for a program with `room` bytes.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EOPNOTSUPP` for a level that the socket lacks, `ENOTCONN` for the MTU of no path.
    pub(super) fn internet_option(
        &self,
        (level, number): (u32, u32),
        room: usize,
    ) -> Result<Vec<u8>, Errno> {
        self.check_level(level).map_err(|_| options::no_level(self.family))?;
        let number_of = |value: u32| Ok(shown(level, value as i32, room));
        match (level, number) {
            (LEVEL_TCP, net::TCP_CONGESTION) => Ok(name_of_control(&self.settings.lock())),
            (LEVEL_TCP, net::TCP_INFO) => Ok(self.info()),
            (LEVEL_TCP, net::TCP_SAVED_SYN) => self.socket().take_saved_syn(room).map_err(errno),
            (LEVEL_TCP, net::TCP_MAXSEG) => {
                let wanted = self.settings.lock().stream.segment_max.map(u32::from);
                match (self.phase(), wanted) {
                    (StreamPhase::Free | StreamPhase::Listening, Some(wanted)) => number_of(wanted),
                    (StreamPhase::Free | StreamPhase::Listening, None) => {
                        number_of(SEGMENT_DEFAULT)
                    }
                    _ => match self.socket().info().snd_mss {
                        0 => number_of(SEGMENT_DEFAULT),
                        segment => number_of(segment),
                    },
                }
            }
            (LEVEL_IP6, net::IPV6_V6ONLY) => number_of(u32::from(self.has_flag(Flags::ONLY_V6))),
            (LEVEL_IP, net::IP_MTU) | (LEVEL_IP6, net::IPV6_MTU) => match self.socket().info().pmtu
            {
                0 => Err(Errno::ENOTCONN),
                mtu => number_of(mtu),
            },
            (LEVEL_IP, net::IP_OPTIONS) => {
                let own = self.settings.lock().stream.ip.header_options;
                let list = own.unwrap_or_else(|| self.socket().header_options());
                Ok(list.as_slice().to_vec())
            }
            _ if is_extension_option(level, number) => Ok(extension(&self.settings.lock(), number)),
            _ if is_link_option(level, number) => {
                Ok(link_value(&self.settings.lock(), (level, number), room))
            }
            (LEVEL_TCP, net::TCP_REPAIR) => number_of(0),
            (LEVEL_TCP, net::TCP_REPAIR_QUEUE | net::TCP_QUEUE_SEQ | net::TCP_REPAIR_WINDOW) => {
                Err(Errno::EINVAL)
            }
            // Neither control tells more of itself, and no protocol is above.
            (LEVEL_TCP, net::TCP_CC_INFO | net::TCP_ULP) => Ok(Vec::new()),
            (LEVEL_TCP, net::TCP_TIMESTAMP) => number_of(clock_ms()),
            _ => {
                let settings = self.settings.lock();
                options::get(&settings, (level, number, Having::STREAM), room)
            }
        }
    }
    /// Returns `struct tcp_info`. That of a listener tells the connections that wait, and how many may.
    fn info(&self) -> Vec<u8> {
        let info = self.socket().info();
        let mut state = info.state;
        match self.phase() {
            StreamPhase::Listening => {}
            _ if self.stream().state().contains(StreamState::SEND_ENDED) => {
                state = ConnectionState::Closed;
            }
            // A connection in this state is no longer the socket's.
            _ if state == ConnectionState::TimeWait => state = ConnectionState::Closed,
            _ => {}
        }
        tcp_info(&StreamInfo { state, ..info })
    }
}
