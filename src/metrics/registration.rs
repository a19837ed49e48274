//! Registers metrics under their names.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::{Atomic, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// A gauge that never shows less than zero.
pub(super) type LevelGauge = Gauge<u64, AtomicU64>;

/// The labels of one metric.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Registers one counter for each value of a label, all of them shown from the start.
pub(super) fn by_label<A, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [Counter<u64, A>; N]
where
    A: Atomic<u64> + Default + std::fmt::Debug + Send + Sync + 'static,
{
    let family = Family::<Labels<1>, Counter<u64, A>>::default();
    let counters = values.map(|value| family.get_or_create(&[(label, value)]).clone());
    metric(registry, name, help, family);
    counters
}

/// Registers one gauge for each value of a label, all of them shown from the start.
pub(super) fn gauges_by_label<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [LevelGauge; N] {
    let family = Family::<Labels<1>, LevelGauge>::default();
    let gauges = values.map(|value| family.get_or_create(&[(label, value)]).clone());
    metric(registry, name, help, family);
    gauges
}

/// Registers a gauge and hands it back.
pub(super) fn gauge<N, A>(registry: &mut Registry, name: &str, help: &str) -> Gauge<N, A>
where
    Gauge<N, A>: Metric + Clone + Default,
{
    metric(registry, name, help, Gauge::default())
}

/// Registers a metric and hands it back.
pub(super) fn metric<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}
