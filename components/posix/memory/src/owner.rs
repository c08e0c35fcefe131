//! [`Owner`]: the layer of processes, as an address space knows it.

/// The decisions of the layer above that an address space needs on the way. They concern the calling thread.
pub trait Owner: Send + Sync {
    /// Memory was refused and nothing can be given back: has a process end (the out-of-memory killer). Returns `false` if
    /// there is none to end, or if the caller is to end itself.
    fn relieve(&self) -> bool;
    /// The caller is to end: nobody waits for the rest of what it does.
    fn is_ending(&self) -> bool;
    /// The caller may use the memory that is kept for an administrator (`CAP_SYS_ADMIN`).
    fn is_administrator(&self) -> bool;
}

/// The owner of spaces that no process has.
pub struct None;

impl Owner for None {
    fn relieve(&self) -> bool {
        false
    }
    fn is_ending(&self) -> bool {
        false
    }
    fn is_administrator(&self) -> bool {
        false
    }
}
