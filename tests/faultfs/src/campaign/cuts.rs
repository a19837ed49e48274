//! Power cuts of one node, two or all, and many in succession.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use mintleaf_harness::pause;
use rand::Rng;
use rand::seq::SliceRandom;

use super::NODES;
use super::rounds::Campaign;
use crate::cut::Cut;

impl Campaign<'_> {
    pub(super) fn power_cut(&mut self, cut: Cut) -> io::Result<Vec<u64>> {
        let victims = self.victims();
        // A slow disk has more operations under way when the power is cut.
        let delay = Duration::from_millis(self.random.gen_range(0..80));
        for &id in &victims {
            self.cluster.node(id).device().slow_fsync(delay);
        }
        pause(Duration::from_millis(self.random.gen_range(100..600)));
        self.cut(&victims, cut);
        self.start_again(&victims, false)?;
        Ok(victims)
    }

    pub(super) fn cut(&mut self, victims: &[u64], cut: Cut) {
        for &id in victims {
            self.cluster.node(id).kill();
        }
        for &id in victims {
            let seed = self.random.r#gen();
            let device = self.cluster.node(id).device();
            device.cut(cut, seed);
            device.heal();
        }
        *self.report.cuts.entry(format!("{cut:?}").to_lowercase()).or_default() +=
            victims.len() as u64;
    }

    /// Cuts the power again and again. Half of the cuts come while the nodes that were just hit are starting.
    /// The others come within seconds, while the nodes write again what the last cut destroyed.
    pub(super) fn cuts_in_succession(&mut self) -> io::Result<Vec<u64>> {
        let mut hit = BTreeSet::new();
        for _ in 0..self.random.gen_range(5..25) {
            let victims = self.victims();
            let kinds = [Cut::Lose, Cut::Tear, Cut::Tear, Cut::Scatter, Cut::Scatter];
            let cut = *kinds.choose(&mut self.random).unwrap_or(&Cut::Lose);
            let ms = if self.random.gen_bool(0.5) { 0..300 } else { 300..2700 };
            pause(Duration::from_millis(self.random.gen_range(ms)));
            self.notice_ends();
            self.cut(&victims, cut);
            for &id in &victims {
                self.cluster.node(id).start()?;
            }
            hit.extend(victims);
        }
        let hit: Vec<u64> = hit.into_iter().collect();
        self.start_again(&hit, false)?;
        Ok(hit)
    }

    /// Reports nodes that ended: none of them had a reason to.
    fn notice_ends(&mut self) {
        for id in 1..=NODES {
            if let Some(ended) = self.cluster.node(id).ended()
                && self.doubtful != Some(id)
            {
                self.violate(id, &format!("did not start again: {}", ended.why()));
            }
        }
    }
}
