//! The command line: what can be typed, and the commands that are clients of a node.
//!
//! ```text
//! cli      arguments, dispatch, exit codes
//!   command_line   how they are read, and the environment; errors name the one that is wrong
//!   tag, audit, cluster, workers, pool, ids, sequence, register, decode    one group of commands each: call, then print
//!     status             what every member says of itself
//!   ready              whether a node is ready, as an exit code
//!   backup             the whole state into a file, or into a directory that keeps the latest
//!   import, export     tables of other systems into tags, and tags into such a table
//!   inspect, restore   what a copy of the state holds; a new cluster made of it
//!     marks                  the lines of a copy as a list, and the last numbers that an operator knows
//!     progress, temporary    how far they have come; what they make for the time that they run
//!     connect            which nodes to ask
//!       client             HTTP with failover
//!         https            TLS below it, and `named_certificates`
//!   secret, token, cert  a new secret; a new token of clients; a small CA
//!     init               a secret, an auth file and a token at once
//!     new_file           files that take the place of none
//!   doctor               whether a node works well on this machine
//!   manual               completions of shells, and man pages
//!     table              tables by the width of characters
//!     output             text and JSON on a stdout that may close early; errors, hints, questions
//!       failure            why a command failed
//!       style              what colours mean
//!   topics               the guides in the terminal
//!     help                 commands in groups; what help says below the arguments
//! ```

mod audit;
mod backup;
mod cert;
mod client;
mod cluster;
mod command_line;
mod connect;
mod decode;
mod doctor;
mod export;
mod failure;
mod help;
mod https;
mod ids;
mod import;
mod init;
mod inspect;
mod manual;
mod marks;
mod new_file;
mod output;
mod pool;
mod progress;
mod ready;
mod register;
mod restore;
mod secret;
mod sequence;
mod status;
mod style;
mod table;
mod tag;
mod temporary;
mod token;
mod topics;
mod workers;

use std::pin::Pin;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{DevArgs, ServeArgs};
use crate::version::VERSION_AND_COMMIT;
use connect::Connect;
use failure::Failure;

/// Ids that are never handed out twice, from a cluster that depends on nothing else
#[derive(Debug, Parser)]
#[command(name = "mintleaf", version = VERSION_AND_COMMIT, after_help = help::EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Everything `mintleaf` does.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run a working cluster in this process, without configuration
    #[command(after_help = help::DEV)]
    Dev(Box<DevArgs>),
    /// Run one node of a cluster
    #[command(after_help = help::SERVE)]
    Serve(Box<ServeArgs>),
    /// What ends by itself.
    #[command(flatten)]
    Other(Command),
}

