//! [`KeptValue`]: values as bytes in memory that outlives the stack. Numbers have the lowest byte first; a list has its length before it.
use crate::{
    base::address::{AddressScope, Prefix},
    tables::{
        interface::{
            AddressFlags, Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex,
            Ipv6Settings, LinkOffloads, WantedFrames,
        },
        routes::{Route, RouteKind, TableId},
        rules::Rules,
    },
};
use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::sockets::{RouteMetrics, RuleRecord};

/// A value that can be kept as bytes.
pub(super) trait KeptValue: Sized {
    /// Appends the bytes of the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes a value from the beginning of `from`; `None` if there is none.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl KeptValue for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Option<$number> {
                from.split_off(..size_of::<$number>())?.try_into().ok().map(<$number>::from_le_bytes)
            }
        })*
    };
}

numbers! { u8 u16 u32 u64 i64 u128 }

/// Makes a structure a kept value by its fields.
macro_rules! fields {
    ($type:ty { $($field:ident)* } $($rest:tt)*) => {
        impl KeptValue for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                Some(Self { $($field: KeptValue::take(from)?,)* $($rest)* })
            }
        }
    };
}
pub(super) use fields;

/// Makes a set of flags a kept value. Bits without a meaning are no value.
macro_rules! flags {
    ($($type:ty)*) => {
        $(impl KeptValue for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.bits().put(out);
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                KeptValue::take(from).and_then(<$type>::from_bits)
            }
        })*
    };
}

flags! { AddressFlags InterfaceFlags }

/// Makes an enumeration without fields a kept value, by the place in its list.
macro_rules! choices {
    ($type:ty [$($variant:ident)*]) => {
        impl KeptValue for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let all = [$(<$type>::$variant),*];
                let place = all.iter().position(|one| one == self);
                out.push(place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX));
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                let all = [$(<$type>::$variant),*];
                all.get(usize::from(u8::take(from)?)).copied()
            }
        }
    };
}

choices! { AddressScope [Host Link Site Organisation Global] }
choices! { RouteKind [Unicast Local Broadcast Blackhole Unreachable Prohibit Throw] }

impl KeptValue for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<bool> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: KeptValue> KeptValue for Option<T> {
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

impl<T: KeptValue> KeptValue for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        self.iter().for_each(|one| one.put(out));
    }
    fn take(from: &mut &[u8]) -> Option<Vec<T>> {
        let count = u32::take(from)?;
        // Each value has a byte at least, so a length that is none ends soon.
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl KeptValue for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_bytes().to_vec().put(out);
    }
    fn take(from: &mut &[u8]) -> Option<String> {
        String::from_utf8(KeptValue::take(from)?).ok()
    }
}

impl<const N: usize> KeptValue for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(from: &mut &[u8]) -> Option<[u8; N]> {
        from.split_off(..N)?.try_into().ok()
    }
}

impl<T: KeptValue, U: KeptValue> KeptValue for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<(T, U)> {
        Some((T::take(from)?, U::take(from)?))
    }
}

impl KeptValue for Ipv4Addr {
    fn put(&self, out: &mut Vec<u8>) {
        self.octets().put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Ipv4Addr> {
        <[u8; 4]>::take(from).map(Ipv4Addr::from)
    }
}

impl KeptValue for IpAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(address) => (4u8, address.octets()).put(out),
            IpAddr::V6(address) => (6u8, address.octets()).put(out),
        }
    }
    fn take(from: &mut &[u8]) -> Option<IpAddr> {
        match u8::take(from)? {
            4 => Ipv4Addr::take(from).map(IpAddr::V4),
            6 => <[u8; 16]>::take(from).map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
            _ => None,
        }
    }
}

impl KeptValue for Prefix {
    fn put(&self, out: &mut Vec<u8>) {
        (self.address(), self.length()).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Prefix> {
        let (address, length) = KeptValue::take(from)?;
        Prefix::new(address, length)
    }
}

impl KeptValue for RouteMetrics {
    fn put(&self, out: &mut Vec<u8>) {
        (1..=RouteMetrics::LAST).for_each(|number| self.get(number).put(out));
    }
    fn take(from: &mut &[u8]) -> Option<RouteMetrics> {
        let mut metrics = RouteMetrics::default();
        for number in 1..=RouteMetrics::LAST {
            metrics.set(number, u32::take(from)?);
        }
        Some(metrics)
    }
}

impl<T: KeptValue> KeptValue for Arc<[T]> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        self.iter().for_each(|one| one.put(out));
    }
    fn take(from: &mut &[u8]) -> Option<Arc<[T]>> {
        Vec::take(from).map(Arc::from)
    }
}

impl KeptValue for InterfaceIndex {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<InterfaceIndex> {
        u32::take(from).map(InterfaceIndex)
    }
}

impl KeptValue for TableId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<TableId> {
        u32::take(from).map(TableId)
    }
}

fields! { Ipv6Settings { hop_limit mtu reachable_ms retransmit_ms is_autoconfigured is_disabled } }

fields! { InterfaceAddress {
    address prefix_length scope flags broadcast preferred_until_ns valid_until_ns peer label metric changed_ns
} }

// Groups and wanted frames come back with the addresses and the sockets, offloads with the card.
fields! { Interface {
    index name alias mtu flags mac addresses ipv6 transmit_queue carrier_changes
}
    groups: BTreeMap::new(),
    wanted: WantedFrames::default(),
    offloads: LinkOffloads::empty(),
}

fields! { Route {
    destination kind interface gateway preferred_source metric protocol metrics expires_ns scope is_on_link
} }

fields! { RuleRecord {
    is_version6 priority action table target flags protocol source destination type_of_service mark mark_mask input output users
    ip_protocol source_ports destination_ports suppress_prefix suppress_group
} }

fields! { Rules { version4 version6 has_changed4 } }
