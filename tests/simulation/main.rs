//! Whole clusters in simulated time: the real nodes without HTTP, in one thread, on a simulated network,
//! simulated disks and simulated clocks. See `README.md` in this directory.

#[cfg(not(any(tokio_unstable, clippy)))]
compile_error!(
    "the simulation seeds tokio's own random numbers, which takes RUSTFLAGS='--cfg tokio_unstable': \
     run scripts/simulate"
);

mod bootstrap;
mod calm;
mod campaign;
mod clients;
mod climate;
mod clock;
mod disk;
mod faults;
mod golden;
mod machine;
mod net;
mod next_ids;
mod oracle;
mod ordeal;
mod order;
mod random;
mod replacement;
mod restores;
mod rolling;
mod scenario;
mod sequel;
mod simulated;
mod story;
mod tally;
mod trace;
mod turn;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match order::Order::parse(&arguments) {
        Ok(order) => order.carry_out(),
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}
