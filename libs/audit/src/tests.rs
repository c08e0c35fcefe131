//! Tests of the rules, by tables and with random bytes, and of the texts of records.
use super::*;
use labels::Context;
use proptest::prelude::*;
use std::sync::Arc;

/// A field, its operator and its value.
type Condition = (u32, u32, u32);

/// Builds the bytes of a rule: flags, action, calls, fields with their operator and value, texts.
fn bytes(flags: u32, action: u32, calls: &[u32], fields: &[Condition], texts: &[u8]) -> Vec<u8> {
    let mut words = vec![0u32; 260];
    words[..3].copy_from_slice(&[flags, action, fields.len() as u32]);
    calls.iter().for_each(|call| words[3 + *call as usize / 32] |= 1 << (call % 32));
    for (place, (number, operator, value)) in fields.iter().enumerate() {
        words[67 + place] = *number;
        words[131 + place] = *value;
        words[195 + place] = *operator;
    }
    words[259] = texts.len() as u32;
    words.into_iter().flat_map(u32::to_le_bytes).chain(texts.iter().copied()).collect()
}

const EQUAL: u32 = 0x4000_0000;
const NOT_EQUAL: u32 = 0x3000_0000;
const LESS: u32 = 0x1000_0000;
const GREATER_EQUAL: u32 = 0x6000_0000;
const EXIT: u32 = 4;
const ALWAYS: u32 = 2;
const OPENAT: u32 = 257;

fn rule(fields: &[Condition], texts: &[u8]) -> Result<AuditRule, RuleError> {
    AuditRule::parse(&bytes(EXIT, ALWAYS, &[OPENAT], fields, texts))
}

fn task() -> TaskFacts {
    let context: Context = "staff_u:staff_r:staff_t:s1-s3:c0".parse().unwrap();
    TaskFacts {
        process: 40,
        parent: 30,
        users: [1000, 0, 7, 8],
        groups: [100, 101, 102, 103],
        supplementary: Arc::from([5, 6]),
        login: 1000,
        session: 3,
        personality: 0,
        context: Some(Arc::new(context)),
        program: b"/usr/bin/cat"[..].into(),
    }
}

fn name() -> NameFacts {
    NameFacts {
        name: b"shadow"[..].into(),
        path: b"/etc/shadow"[..].into(),
        role: NameRole::Normal,
        file: Some(InodeFacts {
            inode: 77,
            device: (8, 1),
            mode: 0o100_640,
            user: 0,
            group: 42,
            special: (0, 0),
            context: Some(Arc::new("system_u:object_r:shadow_t:s2".parse().unwrap())),
        }),
    }
}

fn selects(rule: AuditRule, end: CallEnd, names: &[NameFacts]) -> bool {
    let mut rules = RuleSet::default();
    rules.add(rule).unwrap();
    let arguments = [1, 2, 0x1_0000_0003, 4];
    let call = CallFacts { number: OPENAT, arguments, open_flags: Some(0), end, names };
    rules.selects(&task(), &call).is_some()
}

