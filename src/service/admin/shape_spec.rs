//! The shape of a new tag: what is asked for, checked, and with the key that hidden ids need.

use mintleaf_core::limits::{START_DEFAULT, TIME_ZONE_DEFAULT};
use mintleaf_core::shape::{
    Hidden, HiddenKey, Kind, Order, Period, PeriodLength, Shape, TextFormat, time_zone_name,
};

use crate::replica::{DrawKey, Replica};
use crate::service::error::Error;

/// The shape of a new tag, as it is asked for; a plain tag by default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShapeSpec {
    /// One sequence, or a counter for each key.
    pub kind: Kind,
    /// The order of ids.
    pub order: Order,
    /// How long ids go on before they begin at 1 again; for ever when absent.
    pub period: Option<PeriodLength>,
    /// The IANA name of the time zone that periods begin in; UTC when absent.
    pub time_zone: Option<String>,
    /// The text of an id.
    pub format: Option<String>,
    /// How many digits hidden ids have.
    pub digits: Option<u8>,
}

impl ShapeSpec {
    /// The shape, which a tag with this first id may have. The key is drawn last, and only where one is needed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names what does not go together or is out of bounds; [`Error::Unavailable`] when no
    /// key can be drawn.
    pub(in crate::service) fn shape(&self, start: u64, draw_key: DrawKey) -> Result<Shape, Error> {
        let hidden = |key| move |digits| Hidden { digits, key: HiddenKey(key) };
        let mut shape = Shape {
            kind: self.kind,
            order: self.order,
            period: self.period()?,
            format: self.format()?,
            hidden: self.digits.map(hidden([0; 32])),
        }
        .completed();
        shape.check().map_err(|error| Error::invalid("", error.to_string()))?;
        if start != START_DEFAULT && !shape.takes_start() {
            let why = format!("start must be {START_DEFAULT} with {}", shape.named());
            return Err(Error::invalid("start", why));
        }
        if let Some(hidden) = &mut shape.hidden {
            hidden.key =
                HiddenKey(draw_key().map_err(|error| Error::unavailable(error.to_string()))?);
        }
        Ok(shape)
    }

    fn period(&self) -> Result<Option<Period>, Error> {
        let Some(length) = self.period else {
            let lonely = self.time_zone.is_some();
            let why = "time_zone goes with period only";
            return if lonely { Err(Error::invalid("time_zone", why)) } else { Ok(None) };
        };
        let given = self.time_zone.as_deref().unwrap_or(TIME_ZONE_DEFAULT);
        let time_zone = time_zone_name(given).ok_or_else(|| {
            let why = "time_zone must be a name of the IANA database, such as Asia/Shanghai";
            Error::invalid("time_zone", why)
        })?;
        Ok(Some(Period { length, time_zone }))
    }

    fn format(&self) -> Result<Option<TextFormat>, Error> {
        let format = self.format.as_deref().map(TextFormat::parse).transpose();
        format.map_err(|error| Error::invalid("format", error.to_string()))
    }
}

/// The error of a name that belongs to a tag of another shape than the one asked for.
pub(in crate::service) fn other_shape(replica: &Replica, name: &str, asked: &Shape) -> Error {
    let kept = replica.read(|state| state.shape(name).cloned()).unwrap_or_default();
    let differs = kept.differs_from(asked).unwrap_or("shape");
    Error::Conflict(format!(
        "a deleted tag of this name differs in {differs}, and a name keeps its shape for ever: create it alike, \
         or under another name"
    ))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const KEY: DrawKey = || Ok([7; 32]);

    fn outcome(spec: &ShapeSpec, start: u64) -> String {
        match spec.shape(start, KEY) {
            Ok(shape) => format!("{shape:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_shape_is_completed_and_its_key_drawn_only_where_one_is_needed() {
        let no_key: DrawKey = || Err(io::Error::other("none left"));
        assert!(ShapeSpec::default().shape(9, no_key).unwrap().is_plain());
        let hidden = ShapeSpec { digits: Some(12), ..ShapeSpec::default() };
        assert!(matches!(hidden.shape(1, no_key), Err(Error::Unavailable(_))));
        let key = hidden.shape(1, KEY).unwrap().hidden.unwrap().key;
        assert_eq!(key, HiddenKey([7; 32]));
        let period = Some(PeriodLength::Day);
        let day = ShapeSpec { period, ..ShapeSpec::default() }.shape(1, KEY).unwrap();
        assert_eq!(&*day.period.unwrap().time_zone, "UTC");
        assert_eq!(day.format.unwrap().as_str(), "{period}{id:06}");
    }

    #[test]
    fn a_time_zone_has_the_name_of_the_database_however_it_is_written() {
        let zone = |zone: &str| ShapeSpec {
            period: Some(PeriodLength::Month),
            time_zone: Some(zone.to_owned()),
            ..ShapeSpec::default()
        };
        let shape = zone("asia/KOLKATA").shape(1, KEY).unwrap();
        assert_eq!(&*shape.period.unwrap().time_zone, "Asia/Kolkata");
        for unknown in ["Asia/Atlantis", "", "+08:00"] {
            assert!(outcome(&zone(unknown), 1).contains("time_zone must be"), "{unknown}");
        }
        let lonely = ShapeSpec { period: None, ..zone("UTC") };
        assert_eq!(outcome(&lonely, 1), "time_zone goes with period only");
    }

    #[test]
    fn a_start_is_for_lines_whose_numbers_are_shown() {
        let period = ShapeSpec { period: Some(PeriodLength::Year), ..ShapeSpec::default() };
        assert_eq!(outcome(&period, 2), "start must be 1 with period and format");
        let sequence = ShapeSpec { kind: Kind::Sequence, ..ShapeSpec::default() };
        assert_eq!(outcome(&sequence, 2), "start must be 1 with kind sequence");
        let strict = ShapeSpec { order: Order::Strict, ..ShapeSpec::default() };
        assert!(strict.shape(2, KEY).is_ok());
    }
}
