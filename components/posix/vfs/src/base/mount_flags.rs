//! Flags of a mount.
use alloc::string::String;
use bitflags::bitflags;

bitflags! {
    /// Flags of a mount; the values are those of mount(2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MountFlags: u32 {
        /// MS_RDONLY
        const READ_ONLY = 1;
        /// MS_NOSUID
        const NO_SETUID = 2;
        /// MS_NODEV
        const NO_DEVICES = 4;
        /// MS_NOEXEC
        const NO_EXECUTE = 8;
        /// MS_NOSYMFOLLOW
        const NO_LINKS = 256;
        /// MS_NOATIME
        const NO_ACCESS_TIME = 1024;
        /// MS_NODIRATIME
        const NO_DIRECTORY_ACCESS_TIME = 2048;
        /// MS_STRICTATIME
        const STRICT_ACCESS_TIME = 1 << 24;
    }
}

impl MountFlags {
    /// Returns the flags as `/proc/mounts` names them.
    pub fn describe(self) -> String {
        let names = [
            (MountFlags::NO_SETUID, ",nosuid"),
            (MountFlags::NO_DEVICES, ",nodev"),
            (MountFlags::NO_EXECUTE, ",noexec"),
            (MountFlags::NO_ACCESS_TIME, ",noatime"),
            (MountFlags::NO_DIRECTORY_ACCESS_TIME, ",nodiratime"),
        ];
        let mut text = String::from(if self.contains(MountFlags::READ_ONLY) { "ro" } else { "rw" });
        for (_, name) in names.iter().filter(|(flag, _)| self.contains(*flag)) {
            text.push_str(name);
        }
        if !self.intersects(MountFlags::NO_ACCESS_TIME | MountFlags::STRICT_ACCESS_TIME) {
            text.push_str(",relatime");
        }
        if self.contains(MountFlags::NO_LINKS) {
            text.push_str(",nosymfollow");
        }
        text
    }
}
