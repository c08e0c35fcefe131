//! Generates `NAMEServer`, which answers each message by a call of the object, and the interface's
//! layout for the book.
use crate::method::{Interface, Method, label};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

pub(crate) fn generate(interface: &Interface) -> TokenStream {
    let Interface { name, visibility, number, .. } = interface;
    let server = format_ident!("{name}Server");
    let summary = format!("Answers messages by calls of a [`{name}`].");
    let arms = interface.methods.iter().map(|method| arm(method, *number));
    let layout = layout(interface);
    quote! {
        #[doc = #summary]
        #[derive(Debug)]
        #visibility struct #server<T: #name + ?Sized> {
            name: ::interfaces::wire::Name,
            target: alloc::sync::Arc<T>,
        }
        impl<T: #name + ?Sized> #server<T> {
            /// Serves `target` as the instance called `name`.
            #visibility fn new(name: &str, target: alloc::sync::Arc<T>) -> Self {
                Self { name: ::interfaces::wire::Name::cut(name), target }
            }
            /// Does what `message` asks of `target`; the answer comes in its place.
            ///
            /// # Errors
            /// [`Refusal`](::interfaces::call::Refusal): nothing was done.
            #[inline]
            #visibility fn dispatch(
                target: &T,
                message: &mut ::rt::message::Message,
            ) -> ::core::result::Result<(), ::interfaces::call::Refusal> {
                match message.label() {
                    #(#arms)*
                    label => Err(::interfaces::call::Refusal::of_stray(label, #number)),
                }
            }
        }
        impl<T: #name + ?Sized> ::interfaces::service::Serve for #server<T> {
            fn description(&self) -> ::interfaces::service::Description {
                ::interfaces::service::Description { interface: #number, name: self.name }
            }
            #[inline]
            fn serve(
                &self,
                message: &mut ::rt::message::Message,
            ) -> ::core::result::Result<(), ::interfaces::call::Refusal> {
                Self::dispatch(&self.target, message)
            }
        }
        #layout
    }
}

fn arm(method: &Method, interface: u16) -> TokenStream {
    let (label, name) = (label(interface, method.number), &method.name);
    let names = method.arguments.iter().map(|argument| &argument.name).collect::<Vec<_>>();
    let types = method.arguments.iter().map(|argument| &argument.wire).collect::<Vec<_>>();
    let passed = method.arguments.iter().map(|argument| {
        let name = &argument.name;
        if argument.is_reference { quote!(&#name) } else { quote!(#name) }
    });
    quote! {
        #label => {
            let words = 0 #(+ <#types as ::interfaces::wire::Wire>::WORDS)*;
            let mut reader = ::interfaces::wire::Reader::of_call(message, words)?;
            #(let #names = reader.take::<#types>()?;)*
            reader.finish()?;
            let result = target.#name(#(#passed),*);
            message.reset(::interfaces::call::DONE);
            ::interfaces::wire::Wire::put(&result, message);
            Ok(())
        }
    }
}

fn layout(interface: &Interface) -> TokenStream {
    let Interface { name, visibility, number, summary, .. } = interface;
    let constant = format_ident!("{}_LAYOUT", shouted(&name.to_string()));
    let title = format!("The messages of [`{name}`].");
    let text = name.to_string();
    let methods = interface.methods.iter().map(|method| {
        let Method { number, is_idempotent, result, summary, .. } = method;
        let name = method.name.to_string();
        let arguments = method.arguments.iter().map(|argument| {
            let (name, wire) = (argument.name.to_string(), &argument.wire);
            quote!(::interfaces::wire::Field::of::<#wire>(#name, stringify!(#wire)))
        });
        quote! {
            ::interfaces::wire::Method {
                name: #name,
                number: #number,
                summary: #summary,
                is_idempotent: #is_idempotent,
                arguments: &[#(#arguments),*],
                result: ::interfaces::wire::Field::of::<#result>("", stringify!(#result)),
            }
        }
    });
    quote! {
        #[doc = #title]
        #visibility const #constant: ::interfaces::wire::Layout = ::interfaces::wire::Layout {
            name: #text,
            number: #number,
            summary: #summary,
            methods: &[#(#methods),*],
        };
    }
}

/// Converts a name to upper case: `BlockControl` becomes `BLOCK_CONTROL`.
fn shouted(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
    }
    text
}
