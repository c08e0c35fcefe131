//! Generates implementations of `Wire` for `#[derive(Wire)]`.
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Type};

pub(crate) fn derive(item: &DeriveInput) -> Result<TokenStream, Error> {
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(&item.generics, "what travels has no parameters"));
    }
    match &item.data {
        Data::Struct(data) => Ok(structure(&item.ident, &data.fields)),
        Data::Enum(data) => Ok(enumeration(&item.ident, data)),
        Data::Union(_) => Err(Error::new_spanned(item, "a union says not what it is")),
    }
}

fn types(fields: &Fields) -> Vec<&Type> {
    fields.iter().map(|field| &field.ty).collect()
}

/// Returns names to bind the fields to, and the pattern or expression that holds the fields under
/// these names.
pub(crate) fn shape(path: &TokenStream, fields: &Fields) -> (Vec<Ident>, TokenStream) {
    let bound = |index: usize| format_ident!("field_{index}");
    let names = (0..fields.len()).map(bound).collect::<Vec<_>>();
    let shape = match fields {
        Fields::Named(named) => {
            let fields = named.named.iter().map(|field| &field.ident);
            quote!(#path { #(#fields: #names),* })
        }
        Fields::Unnamed(_) => quote!(#path(#(#names),*)),
        Fields::Unit => quote!(#path),
    };
    (names, shape)
}

fn words(types: &[&Type]) -> TokenStream {
    quote!(0 #(+ <#types as ::interfaces::wire::Wire>::WORDS)*)
}

fn structure(name: &Ident, fields: &Fields) -> TokenStream {
    let types = types(fields);
    let (names, shape) = shape(&quote!(#name), fields);
    let words = words(&types);
    quote! {
        impl ::interfaces::wire::Wire for #name {
            const WORDS: usize = #words;
            const CAPABILITIES: usize =
                0 #(+ <#types as ::interfaces::wire::Wire>::CAPABILITIES)*;
            #[inline]
            fn put(&self, message: &mut ::rt::message::Message) {
                let #shape = self;
                #(::interfaces::wire::Wire::put(#names, message);)*
            }
            #[inline]
            fn take(
                reader: &mut ::interfaces::wire::Reader<'_>,
            ) -> ::core::option::Option<Self> {
                #(let #names = <#types as ::interfaces::wire::Wire>::take(reader)?;)*
                ::core::option::Option::Some(#shape)
            }
        }
    }
}

fn enumeration(name: &Ident, data: &DataEnum) -> TokenStream {
    let lengths = data.variants.iter().map(|variant| words(&types(&variant.fields)));
    let puts = data.variants.iter().zip(0_u64..).map(|(variant, tag)| {
        let ident = &variant.ident;
        let (names, shape) = shape(&quote!(#name::#ident), &variant.fields);
        let used = words(&types(&variant.fields));
        quote! {
            #shape => {
                ::interfaces::wire::Wire::put(&#tag, message);
                #(::interfaces::wire::Wire::put(#names, message);)*
                ::interfaces::wire::pad(message, Self::WORDS - 1 - (#used));
            }
        }
    });
    let takes = data.variants.iter().zip(0_u64..).map(|(variant, tag)| {
        let ident = &variant.ident;
        let (names, shape) = shape(&quote!(#name::#ident), &variant.fields);
        let types = types(&variant.fields);
        let used = words(&types);
        quote! {
            #tag => {
                #(let #names = <#types as ::interfaces::wire::Wire>::take(reader)?;)*
                reader.skip(Self::WORDS - 1 - (#used))?;
                #shape
            }
        }
    });
    quote! {
        impl ::interfaces::wire::Wire for #name {
            const WORDS: usize = 1 + ::interfaces::wire::longest(&[#(#lengths),*]);
            #[inline]
            fn put(&self, message: &mut ::rt::message::Message) {
                match self {
                    #(#puts)*
                }
            }
            #[inline]
            fn take(
                reader: &mut ::interfaces::wire::Reader<'_>,
            ) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(
                    match <u64 as ::interfaces::wire::Wire>::take(reader)? {
                        #(#takes)*
                        _ => return ::core::option::Option::None,
                    },
                )
            }
        }
    }
}
