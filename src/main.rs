//! The `mintleaf` command.

use std::env;
use std::process::ExitCode;

use clap::Parser;
use mintleaf::cli::{self, Cli, CliCommand};
use mintleaf::config::{ConfigError, DevConfig, LogSettings, ServeConfig};
use mintleaf::logging::Log;
use mintleaf::server;

fn main() -> ExitCode {
    // Before clap, which takes milliseconds. Commands that are clients end with their terminal, as is usual.
    if env::args_os().nth(1).is_some_and(|command| command == "serve" || command == "dev")
        && let Err(error) = server::survive_hangup()
    {
        eprintln!("error: cannot listen for signals: {error}");
        return ExitCode::FAILURE;
    }
    match Cli::parse().command {
        CliCommand::Dev(args) => match DevConfig::resolve(args) {
            Ok(config) => match begin_log(&config.log) {
                Ok(log) => server::dev(config, log),
                Err(code) => code,
            },
            Err(error) => bad_usage(&error),
        },
        CliCommand::Serve(args) => match ServeConfig::resolve(*args) {
            Ok(config) => match begin_log(&config.log) {
                Ok(log) => server::serve(config, log),
                Err(code) => code,
            },
            Err(error) => bad_usage(&error),
        },
        CliCommand::Token { command } => cli::token(&command),
        CliCommand::Cert { command, json } => cli::cert(&command, json),
        CliCommand::Secret { command, json } => cli::secret(&command, json),
        CliCommand::Inspect(args) => cli::inspect(&args),
        CliCommand::Restore(args) => cli::restore(&args),
        CliCommand::Completions(args) => cli::completions(&args),
        CliCommand::Man(args) => cli::man(&args),
        CliCommand::Client(command) => cli::run(command),
    }
}

/// Begins the log on standard error; standard output belongs to the answers of commands.
fn begin_log(settings: &LogSettings) -> Result<Log, ExitCode> {
    Log::begin(settings.clone()).map_err(|error| {
        eprintln!("error: {error}\nhint: RUST_LOG=info, or RUST_LOG=warn,mintleaf=debug");
        ExitCode::from(2)
    })
}

/// Says which setting is wrong; exit code 2.
fn bad_usage(error: &ConfigError) -> ExitCode {
    eprintln!("error: {error}\nhint: mintleaf help serve lists every setting");
    ExitCode::from(2)
}
