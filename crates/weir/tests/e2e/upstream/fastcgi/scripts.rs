//! Which script a request names, which files are sent, and which are neither run nor sent.

use crate::harness::{Client, Weir, run};

use super::{PAGE, page_server, start};

fn fetch(weir: &Weir, method: &str, target: &str) -> (u16, String) {
    let response =
        Client::exchange(weir.web(), &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    (response.status, response.text())
}

/// Method, target, and what the request comes to: a status and a text of Weir, or the script that the server is told.
type ScriptCase<'a> = (&'a str, &'a str, Result<&'a str, (u16, &'a str)>);

fn check(route: &str, cases: &[ScriptCase<'_>]) {
    let (origin, requests) = page_server(PAGE);
    let weir = start(&origin, route, "");
    for (method, target, expected) in cases {
        let answer = fetch(&weir, method, target);
        match expected {
            Ok(script) => {
                assert_eq!(
                    answer,
                    (200, if *method == "HEAD" { "" } else { "hello" }.to_owned()),
                    "{method} {target}"
                );
                let request =
                    requests.try_recv().unwrap_or_else(|_| panic!("{method} {target} reached nothing"));
                assert_eq!(request.script(), *script, "{method} {target}");
            }
            Err((status, text)) => {
                assert_eq!(answer.0, *status, "{method} {target}");
                assert!(answer.1.contains(text) && !answer.1.contains("<?php s"), "{target}: {}", answer.1);
                assert!(requests.try_recv().is_err(), "{method} {target} reached the server");
            }
        }
    }
}

#[test]
fn files_are_sent_and_scripts_run() {
    check(
        "files = { root = \"site\", try_files = [\"{path}\", \"/index.php\"] }",
        &[
            ("GET", "/", Ok("/index.php - ")),
            ("GET", "/?p=1", Ok("/index.php - p=1")),
            ("GET", "/about.php", Ok("/about.php - ")),
            ("HEAD", "/about.php", Ok("/about.php - ")),
            ("POST", "/about.php?x", Ok("/about.php - x")),
            ("DELETE", "/about.php", Ok("/about.php - ")),
            ("GET", "/about%2ephp", Ok("/about.php - ")),
            ("GET", "/index.php/a/b%20c?d", Ok("/index.php /a/b c d")),
            ("GET", "/index.php/", Ok("/index.php / ")),
            ("GET", "/UPPER.PHP", Ok("/UPPER.PHP - ")),
            ("GET", "/2026/11/a-post/?q=1", Ok("/index.php - q=1")),
            ("POST", "/2026/11/a-post/", Ok("/index.php - ")),
            ("GET", "/admin/", Ok("/admin/index.php - ")),
            ("GET", "/admin", Err((301, ""))),
            ("GET", "/empty/", Ok("/index.php - ")),
            ("GET", "/style.css", Err((200, "p {}"))),
            ("POST", "/style.css", Err((405, ""))),
            // The file is no script, and what is named like one does not exist.
            ("GET", "/upload/image.jpg", Err((200, "evil"))),
            ("GET", "/upload/image.jpg/x.php", Ok("/index.php - ")),
            ("GET", "/upload/image.jpg%00.php", Ok("/index.php - ")),
            ("GET", "/none.php", Ok("/index.php - ")),
        ],
    );
}

#[test]
fn without_a_front_controller_only_what_exists_is_run() {
    check(
        "fastcgi = { root = \"site\" }",
        &[
            ("GET", "/", Ok("/index.php - ")),
            ("GET", "/admin/", Ok("/admin/index.php - ")),
            ("GET", "/about.php/info", Ok("/about.php /info ")),
            ("GET", "/style.css", Err((404, ""))),
            ("GET", "/none.php", Err((404, ""))),
            ("GET", "/upload/image.jpg/x.php", Err((404, ""))),
            ("GET", "/upload/image.jpg/.php", Err((404, ""))),
            ("POST", "/upload/", Err((404, ""))),
            ("GET", "/..%2fabout.php", Err((404, ""))),
        ],
    );
}

#[test]
fn what_follows_a_script_may_have_encoded_slashes() {
    check(
        "files = { root = \"site\", try_files = [\"{path}\", \"/index.php{path}\"] }",
        &[
            ("GET", "/a/b", Ok("/index.php /a/b ")),
            ("GET", "/a%2Fb/c?d", Ok("/index.php /a/b/c d")),
            ("GET", "/about.php/a%2Fb", Ok("/about.php /a/b ")),
            ("GET", "/none.php/a%2Fb", Ok("/index.php /none.php/a/b ")),
            ("GET", "/style.css", Err((200, "p {}"))),
            ("GET", "/style.css%2Fx", Ok("/index.php /style.css/x ")),
            ("GET", "/a%2F..%2Fb", Err((404, ""))),
            ("GET", "/a%2F%00", Err((404, ""))),
            ("GET", "/upload%2Fimage.jpg", Ok("/index.php /upload/image.jpg ")),
        ],
    );
}

#[test]
fn one_script_may_take_everything_else() {
    check(
        "fastcgi = { root = \"site\", script = \"/index.php\" }",
        &[
            ("GET", "/about.php", Ok("/about.php - ")),
            ("GET", "/a/b?c", Ok("/index.php - c")),
            ("GET", "/style.css", Ok("/index.php - ")),
            ("GET", "/upload/image.jpg/x.php", Ok("/index.php - ")),
        ],
    );
}

#[test]
fn an_application_has_no_scripts() {
    check(
        "fastcgi = { script = \"\" }",
        &[
            ("GET", "/", Ok(" / ")),
            ("GET", "/a/b%20c/?d", Ok(" /a/b c/ d")),
            ("POST", "/x.php", Ok(" /x.php ")),
        ],
    );
}

#[test]
fn scripts_on_another_machine_are_taken_by_their_names() {
    check(
        "fastcgi = { root = \"/nowhere\", check_script = false }",
        &[
            ("GET", "/any.php/x", Ok("/any.php /x ")),
            ("GET", "/folder/", Ok("/folder/index.php - ")),
            ("GET", "/style.css", Err((404, ""))),
        ],
    );
}

#[test]
fn below_a_prefix_clients_see_the_whole_path() {
    check(
        "path = \"/blog\"\nstrip_prefix = true\nfiles = { root = \"site\", try_files = [\"{path}\", \"/index.php\"] }",
        &[
            ("GET", "/blog/about.php/x", Ok("/blog/about.php /x ")),
            ("GET", "/blog/a/post", Ok("/blog/index.php - ")),
            ("GET", "/blog/", Ok("/blog/index.php - ")),
            ("GET", "/blog/style.css", Err((200, "p {}"))),
        ],
    );
}

#[test]
fn explain_says_which_scripts_are_run() {
    let folder = super::site();
    let file = folder.path().join("weir.toml");
    let text = "[listener.web]\naddress = \":80\"\n[[listener.web.route]]\nupstream = \"php\"\nROUTE\n\
                [upstream.php]\nprotocol = \"fastcgi\"\nservers = [\"127.0.0.1:9000\"]\n";
    for (route, expected) in [
        (
            "files = { root = \"site\", try_files = [\"{path}\", \"/index.php\"] }",
            &[
                "tried      {path}, /index.php",
                "files that end with .php below ",
                "run by upstream php",
                "404; 405",
            ][..],
        ),
        (
            "fastcgi = { root = \"/srv\", check_script = false, script = \"/index.php\" }",
            &[
                "below /srv; not looked up first; /index.php for requests that name none",
                "FastCGI; a connection is opened for each request",
            ],
        ),
        ("fastcgi = { script = \"\" }", &["the program gets the path of requests that name none"]),
    ] {
        std::fs::write(&file, text.replace("ROUTE", route)).expect("the folder takes a file");
        let explained = run(&["explain", file.to_str().expect("it is text"), "http://a.test/a/b"]);
        for part in expected {
            assert!(explained.stdout.contains(part), "{part} for {route}:\n{}", explained.text());
        }
    }
}
