//! [`System`]: a system description, with the descriptions of its components.
use crate::{
    checks,
    component::{Component, EntryPoint},
    sources::{DescriptionSource, Sources},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};
use toml::{Spanned, Table, Value};

/// Greatest length of a chain of systems that are based on one another.
const DEPTH_MAX: usize = 8;

/// The world in which a component lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum World {
    /// In the kernel's address space.
    Kernel,
    /// In a domain of its own.
    Process,
    /// In the domain of the component of that name, which is in the process world.
    With(String),
}

impl World {
    /// Returns the world's name in descriptions.
    pub fn name(&self) -> &str {
        match self {
            World::Kernel => "kernel",
            World::Process => "process",
            World::With(host) => host,
        }
    }
}

/// A component of a system, or one of several instances of it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The name of the component of which this is an instance.
    pub of: String,
    /// The name of the set of instances to which it belongs; `None` for the components that the system lists.
    pub set: Option<String>,
    /// Its folder, from the root of the tree.
    pub folder: PathBuf,
    /// The world that it lives in.
    pub world: World,
    /// All its privileges, with the changes of this system.
    pub component: Component,
}

/// A system: its components in the order of starting, in which each comes after the components that it uses.
#[derive(Clone, Debug)]
pub struct System {
    /// Its name.
    pub name: String,
    /// Memory of the smallest machine that it is for.
    pub memory_mib: u64,
    /// The processors that run system calls: `anywhere`, or `master` for the first one only.
    pub system_calls: String,
    /// Its components.
    pub members: Vec<Member>,
    /// The components that a set of instances does not share: set, component.
    pub(crate) hidden: Vec<(String, String)>,
}

/// The text of a system description.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The system whose components and fields this one inherits where it does not define its own.
    based_on: Option<Spanned<String>>,
    memory_mib: Option<u64>,
    system_calls: Option<Spanned<String>>,
    /// The world of each component; `none` removes an inherited component.
    #[serde(default)]
    components: Worlds,
    /// Sets of further instances, by the set's name: the world of each, as in `components`; `none` keeps the set from a
    /// component. The set shares the components of the system that it does not list. The instance of COMPONENT in SET is called
    /// COMPONENT-SET.
    #[serde(default)]
    instances: BTreeMap<String, Worlds>,
    /// Fields of components' descriptions that are different in this system.
    #[serde(default)]
    change: BTreeMap<String, Table>,
}

/// Names of components and their worlds, in the order of the text.
#[derive(Debug, Default)]
struct Worlds(Vec<(Spanned<String>, Spanned<String>)>);

impl<'de> Deserialize<'de> for Worlds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Worlds, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Worlds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("lines of the form COMPONENT = \"WORLD\"")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Worlds, A::Error> {
                let mut worlds = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    worlds.push(entry);
                }
                Ok(Worlds(worlds))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A system under construction: the fields of one description over those of the one that it is based on.
#[derive(Default)]
struct Draft {
    memory_mib: Option<u64>,
    system_calls: Option<String>,
    worlds: Vec<(String, World)>,
    /// Further instances: set, component, world; no world keeps the set from the component.
    instances: Vec<(String, String, Option<World>)>,
    changes: BTreeMap<String, Table>,
}

