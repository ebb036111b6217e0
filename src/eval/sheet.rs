//! A table once, written as CSV, as Markdown, or with the heads that a terminal shows.

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// The name of its files.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What was done, and how to read it.
    pub about: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with a cell for every column.
    pub rows: Vec<Vec<String>>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name in CSV, the unit last.
    pub key: &'static str,
    /// Its head where people read it; such tables leave it out if it has none.
    pub head: Option<&'static str>,
}

impl Column {
    /// A column that is written everywhere.
    #[must_use]
    pub fn new(key: &'static str, head: &'static str) -> Self {
        Self { key, head: Some(head) }
    }

    /// A column that only CSV has.
    #[must_use]
    pub fn csv(key: &'static str) -> Self {
        Self { key, head: None }
    }
}

impl Sheet {
    /// The table as CSV.
    ///
    /// # Errors
    /// Those of writing.
    pub fn to_csv(&self) -> std::io::Result<String> {
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(self.columns.iter().map(|column| column.key))?;
        for row in &self.rows {
            table.write_record(row)?;
        }
        let bytes = table.into_inner().map_err(|error| error.into_error())?;
        String::from_utf8(bytes).map_err(std::io::Error::other)
    }

    /// The heads that people read.
    pub fn heads(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().filter_map(|column| column.head)
    }

    /// The cells below [`Sheet::heads`].
    pub fn cells(&self) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(|row| {
            let read = row.iter().zip(&self.columns).filter(|(_, column)| column.head.is_some());
            read.map(|(cell, _)| cell.clone()).collect()
        })
    }

    /// The table as Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let heads: Vec<String> = self.heads().map(str::to_owned).collect();
        let rule = heads.iter().map(|_| "---".to_owned()).collect();
        let head = line(heads) + &line(rule);
        self.cells().fold(head, |text, row| text + &line(row))
    }
}

/// A share in percent with one decimal, as cells have it; empty where there is none.
pub(super) fn pct(share: Option<f64>) -> String {
    share.map(|share| format!("{share:.1}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_has_a_head_and_csv_has_everything() {
        let sheet = Sheet {
            name: "x",
            title: "",
            about: "",
            columns: vec![Column::new("policy", "policy"), Column::csv("trials"), Column::new("share_pct", "share %")],
            rows: vec![vec!["seam, always".to_owned(), "90".to_owned(), "95.5".to_owned()]],
        };
        assert_eq!(sheet.to_csv().unwrap(), "policy,trials,share_pct\n\"seam, always\",90,95.5\n");
        assert_eq!(sheet.to_markdown(), "| policy | share % |\n| --- | --- |\n| seam, always | 95.5 |\n");
    }
}
