//! Tests of the arithmetic and of the text.
use crate::{
    CATEGORIES, Categories, Context, ContextError, ContextId, ContextTable, Grade, LEVEL_MAX,
    Relation, Secrecy, SecrecyId, SecrecyRange, SecrecyTable, TableFull,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use proptest::prelude::*;

fn categories(numbers: &[u16]) -> Categories {
    let mut categories = Categories::NONE;
    assert!(numbers.iter().all(|number| categories.insert(*number)));
    categories
}

/// Every secrecy of three levels and four categories that lie in different words.
fn some() -> Vec<Secrecy> {
    let sets = (0..16).map(|bits| {
        let numbers: Vec<u16> = (0..4).filter(|bit| bits >> bit & 1 != 0).collect();
        categories(
            &numbers.iter().map(|bit| [0, 63, 64, 1023][usize::from(*bit)]).collect::<Vec<_>>(),
        )
    });
    let sets: Vec<_> = sets.collect();
    let of_level = |level| sets.iter().map(move |set| Secrecy::new(level, *set).unwrap());
    [0, 7, 15].into_iter().flat_map(of_level).collect()
}

#[test]
fn secrecies_are_a_lattice() {
    let all = some();
    for a in &all {
        assert_eq!((a.join(a), a.meet(a), a.relation(a)), (*a, *a, Relation::Equal));
        assert!(Secrecy::HIGH.dominates(a) && a.dominates(&Secrecy::LOW));
        for b in &all {
            let (join, meet) = (a.join(b), a.meet(b));
            assert_eq!((join, meet), (b.join(a), b.meet(a)));
            assert_eq!((a.join(&meet), a.meet(&join)), (*a, *a), "absorption");
            assert!(
                join.dominates(a) && join.dominates(b) && a.dominates(&meet) && b.dominates(&meet)
            );
            assert_eq!(a.dominates(b) && b.dominates(a), a == b, "antisymmetry");
            assert_eq!(a.dominates(b), join == *a);
            for c in &all {
                assert!(!(a.dominates(b) && b.dominates(c)) || a.dominates(c), "transitivity");
                assert_eq!((join.join(c), meet.meet(c)), (a.join(&b.join(c)), a.meet(&b.meet(c))));
                assert!(!(c.dominates(a) && c.dominates(b)) || c.dominates(&join), "the least");
                assert!(!(a.dominates(c) && b.dominates(c)) || meet.dominates(c), "the greatest");
            }
        }
    }
}

#[test]
fn relations_tell_all_four_cases_and_their_opposites() {
    let secrecy = |text: &str| text.parse::<Secrecy>().unwrap();
    let cases = [
        ("s1", "s1", Relation::Equal, Relation::Equal),
        ("s2", "s1", Relation::Dominates, Relation::Dominated),
        ("s1:c3", "s1", Relation::Dominates, Relation::Dominated),
        ("s2", "s1:c3", Relation::Incomparable, Relation::Incomparable),
        ("s1:c2", "s1:c3", Relation::Incomparable, Relation::Incomparable),
    ];
    for (a, b, forth, back) in cases {
        assert_eq!(
            (secrecy(a).relation(&secrecy(b)), secrecy(b).relation(&secrecy(a))),
            (forth, back)
        );
    }
}

#[test]
fn ranges_contain_what_lies_between_their_ends() {
    let all = some();
    for low in &all {
        for high in &all {
            let Some(range) = SecrecyRange::new(*low, *high) else {
                assert!(!high.dominates(low));
                continue;
            };
            for one in &all {
                let is_between = one.dominates(low) && high.dominates(one);
                assert_eq!(range.contains(one), is_between);
                assert_eq!(range.includes(&SecrecyRange::single(*one)), is_between);
            }
            assert!(SecrecyRange::ALL.includes(&range) && range.includes(&range));
        }
    }
}

#[test]
fn grades_are_ordered_and_named() {
    assert!(Grade::ALL.is_sorted() && Grade::default() == Grade::Untrusted);
    for grade in Grade::ALL {
        assert_eq!(Grade::named(&grade.to_string()), Some(grade));
    }
    assert_eq!(Grade::named("root"), None);
}

#[test]
fn texts_are_those_of_selinux() {
    for text in [
        "system_u:object_r:etc_t:s0",
        "u:r:t:s0-s15:c0.c1023",
        "staff_u:staff_r:staff_t:s1:c0,c1-s3:c0.c5,c7",
        "a-b:c.d:e$f:s15:c1023",
    ] {
        let context: Context = text.parse().unwrap();
        assert_eq!(context.to_string(), text);
    }
    let context: Context = "u:r:t:s1:c3.c5,c2,c4,c2-s1:c0.c9".parse().unwrap();
    assert_eq!(context.to_string(), "u:r:t:s1:c2.c5-s1:c0.c9");
    let twice: Context = "u:r:t:s1-s1".parse().unwrap();
    assert_eq!(twice.to_string(), "u:r:t:s1");
    assert_eq!((twice.user(), twice.role(), twice.kind()), ("u", "r", "t"));
    let other = twice.with_range("s2".parse().unwrap()).with_kind("x_t").unwrap();
    assert_eq!(other.to_string(), "u:r:x_t:s2");
}

#[test]
fn texts_that_are_no_contexts_are_refused_with_the_reason() {
    let long = format!("u:r:t:s0:c{}", ",c1".repeat(2000));
    let cases: [(&str, ContextError); 24] = [
        ("", ContextError::Form),
        ("u:r:t", ContextError::Form),
        (":r:t:s0", ContextError::Form),
        ("u::t:s0", ContextError::Form),
        ("u:r::s0", ContextError::Form),
        ("u:r:t/x:s0", ContextError::Form),
        ("u:r:t :s0", ContextError::Form),
        ("u:r:t:", ContextError::Level),
        ("u:r:t:s16", ContextError::Level),
        ("u:r:t:s", ContextError::Level),
        ("u:r:t:s01", ContextError::Level),
        ("u:r:t:s+1", ContextError::Level),
        ("u:r:t:s65536", ContextError::Level),
        ("u:r:t:c1", ContextError::Level),
        ("u:r:t:s0-", ContextError::Level),
        ("u:r:t:s0 ", ContextError::Level),
        ("u:r:t:s0:", ContextError::Category),
        ("u:r:t:s0:c1024", ContextError::Category),
        ("u:r:t:s0:c1,", ContextError::Category),
        ("u:r:t:s0:c5.c5", ContextError::Category),
        ("u:r:t:s0:c5.c4", ContextError::Category),
        ("u:r:t:s0:c1.c2.c3", ContextError::Category),
        ("u:r:t:s1-s0", ContextError::Range),
        (&long, ContextError::Length),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<Context>(), Err(error), "{text:.40}");
    }
    assert_eq!("u:r:t:s0:c1-s1".parse::<Context>(), Err(ContextError::Range));
}

