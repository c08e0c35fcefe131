//! The label of a new object.
use super::{Label, SecuritySubject, enforced};
use interfaces::monitor::Denial;

/// The greatest number of answers that are kept.
const MADE_MAX: usize = 1024;

/// Returns the label of an object that a subject makes in a place with the label `place`, which is known; `None` if no policy is
/// enforced.
///
/// # Errors
/// [`Denial::Full`].
pub fn made(subject: &SecuritySubject, place: &Label) -> Result<Option<&'static Label>, Denial> {
    let Some(security) = enforced() else { return Ok(None) };
    let key = (subject.context(), place.context().ok_or(Denial::Invalid)?);
    if let Some(label) = security.labels.read().made.get(&key) {
        return Ok(Some(label));
    }
    let _shared = security.decisions.read();
    let label = security.label(security.monitor.made(key.0, key.1)?);
    let made = &mut security.labels.write().made;
    if made.len() >= MADE_MAX {
        made.clear();
    }
    made.insert(key, label);
    Ok(Some(label))
}
