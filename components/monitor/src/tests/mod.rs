//! Tests of decisions and of the text of policies.
mod model;
use crate::{Fault, ReferenceMonitor, SecurityPolicy};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::num::NonZeroU32;
use interfaces::monitor::{CapabilityMask, Denial, Initial, Monitor, ObjectAccess, Privileges};
use labels::{Context, Grade, SecrecyRange};
use proptest::prelude::*;

const POLICY: &str = "
# A small policy.
level s2 secret
category c7 crypto
type etc_t grade admin
type home_t grade user
type tmp_t grade untrusted
type user_tmp_t grade user
type shell_exec_t grade tcb
type passwd_exec_t grade tcb
type shadow_t grade tcb
type disk_t grade tcb
type place_t grade untrusted multilevel tmp_t
domain kernel_t grade tcb privileges read-up,write-range,relabel,downgrade capabilities all
domain user_t grade user
domain admin_t grade admin privileges relabel capabilities chown,kill
domain passwd_t grade tcb privileges set-range,set-user capabilities setuid   # set-id
role system_r domains kernel_t
role user_r domains user_t,passwd_t
role admin_r domains admin_t
user system_u roles system_r range s0-s15:c0.c1023
user staff_u roles user_r,admin_r range s0-s3:c0.c7
enter passwd_t from user_t by passwd_exec_t
allow admin_t from user_t by shell_exec_t
make user_tmp_t in tmp_t by user_t
device /dev/sd* type disk_t range s15:c0.c1023
device /dev/sdb type disk_t range s0
initial kernel system_u:system_r:kernel_t:s0-s15:c0.c1023
initial unlabeled system_u:object_r:tmp_t:s15:c0.c1023
initial file system_u:object_r:tmp_t:s0
initial netif system_u:object_r:tmp_t:s0
initial netmsg system_u:object_r:tmp_t:s0
initial anonymous system_u:object_r:tmp_t:s0
";

fn policy() -> SecurityPolicy {
    SecurityPolicy::parse(POLICY.as_bytes()).unwrap()
}

fn context(text: &str) -> Context {
    text.parse().unwrap()
}

fn user(range: &str) -> Context {
    context(&format!("staff_u:user_r:user_t:{range}"))
}

fn object(kind: &str, range: &str) -> Context {
    context(&format!("staff_u:object_r:{kind}:{range}"))
}

#[test]
fn a_policy_says_what_contexts_are_and_what_they_may() {
    let policy = policy();
    assert_eq!((policy.level_name(2), policy.level_name(1)), (Some("secret"), None));
    assert_eq!((policy.category_name(7), policy.category_name(8)), (Some("crypto"), None));
    assert!(policy.is_subject(&user("s0-s3:c0.c7")) && policy.is_object(&user("s0")));
    for none in [
        "staff_u:user_r:user_t:s0-s4",
        "staff_u:user_r:user_t:s0-s3:c8",
        "staff_u:user_r:admin_t:s0",
        "staff_u:system_r:kernel_t:s0",
        "other_u:user_r:user_t:s0",
        "staff_u:object_r:user_t:s0",
    ] {
        assert!(!policy.is_subject(&context(none)), "{none}");
    }
    assert!(policy.is_object(&object("etc_t", "s15")));
    assert!(!policy.is_object(&object("other_t", "s0")));
    assert_eq!(policy.grade(&object("etc_t", "s0")), Grade::Admin);
    assert_eq!(policy.grade(&object("other_t", "s0")), Grade::Untrusted);
    let admin = context("staff_u:admin_r:admin_t:s0");
    assert_eq!(policy.rights(&admin).privileges, Privileges::RELABEL);
    assert_eq!(policy.rights(&admin).capabilities, CapabilityMask(1 | 1 << 5));
    assert_eq!(policy.rights(&user("s0")).capabilities, CapabilityMask::NONE);
    assert_eq!(policy.user_range("staff_u").unwrap().to_string(), "s0-s3:c0.c7");
    let of_staff: Vec<String> =
        policy.contexts_of(&user("s1"), "staff_u").iter().map(ToString::to_string).collect();
    assert_eq!(
        of_staff,
        ["staff_u:admin_r:admin_t:s1", "staff_u:user_r:passwd_t:s1", "staff_u:user_r:user_t:s1"]
    );
    let of_device = |path| policy.device(path).map(|(kind, range)| format!("{kind} {range}"));
    assert_eq!(of_device("/dev/sda"), Some("disk_t s15:c0.c1023".into()));
    assert_eq!((of_device("/dev/sdb"), of_device("/dev/null")), (Some("disk_t s0".into()), None));
    assert_eq!(policy.initial(Initial::File), Some(&context("system_u:object_r:tmp_t:s0")));
}

