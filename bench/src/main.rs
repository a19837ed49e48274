//! Compares Mintleaf with its peers. See the README of this crate.

mod bench;
mod catalog;
mod conditions;
mod doors;
mod goal;
mod histogram;
mod hyper_server;
mod load;
mod machine;
mod node;
mod options;
mod peers;
mod process;
mod report;
mod rows;
mod slices;
mod stats;

use std::process::ExitCode;

use clap::Parser;

use options::{Options, Part};

/// A result whose error says why a row cannot be measured.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let options = Options::parse();
    let ended = match &options.part {
        Some(Part::Load(load)) => load.run().and_then(|outcome| {
            println!("{}", serde_json::to_string(&outcome)?);
            Ok(true)
        }),
        Some(Part::Hyper { listen }) => hyper_server::serve(*listen).map(|()| true),
        None => bench::run(&options),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}
