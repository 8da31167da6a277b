//! Whatever a file says: no panic, an error for what nests or includes itself too deep, every statement accounted for.

use std::io;

use proptest::prelude::*;
use weir_config::CheckedConfig;
use weir_import::{ResultFault, SourceFiles, SourceFormat, import};

/// One file, which includes itself by its name.
struct OneFile(String);

impl SourceFiles for OneFile {
    fn read(&self, path: &str) -> io::Result<String> {
        if path == "nginx.conf" { Ok(self.0.clone()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        if pattern.contains("nginx") { vec!["nginx.conf".to_owned()] } else { Vec::new() }
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

/// Words of nginx's configs, and signs between them.
const WORDS: [&str; 84] = [
    "server",
    "location",
    "/",
    "/a/",
    "/a",
    "= /x",
    "~ \\.php$",
    "~* ^/(.*)$",
    "^~ /s/",
    "@app",
    "{",
    "}",
    ";",
    ";\n",
    "listen",
    "80",
    "[::]:443",
    "ssl",
    "default_server",
    "unix:/a",
    "server_name",
    "*.a.test",
    "~^(?<n>.*)$",
    "a.*",
    "if",
    "($host = a)",
    "($arg_x ~ (a))",
    "(!-f",
    "$request_filename)",
    "set",
    "$x",
    "$1",
    "\"${x}y\"",
    "return",
    "301",
    "404",
    "444",
    "https://$host$request_uri",
    "rewrite",
    "^/a/(.*)$",
    "/b/$1",
    "last",
    "break",
    "permanent",
    "try_files",
    "$uri",
    "$uri/",
    "=404",
    "/index.php?$args",
    "root",
    "/srv",
    "alias",
    "/srv/",
    "index",
    "index.php",
    "error_page",
    "500",
    "=200",
    "/e.html",
    "proxy_pass",
    "http://a",
    "http://$x",
    "fastcgi_pass",
    "map",
    "$http_a",
    "$m",
    "hostnames",
    "default",
    "geo",
    "10.0.0.0/8",
    "split_clients",
    "50%",
    "include",
    "nginx.conf",
    "http",
    "events",
    "upstream",
    "internal",
    "#",
    "'",
    "\"",
    "\\",
    "${",
    "(?!a)",
];

fn text() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(WORDS.to_vec());
    proptest::collection::vec(word, 0..60).prop_map(|words| words.join(" "))
}

/// Servers whose directives are put together at random.
fn servers() -> impl Strategy<Value = String> {
    let statements = vec![
        "listen 80;",
        "listen 443 ssl;",
        "server_name a.test *.b.test;",
        "server_name ~^(.+)\\.x$;",
        "root /srv;",
        "return 301 https://$host$request_uri;",
        "if ($host = a.test) { return 403; }",
        "if ($arg_a) { set $x 1; }",
        "set $x \"${x}a\";",
        "rewrite ^/a(.*)$ /b$1 last;",
        "location / { proxy_pass http://10.0.0.1; }",
        "location /a/ { if ($x = 1a) { return 404; } proxy_pass http://10.0.0.2/; }",
        "location @n { internal; return 204; }",
        "location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }",
        "location ^~ /s/ { location ~ x { return 204; } }",
        "location = / { try_files $uri @n; }",
        "error_page 404 = @n;",
        "try_files $uri /index.php?$args;",
        "index index.php;",
        "location /i { internal; alias /srv/i/; }",
        "if (!-e $request_filename) { rewrite ^ /index.php last; }",
        "rewrite ^/(?!b)(.*)$ /b/$1;",
        "location ~ ^/(?<id>.)/ { return 302 /$id; }",
    ];
    let server = proptest::collection::vec(proptest::sample::select(statements), 0..12);
    let server = server.prop_map(|statements| format!("server {{ {} }}\n", statements.join(" ")));
    proptest::collection::vec(server, 1..4).prop_map(|servers| servers.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn no_text_makes_the_import_panic(text in text()) {
        if let Ok(imported) = import(SourceFormat::Nginx, &["nginx.conf"], &OneFile(text)) {
            prop_assert_eq!(CheckedConfig::faults(&imported.toml), [], "{}", imported.toml);
        }
    }

    #[test]
    fn every_statement_of_servers_has_an_outcome_and_the_result_is_sound(text in servers()) {
        let imported = import(SourceFormat::Nginx, &["nginx.conf"], &OneFile(text)).unwrap();
        prop_assert!(imported.report.findings().iter().all(|finding| !finding.notes.iter().any(|note| note.contains("does not know"))), "{}", imported.report);
        prop_assert_eq!(CheckedConfig::faults(&imported.toml), [], "{}", imported.toml);
    }
}

#[test]
fn what_nests_or_includes_itself_too_deep_is_an_error() {
    for text in [
        "location / {".repeat(100),
        "include nginx.conf;".to_owned(),
        "include *nginx*;".to_owned(),
        "a {".repeat(40) + &"}".repeat(40),
    ] {
        import(SourceFormat::Nginx, &["nginx.conf"], &OneFile(text)).unwrap_err();
    }
}

#[test]
fn conditions_do_not_multiply() {
    let one = |index: usize| {
        format!("if ($arg_a{index} = 1) {{ set $x \"${{x}}{index}\"; add_header X-{index} $x; }}")
    };
    let statements: Vec<String> = (0..40).map(one).collect();
    let text = format!("server {{ location / {{ {} proxy_pass http://10.0.0.1; }} }}", statements.join(" "));
    let imported = import(SourceFormat::Nginx, &["nginx.conf"], &OneFile(text)).unwrap();
    assert!(imported.toml.lines().count() < 1000, "{}", imported.toml.lines().count());
}

#[test]
fn ten_thousand_lines_become_no_more() {
    let server = |index: usize| {
        format!(
            "server {{\n listen 80;\n server_name s{index}.test;\n root /srv/{index};\n location / {{\n proxy_pass http://10.0.0.{};\n }}\n \
             location ~ \\.(js|css)$ {{\n expires 1h;\n }}\n }}\n",
            index % 250
        )
    };
    let text: String = (0..900).map(server).collect();
    let imported = import(SourceFormat::Nginx, &["nginx.conf"], &OneFile(text.clone())).unwrap();
    let count = |text: &str| text.lines().filter(|line| !line.is_empty()).count();
    assert!(count(&imported.toml) <= count(&text), "{} of {}", count(&imported.toml), count(&text));
}
