//! Numbers and times as Java writes them.

/// A number as Java's `Double.toString` writes it: at least one digit after the point, and an exponent from ten million on or below a
/// thousandth. (Java before 19 now and then writes a digit more than needed.)
pub(super) fn java_double(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{value:?}");
    }
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// A rate with one digit after the point, halves up, as Spark's progress shows it. `None` if it is not a number.
pub(super) fn one_decimal(rate: f64) -> Option<f64> {
    if !rate.is_finite() {
        return None;
    }
    // By the digits that are shown and not by the binary number: 0.25 and 0.35 both go up.
    let text = rate.abs().to_string();
    let Some((whole, fraction)) = text.split_once('.') else { return Some(rate) };
    let mut fraction = fraction.bytes().map(|digit| digit - b'0').chain([0]);
    let (first, second) = (fraction.next()?, fraction.next()?);
    // A number with a fraction is far below 2^64.
    let tenths = whole.parse::<u64>().ok()? * 10 + u64::from(first) + u64::from(second >= 5);
    Some((tenths as f64 / 10.0).copysign(rate))
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Milliseconds since the epoch as `2026-11-29T22:45:15.860Z`.
pub(super) fn timestamp(timestamp_ms: i64) -> String {
    let (days, ms) = (timestamp_ms.div_euclid(DAY_MS), timestamp_ms.rem_euclid(DAY_MS));
    // The calendar repeats after 400 years.
    let (mut year, mut day) = (1970 + 400 * days.div_euclid(146_097), days.rem_euclid(146_097));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of = |year| if is_leap(year) { 366 } else { 365 };
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_as_java_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (45.0, "45.0"),
            (1.0 / 3.0, "0.3333333333333333"),
            (502.0 / 3.0, "167.33333333333334"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (-12_345_678.9, "-1.23456789E7"),
            (9.007_199_254_740_993e15, "9.007199254740992E15"),
            (i64::MAX as f64, "9.223372036854776E18"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }

    #[test]
    fn rates_have_one_digit_after_the_point() {
        for (rate, rounded) in [
            (0.0, 0.0),
            // Goldens a01 and i01.
            (127.0 / 22.255, 5.7),
            (5.0 / 1.346, 3.7),
            (0.25, 0.3),
            (0.35, 0.4),
            (0.05, 0.1),
            (0.049_999_999, 0.0),
            (9.95, 10.0),
            (3e-9, 0.0),
            (120.0, 120.0),
            (12_345_678.25, 12_345_678.3),
            (1e22, 1e22),
            (-1.25, -1.3),
        ] {
            assert_eq!(one_decimal(rate), Some(rounded), "{rate}");
        }
        assert_eq!((one_decimal(f64::NAN), one_decimal(f64::INFINITY)), (None, None));
        assert_eq!(one_decimal(900_000_000_000_000.5), Some(900_000_000_000_000.5));
    }

    #[test]
    fn timestamps_are_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_700_000_000_000, "2023-11-14T22:13:20.000Z"),
            // Golden a01.
            (1_795_992_315_860, "2026-11-29T22:45:15.860Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (i64::MAX, "292278994-08-17T07:12:55.807Z"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }
}
