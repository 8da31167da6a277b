//! What tables count, for the reference.

use std::fmt::Write as _;

use weir_traffic::table::TableCounter;

/// The section about tables of counters.
pub(super) fn push_tables(page: &mut String) {
    page.push_str(
        "\n## Tables\n\n`[table.NAME]` counts what each client, user, path or other key does; lists, limits, routes, header rules and the access log ask for the \
         counts. [Tables of counters](tables.md) has examples, and what counts when.\n\n\
         ```toml\n\
         [table.clients]\n\
         store = [\"http_req_rate(10s)\", \"http_err_rate(1m)\", \"gpc0\"]\n\
         increment.gpc0 = 'path == \"/login\" && status == 401'\n\n\
         [list.abusers]\n\
         action = \"deny\"\n\
         when = \"table.clients.http_req_rate > 100 || table.clients.gpc0 >= 5\"\n\n\
         [listener.web]\n\
         track = \"clients\"\n\
         lists = \"abusers\"\n\
         ```\n\n\
         | what is counted | counter |\n|---|---|\n",
    );
    for counter in TableCounter::ALL {
        let name = match counter.is_rate() {
            true => format!("{}(PERIOD)", counter.name()),
            false => counter.name().to_owned(),
        };
        let _infallible = writeln!(page, "| {} | `{name}` |", counter.meaning().trim_end_matches('.'));
    }
    page.push_str(
        "\n`PERIOD` is 10ms to 24h: `10s`, `1m`. In conditions and placeholders a rate is named without it: `table.clients.http_req_rate`.\n",
    );
}