impl Draft {
    /// Reads the description of the system `name`, and of those that it is based on.
    fn of(sources: &Sources, name: &str, depth: usize) -> Result<Draft, String> {
        let Some(DescriptionSource { path, text }) = sources.systems.get(name) else {
            let known: Vec<_> = sources.systems().collect();
            return Err(format!("there is no system `{name}`; there are {}", known.join(", ")));
        };
        let wrong = |what: String| format!("{}: {what}", path.display());
        let at = |place: &Spanned<String>, what: String| {
            wrong(crate::Wrong::at(place, what).in_text(text))
        };
        let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut draft = match &file.based_on {
            None => Draft::default(),
            Some(place) if depth == DEPTH_MAX => {
                return Err(at(place, "systems are based on each other in a circle".to_owned()));
            }
            Some(base) => {
                Draft::of(sources, base.get_ref(), depth + 1).map_err(|said| at(base, said))?
            }
        };
        draft.memory_mib = file.memory_mib.or(draft.memory_mib);
        if let Some(word) = &file.system_calls {
            checks::system_calls(word.get_ref()).map_err(|what| at(word, what))?;
            draft.system_calls = Some(word.get_ref().clone());
        }
        for (component, world) in &file.components.0 {
            draft.place(sources, component.get_ref(), world.get_ref()).map_err(|what| {
                at(component, format!("component `{}`: {what}", component.get_ref()))
            })?;
        }
        for (set, worlds) in &file.instances {
            for (component, world) in &worlds.0 {
                draft.add(sources, set, component.get_ref(), world.get_ref()).map_err(|what| {
                    at(component, format!("instance of `{}`: {what}", component.get_ref()))
                })?;
            }
        }
        for (component, change) in file.change {
            if !draft.has(&component) {
                let what = "it is no component of this system: take `[change]` out or list it";
                return Err(wrong(format!("change of `{component}`: {what}")));
            }
            merge(draft.changes.entry(component).or_default(), change);
        }
        Ok(draft)
    }

    /// Returns whether a component or an instance has that name.
    fn has(&self, name: &str) -> bool {
        let is_instance = |(set, of, _): &(String, String, _)| name == instance_name(of, set);
        self.worlds.iter().any(|(one, _)| one == name) || self.instances.iter().any(is_instance)
    }

    /// Adds the instance of the component `name` in `set`, or keeps the set from the component.
    fn add(&mut self, sources: &Sources, set: &str, name: &str, world: &str) -> Result<(), String> {
        if self.worlds.iter().all(|(one, _)| one != name) {
            return Err("it is no component of this system: list it in `[components]`".to_owned());
        }
        let instance = instance_name(name, set);
        if sources.components.contains_key(&instance) || self.has(&instance) {
            return Err(format!(
                "there is a component `{instance}` already: call the set otherwise"
            ));
        }
        let world = match world {
            "none" => None,
            "process" => Some(World::Process),
            host if sources.components.contains_key(host) => {
                Some(World::With(instance_name(host, set)))
            }
            other => {
                return Err(format!(
                    "world `{other}` is none of an instance; there are process, none, and the name of the component whose \
                     process it shares"
                ));
            }
        };
        self.instances.push((set.to_owned(), name.to_owned(), world));
        Ok(())
    }

    /// Puts the component `name` into the world called `world`, or removes it.
    fn place(&mut self, sources: &Sources, name: &str, world: &str) -> Result<(), String> {
        let listed = self.worlds.iter().position(|(one, _)| one == name);
        let world = match (world, listed) {
            ("kernel", _) => World::Kernel,
            ("process", _) => World::Process,
            ("none", Some(place)) => {
                self.worlds.remove(place);
                return Ok(());
            }
            ("none", None) => return Err("it is not there: take the line out".to_owned()),
            (host, _) if sources.components.contains_key(host) => World::With(host.to_owned()),
            (other, _) => {
                return Err(format!(
                    "world `{other}` does not exist; there are kernel, process, and the name of the component whose process \
                     it shares"
                ));
            }
        };
        if !sources.components.contains_key(name) {
            let known: Vec<_> = sources.components.keys().map(String::as_str).collect();
            return Err(format!("not known; known are {}", known.join(", ")));
        }
        match listed.and_then(|place| self.worlds.get_mut(place)) {
            Some((_, before)) => *before = world,
            None => self.worlds.push((name.to_owned(), world)),
        }
        Ok(())
    }
}

/// Returns the name of the instance of `component` in `set`.
fn instance_name(component: &str, set: &str) -> String {
    format!("{component}-{set}")
}

/// Copies the fields of `over` into `table`; tables within it are merged field by field.
fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(within)), Value::Table(over)) => merge(within, over),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// Reads the component described by `source`, with the fields of `change` replacing its own.
fn component(source: &DescriptionSource, change: Option<&Table>) -> Result<Component, String> {
    let said = |what: String| format!("{}: {what}", source.path.display());
    let component = Component::parse(&source.text).map_err(said)?;
    let Some(change) = change else { return Ok(component) };
    let mut table: Table = toml::from_str(&source.text).map_err(|error| said(error.to_string()))?;
    merge(&mut table, change.clone());
    Component::parse(&table.to_string()).map_err(|what| said(format!("changed, {what}")))
}

