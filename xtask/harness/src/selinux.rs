//! The SELinux-MLS policy of Debian, with which Debian's kernel enforces levels beside Skerry's monitor.
use crate::{packages, shell};
use anyhow::{Context, Result};
use regex::bytes::Regex;
use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Kernel parameters with which Linux enforces the policy that a script loads.
pub const PARAMETERS: &str = "security=selinux selinux=1 enforcing=1";
/// Kernel parameters with which Linux labels by the policy that a script loads, and refuses nothing.
pub const PERMISSIVE: &str = "security=selinux selinux=1 enforcing=0";

/// The release whose packages have the policy.
const SUITE: &str = "bookworm";
/// A module of policy: the domain of the scripts, as root's in Skerry, may do all. It starts programs and makes files at levels. The
/// other rules let these programs start. Constraints of levels hold for them as for others.
const MODULE: &str = "\
(typepermissive kernel_t)
(typeattributeset mlsfileupgrade (kernel_t))
(typeattributeset mlsfiledowngrade (kernel_t))
(typeattributeset mlsfdshare (kernel_t))
(allow staff_t kernel_t (fd (use)))
(allow staff_t kernel_t (process (sigchld)))
(allow staff_t bin_t (file (entrypoint execute read open getattr map)))
(allow staff_t root_t (file (read open getattr)))
(allow user_home_t tmpfs_t (filesystem (associate)))
";
const MODULE_NAME: &str = "starter.cil";

/// Returns the file of the compiled policy of `selinux-policy-mls`, made on first use by its own tools in a root of Debian.
///
/// # Errors
/// Fails without root's rights, or if Debian's archive cannot be reached.
pub fn prepare() -> Result<PathBuf> {
    let folder = shell::build_path("selinux")?;
    let policy = folder.join("policy.compiled");
    if policy.is_file() {
        return Ok(policy);
    }
    packages::ensure(packages::Need::Debian)?;
    fs::create_dir_all(&folder)?;
    let module = folder.join(MODULE_NAME);
    fs::write(&module, MODULE)?;
    let hooks = [
        format!("copy-in '{}' /tmp", module.display()),
        format!("chroot \"$1\" semodule -n -s mls -i /tmp/{MODULE_NAME}"),
        format!("copy-out /etc/selinux/mls/policy '{}'", folder.display()),
    ];
    let mut make = packages::privileged("mmdebstrap -q --variant=minbase --mode=root")?;
    make.arg("--include=selinux-policy-mls,policycoreutils");
    make.args(hooks.map(|hook| format!("--customize-hook={hook}"))).args([SUITE, "/dev/null"]);
    shell::quietly("making SELinux's policy of levels (some minutes)", &mut make)?;
    fs::copy(made(&folder.join("policy"))?, &policy)?;
    Ok(policy)
}

/// Returns whether [`prepare`] has made the policy, in this run or in an earlier one.
///
/// # Errors
/// Fails if `build/` cannot be made.
pub fn is_prepared() -> Result<bool> {
    Ok(shell::build_path("selinux")?.join("policy.compiled").is_file())
}

/// A context in a text.
static CONTEXT: LazyLock<Regex> = LazyLock::new(|| {
    const LEVEL: &str = r"s\d+(:c\d+([.,]c\d+)*)?";
    let pattern = format!(r"\b[a-z_]+:[a-z]+_r:[a-z_]+_t:{LEVEL}(-{LEVEL})?\b");
    Regex::new(&pattern).expect("a good pattern")
});

/// Replaces each context in a text by one word, the same for all: two policies name the same subject and object differently.
pub fn without_contexts(text: &[u8]) -> Cow<'_, [u8]> {
    CONTEXT.replace_all(text, b"CONTEXT")
}

/// Returns the one file of a folder, `policy.` and its version.
fn made(folder: &Path) -> Result<PathBuf> {
    let mut found = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    found.next().context("Debian's package made no policy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_becomes_a_word_whatever_its_parts_are() {
        let hidden = |text: &str| {
            let hidden = without_contexts(text.as_bytes());
            String::from_utf8(hidden.into_owned()).unwrap()
        };
        for context in [
            "system_u:system_r:kernel_t:s0-s15:c0.c1023",
            "system_u:system_r:kernel_t:s15:c0.c1023",
            "root:object_r:home_root_t:s1:c0,c5.c7,c9",
            "user_u:user_r:user_t:s0",
        ] {
            assert_eq!(
                hidden(&format!("id=1(a:b) context={context} f\n")),
                "id=1(a:b) context=CONTEXT f\n"
            );
        }
        for other in
            ["a:b:c:d", "root:x:0:0:root:/root:/bin/bash", "system_u:object_r:etc_t", "12:34:56"]
        {
            assert_eq!(hidden(other), other);
        }
    }
}
