//! Routes that serve files: which file, what of it, in every protocol, and nothing outside of the folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::harness::http2::start_with_tls;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// A site in the folder `site`, and a secret beside it.
fn site() -> TempDir {
    let folder = temporary_folder();
    let site = folder.path().join("site");
    for path in ["sub", "sub/empty", ".git", ".well-known", "with space"] {
        fs::create_dir_all(site.join(path)).expect("the folder takes folders");
    }
    for (path, content) in [
        ("index.html", "<p>start</p>"),
        ("sub/index.html", "<p>sub</p>"),
        ("sub/page.html", "<p>page</p>"),
        ("with space/a+b%c.txt", "odd"),
        (".git/config", "secret"),
        (".well-known/security.txt", "contact"),
        ("app.js", "run()"),
        ("app.js.br", "br"),
        ("app.js.gz", "gzip!"),
        ("digits", "0123456789"),
        ("empty", ""),
    ] {
        fs::write(site.join(path), content).expect("the folder takes files");
    }
    fs::write(folder.path().join("secret"), "secret").expect("the folder takes a file");
    folder
}

fn settings(files: &str) -> String {
    format!("listener.web.route = [{{ path = \"/\", files = {{ root = \"site\", {files} }} }}]\n")
}

fn start(files: &str) -> Weir {
    Weir::start_in(site(), &config_with(&["'127.0.0.1:1'".to_owned()], &settings(files)))
}

fn fetch(weir: &Weir, method: &str, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn root(weir: &Weir) -> PathBuf {
    weir.folder().join("site")
}

/// How many requests have failed for this reason.
fn count(weir: &Weir, reason: &str) -> f64 {
    let labels = [&*format!("reason=\"{reason}\"")];
    weir.metrics().all("weir_listener_failures_total", &labels).iter().sum()
}

#[test]
fn a_path_names_a_file() {
    let weir = start("");
    for (target, kind, body) in [
        ("/", "text/html; charset=utf-8", "<p>start</p>"),
        ("/index.html", "text/html; charset=utf-8", "<p>start</p>"),
        ("/sub/", "text/html; charset=utf-8", "<p>sub</p>"),
        ("/sub/page.html?q=1", "text/html; charset=utf-8", "<p>page</p>"),
        ("//sub/./page.html", "text/html; charset=utf-8", "<p>page</p>"),
        ("/with%20space/a+b%25c.txt", "text/plain; charset=utf-8", "odd"),
        ("/app.js", "text/javascript; charset=utf-8", "run()"),
        ("/digits", "application/octet-stream", "0123456789"),
        ("/.well-known/security.txt", "text/plain; charset=utf-8", "contact"),
        ("/empty", "application/octet-stream", ""),
    ] {
        let response = fetch(&weir, "GET", target, "");
        assert_eq!((response.status, response.text().as_str()), (200, body), "{target}");
        assert_eq!(response.field("content-type"), Some(kind), "{target}");
        let length = body.len().to_string();
        assert_eq!(response.field("content-length"), Some(&*length), "{target}");
        assert_eq!(response.field("accept-ranges"), Some("bytes"));
        assert!(response.field("etag").is_some_and(|tag| tag.starts_with('"')));
        let head = fetch(&weir, "HEAD", target, "");
        assert_eq!((head.status, head.text().as_str()), (200, ""), "{target}");
        for name in ["content-length", "etag", "last-modified", "content-type"] {
            assert_eq!(head.field(name), response.field(name), "{name}");
        }
    }
    for (target, location) in
        [("/sub", "/sub/"), ("//sub", "/sub/"), ("/sub?a=b", "/sub/?a=b"), ("/sub/empty", "/sub/empty/")]
    {
        let response = fetch(&weir, "GET", target, "");
        assert_eq!((response.status, response.field("location")), (301, Some(location)), "{target}");
    }
}

#[test]
fn what_is_no_file_has_a_status_and_a_reason() {
    let weir = start("");
    for (target, status, reason) in [
        ("/none", 404, "file-missing"),
        ("/index.html/", 404, "file-missing"),
        ("/index.html/x", 404, "file-missing"),
        ("/.git/config", 404, "file-missing"),
        ("/.git/", 404, "file-missing"),
        ("/sub/empty/", 403, "file-forbidden"),
        (&*format!("/{}", "a".repeat(300)), 404, "file-missing"),
    ] {
        let response = fetch(&weir, "GET", target, "");
        assert_eq!((response.status, response.reason()), (status, Some(reason)), "{target}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let response = fetch(&weir, method, "/index.html", "Content-Length: 0\r\n");
        assert_eq!((response.status, response.reason()), (405, Some("method-not-allowed")), "{method}");
        assert_eq!(response.field("allow"), Some("GET, HEAD"));
    }
    // The connection goes on behind each of them.
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch("/none").status, 404);
        assert_eq!(client.fetch("/digits").text(), "0123456789");
    }
    eventually("they are counted", || count(&weir, "file-missing") >= 9.0);
}

