//! WordPress from `examples/wordpress`, with PHP-FPM and MariaDB: installed, used and visited through Weir.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::php::{Background, Php, is_root};
use crate::harness::{Client, Response, Weir, temporary_folder};

/// A picture of one pixel (GIF).
const PICTURE: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xFF\xFF\xFF!\xF9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?} ({error}): cargo xtask setup"));
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// MariaDB with an empty database in `folder`.
fn database(folder: &Path) -> Background {
    let path = |name: &str| format!("{}/{name}", folder.display());
    let user = is_root().then_some("--user=root");
    run(Command::new("mariadb-install-db")
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
        .arg(format!("--datadir={}", path("db")))
        .args(user));
    let mut command = Command::new("mariadbd");
    command
        .args(["--no-defaults", "--skip-networking", "--innodb-flush-log-at-trx-commit=0"])
        .arg(format!("--datadir={}", path("db")))
        .arg(format!("--socket={}", path("db.sock")))
        .arg(format!("--pid-file={}", path("db.pid")))
        .args(user);
    let socket = folder.join("db.sock");
    let database =
        Background::start(&mut command, &folder.join("db.log"), || UnixStream::connect(&socket).is_ok());
    run(Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--execute=CREATE DATABASE wordpress"])
        .arg(format!("--socket={}", socket.display())));
    database
}

/// Debian's WordPress as a folder of its own: what the package has as links to other packages are files here.
fn unpack(folder: &Path) {
    let site = folder.join("site");
    assert!(
        Path::new("/usr/share/wordpress/wp-load.php").exists(),
        "WordPress is not there: cargo xtask setup"
    );
    run(Command::new("cp").args(["-rL", "/usr/share/wordpress"]).arg(&site));
    let mut config = String::from("<?php\n");
    for (name, value) in [
        ("DB_NAME", "wordpress"),
        ("DB_USER", "root"),
        ("DB_PASSWORD", ""),
        ("DB_HOST", &format!("localhost:{}/db.sock", folder.display())),
        ("DB_CHARSET", "utf8mb4"),
        ("DB_COLLATE", ""),
        ("AUTH_KEY", "one"),
        ("SECURE_AUTH_KEY", "two"),
        ("LOGGED_IN_KEY", "three"),
        ("NONCE_KEY", "four"),
        ("AUTH_SALT", "five"),
        ("SECURE_AUTH_SALT", "six"),
        ("LOGGED_IN_SALT", "seven"),
        ("NONCE_SALT", "eight"),
    ] {
        let _ok = writeln!(config, "define('{name}', '{value}');");
    }
    config.push_str(
        "define('DISABLE_WP_CRON', true);\ndefine('WP_HTTP_BLOCK_EXTERNAL', true);\n\
         define('AUTOMATIC_UPDATER_DISABLED', true);\n$table_prefix = 'wp_';\n\
         if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');\nrequire_once ABSPATH . 'wp-settings.php';\n",
    );
    let file = site.join("wp-config.php");
    let _none = fs::remove_file(&file);
    fs::write(&file, config).expect("the folder takes a file");
    // Weir need not be able to read scripts.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// The example with the addresses of the test.
fn start(folder: TempDir, php: &Php) -> Weir {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wordpress/weir.toml");
    let mut text = fs::read_to_string(example).expect("the example is there");
    for (from, to) in [
        ("\":80\"", "\"127.0.0.1:0\""),
        ("\"/var/www/wordpress\"", "\"site\""),
        ("\"unix:/run/php/php8.2-fpm.sock\"", &php.entry),
    ] {
        assert!(text.contains(from), "the example has {from}");
        text = text.replace(from, to);
    }
    Weir::start_in(folder, &text)
}

/// A browser with its cookies.
struct Visitor<'a> {
    weir: &'a Weir,
    cookies: Vec<(String, String)>,
}

impl Visitor<'_> {
    fn send(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let mut client = Client::connect(self.weir.web());
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{cookie}{fields}{length}\r\n",
            self.weir.web()
        ));
        client.send(body);
        let response = client.response_to(method);
        for set in response.fields().all("set-cookie") {
            let (name, value) = set.split(';').next().and_then(|pair| pair.split_once('=')).expect("a pair");
            self.cookies.retain(|(known, _)| known != name);
            self.cookies.push((name.to_owned(), value.to_owned()));
        }
        response
    }

    fn get(&mut self, target: &str) -> Response {
        self.send("GET", target, "", b"")
    }

    fn post_form(&mut self, target: &str, form: &str) -> Response {
        self.send("POST", target, "Content-Type: application/x-www-form-urlencoded\r\n", form.as_bytes())
    }
}

