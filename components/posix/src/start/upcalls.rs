//! The calls of processes to the layers above them.
use objects::{ipc::segment, socket::local::rights};
use process::{Task, call::CallTable, upcalls::Upcalls};

/// All layers of the personality.
pub struct Personality;

impl Upcalls for Personality {
    fn system_calls(&self) -> &'static CallTable {
        &syscall::TABLE
    }
    fn task_ended(&self, task: &Task) {
        segment::creator_ended(task);
    }
    fn collect_unreachable(&self) -> bool {
        rights::collect_for_memory()
    }
}
