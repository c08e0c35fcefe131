//! The mount options of multilevel security: `context=`, `defcontext=` and `rootcontext=` (mount(8), as with SELinux).
//!
//! A context has commas, so that its text stands between double quotes.
use alloc::vec::Vec;
use interfaces::monitor::Privileges;
use vfs::{
    Active, Credentials, Errno,
    security::{self, Label},
};

/// The labels that the options of a mount name.
#[derive(Default)]
pub(super) struct MountContexts {
    whole: Option<&'static Label>,
    default: Option<&'static Label>,
    root: Option<&'static Label>,
}

/// Takes the contexts out of mount options. Returns them, and the options for the file system. In a system without a monitor there are
/// no such options.
///
/// # Errors
/// `EINVAL` for a context that is none, for one that is named twice, and for `context=` beside others; `EPERM` for a caller whose
/// domain may not relabel.
pub(super) fn split(options: &[u8], who: &Credentials) -> Result<(MountContexts, Vec<u8>), Errno> {
    let mut contexts = MountContexts::default();
    if security::monitor().is_none() {
        return Ok((contexts, options.to_vec()));
    }
    let mut others = Vec::with_capacity(options.len());
    for option in pieces(options) {
        let (name, value) = match option.iter().position(|byte| *byte == b'=') {
            Some(at) => (option.get(..at), option.get(at + 1..)),
            None => (Some(option), None),
        };
        let place = match name {
            Some(b"context") => &mut contexts.whole,
            Some(b"defcontext") => &mut contexts.default,
            Some(b"rootcontext") => &mut contexts.root,
            _ => {
                add(&mut others, option);
                continue;
            }
        };
        let text = unquoted(value.unwrap_or_default());
        if place.replace(security::named(text)?).is_some() {
            return Err(Errno::EINVAL);
        }
    }
    let MountContexts { whole, default, root } = &contexts;
    if whole.is_some() && (default.is_some() || root.is_some()) {
        return Err(Errno::EINVAL);
    }
    let is_any = whole.is_some() || default.is_some() || root.is_some();
    if is_any && !security::has(&who.subject, Privileges::RELABEL) {
        return Err(Errno::EPERM);
    }
    Ok((contexts, others))
}

fn add(options: &mut Vec<u8>, option: &[u8]) {
    if !options.is_empty() {
        options.push(b',');
    }
    options.extend_from_slice(option);
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// Returns the options between commas that are not between double quotes.
fn pieces(options: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let is_border = move |byte: &u8| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    };
    options.split(is_border).filter(|option| !option.is_empty())
}

impl MountContexts {
    /// Gives the labels to a file system.
    ///
    /// # Errors
    /// `EINVAL` if it is mounted already and has others.
    pub(super) fn apply(&self, active: &Active) -> Result<(), Errno> {
        let labels = active.instance().labels();
        labels.set(self.whole, self.default)?;
        if let Some(root) = self.root {
            active.root().vnode().assign(root);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_between_quotes_separates_nothing() {
        let options = b"ro,context=\"a:b:c:s0:c0,c5\",,size=1k";
        let found: Vec<&[u8]> = pieces(options).collect();
        assert_eq!(found, [&b"ro"[..], b"context=\"a:b:c:s0:c0,c5\"", b"size=1k"]);
        assert_eq!(unquoted(b"\"a:b:c:s0:c0,c5\""), b"a:b:c:s0:c0,c5");
        assert_eq!(unquoted(b"a"), b"a");
    }

    #[test]
    fn without_a_monitor_the_file_system_judges_all_options() {
        let options = b"mode=755,context=x";
        let (contexts, others) = split(options, &Credentials::root()).unwrap();
        assert!(contexts.whole.is_none());
        assert_eq!(others, options);
    }
}
