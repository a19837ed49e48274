//! The `mintleaf` command.

use std::env;
use std::process::ExitCode;

use mintleaf::cli::{self, CliCommand};
use mintleaf::config::{ConfigError, DevConfig, LogFormat, NodeConfig};
use mintleaf::server::logging::{self, Log};
use mintleaf::server::{self, NodeFailure};

/// The allocator of static builds.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What helps with wrong settings of `dev` and of `serve`.
const DEV_HELP: &str = "mintleaf help dev lists every setting";
const SERVE_HELP: &str = "mintleaf help serve lists every setting, and mintleaf doctor checks them";

fn main() -> ExitCode {
    // Before clap, which takes milliseconds. Commands that are clients end with their terminal, as is usual.
    if env::args_os().nth(1).is_some_and(|command| command == "serve" || command == "dev")
        && let Err(error) = server::survive_hangup()
    {
        cli::refuse(&format!("cannot listen for signals: {error}"), None);
        return ExitCode::FAILURE;
    }
    let command = cli::parse().command;
    let unknown = cli::unknown_variables();
    if let CliCommand::Other(_) = command {
        unknown.iter().for_each(|what| cli::warn(what));
    }
    match command {
        CliCommand::Dev(args) => match DevConfig::resolve(*args) {
            Ok(config) => {
                run_nodes(&config.first, &unknown, DEV_HELP, |log| server::dev(&config, log))
            }
            Err(error) => bad_usage(DEV_HELP, &error),
        },
        CliCommand::Serve(args) => match NodeConfig::resolve(*args) {
            Ok(config) => {
                run_nodes(&config, &unknown, SERVE_HELP, |log| server::serve(&config, log))
            }
            Err(error) => bad_usage(SERVE_HELP, &error),
        },
        CliCommand::Other(command) => cli::run(command),
    }
}

/// Runs nodes with a log on standard error; standard output belongs to the answers of commands. The log begins with
/// what is wrong with the environment. `help` helps with wrong settings.
fn run_nodes(
    config: &NodeConfig,
    unknown: &[String],
    help: &'static str,
    run: impl FnOnce(Log) -> Result<(), NodeFailure>,
) -> ExitCode {
    let log = match Log::begin(config.log.clone()) {
        Ok(log) => log,
        Err(error) => {
            cli::refuse(&error, Some("RUST_LOG=info, or RUST_LOG=warn,mintleaf=debug"));
            return ExitCode::from(2);
        }
    };
    unknown.iter().for_each(|what| tracing::warn!("{what}"));
    let exit_code = ended(run(log), config, help);
    logging::flush();
    exit_code
}

/// Reports why nodes ended; returns the exit code for that. A node that ran reports it in its log, and so does one
/// whose log is read by programs.
fn ended(outcome: Result<(), NodeFailure>, config: &NodeConfig, help: &'static str) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let exit_code = failure.exit_code();
    let error = config.sources.name_sources(&failure.to_string());
    match (&failure, config.log.format) {
        (NodeFailure::Stopped(_), _) => tracing::error!(error, exit_code, "node stopped"),
        (_, LogFormat::Json) => {
            tracing::error!(error, hint = failure.hint(help), exit_code, "node refused to start");
        }
        (_, LogFormat::Text) => {
            logging::say_last(move || cli::refuse(&error, failure.hint(help)));
        }
    }
    ExitCode::from(exit_code)
}

/// Reports which setting is wrong; exit code 2.
fn bad_usage(help: &'static str, error: &ConfigError) -> ExitCode {
    cli::refuse(&error.to_string(), Some(help));
    ExitCode::from(2)
}
