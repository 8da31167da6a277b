//! A secret in every key that may hold one is in nothing that Weir shows: report, status page, API, log, `plan`, `check --print`. What is changed is
//! found all the same.

use std::path::Path;

use super::report::unpack;
use crate::harness::program::command;
use crate::harness::{Client, CommandResult, Origin, Weir, temporary_folder};

/// Is part of every secret; each has a number of its own behind it.
const SECRET: &str = "hush4f9c02e7";

/// The variables of the environment that have one.
const VARIABLES: [(&str, &str); 3] = [
    ("WEIR_TEST_TOKEN", "hush4f9c02e7-40"),
    ("WEIR_TEST_NAME", "hush4f9c02e7-41"),
    ("WEIR_TEST_PASSWORD", "hush4f9c02e7-42"),
];

/// How many secrets the config has, those of the variables included.
const SECRETS: usize = 50;

/// A config with a secret in every key that may hold one. The authority and the store cannot be reached, and servers are away but one.
fn with_secrets(origin: &Origin) -> String {
    format!(
        r#"
        admin = {{ address = "127.0.0.1:0", socket = "unix:{{dir}}/weir.sock", changes = true, socket_changes = true }}
        log.level = "debug"
        [listener.plain]
        address = "127.0.0.1:0"
        upstream = "app"
        request_headers = {{ set = {{ Authorization = "Bearer S-01" }}, add = {{ "X-Origin-Verify" = "S-02" }} }}
        response_headers = {{ set = {{ "X-Secret" = "S-03" }} }}
        error_pages = [{{ status = "500-599", upstream = "pages", path = "/{{status}}?key=S-04&host={{host}}" }}]
        [listener.web]
        address = "127.0.0.1:0"
        [listener.web.tls.acme]
        hosts = ["a.example.test"]
        on_demand = ["*.shops.test"]
        on_demand_ask = "http://127.0.0.1:1/allowed?k=S-05"
        ca = ["https://127.0.0.1:1/dir?api_key=S-06"]
        directory = "{{dir}}/acme"
        dns_command = ["/bin/true", "--token=S-07", "S-08"]
        [[listener.web.route]]
        path = "/headers"
        header = {{ "X-Api-Key" = "S-09", Cookie = {{ regex = "S-10" }} }}
        query = {{ access_token = "S-11" }}
        upstream = "app"
        request_headers = {{ set = {{ "X-Api-Key" = "S-12", "X-Plain" = "${{WEIR_TEST_TOKEN}}" }} }}
        response_headers = {{ add = {{ "Set-Cookie" = "a=S-13" }} }}
        [[listener.plain.route]]
        path = "/asked"
        upstream = "app"
        forward_auth = {{ upstream = "app", path = "/verify?token=S-14&mode=basic" }}
        [[listener.plain.route]]
        path = "/tokens"
        upstream = "app"
        jwt = {{ remote_keys = {{ upstream = "pages", path = "/keys?client_secret=S-15" }} }}
        [[listener.plain.route]]
        path = "/pages"
        upstream = "pages"
        error_pages = [{{ status = "400-599", upstream = "pages", path = "/error?sig=S-16" }}]
        [[listener.plain.route]]
        path = "/users"
        upstream = "app"
        basic = {{ users = {{ ann = "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" }} }}
        [[listener.plain.route]]
        path = "/fixed"
        respond = {{ headers = {{ "X-Token" = "S-17" }} }}
        [[listener.plain.route]]
        path = "/elsewhere"
        redirect = {{ to = "https://ann:S-18@a.example.test/?token=S-19" }}
        [[listener.plain.route]]
        path = "/parts"
        split = [
            {{ upstream = "app", weight = 1, request_headers = {{ set = {{ Authorization = "Basic S-20" }} }} }},
            {{ upstream = "pages", weight = 1 }},
        ]
        [[listener.plain.route]]
        path = "/programs"
        upstream = "php"
        fastcgi = {{ root = "/srv", params = {{ DB_PASSWORD = "S-21", PLAIN = "S-22" }} }}
        [[listener.plain.route]]
        path = "/asked-for"
        upstream = "app"
        lists = "asked"
        limited_by = "asked"
        cache = {{ name = "pages", when = 'header["x-token"] != "S-35"', refresh_when = 'cookie.key == "S-36"', store_when = 'response.header["x-secret"] == "S-37"' }}
        request_headers = [{{ when = 'query.api_key == "S-38"', set = {{ x-a = "1" }} }}]
        response_headers = {{ when = 'header["x-api-key"] == "S-39"', set = {{ x-a = "1" }} }}
        expires = [{{ time = "1h", when = 'cookie.session == "S-43"' }}]
        error_pages = [{{ status = 404, upstream = "pages", when = 'cookie.session == "S-44"' }}]
        mirror = {{ upstream = "pages", when = 'cookie.session == "S-45"' }}
        access_log = {{ format = "common", when = 'cookie.session == "S-46"' }}
        [list.asked]
        action = "deny"
        when = 'header["x-token"].startsWith("S-47")'
        [limit.asked]
        rate = "1000/s"
        when = 'cookie.session in ["S-48", "S-49"]'
        [cache.pages]
        memory = "16MiB"
        [[listener.plain.route]]
        path = "/listed"
        upstream = "app"
        lists = "stolen"
        limited_by = ["each"]
        [list.stolen]
        action = "deny"
        key = "{{header.x-api-key}}"
        entries = ["S-23"]
        [store.nodes]
        address = "redis://mymaster"
        password = "S-24"
        sentinel = {{ addresses = ["redis://127.0.0.1:1"], password = "${{WEIR_TEST_PASSWORD}}" }}
        [limit.each]
        key = "{{client_address}}"
        rate = "1000/s"
        shared = "nodes"
        [upstream.app]
        servers = ["{app}"]
        retry = {{ when = 'header["x-token"] != "S-50"' }}
        affinity = {{ secret = "S-25-S-25-S-25" }}
        health = {{ path = "/alive?token=S-26&full=1", headers = {{ Cookie = "S-27", "X-Probe" = "S-28" }} }}
        [upstream.pages]
        servers = ["127.0.0.1:1"]
        health = {{ send = "AUTH S-29\r\n", expect = "+OK", quit = "PASS S-30\r\n" }}
        [upstream.php]
        servers = ["127.0.0.1:1"]
        protocol = "fastcgi"
        [traces]
        endpoint = "http://127.0.0.1:1/v1/traces?api-key=S-31&x=S-32"
        headers = {{ tenant = "S-33", "X-Other" = "S-34" }}
        service_name = "${{WEIR_TEST_NAME}}"
        "#,
        app = origin.address()
    )
    .replace("S-", &format!("{SECRET}-"))
}