#[test]
fn reading_needs_dominance_and_writing_equality() {
    let policy = policy();
    // Subject, object: reads, writes.
    let cases = [
        ("s1", "s1", true, true),
        ("s2", "s1", true, false),
        ("s1", "s2", false, false),
        ("s1:c1", "s1:c2", false, false),
        ("s1:c1.c3", "s1:c2", true, false),
        ("s1-s3", "s2", false, false),
        ("s2:c1", "s1:c1", true, false),
    ];
    for (own, other, reads, writes) in cases {
        let decide = |access| policy.decide(&user(own), &object("home_t", other), access);
        let read = if reads { Ok(()) } else { Err(Denial::ReadUp) };
        assert_eq!(decide(ObjectAccess::Read), read, "{own} {other}");
        assert_eq!(decide(ObjectAccess::Execute), read, "{own} {other}");
        let write = if writes { Ok(()) } else { Err(Denial::WriteAcross) };
        assert_eq!(decide(ObjectAccess::Write), write, "{own} {other}");
    }
}

#[test]
fn a_subject_writes_no_greater_grade_and_executes_no_lesser_one() {
    let policy = policy();
    let kinds = [("tmp_t", true, false), ("home_t", true, true), ("etc_t", false, true)];
    for (kind, writes, executes) in kinds {
        let decide = |access| policy.decide(&user("s0"), &object(kind, "s0"), access);
        assert_eq!(decide(ObjectAccess::Read), Ok(()));
        assert_eq!(decide(ObjectAccess::Write).err(), (!writes).then_some(Denial::WriteIntegrity));
        assert_eq!(
            decide(ObjectAccess::Execute).err(),
            (!executes).then_some(Denial::ExecuteIntegrity)
        );
    }
}

#[test]
fn a_domain_with_privileges_uses_its_whole_range() {
    let policy = policy();
    let kernel = context("system_u:system_r:kernel_t:s1-s3:c1");
    for (secrecy, reads, writes) in
        [("s0", true, false), ("s1", true, true), ("s3:c1", true, true), ("s3:c2", false, false)]
    {
        let decide = |access| policy.decide(&kernel, &object("etc_t", secrecy), access).is_ok();
        assert_eq!(
            (decide(ObjectAccess::Read), decide(ObjectAccess::Write)),
            (reads, writes),
            "{secrecy}"
        );
    }
}

