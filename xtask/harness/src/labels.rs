//! Labels of the files in a root image, by the monitor's `file_contexts`: what setfiles(8) does, without a system that enforces.
//!
//! They are extended attributes, which change nothing in a system without a monitor. Sources: file_contexts(5),
//! selabel_file(5), matchpathcon(3).
use crate::shell;
use anyhow::{Context, Result, bail};
use regex::Regex;
use std::{
    borrow::Cow,
    fmt::Write,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

/// The monitor's files for SELinux's tools, and its policy.
const FOLDER: &str = "components/monitor";
/// The file of contexts by path.
const CONTEXTS: &str = "etc/skerry/contexts/files/file_contexts";
/// The file of directories that have other names, too.
const SUBSTITUTIONS: &str = "etc/skerry/contexts/files/file_contexts.subs_dist";
/// The context of a file that gets none.
const NONE: &str = "<<none>>";

/// A line of `file_contexts`.
#[derive(Debug)]
struct Rule {
    /// The whole path.
    path: Regex,
    /// The type of files, as find(1) has it: `f`, `d`, `l`; `None` for all types.
    kind: Option<char>,
    /// The context, unless files get none.
    context: Option<String>,
}

/// The contexts of files by path.
#[derive(Debug)]
pub struct Labels {
    /// The last one that fits holds. Paths without a regular expression are behind the others.
    rules: Vec<Rule>,
    /// Directories, and the names under which the rules know them.
    substitutions: Vec<(String, String)>,
}

impl Labels {
    /// Reads the contexts that go with the monitor's policy.
    ///
    /// # Errors
    /// Fails if the files cannot be read, or have a line that is no rule.
    pub fn read() -> Result<Labels> {
        let folder = shell::root().join(FOLDER);
        let text = |name| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        Labels::parse(&text(CONTEXTS)?, &text(SUBSTITUTIONS)?)
    }
    fn parse(contexts: &str, substitutions: &str) -> Result<Labels> {
        let mut rules = Vec::new();
        for line in statements(contexts) {
            let rule = rule(line).with_context(|| format!("{CONTEXTS}: `{line}`"))?;
            rules.push((!has_expression(line), rule));
        }
        rules.sort_by_key(|(is_exact, _)| *is_exact);
        let substitutions = statements(substitutions).map(|line| {
            let (from, to) =
                line.split_once(' ').with_context(|| format!("{SUBSTITUTIONS}: `{line}`"))?;
            Ok((from.to_owned(), to.trim().to_owned()))
        });
        Ok(Labels {
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
            substitutions: substitutions.collect::<Result<_>>()?,
        })
    }
    /// Returns the context of the file at `path`, from `/` on, whose type find(1) calls `kind`.
    fn context(&self, path: &str, kind: char) -> Option<&str> {
        let path = self.substituted(path);
        let fits =
            |rule: &&Rule| rule.kind.is_none_or(|only| only == kind) && rule.path.is_match(&path);
        self.rules.iter().rev().find(fits)?.context.as_deref()
    }
    fn substituted<'p>(&self, path: &'p str) -> Cow<'p, str> {
        for (from, to) in &self.substitutions {
            match path.strip_prefix(from.as_str()) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    return Cow::Owned(format!("{to}{rest}"));
                }
                _ => {}
            }
        }
        Cow::Borrowed(path)
    }
    /// Returns the commands for debugfs(8) that label the files of `tree` in its image. `find` is find(1), with the rights that reading
    /// the tree needs.
    ///
    /// # Errors
    /// Fails if find fails, or a name is no UTF-8.
    pub fn of_tree(&self, tree: &Path, mut find: Command) -> Result<String> {
        find.arg(tree).args(["-mindepth", "1", "-printf", "%y%P\\0"]);
        let found = shell::quietly("labelling the files", &mut find)?;
        let found = String::from_utf8(found).context("a name in the root is no UTF-8")?;
        let files = found.split_terminator('\0').filter_map(|file| {
            let mut rest = file.chars();
            Some((rest.next()?, rest.as_str()))
        });
        Ok(self.commands(files))
    }
    /// Returns the commands for debugfs(8) that label `files`: the type and the path, without `/`, of each.
    fn commands<'f>(&self, files: impl IntoIterator<Item = (char, &'f str)>) -> String {
        let mut commands = String::new();
        for (kind, path) in [('d', ""), ('d', "lost+found")].into_iter().chain(files) {
            let path = format!("/{path}");
            if let Some(context) = self.context(&path, kind) {
                let path = path.replace('"', "\"\"");
                let _ = writeln!(commands, "ea_set \"{path}\" security.selinux {context}");
            }
        }
        commands
    }
}

