//! The text of a policy.
//!
//! A line is a statement, or empty; `#` begins a comment. Lists have commas and no spaces.
//!
//! ```text
//! level s2 secret                                    names of levels and categories, for people
//! category c7 crypto
//! type etc_t grade admin                             a type of objects
//! type tmp_root_t grade untrusted multilevel tmp_t   a type of multilevel directories, and the type of what is made in them
//! domain user_t grade user [privileges LIST] [capabilities LIST]   a type of subjects (and of the objects in /proc that show them)
//! role user_r domains user_t,passwd_t
//! user staff_u roles user_r,admin_r range s0-s3:c0.c7
//! enter passwd_t from user_t by passwd_exec_t        executing a file of that type always enters the domain
//! allow admin_t from user_t by shell_exec_t          it does if the process asked for it
//! make tmp_t in root_t by init_t                     the type of what a domain makes in directories of a type
//! device /dev/sd* type disk_t range s15:c0.c1023     the last rule that fits a device holds
//! path /tmp type tmp_root_t range s0                 a directory of a file system in memory that the start makes; as for a device
//! interface eth0 range s1                            a network interface: every packet has that level
//! interface eth1 range s0-s3:c0.c7 domain 5          each packet carries its level by that domain of interpretation
//! initial kernel system_u:system_r:kernel_t:s0-s15:c0.c1023     kernel, unlabeled, file, netif and netmsg; each once
//! ```
//! Names may be used before their statement. A policy with a fault is refused whole.
use crate::{
    SecurityPolicy,
    policy::{DeviceRule, DomainEntry, OBJECT_ROLE, TypeRule, UserRule},
    rights,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::fmt;
use interfaces::monitor::{CapabilityMask, DomainRights, Initial, LinkRule, Privileges};
use labels::{Categories, Context, Grade, Secrecy, SecrecyRange};

/// The greatest length of a policy's text, in bytes.
const TEXT_MAX: usize = 1 << 20;
/// The name of the interface that leads to this host itself.
const LOOPBACK: &str = "lo";

/// A fault in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is longer than 1 MiB, or no UTF-8.
    Text,
    /// There is no such statement.
    Statement,
    /// A word is missing, is one too many, or stands where another must.
    Words,
    /// A name is empty or has a character that names do not have.
    Name,
    /// Something has that name, number or place already.
    Twice,
    /// Nothing has that name.
    Unknown,
    /// The type is no domain.
    NoDomain,
    /// A domain is always entered by a file by which another one always is.
    TwoDomains,
    /// The contents of a multilevel directory are not multilevel.
    Multilevel,
    /// There is no such grade.
    Grade,
    /// There is no such privilege.
    Privilege,
    /// There is no such capability.
    Capability,
    /// A level, a category or a range is none.
    Range,
    /// A context is none, or none under the policy.
    Context,
    /// The path of a device or a directory does not begin with `/`.
    Path,
    /// The domain of interpretation of a network interface is no number from 1 on.
    Interpretation,
    /// A network interface has several levels, and no domain of interpretation by which packets would tell theirs.
    NoInterpretation,
    /// The loopback interface, whose packets have the level of their sender.
    Loopback,
    /// An initial context is missing.
    NoInitial,
}

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Fault::Text => "the text is longer than 1 MiB, or no UTF-8",
            Fault::Statement => "there is no such statement",
            Fault::Words => "a word is missing, is one too many, or stands where another must",
            Fault::Name => "a name is empty or has a character that names do not have",
            Fault::Twice => "this is there already",
            Fault::Unknown => "nothing has this name",
            Fault::NoDomain => "this type is no domain",
            Fault::TwoDomains => "another domain is always entered here",
            Fault::Multilevel => "what is in a multilevel directory is not multilevel",
            Fault::Grade => "a grade is untrusted, user, admin or tcb",
            Fault::Privilege => "there is no such privilege",
            Fault::Capability => "there is no such capability",
            Fault::Range => "this is no level, category or range",
            Fault::Context => "this is no context under the policy",
            Fault::Path => "a path begins with /",
            Fault::Interpretation => "a domain of interpretation is a number from 1 on",
            Fault::NoInterpretation => "an interface of several levels needs a domain",
            Fault::Loopback => "packets of loopback have the level of their sender",
            Fault::NoInitial => "an initial context is missing",
        }
    }
}

