//! Writes what a node reads of itself for one page: each metric once, by its name.

use std::fmt::{self, Display};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

/// The rows of a page that are still to be written.
pub(super) struct Rows<'a>(pub(super) DescriptorEncoder<'a>);

impl Rows<'_> {
    /// Writes what stands above a metric.
    pub(super) fn metric<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, &format!("{help}."), None, kind)
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.metric(name, help, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes 1 for a thing that is so, else 0.
    pub(super) fn flag(&mut self, name: &str, help: &str, is_so: bool) -> fmt::Result {
        self.gauge(name, help, u64::from(is_so))
    }

    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        let mut metric = self.metric(name, help, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// Writes one gauge for each value of a label, and nothing where there is none.
    pub(super) fn gauges<L: Display, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.metric(name, help, MetricType::Gauge)?;
        for (of, value) in values {
            metric.encode_family(&[(label, of.to_string())])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
