//! The network card of `./x run`: on QEMU's own network, on an interface of the host, or none.
use anyhow::{Context, Result, bail, ensure};
use harness::qemu::{self, Config};
use std::{fmt, path::PathBuf, str::FromStr};

/// Options of the network card.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NetOptions {
    /// Network card: `none`, `user` (QEMU's own network 10.0.2.0/24, without rights), `tap=NAME` (an interface of the host)
    /// [default: none, with `--root debian` user]
    #[arg(long, value_name = "NETWORK")]
    pub net: Option<Network>,
    /// With `--net user`: what comes to this port of 127.0.0.1 goes to that port of the guest; `udp:HOST:GUEST` for datagrams
    #[arg(long, value_name = "HOST:GUEST")]
    pub forward: Vec<Forward>,
    /// With `--net`: all frames, in a file for Wireshark and `tcpdump -r`
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
}

/// The kind of a root, by which a run has a network card or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// Debian.
    Debian,
    /// Another one.
    Other,
}

/// The network that the card is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// There is no card.
    #[default]
    None,
    /// QEMU's own.
    User,
    /// An interface of the host, by its name.
    Tap(String),
}

/// A port of the host whose connections or datagrams go to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    protocol: &'static str,
    host: u16,
    guest: u16,
}

impl Forward {
    /// Forwards the connections to a port of the host.
    pub fn tcp(host: u16, guest: u16) -> Forward {
        Forward { protocol: "tcp", host, guest }
    }
}

/// The longest name of an interface of Linux.
const NAME_MAX: usize = 15;
/// The card's address, administered locally.
const MAC: &str = "02:00:00:00:00:02";
/// The address of a second personality's card.
const MAC_TWO: &str = "02:00:00:00:00:03";

impl FromStr for Network {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Network> {
        match (text, text.strip_prefix("tap=")) {
            ("none", _) => Ok(Network::None),
            ("user", _) => Ok(Network::User),
            (_, Some(name)) => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                let is_name = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain);
                ensure!(is_name, "`{name}` is no name of an interface");
                Ok(Network::Tap(name.to_owned()))
            }
            _ => bail!("it is none, user or tap=NAME"),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::None => f.write_str("none"),
            Network::User => f.write_str("user"),
            Network::Tap(name) => write!(f, "tap={name}"),
        }
    }
}

impl FromStr for Forward {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Forward> {
        let (protocol, ports) = match text.strip_prefix("udp:") {
            Some(ports) => ("udp", ports),
            None => ("tcp", text.strip_prefix("tcp:").unwrap_or(text)),
        };
        let (host, guest) = ports.split_once(':').context("it is HOST:GUEST, two ports")?;
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
        let port = |text: &str| port(text).with_context(|| format!("`{text}` is no port"));
        Ok(Forward { protocol, host: port(host)?, guest: port(guest)? })
    }
}

impl NetOptions {
    /// Returns the network of a run with a root of `kind`.
    fn network(&self, kind: RootKind) -> Network {
        self.net.clone().unwrap_or(match kind {
            RootKind::Debian => Network::User,
            RootKind::Other => Network::None,
        })
    }

    /// Checks that the options fit each other and a root of `kind`.
    ///
    /// # Errors
    /// Names the option that is wrong.
    pub fn check(&self, kind: RootKind) -> Result<()> {
        let network = self.network(kind);
        if !self.forward.is_empty() && network != Network::User {
            bail!("--forward needs --net user");
        }
        if self.capture.is_some() && network == Network::None {
            bail!("--capture needs --net user or --net tap=NAME");
        }
        Ok(())
    }

    /// Returns QEMU's arguments for the card of `config`, whose root is of `kind`. A second personality has one on a network of its
    /// own.
    pub fn arguments(&self, config: &Config, kind: RootKind) -> Vec<String> {
        let backing = match &self.network(kind) {
            Network::None => return Vec::new(),
            Network::User => {
                let forwards = self.forward.iter().map(|Forward { protocol, host, guest }| {
                    format!(",hostfwd={protocol}:127.0.0.1:{host}-:{guest}")
                });
                format!("user,id=net0{}", forwards.collect::<String>())
            }
            Network::Tap(name) => format!("tap,id=net0,ifname={name},script=no,downscript=no"),
        };
        let mut words = vec!["-netdev".to_owned(), backing];
        words.extend(config.card("net0", MAC));
        if config.is_for_two && self.network(kind) == Network::User {
            words.extend(["-netdev".to_owned(), "user,id=net-two".to_owned()]);
            words.extend(config.card("net-two", MAC_TWO));
        }
        if let Some(file) = &self.capture {
            let file = qemu::escaped(file);
            words.extend([
                "-object".to_owned(),
                format!("filter-dump,id=dump0,netdev=net0,file={file}"),
            ]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_forwards_are_read_and_wrong_ones_refused() {
        for text in ["none", "user", "tap=tap0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        for wrong in ["", "usr", "tap=", "tap=a,b", "tap=0123456789abcdef"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let forward = Forward { protocol: "udp", host: 5300, guest: 53 };
        assert_eq!("udp:5300:53".parse::<Forward>().unwrap(), forward);
        assert_eq!("8080:80".parse::<Forward>().unwrap().protocol, "tcp");
        for wrong in ["80", "0:80", "80:65536", "sctp:1:2", "a:1"] {
            assert!(wrong.parse::<Forward>().is_err(), "{wrong}");
        }
        let forward = vec![forward];
        let on_none = NetOptions { forward, ..NetOptions::default() };
        let other = RootKind::Other;
        assert!(on_none.check(other).unwrap_err().to_string().contains("--net user"));
        assert!(on_none.check(RootKind::Debian).is_ok(), "Debian has a card");
        assert!(
            NetOptions { net: Some(Network::None), ..on_none.clone() }
                .check(RootKind::Debian)
                .is_err()
        );
        assert!(NetOptions { net: Some(Network::User), ..on_none }.check(other).is_ok());
        let capture = NetOptions { capture: Some("a".into()), ..NetOptions::default() };
        assert!(capture.check(other).is_err());
    }
}
