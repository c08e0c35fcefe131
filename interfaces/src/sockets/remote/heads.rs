//! Datagrams and reports of errors as bytes, with their payload apart: it goes through frames or a ring.
use crate::{
    marshal::Marshal,
    sockets::{ErrorReport, Payload, ReceivedDatagram, SentDatagram},
};
use alloc::vec::Vec;

macro_rules! payload_apart {
    ($($type:ident { $($field:ident)* })*) => {$(
        impl $type {
            /// Appends the bytes of all but the payload.
            pub fn put_head(&self, out: &mut Vec<u8>) {
                let $type { $($field,)* payload: _ } = self;
                $($field.put(out);)*
            }
            /// Takes from the beginning of `from` what [`Self::put_head`] appended, and adds a payload. Returns `None` if it is
            /// malformed.
            pub fn take_head(from: &mut &[u8], payload: Payload) -> Option<$type> {
                Some($type { $($field: Marshal::take(from)?,)* payload })
            }
        }
    )*};
}

payload_apart! {
    SentDatagram {
        destination source interface hop_limit traffic_class segment header_options extensions
    }
    ReceivedDatagram {
        source destination interface hop_limit traffic_class received_ns dropped segment header_options
        extensions
    }
    ErrorReport { error carrier message mtu destination }
}
