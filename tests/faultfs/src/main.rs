//! `mintleaf-faultfs`: a disk with faults for another program, a campaign against a cluster, or power cuts of a
//! real file system.

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("SKIPPED: these faults are those of Linux");
    std::process::exit(77);
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Read};
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;
    use std::sync::Arc;

    use clap::Parser;
    use mintleaf_faultfs::campaign::{self, Options};
    use mintleaf_faultfs::{
        COMMANDS, Control, Device, Disk, Mounted, SKIPPED, Strictness, power_cut,
    };

    /// Disks with faults.
    #[derive(Parser)]
    #[command(version)]
    enum Cli {
        /// Mount a disk, until standard input ends.
        #[command(after_help = COMMANDS)]
        Mount {
            /// Directory to mount at; created if it is missing.
            at: PathBuf,
            /// A Unix socket that takes commands.
            #[arg(long)]
            control: PathBuf,
            /// A directory with the files that the disk has at the start.
            #[arg(long)]
            from: Option<PathBuf>,
            /// An empty directory that receives the files at the end.
            #[arg(long)]
            keep: Option<PathBuf>,
            /// What a sync of one file or directory guarantees about others.
            #[arg(long, value_enum, default_value = "strict")]
            names: Strictness,
            /// Size of the disk.
            #[arg(long, default_value_t = 1024)]
            size_mb: u64,
        },
        /// Send a command to a mounted disk.
        #[command(after_help = COMMANDS)]
        Send {
            /// Its control socket.
            control: PathBuf,
            /// The command.
            words: Vec<String>,
        },
        /// Break the disks of a cluster of three, round after round.
        Campaign {
            /// The `mintleaf` binary.
            #[arg(long)]
            binary: PathBuf,
            /// How many rounds.
            #[arg(long, default_value_t = 30)]
            rounds: u64,
            /// Decides faults and their times; by default the process id.
            #[arg(long, default_value_t = u64::from(std::process::id()))]
            seed: u64,
            /// How the disks treat names; by default the seed chooses, for each node.
            #[arg(long, value_enum)]
            names: Option<Strictness>,
            /// Only rounds with this in their name.
            #[arg(long)]
            only: Option<String>,
            /// A node takes a snapshot and purges its log after this many entries.
            #[arg(long, default_value_t = 100)]
            snapshot_entries: u64,
        },
        /// Cut the power of the log store, or of a node, on an ext4 in an image.
        PowerCut(power_cut::Options),
    }

    pub(crate) fn main() -> ExitCode {
        let done = match Cli::parse() {
            Cli::Mount { at, control, from, keep, names, size_mb } => {
                let disk = Disk::new(names, size_mb << 20);
                mount(disk, &at, &control, from.as_deref(), keep.as_deref())
            }
            Cli::Send { control, words } => {
                Control::new(control).send(&words.join(" ")).map(|said| {
                    println!("{said}");
                    ExitCode::SUCCESS
                })
            }
            Cli::Campaign { binary, rounds, seed, names, only, snapshot_entries } => {
                let directory = std::env::temp_dir().join(format!("mintleaf-disk-faults-{seed}"));
                let strictness = names;
                let options =
                    Options { binary, rounds, seed, snapshot_entries, strictness, directory, only };
                run_campaign(&options)
            }
            Cli::PowerCut(options) => power_cut::run(&options),
        };
        done.unwrap_or_else(|error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        })
    }

    fn skipped() -> Option<ExitCode> {
        let why = mintleaf_faultfs::why_not()?;
        eprintln!("SKIPPED: {why}");
        Some(ExitCode::from(SKIPPED))
    }

    fn mount(
        mut disk: Disk,
        at: &Path,
        control: &Path,
        from: Option<&Path>,
        keep: Option<&Path>,
    ) -> io::Result<ExitCode> {
        if let Some(skipped) = skipped() {
            return Ok(skipped);
        }
        mintleaf_faultfs::remove_leftovers(at)?;
        if let Some(from) = from {
            disk.load(from)?;
        }
        let mounted = Mounted::new(Device::new(disk), at)?;
        mintleaf_faultfs::serve_control(Arc::clone(mounted.device()), control)?;
        println!("mounted on {}", mounted.path().display());
        // The mount ends when its parent closes the standard input, or dies.
        io::stdin().read_to_end(&mut Vec::new())?;
        if let Some(keep) = keep {
            mounted.device().save(keep)?;
        }
        drop(mounted);
        std::fs::remove_file(control)?;
        Ok(ExitCode::SUCCESS)
    }

    fn run_campaign(options: &Options) -> io::Result<ExitCode> {
        if let Some(skipped) = skipped() {
            return Ok(skipped);
        }
        let Options { directory, seed, rounds, .. } = options;
        println!("seed {seed}, {rounds} rounds, logs in {}", directory.display());
        mintleaf_faultfs::remove_leftovers(&std::env::temp_dir())?;
        if directory.exists() {
            std::fs::remove_dir_all(directory)?;
        }
        let report = campaign::run(options)?;
        print!("{report}");
        if report.violations.is_empty() {
            std::fs::remove_dir_all(directory)?;
            return Ok(ExitCode::SUCCESS);
        }
        println!("logs and disks are kept in {}", directory.display());
        println!("repeat: scripts/disk-faults --rounds {rounds} --seed {seed}");
        Ok(ExitCode::FAILURE)
    }
}