#[test]
fn conditions_hold_as_on_linux() {
    let failed = CallEnd::Returned(-13);
    let table: &[(Condition, &[u8], bool)] = &[
        ((field::PID, EQUAL, 40), b"", true),
        ((field::PPID, NOT_EQUAL, 30), b"", false),
        ((field::UID, GREATER_EQUAL, 1000), b"", true),
        ((field::UID + 1, EQUAL, 0), b"", true),
        ((field::FSUID, LESS, 8), b"", false),
        ((field::GID, EQUAL, 6), b"", true),
        ((field::GID, NOT_EQUAL, 6), b"", false),
        ((field::FSGID, EQUAL, 6), b"", false),
        ((field::LOGINUID, EQUAL, 1000), b"", true),
        ((field::LOGINUID, NOT_EQUAL, u32::MAX), b"", true),
        ((field::LOGINUID_SET, EQUAL, 0), b"", false),
        ((field::SESSIONID, EQUAL, 3), b"", true),
        ((field::ARCH, EQUAL, ARCHITECTURE), b"", true),
        ((field::ARCH, EQUAL, 0x4000_0003), b"", false),
        ((field::EXIT, EQUAL, (-13i32) as u32), b"", true),
        ((field::SUCCESS, EQUAL, 0), b"", true),
        ((field::SUCCESS, EQUAL, 1), b"", false),
        ((field::ARG0 + 2, EQUAL, 3), b"", true),
        ((field::PERM, EQUAL, 4), b"", true),
        ((field::PERM, EQUAL, 2), b"", false),
        ((field::INODE, EQUAL, 77), b"", true),
        ((field::INODE, NOT_EQUAL, 77), b"", false),
        ((field::DEVMAJOR, EQUAL, 8), b"", true),
        ((field::FILETYPE, EQUAL, 0o100_000), b"", true),
        ((field::OBJ_GID, EQUAL, 42), b"", true),
        ((field::COMPARE, EQUAL, 3), b"", true),
        ((field::COMPARE, EQUAL, 1), b"", false),
        ((field::COMPARE, EQUAL, 10), b"", true),
        ((field::COMPARE, NOT_EQUAL, 20), b"", true),
        ((field::WATCH, EQUAL, 11), b"/etc/shadow", true),
        ((field::WATCH, EQUAL, 7), b"/etc/sh", false),
        ((field::DIR, EQUAL, 4), b"/etc", true),
        ((field::DIR, EQUAL, 3), b"/et", false),
        ((field::EXE, EQUAL, 12), b"/usr/bin/cat", true),
        ((field::KEY, EQUAL, 1), b"k", true),
        ((field::SUBJ_USER, EQUAL, 7), b"staff_u", true),
        ((field::SUBJ_TYPE, NOT_EQUAL, 7), b"staff_t", false),
        ((field::SUBJ_SEN, EQUAL, 2), b"s1", true),
        ((field::SUBJ_CLR, GREATER_EQUAL, 2), b"s3", true),
        ((field::SUBJ_CLR, LESS, 2), b"s3", false),
        ((field::SUBJ_SEN, EQUAL, 4), b"evil", false),
        ((field::OBJ_TYPE, EQUAL, 8), b"shadow_t", true),
        ((field::OBJ_LEV_LOW, EQUAL, 2), b"s2", true),
    ];
    for (condition, text, holds) in table {
        let rule =
            rule(&[*condition], text).unwrap_or_else(|error| panic!("{condition:?}: {error:?}"));
        assert_eq!(selects(rule, failed, &[name()]), *holds, "{condition:?}");
    }
    let never = rule(&[(field::EXIT, NOT_EQUAL, 0)], b"").unwrap();
    assert!(!selects(never, CallEnd::Never, &[]), "a call that does not return has no result");
}

#[test]
fn wrong_rules_are_refused() {
    let wrong: &[(&[Condition], &[u8])] = &[
        (&[(field::UID, 0, 0)], b""),
        (&[(field::UID, 0x0800_0000, 0)], b""),
        (&[(field::UID, EQUAL, u32::MAX)], b""),
        (&[(field::KEY, EQUAL, 2)], b"k"),
        (&[(field::KEY, EQUAL, 0)], b""),
        (&[(field::KEY, LESS, 1)], b"k"),
        (&[(field::KEY, EQUAL, 1), (field::KEY, EQUAL, 1)], b"kk"),
        (&[(field::KEY, EQUAL, 3)], b"a\0b"),
        (&[(field::KEY, EQUAL, 257)], &[b'k'; 257]),
        (&[(field::WATCH, EQUAL, 3)], b"etc"),
        (&[(field::WATCH, EQUAL, 5)], b"/etc/"),
        (&[(field::WATCH, NOT_EQUAL, 4)], b"/etc"),
        (&[(field::WATCH, EQUAL, 4), (field::DIR, EQUAL, 4)], b"/etc/etc"),
        (&[(field::MSGTYPE, EQUAL, 1)], b""),
        (&[(field::PERM, EQUAL, 16)], b""),
        (&[(field::LOGINUID_SET, EQUAL, 2)], b""),
        (&[(field::COMPARE, EQUAL, 26)], b""),
        (&[(26, EQUAL, 1)], b""),
        (&[(113, EQUAL, 1)], b""),
        (&[(204, EQUAL, 1)], b""),
    ];
    for (fields, texts) in wrong {
        assert_eq!(rule(fields, texts), Err(RuleError::Invalid), "{fields:?}");
    }
    assert_eq!(rule(&[(field::EXE, EQUAL, 4097)], &[b'/'; 4097]), Err(RuleError::NameTooLong));
    for (flags, action) in
        [(2, ALWAYS), (6, ALWAYS), (7, ALWAYS), (8, ALWAYS), (EXIT, 1), (EXIT, 3)]
    {
        assert_eq!(AuditRule::parse(&bytes(flags, action, &[], &[], b"")), Err(RuleError::Invalid));
    }
    let short = bytes(EXIT, ALWAYS, &[], &[], b"");
    assert_eq!(AuditRule::parse(&short[..1039]), Err(RuleError::Invalid));
    let mut many = short.clone();
    many[8..12].copy_from_slice(&65u32.to_le_bytes());
    assert_eq!(AuditRule::parse(&many), Err(RuleError::Invalid));
}

