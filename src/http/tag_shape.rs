//! The shape of a tag in requests and answers.

use mintleaf_core::limits::HIDDEN_DIGITS;
use mintleaf_core::shape::{Kind, Order, PeriodLength, Shape};
use serde::Serialize;

use super::body::Fields;
use super::problem::Problem;
use crate::service::{ShapeSpec, TagRow};

/// Reads the fields of a request that ask for a shape.
pub(super) fn shape(fields: &mut Fields) -> Result<ShapeSpec, Problem> {
    let digits = fields.integer("digits", HIDDEN_DIGITS)?;
    Ok(ShapeSpec {
        kind: choice(fields, "kind", Kind::ALL, Kind::name)?.unwrap_or_default(),
        order: choice(fields, "order", Order::ALL, Order::name)?.unwrap_or_default(),
        period: choice(fields, "period", PeriodLength::ALL, PeriodLength::name)?,
        time_zone: fields.text("time_zone")?,
        format: fields.text("format")?,
        digits,
    })
}

/// The value of the field `name` among these, if it was given.
fn choice<T: Copy, const N: usize>(
    fields: &mut Fields,
    name: &str,
    values: [T; N],
    name_of: fn(T) -> &'static str,
) -> Result<Option<T>, Problem> {
    let Some(given) = fields.text(name)? else { return Ok(None) };
    match values.into_iter().find(|value| name_of(*value) == given) {
        Some(value) => Ok(Some(value)),
        None => {
            let names = values.map(|value| format!("\"{}\"", name_of(value))).join(" or ");
            Err(Problem::invalid(name, format_args!("must be {names}")))
        }
    }
}

/// A shape in answers, which never hold its key.
#[derive(Serialize)]
pub(super) struct ShapeBody {
    kind: &'static str,
    order: &'static str,
    period: Option<&'static str>,
    time_zone: Option<String>,
    format: Option<String>,
    digits: Option<u8>,
}

impl From<&TagRow> for ShapeBody {
    fn from(row: &TagRow) -> Self {
        let Shape { kind, order, period, format, hidden } = row.shape();
        Self {
            kind: kind.name(),
            order: order.name(),
            period: period.as_ref().map(|period| period.length.name()),
            time_zone: period.as_ref().map(|period| period.time_zone.to_string()),
            format: format.as_ref().map(|format| format.as_str().to_owned()),
            digits: hidden.as_ref().map(|hidden| hidden.digits),
        }
    }
}
