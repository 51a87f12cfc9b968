//! Tables for people, sized by the width of characters, not by their bytes.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// Most characters of one cell: a result may hold megabytes in one cell.
const CELL_CHARS_MAX: usize = 2_000;

/// Some terminals say that they are narrower than any, or have no width at all. A table for them would have columns of one letter.
const TERMINAL_COLUMNS_MIN: u16 = 20;

/// Draws rows under a header.
pub(super) fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_some_and(|columns| columns < TERMINAL_COLUMNS_MIN) {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table.set_header(header.iter().map(|cell| clean(cell)));
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)));
    }
    table.to_string()
}

/// A JSON value as a cell: texts without quotes, the rest as JSON.
pub(super) fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Without control characters: a text of the graph must not control the reader's terminal.
pub(super) fn clean(text: &str) -> String {
    let visible =
        text.chars().take(CELL_CHARS_MAX).map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c });
    let mut cleaned: String = visible.collect();
    if text.chars().nth(CELL_CHARS_MAX).is_some() {
        cleaned.push('…');
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_keep_the_columns_straight_and_escapes_are_shown_not_obeyed() {
        let drawn =
            render(&["name", "n"], [vec!["京都".into(), "1".into()], vec!["\u{1b}[2J".into(), "2".into()]]);
        assert_eq!(
            drawn,
            "┌──────┬───┐\n│ name ┆ n │\n╞══════╪═══╡\n│ 京都 ┆ 1 │\n│ \u{fffd}[2J ┆ 2 │\n└──────┴───┘"
        );
    }
}
