//! [`SecurityPolicy`]: the data of a policy, and what is a context under it.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use interfaces::monitor::{CapabilityMask, DomainRights, Initial, LinkRule, Privileges};
use labels::{Context, Grade, Secrecy, SecrecyRange};

/// The role of objects, which every user has.
pub(crate) const OBJECT_ROLE: &str = "object_r";

/// A type: that of objects, and of subjects if it is a domain.
#[derive(Clone, Debug)]
pub(crate) struct TypeRule {
    pub(crate) grade: Grade,
    /// The rights of its processes; `None` if it is no domain.
    pub(crate) domain: Option<DomainRights>,
    /// The type of what is made in its directories, which are multilevel; `None` if they are not.
    pub(crate) contents: Option<String>,
}

/// A user of the policy.
#[derive(Clone, Debug)]
pub(crate) struct UserRule {
    pub(crate) roles: BTreeSet<String>,
    pub(crate) range: SecrecyRange,
}

/// The way from one domain into another: by executing a file of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainEntry {
    /// Executing the file enters it.
    Always,
    /// Executing the file enters it if the process asked for it (setexeccon(3)).
    OnRequest,
}

/// A device and the contexts that it may have.
#[derive(Clone, Debug)]
pub(crate) struct DeviceRule {
    pub(crate) path: String,
    pub(crate) kind: String,
    pub(crate) range: SecrecyRange,
}

/// A policy. It never changes: another one takes its place.
#[derive(Clone, Debug, Default)]
pub struct SecurityPolicy {
    pub(crate) levels: BTreeMap<u8, String>,
    pub(crate) categories: BTreeMap<u16, String>,
    pub(crate) types: BTreeMap<String, TypeRule>,
    pub(crate) roles: BTreeMap<String, BTreeSet<String>>,
    pub(crate) users: BTreeMap<String, UserRule>,
    /// From domain and type of file to the domains that may be entered.
    pub(crate) entries: BTreeMap<(String, String), BTreeMap<String, DomainEntry>>,
    /// From domain and type of directory to the type of what is made there.
    pub(crate) makes: BTreeMap<(String, String), String>,
    pub(crate) devices: Vec<DeviceRule>,
    /// Names of network interfaces.
    pub(crate) links: Vec<(String, LinkRule)>,
    pub(crate) initial: BTreeMap<Initial, Context>,
}

impl SecurityPolicy {
    /// Returns whether a context is one of a subject: its user has its role, the role has its domain, and the user's range includes
    /// its range.
    pub fn is_subject(&self, context: &Context) -> bool {
        let Some(user) = self.users.get(context.user()) else { return false };
        let has_domain =
            self.roles.get(context.role()).is_some_and(|domains| domains.contains(context.kind()));
        user.roles.contains(context.role()) && has_domain && user.range.includes(context.range())
    }
    /// Returns whether a context is one of an object: that of a subject, or of a user and a type with the role `object_r`.
    pub fn is_object(&self, context: &Context) -> bool {
        let is_plain = context.role() == OBJECT_ROLE
            && self.users.contains_key(context.user())
            && self.types.contains_key(context.kind());
        is_plain || self.is_subject(context)
    }
    /// Returns the grade of a context: that of its type, and the least for a type that the policy has not.
    pub fn grade(&self, context: &Context) -> Grade {
        self.types.get(context.kind()).map_or(Grade::Untrusted, |rule| rule.grade)
    }
    /// Returns whether directories with a context are multilevel.
    pub fn is_multilevel(&self, context: &Context) -> bool {
        self.contents(context).is_some()
    }
    /// Returns the type of what is made in a multilevel directory.
    pub(crate) fn contents(&self, place: &Context) -> Option<&str> {
        self.types.get(place.kind())?.contents.as_deref()
    }
    /// Returns the rights of a subject.
    pub fn rights(&self, subject: &Context) -> DomainRights {
        const NONE: DomainRights =
            DomainRights { privileges: Privileges::empty(), capabilities: CapabilityMask::NONE };
        self.types.get(subject.kind()).and_then(|rule| rule.domain).unwrap_or(NONE)
    }
    /// Returns an initial context. Every policy has all.
    pub fn initial(&self, of: Initial) -> Option<&Context> {
        self.initial.get(&of)
    }
    /// Returns the name of a level, if it has one.
    pub fn level_name(&self, level: u8) -> Option<&str> {
        self.levels.get(&level).map(String::as_str)
    }
    /// Returns the name of a category, if it has one.
    pub fn category_name(&self, category: u16) -> Option<&str> {
        self.categories.get(&category).map(String::as_str)
    }
    /// Returns the range of a user.
    pub fn user_range(&self, user: &str) -> Option<&SecrecyRange> {
        self.users.get(user).map(|rule| &rule.range)
    }
    /// Returns the contexts that a user may have after entering from `subject`, at the range of `subject` as far as the user's
    /// range includes it (`selinuxfs`' file `user`).
    pub fn contexts_of(&self, subject: &Context, user: &str) -> Vec<Context> {
        let Some(rule) = self.users.get(user) else { return Vec::new() };
        let range =
            if rule.range.includes(subject.range()) { *subject.range() } else { rule.range };
        let of_role = |role| self.roles.get(role).into_iter().flatten();
        let pairs = rule.roles.iter().flat_map(|role| of_role(role).map(move |kind| (role, kind)));
        pairs.filter_map(|(role, kind)| Context::new([user, role, kind], range).ok()).collect()
    }
    /// Returns the type and the range of the device at `path`, if the policy names it. The last rule that fits holds; `*` at the end
    /// of a path stands for any rest.
    pub fn device(&self, path: &str) -> Option<(&str, &SecrecyRange)> {
        let found = self.devices.iter().rev().find(|rule| fits(&rule.path, path));
        found.map(|rule| (rule.kind.as_str(), &rule.range))
    }
    /// Returns the rule of the network interface called `name`: the last that fits, or the level of `initial netif`.
    pub fn link(&self, name: &str) -> LinkRule {
        let found = self.links.iter().rev().find(|(pattern, _)| fits(pattern, name));
        found.map(|(_, rule)| *rule).unwrap_or_else(|| {
            let context = self.initial(Initial::Interface);
            let secrecy = context.map_or(Secrecy::HIGH, |context| *context.range().low());
            LinkRule { range: SecrecyRange::single(secrecy), domain: None }
        })
    }
}

/// Returns whether a name is the one of a rule; `*` at the end of that stands for any rest.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}
