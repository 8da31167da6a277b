//! The screen of `weir top`: a line about the whole, the rows, the keys. Draws into any terminal, also one that exists in a test only.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table};
use serde_json::Value;

use super::RowOrder;
use super::table::{TopRow, plain, rows};

const KEYS: &str = "r requests  p P99  w waiting  f failures  n name  u fold  arrows scroll  q quit";

/// The state of the screen.
pub(super) struct TopScreen {
    overview: Value,
    order: RowOrder,
    with_servers: bool,
    /// Rows that are scrolled away at the top.
    above: usize,
    /// Why the figures are old.
    trouble: Option<String>,
}

impl TopScreen {
    pub(super) fn new(overview: Value, order: RowOrder) -> TopScreen {
        TopScreen { overview, order, with_servers: true, above: 0, trouble: None }
    }

    /// Takes what another look came to.
    pub(super) fn take(&mut self, look: Result<Value, String>) {
        match look {
            Ok(overview) => (self.overview, self.trouble) = (overview, None),
            Err(why) => self.trouble = Some(plain(&why)),
        }
    }

    pub(super) fn sort(&mut self, order: RowOrder) {
        self.order = order;
    }

    /// Folds the servers away, or shows them again.
    pub(super) fn fold(&mut self) {
        self.with_servers = !self.with_servers;
    }

    pub(super) fn scroll(&mut self, rows: i32) {
        self.above = self.above.saturating_add_signed(rows as isize);
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts = Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)]);
        let [head, middle, foot] = parts.areas(frame.area());
        let first = match &self.trouble {
            Some(why) => Line::styled(format!("as of a while ago: {why}"), Style::new().fg(Color::Red)),
            None => Line::raw(self.whole()),
        };
        let tcp =
            if self.has_tcp() { "; TCP: connections/s, bytes/s from (<) and to (>) servers" } else { "" };
        let second = format!("sorted by {}{}{tcp}", self.order.name(), self.part());
        frame.render_widget(Paragraph::new(vec![first, Line::raw(second).style(Modifier::DIM)]), head);
        let rows = rows(&self.overview, self.order, self.with_servers);
        let room = usize::from(middle.height.saturating_sub(1));
        self.above = self.above.min(rows.len().saturating_sub(room));
        let shown = rows.iter().skip(self.above).take(room).map(cells);
        let widths = [Constraint::Min(16), Constraint::Length(11)];
        let widths = widths.into_iter().chain([8, 8, 8, 6, 6, 7].map(Constraint::Length));
        let heads = ["", "STATE", "REQ/S", "P50", "P99", "RUN", "WAIT", "FAIL/S"];
        let header =
            Cells::new(heads.into_iter().enumerate().map(|(column, text)| aligned(column, text.to_owned())));
        let table = Table::new(shown, widths).header(header.style(Modifier::REVERSED));
        frame.render_widget(table, middle);
        frame.render_widget(Paragraph::new(KEYS).style(Modifier::DIM), foot);
    }

    fn has_tcp(&self) -> bool {
        let upstreams = self.overview["upstreams"].as_array();
        upstreams.is_some_and(|all| all.iter().any(|upstream| upstream["protocol"] == "tcp"))
    }

    /// Which part is shown, when it is not all.
    fn part(&self) -> String {
        let of = |name: &str| self.overview["page"][name].as_u64().unwrap_or(1);
        let is_all = of("number") >= of("pages");
        let servers = of("servers");
        if is_all {
            String::new()
        } else {
            format!("; the first {} pages of {servers} servers", of("number"))
        }
    }

    /// One line about all of it.
    fn whole(&self) -> String {
        let process = &self.overview["process"];
        let listeners = self.overview["listeners"].as_array().cloned().unwrap_or_default();
        let rate =
            |name: &str| listeners.iter().filter_map(|one| one["rates"][name]["now"].as_f64()).sum::<f64>();
        let millis = |name: &str| process[name].as_u64().unwrap_or(0);
        let up_seconds = millis("at_ms").saturating_sub(millis("started_ms")) / 1000;
        format!(
            "{}{}  up {}  {} requests/s  {} failed/s  {} connections",
            plain(process["name"].as_str().unwrap_or("weir")),
            match process["state"].as_str() {
                None | Some("serving") => String::new(),
                Some(state) => format!(" ({state})"),
            },
            lasting(up_seconds),
            number(rate("requests")),
            number(rate("failures")),
            process["connections_open"]["now"].as_u64().unwrap_or(0),
        )
    }
}

fn cells(row: &TopRow) -> Cells<'static> {
    let name = if row.is_upstream { row.name.clone() } else { format!("  {}", row.name) };
    let waiting = if row.is_upstream { row.waiting.to_string() } else { String::new() };
    let texts = [
        name,
        row.state.clone(),
        number(row.requests),
        row.bytes.map_or_else(|| micros(row.p50_us), |(from, _)| bytes("<", from)),
        row.bytes.map_or_else(|| micros(row.p99_us), |(_, to)| bytes(">", to)),
        row.running.to_string(),
        waiting,
        number(row.failures),
    ];
    let mut style = Style::new();
    if row.is_upstream {
        style = style.add_modifier(Modifier::BOLD);
    }
    if row.is_bad {
        style = style.fg(Color::Red);
    }
    Cells::new(texts.into_iter().enumerate().map(|(column, text)| aligned(column, text))).style(style)
}

/// Words to the left, numbers to the right.
fn aligned(column: usize, text: String) -> Cell<'static> {
    let line = Line::raw(text);
    Cell::new(if column < 2 { line } else { line.right_aligned() })
}

fn number(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Bytes by second, behind the sign for their direction.
fn bytes(sign: &str, value: f64) -> String {
    let fits = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(unit, _)| value >= *unit);
    match fits {
        Some((unit, name)) => format!("{sign}{}{name}", number(value / unit)),
        None => format!("{sign}{value:.0}B"),
    }
}

fn micros(value: Option<u64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(micros @ ..1_000) => format!("{micros}us"),
        Some(micros @ 1_000..1_000_000) => format!("{}ms", number(micros as f64 / 1e3)),
        Some(micros) => format!("{}s", number(micros as f64 / 1e6)),
    }
}

/// The largest unit that fits twice.
fn lasting(seconds: u64) -> String {
    let fits = [(86_400, "d"), (3_600, "h"), (60, "min")].into_iter().find(|(unit, _)| seconds >= 2 * unit);
    fits.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}
