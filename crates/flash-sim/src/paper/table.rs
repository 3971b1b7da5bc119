//! A table, for people as Markdown and for programs as CSV and JSON.

use serde_json::{Map, Value};

/// Rows of text under named columns.
#[derive(Debug)]
pub(super) struct Table {
    pub name: &'static str,
    pub title: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// How it was made.
    made: String,
}

impl Table {
    pub(super) fn new(
        name: &'static str,
        title: &'static str,
        columns: &'static [&'static str],
        made: String,
    ) -> Table {
        Table { name, title, columns, rows: Vec::new(), made }
    }

    pub(super) fn row(&mut self, fields: impl IntoIterator<Item = String>) {
        let row: Vec<String> = fields.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "{}: a field for each column", self.name);
        self.rows.push(row);
    }

    pub(super) fn markdown(&self) -> String {
        let line = |fields: &mut dyn Iterator<Item = String>| {
            let fields: Vec<String> = fields.map(|field| field.replace('|', "\\|")).collect();
            format!("| {} |\n", fields.join(" | "))
        };
        let mut text = format!("{}\n\n", self.title);
        text += &line(&mut self.columns.iter().map(|column| column.to_string()));
        text += &line(&mut self.columns.iter().map(|_| "---".to_owned()));
        for row in &self.rows {
            text += &line(&mut row.iter().cloned());
        }
        format!("{text}\n{}\n", self.made)
    }

    /// RFC 4180.
    pub(super) fn csv(&self) -> String {
        let field = |text: &str| match text.contains(['"', ',', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let head = self.columns.join(",");
        let rows =
            self.rows.iter().map(|row| row.iter().map(|text| field(text)).collect::<Vec<_>>().join(","));
        std::iter::once(head).chain(rows).map(|line| line + "\n").collect()
    }

    /// An object for each row. What is a number becomes one.
    pub(super) fn json(&self) -> String {
        let value = |text: &String| match text.parse::<f64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(text.as_str()),
        };
        let object = |row: &Vec<String>| -> Value {
            let fields = self.columns.iter().zip(row);
            Value::Object(
                fields.map(|(column, text)| (column.to_string(), value(text))).collect::<Map<_, _>>(),
            )
        };
        let rows: Vec<Value> = self.rows.iter().map(object).collect();
        let whole = serde_json::json!({ "title": self.title, "made": self.made, "rows": rows });
        serde_json::to_string_pretty(&whole).expect("it is JSON already") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_of_one_table() {
        let mut table = Table::new("t", "A table", &["name", "how many"], "Made so.".to_owned());
        table.row(["a|b, \"c\"".to_owned(), "4.5".to_owned()]);
        assert_eq!(
            table.markdown(),
            "A table\n\n| name | how many |\n| --- | --- |\n| a\\|b, \"c\" | 4.5 |\n\nMade so.\n"
        );
        assert_eq!(table.csv(), "name,how many\n\"a|b, \"\"c\"\"\",4.5\n");
        let json: Value = serde_json::from_str(&table.json()).unwrap();
        assert_eq!(json["made"], "Made so.");
        assert_eq!(json["rows"][0]["how many"], 4.5);
        assert_eq!(json["rows"][0]["name"], "a|b, \"c\"");
    }
}
