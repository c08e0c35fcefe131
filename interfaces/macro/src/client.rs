//! Generates `NAMEClient`, the client of an interface: each of its methods calls an endpoint.
use crate::method::{Interface, Method, label};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

pub(crate) fn generate(interface: &Interface) -> TokenStream {
    let Interface { name, visibility, number, .. } = interface;
    let client = format_ident!("{name}Client");
    let summary = format!("Calls a [`{name}`] by message: one instance behind one endpoint.");
    let calls = interface.methods.iter().map(|method| call(method, *number, visibility));
    let implementation = (!interface.has_direct).then(|| implement(interface, &client));
    quote! {
        #[doc = #summary]
        #[derive(Clone, Debug)]
        #visibility struct #client(::interfaces::call::Caller);
        impl #client {
            /// The number of the interface.
            #visibility const INTERFACE: u16 = #number;
            /// Makes a client that sends its calls through `caller`.
            #visibility fn new(caller: ::interfaces::call::Caller) -> Self {
                Self(caller)
            }
            #(#calls)*
        }
        #implementation
    }
}

fn call(method: &Method, interface: u16, visibility: &syn::Visibility) -> TokenStream {
    let name = format_ident!("call_{}", method.name);
    let summary = format!("[`Self`]'s `{}`, which may be lost on its way.", method.name);
    let label = label(interface, method.number);
    let result = &method.result;
    let arguments = method.arguments.iter().map(|argument| {
        let (name, declared) = (&argument.name, &argument.declared);
        quote!(#name: #declared)
    });
    let names = method.arguments.iter().map(|argument| &argument.name);
    let types = method.arguments.iter().map(|argument| &argument.wire).collect::<Vec<_>>();
    let puts = method.arguments.iter().zip(names).map(|(argument, name)| {
        let wire = &argument.wire;
        let place = if argument.is_reference { quote!(#name) } else { quote!(&#name) };
        quote!(<#wire as ::interfaces::wire::Wire>::put(#place, message);)
    });
    let again = if method.is_idempotent { quote!(OnRestart) } else { quote!(Never) };
    let deadline = match method.deadline_ns {
        Some(ns) => quote!(::core::option::Option::Some(#ns)),
        None => quote!(self.0.timeout_ns()),
    };
    quote! {
        #[doc = #summary]
        ///
        /// # Errors
        /// [`Failure`](::interfaces::call::Failure).
        #[inline]
        #visibility fn #name(
            &self, #(#arguments),*
        ) -> ::core::result::Result<#result, ::interfaces::call::Failure> {
            const {
                assert!(
                    0 #(+ <#types as ::interfaces::wire::Wire>::WORDS)* < ::interfaces::wire::WORDS_MAX
                        && <#result as ::interfaces::wire::Wire>::WORDS
                            <= ::interfaces::wire::WORDS_MAX,
                    "a message has 64 words, the first of which is the instance"
                );
                assert!(
                    0 #(+ <#types as ::interfaces::wire::Wire>::CAPABILITIES)* <= 1
                        && <#result as ::interfaces::wire::Wire>::CAPABILITIES <= 1,
                    "a message takes one capability along"
                );
            }
            self.0.call(#label, ::interfaces::call::Again::#again, #deadline, |message| {
                let _ = &message;
                #(#puts)*
            })
        }
    }
}

fn implement(interface: &Interface, client: &syn::Ident) -> TokenStream {
    let name = &interface.name;
    let methods = interface.methods.iter().map(|method| {
        let (name, result) = (&method.name, &method.result);
        let call = format_ident!("call_{name}");
        let names = method.arguments.iter().map(|argument| &argument.name);
        let arguments = method.arguments.iter().map(|argument| {
            let (name, declared) = (&argument.name, &argument.declared);
            quote!(#name: #declared)
        });
        quote! {
            #[inline]
            fn #name(&self, #(#arguments),*) -> #result {
                self.#call(#(#names),*).unwrap_or_else(<#result as ::interfaces::call::Lost>::lost)
            }
        }
    });
    quote! {
        impl #name for #client {
            #(#methods)*
        }
    }
}
