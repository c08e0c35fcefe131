//! The multilevel directory after a kill: each level has a directory of its own there, in which all has that level.
use super::{SHARED, SHARED_NAME};
use anyhow::Result;
use harness::disk;
use std::path::Path;
use workload::{LEVELS, SHARED_LABEL, hidden_at, label_at};

/// Checks that the directory holds those of the levels alone, and that these and all in them have their labels.
///
/// # Errors
/// Fails if the disk cannot be read.
pub fn judge(image: &Path) -> Result<Result<(), String>> {
    let system = ext4_view::Ext4::load_from_path(image)?;
    let mut found = Vec::new();
    collect(&system, &format!("/{SHARED}"), &mut found)?;
    // Before the first name in it, the directory may not have its label yet.
    if found.is_empty() {
        return Ok(Ok(()));
    }
    found.push(format!("/{SHARED}"));
    let labels = disk::labels(image, &found)?;
    if labels.len() != found.len() {
        return Ok(Err(format!("{} labels of {} files", labels.len(), found.len())));
    }
    for (path, label) in found.iter().zip(labels) {
        match expected(path) {
            None => return Ok(Err(format!("{path} should not be there"))),
            Some(expected) if expected != label => {
                return Ok(Err(format!("{path} has the label {label:?}, not {expected}")));
            }
            Some(_) => {}
        }
    }
    Ok(Ok(()))
}

/// Returns the label of a path; `None` for one that nobody makes.
fn expected(path: &str) -> Option<String> {
    let path = path.strip_prefix(&format!("/{SHARED}"))?;
    if path.is_empty() {
        return Some(SHARED_LABEL.to_owned());
    }
    LEVELS.iter().find_map(|level| {
        let below = match hidden_at(level) {
            None => path,
            Some((name, label)) => match path.strip_prefix(&format!("/{name}"))? {
                "" => return Some(label),
                below => below,
            },
        };
        let is_ours = below.strip_prefix(&format!("/{SHARED_NAME}"))?;
        (is_ours.is_empty() || is_ours.starts_with('/')).then(|| label_at(level))
    })
}

/// Collects the paths of all files and directories below a folder.
fn collect(
    system: &ext4_view::Ext4,
    folder: &str,
    found: &mut Vec<String>,
) -> Result<(), ext4_view::Ext4Error> {
    if !system.exists(folder)? {
        return Ok(());
    }
    for entry in system.read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().as_str().unwrap_or("?").to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() {
            collect(system, &path, found)?;
        }
        found.push(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_one_place() {
        let of = |path: &str| expected(&format!("/{SHARED}{path}"));
        assert_eq!(of("").as_deref(), Some(SHARED_LABEL));
        assert_eq!(of("/work/d0/f1"), Some(label_at("s0")));
        assert_eq!(of("/.mls:s1").as_deref(), Some("system_u:object_r:tmp_root_t:s1"));
        assert_eq!(of("/.mls:s2:c1/work"), Some(label_at("s2:c1")));
        assert_eq!((of("/.mls:s3"), of("/.mls:s1/other"), of("/worker")), (None, None, None));
    }
}
