//! The multilevel directory after a kill: each level has a directory of its own there, in which all has that level.
use super::{SHARED, SHARED_NAME, compare_labels, visit};
use anyhow::Result;
use std::path::Path;
use workload::{LEVELS, SHARED_LABEL, hidden_at, label_at};

/// Checks that the directory holds those of the levels alone, and that these and all in them have their labels.
///
/// # Errors
/// Fails if the disk cannot be read.
pub fn judge(image: &Path) -> Result<Result<(), String>> {
    let system = ext4_view::Ext4::load_from_path(image)?;
    let mut found = Vec::new();
    visit(&system, &format!("/{SHARED}"), &mut |path, _| {
        found.push(path.to_owned());
        Ok(())
    })?;
    // Before the first name in it, the directory may not have its label yet.
    if found.is_empty() {
        return Ok(Ok(()));
    }
    found.push(format!("/{SHARED}"));
    compare_labels(image, &found, expected)
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
