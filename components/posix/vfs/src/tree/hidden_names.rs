//! The names of the hidden directories in multilevel ones: [`PREFIX`] and a level, `.mls:s1:c0.c5`.
//!
//! Where a policy is enforced, programs neither make such names nor find them, except those that read up ([`crate::walk::multilevel`]).
use crate::base::security::Label;
use alloc::vec::Vec;
use labels::{CATEGORIES, Context};

/// The beginning of the names.
const PREFIX: &[u8] = b".mls:";
/// The length of the longest name.
const NAME_MAX: usize = 255;
/// The digits of a level, and of five categories, whose names would be too long.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Returns whether a name is one of a hidden directory.
#[inline]
pub(crate) fn is_hidden_name(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the name of the hidden directory with a label. Categories whose text is too long for a name are written as a set of bits.
pub(crate) fn of_label(label: &Label) -> Vec<u8> {
    let text = label.text();
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let level = text.splitn(4, |byte| *byte == b':').last().unwrap_or_default();
    let mut name = PREFIX.to_vec();
    match core::str::from_utf8(text).ok().and_then(|text| text.parse::<Context>().ok()) {
        Some(context) if PREFIX.len() + level.len() > NAME_MAX => pack(&context, &mut name),
        _ => name.extend_from_slice(level),
    }
    name
}

/// Appends `=`, the digit of the level and a digit for each five categories.
fn pack(context: &Context, name: &mut Vec<u8>) {
    let secrecy = context.range().low();
    let categories = secrecy.categories();
    let digit = |bits: usize| DIGITS.get(bits).copied().unwrap_or(b'?');
    name.push(b'=');
    name.push(digit(usize::from(secrecy.level())));
    for first in (0..CATEGORIES).step_by(5) {
        let bits = (0..5).filter(|bit| categories.contains(first + bit));
        name.push(digit(bits.map(|bit| 1 << bit).sum()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_name_of_its_own() {
        let name = |level: &str| {
            let text = alloc::format!("system_u:object_r:tmp_t:{level}\0");
            let name = of_label(&Label::of_text(text.as_bytes()));
            assert!(is_hidden_name(&name) && name.len() <= NAME_MAX, "{name:?}");
            name
        };
        assert_eq!(name("s1:c0.c5,c7"), b".mls:s1:c0.c5,c7");
        let many =
            |count: u16| (0..count).map(|one| alloc::format!("c{}", 2 * one)).collect::<Vec<_>>();
        let [all, fewer] = [512, 511].map(|count| many(count).join(","));
        let long = [
            format!("s1:{all}"),
            format!("s2:{all}"),
            format!("s1:{fewer}"),
            format!("s1:{fewer},c1023"),
        ];
        let names: std::collections::BTreeSet<_> = long.iter().map(|level| name(level)).collect();
        assert_eq!(names.len(), long.len());
    }
}
