//! `./x image`: builds the kernel and the disk image, and says where they are.
use anyhow::Result;
use clap::Args;
use harness::{
    build::{self, Features},
    disk, packages, symbols,
};

#[derive(Args)]
pub struct Options {
    /// The system description, systems/NAME.toml
    #[arg(long, value_name = "NAME", default_value = "default")]
    system: String,
}

/// Builds everything and says where it is.
///
/// # Errors
/// As [`build::image`] and [`disk::default_root`].
pub fn run(options: &Options) -> Result<u8> {
    packages::ensure(packages::Need::Run)?;
    let kernel = build::image(&options.system, &Features::default())?;
    let root = disk::default_root()?;
    let symbols = symbols::beside(&kernel);
    println!(
        "kernel  {}\nsymbols {}\nroot    {}",
        kernel.display(),
        symbols.display(),
        root.display()
    );
    Ok(0)
}