fn run_with_variables(arguments: &[&str]) -> CommandResult {
    CommandResult::new(command(arguments).envs(VARIABLES))
}

fn assert_hides(name: &str, text: &str) {
    let line = text.lines().find(|line| line.contains(SECRET) || line.contains("Z6hikxcf"));
    assert!(line.is_none(), "{name} has a secret: {}", line.unwrap_or_default());
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn nothing_that_is_shown_has_a_secret_of_the_config() {
    let origin = Origin::serving("app");
    let text = with_secrets(&origin);
    let numbers: std::collections::BTreeSet<&str> =
        text.match_indices(SECRET).map(|(at, _)| &text[at..at + SECRET.len() + 3]).collect();
    assert_eq!(numbers.len(), SECRETS - VARIABLES.len(), "{numbers:?}");
    let weir = Weir::start_in_environment(temporary_folder(), &text, &VARIABLES);
    // What makes it speak of what it does with them.
    for path in
        ["/", "/asked", "/tokens", "/pages/x", "/users", "/fixed", "/parts", "/programs/x.php", "/listed"]
    {
        Client::get(weir.address("plain"), path);
    }
    weir.line(&["no certificate could be obtained", "a.example.test"]);
    for target in [
        "/",
        "/metrics",
        "/api/overview",
        "/api/config",
        "/api/log",
        "/api/limits",
        "/api/tables",
        "/api/mirrors",
        "/api/keys",
        "/api/certificates",
        "/api/memory",
        "/api/caches",
        "/api/failures",
        "/api/exchanges",
    ] {
        let shown = Client::get_by_address(weir.address("admin"), target);
        assert_eq!(shown.status, 200, "{target}");
        assert_hides(target, &shown.text());
        assert!(target != "/api/config" || shown.text().contains("[upstream.app]"), "{}", shown.text());
    }
    let config = weir.folder().join("weir.toml");
    let archive = weir.folder().join("report.tar.gz");
    let packed = run_with_variables(&[
        "report",
        "--output",
        text_of(&archive),
        "--seconds",
        "0",
        "--config",
        text_of(&config),
    ]);
    assert_eq!(packed.code, Some(0), "{}", packed.text());
    for (name, contents) in unpack(&archive) {
        assert_hides(&name, &contents);
    }
    let printed = run_with_variables(&["check", "--print", text_of(&config)]);
    assert_eq!(printed.code, Some(0), "{}", printed.text());
    assert_hides("check --print", &printed.text());
    for kept in ["set.\"X-Plain\"", "\"${WEIR_TEST_NAME}\"", "full=1", "mode=basic", "/bin/true"] {
        assert!(printed.stdout.contains(kept), "{kept}\n{}", printed.stdout);
    }
    let whole = run_with_variables(&["check", "--print", "--with-secrets", text_of(&config)]);
    assert!(whole.stdout.matches(SECRET).count() >= SECRETS - 2, "{}", whole.text());

    // Of a config that is the one in use, nothing is different.
    let admin = format!("{}", weir.address("admin"));
    let same = run_with_variables(&["plan", text_of(&config), "--admin", &admin]);
    assert_eq!((same.code, &*same.stdout), (Some(0), "nothing would change\n"), "{}", same.text());
    assert_hides("the log", &weir.stderr());
}

#[test]
fn secrets_that_change_are_found_and_not_shown() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let [old, new] = ["old.toml", "new.toml"].map(|name| folder.path().join(name));
    let text = with_secrets(&origin).replace("{dir}", text_of(folder.path()));
    std::fs::write(&old, &text).expect("the folder takes a file");
    for key in ["24", "25", "26", "14", "31", "01", "33"] {
        let changed = text.replace(&format!("{SECRET}-{key}"), &format!("{SECRET}-9{key}"));
        std::fs::write(&new, changed).expect("the folder takes a file");
        for more in [None, Some("--json")] {
            let arguments = ["plan", text_of(&new), "--from", text_of(&old)];
            let planned =
                run_with_variables(&[&arguments[..], &more.into_iter().collect::<Vec<_>>()].concat());
            assert_eq!(planned.code, Some(1), "{key}: {}", planned.text());
            assert_hides("plan", &planned.text());
        }
    }
}

