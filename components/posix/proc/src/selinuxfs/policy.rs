//! The policy: its text, the loading of another one, and the status that programs map.
use alloc::{sync::Arc, vec};
use core::sync::atomic::{AtomicU32, Ordering};
use interfaces::monitor::Privileges;
use process::{Task, audit};
use rt::{
    lock_class,
    memory::Frame,
    sync::{Mutex, Once},
};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Mappable, PageUse, Places},
    generated::{GENERATED_END, put_from},
    io::{Sink, Source},
    security,
};

lock_class! {
    static LOADING = "selinuxfs.loading";
}

/// The greatest length of a policy's text.
const POLICY_MAX: usize = 1 << 20;
/// Bytes of the status that are used.
const STATUS_BYTES: usize = 20;

/// The number of policies that were loaded; the first was loaded before the first program ran.
static LOADS: AtomicU32 = AtomicU32::new(1);
static STATUS: Once<Frame> = Once::new();
/// One policy at a time.
static LOAD: Once<Mutex<()>> = Once::new();

/// Returns the number of policies that were loaded.
pub fn loads() -> u32 {
    LOADS.load(Ordering::Acquire)
}

/// Returns the words of the status: version, sequence, whether the policy is enforced, number of loads, whether what the policy
/// does not know is denied.
fn status() -> [u8; STATUS_BYTES] {
    const VERSION: u32 = 1;
    let loads = loads();
    let words = [VERSION, loads.wrapping_sub(1).wrapping_mul(2), 1, loads, 0];
    let mut bytes = [0; STATUS_BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Returns the frame of the status.
fn frame() -> Result<&'static Frame, Errno> {
    STATUS.get_or_try_init(|| {
        let frame = Frame::zeroed()?;
        frame.write(0, &status());
        Ok(frame)
    })
}

/// Loads the policy of a text.
fn load(text: &[u8], who: &dyn Principal) -> Result<(), Errno> {
    let task = Task::of(who).ok_or(Errno::EACCES)?;
    if !security::has(&task.credentials().subject, Privileges::LOAD_POLICY) {
        return Err(Errno::EACCES);
    }
    let frame = frame()?;
    let _alone = LOAD.get_or_init(|| Mutex::new(&LOADING, ())).lock();
    if let Err(fault) = security::load(text) {
        log::error!("the policy that was to be loaded is refused: {fault}");
        return Err(Errno::EINVAL);
    }
    objects::socket::internet::label_network();
    LOADS.fetch_add(1, Ordering::AcqRel);
    frame.write(0, &status());
    objects::socket::netlink::policy_loaded(loads());
    log::info!("a policy was loaded");
    audit::policy_loaded(task);
    Ok(())
}

/// An open file of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFile {
    /// `load`.
    Load,
    /// `policy`.
    Text,
    /// `status`.
    Status,
}

impl File for PolicyFile {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        match self {
            PolicyFile::Load => Err(Errno::EINVAL),
            PolicyFile::Text => {
                put_from(&security::monitor().ok_or(Errno::EINVAL)?.policy(), offset, sink)
            }
            PolicyFile::Status => put_from(&status(), offset, sink),
        }
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        _: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        if *self != PolicyFile::Load || offset != 0 {
            return Err(Errno::EINVAL);
        }
        if source.remaining() > POLICY_MAX {
            return Err(Errno::EFBIG);
        }
        let mut text = vec![0; source.remaining()];
        source.take_whole(&mut text)?;
        load(&text, source.caller())?;
        Ok((text.len(), offset))
    }
    fn truncate(&self, _: u64, _: &dyn Principal) -> Result<(), Errno> {
        Ok(())
    }
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        match self {
            PolicyFile::Status => Ok(Arc::new(StatusPage(frame()?))),
            _ => Err(Errno::ENODEV),
        }
    }
    fn check_mapping(&self, first: u64, bytes: u64) -> Result<(), Errno> {
        let is_page = first == 0 && bytes == rt::PAGE_BYTES as u64;
        is_page.then_some(()).ok_or(Errno::EIO)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// The page of the status.
struct StatusPage(&'static Frame);

impl Mappable for StatusPage {
    fn page(&self, index: u64, wanted: PageUse, _: &dyn Principal) -> Result<Frame, Errno> {
        match (index, wanted) {
            (0, PageUse::Read) => Ok(self.0.clone()),
            (0, PageUse::Store) => Err(Errno::EPERM),
            _ => Err(Errno::ENXIO),
        }
    }
    fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame)) {
        if first == 0 && count > 0 {
            visit(0, self.0);
        }
    }
    fn refuses_stores(&self) -> bool {
        true
    }
}