/// The first fault of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The line, from 1 on; 0 if the fault is of no line.
    pub line: u32,
    /// The fault.
    pub fault: Fault,
    /// The word at fault, or what is missing.
    pub word: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.word.is_empty() {
            write!(f, "`{}`: ", self.word)?;
        }
        f.write_str(self.fault.text())
    }
}

/// A fault, and the word at fault.
type Faulty<'t> = (Fault, &'t str);

/// The words of a statement.
struct Words<'t>(core::str::SplitWhitespace<'t>);

impl<'t> Words<'t> {
    fn next(&mut self) -> Result<&'t str, Faulty<'t>> {
        self.0.next().ok_or((Fault::Words, ""))
    }
    /// Takes a name.
    fn name(&mut self) -> Result<&'t str, Faulty<'t>> {
        checked_name(self.next()?)
    }
    /// Takes the word `keyword`, and the word behind it.
    fn after(&mut self, keyword: &str) -> Result<&'t str, Faulty<'t>> {
        match self.next()? {
            word if word == keyword => self.next(),
            word => Err((Fault::Words, word)),
        }
    }
    /// Takes a keyword and the word behind it, if there is anything more.
    fn option(&mut self) -> Result<Option<(&'t str, &'t str)>, Faulty<'t>> {
        match self.0.next() {
            Some(keyword) => Ok(Some((keyword, self.next()?))),
            None => Ok(None),
        }
    }
    fn end(&mut self) -> Result<(), Faulty<'t>> {
        self.0.next().map_or(Ok(()), |word| Err((Fault::Words, word)))
    }
}

fn checked_name(word: &str) -> Result<&str, Faulty<'_>> {
    // A context takes the same names.
    match Context::new([word; 3], SecrecyRange::default()) {
        Ok(_) => Ok(word),
        Err(_) => Err((Fault::Name, word)),
    }
}

fn grade(word: &str) -> Result<Grade, Faulty<'_>> {
    Grade::named(word).ok_or((Fault::Grade, word))
}

fn range(word: &str) -> Result<SecrecyRange, Faulty<'_>> {
    word.parse().map_err(|_| (Fault::Range, word))
}

/// Adds an entry to a map that has none with that key.
fn add<'t, K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    (key, value): (K, V),
    word: &'t str,
) -> Result<(), Faulty<'t>> {
    match map.insert(key, value) {
        None => Ok(()),
        Some(_) => Err((Fault::Twice, word)),
    }
}

