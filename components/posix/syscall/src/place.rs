//! The names of files in system calls: descriptors, and paths from a directory descriptor.
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use memory::Text;
use process::{call::Call, files::Scope};
use vfs::{Base, Errno, OpenFile, PATH_MAX, Path, Walk};

/// A path argument and the directory at which it starts.
pub struct Named {
    directory: Option<Arc<OpenFile>>,
    /// The path as the program gave it.
    pub path: Text,
}

impl Named {
    /// Reads the path at argument `path`, relative to the descriptor at argument `directory`.
    ///
    /// # Errors
    /// `EFAULT`, `ENAMETOOLONG`; `EBADF` of a relative path from a descriptor that is not open.
    pub fn at(call: &Call<'_>, directory: usize, path: usize) -> Result<Named, Errno> {
        let path = call.memory.read_text(call.word(path), PATH_MAX)?;
        Named::from(call, call.int(directory), path)
    }
    /// Does the same as [`Named::at`] for a call that refuses an empty path, which it checks before the descriptor.
    ///
    /// # Errors
    /// Those of [`Named::at`]; `ENOENT` for an empty path.
    pub fn from_directory(call: &Call<'_>, directory: usize, path: usize) -> Result<Named, Errno> {
        let path = call.memory.read_text(call.word(path), PATH_MAX)?;
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        Named::from(call, call.int(directory), path)
    }
    /// Reads the path at argument `path`, relative to the working directory.
    ///
    /// # Errors
    /// `EFAULT`, `ENAMETOOLONG`.
    pub fn cwd(call: &Call<'_>, path: usize) -> Result<Named, Errno> {
        let path = call.memory.read_text(call.word(path), PATH_MAX)?;
        Ok(Named { directory: None, path })
    }
    /// Does the same as [`Named::at`] for calls in which a null path stands for the descriptor itself (utimensat,
    /// statx).
    ///
    /// # Errors
    /// As [`Named::at`].
    pub fn at_or_null(call: &Call<'_>, directory: usize, path: usize) -> Result<Named, Errno> {
        if call.word(path) == 0 {
            return Named::from(call, call.int(directory), Text::default());
        }
        Named::at(call, directory, path)
    }
    /// Does the same as [`Named::at`] for a scoped walk, whose descriptor is also the root of absolute paths.
    ///
    /// # Errors
    /// As [`Named::at`].
    pub fn within(
        call: &Call<'_>,
        directory: usize,
        path: usize,
        resolve: Walk,
    ) -> Result<Named, Errno> {
        if !resolve.intersects(Walk::SCOPED) {
            return Named::at(call, directory, path);
        }
        let path = call.memory.read_text(call.word(path), PATH_MAX)?;
        Named::from_descriptor(call, call.int(directory), path)
    }
    fn from(call: &Call<'_>, directory: i32, path: Text) -> Result<Named, Errno> {
        if path.first() == Some(&b'/') {
            return Ok(Named { directory: None, path });
        }
        Named::from_descriptor(call, directory, path)
    }
    fn from_descriptor(call: &Call<'_>, directory: i32, path: Text) -> Result<Named, Errno> {
        let is_cwd = directory == raw::AT_FDCWD;
        let directory = if is_cwd { None } else { Some(call.files.get(directory)?) };
        Ok(Named { directory, path })
    }
    /// Returns the descriptor if an empty path stands for it.
    pub fn itself(&self, walk: Walk) -> Option<&OpenFile> {
        let file = self.directory.as_deref()?;
        (walk.contains(Walk::EMPTY) && self.path.is_empty()).then_some(file)
    }
    /// Returns the directory at which the walk starts.
    pub fn base(&self) -> Base<'_> {
        match &self.directory {
            Some(file) => Base::At(file.path()),
            None => Base::Cwd,
        }
    }
    /// Walks to the place.
    ///
    /// # Errors
    /// Those of [`vfs::Caller::walk`].
    pub fn walk(&self, scope: &Scope<'_>, walk: Walk) -> Result<Path, Errno> {
        scope.caller().walk(self.base(), &self.path, walk)
    }
}

/// Returns the walk flags for `AT_` flags. The walk follows the last link unless `AT_SYMLINK_NOFOLLOW` is set.
///
/// # Errors
/// `EINVAL` for a flag that is not in `known`.
pub fn walk_flags(flags: u32, known: u32) -> Result<Walk, Errno> {
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, flags & raw::AT_SYMLINK_NOFOLLOW == 0);
    walk.set(Walk::EMPTY, flags & raw::AT_EMPTY_PATH != 0);
    Ok(walk)
}