impl Sources {
    /// Returns the system `name`, checked.
    ///
    /// # Errors
    /// A description of the fault, with the file and the line.
    pub fn system(&self, name: &str) -> Result<System, String> {
        let draft = Draft::of(self, name, 0)?;
        let mut members = Vec::new();
        let mut hidden = Vec::new();
        let listed = draft.worlds.into_iter().map(|(of, world)| (None, of, Some(world)));
        let further = draft.instances.into_iter().map(|(set, of, world)| (Some(set), of, world));
        for (set, of, world) in listed.chain(further) {
            let Some(source) = self.components.get(&of) else { continue };
            let name = set.as_deref().map_or_else(|| of.clone(), |set| instance_name(&of, set));
            hidden.extend(set.clone().map(|set| (set, of.clone())));
            let Some(world) = world else { continue };
            // An instance has the changes of the component, and its own over these.
            let mut change = draft.changes.get(&of).cloned().unwrap_or_default();
            merge(&mut change, draft.changes.get(&name).cloned().unwrap_or_default());
            let component = component(source, Some(&change).filter(|change| !change.is_empty()))
                .map_err(|said| format!("system `{name}`: {said}"))?;
            let folder = source.path.parent().unwrap_or(&source.path).to_owned();
            members.push(Member { name, of, set, folder, world, component });
        }
        let mut system = System {
            name: name.to_owned(),
            memory_mib: draft.memory_mib.unwrap_or_default(),
            system_calls: draft.system_calls.unwrap_or_else(|| "anywhere".to_owned()),
            members,
            hidden,
        };
        checks::system(&mut system).map_err(|what| format!("system `{name}`: {what}"))?;
        Ok(system)
    }
}

impl System {
    /// Returns the components that live in `world`.
    pub fn in_world(&self, world: World) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.world == world)
    }

    /// Returns the components whose crates are linked into the kernel.
    pub fn linked(&self) -> impl Iterator<Item = &Member> {
        let is_linked = |entry| matches!(entry, EntryPoint::Start | EntryPoint::User);
        self.in_world(World::Kernel).filter(move |member| is_linked(member.component.entry))
    }

    /// Returns the components that share the process of `host`.
    pub fn guests(&self, host: &Member) -> impl Iterator<Item = &Member> {
        self.in_world(World::With(host.name.clone()))
    }

    /// Returns the personalities that have a process of their own.
    pub fn isolated_personalities(&self) -> impl Iterator<Item = &Member> {
        self.in_world(World::Process).filter(|member| member.is_personality())
    }

    /// Returns the components among which `member` finds those that it calls: its own set of instances, and the components of
    /// the system that the set shares.
    pub fn visible(&self, member: &Member) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |other| match (&member.set, &other.set) {
            (Some(set), None) => !self.hidden.contains(&(set.clone(), other.of.clone())),
            (own, set) => own == set,
        })
    }

    /// Returns the isolated components that the process of `host` calls, in the order of starting: those it sees that implement an
    /// interface which a component of that process uses, or which the client of such a component uses for it. A process with
    /// one component calls none: its client uses the interfaces for it.
    pub fn partners(&self, host: &Member) -> Vec<&Member> {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        if host.is_personality() {
            used.extend(core::iter::once(host).chain(self.guests(host)).flat_map(Member::used));
        }
        let implements = |member: &Member, used: &BTreeSet<&str>| {
            used.iter().any(|interface| member.component.implements(interface))
        };
        let isolated = || self.visible(host).filter(|member| member.world == World::Process);
        loop {
            let count = used.len();
            for member in isolated() {
                if member.component.entry == EntryPoint::User && implements(member, &used) {
                    used.extend(member.used());
                }
            }
            if used.len() == count {
                break;
            }
        }
        isolated().filter(|member| implements(member, &used)).collect()
    }
}

impl Member {
    /// Returns whether the component is the personality.
    pub fn is_personality(&self) -> bool {
        self.component.entry == EntryPoint::Personality
    }

    fn used(&self) -> impl Iterator<Item = &str> {
        self.component.used()
    }
}
