//! Kept decisions and answers hold for one policy, and a subject's bit is used again only when no label has it.
use interfaces::monitor::{CapabilityMask, Denial, Monitor, ObjectAccess};
use labels::Context;
use monitor::ReferenceMonitor;
use std::sync::Arc;
use vfs::{
    Capabilities,
    security::{self, Label, SecuritySubject},
};

/// Returns a policy in which `file_t` has a grade, and `user_t` makes objects of a type in places of that type.
fn policy(grade: &str, made: &str, capabilities: &str) -> String {
    format!(
        "type file_t grade {grade}
type new_t grade user
domain kernel_t grade tcb privileges all capabilities all
domain user_t grade user capabilities {capabilities}
domain other_t grade user
role system_r domains kernel_t
role user_r domains user_t,other_t
user system_u roles system_r range s0-s15:c0.c1023
user user_u roles user_r range s0-s2:c0.c1023
make {made} in file_t by user_t
enter {entered} from user_t by new_t
initial kernel system_u:system_r:kernel_t:s0-s15:c0.c1023
initial unlabeled system_u:object_r:file_t:s15:c0.c1023
initial file system_u:object_r:file_t:s0
initial netif system_u:object_r:file_t:s0
initial netmsg system_u:object_r:file_t:s0
initial anonymous system_u:object_r:file_t:s0
",
        entered = if made == "new_t" { "other_t" } else { "user_t" },
    )
}

fn subject(monitor: &dyn Monitor, level: &str) -> Arc<SecuritySubject> {
    let context: Context = format!("user_u:user_r:user_t:{level}").parse().unwrap();
    SecuritySubject::of(monitor.number(&context).unwrap())
}

fn kind_of(label: &Label) -> String {
    let text = String::from_utf8(label.text().to_vec()).unwrap();
    text.split(':').nth(2).unwrap().to_owned()
}

#[test]
fn a_new_policy_and_a_used_bit_leave_no_decision() {
    let monitor = Arc::new(ReferenceMonitor::new().unwrap());
    security::announce(monitor.clone());
    let user = subject(&*monitor, "s0");
    let load = |text: String| security::load(text.as_bytes());
    load(policy("user", "file_t", "kill")).unwrap();
    security::enforce();
    let file = security::named(b"system_u:object_r:file_t:s0").unwrap();
    let program = security::named(b"system_u:object_r:new_t:s0").unwrap();
    let writes = || security::check(&user, file, ObjectAccess::Write);
    let made = || kind_of(security::made(&user, file).unwrap().unwrap());
    let entered = || kind_of(user.entered(program, None).unwrap().label());
    for _ in 0..3 {
        load(policy("user", "file_t", "kill")).unwrap();
        // The second time the answers are kept ones.
        for _ in 0..2 {
            assert_eq!(writes(), Ok(()));
            assert_eq!((made().as_str(), entered().as_str()), ("file_t", "user_t"));
            assert_eq!(user.capabilities(), Capabilities::KILL);
        }
        let refused = load("type x grade y".into()).unwrap_err();
        assert!(refused.contains("line 1"), "{refused}");
        assert_eq!(writes(), Ok(()), "the old policy holds");
        load(policy("tcb", "new_t", "none")).unwrap();
        for _ in 0..2 {
            assert_eq!(writes(), Err(Denial::WriteIntegrity));
            assert_eq!((made().as_str(), entered().as_str()), ("new_t", "other_t"));
            assert_eq!(user.capabilities(), Capabilities::empty());
        }
    }
    assert_eq!(monitor.rights(user.context()).capabilities, CapabilityMask::NONE);

    load(policy("user", "file_t", "kill")).unwrap();
    let objects: Vec<&Label> = (0..200)
        .map(|number| {
            let text = format!("system_u:object_r:file_t:s0:c{number}");
            security::named(text.as_bytes()).unwrap()
        })
        .collect();
    // More subjects than bits: at most 62 live at once, and the bits of those that are gone serve others.
    let mut alive = Vec::new();
    for round in 0..200 {
        let own = subject(&*monitor, &format!("s0:c{round}"));
        for (number, object) in objects.iter().enumerate() {
            let expected = if number == round { Ok(()) } else { Err(Denial::ReadUp) };
            for _ in 0..2 {
                let found = security::check(&own, object, ObjectAccess::Read);
                assert_eq!(found, expected, "subject {round} reads object {number}");
            }
        }
        alive.push(own);
        if alive.len() == 50 {
            alive.drain(..25);
        }
    }
    // With every bit taken, a subject is asked about each time.
    let crowd: Vec<_> =
        (0..100).map(|number| subject(&*monitor, &format!("s1:c{number}"))).collect();
    for (number, own) in crowd.iter().enumerate() {
        let reads = |at: usize| security::check(own, objects[at], ObjectAccess::Read);
        assert_eq!(reads(number), Ok(()));
        assert_eq!(reads(number + 1), Err(Denial::ReadUp));
    }
}