#[test]
fn contexts_are_given_by_those_who_may() {
    let policy = policy();
    let admin = context("staff_u:admin_r:admin_t:s0-s3");
    let kernel = context("system_u:system_r:kernel_t:s0-s15:c0.c1023");
    let relabel = |who: &Context, old, new| policy.relabel(who, &old, &new);
    let home = |range| object("home_t", range);
    assert_eq!(relabel(&admin, home("s0"), home("s1")), Ok(()));
    assert_eq!(relabel(&admin, home("s1"), home("s0")), Err(Denial::WriteAcross));
    assert_eq!(relabel(&kernel, home("s1"), home("s0")), Ok(()));
    assert_eq!(relabel(&admin, home("s0"), home("s4")), Err(Denial::Privilege));
    assert_eq!(relabel(&admin, home("s4"), home("s0")), Err(Denial::Privilege));
    assert_eq!(relabel(&user("s0"), home("s0"), home("s0")), Err(Denial::Privilege));
    assert_eq!(relabel(&kernel, home("s0"), object("x_t", "s0")), Err(Denial::Invalid));
    assert_eq!(relabel(&admin, home("s0"), object("shadow_t", "s0")), Err(Denial::WriteIntegrity));
    assert_eq!(relabel(&admin, object("shadow_t", "s0"), home("s0")), Err(Denial::WriteIntegrity));
}

#[test]
fn programs_enter_domains_as_the_policy_says() {
    let policy = policy();
    let file = |kind| object(kind, "s0");
    let entered = |file: &Context, wanted: Option<&str>| {
        let wanted = wanted.map(context);
        policy.entered(&user("s0"), file, wanted.as_ref()).map(|context| context.to_string())
    };
    assert_eq!(entered(&file("shell_exec_t"), None), Ok("staff_u:user_r:user_t:s0".into()));
    assert_eq!(entered(&file("passwd_exec_t"), None), Ok("staff_u:user_r:passwd_t:s0".into()));
    assert_eq!(
        entered(&file("shell_exec_t"), Some("staff_u:user_r:user_t:s0")),
        Ok("staff_u:user_r:user_t:s0".into())
    );
    for (kind, wanted, refusal) in [
        ("shell_exec_t", "staff_u:user_r:user_t:s1", Denial::Privilege),
        ("shell_exec_t", "staff_u:admin_r:admin_t:s0", Denial::Privilege),
        ("home_t", "staff_u:user_r:admin_t:s0", Denial::Privilege),
        ("shell_exec_t", "staff_u:user_r:admin_t:s0", Denial::Invalid),
    ] {
        assert_eq!(entered(&file(kind), Some(wanted)), Err(refusal), "{kind} {wanted}");
    }
    assert_eq!(entered(&file("tmp_t"), None), Err(Denial::ExecuteIntegrity));
    assert_eq!(entered(&object("shell_exec_t", "s1"), None), Err(Denial::ReadUp));
    // A login sets the user and the range.
    let login = context("staff_u:user_r:passwd_t:s0-s3");
    let wanted = context("staff_u:user_r:passwd_t:s1-s2");
    assert_eq!(policy.entered(&login, &file("shell_exec_t"), Some(&wanted)), Ok(wanted));
    // Its arguments do not come down: that needs the right to downgrade.
    let above = context("staff_u:user_r:passwd_t:s1-s3");
    for range in ["s0", "s0-s3", "s0:c1-s3:c1"] {
        let below = above.with_range(range.parse().unwrap());
        assert!(policy.entered(&above, &file("shell_exec_t"), Some(&below)).is_err(), "{range}");
    }
}

#[test]
fn what_is_made_has_the_maker_s_secrecy_and_the_place_s_type() {
    let policy = policy();
    let made = |kind| policy.made(&user("s1:c2-s3:c2"), &object(kind, "s0")).unwrap().to_string();
    assert_eq!(made("home_t"), "staff_u:object_r:home_t:s1:c2");
    assert_eq!(made("tmp_t"), "staff_u:object_r:user_tmp_t:s1:c2");
    assert_eq!(made("place_t"), "staff_u:object_r:tmp_t:s1:c2");
}

