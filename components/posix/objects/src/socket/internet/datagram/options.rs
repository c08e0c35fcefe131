//! Options of a datagram socket.
use super::InternetDatagram;
use crate::socket::{
    internet::{
        address::AddressFamily,
        network::errno,
        options::{
            self, GroupChange, Having, LEVEL_ICMP6, LEVEL_IP, LEVEL_IP6, LEVEL_LITE, LEVEL_RAW,
            LEVEL_UDP, extension, group_option, is_extension_option, is_group_option,
            is_link_option, link_value, set_extension, set_link, shown,
        },
        settings::Flags,
    },
    option_input::OptionInput,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use interfaces::sockets::DatagramProtocol;
use linux_raw_sys::net;
use vfs::{Credentials, Errno};

/// Number of ICMP_FILTER, and of ICMPV6_FILTER on its level.
const FILTER: u32 = 1;
/// Numbers of UDPLITE_SEND_CSCOV and UDPLITE_RECV_CSCOV.
const SENT_COVERAGE: u32 = 10;
const LEAST_COVERAGE: u32 = 11;
/// Bytes of `struct icmp_filter` and of `struct icmp6_filter`.
const FILTER_BYTES: usize = 4;
const FILTER_BYTES6: usize = 32;

impl InternetDatagram {
    fn having(&self) -> Having {
        match self.protocol {
            DatagramProtocol::Raw(_) => Having::RAW,
            _ => Having::DATAGRAM,
        }
    }
    /// Gives the stack the options. The caller holds `control`.
    pub(super) fn configure(&self) {
        let settings = self.settings.lock();
        let options = settings.ip(&self.common);
        self.flags.store(settings.flags.bits(), Ordering::Relaxed);
        self.segment.store(u32::from(settings.segment), Ordering::Relaxed);
        drop(settings);
        self.queue.set_takes_several(self.flags().contains(Flags::SEVERAL));
        self.socket().configure(&options);
    }
    /// Checks that the socket has options of a level.
    ///
    /// # Errors
    /// `ENOPROTOOPT`.
    fn check_level(&self, level: u32) -> Result<(), Errno> {
        let is_raw = matches!(self.protocol, DatagramProtocol::Raw(_));
        match level {
            LEVEL_IP if self.family == AddressFamily::V4 || !is_raw => Ok(()),
            LEVEL_IP6 if self.family == AddressFamily::V6 => Ok(()),
            LEVEL_UDP | LEVEL_LITE if self.protocol.has_ports() => Ok(()),
            LEVEL_RAW if is_raw => Ok(()),
            LEVEL_ICMP6 if is_raw && self.family == AddressFamily::V6 => Ok(()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
    /// Returns the level of an option's row: raw sockets of IPv6 know some of IPPROTO_IPV6 at SOL_RAW, too (`rawv6_setsockopt`).
    fn level_of(&self, level: u32, number: u32) -> u32 {
        let is_of_ip6 = matches!(number, net::IPV6_CHECKSUM | net::IPV6_HDRINCL);
        match level {
            // Both levels are one (`udp_setsockopt`).
            LEVEL_LITE => LEVEL_UDP,
            LEVEL_RAW if self.family == AddressFamily::V6 && is_of_ip6 => LEVEL_IP6,
            _ => level,
        }
    }
    /// Returns the bytes of the filter of ICMP messages, if the option is that; `None` for another option.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the raw socket is of another protocol.
    fn filter_bytes(&self, level: u32, number: u32) -> Result<Option<usize>, Errno> {
        let (bytes, protocol) = match (self.family, level, number) {
            (AddressFamily::V4, LEVEL_RAW, FILTER) => (FILTER_BYTES, net::IPPROTO_ICMP as u8),
            (AddressFamily::V6, LEVEL_ICMP6, _) => (FILTER_BYTES6, net::IPPROTO_ICMPV6 as u8),
            _ => return Ok(None),
        };
        let is_of_protocol = self.protocol == DatagramProtocol::Raw(protocol);
        match number {
            _ if !is_of_protocol => Err(Errno::EOPNOTSUPP),
            FILTER => Ok(Some(bytes)),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
    /// Sets as many bytes of the filter of ICMP messages as the program gives, of at most `most`.
    fn set_type_filter(&self, input: &OptionInput, most: usize) -> Result<(), Errno> {
        let given = input.text(most)?;
        let mut settings = self.settings.lock();
        let filter = &mut settings.stream.ip.icmp_filter;
        for (place, byte) in given.iter().enumerate() {
            if let Some(word) = filter.get_mut(place / 4) {
                let shift = place % 4 * 8;
                *word = *word & !(0xff << shift) | u32::from(*byte) << shift;
            }
        }
        Ok(())
    }
    /// Sets a coverage of UDP-Lite's checksum, in bytes. A coverage of less than the header is that of the header.
    fn set_coverage(&self, number: u32, value: i32) -> Result<(), Errno> {
        const HEADER: i32 = 8;
        if self.protocol != DatagramProtocol::UdpLite {
            return Err(Errno::ENOPROTOOPT);
        }
        let bytes = if value == 0 { 0 } else { value.clamp(HEADER, i32::from(u16::MAX)) };
        let ip = &mut self.settings.lock().stream.ip;
        let place = if number == SENT_COVERAGE { &mut ip.coverage } else { &mut ip.coverage_least };
        *place = u16::try_from(bytes).ok();
        Ok(())
    }
    /// Sets an option of another level than SOL_SOCKET.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL`, `EPERM`, `EFAULT`, and those of joining and leaving groups.
    pub(super) fn set_internet_option(
        &self,
        who: &Credentials,
        (level, number): (u32, u32),
        input: &OptionInput,
    ) -> Result<(), Errno> {
        self.check_level(level)?;
        // Raw sockets of IPv6 read the number before they look for the option (`do_rawv6_setsockopt`).
        let is_raw6 = level == LEVEL_RAW && self.family == AddressFamily::V6;
        if is_raw6 && input.length < size_of::<i32>() {
            return Err(Errno::EINVAL);
        }
        // Of ICMPv6 the checksum is where it is (`do_rawv6_setsockopt`).
        let is_icmp6 = self.protocol == DatagramProtocol::Raw(net::IPPROTO_ICMPV6 as u8);
        if is_icmp6 && (level, number) == (LEVEL_IP6, net::IPV6_CHECKSUM) {
            return Err(Errno::EINVAL);
        }
        let level = self.level_of(level, number);
        let filter_bytes = self.filter_bytes(level, number)?;
        let _control = self.control.lock();
        if let Some(most) = filter_bytes {
            self.set_type_filter(input, most)?;
        } else if is_group_option(level, number) {
            return match group_option((level, number), input)? {
                GroupChange::Join(group) => self.socket().join(group),
                GroupChange::Leave(group) => self.socket().leave(group),
            }
            .map_err(errno);
        } else if is_link_option(level, number) {
            let device = self.common.options.interface.load(Ordering::Relaxed);
            let key = (level, number, self.having());
            set_link(&self.settings, key, input, device)?;
        } else if level == LEVEL_UDP && matches!(number, SENT_COVERAGE | LEAST_COVERAGE) {
            self.set_coverage(number, i32::from_le_bytes(input.bytes()?))?;
        } else if (level, number) == (LEVEL_IP6, net::IPV6_V6ONLY) {
            let value = i32::from_le_bytes(input.bytes()?);
            if self.socket().local().port() != 0 {
                return Err(Errno::EINVAL);
            }
            self.settings.lock().flags.set(Flags::ONLY_V6, value != 0);
        } else if is_extension_option(level, number) {
            set_extension(&mut self.settings.lock(), who, number, input)?;
        } else if (level, number) == (LEVEL_IP, net::IP_OPTIONS) {
            let list = options::given_header_options(who, input)?;
            self.settings.lock().stream.ip.header_options = Some(list);
        } else {
            let may = |wanted| who.has(wanted);
            let key = (level, number, self.having());
            options::set(&mut self.settings.lock(), key, input, &may)?;
        }
        if (level, number) == (LEVEL_IP, net::IP_TOS) {
            options::follow_service(&self.settings.lock(), &self.common);
        }
        self.configure();
        if matches!((level, number), (LEVEL_IP, net::IP_RECVERR) | (LEVEL_IP6, net::IPV6_RECVERR)) {
            let ip = self.settings.lock().stream.ip;
            if !ip.queues_errors && !ip.queues_errors6 {
                self.queue.clear_reports();
            }
        }
        let is_corked = self.flags().contains(Flags::CORK);
        if level == LEVEL_UDP && !is_corked { self.uncork() } else { Ok(()) }
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
        let level = self.level_of(level, number);
        if let Some(bytes) = self.filter_bytes(level, number)? {
            let filter = self.settings.lock().stream.ip.icmp_filter;
            let all = filter.iter().flat_map(|word| word.to_le_bytes());
            return Ok(all.take(bytes).collect());
        }
        let settings = self.settings.lock();
        let number_of = |value: u32| Ok(shown(level, value as i32, room));
        match (level, number) {
            (LEVEL_IP, net::IP_MTU) | (LEVEL_IP6, net::IPV6_MTU) => {
                drop(settings);
                number_of(self.socket().path_mtu().ok_or(Errno::ENOTCONN)?)
            }
            (LEVEL_UDP, SENT_COVERAGE) => {
                number_of(settings.stream.ip.coverage.unwrap_or(0).into())
            }
            (LEVEL_UDP, LEAST_COVERAGE) => {
                number_of(settings.stream.ip.coverage_least.unwrap_or(0).into())
            }
            (LEVEL_IP6, net::IPV6_V6ONLY) => {
                number_of(u32::from(settings.flags.contains(Flags::ONLY_V6)))
            }
            (LEVEL_IP, net::IP_OPTIONS) => {
                Ok(settings.stream.ip.header_options.unwrap_or_default().as_slice().to_vec())
            }
            _ if is_extension_option(level, number) => Ok(extension(&settings, number)),
            _ if is_link_option(level, number) => Ok(link_value(&settings, (level, number), room)),
            _ => options::get(&settings, (level, number, self.having()), room),
        }
    }
}