#[test]
fn classes_stand_for_their_calls() {
    // The first class: calls that change directories.
    let parsed = AuditRule::parse(&bytes(EXIT, ALWAYS, &[2047, 2046, 2032], &[], b"")).unwrap();
    assert!(parsed.calls.has(83) && parsed.calls.has(316));
    assert!(!parsed.calls.has(2047) && !parsed.calls.has(2046) && !parsed.calls.has(2032));
    let signals = AuditRule::parse(&bytes(EXIT, ALWAYS, &[2039], &[], b"")).unwrap();
    assert!(signals.calls.has(62) && !signals.calls.has(83));
}

#[test]
fn the_first_rule_decides_and_lists_are_apart() {
    let mut rules = RuleSet::default();
    rules.add(rule(&[(field::UID, EQUAL, 1000)], b"").unwrap()).unwrap();
    assert_eq!(
        rules.add(rule(&[(field::UID, EQUAL, 1000)], b"").unwrap()),
        Err(RuleChange::Exists)
    );
    let call = CallFacts {
        number: OPENAT,
        arguments: [0; 4],
        open_flags: None,
        end: CallEnd::Returned(0),
        names: &[],
    };
    assert!(rules.selects(&task(), &call).is_some());
    let other = CallFacts { number: 1, ..call };
    assert!(rules.selects(&task(), &other).is_none());
    let never = AuditRule::parse(&bytes(EXIT | 0x10, 0, &[OPENAT], &[], b"")).unwrap();
    rules.add(never.clone()).unwrap();
    assert!(rules.selects(&task(), &call).is_none(), "the rule in front decides");
    assert_eq!(rules.remove(&never), Ok(()));
    assert_eq!(rules.remove(&never), Err(RuleChange::Absent));
    assert!(rules.audits_task(&task()) && rules.writes(kind::SYSCALL, &task()));
    rules
        .add(AuditRule::parse(&bytes(1, 0, &[], &[(field::LOGINUID, EQUAL, 1000)], b"")).unwrap())
        .unwrap();
    rules
        .add(
            AuditRule::parse(&bytes(5, ALWAYS, &[], &[(field::MSGTYPE, EQUAL, 1307)], b""))
                .unwrap(),
        )
        .unwrap();
    rules
        .add(AuditRule::parse(&bytes(0, 0, &[], &[(field::MSGTYPE, EQUAL, 1112)], b"")).unwrap())
        .unwrap();
    assert!(!rules.audits_task(&task()));
    assert!(!rules.writes(kind::CWD, &task()) && rules.writes(kind::PATH, &task()));
    assert!(!rules.takes(1112, &task()) && rules.takes(1113, &task()));
}

/// Returns the candidates of [`task`] with one rule.
fn candidates(conditions: &[Condition], texts: &[u8]) -> Candidates {
    let mut rules = RuleSet::default();
    rules.add(rule(conditions, texts).unwrap()).unwrap();
    Candidates::of(&rules, &task())
}

#[test]
fn candidates_are_calls_of_tasks_that_a_rule_may_select() {
    let table: [(&[Condition], &[u8], bool); 9] = [
        (&[(field::LOGINUID, EQUAL, 1000), (field::PPID, EQUAL, 5)], b"", true),
        (&[(field::LOGINUID, EQUAL, 1001)], b"", false),
        (&[(field::UID, EQUAL, 5)], b"", false),
        (&[(field::COMPARE, EQUAL, 11)], b"", false),
        (&[(field::EXE, EQUAL, 12)], b"/usr/bin/cat", true),
        (&[(field::EXE, EQUAL, 12)], b"/usr/bin/dog", false),
        (&[(field::SUBJ_TYPE, EQUAL, 7)], b"staff_t", true),
        (&[(field::SUBJ_TYPE, EQUAL, 6)], b"user_t", false),
        (&[(field::OBJ_TYPE, EQUAL, 6)], b"user_t", true),
    ];
    for (conditions, texts, is_candidate) in table {
        let found = candidates(conditions, texts);
        let wanted = if is_candidate { Interest::Any } else { Interest::None };
        assert_eq!(found.interest(OPENAT, || [0; 6]), wanted, "{conditions:?}");
        assert_eq!(found.interest(OPENAT + 1, || [0; 6]), Interest::None);
    }
}