/// A use of a name, which must have a statement somewhere.
enum Use<'t> {
    Type(&'t str),
    /// The type of what is in multilevel directories.
    Contents(&'t str),
    Domain(&'t str),
    Role(&'t str),
    Initial(Initial, &'t str),
}

/// A policy that is being read.
struct Reading<'t> {
    policy: SecurityPolicy,
    uses: Vec<(u32, Use<'t>)>,
    line: u32,
}

impl SecurityPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &[u8]) -> Result<SecurityPolicy, PolicyError> {
        let none = |fault| PolicyError { line: 0, fault, word: String::new() };
        let text = core::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_MAX);
        let text = text.ok_or_else(|| none(Fault::Text))?;
        let mut reading = Reading { policy: SecurityPolicy::default(), uses: Vec::new(), line: 0 };
        let at = |line, (fault, word): Faulty<'_>| PolicyError { line, fault, word: word.into() };
        for line in text.lines() {
            reading.line += 1;
            let line = line.split_once('#').map_or(line, |(statement, _)| statement);
            let mut words = Words(line.split_whitespace());
            if let Ok(statement) = words.next() {
                let read = reading.read(statement, &mut words).and_then(|()| words.end());
                read.map_err(|fault| at(reading.line, fault))?;
            }
        }
        let Reading { policy, uses, .. } = reading;
        for (line, name) in &uses {
            policy.check_use(name).map_err(|fault| at(*line, fault))?;
        }
        let missing = Initial::ALL.into_iter().find(|one| !policy.initial.contains_key(one));
        missing.map_or(Ok(policy), |one| Err(at(0, (Fault::NoInitial, one.name()))))
    }
    fn check_use<'t>(&self, name: &Use<'t>) -> Result<(), Faulty<'t>> {
        match name {
            Use::Type(name) | Use::Contents(name) if !self.types.contains_key(*name) => {
                Err((Fault::Unknown, name))
            }
            // A directory below would divide again what is one level's already.
            Use::Contents(name)
                if self.types.get(*name).is_some_and(|rule| rule.contents.is_some()) =>
            {
                Err((Fault::Multilevel, name))
            }
            Use::Domain(name) => match self.types.get(*name) {
                None => Err((Fault::Unknown, name)),
                Some(TypeRule { domain: None, .. }) => Err((Fault::NoDomain, name)),
                Some(_) => Ok(()),
            },
            Use::Role(name) if !self.roles.contains_key(*name) => Err((Fault::Unknown, name)),
            Use::Initial(of, text) => {
                let context = self.initial.get(of);
                let is_right = context.is_some_and(|context| match of {
                    Initial::Kernel => self.is_subject(context),
                    _ => self.is_object(context),
                });
                is_right.then_some(()).ok_or((Fault::Context, text))
            }
            Use::Type(_) | Use::Contents(_) | Use::Role(_) => Ok(()),
        }
    }
}

