//! `mintleaf-check`: arguments in, a report out.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::SignedDuration;
use mintleaf_check::{Input, Invariant, Options, Report, Unreadable, check, generate};

/// Judges recorded histories of an id service. Exit code 0 when no promise was seen broken, 1 when one was, 2
/// when a history cannot be read.
#[derive(Parser)]
#[command(name = "mintleaf-check", version)]
struct Arguments {
    /// One history, in one file or several; `-` reads the standard input.
    #[arg(required_unless_present = "generate")]
    files: Vec<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// A promise to leave unchecked, such as I5; repeatable.
    #[arg(long, value_name = "PROMISE")]
    skip: Vec<Invariant>,
    /// How soon after a healing every node must serve again.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    recovery: Duration,
    /// Write a clean history of this many operations instead, to measure this program with.
    #[arg(long, value_name = "OPERATIONS", conflicts_with = "files")]
    generate: Option<u64>,
    /// The seed of the generated history.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.generate {
        Some(operations) => write_history(arguments.seed, operations).map(|()| true),
        None => judge(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("mintleaf-check: {error}");
            ExitCode::from(2)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn write_history(seed: u64, operations: u64) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    generate::clean(seed, operations).try_for_each(|record| record.write(&mut out))?;
    Ok(out.flush()?)
}

/// Returns whether no promise was seen broken.
fn judge(arguments: &Arguments) -> Result<bool, Failure> {
    let options = Options { skip: arguments.skip.clone(), recovery: arguments.recovery };
    let report = check(input(&arguments.files)?, &options)?;
    print(&report, arguments.json)?;
    Ok(report.is_clean())
}

fn input(files: &[PathBuf]) -> Result<Input, Unreadable> {
    let mut input = Input::default();
    for file in files {
        match file == Path::new("-") {
            true => input.stream("-", io::stdin().lock())?,
            false => input.file(file)?,
        }
    }
    Ok(input)
}

fn print(report: &Report, as_json: bool) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(out.flush()?)
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
    duration.try_into().map_err(|_| "must not be negative".to_owned())
}
