//! The Linux that a system is compared with. A system with a monitor shows labels, as SELinux does; so its Linux has SELinux, too.
use super::Answer;
use anyhow::Result;
use harness::{build, selinux};
use std::{fs, path::Path};

/// The Linux of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Debian's cloud kernel as it is.
    Plain,
    /// The same kernel with Debian's SELinux policy of levels, which labels everything and refuses nothing.
    Labelled,
}

/// The start of the runner's script with labels: Linux loads the policy, and its range of process ids becomes that of a system with
/// levels.
const START: &str = r#"if grep -q security=selinux /proc/cmdline; then
    mount -t selinuxfs selinuxfs /sys/fs/selinux
    dd if=/compare/policy bs=64M of=/sys/fs/selinux/load 2>/dev/null
    echo 4194304 > /proc/sys/kernel/pid_max
fi
"#;

impl Reference {
    /// Returns the one for a system.
    ///
    /// # Errors
    /// Fails if there is no such system.
    pub fn of(system: &str) -> Result<Reference> {
        let has_monitor =
            build::system(system)?.members.iter().any(|member| member.name == "monitor");
        Ok(if has_monitor { Reference::Labelled } else { Reference::Plain })
    }

    /// Puts what the script needs into its folder.
    ///
    /// # Errors
    /// Fails if SELinux's policy cannot be made.
    pub fn add_files(self, folder: &Path) -> Result<()> {
        if self == Reference::Labelled {
            fs::copy(selinux::prepare()?, folder.join("policy"))?;
        }
        Ok(())
    }

    /// Returns what the script begins with.
    pub fn start(self) -> &'static str {
        match self {
            Reference::Plain => "",
            Reference::Labelled => START,
        }
    }

    /// Returns its kernel parameters: `all` systems' and its own.
    pub fn parameters(self, all: &str) -> String {
        match self {
            Reference::Plain => all.to_owned(),
            Reference::Labelled => format!("{} {all}", selinux::PERMISSIVE),
        }
    }

    /// Returns an answer without the contexts, which the two systems' policies name differently.
    pub fn comparable(self, answer: Answer) -> Answer {
        match self {
            Reference::Plain => answer,
            Reference::Labelled => {
                Answer { output: selinux::without_contexts(&answer.output).into_owned(), ..answer }
            }
        }
    }
}
