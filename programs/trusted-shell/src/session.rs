//! The session whose terminal the trusted path has, its user, and the names of levels: texts of the kernel and of `/etc`.
use std::fmt;

/// The session, as `/proc/skerry/trusted` tells it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The terminal's name.
    pub terminal: String,
    /// The session's number, if there is one.
    pub number: Option<u32>,
    /// The user that logged in.
    pub user: u32,
    /// The context of its leader.
    pub context: String,
}

impl Session {
    /// Parses the kernel's lines.
    pub fn parse(text: &str) -> Session {
        let mut session = Session::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "terminal" => session.terminal = value.to_owned(),
                "session" => session.number = value.parse().ok(),
                "user" => session.user = value.parse().unwrap_or(u32::MAX),
                "context" => session.context = value.to_owned(),
                _ => {}
            }
        }
        session
    }
    /// Returns the present level, and the highest one that may be asked for.
    pub fn levels(&self) -> (&str, &str) {
        let range = self.context.splitn(4, ':').nth(3).unwrap_or_default();
        range.split_once('-').unwrap_or((range, range))
    }
}

/// A user of `/etc/passwd`.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub id: u32,
    pub group: u32,
    pub home: String,
    pub shell: String,
}

impl User {
    /// Finds the user with an id in the text of `/etc/passwd`.
    pub fn find(passwd: &str, id: u32) -> Option<User> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, number, group, _, home, shell] = fields[..] else { return None };
            (number.parse() == Ok(id)).then_some(())?;
            let shell = if shell.is_empty() { "/bin/sh" } else { shell };
            let [name, home, shell] = [name, home, shell].map(str::to_owned);
            Some(User { name, id, group: group.parse().ok()?, home, shell })
        })
    }
    /// Returns the numbers of the user's groups in the text of `/etc/group`, with commas.
    pub fn groups(&self, group: &str) -> String {
        let numbers = group.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [_, _, number, members] = fields[..] else { return None };
            members.split(',').any(|member| member == self.name).then(|| number.parse().ok())?
        });
        numbers.map(|number: u32| number.to_string()).collect::<Vec<_>>().join(",")
    }
}

/// A level with its name in the policy, if it has one.
pub struct Named<'t> {
    pub level: &'t str,
    pub policy: &'t str,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, _) = self.level.split_once(':').unwrap_or((self.level, ""));
        let words = self.policy.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut names = words.filter_map(|words| match words[..] {
            ["level", known, name] if known == number => Some(name.to_owned()),
            _ => None,
        });
        match names.next_back() {
            Some(name) => write!(f, "{} ({name})", self.level),
            None => f.write_str(self.level),
        }
    }
}

/// A command about audit.
#[derive(Debug, PartialEq, Eq)]
pub enum AuditOrder {
    Show,
    Last,
    /// An order that the kernel knows.
    Give(String),
}

/// A command of the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Continue,
    Level,
    New(String),
    Password,
    Audit(AuditOrder),
    End,
    Help,
    Nothing,
    Unknown,
}

impl Command {
    /// Parses a line as it was typed.
    pub fn parse(line: &[u8]) -> Command {
        let text = String::from_utf8_lossy(line);
        let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [] => Command::Nothing,
            ["continue" | "c"] => Command::Continue,
            ["level" | "l"] => Command::Level,
            ["new" | "n", level] => Command::New(level.to_owned()),
            ["password" | "p"] => Command::Password,
            ["audit" | "a"] => Command::Audit(AuditOrder::Show),
            ["audit" | "a", "last"] => Command::Audit(AuditOrder::Last),
            ["audit" | "a", "on"] => Command::Audit(AuditOrder::Give("enable\n".to_owned())),
            ["audit" | "a", "off"] => Command::Audit(AuditOrder::Give("disable\n".to_owned())),
            ["audit" | "a", "release", block] => {
                Command::Audit(AuditOrder::Give(format!("release {block}\n")))
            }
            ["end" | "e"] => Command::End,
            ["help" | "h" | "?"] => Command::Help,
            _ => Command::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_a_session() {
        let text = "terminal hvc0\nsession 12\nuser 1000\ncontext user_u:user_r:user_t:s1:c0-s3:c0.c7\nnew x\n";
        let session = Session::parse(text);
        assert_eq!(
            (session.terminal.as_str(), session.number, session.user),
            ("hvc0", Some(12), 1000)
        );
        assert_eq!(session.levels(), ("s1:c0", "s3:c0.c7"));
        assert_eq!(Session::parse("terminal ttyS0\n").number, None);
        let context = "a:b:c:s2".to_owned();
        assert_eq!(Session { context, ..Session::default() }.levels(), ("s2", "s2"));
    }

    #[test]
    fn a_user_is_found_with_its_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nbad\nuser:x:1000:1000::/home/user:\n";
        let user = User::find(passwd, 1000).unwrap();
        assert_eq!(
            (user.name.as_str(), user.group, user.shell.as_str()),
            ("user", 1000, "/bin/sh")
        );
        assert_eq!(user.groups("a:x:4:user\nb:x:5:root\nc:x:6:root,user\nuser:x:1000:\n"), "4,6");
        assert_eq!(User::find(passwd, 7), None);
    }

    #[test]
    fn levels_have_the_names_of_the_policy() {
        let policy = "# level s1 wrong\nlevel s1 confidential\nlevel s2 secret x\n";
        assert_eq!(Named { level: "s1:c0", policy }.to_string(), "s1:c0 (confidential)");
        assert_eq!(Named { level: "s2", policy }.to_string(), "s2");
    }

    #[test]
    fn any_line_is_a_command() {
        for (line, command) in [
            (&b"\n"[..], Command::Nothing),
            (b"\0 continue \r\n", Command::Continue),
            (b"new s1:c0\n", Command::New("s1:c0".to_owned())),
            (b"new\n", Command::Unknown),
            (b"\xff\xfe\n", Command::Unknown),
            (b"\x1b[A\n", Command::Unknown),
            (b"end now\n", Command::Unknown),
            (b"audit\n", Command::Audit(AuditOrder::Show)),
            (b"a last\n", Command::Audit(AuditOrder::Last)),
            (b"audit off\n", Command::Audit(AuditOrder::Give("disable\n".to_owned()))),
            (b"audit release 7\n", Command::Audit(AuditOrder::Give("release 7\n".to_owned()))),
            (b"audit release\n", Command::Unknown),
            (b"?\n", Command::Help),
        ] {
            assert_eq!(Command::parse(line), command, "{line:?}");
        }
    }
}
