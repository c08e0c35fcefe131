//! [`ReferenceMonitor`]: the component that answers by the policy that was loaded last.
use crate::{Fault, PolicyError, SecurityPolicy, policy::OBJECT_ROLE};
use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use interfaces::{
    monitor::{Denial, DomainRights, Initial, LinkRule, Monitor, ObjectAccess},
    offer::Offer,
};
use labels::{Context, ContextId, ContextTable, Grade};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static STATE = "monitor.state";
}

/// The greatest number of contexts. Numbers are never free again: a context may be that of an object.
const CONTEXTS_MAX: usize = 1 << 16;

/// The policy that Skerry ships; it holds until another one is loaded.
const SHIPPED_POLICY: &str = include_str!("../policy");

/// Starts the component: it offers a monitor.
pub fn start() -> Vec<Offer> {
    match ReferenceMonitor::new() {
        Ok(monitor) => Vec::from([Offer::Monitor(Arc::new(monitor))]),
        Err(error) => {
            log::error!("monitor: the shipped policy is refused: {error}");
            Vec::new()
        }
    }
}

/// A context that has a number.
#[derive(Clone)]
struct Known {
    context: Arc<Context>,
    /// It is one of a subject or an object.
    is_valid: bool,
}

struct PolicyState {
    policy: SecurityPolicy,
    text: Arc<[u8]>,
    numbers: ContextTable,
    /// By number.
    known: Vec<Known>,
    unlabeled: Arc<Context>,
}

impl PolicyState {
    /// Returns the context of a number, or that of unlabeled objects.
    fn context(&self, number: ContextId) -> &Arc<Context> {
        let known = usize::try_from(number.0).ok().and_then(|index| self.known.get(index));
        known.filter(|known| known.is_valid).map_or(&self.unlabeled, |known| &known.context)
    }
    fn number(&mut self, context: &Context) -> Result<ContextId, Denial> {
        let number = self.numbers.intern(context).map_err(|_| Denial::Full)?;
        if let Some(context) = self.numbers.get(number)
            && self.numbers.len() > self.known.len()
        {
            let is_valid = self.policy.is_object(context);
            self.known.push(Known { context: context.clone(), is_valid });
        }
        Ok(number)
    }
}

fn unlabeled(policy: &SecurityPolicy) -> Result<Arc<Context>, PolicyError> {
    let context = policy.initial(Initial::Unlabeled).cloned();
    let missing =
        || PolicyError { line: 0, fault: Fault::NoInitial, word: Initial::Unlabeled.name().into() };
    context.map(Arc::new).ok_or_else(missing)
}

/// A monitor.
pub struct ReferenceMonitor {
    state: RwLock<PolicyState>,
}

impl ReferenceMonitor {
    /// Makes a monitor with the policy that Skerry ships.
    ///
    /// # Errors
    /// That policy's fault.
    pub fn new() -> Result<ReferenceMonitor, PolicyError> {
        let policy = SecurityPolicy::parse(SHIPPED_POLICY.as_bytes())?;
        let unlabeled = unlabeled(&policy)?;
        let numbers = ContextTable::new(CONTEXTS_MAX);
        let text = Arc::from(SHIPPED_POLICY.as_bytes());
        let state = PolicyState { policy, text, numbers, known: Vec::new(), unlabeled };
        Ok(ReferenceMonitor { state: RwLock::new(&STATE, state) })
    }
}