#[test]
fn nothing_outside_of_the_folder_is_ever_sent() {
    let weir = start("hidden = true");
    let site = root(&weir);
    symlink("../secret", site.join("up")).unwrap();
    symlink(weir.folder().join("secret"), site.join("absolute")).unwrap();
    symlink("..", site.join("parent")).unwrap();
    symlink("digits", site.join("inside")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let up = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "..%00",
        "..;",
        "....",
        "%c0%ae%c0%ae",
        "..\\",
        "%5c..",
        "..%5c",
    ];
    let between = ["/", "%2f", "%5c", "\\", "//", "/./", "%252f", "%c0%af"];
    let mut client = Client::connect(weir.web());
    for up in up {
        for slash in between {
            for depth in 1..=3 {
                let climbing = format!("{up}{slash}").repeat(depth);
                for start in ["/", "/sub/"] {
                    let target = format!("{start}{climbing}secret");
                    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
                    let response = client.response();
                    assert!(response.status >= 400, "{target}: {response:?}");
                    assert!(!response.text().contains("secret"), "{target}");
                    if response.closes() {
                        client = Client::connect(weir.web());
                    }
                }
            }
        }
    }
    for target in
        ["/up", "/absolute", "/parent/secret", "/parent/", "/fifo", "/%2fetc/passwd", "//etc/passwd"]
    {
        let response = fetch(&weir, "GET", target, "");
        assert_eq!((response.status, response.reason()), (404, Some("file-missing")), "{target}");
    }
    assert_eq!(fetch(&weir, "GET", "/inside", "").text(), "0123456789");
    assert_eq!(fetch(&weir, "GET", "/.git/config", "").text(), "secret", "`hidden` serves it");
}

#[test]
fn links_that_are_swapped_while_they_are_followed_lead_nowhere() {
    let weir = start("valid = \"0s\"");
    let (site, folder) = (root(&weir), weir.folder().to_owned());
    fs::create_dir(site.join("real")).unwrap();
    fs::write(site.join("real/secret"), "allowed").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swap = || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for target in [&*folder, "real".as_ref()] {
                    let _gone = fs::remove_file(site.join("next"));
                    symlink(target, site.join("next")).unwrap();
                    fs::rename(site.join("next"), site.join("swapped")).unwrap();
                }
            }
        };
        scope.spawn(swap);
        let mut client = Client::connect(weir.web());
        let mut allowed = 0;
        for _ in 0..2000 {
            let response = client.fetch("/swapped/secret");
            match response.status {
                200 => {
                    assert_eq!(response.text(), "allowed");
                    allowed += 1;
                }
                status => assert_eq!(status, 404),
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(allowed > 0, "the link inside is followed");
    });
}

#[test]
fn links_can_be_left_out() {
    let weir = start("symlinks = \"never\"");
    symlink("digits", root(&weir).join("inside")).unwrap();
    assert_eq!(fetch(&weir, "GET", "/inside", "").status, 404);
    assert_eq!(fetch(&weir, "GET", "/digits", "").status, 200);
}