/// Returns the lines that say something.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns whether the path of a rule is a regular expression, and no plain name.
fn has_expression(line: &str) -> bool {
    let path = line.split_whitespace().next().unwrap_or_default();
    path.replace("\\.", "").contains(['.', '^', '$', '?', '*', '+', '|', '[', '(', '{'])
}

fn rule(line: &str) -> Result<Rule> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (path, kind, context) = match words[..] {
        [path, context] => (path, None, context),
        [path, "--", context] => (path, Some('f'), context),
        [path, kind, context] if kind.len() == 2 && kind.starts_with('-') => {
            (path, kind.chars().next_back(), context)
        }
        _ => bail!("a rule is a path, perhaps a type of files, and a context"),
    };
    let context = (context != NONE).then(|| context.to_owned());
    Ok(Rule { path: Regex::new(&format!("^(?:{path})$"))?, kind, context })
}

/// Returns the files of the monitor that a root has in `/etc/selinux`, and the policy.
pub fn sources() -> ([PathBuf; 2], PathBuf) {
    let folder = shell::root().join(FOLDER);
    (["config", "skerry"].map(|name| folder.join("etc").join(name)), folder.join("policy"))
}

/// Returns a number that is another one when the labels of a root, or the policy in it, change.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn key() -> Result<u32> {
    let (folders, policy) = sources();
    let mut hasher = DefaultHasher::new();
    let mut left = Vec::from(folders);
    left.push(policy);
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let mut inside =
                fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
            inside.sort();
            left.append(&mut inside);
        } else {
            path.file_name().hash(&mut hasher);
            fs::read(&path)
                .with_context(|| format!("reading {}", path.display()))?
                .hash(&mut hasher);
        }
    }
    Ok(hasher.finish() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        let contexts = "# contexts\n\n/.*\ta:o:root_t:s0\n/etc(/.*)?\ta:o:etc_t:s0\n/tmp -d a:o:tmp_t:s0\n/tmp/.* <<none>>\n\
            /etc/g?shadow -- a:o:shadow_t:s0\n/usr/bin/x a:o:x_t:s0\n/usr(/.*)? a:o:bin_t:s0\n/a\\.b a:o:ab_t:s0\n";
        Labels::parse(contexts, "/bin /usr/bin\n").unwrap()
    }

    #[test]
    fn the_last_rule_that_fits_holds_and_plain_names_go_before() {
        let labels = labels();
        let of = |path, kind| {
            labels.context(path, kind).map(|context| context.split(':').nth(2).unwrap())
        };
        assert_eq!(of("/", 'd'), Some("root_t"));
        assert_eq!(of("/etc", 'd'), Some("etc_t"));
        assert_eq!(of("/etc/shadow", 'f'), Some("shadow_t"));
        assert_eq!(of("/etc/gshadow", 'l'), Some("etc_t"));
        assert_eq!(of("/etcetera", 'd'), Some("root_t"));
        assert_eq!(of("/tmp", 'd'), Some("tmp_t"));
        assert_eq!(of("/tmp/x", 'f'), None);
        assert_eq!(of("/usr/bin/x", 'f'), Some("x_t"));
        assert_eq!(of("/bin/x", 'f'), Some("x_t"));
        assert_eq!(of("/bin", 'l'), Some("bin_t"));
        assert_eq!(of("/binary", 'f'), Some("root_t"));
        assert_eq!((of("/a.b", 'f'), of("/axb", 'f')), (Some("ab_t"), Some("root_t")));
    }

    #[test]
    fn commands_label_each_file_that_has_a_rule() {
        let said = labels().commands([('d', "tmp"), ('f', "tmp/x"), ('f', "say \"x\"")]);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "ea_set \"/\" security.selinux a:o:root_t:s0",
                "ea_set \"/lost+found\" security.selinux a:o:root_t:s0",
                "ea_set \"/tmp\" security.selinux a:o:tmp_t:s0",
                "ea_set \"/say \"\"x\"\"\" security.selinux a:o:root_t:s0",
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_rule_is_refused_with_its_text() {
        for wrong in ["/x", "/x -? y z", "/x( a:o:t:s0", "/x - a:o:t:s0"] {
            let said = format!("{:#}", Labels::parse(wrong, "").unwrap_err());
            assert!(said.contains(wrong), "{said}");
        }
        assert!(Labels::parse("", "/bin").is_err());
    }

    #[test]
    fn the_shipped_contexts_can_be_read() {
        let labels = Labels::read().unwrap();
        assert_eq!(labels.context("/etc/shadow", 'f'), Some("system_u:object_r:shadow_t:s0"));
        assert_eq!(labels.context("/bin/bash", 'f'), Some("system_u:object_r:shell_exec_t:s0"));
    }
}
