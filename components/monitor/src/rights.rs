//! The names of privileges and capabilities in policies.
use interfaces::monitor::{CAPABILITY_NAMES, CapabilityMask, Privileges};

/// Returns the privilege of that name: `read-up` is [`Privileges::READ_UP`].
pub(crate) fn privilege(name: &str) -> Option<Privileges> {
    let is_it = |known: &str| {
        let shown = known.bytes().map(|byte| match byte {
            b'_' => b'-',
            letter => letter.to_ascii_lowercase(),
        });
        shown.eq(name.bytes())
    };
    match name {
        "all" => Some(Privileges::all()),
        _ => {
            let mut all = Privileges::all().iter_names();
            all.find(|(known, _)| is_it(known)).map(|(_, privilege)| privilege)
        }
    }
}

/// Returns the mask of the capability of that name, or of `all` or `none`.
pub(crate) fn capability(name: &str) -> Option<CapabilityMask> {
    match name {
        "all" => Some(CapabilityMask::ALL),
        "none" => Some(CapabilityMask::NONE),
        _ => {
            let number = CAPABILITY_NAMES.iter().position(|known| *known == name)?;
            Some(CapabilityMask(1 << number))
        }
    }
}