/// The commands that run no node.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a secret, an auth file and an admin token in a new directory, for a trial
    #[command(after_help = "Example:\n  mintleaf init trial")]
    Init(init::InitArgs),
    /// Create a token that clients show to nodes with an auth file
    Token {
        /// What to make.
        #[command(subcommand)]
        command: token::TokenCommand,
    },
    /// Create a CA, and certificates for nodes and clients
    Cert {
        /// What to make.
        #[command(subcommand)]
        command: cert::CertCommand,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Create the secret that nodes authenticate each other with
    Secret {
        /// What to make.
        #[command(subcommand)]
        command: secret::SecretCommand,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Show what a backup, or the data directory of a stopped node, contains
    Inspect(inspect::InspectArgs),
    /// Create a new cluster from a backup or from one surviving data directory
    Restore(restore::RestoreArgs),
    /// Print the completion script for a shell
    Completions(manual::CompletionsArgs),
    /// Write a man page for each command
    Man(manual::ManArgs),
    /// Print the help of a command, or a topic of the guides
    Help(topics::HelpArgs),
    /// What a client of a running node can do.
    #[command(flatten)]
    Client(Box<ClientCommand>),
}

/// The commands that talk to a running node.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Create, list, read, change and delete tags
    Tag(AskingBy<tag::TagCommand>),
    /// Take ids of a tag and print them, one per line
    #[command(after_help = "Example:\n  mintleaf next orders -n 5")]
    Next(Asking<ids::NextArgs>),
    /// Take numbers of a key in a sequence, or show its last one
    Sequence(AskingBy<sequence::SequenceCommand>),
    /// Give a key of a register its number, show it, or list the keys
    Register(AskingBy<register::RegisterCommand>),
    /// Take snowflake ids and print them, one per line
    #[command(after_help = "Example:\n  mintleaf snowflake -n 5")]
    Snowflake(Asking<ids::SnowflakeArgs>),
    /// Make all snowflake ids given from now on show a later time than this one
    #[command(
        name = "snowflake-floor",
        after_help = "Example, with the highest id from a Leaf that has been stopped:\n  mintleaf \
                      snowflake-floor 1169786042799259000\n\nExample, with the present time:\n  mintleaf snowflake-floor \
                      $(mintleaf snowflake)\n\nOn a terminal, it asks for confirmation; \
                      elsewhere it wants --yes. Until every node whose ids could still lie below has taken note, the \
                      request is refused and names such a node: try again.\n\nIn a cluster that was restored, new \
                      periods up to the one after the floor begin as much higher as at the restore, and registers \
                      have a gap there."
    )]
    SnowflakeFloor(Asking<ids::FloorArgs>),
    /// Show the time, worker id and sequence number in a snowflake id
    #[command(after_help = help::DECODE)]
    Decode(Asking<decode::DecodeArgs>),
    /// Show recent admin changes: who changed what, and when
    #[command(
        after_help = "Examples:\n  mintleaf audit --newest --limit 20\n  mintleaf audit --json"
    )]
    Audit(Asking<audit::AuditArgs>),
    /// Import the tags of Leaf or tinyid: create each at its mark, or raise it to there
    #[command(
        after_help = "Example:\n  mysqldump leaf leaf_alloc_frozen > leaf_alloc.sql\n  mintleaf import \
                            leaf_alloc.sql --dry-run\n\nAn invalid row is reported with its line number and skipped. A second run \
                            changes nothing."
    )]
    Import(Asking<import::ImportArgs>),
    /// Print the marks of all tags as SQL for the table of a Leaf that goes on from them
    #[command(
        after_help = "Examples:\n  mintleaf export --leaf > marks.sql\n  mintleaf export --leaf leaf_alloc_frozen | \
                            mysql leaf\n\nFreeze the tags first: mintleaf tag freeze --all. A tag that Leaf cannot go on with \
                            is named on standard error, and left out."
    )]
    Export(Asking<export::ExportArgs>),
    /// Write the whole state of a running cluster to a file
    #[command(
        after_help = "Examples:\n  mintleaf backup mintleaf-backup\n  mintleaf backup backups/ --keep 14\n\nInto a \
                      directory it prints nothing without a terminal. The role `backup` is enough."
    )]
    Backup(Asking<backup::BackupArgs>),
    /// Check whether a node would run well on this machine: disk, clock, limits, files, ports and peers
    #[command(after_help = help::DOCTOR)]
    Doctor(Asking<Box<ServeArgs>>),
    /// Show which node holds which snowflake worker id
    Worker(AskingBy<workers::WorkerCommand>),
    /// Create, list, read and delete pools of worker ids, which programs lease
    Pool(AskingBy<pool::PoolCommand>),
    /// Check whether a node can hand out ids: exit code 0 if it is ready, else 1 and the reasons
    #[command(
        after_help = "Example:\n  mintleaf ready\n\nMeant for container health checks and scripts. It needs no token."
    )]
    Ready(Connect),
    /// Show and change the members of the cluster
    Cluster(AskingBy<cluster::ClusterCommand>),
}

/// A command that talks to a node: the help says what stands at its variant.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Asking<T: Args> {
    /// What to do.
    #[command(flatten)]
    args: T,
    /// Which node, and how to print.
    #[command(flatten)]
    connect: Connect,
}

/// The same, of a command with commands below it.
#[derive(Args, Debug)]
#[group(skip)]
pub struct AskingBy<T: Subcommand> {
    /// What to do.
    #[command(subcommand)]
    command: T,
    /// Which node, and how to print.
    #[command(flatten)]
    connect: Connect,
}