#[test]
fn a_table_gives_each_secrecy_one_number_and_ends_at_its_limit() {
    let mut table = SecrecyTable::default();
    assert_eq!((table.get(SecrecyId::NONE), table.find(&Secrecy::LOW)), (None, None));
    let low = table.intern(&Secrecy::LOW, 2).unwrap();
    let high = table.intern(&Secrecy::HIGH, 2).unwrap();
    assert!(low != high && ![low, high].contains(&SecrecyId::NONE));
    assert_eq!((table.intern(&Secrecy::LOW, 2), table.find(&Secrecy::HIGH)), (Ok(low), Some(high)));
    assert_eq!((table.get(low), table.get(high)), (Some(&Secrecy::LOW), Some(&Secrecy::HIGH)));
    let other = Secrecy::new(1, Categories::NONE).unwrap();
    assert_eq!(table.intern(&other, 2), Err(TableFull));
    assert_eq!((table.get(SecrecyId::TOLD), table.get(SecrecyId(3))), (None, None));
}

#[test]
fn a_table_gives_each_context_one_number_and_ends_at_its_limit() {
    let mut table = ContextTable::new(3);
    let context = |text: &str| text.parse::<Context>().unwrap();
    assert!(table.is_empty());
    for (text, number) in [("u:r:a:s0", 0), ("u:r:b:s0", 1), ("u:r:a:s0", 0), ("u:r:a:s1", 2)] {
        assert_eq!(table.intern(&context(text)), Ok(ContextId(number)));
        assert_eq!(**table.get(ContextId(number)).unwrap(), context(text));
    }
    assert_eq!(table.intern(&context("u:r:c:s0")), Err(TableFull));
    assert_eq!(table.intern(&context("u:r:b:s0")), Ok(ContextId(1)), "a known one is none more");
    assert_eq!((table.len(), table.find(&context("u:r:c:s0"))), (3, None));
    assert!(table.get(ContextId(3)).is_none());
}

fn any_secrecy() -> impl Strategy<Value = Secrecy> {
    let numbers = proptest::collection::vec(0..CATEGORIES, 0..40);
    (0..=LEVEL_MAX, numbers)
        .prop_map(|(level, numbers)| Secrecy::new(level, categories(&numbers)).unwrap())
}

proptest! {
    #[test]
    fn a_secrecy_survives_its_text(a in any_secrecy(), b in any_secrecy()) {
        prop_assert_eq!(a.to_string().parse::<Secrecy>(), Ok(a));
        let range = SecrecyRange::new(a.meet(&b), a.join(&b)).unwrap();
        prop_assert_eq!(range.to_string().parse::<SecrecyRange>(), Ok(range));
        prop_assert!(range.contains(&a) && range.contains(&b));
    }
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z0-9:.,sc-]{0,60}") {
        if let Ok(context) = text.parse::<Context>() {
            let again: String = context.to_string();
            prop_assert_eq!(again.parse::<Context>(), Ok(context));
        }
    }
}