#[test]
fn a_subject_above_a_multilevel_directory_finds_another() {
    let policy = policy();
    let within = |own: &str, kind: &str, range: &str| {
        let found = policy.within(&user(own), &object(kind, range));
        assert_eq!(found.kind(), kind);
        found.range().to_string()
    };
    assert_eq!(within("s1:c2-s3:c2", "place_t", "s0"), "s1:c2");
    assert_eq!(within("s1-s3", "place_t", "s1"), "s1", "its own level");
    assert_eq!(within("s0-s3", "place_t", "s1"), "s1", "a level above");
    assert_eq!(within("s1:c1", "place_t", "s1:c2"), "s1:c2", "one that cannot be compared");
    assert_eq!(within("s1", "tmp_t", "s0"), "s0", "no multilevel type");
    assert_eq!(within("s1", "place_t", "s0-s3"), "s0-s3", "a device of many levels");
}

#[test]
fn a_policy_with_a_fault_is_refused_with_its_line() {
    let cases = [
        ("grant x", Fault::Statement, "grant"),
        ("type", Fault::Words, ""),
        ("type x_t grade", Fault::Words, ""),
        ("type x_t of user", Fault::Words, "of"),
        ("type x_t grade user more", Fault::Words, "more"),
        ("type x/t grade user", Fault::Name, "x/t"),
        ("type x_t grade user multilevel", Fault::Words, ""),
        ("type x_t grade user multilevel y_t", Fault::Unknown, "y_t"),
        ("type x_t grade user multilevel place_t", Fault::Multilevel, "place_t"),
        ("type x_t grade root", Fault::Grade, "root"),
        ("type etc_t grade user", Fault::Twice, "etc_t"),
        ("domain x_t grade user privileges every", Fault::Privilege, "every"),
        ("domain x_t grade user capabilities fly", Fault::Capability, "fly"),
        ("domain x_t grade user rights chown", Fault::Words, "rights"),
        ("role object_r domains user_t", Fault::Twice, "object_r"),
        ("role x_r domains etc_t", Fault::NoDomain, "etc_t"),
        ("role x_r domains x_t", Fault::Unknown, "x_t"),
        ("role x_r domains user_t,", Fault::Name, ""),
        ("user x_u roles x_r range s0", Fault::Unknown, "x_r"),
        ("user x_u roles user_r range s1-s0", Fault::Range, "s1-s0"),
        ("level s16 x", Fault::Range, "s16"),
        ("level s1:c1 x", Fault::Range, "s1:c1"),
        ("level s2 again", Fault::Twice, "s2"),
        ("category c1,c1 x", Fault::Range, "c1,c1"),
        ("category c1.c2 x", Fault::Range, "c1.c2"),
        ("enter admin_t from user_t by passwd_exec_t", Fault::TwoDomains, "admin_t"),
        ("enter etc_t from user_t by shell_exec_t", Fault::NoDomain, "etc_t"),
        ("allow admin_t from user_t by x_t", Fault::Unknown, "x_t"),
        ("make x_t in tmp_t by admin_t", Fault::Unknown, "x_t"),
        ("device dev/sda type disk_t range s0", Fault::Path, "dev/sda"),
        ("device /dev/sda type disk_t range x", Fault::Range, "x"),
        ("interface lo range s1", Fault::Loopback, "lo"),
        ("interface eth0 range s0-s1", Fault::NoInterpretation, "eth0"),
        ("interface eth0 range s0-s1 domain 0", Fault::Interpretation, "0"),
        ("interface eth0 range s0-s1 doi 1", Fault::Words, "doi"),
        ("interface eth0 range s1-s0", Fault::Range, "s1-s0"),
        ("interface eth0 range s0 domain 1 more", Fault::Words, "more"),
        ("initial any a:b:c:s0", Fault::Unknown, "any"),
        ("initial file a:b:c", Fault::Context, "a:b:c"),
        ("initial file system_u:object_r:tmp_t:s0", Fault::Twice, "file"),
    ];
    let line = POLICY.lines().count() as u32 + 1;
    for (statement, fault, word) in cases {
        let error = SecurityPolicy::parse(format!("{POLICY}{statement}\n").as_bytes()).unwrap_err();
        assert_eq!(
            (error.line, error.fault, error.word.as_str()),
            (line, fault, word),
            "{statement}"
        );
    }
}

