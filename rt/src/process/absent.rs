//! Operations that isolated components do not have yet: pools of frames that others read.
//!
//! No kernel call does them. They are declared, so that the sources of every component compile for this world, and defined
//! nowhere: a component that uses one does not link, and the linker names the operation.
use super::memory::RegionHandle;
use crate::NoMemory;

/// Declares operations under the names by which the linker reports them.
macro_rules! absent {
    ($($symbol:ident: $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "Rust" {
            $(safe fn $symbol($($argument: $type),*) $(-> $result)?;)*
        }
        $(pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
            $symbol($($argument),*)
        })*
    };
}

absent! {
    process_world_lacks_frame_claim: frame_claim(frame: u32) -> bool;
    process_world_lacks_pool_new: pool_new(pages: usize) -> Result<(RegionHandle, u32), NoMemory>;
}
