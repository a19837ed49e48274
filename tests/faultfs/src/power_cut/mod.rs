//! Power cuts as far as a disk image can show them: of the log store alone, or of a whole node under load.
//!
//! The writer runs on an ext4 file system in an image file, behind a loop device with direct I/O, so that the image
//! holds what reached the device and nothing else. A copy of the image at a random moment is a disk that lost its
//! power: mounting it replays the journal. Everything that was acknowledged before the copy must be on it.
//!
//! A loss is a panic, as in a test, at which the processes print the end of their logs.

mod bench;
mod writers;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use mintleaf_harness::{Interrupts, ms};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::SKIPPED;
use bench::Bench;
use writers::{Node, Store, Writer};

/// The exit code after SIGINT and SIGTERM, as shells have it.
const INTERRUPTED: u8 = 130;
/// The longest time between two cuts.
const CUT_AFTER_MS_MAX: u64 = 900;

/// The options of a run.
#[derive(clap::Args)]
pub struct Options {
    /// The program that writes: the torture example of storage/, or with --node the mintleaf binary.
    #[arg(long)]
    binary: PathBuf,
    /// Cut the power of a whole node under load.
    #[arg(long)]
    node: bool,
    /// Cut the power of the writer itself, which then goes on with what is left.
    #[arg(long)]
    follow: bool,
    /// How many cuts.
    #[arg(long, default_value_t = 20)]
    cuts: u64,
    /// Decides the moments; random by default.
    #[arg(long)]
    seed: Option<u64>,
}

/// Cuts the power again and again, and prints the outcome.
///
/// # Errors
/// When signals cannot be caught, or the disk of a failure cannot be kept.
pub fn run(options: &Options) -> io::Result<ExitCode> {
    let interrupts = Interrupts::catch()?;
    let seed = options.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let mut bench = match Bench::new(seed) {
        Ok(bench) => bench,
        Err(why) => {
            eprintln!("power-cut: SKIPPED, nothing was tested: {why}");
            return Ok(ExitCode::from(SKIPPED));
        }
    };
    let cut = || cut_power(options, seed, &mut bench, &interrupts);
    match catch_unwind(AssertUnwindSafe(cut)) {
        Ok(Ok(summary)) => {
            println!("power-cut: {summary}");
            return Ok(ExitCode::SUCCESS);
        }
        _ if interrupts.arrived() => return Ok(ExitCode::from(INTERRUPTED)),
        Ok(Err(error)) => eprintln!("power-cut: {error}"),
        Err(_) => {}
    }
    eprintln!("power-cut: seed {seed}, kept {}", bench.keep()?.display());
    Ok(ExitCode::FAILURE)
}

/// Returns the report of a run that lost nothing.
fn cut_power(
    options: &Options,
    seed: u64,
    bench: &mut Bench,
    interrupts: &Interrupts,
) -> io::Result<String> {
    let Options { binary, node, follow, cuts, .. } = options;
    let mut writer: Box<dyn Writer> = match node {
        true => Box::new(Node::start(binary, &bench.path("live"))),
        false => Box::new(Store::start(binary, &bench.path("live"))),
    };
    let mut acked = String::new();
    let mut moments = StdRng::seed_from_u64(seed);
    for _ in 0..*cuts {
        interrupts.pause(ms(moments.gen_range(0..CUT_AFTER_MS_MAX)))?;
        // How much is drawn from it depends on the writer, and must not shift the later moments.
        let mut random = StdRng::seed_from_u64(moments.r#gen());
        assert!(writer.process().is_running(), "the writer has ended by itself");
        acked = writer.note();
        bench.copy(writer.process())?;
        if *follow {
            writer.process().kill();
            bench.adopt_copy()?;
            writer.start_again(&mut random);
        } else {
            let copy = bench.mount("cut")?;
            writer.verify(&bench.path("cut"), &mut random);
            drop(copy);
            bench.carry_out(&format!("rm {}", bench.image("cut")))?;
        }
    }
    let copies = if bench.xfs.is_some() { "atomic copies" } else { "writer stopped while copying" };
    let disk = if *follow { ", of one disk" } else { "" };
    Ok(format!("{cuts} cuts, {acked} acknowledged, none lost ({copies}{disk}, seed {seed})"))
}
