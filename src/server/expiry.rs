//! What the log says about the end of a certificate.

/// How long before a certificate's end the warnings begin.
const EXPIRY_WARNING_S: u64 = 30 * 24 * 3600;
/// The log warns of a certificate that is about to expire once in this many looks: four times a day.
const LOOKS_PER_WARNING: u32 = 6 * 3600 / 5;
/// A certificate that has expired is an error once in this many looks: once a minute.
const LOOKS_PER_ERROR: u32 = 60 / 5;

/// What the log says about the end of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The certificate ends after this many whole days.
    Near { days: u64 },
    /// The certificate has ended.
    Expired,
}

impl Expiry {
    /// What the log says at look number `look` about a certificate that is valid for `left_s` more seconds.
    pub(super) fn to_report(left_s: u64, look: u32) -> Option<Self> {
        if left_s == 0 {
            return look.is_multiple_of(LOOKS_PER_ERROR).then_some(Self::Expired);
        }
        let is_near = left_s < EXPIRY_WARNING_S && look.is_multiple_of(LOOKS_PER_WARNING);
        is_near.then_some(Self::Near { days: left_s / (24 * 3600) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::followed_files::LOOK_INTERVAL;
    use super::*;

    #[test]
    fn an_expired_certificate_is_an_error_each_minute_and_one_near_its_end_a_warning_each_six_hours()
     {
        let reports = |left_s| {
            let day = 0..24 * 3600 / LOOK_INTERVAL.as_secs() as u32;
            day.filter_map(|look| Expiry::to_report(left_s, look)).collect::<Vec<_>>()
        };
        let expired = reports(0);
        assert_eq!(expired.len(), 24 * 60);
        assert!(expired.iter().all(|report| *report == Expiry::Expired));
        let near = reports(EXPIRY_WARNING_S - 1);
        assert_eq!(near.len(), 4);
        assert!(near.iter().all(|report| *report == Expiry::Near { days: 29 }));
        assert_eq!(reports(1)[0], Expiry::Near { days: 0 });
        assert_eq!(reports(EXPIRY_WARNING_S), []);
    }
}