#[test]
fn conditional_requests() {
    let weir = start("");
    let first = fetch(&weir, "GET", "/digits", "");
    let (etag, modified) = (first.field("etag").unwrap(), first.field("last-modified").unwrap());
    for (fields, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: W/{etag}\r\n"), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        ("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n".to_owned(), 200),
        (format!("If-Match: {etag}\r\n"), 200),
        ("If-Match: \"other\"\r\n".to_owned(), 412),
        (format!("If-Unmodified-Since: {modified}\r\n"), 200),
        (format!("If-None-Match: {etag}\r\nRange: bytes=0-0\r\n"), 304),
        (format!("If-Range: {etag}\r\nRange: bytes=0-0\r\n"), 206),
        ("If-Range: \"other\"\r\nRange: bytes=0-0\r\n".to_owned(), 200),
    ] {
        let response = fetch(&weir, "GET", "/digits", &fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 304 {
            assert_eq!((response.field("etag"), response.text()), (Some(etag), String::new()), "{fields}");
            assert_eq!(response.field("content-type"), None);
        }
    }
}

#[test]
fn ranges() {
    let weir = start("");
    for (range, status, content_range, body) in [
        ("bytes=0-0", 206, Some("bytes 0-0/10"), "0"),
        ("bytes=7-", 206, Some("bytes 7-9/10"), "789"),
        ("bytes=-2", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=5-100", 206, Some("bytes 5-9/10"), "56789"),
        ("bytes=10-", 416, Some("bytes */10"), ""),
        ("bytes=3-2", 200, None, "0123456789"),
        ("lines=1-2", 200, None, "0123456789"),
    ] {
        let response = fetch(&weir, "GET", "/digits", &format!("Range: {range}\r\n"));
        assert_eq!((response.status, response.text().as_str()), (status, body), "{range}");
        assert_eq!(response.field("content-range"), content_range, "{range}");
    }
    // Only GET has ranges (RFC 9110 section 14.2).
    let head = fetch(&weir, "HEAD", "/digits", "Range: bytes=0-0\r\n");
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    let response = fetch(&weir, "GET", "/digits", "Range: bytes=0-1, 8-\r\n");
    let kind = response.field("content-type").expect("it has a type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("it has parts");
    let part = |range: &str, bytes: &str| {
        format!(
            "--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {range}/10\r\n\r\n{bytes}\r\n"
        )
    };
    assert_eq!(response.status, 206);
    assert_eq!(response.text(), format!("{}{}--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89")));
}

#[test]
fn large_files_are_whole_in_every_protocol() {
    let origin = Origin::serving("unused");
    let (authority, weir) = start_with_tls(&origin, &format!("{H2C_OF_PLAIN}{}", settings("")));
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
    fs::create_dir(root(&weir)).unwrap();
    fs::write(root(&weir).join("large"), &content).unwrap();
    let mut plain = Client::connect(weir.address("plain"));
    let mut tls = authority.connect(weir.web());
    for _ in 0..2 {
        assert!(plain.fetch("/large").body.bytes == content);
        assert!(tls.fetch("/large").body.bytes == content);
    }
    plain.send("GET /large HTTP/1.1\r\nHost: a.test\r\nRange: bytes=1000-2000000\r\n\r\n");
    assert!(plain.response().body.bytes == content[1000..=2_000_000]);
    let mut http2 = Http2Client::connect(weir.address("plain"));
    let response = http2.fetch("/large");
    assert!(response.body == content, "over HTTP/2");
    // Parts with text between them.
    plain.send("GET /large HTTP/1.1\r\nHost: a.test\r\nRange: bytes=0-999999, 2000000-2999999\r\n\r\n");
    let parts = plain.response().body.bytes;
    assert!(parts.windows(1_000_000).any(|part| part == &content[..1_000_000]));
    assert!(parts.len() > 2_000_000 && parts.ends_with(b"--\r\n"));
    assert_eq!(plain.fetch("/none").status, 404, "the connection goes on");
}

const H2C_OF_PLAIN: &str = "listener.plain = { address = \"127.0.0.1:0\", http2 = { prior_knowledge = \"allowed\" }, route = [{ path = \"/\", files = { root = \"site\" } }] }\n";

#[test]
fn encoded_forms_are_sent_to_clients_that_accept_them() {
    let weir = start("precompressed = [\"br\", \"gzip\"]");
    let identity = fetch(&weir, "GET", "/app.js", "");
    for (accept, encoding, body) in [
        ("gzip, br", Some("br"), "br"),
        ("gzip", Some("gzip"), "gzip!"),
        ("br;q=0.5, gzip", Some("gzip"), "gzip!"),
        ("br;q=0, gzip;q=0", None, "run()"),
        ("*", Some("br"), "br"),
        ("deflate", None, "run()"),
    ] {
        let response = fetch(&weir, "GET", "/app.js", &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!(
            (response.field("content-encoding"), response.text().as_str()),
            (encoding, body),
            "{accept}"
        );
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        assert_eq!(response.field("content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(response.field("etag") == identity.field("etag"), encoding.is_none(), "{accept}");
    }
}

#[test]
fn paths_are_tried_in_order() {
    let weir = start("try_files = [\"{path}\", \"{path}.html\", \"/sites/{host}{path}\", \"/index.html\"]");
    fs::create_dir_all(root(&weir).join("sites/a.test")).unwrap();
    fs::write(root(&weir).join("sites/a.test/own"), "of the host").unwrap();
    for (target, body) in [
        ("/digits", "0123456789"),
        ("/sub/page", "<p>page</p>"),
        ("/own", "of the host"),
        ("/any/where", "<p>start</p>"),
        ("/sub/empty/", "<p>start</p>"),
        ("/", "<p>start</p>"),
    ] {
        let response = fetch(&weir, "GET", target, "");
        assert_eq!((response.status, response.text().as_str()), (200, body), "{target}");
    }
    // A value of the client that climbs is no path.
    let response = Client::exchange(weir.web(), "GET /own HTTP/1.1\r\nHost: ..\r\n\r\n");
    assert!(!response.text().contains("secret"), "{response:?}");
}

#[test]
fn what_is_no_file_goes_to_the_upstream() {
    let origin = Origin::serving("from the server");
    let text = config_with(
        &[origin.named("a")],
        "listener.web.route = [{ path = \"/\", files = { root = \"site\" }, upstream = \"app\" }]",
    );
    let weir = Weir::start_in(site(), &text);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/digits").text(), "0123456789");
    for target in ["/none", "/sub/empty/", "/.git/config"] {
        assert_eq!(client.fetch(target).text(), "from the server", "{target}");
    }
    client.send("POST /digits HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.response().text(), "from the server");
    assert_eq!(origin.last_request().body.bytes, b"hi");
}

#[test]
fn browsers_of_other_origins_may_ask_before_they_fetch_a_file() {
    let weir = Weir::start_in(
        site(),
        &config_with(
            &["'127.0.0.1:1'".to_owned()],
            "listener.web.route = [{ path = \"/\", files = { root = \"site\" }, cors = { origins = [\"https://app.test\"] } }]",
        ),
    );
    let preflight = "Origin: https://app.test\r\nAccess-Control-Request-Method: GET\r\n";
    assert_eq!(fetch(&weir, "OPTIONS", "/digits", preflight).status, 204);
    let response = fetch(&weir, "GET", "/digits", "Origin: https://app.test\r\n");
    assert_eq!(response.field("access-control-allow-origin"), Some("https://app.test"));
}

#[test]
fn the_path_can_be_shortened_and_folders_listed() {
    let weir = Weir::start_in(
        site(),
        &config_with(
            &["'127.0.0.1:1'".to_owned()],
            "listener.web.route = [
                { path = \"/files\", strip_prefix = true, files = { root = \"site\", listing = true, index = [] } },
             ]",
        ),
    );
    assert_eq!(fetch(&weir, "GET", "/files/digits", "").text(), "0123456789");
    let page = fetch(&weir, "GET", "/files/", "").text();
    for part in
        ["<h1>/files/</h1>", "<a href=\"./sub/\">", "<a href=\"./with%20space/\">", "<a href=\"./digits\">"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains(".git"));
    assert_eq!(fetch(&weir, "GET", "/files/sub", "").field("location"), Some("/files/sub/"));
    // The links of the list are relative.
    let slash = fetch(&weir, "GET", "/files?a=1", "");
    assert_eq!((slash.status, slash.field("location")), (301, Some("/files/?a=1")));
}

#[test]
fn a_file_that_is_replaced_is_seen_and_one_under_way_stays_whole() {
    let weir = start("valid = \"100ms\"");
    let (large, next) = (root(&weir).join("large"), root(&weir).join("next"));
    fs::write(&large, vec![b'a'; 20_000_000]).unwrap();
    let mut client = Client::connect_narrow(weir.web());
    client.send_get("/large");
    let head = client.head();
    assert_eq!(head.fields.one("content-length"), Some("20000000"));
    fs::write(&next, "new").unwrap();
    fs::rename(&next, &large).unwrap();
    eventually("the new file is sent", || fetch(&weir, "GET", "/large", "").text() == "new");
    let rest = client.take(20_000_000);
    assert!(rest.iter().all(|byte| *byte == b'a'), "the file under way is the old one");
    // One that becomes shorter while it is sent cannot be ended well.
    fs::write(&large, vec![b'b'; 20_000_000]).unwrap();
    eventually("it is large again", || {
        fetch(&weir, "HEAD", "/large", "").field("content-length") == Some("20000000")
    });
    let mut client = Client::connect_narrow(weir.web());
    client.send_get("/large");
    client.head();
    fs::OpenOptions::new().write(true).open(&large).unwrap().set_len(1000).unwrap();
    let (rest, _) = client.take_to_end();
    assert!(rest.len() < 20_000_000, "it is cut short");
    eventually("it is counted", || count(&weir, "file-failed") == 1.0);
}

#[test]
fn as_many_files_stay_open_as_the_config_says() {
    let config = |max: &str| {
        let process = format!("process.workers = 1\nprocess.open_file_cache_max = {max}\n");
        process + &config_with(&["'127.0.0.1:1'".to_owned()], &settings("valid = \"1h\""))
    };
    let weir = Weir::start_in(site(), &config("\"auto\""));
    let folder = fs::canonicalize(root(&weir)).expect("it is there");
    for (max, expected) in [("\"auto\"", 4), ("2", 2), ("1", 1), ("0", 0)] {
        weir.reload(&config(max));
        for target in ["/index.html", "/digits", "/empty", "/app.js"] {
            assert_eq!(fetch(&weir, "GET", target, "").status, 200);
        }
        eventually("the others are closed", || weir.open_files_below(&folder) == expected);
    }
}

/// What is said of files holds for files: no failure is kept for as long, and nothing that the upstream answers.
#[test]
fn headers_of_files_are_of_files_alone() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 503 Oh\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let headers = "headers = { cache-control = \"max-age=31536000\", x-path = \"{path}\" }";
    let shown = |weir: &Weir, target: &str, fields: &str| {
        let response = fetch(weir, "GET", target, fields);
        let field = |name: &str| response.field(name).unwrap_or("-").to_owned();
        (response.status, field("cache-control"), field("x-path"))
    };
    let with = |status: u16, path: &str| (status, "max-age=31536000".to_owned(), path.to_owned());
    let weir = start(headers);
    assert_eq!(shown(&weir, "/digits", ""), with(200, "/digits"));
    assert_eq!(shown(&weir, "/digits", "Range: bytes=1-2\r\n"), with(206, "/digits"));
    assert_eq!(shown(&weir, "/digits", "If-None-Match: *\r\n"), with(304, "/digits"));
    for (target, fields, status) in [
        ("/none", "", 404),
        ("/sub", "", 301),
        ("/digits", "Range: bytes=99-\r\n", 416),
        ("/digits", "If-Match: \"x\"\r\n", 412),
    ] {
        let (seen, cache_control, path) = shown(&weir, target, fields);
        assert_eq!((seen, path.as_str()), (status, "-"), "{target}");
        assert!(!cache_control.contains("31536000"), "{target}: {cache_control}");
    }
    let settings = format!(
        "listener.web.route = [{{ path = \"/\", upstream = \"app\", files = {{ root = \"site\", {headers} }} }}]\n"
    );
    let weir = Weir::start_in(site(), &config_with(&[origin.entry()], &settings));
    assert_eq!(shown(&weir, "/digits", ""), with(200, "/digits"));
    assert_eq!(shown(&weir, "/none", ""), (503, "no-store".to_owned(), "-".to_owned()));
}

/// A client that names the index file reaches nothing but files of the folder.
#[test]
fn names_of_index_files_have_values_of_the_request() {
    let weir = start("index = [\"{header.x-index}\", \"index.{cookie.lang}.html\", \"index.html\"]");
    let folder = root(&weir).join("sub");
    fs::write(folder.join("index.de.html"), "de").expect("the folder takes a file");
    fs::write(folder.join(".hidden"), "hidden").expect("the folder takes a file");
    for (fields, body) in [
        ("", "<p>sub</p>"),
        ("Cookie: lang=de\r\n", "de"),
        ("Cookie: lang=fr\r\n", "<p>sub</p>"),
        ("X-Index: page.html\r\n", "<p>page</p>"),
        ("X-Index: ../../secret\r\n", "<p>sub</p>"),
        ("X-Index: ..\r\n", "<p>sub</p>"),
        ("X-Index: .\r\n", "<p>sub</p>"),
        ("X-Index: /index.html\r\n", "<p>sub</p>"),
        ("X-Index: ..%2findex.html\r\n", "<p>sub</p>"),
        ("X-Index: %2e%2e/index.html\r\n", "<p>sub</p>"),
        ("X-Index: .hidden\r\n", "<p>sub</p>"),
        ("Cookie: lang=/../../index\r\n", "<p>sub</p>"),
    ] {
        assert_eq!(fetch(&weir, "GET", "/sub/", fields).text(), body, "{fields}");
    }
    // The folder itself has a name with which it is a folder, and no file.
    assert_eq!(fetch(&weir, "GET", "/", "X-Index: sub\r\n").text(), "<p>start</p>");
    assert_eq!(fetch(&weir, "GET", "/sub", "Cookie: lang=de\r\n").status, 301);
}

#[test]
fn as_many_ranges_are_served_as_the_route_says() {
    let ranges = ["bytes=0-0", "bytes=0-0,2-2", "bytes=0-0,2-2,4-4", "bytes=10-"];
    for (max, expected) in [(2, [206, 206, 200, 416]), (1, [206, 200, 200, 416]), (0, [200; 4])] {
        let text = settings("").replace("files =", &format!("max_ranges = {max}, files ="));
        assert!(text.contains("max_ranges"), "{text}");
        let weir = Weir::start_in(site(), &config_with(&["'127.0.0.1:1'".to_owned()], &text));
        for (range, expected) in ranges.iter().zip(expected) {
            let response = fetch(&weir, "GET", "/digits", &format!("Range: {range}\r\n"));
            assert_eq!(response.status, expected, "{max} {range}");
            let has_ranges = response.field("accept-ranges").is_some();
            assert_eq!(has_ranges, max > 0 && expected != 416, "{max} {range}");
        }
    }
}

#[test]
fn a_range_of_an_empty_file_is_the_whole() {
    let weir = start("");
    for range in ["bytes=0-", "bytes=-5", "bytes=7-9"] {
        let response = fetch(&weir, "GET", "/empty", &format!("Range: {range}\r\n"));
        assert_eq!((response.status, response.field("content-length")), (200, Some("0")), "{range}");
        assert_eq!(response.field("content-range"), None);
    }
}

#[test]
fn no_file_was_changed_in_the_future() {
    let weir = start("");
    let path = root(&weir).join("tomorrow");
    fs::write(&path, "text").expect("the folder takes a file");
    let file = fs::File::options().write(true).open(&path).expect("it is there");
    let written = file.metadata().and_then(|metadata| metadata.modified()).expect("a file has a time");
    let ahead = written + std::time::Duration::from_secs(86_400);
    file.set_modified(ahead).expect("the time of a file can be set");
    let response = fetch(&weir, "GET", "/tomorrow", "");
    let seconds = |name: &str| {
        let value = response.field(name).expect("there is a date");
        weir_http::parse_date(value.as_bytes()).expect("it is a date")
    };
    assert!(seconds("last-modified") <= seconds("date"), "{:?}", response.field("last-modified"));
    let etag = response.field("etag").expect("there is a tag").to_owned();
    let again = fetch(&weir, "GET", "/tomorrow", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(again.status, 304);
}
