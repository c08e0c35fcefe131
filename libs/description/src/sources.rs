//! [`Sources`]: the texts of all descriptions of the source tree.
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Folders of system descriptions. Those of the second folder are for tests.
const SYSTEMS: [&str; 2] = ["systems", "tests/systems"];
/// Folders of components. Each component has its own folder somewhere below; those below the second are for tests.
const COMPONENTS: [&str; 2] = ["components", "tests/components"];
/// The file whose presence makes a folder a component.
const FILE: &str = "component.toml";

/// A description: the path of its file, from the root of the tree, and its text.
#[derive(Clone, Debug)]
pub(crate) struct DescriptionSource {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The descriptions of systems and of components, by their names.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub(crate) systems: BTreeMap<String, DescriptionSource>,
    pub(crate) components: BTreeMap<String, DescriptionSource>,
}

impl Sources {
    /// Reads all descriptions of the tree at `root`. The name of a component is that of its folder.
    ///
    /// # Errors
    /// A file or a folder that cannot be read.
    pub fn of_tree(root: &Path) -> io::Result<Sources> {
        let mut sources = Sources::default();
        for folder in SYSTEMS {
            for path in entries(root, Path::new(folder))? {
                if path.extension().is_some_and(|extension| extension == "toml") {
                    sources.add_system(&path, fs::read_to_string(root.join(&path))?);
                }
            }
        }
        for folder in COMPONENTS {
            sources.add_below(root, Path::new(folder))?;
        }
        Ok(sources)
    }

    /// Adds the text of the system description at `path`.
    pub fn add_system(&mut self, path: &Path, text: String) {
        if let Some(name) = path.file_stem() {
            let name = name.to_string_lossy().into_owned();
            self.systems.insert(name, DescriptionSource { path: path.to_owned(), text });
        }
    }

    /// Adds the text of the `component.toml` in `folder`.
    pub fn add_component(&mut self, folder: &Path, text: String) {
        if let Some(name) = folder.file_name() {
            let name = name.to_string_lossy().into_owned();
            self.components.insert(name, DescriptionSource { path: folder.join(FILE), text });
        }
    }

    /// Returns the names of the systems.
    pub fn systems(&self) -> impl Iterator<Item = &str> {
        self.systems.keys().map(String::as_str)
    }

    /// Returns the folders of the components, from the root of the tree.
    pub fn components(&self) -> impl Iterator<Item = &Path> {
        self.components.values().filter_map(|source| source.path.parent())
    }

    fn add_below(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        for path in entries(root, folder)? {
            let file = root.join(&path).join(FILE);
            if file.exists() {
                self.add_component(&path, fs::read_to_string(file)?);
            } else if root.join(&path).is_dir() {
                self.add_below(root, &path)?;
            }
        }
        Ok(())
    }
}

/// Returns the paths, from `root`, of all entries of `folder`; none if there is no such folder.
fn entries(root: &Path, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(root.join(folder)) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    listed.map(|entry| Ok(folder.join(entry?.file_name()))).collect()
}