/// The value of a member of a JSON object, as it stands.
fn member(text: &str, name: &str) -> String {
    let start = text.find(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("no {name} in {text}"));
    let rest = &text[start + name.len() + 4..];
    rest[..rest.find('"').expect("it ends")].replace("\\/", "/")
}

#[test]
fn a_site_is_installed_used_and_visited() {
    let folder = temporary_folder();
    unpack(folder.path());
    let _database = database(folder.path());
    let php = Php::start(folder.path(), 3);
    let weir = start(folder, &php);
    let mut owner = Visitor { weir: &weir, cookies: Vec::new() };
    let host = format!("http://{}", weir.web());

    // Installed.
    let response = owner.get("/");
    assert_eq!(response.field("location"), Some(&*format!("{host}/wp-admin/install.php")));
    let form = "weblog_title=Test&user_name=ann&admin_password=secret-pw-1&admin_password2=secret-pw-1&pw_weak=on\
                &admin_email=ann%40example.test&blog_public=0&language=&Submit=x";
    assert!(owner.post_form("/wp-admin/install.php?step=2", form).text().contains("Success!"));

    // Logged in.
    assert_eq!(owner.get("/wp-admin/").status, 302, "strangers are sent to the login");
    assert_eq!(owner.get("/wp-login.php").status, 200);
    let response = owner.post_form("/wp-login.php", "log=ann&pwd=secret-pw-1&testcookie=1&wp-submit=x");
    assert_eq!(response.field("location"), Some(&*format!("{host}/wp-admin/")), "{}", response.text());
    assert!(owner.get("/wp-admin/").text().contains("Dashboard"));

    // A post, and a file.
    let nonce = owner.get("/wp-admin/admin-ajax.php?action=rest-nonce").text();
    let fields = format!("X-WP-Nonce: {nonce}\r\nContent-Type: application/json\r\n");
    let post = br#"{"title":"Hello Weir","content":"Written through FastCGI","status":"publish"}"#;
    let response = owner.send("POST", "/wp-json/wp/v2/posts", &fields, post);
    assert_eq!(response.status, 201, "{}", response.text());
    let link = member(&response.text(), "link").replace(&host, "");
    assert!(link.starts_with("/20") && link.ends_with("/hello-weir/"), "WordPress chose permalinks: {link}");
    let fields = format!(
        "X-WP-Nonce: {nonce}\r\nContent-Type: image/gif\r\nContent-Disposition: attachment; filename=dot.gif\r\n"
    );
    let response = owner.send("POST", "/wp-json/wp/v2/media", &fields, PICTURE);
    assert_eq!(response.status, 201, "{}", response.text());
    let picture = member(&response.text(), "source_url").replace(&host, "");

    // Visited.
    let mut visitor = Visitor { weir: &weir, cookies: Vec::new() };
    assert!(visitor.get(&link).text().contains("Written through FastCGI"));
    assert!(visitor.get("/?s=weir").text().contains("Hello Weir"));
    assert!(visitor.get("/feed/").text().contains("<rss"));
    assert_eq!(visitor.get("/no/such/page/").status, 404);
    let response = visitor.get(&picture);
    assert_eq!((response.field("content-type"), &response.body.bytes[..]), (Some("image/gif"), PICTURE));
    for (target, kind) in [
        ("/wp-includes/css/dist/block-library/style.min.css", "text/css; charset=utf-8"),
        ("/wp-includes/js/jquery/jquery.min.js", "text/javascript; charset=utf-8"),
    ] {
        let response = visitor.get(target);
        assert_eq!((response.status, response.field("content-type")), (200, Some(kind)), "{target}");
        assert!(
            response.field("etag").is_some() && response.field("x-powered-by").is_none(),
            "{target} comes from Weir"
        );
    }

    // Not run, not told.
    let uploads = weir.folder().join("site/wp-content/uploads");
    fs::write(uploads.join("evil.php"), "<?php echo 'RUN';").expect("the folder takes a file");
    for (target, status) in [
        ("/wp-content/uploads/evil.php", 403),
        ("/wp-content/uploads/evil.PHP/x", 403),
        ("/wp-config.php", 200),
        ("/.htaccess", 404),
    ] {
        let response = visitor.get(target);
        assert_eq!(response.status, status, "{target}");
        let text = response.text();
        assert!(
            !text.contains("RUN") && !text.contains("<?php") && !text.contains("DB_"),
            "{target}: {text}"
        );
    }
}
