//! `examples/django`: a site of Django behind gunicorn, visited by curl.

use tempfile::TempDir;

use super::{config, folder};
use crate::harness::foreign_program::{foreign_command, output_of};
use crate::harness::tls::{ECDSA, connect};
use crate::harness::{
    CertificateAuthority, CommandResult, ForeignProgram, Weir, eventually, temporary_folder,
};

/// Debian's own, whatever else the path has: it is the one with Debian's Django.
const PYTHON: &str = "/usr/bin/python3";
const PASSWORD: &str = "correct horse";

/// The site and the Weir in front of it; the last field is curl's.
struct Site {
    weir: Weir,
    authority: CertificateAuthority,
    visitor: TempDir,
    _gunicorn: ForeignProgram,
}

impl Site {
    fn start() -> Site {
        let site = temporary_folder();
        let root = site.path().to_str().expect("temporary paths are UTF-8").to_owned();
        let set_up = |arguments: &[&str]| {
            let mut command = foreign_command(PYTHON);
            command.arg("-B").arg(folder().join("django/app.py")).args(arguments).env("SITE_FOLDER", &root);
            command.env("SITE_SECRET", "of a test").env("DJANGO_SUPERUSER_PASSWORD", PASSWORD);
            output_of(command)
        };
        set_up(&["migrate", "--verbosity=0"]);
        set_up(&["collectstatic", "--noinput", "--verbosity=0"]);
        set_up(&["createsuperuser", "--noinput", "--username=ada", "--email=ada@example.com"]);
        std::fs::create_dir_all(site.path().join("media")).expect("the folder takes a folder");
        let mut command = foreign_command("gunicorn");
        command.args(["--workers=2", "--pythonpath"]).arg(folder().join("django"));
        command.args(["--bind", &format!("unix:{root}/gunicorn.sock"), "app:application"]);
        command.envs([
            ("SITE_FOLDER", &*root),
            ("SITE_SECRET", "of a test"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ]);
        let gunicorn = ForeignProgram::start(command, site, |folder| folder.join("gunicorn.sock").exists());
        let text = config(
            "django/weir.toml",
            &[
                (":80\"", "127.0.0.1:0\""),
                (":443\"", "127.0.0.1:0\""),
                ("/etc/weir/www.example.com.", "site."),
                ("/srv/mysite/", &format!("{root}/")),
                ("/run/mysite/", &format!("{root}/")),
            ],
        );
        let (authority, own) = (CertificateAuthority::new(), temporary_folder());
        authority.issue(own.path(), "site", &["www.example.com"], ECDSA);
        let visitor = temporary_folder();
        std::fs::write(visitor.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
        Site { weir: Weir::start_in(own, &text), authority, visitor, _gunicorn: gunicorn }
    }

    /// What curl prints, with the cookies of its visits before; the last line is the status.
    fn curl(&self, arguments: &[&str]) -> String {
        let at = |port: u16, name: &str| format!("www.example.com:{port}:{}", self.weir.address(name));
        let mut command = foreign_command("curl");
        command.current_dir(self.visitor.path());
        command.args([
            "--silent",
            "--show-error",
            "--cacert",
            "ca.pem",
            "--cookie",
            "jar",
            "--cookie-jar",
            "jar",
        ]);
        command.args(["--connect-to", &at(80, "plain"), "--connect-to", &at(443, "web")]);
        command.args(["--write-out", "\n%{http_code}"]);
        command.args(arguments);
        let result = CommandResult::new(&mut command);
        assert_eq!(result.code, Some(0), "{arguments:?}: {}", result.text());
        result.stdout
    }

    /// The token of the form on a page.
    fn token(&self, url: &str) -> String {
        let page = self.curl(&[url]);
        let mark = "name=\"csrfmiddlewaretoken\" value=\"";
        let (_, rest) = page.split_once(mark).unwrap_or_else(|| panic!("no form: {page}"));
        rest.split('"').next().unwrap_or_default().to_owned()
    }

    fn log_in(&self) {
        let form = "https://www.example.com/admin/login/?next=/upload/";
        let fields = format!("csrfmiddlewaretoken={}&username=ada&password={PASSWORD}", self.token(form));
        let refused = self.curl(&["--data", &fields, form]);
        assert!(refused.ends_with("\n403"), "over HTTPS, Django wants to know where the form was: {refused}");
        let said = self.curl(&["--data", &fields, "--referer", form, "--include", form]);
        assert!(said.ends_with("\n302") && said.contains("\r\nlocation: /upload/\r\n"), "{said}");
    }
}

#[test]
fn a_visitor_is_led_to_https_and_django_knows_it() {
    let site = Site::start();
    let said = site.curl(&["--include", "http://www.example.com/upload/?a=b"]);
    assert!(said.to_lowercase().contains("\r\nlocation: https://www.example.com/upload/?a=b\r\n"), "{said}");
    assert!(said.ends_with("\n308"), "{said}");
    // What the visitor claims about itself counts for nothing.
    let lies = ["--header", "X-Forwarded-Proto: http", "--header", "X-Forwarded-For: 192.0.2.1"];
    let said = site.curl(&[&lies[..], &["--include", "https://www.example.com/?q=1"]].concat());
    let known = r#"{"secure": true, "url": "https://www.example.com/?q=1", "client": "127.0.0.1"}"#;
    assert!(said.contains(known), "{said}");
    assert!(said.contains("\r\nstrict-transport-security: max-age=3600\r\n"), "{said}");
}

#[test]
fn static_files_do_not_come_from_django() {
    let site = Site::start();
    let url = "https://www.example.com/static/admin/css/base.css";
    let said = site.curl(&["--compressed", "--include", url]);
    let original = std::fs::read_to_string(
        "/usr/lib/python3/dist-packages/django/contrib/admin/static/admin/css/base.css",
    )
    .expect("Debian's Django is installed");
    assert!(said.ends_with(&format!("{original}\n200")), "{said}");
    let head = said.to_lowercase();
    for field in ["content-type: text/css", "cache-control: max-age=86400", "etag: ", "content-encoding: "] {
        assert!(head.contains(&format!("\r\n{field}")), "{field}: {said}");
    }
    assert!(!head.contains("server: gunicorn"), "{said}");
    let missing = site.curl(&["https://www.example.com/static/../app.py", "--path-as-is"]);
    assert!(missing.ends_with("\n404"), "{missing}");
}

#[test]
fn a_user_logs_in_and_uploads_a_file() {
    let site = Site::start();
    site.log_in();
    let upload = "https://www.example.com/upload/";
    let token = format!("csrfmiddlewaretoken={}", site.token(upload));
    let content: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(site.visitor.path().join("picture.bin"), &content).expect("the folder takes a file");
    let said = site.curl(&["--form", &token, "--form", "file=@picture.bin", "--referer", upload, upload]);
    assert!(said.contains(r#"{"stored": "picture.bin", "size": 3000000}"#), "{said}");
    let url = "https://www.example.com/media/picture.bin";
    let said = site.curl(&["--dump-header", "head", "--output", "copy", url]);
    assert!(said.ends_with("\n200"), "{said}");
    let file = |name: &str| std::fs::read(site.visitor.path().join(name)).expect("curl has written it");
    assert!(file("copy") == content, "the file is what was sent");
    let head = String::from_utf8_lossy(&file("head")).to_lowercase();
    assert!(head.contains("content-security-policy: sandbox\r\n"), "{head}");
    let large = std::fs::File::create(site.visitor.path().join("large")).expect("the folder takes a file");
    large.set_len(20_000_001).expect("the disk has room");
    let said = site.curl(&["--form", "file=@large", "--referer", upload, "--output", "/dev/null", upload]);
    assert!(said.ends_with("\n413"), "{said}");
}

/// Two workers, which read a form to its end before they judge it: without `buffer_requests`, two slow uploads keep everyone else waiting.
#[test]
fn slow_uploads_hold_no_worker() {
    let site = Site::start();
    let slow: Vec<_> = (0..3)
        .map(|_| {
            let mut client = connect(site.weir.web(), site.authority.client(), "www.example.com");
            client.send(format!(
                "POST /upload/ HTTP/1.1\r\nHost: www.example.com\r\nReferer: https://www.example.com/upload/\r\n\
                 Cookie: csrftoken={}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\nbegin",
                "a".repeat(64)
            ));
            client
        })
        .collect();
    let listed = || site.weir.admin_json("/api/connections").to_string();
    eventually("three uploads have begun", || listed().matches("\"/upload/\"").count() == 3);
    let said = site.curl(&["https://www.example.com/"]);
    assert!(said.ends_with("\n200"), "{said}");
    for mut client in slow {
        client.send("x".repeat(100_000 - 5));
        let response = client.response();
        assert_eq!(response.status, 403, "of Django, which misses a token in the form: {}", response.text());
        assert_eq!(response.field("server"), Some("gunicorn"));
    }
}
