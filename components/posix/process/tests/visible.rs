//! Processes as objects of mandatory access control: one test, because a monitor is announced once a program.
use interfaces::monitor::Monitor;
use process::{
    Process,
    call::CallTable,
    limits::Limits,
    object::ProcessParts,
    session::Session,
    signal::{Dispositions, SIGCHLD},
    task::Task,
    upcalls::Upcalls,
    visible,
};
use std::sync::Arc;
use vfs::{
    Errno,
    security::{self, SecuritySubject},
};

struct NoLayers;

impl Upcalls for NoLayers {
    fn system_calls(&self) -> &'static CallTable {
        unreachable!("nothing runs")
    }
    fn task_ended(&self, _: &Task) {}
    fn collect_unreachable(&self) -> bool {
        false
    }
}

fn subject(monitor: &dyn Monitor, context: &str) -> Arc<SecuritySubject> {
    let context = monitor.check(context.as_bytes()).unwrap();
    SecuritySubject::of(monitor.number(&context).unwrap())
}

fn process_of(subject: &SecuritySubject) -> Process {
    let parts = ProcessParts {
        upcalls: &NoLayers,
        parent: 1,
        group: 7,
        session: Arc::new(Session::new(7)),
        memory: None,
        actions: Dispositions::shared(Dispositions::default()),
        limits: Limits::initial(100),
        exit_signal: SIGCHLD,
        owner: 0,
        subject,
    };
    Process::new(7, parts)
}

#[test]
fn a_subject_sees_what_it_dominates_and_signals_its_own_level() {
    let monitor: Arc<dyn Monitor> = Arc::new(monitor::ReferenceMonitor::new().unwrap());
    security::announce(monitor.clone());
    security::enforce();
    let subject = |context| subject(&*monitor, context);
    let levels = [
        subject("user_u:user_r:user_t:s0"),
        subject("user_u:user_r:user_t:s1"),
        subject("user_u:user_r:user_t:s1:c3"),
    ];
    for (by, own) in levels.iter().enumerate() {
        for (at, other) in levels.iter().enumerate() {
            let process = process_of(other);
            assert_eq!(visible::is_visible(&process, own), at <= by, "{own:?} {other:?}");
            let expected = match at.cmp(&by) {
                std::cmp::Ordering::Less => Err(Errno::EPERM),
                std::cmp::Ordering::Equal => Ok(()),
                std::cmp::Ordering::Greater => Err(Errno::ESRCH),
            };
            assert_eq!(visible::check_signal(&process, own), expected, "{own:?} {other:?}");
        }
    }
    // Two categories do not dominate each other.
    let aside = subject("user_u:user_r:user_t:s1:c4");
    assert_eq!(visible::check_signal(&process_of(&aside), &levels[2]), Err(Errno::ESRCH));
    // One that sees all also signals all, but for what is of a greater grade.
    let all = subject("root:sysadm_r:sysadm_t:s0");
    assert!(levels.iter().all(|level| visible::check_signal(&process_of(level), &all).is_ok()));
    let trusted = process_of(&subject("system_u:system_r:kernel_t:s0"));
    assert_eq!(visible::check_signal(&trusted, &all), Err(Errno::EPERM));
    assert_eq!(visible::check_signal(&trusted, &levels[0]), Err(Errno::EPERM));
}
