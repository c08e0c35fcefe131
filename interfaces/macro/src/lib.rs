//! `#[interface]`: derives a client handle from a trait between components.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{ItemTrait, parse_macro_input};

/// Keeps the trait and adds `NAMEHandle`, the counted handle a client holds.
#[proc_macro_attribute]
pub fn interface(_attributes: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemTrait);
    let name = &item.ident;
    let visibility = &item.vis;
    let handle = format_ident!("{name}Handle");
    let summary = format!("A client's handle on a [`{name}`].");
    quote! {
        #item
        #[doc = #summary]
        #visibility type #handle = alloc::sync::Arc<dyn #name>;
    }
    .into()
}
