//! Reading the values of options, with Spark's texts for what can't be read.

use super::OptionError;

/// A whole number, as Java's `Long.parseLong` reads it.
pub(super) fn long(name: &str, value: &str) -> Result<i64, OptionError> {
    let no_number = || format!("For input string: \"{value}\": option '{name}' must be a whole number");
    value.parse().map_err(|_| OptionError::new(no_number()))
}

/// A whole number above 0.
pub(super) fn positive(name: &str, value: &str) -> Result<i64, OptionError> {
    match long(name, value)? {
        number @ 1.. => Ok(number),
        number => Err(OptionError::new(format!("{name} must be positive, got {number}"))),
    }
}

/// A whole number above 0 that is an `int` in Spark.
pub(super) fn positive_int(name: &str, value: &str) -> Result<i64, OptionError> {
    let number = positive(name, value)?;
    match i32::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err(OptionError::new(format!(
            "For input string: \"{value}\": option '{name}' must be at most {}",
            i32::MAX
        ))),
    }
}

/// `true` or `false`, in any case.
pub(super) fn boolean(name: &str, value: &str) -> Result<bool, OptionError> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(OptionError::new(format!("option '{name}' can't be '{value}': it must be true or false"))),
    }
}

/// A span of time as Spark writes it: a number of milliseconds, or a number and a unit (`us ms s m min h d`).
pub(crate) fn duration(name: &str, value: &str) -> Result<std::time::Duration, OptionError> {
    let unit_at = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(unit_at);
    let micros_per_unit = match unit.trim().to_ascii_lowercase().as_str() {
        "us" => Some(1),
        "" | "ms" => Some(1_000),
        "s" => Some(1_000_000),
        "m" | "min" => Some(60_000_000),
        "h" => Some(3_600_000_000),
        "d" => Some(86_400_000_000_u64),
        _ => None,
    };
    let micros =
        number.parse::<u64>().ok().zip(micros_per_unit).and_then(|(number, micros)| number.checked_mul(micros));
    micros.map(std::time::Duration::from_micros).ok_or_else(|| {
        OptionError::new(format!(
            "option '{name}' can't be '{value}': it must be a time such as 30s, 5m or a number of milliseconds"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_with_and_without_units() {
        let time = |text| duration("maxTriggerDelay", text).map_err(|error| error.to_string());
        assert_eq!(time("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(time("250"), Ok(Duration::from_millis(250)));
        assert_eq!(time("1 h"), Ok(Duration::from_secs(3600)));
        for bad in ["15x", "", "m", "-1s", "1.5s", "99999999999999999999"] {
            assert!(time(bad).unwrap_err().contains(&format!("'{bad}'")), "{bad}");
        }
    }
}
