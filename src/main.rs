//! The `mintleaf` command.

use std::env;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use mintleaf::cli::{self, Cli, CliCommand};
use mintleaf::config::{ConfigError, DevConfig, LogFormat, ServeConfig};
use mintleaf::server;
use tracing_subscriber::EnvFilter;

/// The log filter without `RUST_LOG`. openraft's own lines are for its developers; the lines that an
/// operator needs are written by this project.
const LOG_DEFAULT: &str = "info,openraft=off";

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
            Ok(config) => {
                init_log(config.log_format);
                server::dev(config)
            }
            Err(error) => bad_usage(&error),
        },
        CliCommand::Serve(args) => match ServeConfig::resolve(*args) {
            Ok(config) => {
                init_log(config.log_format);
                server::serve(config)
            }
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

/// Sends logs to stderr; stdout belongs to the answers of commands.
fn init_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_DEFAULT));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}

/// Says which setting is wrong; exit code 2.
fn bad_usage(error: &ConfigError) -> ExitCode {
    eprintln!("error: {error}\nhint: mintleaf help serve lists every setting");
    ExitCode::from(2)
}
