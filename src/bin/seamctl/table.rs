//! Tables of at most 100 columns.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use seam::model::{Outcome, PathState, Reason};
use seam::policy::select::Skipped;

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
    let mut codes: Vec<usize> = heads.iter().map(|head| longest_code(head)).collect();
    let mut cells: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    for row in rows {
        codes.iter_mut().zip(&row).for_each(|(most, cell)| *most = longest_code(cell).max(*most));
        cells.extend(row.iter().filter(|cell| longest_code(cell) > 0).cloned());
        table.add_row(row);
    }
    if splits_a_code(&table.to_string(), &cells) {
        for (column, code) in table.column_iter_mut().zip(codes).filter(|(_, code)| *code > 0) {
            // No code is as long as a table is wide.
            let width = u16::try_from(code).unwrap_or(WIDTH).saturating_add(column.padding_width());
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
    }
    table
}

/// Whether `text` has fewer codes in one piece than the cells that it was made from.
fn splits_a_code(text: &str, cells: &[String]) -> bool {
    let count = |text: &str| words(text).filter(|word| is_code(word)).count();
    count(text) < cells.iter().map(|cell| count(cell)).sum()
}

/// The length of the longest code in `text`: people look for codes, so they stay in one piece.
fn longest_code(text: &str) -> usize {
    words(text).filter(|word| is_code(word)).map(str::len).max().unwrap_or_default()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

fn is_code(word: &str) -> bool {
    Reason::ALL.iter().any(|code| code.as_str() == word)
        || Outcome::ALL.iter().any(|code| code.as_str() == word)
        || PathState::ALL.iter().any(|code| code.as_str() == word)
        || Skipped::ALL.iter().any(|code| code.as_str() == word)
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

/// Text in lines of at most as many columns as a table has, less those that it is to be indented by.
pub(crate) fn paragraph(text: &str, indent: usize) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH - indent as u16);
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
    fn a_code_stays_in_one_piece_however_crowded_its_line() {
        let long = "x".repeat(50);
        for code in Reason::ALL.iter().map(|reason| reason.as_str()).chain(Skipped::ALL.iter().map(|one| one.as_str()))
        {
            let text = table(["pool", "verdict", "note"], [[long.clone(), format!("refused, {code}"), long.clone()]]);
            assert!(text.contains(code), "{code}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
        let heads = ["class", "admitted_despite_degradation", "rerouted_to_alternate"];
        let text = grid(&heads, [vec![long, "1".to_owned(), "2".to_owned()]]);
        assert!(heads.iter().all(|head| text.contains(head)), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let long = "x".repeat(70);
        let text = table(["a", "b"], [[long.clone(), long]]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
