//! What many runs continue with after their first cluster has been judged: restores of the whole cluster, and
//! rolling upgrades. Both draw from separate streams, so the earlier part of a seed's run stays the same.

use std::path::Path;

use tokio::task::JoinHandle;

use crate::climate::Climate;
use crate::ordeal::Ordeal;
use crate::random::Random;
use crate::restores::Restores;
use crate::rolling::roll;
use crate::scenario::Plan;

/// The sequel of a run.
pub(crate) struct Sequel {
    plan: Plan,
    restores: Option<Restores>,
    /// Takes copies while the first cluster runs.
    copying: Option<JoinHandle<()>>,
    rolls: bool,
}

impl Sequel {
    /// Decides what follows after `first`. From now on copies are taken, into directories within `dir`.
    pub(crate) fn new(plan: Plan, climate: Climate, first: &Ordeal, dir: &Path) -> Self {
        let random = Random::new(plan.seed, "sequel");
        let is_told = plan.story.is_some() || !climate.is_mild();
        let restores = (!is_told && random.chance(40)).then(|| Restores::new(plan, dir));
        let rolls = !is_told && random.chance(25);
        let copying = restores.as_ref().map(|one| one.keep_copying(first.machines.clone()));
        Self { plan, restores, copying, rolls }
    }

    /// Carries it out. Returns the cluster that runs at the end. A broken promise ends the run at once.
    pub(crate) async fn carry_out(self, first: Ordeal) -> Ordeal {
        self.copying.iter().for_each(JoinHandle::abort);
        let mut last = first;
        if let Some(restores) = &self.restores
            && !last.site.trace.is_broken()
        {
            last = restores.carry_out(last).await;
        }
        if self.rolls && !last.site.trace.is_broken() {
            roll(&last, &Random::new(self.plan.seed, "rolling")).await;
        }
        last
    }
}
