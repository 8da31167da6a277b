//! A table as aligned Markdown, which reads as well in a terminal.

/// Rows of cells; the first is the heading. The first `words` columns are text, the others numbers.
pub fn write(rows: &[Vec<String>], words: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| width(row.get(column))).max().unwrap_or(0).max(3))
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, width_max) in widths.iter().enumerate() {
            let cell = row.get(column).map_or("", String::as_str);
            let padding = " ".repeat(width_max - width(Some(&cell.to_owned())));
            let (left, right) = if column < words { ("", padding.as_str()) } else { (padding.as_str(), "") };
            text.push_str(&format!("| {left}{cell}{right} "));
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width_max) in widths.iter().enumerate() {
                let line = "-".repeat(width_max + 1);
                text.push_str(&if column < words { format!("|{line}-") } else { format!("|{line}:") });
            }
            text.push_str("|\n");
        }
    }
    text
}

fn width(cell: Option<&String>) -> usize {
    cell.map_or(0, |cell| cell.chars().count())
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn columns_are_aligned() {
        let rows = [["target", "CPU µs"], ["weir", "11.20"], ["haproxy", "3"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let expected = "\
| target  | CPU µs |
|---------|-------:|
| weir    |  11.20 |
| haproxy |      3 |
";
        assert_eq!(write(&rows, 1), expected);
    }
}
