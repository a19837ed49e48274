//! Strict query strings: each parameter once, by its name, within its bounds.
//!
//! A misspelt or repeated parameter is an error rather than a silent default, so that
//! `?cuont=500` does not hand out one id.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use super::decimal;
use super::problem::Problem;
use crate::limits::PARAMETERS_MAX;
use crate::text::path_segment::unescape;

/// The parameters of one request that are not read yet.
#[derive(Debug)]
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Splits a raw query string.
    ///
    /// # Errors
    /// `invalid_argument` naming a parameter that is malformed or given twice.
    pub(super) fn parse(raw: Option<&'a str>) -> Result<Self, Problem> {
        let mut seen = Vec::<(Cow<'a, str>, Cow<'a, str>)>::new();
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let malformed =
                || Problem::invalid(name, "has %-escapes that are malformed or not UTF-8");
            let name = form_unescape(name).ok_or_else(malformed)?;
            let value = form_unescape(value).ok_or_else(malformed)?;
            if seen.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::invalid(&name, "is given more than once"));
            }
            if seen.len() == PARAMETERS_MAX {
                return Err(Problem::invalid(&name, "is one parameter too many"));
            }
            seen.push((name, value));
        }
        Ok(Self(seen))
    }

    /// The value of `name`, if it was given.
    pub(super) fn text(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let at = self.0.iter().position(|(given, _)| given == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// The integer `name`, if it was given.
    ///
    /// # Errors
    /// `invalid_argument` when it is not a plain decimal integer within `bounds`.
    pub(super) fn integer<T: TryFrom<u64> + PartialOrd + Display>(
        &mut self,
        name: &str,
        bounds: RangeInclusive<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match within(decimal::parse(&text), &bounds) {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::invalid(name, out_of_bounds(&bounds))),
        }
    }

    /// The choice `name` among `choices`, if it was given.
    ///
    /// # Errors
    /// `invalid_argument` when it is another text.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &str,
        choices: [(&str, T); 2],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match choices.iter().find(|(choice, _)| *choice == text) {
            Some(&(_, value)) => Ok(Some(value)),
            None => {
                let [(first, _), (second, _)] = choices;
                Err(Problem::invalid(name, format_args!("must be {first} or {second}")))
            }
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `invalid_argument` naming a parameter that was not read.
    pub(super) fn finish(self) -> Result<(), Problem> {
        match self.0.first() {
            Some((name, _)) => Err(Problem::invalid(name, "is not a parameter of this path")),
            None => Ok(()),
        }
    }
}

/// The number, if there is one and it is within these bounds.
pub(super) fn within<T: TryFrom<u64> + PartialOrd>(
    number: Option<u64>,
    bounds: &RangeInclusive<T>,
) -> Option<T> {
    T::try_from(number?).ok().filter(|number| bounds.contains(number))
}

/// The words for a number that is out of bounds, in queries and in bodies.
pub(super) fn out_of_bounds<T: Display>(bounds: &RangeInclusive<T>) -> impl Display {
    fmt::from_fn(move |out| {
        write!(out, "must be an integer from {} to {}", bounds.start(), bounds.end())
    })
}

/// Undoes the escapes of a query, where a plus sign is a space, unlike in a path.
pub(super) fn form_unescape(raw: &str) -> Option<Cow<'_, str>> {
    if raw.contains('+') {
        let spaced = raw.replace('+', " ");
        return unescape(&spaced).map(|text| Cow::Owned(text.into_owned()));
    }
    unescape(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(raw: &str) -> Result<Option<u64>, Problem> {
        let mut query = Query::parse(Some(raw))?;
        let count = query.integer("count", 1..=10_000)?;
        query.finish()?;
        Ok(count)
    }

    #[test]
    fn integers_within_bounds_are_read() {
        assert_eq!(count("count=1").unwrap(), Some(1));
        assert_eq!(count("count=10000").unwrap(), Some(10_000));
        assert_eq!(count("count=%35").unwrap(), Some(5));
        assert_eq!(count("").unwrap(), None);
        assert_eq!(count("&").unwrap(), None);
    }

    #[test]
    fn anything_but_plain_digits_within_bounds_is_refused() {
        let padded = format!("{}1", "0".repeat(20));
        for value in [
            "0",
            "10001",
            "+5",
            "-5",
            "1e3",
            "5.0",
            "",
            " 5",
            "0x5",
            "٥",
            "99999999999999999999",
            &padded,
        ] {
            let refused = count(&format!("count={value}")).unwrap_err();
            let expected = Problem::invalid("count", "must be an integer from 1 to 10000");
            assert_eq!(refused, expected, "{value}");
        }
        assert!(count("count").is_err());
    }

    #[test]
    fn unknown_and_repeated_parameters_are_named() {
        assert_eq!(
            count("cuont=5").unwrap_err(),
            Problem::invalid("cuont", "is not a parameter of this path")
        );
        assert_eq!(
            count("count=5&count=5").unwrap_err(),
            Problem::invalid("count", "is given more than once")
        );
        assert!(count("count=5&x=%zz").is_err());
        let many = (0..100).map(|n| format!("p{n}=1&")).collect::<String>();
        assert!(count(&many).is_err());
    }

    #[test]
    fn text_is_unescaped_as_a_form() {
        let mut query = Query::parse(Some("after=a+b%2Bc")).unwrap();
        assert_eq!(query.text("after").as_deref(), Some("a b+c"));
    }
}