#[test]
fn refused_urls_are_not_logged_with_their_credentials() {
    let origin = Origin::serving("app");
    let good = format!(
        "listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    );
    let weir = Weir::start_in_environment(temporary_folder(), &good, &VARIABLES);
    for bad in [
        format!("traces.endpoint = \"http://ann:{SECRET}@a.test/\"\n"),
        format!("traces.endpoint = \"ftp://ann:{SECRET}@a.test/\"\n"),
        format!("upstream.app.health.path = \"x://ann:{SECRET}@a.test/\"\n"),
        "traces.endpoint = \"${WEIR_TEST_TOKEN}\"\n".to_owned(),
        "upstream.app.max_requests = \"${WEIR_TEST_TOKEN}\"\n".to_owned(),
        format!(
            "listener.b = {{ address = \"127.0.0.1:0\", upstream = \"app\", tls = {{ acme = {{ hosts = [\"a.example.test\"], \
             ca = [\"https://ann:{SECRET}@a.test/dir\"] }} }} }}\n"
        ),
    ] {
        weir.reload_in_vain(&format!("{good}{bad}"));
        let config = weir.folder().join("weir.toml");
        for format in ["text", "short", "json"] {
            let checked = run_with_variables(&["check", "--format", format, text_of(&config)]);
            assert_eq!(checked.code, Some(2), "{bad}: {}", checked.text());
            assert_hides(&format!("check --format {format}"), &checked.text());
        }
    }
    assert_hides("the log", &weir.stderr());
}
