//! How a node takes note of the snowflake floor.

use mintleaf_core::state::Command;

use super::{HeldWorkerId, LeaseTask};
use crate::service::snowflake::lease_status::LeaseStatus;

impl LeaseTask {
    /// Stops stamping milliseconds below the snowflake floor, as far as this node's copy of the state knows it, and
    /// then reports that to the log, until the log has it. By the time of the report, nothing is stamped there any
    /// more.
    pub(super) async fn take_note_of_floor(&mut self) -> Result<(), LeaseStatus> {
        let floor_ms = self.replica.read(|state| state.snowflake_floor_ms());
        for (worker_id, unused_from_ms) in self.snowflakes.lift(floor_ms) {
            if let Some(at) = self.held.iter().position(|held| held.worker_id == worker_id) {
                let nonce = self.held.remove(at).nonce;
                self.owed.push(Command::ReleaseWorker { worker_id, nonce, unused_from_ms });
            }
        }
        let is_below = |held: &HeldWorkerId| held.floor_ms < floor_ms;
        let lifted: Vec<HeldWorkerId> = self.held.iter().copied().filter(is_below).collect();
        if lifted.is_empty() && self.owed.is_empty() {
            return Ok(());
        }
        let lift = |&HeldWorkerId { worker_id, nonce, .. }: &HeldWorkerId| Command::LiftWindow {
            worker_id,
            nonce,
            floor_ms,
        };
        let mut commands: Vec<Command> = lifted.iter().map(lift).collect();
        commands.extend(self.owed.iter().cloned());
        let responses = self.propose_all(&commands).await?;
        self.owed.clear();
        self.held.retain(|held| !is_below(held));
        let mut outcome = Ok(());
        for (held, response) in lifted.into_iter().zip(responses) {
            outcome = self.go_on(held, response).and(outcome);
        }
        outcome
    }
}