impl<'t> Reading<'t> {
    fn uses(&mut self, name: Use<'t>) {
        self.uses.push((self.line, name));
    }
    /// Takes a list of names, and notes the use of each.
    fn list(
        &mut self,
        list: &'t str,
        used: fn(&'t str) -> Use<'t>,
    ) -> Result<BTreeSet<String>, Faulty<'t>> {
        let mut names = BTreeSet::new();
        for name in list.split(',') {
            let name = checked_name(name)?;
            self.uses(used(name));
            names.insert(name.into());
        }
        Ok(names)
    }
    fn read(&mut self, statement: &'t str, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        match statement {
            "level" => self.level(words),
            "category" => self.category(words),
            "type" => self.type_of_objects(words),
            "domain" => self.domain(words),
            "role" => self.role(words),
            "user" => self.user(words),
            "enter" => self.entry(words, DomainEntry::Always),
            "allow" => self.entry(words, DomainEntry::OnRequest),
            "make" => self.make(words),
            "device" | "path" => self.device(words),
            "interface" => self.interface(words),
            "initial" => self.initial(words),
            _ => Err((Fault::Statement, statement)),
        }
    }
    fn level(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (word, name) = (words.next()?, words.name()?);
        let secrecy: Secrecy = word.parse().map_err(|_| (Fault::Range, word))?;
        match *secrecy.categories() == Categories::NONE {
            true => add(&mut self.policy.levels, (secrecy.level(), name.into()), word),
            false => Err((Fault::Range, word)),
        }
    }
    fn category(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (word, name) = (words.next()?, words.name()?);
        let set: Categories = word.parse().map_err(|_| (Fault::Range, word))?;
        match set.runs().next() {
            Some((first, last)) if first == last && !word.contains(',') => {
                add(&mut self.policy.categories, (first, name.into()), word)
            }
            _ => Err((Fault::Range, word)),
        }
    }
    fn type_of_objects(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (name, grade) = (words.name()?, grade(words.after("grade")?)?);
        let contents = match words.0.next() {
            None => None,
            Some("multilevel") => Some(words.name()?),
            Some(word) => return Err((Fault::Words, word)),
        };
        contents.into_iter().for_each(|kind| self.uses(Use::Contents(kind)));
        let rule = TypeRule { grade, domain: None, contents: contents.map(String::from) };
        add(&mut self.policy.types, (name.into(), rule), name)
    }
    fn domain(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (name, grade) = (words.name()?, grade(words.after("grade")?)?);
        let (mut privileges, mut capabilities) = (Privileges::empty(), CapabilityMask::NONE);
        while let Some((option, list)) = words.option()? {
            for word in list.split(',') {
                match option {
                    "privileges" => {
                        privileges |= rights::privilege(word).ok_or((Fault::Privilege, word))?;
                    }
                    "capabilities" => {
                        let one = rights::capability(word).ok_or((Fault::Capability, word))?;
                        capabilities = capabilities.with(one);
                    }
                    _ => return Err((Fault::Words, option)),
                }
            }
        }
        let domain = Some(DomainRights { privileges, capabilities });
        add(&mut self.policy.types, (name.into(), TypeRule { grade, domain, contents: None }), name)
    }
    fn role(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (name, list) = (words.name()?, words.after("domains")?);
        if name == OBJECT_ROLE {
            return Err((Fault::Twice, name));
        }
        let domains = self.list(list, Use::Domain)?;
        add(&mut self.policy.roles, (name.into(), domains), name)
    }
    fn user(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (name, list) = (words.name()?, words.after("roles")?);
        let range = range(words.after("range")?)?;
        let roles = self.list(list, Use::Role)?;
        add(&mut self.policy.users, (name.into(), UserRule { roles, range }), name)
    }
    fn entry(&mut self, words: &mut Words<'t>, entry: DomainEntry) -> Result<(), Faulty<'t>> {
        let to = words.name()?;
        let (from, by) = (checked_name(words.after("from")?)?, checked_name(words.after("by")?)?);
        [to, from].into_iter().for_each(|domain| self.uses(Use::Domain(domain)));
        self.uses(Use::Type(by));
        let ways = self.policy.entries.entry((from.into(), by.into())).or_default();
        let is_taken = ways.values().any(|other| *other == DomainEntry::Always);
        if entry == DomainEntry::Always && is_taken && !ways.contains_key(to) {
            return Err((Fault::TwoDomains, to));
        }
        add(ways, (to.into(), entry), to)
    }
    fn make(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let kind = words.name()?;
        let (place, by) = (checked_name(words.after("in")?)?, checked_name(words.after("by")?)?);
        [kind, place].into_iter().for_each(|name| self.uses(Use::Type(name)));
        self.uses(Use::Domain(by));
        add(&mut self.policy.makes, ((by.into(), place.into()), kind.into()), kind)
    }
    fn device(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let path = words.next()?;
        if !path.starts_with('/') {
            return Err((Fault::Path, path));
        }
        let (kind, range) = (checked_name(words.after("type")?)?, range(words.after("range")?)?);
        self.uses(Use::Type(kind));
        self.policy.devices.push(DeviceRule { path: path.into(), kind: kind.into(), range });
        Ok(())
    }
    fn interface(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let name = words.next()?;
        if name == LOOPBACK {
            return Err((Fault::Loopback, name));
        }
        let range = range(words.after("range")?)?;
        let domain = match words.option()? {
            None if !range.is_single() => {
                return Err((Fault::NoInterpretation, name));
            }
            None => None,
            Some(("domain", word)) => {
                let number = word.parse().ok();
                Some(number.ok_or((Fault::Interpretation, word))?)
            }
            Some((option, _)) => return Err((Fault::Words, option)),
        };
        let rule = LinkRule { range, domain };
        self.policy.links.push((name.into(), rule));
        Ok(())
    }
    fn initial(&mut self, words: &mut Words<'t>) -> Result<(), Faulty<'t>> {
        let (name, text) = (words.next()?, words.next()?);
        let of = Initial::ALL.into_iter().find(|one| one.name() == name);
        let of = of.ok_or((Fault::Unknown, name))?;
        let context: Context = text.parse().map_err(|_| (Fault::Context, text))?;
        self.uses(Use::Initial(of, text));
        add(&mut self.policy.initial, (of, context), name)
    }
}
