//! Sizes of memory, as people write them.

/// Units, the larger of two with one ending first.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// Reads `256MiB`, `1GiB`, `64KiB` or a number of bytes; `None` for anything else.
pub(super) fn parse(text: &str) -> Option<usize> {
    let (number, unit) =
        UNITS.iter().find_map(|(name, bytes)| Some((text.strip_suffix(name)?, *bytes)))?;
    let number = number.trim_end_matches(' ');
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<usize>().ok().filter(|_| is_number)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_read_with_their_units() {
        let read = ["256MiB", "1 GiB", "64KiB", "65536"].map(parse);
        assert_eq!(read, [Some(256 << 20), Some(1 << 30), Some(65_536), Some(65_536)]);
        for wrong in
            ["", "MiB", "+5MiB", "-1", "1.5GiB", "5MB", "5 mib", "99999999999999999999", "x"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse("18446744073709551615GiB"), None);
    }
}
