//! Ranges and conditions of files as curl asks for them, of Weir over both protocols and of nginx beside it: the outcome is the same.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::harness::foreign_program::{foreign_command, free_address, nginx_folders};
use crate::harness::{CommandResult, ForeignProgram, Weir, temporary_folder};

/// 23 November 2026, 12:00:00 UTC.
const CHANGED: Duration = Duration::from_secs(1_795_435_200);

/// A server of the folder, and what curl needs to speak with it.
struct FileServer {
    name: &'static str,
    address: SocketAddr,
    protocol: &'static str,
}

/// What curl has made of a case: its exit code, the status, and the file that it has written.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    status: String,
    file: Option<Vec<u8>>,
}

fn content() -> Vec<u8> {
    (0..200_000_u32).flat_map(|number| number.to_be_bytes()).collect()
}

fn put(site: &Path, bytes: &[u8], changed: Duration) {
    let new = site.join(".new");
    std::fs::write(&new, bytes).expect("the folder takes a file");
    let file = std::fs::File::options().write(true).open(&new).expect("it was just written");
    file.set_modified(SystemTime::UNIX_EPOCH + changed).expect("its owner may do that");
    std::fs::rename(&new, site.join("file.bin")).expect("it was just written");
}

impl FileServer {
    /// Runs curl in `folder`, where it writes to `out`.
    fn curl(&self, folder: &Path, arguments: &[&str]) -> Outcome {
        let mut command = foreign_command("curl");
        command.args(["--silent", self.protocol, "--output", "out", "--write-out", "%{http_code}"]);
        command.args(arguments).arg(format!("http://{}/file.bin", self.address)).current_dir(folder);
        let result = CommandResult::new(&mut command);
        let file = std::fs::read(folder.join("out")).ok();
        Outcome { code: result.code, status: result.stdout, file }
    }
}

/// Calls `ask` with each server and an empty folder; the outcomes have to be `expected`, of which the file is given by its range.
fn assert_alike(
    servers: &[FileServer],
    case: &str,
    status: &str,
    expected: &[u8],
    ask: impl Fn(&FileServer, &Path) -> Outcome,
) {
    for server in servers {
        let folder = temporary_folder();
        let outcome = ask(server, folder.path());
        assert_eq!((outcome.code, &*outcome.status), (Some(0), status), "{case}, {}", server.name);
        assert!(
            outcome.file.as_deref() == Some(expected),
            "{case}, {}: not the bytes that it should be",
            server.name
        );
    }
}

fn start() -> (TempDir, [FileServer; 3], Weir, ForeignProgram) {
    let site = temporary_folder();
    put(site.path(), &content(), CHANGED);
    let root = site.path().display();
    let address = free_address();
    let text = format!(
        "http {{ access_log off; {} server {{ listen {{address}}; root {root}; }} }}\n",
        nginx_folders()
    );
    let nginx = ForeignProgram::nginx("", &text, address);
    let weir = Weir::start(&format!(
        "[listener.web]\naddress = \"127.0.0.1:0\"\nhttp2.prior_knowledge = \"allowed\"\n\
         [[listener.web.route]]\nfiles = {{ root = \"{root}\", valid = \"0s\" }}\n"
    ));
    let at = weir.web();
    let server = |name, address, protocol| FileServer { name, address, protocol };
    let servers = [
        server("nginx", address, "--http1.1"),
        server("Weir", at, "--http1.1"),
        server("Weir, HTTP/2", at, "--http2-prior-knowledge"),
    ];
    (site, servers, weir, nginx)
}

#[test]
fn ranges_are_as_curl_wants_them() {
    let (_site, servers, _weir, _nginx) = start();
    let (whole, len) = (content(), content().len());
    for (range, expected) in [
        ("0-0", 0..1),
        ("0-99", 0..100),
        ("100-100099", 100..100_100),
        ("799000-", 799_000..len),
        ("-50", len - 50..len),
        ("799990-900000", 799_990..len),
        ("-900000", 0..len),
    ] {
        assert_alike(&servers, range, "206", &whole[expected], |server, folder| {
            server.curl(folder, &["--range", range])
        });
    }
    for range in ["800000-", "900000-900001"] {
        for server in &servers {
            let folder = temporary_folder();
            let outcome = server.curl(folder.path(), &["--range", range]);
            assert_eq!(outcome.status, "416", "{range}, {}", server.name);
        }
    }
    // Several: in parts, of which curl keeps the framing.
    for server in &servers {
        let folder = temporary_folder();
        let outcome = server.curl(folder.path(), &["--range", "0-3,-4"]);
        assert_eq!((outcome.code, &*outcome.status), (Some(0), "206"), "{}", server.name);
        let file = outcome.file.expect("curl has written it");
        let text = String::from_utf8_lossy(&file).to_lowercase();
        for part in ["content-range: bytes 0-3/800000", "content-range: bytes 799996-799999/800000"] {
            assert!(text.contains(part), "{}: {text}", server.name);
        }
    }
}

