//! x
#[derive(clap::Args)] pub struct Options {}
pub fn run(_: &Options) -> anyhow::Result<u8> { Ok(0) }
