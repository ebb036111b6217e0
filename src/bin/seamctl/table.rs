//! Tables of at most 100 columns.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Columns of a table at most.
const WIDTH: u16 = 100;

/// Lines of cells under a head.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    lines(&arranged(&head, rows.into_iter().map(Vec::from)))
}

/// The same with numbers in all columns but the first, one below the other.
pub(crate) fn numbers<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = arranged(&head, rows.into_iter().map(Vec::from));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    lines(&table)
}

/// As many cells a line as there are heads; columns of numbers are aligned as such.
pub(crate) fn grid(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let numeric = |at: usize| rows.iter().filter_map(|row| row.get(at)).all(|cell| cell.parse::<f64>().is_ok());
    let numeric: Vec<bool> = (0..heads.len()).map(numeric).collect();
    let mut table = arranged(heads, rows);
    for (column, numeric) in table.column_iter_mut().zip(numeric) {
        if numeric {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

fn arranged(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(heads);
    for row in rows {
        table.add_row(row);
    }
    table
}

/// Names and values, one a line.
pub(crate) fn pairs(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    lines(&table)
}

/// Text in lines of at most as many columns as a table has.
pub(crate) fn paragraph(text: &str) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.add_row([text]);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 0));
    });
    lines(&table)
}

fn lines(table: &Table) -> String {
    let text = table.to_string();
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// A value, or a dash where there is none.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// How many of what.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A number of bytes in the unit that fits: `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = "B";
    for next in UNITS {
        unit = next;
        if value < 1024.0 {
            break;
        }
        if next != "PiB" {
            value /= 1024.0;
        }
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

/// A span of time in words, to the second.
pub(crate) fn span(ms: u64) -> String {
    humantime::format_duration(std::time::Duration::from_secs(ms / 1000)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(3 << 50), "3.0 PiB");
        assert_eq!(bytes(3 << 60), "3072.0 PiB");
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let long = "x".repeat(70);
        let text = table(["a", "b"], [[long.clone(), long]]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