#[test]
fn downloads_are_resumed() {
    let (site, servers, _weir, _nginx) = start();
    let whole = content();
    for len in [1, 4096, 799_999] {
        assert_alike(&servers, "resumed", "206", &whole, |server, folder| {
            std::fs::write(folder.join("out"), &whole[..len]).expect("the folder takes a file");
            server.curl(folder, &["--continue-at", "-"])
        });
    }
    // A file that is whole already: curl asks for what comes after its end, and takes the 416 for what it is.
    assert_alike(&servers, "whole already", "416", &whole, |server, folder| {
        std::fs::write(folder.join("out"), &whole).expect("the folder takes a file");
        server.curl(folder, &["--continue-at", "-"])
    });
    // The rest of another version is refused by its tag: the whole new file comes in its place.
    let tag_of = |server: &FileServer, folder: &Path| {
        server.curl(folder, &["--etag-save", "tag", "--range", "0-9"]);
        std::fs::read_to_string(folder.join("tag")).expect("curl has saved it").trim().to_owned()
    };
    assert_alike(&servers, "same version", "206", &whole[10..], |server, folder| {
        let condition = format!("If-Range: {}", tag_of(server, folder));
        server.curl(folder, &["--header", &condition, "--range", "10-"])
    });
    let folders = servers.each_ref().map(|server| {
        let folder = temporary_folder();
        let tag = tag_of(server, folder.path());
        (folder, tag)
    });
    let new: Vec<u8> = whole.iter().map(|byte| byte.wrapping_add(1)).collect();
    put(site.path(), &new, CHANGED + Duration::from_secs(60));
    for (server, (folder, tag)) in servers.iter().zip(&folders) {
        let condition = format!("If-Range: {tag}");
        let outcome = server.curl(folder.path(), &["--header", &condition, "--range", "10-"]);
        assert_eq!((outcome.code, &*outcome.status), (Some(0), "200"), "{}", server.name);
        assert!(outcome.file.as_deref() == Some(&*new), "{}: not the new file", server.name);
    }
}

#[test]
fn only_files_that_have_changed_are_sent() {
    let (site, servers, _weir, _nginx) = start();
    let whole = content();
    for (condition, status) in [
        ("Mon, 23 Nov 2026 11:59:59 GMT", "200"),
        ("Mon, 23 Nov 2026 12:00:00 GMT", "304"),
        ("Mon, 23 Nov 2026 12:00:01 GMT", "304"),
        // With a minus: only if it has not changed since.
        ("-Mon, 23 Nov 2026 12:00:01 GMT", "200"),
    ] {
        for server in &servers {
            let folder = temporary_folder();
            let outcome = server.curl(folder.path(), &["--time-cond", condition]);
            assert_eq!((outcome.code, &*outcome.status), (Some(0), status), "{condition}, {}", server.name);
            let sent = outcome.file.unwrap_or_default();
            assert!(sent == if status == "200" { &*whole } else { &[] }, "{condition}, {}", server.name);
        }
    }
    for server in &servers {
        let folder = temporary_folder();
        let outcome = server.curl(folder.path(), &["--time-cond", "-Mon, 23 Nov 2026 11:59:59 GMT"]);
        assert_eq!(outcome.status, "412", "{}", server.name);
    }
    // By the time of a copy, as mirrors do it: `--remote-time` gives it that of the server.
    assert_alike(&servers, "a copy", "304", &whole, |server, folder| {
        assert_eq!(server.curl(folder, &["--remote-time"]).status, "200");
        server.curl(folder, &["--remote-time", "--time-cond", "out"])
    });
    // By tag.
    let folders = servers.each_ref().map(|server| {
        let folder = temporary_folder();
        let tags = ["--etag-save", "tag", "--etag-compare", "tag"];
        assert_eq!(server.curl(folder.path(), &tags).status, "200", "{}", server.name);
        let again = server.curl(folder.path(), &tags);
        assert_eq!((again.code, &*again.status), (Some(0), "304"), "{}", server.name);
        folder
    });
    put(site.path(), b"new", CHANGED + Duration::from_secs(60));
    for (server, folder) in servers.iter().zip(&folders) {
        let outcome = server.curl(folder.path(), &["--etag-save", "tag", "--etag-compare", "tag"]);
        let expected = Outcome { code: Some(0), status: "200".to_owned(), file: Some(b"new".to_vec()) };
        assert_eq!(outcome, expected, "{}", server.name);
    }
}
