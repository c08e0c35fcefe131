//! The macros that turn a trait between components into messages: `#[interface]`, `#[derive(Wire)]` and
//! `#[derive(Marshal)]`.
//!
//! `#[interface(number = N)]` keeps the trait and adds `NAMEHandle` (the counted handle a client holds),
//! `NAMEClient` (calls by message) and `NAMEServer` (answers messages by calls). A method is marked
//! `#[idempotent]` if it may be done twice, `#[deadline_ns(N)]` if it has a deadline of its own, and
//! `#[direct]` if it cannot be a message; every other method's arguments and result must be `Wire` and
//! together fit in a message; otherwise the interface does not compile. `#[interface(direct)]` marks a
//! whole trait as `#[direct]`: such a trait has only a handle, and the code that carries it between worlds
//! is written by hand.
#![forbid(unsafe_code)]

mod client;
mod marshal;
mod method;
mod server;
mod wire;

use method::{Interface, InterfaceKind};
use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, ItemTrait, parse_macro_input};

/// Turns a trait into an interface; the crate's page lists the marks.
#[proc_macro_attribute]
pub fn interface(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let kind = parse_macro_input!(attributes as InterfaceKind);
    let mut item = parse_macro_input!(item as ItemTrait);
    let name = item.ident.clone();
    let visibility = item.vis.clone();
    let handle = format_ident!("{name}Handle");
    let summary = format!("A client's handle on a [`{name}`].");
    let messages = match kind {
        InterfaceKind::Direct => quote!(),
        InterfaceKind::Numbered(number) => match Interface::decode(&mut item, number) {
            Ok(interface) => {
                let (client, server) = (client::generate(&interface), server::generate(&interface));
                quote!(#client #server)
            }
            Err(error) => error.to_compile_error(),
        },
    };
    quote! {
        #item
        #[doc = #summary]
        #visibility type #handle = alloc::sync::Arc<dyn #name>;
        #messages
    }
    .into()
}

/// Lays a structure out as its fields one after the other, and an enumeration as the number of its variant
/// and that variant's fields, with zeroes up to the length of the longest.
#[proc_macro_derive(Wire)]
pub fn derive_wire(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    wire::derive(&item).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Encodes a structure as its fields one after the other, and an enumeration as a byte with the place of its variant and that
/// variant's fields. A structure's field marked `#[marshal(skip)]` is left out, and is decoded as its type's default.
#[proc_macro_derive(Marshal, attributes(marshal))]
pub fn derive_marshal(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    marshal::derive(&item).unwrap_or_else(|error| error.to_compile_error()).into()
}
