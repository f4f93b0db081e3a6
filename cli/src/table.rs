//! Tables for people: columns as wide as their widest cell, numbers to the right.

/// Formats `rows` under `header`. A column whose cells are all numbers or `-` is set to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let columns: Vec<(usize, bool)> = header
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let width = rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
            let numbers = rows.iter().all(|row| {
                let cell = cell(row, column);
                cell == "-" || cell.parse::<i64>().is_ok()
            });
            (width.max(name.len()), numbers && !rows.is_empty())
        })
        .collect();
    let mut out = String::new();
    let names: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&names).chain(rows) {
        let mut line = String::new();
        for (column, (width, numbers)) in columns.iter().enumerate() {
            let text = cell(row, column);
            if *numbers {
                line.push_str(&format!("{text:>width$}  "));
            } else {
                line.push_str(&format!("{text:<width$}  "));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// So many of a thing: `1 range`, `2,000 ranges`, `3 batches`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = match number {
        1 => "",
        _ if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {thing}{plural}", grouped(number))
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = [
            vec!["g".to_owned(), "5".to_owned()],
            vec!["long".to_owned(), "-".to_owned()],
            vec!["x".to_owned(), "1000".to_owned()],
        ];
        assert_eq!(table(&["GROUP", "LAG"], &rows), "GROUP   LAG\ng         5\nlong      -\nx      1000\n");
        assert_eq!(table(&["A"], &[]), "A\n");
    }

    #[test]
    fn thousands() {
        assert_eq!(
            [counted(1, "batch"), counted(2_000, "batch"), counted(0, "range")],
            ["1 batch", "2,000 batches", "0 ranges"]
        );
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1_234_567].map(grouped).each_ref().map(String::as_str)
        );
    }
}