/// Reads the command line. Ends the process if it asks for help or cannot be understood.
#[must_use]
pub fn parse() -> Cli {
    let (mut cli, sources) = command_line::parse::<Cli>(&help::grouped(Cli::command()));
    match &mut cli.command {
        CliCommand::Serve(args) => args.sources = sources,
        CliCommand::Dev(args) => args.sources = sources,
        CliCommand::Other(Command::Client(command)) => {
            if let ClientCommand::Doctor(Asking { args, .. }) = &mut **command {
                args.sources = sources;
            }
        }
        _ => {}
    }
    cli
}

/// A warning for each variable of the environment that looks like a setting but is not one.
#[must_use]
pub fn unknown_variables() -> Vec<String> {
    command_line::unknown_variables(&Cli::command())
}

/// Prints on stderr why a node or a command cannot begin, and what may help.
pub fn refuse(why: &str, hint: Option<&'static str>) {
    match hint {
        Some(hint) => output::complain(&Failure::hinting(why, hint)),
        None => output::complain(&Failure::new(why)),
    }
}

/// Prints a warning on stderr for the user, and goes on.
pub fn warn(what: &str) {
    output::warn(what);
}

/// Runs a command to its end, and prints its output.
pub fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::Init(args) => init::run(&args),
        Command::Token { command } => token::run(&command),
        Command::Cert { command, json } => cert::run(&command, json),
        Command::Secret { command, json } => secret::run(&command, json),
        Command::Inspect(args) => inspect::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
        Command::Help(args) => topics::run(&args, help::grouped(Cli::command())),
        Command::Client(command) => ask(*command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Carries out a command that talks to a running node.
fn ask(command: ClientCommand) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    // Of a future without a type of its own tokio has one copy, and not one for each of its schedulers.
    let done: Pin<Box<dyn Future<Output = _>>> = Box::pin(dispatch(command));
    runtime.block_on(done)
}

async fn dispatch(command: ClientCommand) -> Result<(), Failure> {
    match command {
        ClientCommand::Tag(AskingBy { command, connect }) => {
            let client = &connect.open()?;
            tag::or_suggest(tag::run(command, client).await, client).await
        }
        ClientCommand::Next(Asking { args, connect }) => {
            let client = &connect.open()?;
            tag::or_suggest(ids::next(&args, client).await, client).await
        }
        ClientCommand::Sequence(AskingBy { command, connect }) => {
            let client = &connect.open()?;
            tag::or_suggest(sequence::run(command, client).await, client).await
        }
        ClientCommand::Register(AskingBy { command, connect }) => {
            let client = &connect.open()?;
            tag::or_suggest(register::run(command, client).await, client).await
        }
        ClientCommand::Snowflake(Asking { args, connect }) => {
            ids::snowflake(&args, &connect.open()?).await
        }
        ClientCommand::SnowflakeFloor(Asking { args, connect }) => {
            ids::raise_floor(&args, &connect.open()?).await
        }
        ClientCommand::Decode(Asking { args, connect }) => decode::run(&args, connect).await,
        ClientCommand::Audit(Asking { args, connect }) => audit::run(&args, &connect.open()?).await,
        ClientCommand::Import(Asking { args, connect }) => import::run(args, connect.open()?).await,
        ClientCommand::Export(Asking { args, connect }) => {
            export::run(&args, &connect.open()?).await
        }
        ClientCommand::Backup(Asking { args, connect }) => {
            backup::run(args, &connect.open()?).await
        }
        ClientCommand::Doctor(Asking { args, connect }) => doctor::run(*args, connect).await,
        ClientCommand::Pool(AskingBy { command, connect }) => {
            pool::run(command, &connect.open()?).await
        }
        ClientCommand::Worker(AskingBy { command, connect }) => {
            workers::run(&command, connect).await
        }
        ClientCommand::Ready(connect) => ready::run(connect).await,
        ClientCommand::Cluster(AskingBy { command, connect }) => {
            cluster::run(command, &connect.open()?).await
        }
    }
}

#[cfg(test)]
mod tests;