impl Monitor for ReferenceMonitor {
    fn load(&self, text: &[u8]) -> Result<(), String> {
        let policy = SecurityPolicy::parse(text).map_err(|error| error.to_string())?;
        let unlabeled = unlabeled(&policy).map_err(|error| error.to_string())?;
        let mut state = self.state.write();
        state.unlabeled = unlabeled;
        for known in &mut state.known {
            known.is_valid = policy.is_object(&known.context);
        }
        state.policy = policy;
        state.text = Arc::from(text);
        Ok(())
    }
    fn initial(&self, of: Initial) -> Result<ContextId, Denial> {
        let mut state = self.state.write();
        let context = state.policy.initial(of).cloned().ok_or(Denial::Invalid)?;
        state.number(&context)
    }
    fn check(&self, text: &[u8]) -> Result<Context, Denial> {
        let text = core::str::from_utf8(text).map_err(|_| Denial::Invalid)?;
        let context: Context = text.parse().map_err(|_| Denial::Invalid)?;
        let is_valid = self.state.read().policy.is_object(&context);
        is_valid.then_some(context).ok_or(Denial::Invalid)
    }
    fn number(&self, context: &Context) -> Result<ContextId, Denial> {
        let found = self.state.read().numbers.find(context);
        found.map_or_else(|| self.state.write().number(context), Ok)
    }
    fn context(&self, number: ContextId) -> Arc<Context> {
        self.state.read().context(number).clone()
    }
    fn is_subject(&self, context: &Context) -> bool {
        self.state.read().policy.is_subject(context)
    }
    fn grade(&self, number: ContextId) -> Grade {
        let state = self.state.read();
        state.policy.grade(state.context(number))
    }
    fn rights(&self, subject: ContextId) -> DomainRights {
        let state = self.state.read();
        state.policy.rights(state.context(subject))
    }
    fn decide(
        &self,
        subject: ContextId,
        object: ContextId,
        access: ObjectAccess,
    ) -> Result<(), Denial> {
        let state = self.state.read();
        state.policy.decide(state.context(subject), state.context(object), access)
    }
    fn relabel(&self, subject: ContextId, old: ContextId, new: &Context) -> Result<(), Denial> {
        let state = self.state.read();
        state.policy.relabel(state.context(subject), state.context(old), new)
    }
    fn entered(
        &self,
        subject: ContextId,
        file: ContextId,
        wanted: Option<&Context>,
    ) -> Result<ContextId, Denial> {
        let new = {
            let state = self.state.read();
            let own = state.context(subject);
            let new = state.policy.entered(own, state.context(file), wanted)?;
            if new == **own {
                return Ok(subject);
            }
            new
        };
        self.number(&new)
    }
    fn made(&self, subject: ContextId, place: ContextId) -> Result<ContextId, Denial> {
        let new = {
            let state = self.state.read();
            state.policy.made(state.context(subject), state.context(place))
        };
        self.number(&new.ok_or(Denial::Invalid)?)
    }
    fn is_multilevel(&self, place: ContextId) -> bool {
        let state = self.state.read();
        state.policy.is_multilevel(state.context(place))
    }
    fn within(&self, subject: ContextId, place: ContextId) -> Result<ContextId, Denial> {
        let inner = {
            let state = self.state.read();
            let place = state.context(place);
            state.policy.within(state.context(subject), place)
        };
        self.number(&inner)
    }
    fn device(&self, path: &str) -> Option<ContextId> {
        let context = {
            let state = self.state.read();
            let (kind, range) = state.policy.device(path)?;
            let names = [state.policy.initial(Initial::File)?.user(), OBJECT_ROLE, kind];
            Context::new(names, *range).ok()?
        };
        self.number(&context).ok()
    }
    fn link(&self, name: &str) -> LinkRule {
        self.state.read().policy.link(name)
    }
    fn contexts_of(&self, subject: &Context, user: &str) -> Vec<Context> {
        self.state.read().policy.contexts_of(subject, user)
    }
    fn policy(&self) -> Arc<[u8]> {
        self.state.read().text.clone()
    }
    fn rights_of(&self, subject: &Context) -> DomainRights {
        self.state.read().policy.rights(subject)
    }
    fn decide_between(
        &self,
        subject: &Context,
        object: &Context,
        access: ObjectAccess,
    ) -> Result<(), Denial> {
        self.state.read().policy.decide(subject, object, access)
    }
    fn entered_by(&self, subject: &Context, file: &Context) -> Result<Context, Denial> {
        self.state.read().policy.entered(subject, file, None)
    }
    fn made_by(&self, subject: &Context, place: &Context) -> Result<Context, Denial> {
        self.state.read().policy.made(subject, place).ok_or(Denial::Invalid)
    }
}
