//! Generates implementations of `Marshal` for `#[derive(Marshal)]`.
use crate::wire::shape;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Field, Fields, Ident, Index, Member};

pub(crate) fn derive(item: &DeriveInput) -> Result<TokenStream, Error> {
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(&item.generics, "a type of bytes has no parameters"));
    }
    let name = &item.ident;
    let (put, take) = match &item.data {
        Data::Struct(data) => structure(&data.fields)?,
        Data::Enum(data) => enumeration(name, data)?,
        Data::Union(_) => return Err(Error::new_spanned(item, "a union says not what it is")),
    };
    Ok(quote! {
        impl ::interfaces::marshal::Marshal for #name {
            fn put(&self, out: &mut ::alloc::vec::Vec<u8>) {
                #put
            }
            fn take(from: &mut &[u8]) -> ::core::option::Option<Self> {
                #take
            }
        }
    })
}

/// Returns whether the field is marked `#[marshal(skip)]`.
fn is_skipped(field: &Field) -> Result<bool, Error> {
    let mut is_skipped = false;
    for attribute in field.attrs.iter().filter(|one| one.path().is_ident("marshal")) {
        attribute.parse_nested_meta(|meta| {
            is_skipped = meta.path.is_ident("skip");
            if is_skipped { Ok(()) } else { Err(meta.error("only `skip` is known")) }
        })?;
    }
    Ok(is_skipped)
}

fn structure(fields: &Fields) -> Result<(TokenStream, TokenStream), Error> {
    let (mut puts, mut takes) = (Vec::new(), Vec::new());
    for (place, field) in fields.iter().enumerate() {
        let member = match &field.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(Index::from(place)),
        };
        if is_skipped(field)? {
            takes.push(quote!(#member: ::core::default::Default::default()));
        } else {
            puts.push(quote!(::interfaces::marshal::Marshal::put(&self.#member, out);));
            takes.push(quote!(#member: ::interfaces::marshal::Marshal::take(from)?));
        }
    }
    Ok((quote!(#(#puts)*), quote!(::core::option::Option::Some(Self { #(#takes),* }))))
}

fn enumeration(name: &Ident, data: &DataEnum) -> Result<(TokenStream, TokenStream), Error> {
    let (mut puts, mut takes) = (Vec::new(), Vec::new());
    for (place, variant) in data.variants.iter().enumerate() {
        let tag = u8::try_from(place)
            .map_err(|_| Error::new_spanned(variant, "a tag of one byte has 256 variants"))?;
        let ident = &variant.ident;
        let (names, shape) = shape(&quote!(#name::#ident), &variant.fields);
        puts.push(quote! {
            #shape => {
                out.push(#tag);
                #(::interfaces::marshal::Marshal::put(#names, out);)*
            }
        });
        takes.push(quote! {
            #tag => {
                #(let #names = ::interfaces::marshal::Marshal::take(from)?;)*
                #shape
            }
        });
    }
    let put = quote!(match self { #(#puts)* });
    let take = quote! {
        ::core::option::Option::Some(match <u8 as ::interfaces::marshal::Marshal>::take(from)? {
            #(#takes)*
            _ => return ::core::option::Option::None,
        })
    };
    Ok((put, take))
}
