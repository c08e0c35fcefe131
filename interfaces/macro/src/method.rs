//! The macro's view of a trait: [`Interface`] and its [`Method`]s.
use syn::{
    Error, FnArg, Ident, ItemTrait, LitInt, Pat, ReturnType, Token, TraitItem, TraitItemFn, Type,
    Visibility, parse::Parse, parse::ParseStream, parse_quote,
};

/// The argument of `#[interface]`.
pub(crate) enum InterfaceKind {
    /// `number = N`.
    Numbered(u16),
    /// `direct`.
    Direct,
}

impl Parse for InterfaceKind {
    fn parse(input: ParseStream<'_>) -> Result<InterfaceKind, Error> {
        let word: Ident = input
            .parse()
            .map_err(|error| Error::new(error.span(), "say `number = N` or `direct`"))?;
        if word == "direct" {
            return Ok(InterfaceKind::Direct);
        }
        if word != "number" {
            return Err(Error::new(word.span(), "say `number = N` or `direct`"));
        }
        input.parse::<Token![=]>()?;
        input.parse::<LitInt>()?.base10_parse().map(InterfaceKind::Numbered)
    }
}

/// An argument: its name, its type without a reference, and whether there was one.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) wire: Type,
    pub(crate) declared: Type,
    pub(crate) is_reference: bool,
}

/// A method that is a message.
pub(crate) struct Method {
    pub(crate) name: Ident,
    pub(crate) number: u16,
    pub(crate) is_idempotent: bool,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) result: Type,
    pub(crate) summary: String,
}

/// A trait with a number.
pub(crate) struct Interface {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) number: u16,
    pub(crate) methods: Vec<Method>,
    /// At least one method is not a message, so the client cannot implement the trait.
    pub(crate) has_direct: bool,
    pub(crate) summary: String,
}

impl Interface {
    /// Decodes the trait `item` and removes the marks from its methods. A method's number is its
    /// index among all methods.
    pub(crate) fn decode(item: &mut ItemTrait, number: u16) -> Result<Interface, Error> {
        let summary = summary_of(&item.attrs);
        let mut methods = Vec::new();
        let mut has_direct = false;
        let functions = item.items.iter_mut().filter_map(|item| match item {
            TraitItem::Fn(function) => Some(function),
            _ => None,
        });
        for (place, function) in (0..=u16::MAX).zip(functions) {
            match Method::decode(function, place)? {
                Some(method) => methods.push(method),
                None => has_direct = true,
            }
        }
        let (name, visibility) = (item.ident.clone(), item.vis.clone());
        Ok(Interface { name, visibility, number, methods, has_direct, summary })
    }
}

impl Method {
    /// Decodes one method. Returns `None` if it is marked `#[direct]`.
    fn decode(function: &mut TraitItemFn, number: u16) -> Result<Option<Method>, Error> {
        let is_direct = take_mark(function, "direct").is_some();
        let is_idempotent = take_mark(function, "idempotent").is_some();
        let deadline = take_mark(function, "deadline_ns");
        if is_direct {
            return Ok(None);
        }
        let deadline_ns =
            deadline.map(|mark| mark.parse_args::<LitInt>()?.base10_parse()).transpose()?;
        if !function.sig.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &function.sig,
                "a generic method is no message: #[direct]",
            ));
        }
        let arguments =
            function.sig.inputs.iter().skip(1).map(argument).collect::<Result<_, _>>()?;
        let result = match &function.sig.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, result) => (**result).clone(),
        };
        let (name, summary) = (function.sig.ident.clone(), summary_of(&function.attrs));
        Ok(Some(Method { name, number, is_idempotent, deadline_ns, arguments, result, summary }))
    }
}

fn argument(argument: &FnArg) -> Result<Argument, Error> {
    let FnArg::Typed(typed) = argument else {
        return Err(Error::new_spanned(argument, "`&self` comes first"));
    };
    let Pat::Ident(name) = &*typed.pat else {
        return Err(Error::new_spanned(&typed.pat, "an argument of a message has a name"));
    };
    let declared = (*typed.ty).clone();
    let (wire, is_reference) = match &declared {
        Type::Reference(reference) => ((*reference.elem).clone(), true),
        other => (other.clone(), false),
    };
    Ok(Argument { name: name.ident.clone(), wire, declared, is_reference })
}

fn take_mark(function: &mut TraitItemFn, mark: &str) -> Option<syn::Attribute> {
    let place = function.attrs.iter().position(|attribute| attribute.path().is_ident(mark))?;
    Some(function.attrs.remove(place))
}

/// Returns the first sentence of an item's documentation.
fn summary_of(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let text = lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.clone(), |(first, _)| format!("{first}."))
}

/// Returns the label of a method's message.
pub(crate) fn label(interface: u16, method: u16) -> u64 {
    u64::from(interface) << 16 | u64::from(method)
}
