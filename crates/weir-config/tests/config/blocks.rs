//! Keys under a name that several tables use.

use weir_config::CheckedConfig;

fn parse(text: &str) -> CheckedConfig {
    CheckedConfig::parse(text, "weir.toml")
}

/// The printed config of a text without mistakes.
fn printed(text: &str) -> String {
    let checked = parse(text);
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    checked.print()
}

/// A listener with one upstream, and what else is written.
fn with(keys: &str) -> String {
    format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n{keys}\n[upstream.app]\nservers = [\"a:80\"]\n"
    )
}

/// What is printed of two texts without the comments, line by line where they differ.
fn assert_same(with_blocks: &str, without: &str) {
    let plain = |text: &str| {
        let line = |line: &str| line.split("  # block").next().unwrap_or_default().to_owned();
        printed(text).lines().map(line).collect::<Vec<_>>()
    };
    for (found, expected) in plain(with_blocks).iter().zip(&plain(without)) {
        assert_eq!(found, expected);
    }
    assert_eq!(plain(with_blocks).len(), plain(without).len());
}

#[test]
fn every_table_that_the_reference_names_takes_blocks() {
    assert_same(
        "[block.of_listener]\ntimeouts.request = \"7s\"\n\
         [block.of_route]\naccess_log = false\n\
         [block.of_files]\nindex = [\"home.html\"]\n\
         [block.of_upstream]\nbalance = \"round-robin\"\n\
         [block.of_server]\nweight = 7\n\
         [block.of_health]\ninterval = \"9s\"\n\
         [listener.web]\naddress = \":0\"\nuse = \"of_listener\"\n\
         [[listener.web.route]]\npath = \"/a\"\nupstream = \"app\"\nuse = [\"of_route\"]\n\
         [[listener.web.route]]\npath = \"/b\"\nfiles = { root = \"/srv\", use = \"of_files\" }\n\
         [upstream.app]\nuse = \"of_upstream\"\nservers = [{ address = \"a:80\", use = \"of_server\" }, \"b:80\"]\n\
         health.use = \"of_health\"\n",
        "[listener.web]\naddress = \":0\"\ntimeouts.request = \"7s\"\n\
         [[listener.web.route]]\npath = \"/a\"\nupstream = \"app\"\naccess_log = false\n\
         [[listener.web.route]]\npath = \"/b\"\nfiles = { root = \"/srv\", index = [\"home.html\"] }\n\
         [upstream.app]\nbalance = \"round-robin\"\nservers = [{ address = \"a:80\", weight = 7 }, \"b:80\"]\n\
         health.interval = \"9s\"\n",
    );
}

#[test]
fn a_key_of_the_table_itself_counts_and_tables_are_merged() {
    assert_same(
        &format!(
            "[block.own]\ntimeouts = {{ request = \"7s\", request_body = \"8s\" }}\nhttp2.streams_max = 7\n{}",
            with("use = \"own\"\ntimeouts.request = \"3s\"")
        ),
        &with("timeouts = { request = \"3s\", request_body = \"8s\" }\nhttp2.streams_max = 7"),
    );
}

#[test]
fn routes_of_blocks_come_to_those_of_the_listener_and_have_blocks_of_their_own() {
    let text = "[block.quick]\naccess_log = false\n\
                [[block.shared.route]]\npath = \"/robots.txt\"\nrespond = { status = 404 }\nuse = [\"quick\"]\n\
                [listener.a]\naddress = \":0\"\nuse = \"shared\"\n[[listener.a.route]]\nupstream = \"app\"\n\
                [listener.b]\naddress = \":0\"\nuse = \"shared\"\n\
                [upstream.app]\nservers = [\"a:80\"]\n";
    let config = parse(text).into_result().expect("it is valid");
    let names = |at: usize| config.listeners[at].routes.iter().map(|route| &*route.name).collect::<Vec<_>>();
    assert_eq!(names(0), ["*", "/robots.txt"]);
    assert_eq!(names(1), ["/robots.txt"]);
}

#[test]
fn the_printed_config_says_what_came_from_which_block_and_is_the_same_config() {
    let text = "[block.inner]\nhttp2.streams_max = 7\n\
                [block.outer]\nuse = \"inner\"\ntimeouts.request = \"7s\"\n\
                [[block.outer.route]]\npath = \"/x\"\nrespond.status = 404\n\
                [listener.web]\naddress = \":0\"\nuse = \"outer\"\ntimeouts.request_body = \"3s\"\n\
                [[listener.web.route]]\nupstream = \"app\"\n\
                [upstream.app]\nservers = [\"a:80\"]\n";
    let printed = printed(text);
    let line = |start: &str| printed.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert_eq!(line("timeouts.request = "), "timeouts.request = \"7s\"  # block outer");
    assert_eq!(line("http2.streams_max = "), "http2.streams_max = 7  # block inner");
    assert_eq!(line("timeouts.request_body = "), "timeouts.request_body = \"3s\"");
    assert_eq!(line("respond.status = "), "respond.status = 404  # block outer");
    assert_eq!(line("upstream = "), "upstream = \"app\"");
    let again = parse(&printed);
    assert!(again.diagnostics.is_empty(), "{}", again.diagnostics);
    assert_eq!(again.print(), printed.replace("  # block outer", "").replace("  # block inner", ""));
}

#[test]
fn a_block_is_reached_by_two_ways() {
    assert_same(
        &format!(
            "[block.low]\nhttp2.streams_max = 7\n[block.a]\nuse = \"low\"\n[block.b]\nuse = \"low\"\n{}",
            with("use = [\"a\", \"b\"]")
        ),
        &with("http2.streams_max = 7"),
    );
}

#[test]
fn a_file_that_is_included_has_blocks() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("weir.toml");
    std::fs::write(
        &path,
        format!(
            "include = \"more.toml\"\n[block.a]\nhttp2.streams_max = 7\n{}",
            with("use = [\"a\", \"b\"]")
        ),
    )
    .and_then(|()| std::fs::write(folder.path().join("more.toml"), "[block.b]\ntimeouts.request = \"7s\"\n"))
    .expect("files can be written");
    let checked = CheckedConfig::load(&path);
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    let printed = checked.print();
    assert!(printed.contains("http2.streams_max = 7  # block a") && printed.contains("\"7s\"  # block b"));
}

#[test]
fn blocks_that_would_fill_the_memory_are_an_error() {
    let mut text = String::from("[block.wide]\n");
    for route in 0..2_000 {
        text.push_str(&format!("[[block.wide.route]]\npath = \"/{route}\"\nrespond.status = 404\n"));
    }
    for listener in 0..400 {
        text.push_str(&format!("[listener.l{listener}]\naddress = \"127.0.0.1:0\"\nuse = \"wide\"\n"));
    }
    let lines = parse(&text).diagnostics.to_string();
    assert_eq!(lines.matches("all blocks in use come to 1000000 keys or more").count(), 1, "{lines}");
}
