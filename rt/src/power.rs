//! Power off and restart.
/// The ways to take the machine down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Power off (under QEMU the run ends).
    Off,
    /// Restart.
    Restart,
    /// Stop all processors.
    Halt,
}
/// Takes the machine down. Never returns in the kernel world.
pub fn down(action: Action) -> ! {
    crate::world::power_down(action)
}