#[test]
fn a_watch_has_the_calls_that_access_files_in_its_ways() {
    let watch = bytes(EXIT, ALWAYS, &Vec::from_iter(0..400), &[(field::PERM, EQUAL, 2)], b"");
    let mut rules = RuleSet::default();
    rules.add(AuditRule::parse(&watch).unwrap()).unwrap();
    let found = Candidates::of(&rules, &task());
    let interest = |number, flags| found.interest(number, || [0, flags, flags, 0, 0, 0]);
    let is_candidate =
        |number: &u32| ![15, 59, 322].contains(number) && interest(*number, 2) != Interest::None;
    let calls: Vec<u32> = (0..2048).filter(is_candidate).collect();
    assert_eq!(
        calls,
        [
            2, 49, 76, 82, 83, 84, 85, 86, 87, 88, 133, 163, 167, 179, 257, 258, 259, 263, 264,
            265, 266, 285, 316
        ]
    );
    let with_flags = |flags| interest(OPENAT, flags) == Interest::Any;
    assert_eq!([0, 1, 2, 0x40].map(with_flags), [false, true, true, false]);
    assert_eq!(found.interest(2, || [1, 0, 2, 2, 2, 2]), Interest::None);
    assert_eq!(interest(83, 0), Interest::Any);
}

#[test]
fn an_ended_call_is_told_apart_by_its_result_and_its_place() {
    let arguments = [1, 2, 3, 4];
    let end = CallEnd::Returned(3);
    let call = CallFacts { number: OPENAT, arguments, open_flags: Some(0), end, names: &[] };
    let failed = CallFacts { end: CallEnd::Returned(-13), ..call };
    let nowhere: MayName<'_> = &|_, _| false;
    let success = candidates(&[(field::SUCCESS, EQUAL, 0)], b"");
    assert_eq!(success.interest(OPENAT, || [0; 6]), Interest::Failure);
    assert!(!success.may_have_selected(&call, nowhere));
    assert!(success.may_have_selected(&failed, nowhere));
    let third = candidates(&[(field::ARG0 + 2, EQUAL, 4)], b"");
    assert!(!third.may_have_selected(&call, nowhere));
    let watch = candidates(&[(field::WATCH, EQUAL, 11)], b"/etc/shadow");
    assert!(!watch.may_have_selected(&call, nowhere));
    let is_there: MayName<'_> = &|number, text| number == field::WATCH && text == b"/etc/shadow";
    assert!(watch.may_have_selected(&call, is_there));
}

