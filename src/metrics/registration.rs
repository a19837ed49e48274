//! Registers metrics under their names.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// A gauge that never shows less than zero.
pub(super) type LevelGauge = Gauge<u64, AtomicU64>;

/// The labels of one metric.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Registers one metric for each value of a label, all of them shown from the start.
pub(super) fn by_label<M: Clone + Default, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [M; N]
where
    Family<Labels<1>, M>: Metric,
{
    let family = Family::<Labels<1>, M>::default();
    let metrics = values.map(|value| family.get_or_create(&[(label, value)]).clone());
    metric(registry, name, help, family);
    metrics
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
