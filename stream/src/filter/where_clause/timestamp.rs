//! The text of a `TIMESTAMP '…'` literal.

/// What is accepted, for messages.
pub(super) const FORM: &str = "2023-11-14 22:13:20[.123] in UTC";

/// Milliseconds since the epoch of `YYYY-MM-DD HH:MM:SS[.fff]`, in UTC, with a `T` in the middle and a `Z` at the end if one likes.
/// `None`: not of that form, no such date or time, or finer than a millisecond.
pub(super) fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (year, rest) = date.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (hour, rest) = time.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = rest.split_once('.').map_or((rest, None), |(second, fraction)| (second, Some(fraction)));
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = ((days_since_epoch(year, month, day)? * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1000 + fraction.map_or(Some(0), milliseconds)?)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// `.5` is 500 ms; further digits than three must be zeros.
fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = fraction.trim_end_matches('0');
    (significant.len() <= 3).then(|| format!("{significant:0<3}").parse().ok())?
}

/// Days from 1970-01-01 in the Gregorian calendar, also before it was in use.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in = |month: i64| match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=days_in(month)).contains(&day) {
        return None;
    }
    // Leap days before the year, counted from year 0, which is one.
    let leap_days = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    Some(years + (1..month).map(days_in).sum::<i64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, expected) in [
            ("1970-01-01 00:00:00", Some(0)),
            ("2023-11-14 22:13:20", Some(1_700_000_000_000)),
            ("2023-11-14T22:13:20.123Z", Some(1_700_000_000_123)),
            ("2023-11-14 22:13:20.5", Some(1_700_000_000_500)),
            ("2023-11-14 22:13:20.123000", Some(1_700_000_000_123)),
            (" 2000-02-29 00:00:00 ", Some(951_782_400_000)),
            ("1969-12-31 23:59:59.999", Some(-1)),
            ("9999-12-31 23:59:59.999", Some(253_402_300_799_999)),
            ("0000-01-01 00:00:00", Some(-62_167_219_200_000)),
            ("2023-11-14 22:13:20.1234", None),
            ("2023-11-14 22:13:20.", None),
            ("2023-11-14", None),
            ("2023-11-14 22:13", None),
            ("2023-11-14 24:00:00", None),
            ("2023-11-14 22:60:00", None),
            ("2023-11-14 22:13:60", None),
            ("2023-02-29 00:00:00", None),
            ("1900-02-29 00:00:00", None),
            ("2023-13-01 00:00:00", None),
            ("2023-00-01 00:00:00", None),
            ("2023-01-00 00:00:00", None),
            ("2023-1-1 00:00:00", None),
            ("+023-01-01 00:00:00", None),
            ("2023-11-14 22:13:20+01:00", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