#[test]
fn a_policy_that_lacks_a_context_or_is_no_text_is_refused() {
    let without = POLICY.replace("initial netif", "# ");
    let error = SecurityPolicy::parse(without.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "`netif`: an initial context is missing");
    let wrong = POLICY.replace("initial kernel system_u:", "initial kernel staff_u:");
    let error = SecurityPolicy::parse(wrong.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 28: `staff_u:system_r:kernel_t:s0-s15:c0.c1023`: this is no context under the policy"
    );
    assert_eq!(SecurityPolicy::parse(&[0xff]).unwrap_err().fault, Fault::Text);
    assert_eq!(SecurityPolicy::parse(&[b'#'; (1 << 20) + 1]).unwrap_err().fault, Fault::Text);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        lines in proptest::collection::vec("(type|domain|role|user|enter|make|device|interface|initial|level)( [a-z_,:/s0-9]{0,9}){0,7}", 0..20),
    ) {
        let _ = SecurityPolicy::parse(lines.join("\n").as_bytes());
    }
    /// A subject without privileges moves information only to objects that dominate the place where it comes from.
    #[test]
    fn information_does_not_flow_down(levels in proptest::array::uniform3((0u8..4, 0u16..4))) {
        let policy = policy();
        let secrecy = |(level, bits): (u8, u16)| {
            let list: Vec<_> = (0..2).filter(|bit| bits >> bit & 1 != 0).map(|bit| format!("c{bit}")).collect();
            if list.is_empty() { format!("s{level}") } else { format!("s{level}:{}", list.join(",")) }
        };
        let [subject, from, to] = levels.map(secrecy);
        let subject = user(&subject);
        let (from, to) = (object("home_t", &from), object("home_t", &to));
        if policy.decide(&subject, &from, ObjectAccess::Read).is_ok()
            && policy.decide(&subject, &to, ObjectAccess::Write).is_ok()
        {
            prop_assert!(to.range().low().dominates(from.range().low()));
        }
    }
}

#[test]
fn the_last_statement_that_fits_an_interface_holds() {
    let text =
        format!("{POLICY}interface eth* range s2\ninterface eth1 range s0-s3:c0.c7 domain 9\n");
    let policy = SecurityPolicy::parse(text.as_bytes()).unwrap();
    let rule = |name| {
        let rule = policy.link(name);
        (rule.range.to_string(), rule.domain.map(NonZeroU32::get))
    };
    assert_eq!(rule("eth0"), ("s2".into(), None));
    assert_eq!(rule("eth1"), ("s0-s3:c0.c7".into(), Some(9)));
    assert_eq!(rule("wlan0"), ("s0".into(), None));
}

#[test]
fn ranges_of_users_bound_what_they_may_ask_for() {
    let policy = policy();
    let all = SecrecyRange::ALL;
    assert!(!policy.is_subject(&user("s0").with_range(all)));
    let contexts = policy.contexts_of(&user("s0").with_range(all), "staff_u");
    assert!(contexts.iter().all(|context| policy.is_subject(context)), "within the user's range");
}

#[test]
fn the_shipped_policy_is_one() {
    let monitor = ReferenceMonitor::new().unwrap();
    let kernel = monitor.initial(Initial::Kernel).unwrap();
    assert_eq!(monitor.rights(kernel).capabilities, CapabilityMask::ALL);
    let devices = ["/dev/null", "/dev/sda", "/dev/net/tun"].map(|path| monitor.device(path));
    let shown = devices.map(|device| monitor.context(device.unwrap()).to_string());
    let expected = [
        "system_u:object_r:device_t:s0-s15:c0.c1023",
        "system_u:object_r:disk_t:s15:c0.c1023",
        "system_u:object_r:disk_t:s0",
    ];
    assert_eq!(shown, expected);
}
