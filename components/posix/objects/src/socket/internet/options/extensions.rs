//! The options that are extension headers of IPv6, which the packets of a socket have (RFC 3542 section 4, ipv6(7)).
use super::LEVEL_IP6;
use crate::socket::{
    internet::settings::{Flags, InternetSettings},
    option_input::OptionInput,
};
use alloc::{boxed::Box, vec::Vec};
use interfaces::sockets::{ExtensionHeaders, header_length, is_segment_route};
use linux_raw_sys::net as raw;
use vfs::{Capabilities, Credentials, Errno};

/// Bytes of the longest header that an option takes (`ipv6_set_opt_hdr`).
const BYTES_MAX: usize = 8 * 255;

/// Returns whether `number` is such an option.
pub(in crate::socket::internet) fn is_extension_option(level: u32, number: u32) -> bool {
    const NUMBERS: [u32; 4] =
        [raw::IPV6_HOPOPTS, raw::IPV6_RTHDRDSTOPTS, raw::IPV6_RTHDR, raw::IPV6_DSTOPTS];
    level == LEVEL_IP6 && NUMBERS.contains(&number)
}

/// Returns the place of the header that an option is.
fn place(headers: &mut ExtensionHeaders, number: u32) -> &mut Option<Vec<u8>> {
    match number {
        raw::IPV6_HOPOPTS => &mut headers.hop_by_hop,
        raw::IPV6_RTHDRDSTOPTS => &mut headers.of_route,
        raw::IPV6_RTHDR => &mut headers.routing,
        _ => &mut headers.destination,
    }
}

/// Sets the option; a value without bytes removes the header.
///
/// # Errors
/// `EPERM`: options need CAP_NET_RAW, a routing header does not. `EINVAL` for a header that is not whole, and for a route that is
/// not that of segment routing; `EFAULT`.
pub(in crate::socket::internet) fn set_extension(
    settings: &mut InternetSettings,
    who: &Credentials,
    number: u32,
    input: &OptionInput,
) -> Result<(), Errno> {
    if number != raw::IPV6_RTHDR && !who.has(Capabilities::NET_RAW) {
        return Err(Errno::EPERM);
    }
    let length = input.length;
    if !length.is_multiple_of(8) || length > BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let mut given = None;
    if length > 0 {
        let bytes = input.whole()?;
        let header = header_length(bytes).and_then(|count| bytes.get(..count));
        if number == raw::IPV6_RTHDR && !is_segment_route(bytes) {
            return Err(Errno::EINVAL);
        }
        given = Some(header.ok_or(Errno::EINVAL)?.to_vec());
    }
    let mut headers = settings.extensions.take().unwrap_or_default();
    *place(&mut headers, number) = given;
    let has_any = *headers != ExtensionHeaders::default();
    settings.extensions = has_any.then_some(headers);
    settings.flags.set(Flags::EXTENSIONS, has_any);
    Ok(())
}

/// Returns the value of the option; without bytes if the socket has no such header.
pub(in crate::socket::internet) fn extension(settings: &InternetSettings, number: u32) -> Vec<u8> {
    let mut headers: Box<ExtensionHeaders> = settings.extensions.clone().unwrap_or_default();
    place(&mut headers, number).take().unwrap_or_default()
}
