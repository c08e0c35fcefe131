//! Vnodes.
/// A vnode.
pub struct Vnode;
