//! Open generated files. Their [`Node`] generates the text at a read from offset 0.
use crate::{
    base::{
        errno::Errno,
        file::{File, IoFlags, Places},
        io::{Sink, Source},
        poll::{Changes, PollTable, Ready, Unseen},
        principal::Principal,
    },
    tree::node::Node,
};
use alloc::{sync::Arc, vec};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static CONTENT = "vfs.generated.content";
}

/// The greatest number of bytes one write to a generated file takes.
const WRITE_BYTES_MAX: usize = 4096;

/// Makes an open file whose content `node` generates at each read from offset 0.
pub fn file_of(node: Arc<dyn Node>) -> Arc<dyn File> {
    Arc::new(GeneratedFile::new(node))
}

/// Makes the same file as [`file_of`], whose poll reports `changes` since now, and returns `quiet` while there are none.
pub fn watched_file_of(node: Arc<dyn Node>, changes: &Arc<Changes>, quiet: Ready) -> Arc<dyn File> {
    let changes = Some((changes.since_now(), quiet));
    Arc::new(GeneratedFile { changes, ..GeneratedFile::new(node) })
}

/// Puts the bytes of a whole content from `offset` on into `sink`; none behind its end.
///
/// # Errors
/// Those of the sink.
pub fn put_from(content: &[u8], offset: u64, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    match content.get(start..) {
        Some(rest) if !rest.is_empty() => sink.put(rest),
        _ => Ok(0),
    }
}

/// An open generated file: the content of the last read from offset 0.
pub(crate) struct GeneratedFile {
    node: Arc<dyn Node>,
    content: Mutex<Option<Arc<[u8]>>>,
    /// Changes of the content that poll reports, if it reports any, and the events without a change.
    changes: Option<(Unseen, Ready)>,
}

impl GeneratedFile {
    pub(crate) fn new(node: Arc<dyn Node>) -> GeneratedFile {
        GeneratedFile { node, content: Mutex::new(&CONTENT, None), changes: None }
    }
    fn content(&self, offset: u64, sink: &dyn Sink) -> Result<Arc<[u8]>, Errno> {
        if offset > 0
            && let Some(content) = self.content.lock().as_ref()
        {
            return Ok(content.clone());
        }
        let fresh: Arc<[u8]> = Arc::from(self.node.generate(sink.caller())?);
        *self.content.lock() = Some(fresh.clone());
        Ok(fresh)
    }
}

impl File for GeneratedFile {
    fn is_seekable(&self) -> bool {
        true
    }
    fn is_watchable(&self) -> bool {
        self.changes.is_some()
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        match &self.changes {
            None => Ready::ALWAYS,
            Some((changes, quiet)) => match changes.poll(table) {
                news if news.contains(Ready::PRIORITY) => news,
                _ => *quiet,
            },
        }
    }
    fn places(&self) -> Places {
        self.node.places()
    }
    fn size(&self) -> u64 {
        self.node.attributes().size
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let content = self.content(offset, sink)?;
        put_from(&content, offset, sink)
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        _: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let mut data = vec![0; source.remaining().min(WRITE_BYTES_MAX)];
        let taken = source.take(&mut data)?;
        let written = data.get(..taken).unwrap_or_default();
        self.node.write_at(offset, written, source.caller())?;
        Ok((taken, offset.saturating_add(taken as u64)))
    }
    fn truncate(&self, _: u64, _: &dyn Principal) -> Result<(), Errno> {
        Ok(())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
