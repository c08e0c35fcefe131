//! [`StreamPath`]: the path of a connection's segments.
use super::{options, parameters::StreamParameters};
use crate::{
    ip::path::{Path, SendRequest},
    tables::interface::LinkOffloads,
};
use core::net::IpAddr;
use interfaces::sockets::{Ipv4OptionList, StreamOptions};
use tcp::Settings;

/// The path of a connection's segments. It holds as long as neither the configuration nor the cache of path MTUs changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamPath {
    pub(crate) versions: (u64, u64),
    pub(crate) path: Path,
    pub(crate) request: SendRequest,
    pub(crate) offloads: LinkOffloads,
    /// The options of each segment's header of IPv4.
    pub(crate) header_options: Ipv4OptionList,
}

/// The values that the settings of a connection depend on, beside the options of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SettingsOrigin {
    /// The version of the parameters.
    version: u64,
    /// The greatest segment of the path, and the one that the peer is told.
    segments: (u16, u16),
    /// Bytes of the options of each header of IPv4.
    header_options: usize,
}

impl StreamPath {
    /// Returns the values that [`StreamPath::settings`] depends on, beside the options.
    pub(crate) fn settings_origin(&self, parameters: &StreamParameters) -> SettingsOrigin {
        SettingsOrigin {
            version: parameters.version(),
            segments: (self.segment_max(), self.path.advertised_segment),
            header_options: self.header_options.length(),
        }
    }
    /// Returns the greatest segment of the path, in bytes of options and payload.
    pub(crate) fn segment_max(&self) -> u16 {
        options::segment_max(self.path.mtu, self.request.destination)
    }
    /// Returns the greatest segment that a socket with those options sends. Options of the header make it shorter than TCP_MAXSEG,
    /// too (`tcp_mtu_to_mss`).
    pub(crate) fn sent_max(&self, options: &StreamOptions) -> u16 {
        options::bounded(self.segment_max(), options) - self.header_options.length() as u16
    }
    /// Returns the settings of a new connection of this path. The peer is told no greater segment than the route says.
    pub(crate) fn settings(
        &self,
        options: &StreamOptions,
        parameters: &StreamParameters,
    ) -> Settings {
        let mut settings = options::settings(options, Some(self.segment_max()), parameters);
        settings.path_mss -= self.header_options.length() as u16;
        if self.path.advertised_segment != 0 {
            settings.mss = settings.mss.min(self.path.advertised_segment);
        }
        settings
    }
    /// Returns whether packets that are to be cut into segments can be left to the link. As on Linux, taps see segments if software
    /// cuts, so the stack does it while there are taps.
    pub(crate) fn can_cut(&self, has_taps: bool) -> bool {
        self.does_device_cut() || self.does_software_cut() && !has_taps
    }
    /// Returns whether the link's software cuts what its device does not.
    pub(crate) fn does_software_cut(&self) -> bool {
        self.offloads.contains(LinkOffloads::CUT_TCP)
    }
    fn does_device_cut(&self) -> bool {
        let needed = match self.request.destination {
            IpAddr::V4(_) => LinkOffloads::CHECKSUM | LinkOffloads::TCP4,
            IpAddr::V6(_) => LinkOffloads::CHECKSUM | LinkOffloads::TCP6,
        };
        self.offloads.contains(needed)
    }
}
