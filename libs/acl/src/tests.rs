//! Tests of the meaning of lists, and of the lossless conversion of their two forms.
use super::*;
use alloc::{vec, vec::Vec};
use proptest::prelude::*;

fn entry(tag: Tag, permissions: u16) -> AclEntry {
    AclEntry { tag, permissions }
}

fn full() -> Acl {
    Acl::new(vec![
        entry(Tag::Owner, 7),
        entry(Tag::User(1000), 6),
        entry(Tag::OwnerGroup, 4),
        entry(Tag::Group(50), 3),
        entry(Tag::Mask, 5),
        entry(Tag::Other, 0),
    ])
    .unwrap()
}

struct Who(u32, &'static [u32]);

impl Subject for Who {
    fn is_user(&self, user: u32) -> bool {
        self.0 == user
    }
    fn is_in_group(&self, group: u32) -> bool {
        self.1.contains(&group)
    }
}

#[test]
fn a_list_holds_together_or_is_none() {
    let minimal = [entry(Tag::Owner, 7), entry(Tag::OwnerGroup, 5), entry(Tag::Other, 0)];
    let acl = Acl::new(minimal.to_vec()).unwrap();
    assert!(acl.is_mode() && acl.mode() == 0o750);
    let whole = full().entries().to_vec();
    for left_out in [0, 2, 4, 5] {
        let mut part = whole.clone();
        part.remove(left_out);
        assert_eq!(Acl::new(part), None, "without {left_out}");
    }
    for at in 0..whole.len() - 1 {
        let mut turned = whole.clone();
        turned.swap(at, at + 1);
        assert_eq!(Acl::new(turned), None, "{at} swapped");
    }
    for at in [0, 2, 4, 5] {
        let mut twice = whole.clone();
        twice.insert(at, whole[at]);
        assert_eq!(Acl::new(twice), None, "{at} twice");
    }
    let mut odd = whole.clone();
    odd[0].permissions = 8;
    assert_eq!(Acl::new(odd), None);
    assert_eq!(Acl::new(vec![]), None);
    // As on Linux, a name may be in the list twice, and names in any order.
    let mut named = whole.clone();
    named.insert(1, entry(Tag::User(2000), 1));
    named.insert(1, entry(Tag::User(2000), 7));
    assert!(Acl::new(named).is_some());
    let masked = [minimal[0], minimal[1], entry(Tag::Mask, 1), minimal[2]];
    let masked = Acl::new(masked.to_vec()).unwrap();
    assert!(!masked.is_mode() && masked.mode() == 0o710);
}

#[test]
fn the_first_entry_that_fits_decides() {
    let acl = full();
    let allowed = |who: Who| (0..8).rfind(|wanted| acl.allows(&who, (1, 2), *wanted)).unwrap_or(0);
    assert_eq!(allowed(Who(1, &[2])), 7);
    assert_eq!(allowed(Who(1000, &[2, 50])), 4);
    assert_eq!(allowed(Who(3, &[2])), 4);
    assert_eq!(allowed(Who(3, &[50])), 1);
    assert_eq!(allowed(Who(3, &[])), 0);
    // One group allows reading and another executing; no group allows both.
    let both = Who(3, &[2, 50]);
    assert!(acl.allows(&both, (1, 2), 4) && acl.allows(&both, (1, 2), 1));
    assert!(!acl.allows(&both, (1, 2), 5) && !acl.allows(&both, (1, 2), 2));
}

#[test]
fn what_is_made_gets_no_more_than_asked_for() {
    let list = full().inherited(0o2666);
    assert_eq!(list.mode(), 0o640);
    let bits: Vec<u16> = list.entries().iter().map(|entry| entry.permissions).collect();
    assert_eq!(bits, [6, 6, 4, 3, 4, 0]);
}

fn any_tag() -> impl Strategy<Value = Tag> {
    let id = 0..u32::MAX;
    prop_oneof![
        Just(Tag::Owner),
        id.clone().prop_map(Tag::User),
        Just(Tag::OwnerGroup),
        id.prop_map(Tag::Group),
        Just(Tag::Mask),
        Just(Tag::Other),
    ]
}

fn any_entry() -> impl Strategy<Value = AclEntry> {
    (any_tag(), any::<u16>()).prop_map(|(tag, permissions)| AclEntry { tag, permissions })
}

fn any_list() -> impl Strategy<Value = Acl> {
    let class = || 0..8_u16;
    let named = || proptest::collection::vec((0..9_u32, class()), 0..4);
    (class(), named(), class(), named(), class(), class(), any::<bool>()).prop_map(
        |(owner, users, group, groups, mask, other, has_mask)| {
            let has_mask = has_mask || !users.is_empty() || !groups.is_empty();
            let mut list = vec![entry(Tag::Owner, owner)];
            list.extend(users.into_iter().map(|(id, bits)| entry(Tag::User(id), bits)));
            list.push(entry(Tag::OwnerGroup, group));
            list.extend(groups.into_iter().map(|(id, bits)| entry(Tag::Group(id), bits)));
            list.extend(has_mask.then_some(entry(Tag::Mask, mask)));
            list.push(entry(Tag::Other, other));
            Acl::new(list).expect("made to hold together")
        },
    )
}

proptest! {
    #[test]
    fn both_forms_give_back_what_was_written(list in proptest::collection::vec(any_entry(), 1..20)) {
        prop_assert_eq!(from_portable(&to_portable(&list)), Ok(Some(list.clone())));
        prop_assert_eq!(from_disk(&to_disk(&list)), Ok(list));
    }

    /// Tests random bytes, most of them after a valid header and with tags that exist.
    #[test]
    fn damaged_lists_are_refused_or_read(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..64),
        head in 0..4_u8,
        tags in proptest::collection::vec(0..7_u8, 8),
    ) {
        if head > 0 && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&[head, 0, 0, 0]);
            for (part, tag) in bytes[4..].chunks_mut(8).zip(tags) {
                part[0] = 1 << tag;
                if let Some(high) = part.get_mut(1) {
                    *high = 0;
                }
            }
        }
        if let Ok(Some(list)) = from_portable(&bytes) {
            prop_assert_eq!(to_portable(&list).len(), bytes.len());
            let _ = Acl::new(list);
        }
        if let Ok(list) = from_disk(&bytes) {
            prop_assert_eq!(to_disk(&list), bytes);
        }
    }

    #[test]
    fn a_mode_set_is_the_mode_shown(mut list in any_list(), mode in 0..0o1000_u16) {
        list.set_mode(mode);
        prop_assert_eq!(list.mode(), mode);
        prop_assert!(Acl::new(list.entries().to_vec()).is_some());
    }

    #[test]
    fn what_is_inherited_allows_nothing_more(list in any_list(), mode in 0..0o1000_u16) {
        prop_assert_eq!(list.inherited(mode).mode(), mode & list.mode());
    }

    /// Tests that a list without names allows the same as its mode.
    #[test]
    fn a_list_that_is_a_mode_decides_as_the_mode(mode in 0..0o1000_u16, wanted in 0..8_u16) {
        let mut list = Acl::new(vec![
            entry(Tag::Owner, 0), entry(Tag::OwnerGroup, 0), entry(Tag::Other, 0),
        ]).unwrap();
        list.set_mode(mode);
        for (who, shift) in [(Who(1, &[2]), 6), (Who(3, &[2]), 3), (Who(3, &[]), 0)] {
            let is_allowed = mode >> shift & wanted == wanted;
            prop_assert_eq!(list.allows(&who, (1, 2), wanted), is_allowed);
        }
    }
}
