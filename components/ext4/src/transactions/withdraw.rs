//! Data that the device refused, taken back from the files.
use crate::{
    layout::{
        extent_edit::{self, Contents},
        inode_store::Before,
    },
    store::log::FailedRun,
    transactions::mount::Mount,
};
use interfaces::file_system::FsError;

impl Mount {
    /// Marks blocks whose data the device refused as unwritten.
    ///
    /// # Errors
    /// Those of [`extent_edit::edit`].
    pub(crate) fn withdraw(&self, failed: &[FailedRun]) -> Result<(), FsError> {
        let volume = &self.volume;
        for run in failed {
            let node = self.inodes.get(volume, u64::from(run.inode))?;
            self.operate_now(|operation| {
                let mut inode = node.write();
                let range = run.logical..run.logical + run.blocks;
                extent_edit::convert(volume, operation, &mut inode, range, Contents::Unwritten)?;
                inode.store(volume, operation, Before::Itself)
            })?;
        }
        Ok(())
    }
}
