//! The start of the session.
