//! Values as bytes of any length ([`Marshal`]): for answers longer than a message, and for memory that outlives a component.
//!
//! ```text
//! number        its bytes, the lowest first; usize and isize have eight
//! bool          0 or 1
//! Option        0, or 1 and the value
//! Result        0 and the value, or 1 and the error
//! list, text    32 bits: number of values or bytes | they
//! array, tuple  the values
//! IP address    4 or 6 | the octets
//! socket        IP address | port 16 | of IPv6 also flow 32, scope 32
//! instant       nanoseconds 64
//! structure     its fields
//! enumeration   8 bits: place of the variant | its fields
//! ```
//! Input may come from anybody. A value that ends too early, a `bool` or a variant that there is not, and text that is not UTF-8
//! are refused. A list is refused before it is read if it has more values than bytes are left, so memory grows with the bytes that
//! came and not with a length that they tell.
use alloc::{borrow::Cow, boxed::Box, string::String, sync::Arc, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
pub use interfaces_macro::Marshal;
use labels::SecrecyId;
use rt::time::Instant;

/// A value that can be encoded as bytes and decoded from them.
pub trait Marshal: Sized {
    /// Appends the bytes of the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes a value from the beginning of `from`. Returns `None` if there is none; `from` is then no longer of use.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

/// Returns the bytes of a value.
pub fn encode<T: Marshal>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

/// Returns the value of which `bytes` are the encoding; `None` if they are not, or if bytes are left over.
pub fn decode<T: Marshal>(mut bytes: &[u8]) -> Option<T> {
    let value = T::take(&mut bytes)?;
    bytes.is_empty().then_some(value)
}

/// Appends bytes with their number before them, as a `Vec<u8>` is encoded, all at once.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Takes bytes that [`put_bytes`] appended, without a copy.
pub fn take_bytes<'f>(from: &mut &'f [u8]) -> Option<&'f [u8]> {
    let length = usize::try_from(u32::take(from)?).ok()?;
    from.split_off(..length)
}

/// Appends the length of a list. One beyond 32 bits cannot be decoded.
fn put_length(length: usize, out: &mut Vec<u8>) {
    u32::try_from(length).unwrap_or(u32::MAX).put(out);
}

fn put_list<T: Marshal>(list: &[T], out: &mut Vec<u8>) {
    put_length(list.len(), out);
    list.iter().for_each(|one| one.put(out));
}

/// Makes each of the sets of flags (`bitflags`) a [`Marshal`], as the number of its bits. Bits without a meaning are refused.
#[macro_export]
macro_rules! marshal_flags {
    ($($flags:ty),*) => {$(
        impl $crate::marshal::Marshal for $flags {
            fn put(&self, out: &mut ::alloc::vec::Vec<u8>) {
                $crate::marshal::Marshal::put(&self.bits(), out);
            }
            fn take(from: &mut &[u8]) -> ::core::option::Option<$flags> {
                $crate::marshal::Marshal::take(from).and_then(<$flags>::from_bits)
            }
        }
    )*};
}

macro_rules! marshal_numbers {
    ($($number:ty)*) => {$(
        impl Marshal for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Option<$number> {
                from.split_off(..size_of::<$number>())?.try_into().ok().map(<$number>::from_le_bytes)
            }
        }
    )*};
}
marshal_numbers! { u8 u16 u32 u64 u128 i8 i16 i32 i64 }

macro_rules! marshal_sizes {
    ($($size:ty as $number:ty),*) => {$(
        impl Marshal for $size {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as $number).put(out);
            }
            fn take(from: &mut &[u8]) -> Option<$size> {
                <$size>::try_from(<$number>::take(from)?).ok()
            }
        }
    )*};
}
marshal_sizes! { usize as u64, isize as i64 }

macro_rules! marshal_tuples {
    ($(($($name:ident $place:tt),*))*) => {$(
        impl<$($name: Marshal),*> Marshal for ($($name,)*) {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$place.put(out);)*
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(($($name::take(from)?,)*))
            }
        }
    )*};
}
marshal_tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

impl Marshal for SecrecyId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<SecrecyId> {
        Marshal::take(from).map(SecrecyId)
    }
}

impl Marshal for Instant {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Instant> {
        Marshal::take(from).map(Instant)
    }
}

/// No bytes. A list of such values cannot be decoded.
impl Marshal for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn take(_: &mut &[u8]) -> Option<()> {
        Some(())
    }
}

impl Marshal for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(from: &mut &[u8]) -> Option<bool> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Marshal> Marshal for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Box<T>> {
        T::take(from).map(Box::new)
    }
}

impl<T: Marshal> Marshal for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<Option<T>> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Marshal, E: Marshal> Marshal for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_err().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }
    fn take(from: &mut &[u8]) -> Option<Result<T, E>> {
        if bool::take(from)? { E::take(from).map(Err) } else { T::take(from).map(Ok) }
    }
}

impl<T: Marshal> Marshal for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }
    fn take(from: &mut &[u8]) -> Option<Vec<T>> {
        let count = usize::try_from(u32::take(from)?).ok()?;
        if count > from.len() {
            return None;
        }
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<T: Marshal> Marshal for Arc<[T]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }
    fn take(from: &mut &[u8]) -> Option<Arc<[T]>> {
        Vec::take(from).map(Arc::from)
    }
}

impl Marshal for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }
    fn take(from: &mut &[u8]) -> Option<String> {
        core::str::from_utf8(take_bytes(from)?).ok().map(String::from)
    }
}

/// A text that one side knows when it is compiled, and the other side owns.
impl Marshal for Cow<'static, str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }
    fn take(from: &mut &[u8]) -> Option<Cow<'static, str>> {
        String::take(from).map(Cow::Owned)
    }
}

impl<T: Marshal + Copy + Default, const N: usize> Marshal for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.put(out));
    }
    fn take(from: &mut &[u8]) -> Option<[T; N]> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::take(from)?;
        }
        Some(values)
    }
}

impl Marshal for Ipv4Addr {
    fn put(&self, out: &mut Vec<u8>) {
        self.octets().put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Ipv4Addr> {
        <[u8; 4]>::take(from).map(Ipv4Addr::from)
    }
}

impl Marshal for Ipv6Addr {
    fn put(&self, out: &mut Vec<u8>) {
        self.octets().put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Ipv6Addr> {
        <[u8; 16]>::take(from).map(Ipv6Addr::from)
    }
}

impl Marshal for IpAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(address) => (4_u8, *address).put(out),
            IpAddr::V6(address) => (6_u8, *address).put(out),
        }
    }
    fn take(from: &mut &[u8]) -> Option<IpAddr> {
        match u8::take(from)? {
            4 => Ipv4Addr::take(from).map(IpAddr::V4),
            6 => Ipv6Addr::take(from).map(IpAddr::V6),
            _ => None,
        }
    }
}

impl Marshal for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        (self.ip(), self.port()).put(out);
        if let SocketAddr::V6(address) = self {
            (address.flowinfo(), address.scope_id()).put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<SocketAddr> {
        let (ip, port) = Marshal::take(from)?;
        Some(match ip {
            IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, port)),
            IpAddr::V6(ip) => {
                let (flow, scope) = Marshal::take(from)?;
                SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope))
            }
        })
    }
}