#[test]
fn records_have_the_texts_of_linux() {
    let stamp = StampedTime { wall_ms: 1_700_000_000_042, serial: 9 };
    let names = [name()];
    let end = CallEnd::Returned(-13);
    let call = CallFacts {
        number: OPENAT,
        arguments: [1, 2, 3, 0xff],
        open_flags: None,
        end,
        names: &names,
    };
    let mut text = RecordText::new(stamp);
    let keyed = rule(&[(field::KEY, EQUAL, 3)], b"a b").unwrap();
    text.put_call(&call, &task(), ("pts0", b"my cat"), Some(&keyed));
    assert_eq!(
        text.finish(),
        "audit(1700000000.042:9): arch=c000003e syscall=257 success=no exit=-13 a0=1 a1=2 a2=3 a3=ff items=1 \
         ppid=30 pid=40 auid=1000 uid=1000 gid=100 euid=0 suid=7 fsuid=8 egid=101 sgid=102 fsgid=103 tty=pts0 \
         ses=3 comm=6D7920636174 exe=\"/usr/bin/cat\" subj=staff_u:staff_r:staff_t:s1-s3:c0 key=612062"
    );
    let mut text = RecordText::default();
    text.put_name(0, &name());
    assert_eq!(
        text.finish(),
        "item=0 name=\"shadow\" inode=77 dev=08:01 mode=0100640 ouid=0 ogid=42 rdev=00:00 \
         obj=system_u:object_r:shadow_t:s2 nametype=NORMAL cap_fp=0 cap_fi=0 cap_fe=0 cap_fver=0 cap_frootid=0"
    );
    let mut text = RecordText::default();
    text.put_name(1, &NameFacts { file: None, ..name() });
    assert!(text.finish().contains("name=\"shadow\" nametype=UNKNOWN"));
    let mut text = RecordText::default();
    text.put_title(b"cat\0/etc/shadow\0");
    assert_eq!(text.finish(), "proctitle=636174002F6574632F736861646F77");
    let mut text = RecordText::default();
    text.put_message(1112, &task(), b"op=login\nres=success\0rest");
    assert_eq!(
        text.finish(),
        "pid=40 uid=1000 auid=1000 ses=3 subj=staff_u:staff_r:staff_t:s1-s3:c0 msg='op=login res=success'"
    );
    let mut text = RecordText::default();
    let (subject, object) = ("a_u:a_r:a_t:s0", "b_u:b_r:b_t:s1");
    let (verdict, command) = ("denied", &b"cat"[..]);
    text.put_denial(
        5,
        &DenialFacts {
            verdict,
            access: "read",
            command,
            inode: Some(7),
            subject,
            object,
            class: "file",
        },
    );
    assert_eq!(
        text.finish(),
        "avc:  denied  { read } for  pid=5 comm=\"cat\" ino=7 scontext=a_u:a_r:a_t:s0 \
         tcontext=b_u:b_r:b_t:s1 tclass=file permissive=0"
    );
}

#[test]
fn texts_of_programs_cannot_pass_for_more() {
    let table: [(&[u8], &str); 4] =
        [(b"/bin/sh", "\"/bin/sh\""), (b"a b", "612062"), (b"a\"\n", "61220A"), (b"\xff", "FF")];
    for (bytes, written) in table {
        let mut text = RecordText::default();
        text.put_untrusted(bytes);
        assert_eq!(text.finish(), written);
    }
}

#[test]
fn long_arguments_are_split() {
    let stamp = StampedTime::default();
    let short = arguments(stamp, &[b"cat".to_vec(), b"a b".to_vec()]);
    assert_eq!(short, ["audit(0.000:0): argc=2 a0=\"cat\" a1=612062"]);
    let long = arguments(stamp, &[b"x".repeat(20_000), b"y".to_vec()]);
    assert!(long.len() > 1 && long.iter().all(|text| text.len() < 8192));
    assert!(long[0].contains("argc=2 a0_len=20002 a0[0]=\"xxx"));
    assert!(long.last().unwrap().ends_with(" a1=\"y\""));
    let total: usize = long.iter().map(|text| text.matches('x').count()).sum();
    assert_eq!(total, 20_000);
}

proptest! {
    #[test]
    fn any_bytes_are_a_rule_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..1400)) {
        let _ = AuditRule::parse(&bytes);
    }

    #[test]
    fn likely_bytes_are_read_back_as_they_were(
        flags in 0u32..9,
        action in 0u32..3,
        calls in prop::collection::vec(0u32..2048, 0..8),
        fields in prop::collection::vec((prop_oneof![0u32..27, 100u32..114, 199u32..212],
            prop_oneof![Just(EQUAL), Just(NOT_EQUAL), Just(GREATER_EQUAL)], 0u32..40), 0..8),
        texts in "/[a-z/]{0,120}",
    ) {
        let bytes = bytes(flags, action, &calls, &fields, texts.as_bytes());
        if let Ok(parsed) = AuditRule::parse(&bytes) {
            prop_assert_eq!(AuditRule::parse(&parsed.encode()), Ok(parsed.clone()));
            let call = CallFacts { number: OPENAT, arguments: [0; 4], open_flags: Some(0), end: CallEnd::Never, names: &[] };
            let mut rules = RuleSet::default();
            rules.add(parsed).unwrap();
            let is_selected = rules.selects(&task(), &call).is_some();
            let candidates = Candidates::of(&rules, &task());
            let may = candidates.interest(OPENAT, || [0; 6]) != Interest::None
                && candidates.may_have_selected(&call, &|_, _| false);
            prop_assert!(!is_selected || may);
        }
    }
}
