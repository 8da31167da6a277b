//! The targets of requests in all forms, and hosts.
//!
//! The numbers group rows by attack and are the same in the end-to-end tests.

use weir_http::{EncodedSlashRule, HeadLimits, PathRules, Rule, TargetForm, TextSpan, Version};

use crate::outcome::{assert_accepted, assert_refused, get_target, outcome, parse};

/// Form, path, query, host and port of an accepted request line.
type Target<'a> = (TargetForm, &'a str, Option<&'a str>, &'a str, Option<u16>);

#[test]
fn refused_targets() {
    let rows: &[(u32, &str, Rule)] = &[
        (3, "/a\0b", Rule::NulByte),
        (29, "ftp://a/", Rule::BadScheme),
        (29, "ws://a/", Rule::BadScheme),
        (29, "http:///", Rule::BadHost),
        (29, "http://", Rule::BadHost),
        (29, "http://?x", Rule::BadHost),
        (29, "http://u@a/", Rule::BadHost),
        (29, "http://u:p@a/", Rule::BadHost),
        (29, "http://a:0/", Rule::BadHost),
        (29, "http://:80/", Rule::BadHost),
        (29, "http:/a", Rule::BadTarget),
        (29, "://a/", Rule::BadTarget),
        (29, "1http://a/", Rule::BadTarget),
        (30, "*", Rule::BadTarget),
        (30, "a:80", Rule::BadTarget),
        (30, "a", Rule::BadTarget),
        (30, "?x", Rule::BadTarget),
        (31, "/#frag", Rule::BadTarget),
        (31, "/a b", Rule::BadRequestLine),
        (31, "/a\"b", Rule::BadTarget),
        (31, "/a<b", Rule::BadTarget),
        (31, "/a>b", Rule::BadTarget),
        (31, "/a\\b", Rule::BadTarget),
        (31, "/a^b", Rule::BadTarget),
        (31, "/a`b", Rule::BadTarget),
        (31, "/a?{b}", Rule::BadTarget),
        (31, "/a?b|c", Rule::BadTarget),
        (31, "/caf\u{e9}", Rule::BadTarget),
        (31, "/\x7f", Rule::BadTarget),
        (31, "/?q=\x7f", Rule::BadTarget),
        (31, "/a\tb", Rule::BadRequestLine),
        (31, "/\x01", Rule::BadTarget),
        (32, "/%", Rule::BadTarget),
        (32, "/%4", Rule::BadTarget),
        (32, "/%zz", Rule::BadTarget),
        (32, "/%%41", Rule::BadTarget),
    ];
    for (group, target, rule) in rows {
        assert_refused(*group, &get_target(target), *rule);
    }
    let rows: &[(u32, &str, Rule)] = &[
        (30, "OPTIONS *a HTTP/1.1", Rule::BadTarget),
        (30, "CONNECT / HTTP/1.1", Rule::BadHost),
        (30, "CONNECT a HTTP/1.1", Rule::BadTarget),
        (30, "CONNECT a: HTTP/1.1", Rule::BadTarget),
        (30, "CONNECT u@a:443 HTTP/1.1", Rule::BadHost),
        (30, "CONNECT http://a:443 HTTP/1.1", Rule::BadHost),
        (30, "CONNECT :443 HTTP/1.1", Rule::BadHost),
    ];
    for (group, line, rule) in rows {
        assert_refused(*group, format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), *rule);
    }
}

#[test]
fn accepted_targets() {
    use TargetForm::{Absolute, Asterisk, Authority, Origin};
    let long = format!("/{}", "a".repeat(7_950));
    let rows: &[(u32, &str, Target<'_>)] = &[
        (0, "GET /", (Origin, "/", None, "b", Some(81))),
        (0, "GET /?", (Origin, "/", Some(""), "b", Some(81))),
        (0, "GET /a?b?c", (Origin, "/a", Some("b?c"), "b", Some(81))),
        (0, "GET /a?100%&x=[1]", (Origin, "/a", Some("100%&x=[1]"), "b", Some(81))),
        (0, "get /~a:@!$&'()*+,;=", (Origin, "/~a:@!$&'()*+,;=", None, "b", Some(81))),
        (28, "GET http://a/", (Absolute, "/", None, "a", None)),
        (28, "GET http://a", (Absolute, "/", None, "a", None)),
        (28, "GET HTTPS://a:444/x?y", (Absolute, "/x", Some("y"), "a", Some(444))),
        (28, "GET http://a?y", (Absolute, "/", Some("y"), "a", None)),
        (28, "GET http://[::1]:8080/", (Absolute, "/", None, "[::1]", Some(8080))),
        (28, "GET http://a:/", (Absolute, "/", None, "a", None)),
        (28, "GET http://a/http://c/", (Absolute, "/http://c/", None, "a", None)),
        (30, "OPTIONS *", (Asterisk, "*", None, "b", Some(81))),
        (30, "OPTIONS http://a:1", (Absolute, "/", None, "a", Some(1))),
        (30, "CONNECT a:443", (Authority, "", None, "a", Some(443))),
        (30, "CONNECT [2001:db8::1]:443", (Authority, "", None, "[2001:db8::1]", Some(443))),
        (32, "GET /a/../b", (Origin, "/a/../b", None, "b", Some(81))),
        (32, "GET /a/%2e%2E/b", (Origin, "/a/%2e%2E/b", None, "b", Some(81))),
        (32, "GET //x", (Origin, "//x", None, "b", Some(81))),
        (32, "GET /a;/..;/b", (Origin, "/a;/..;/b", None, "b", Some(81))),
        (32, "GET /%2F", (Origin, "/%2F", None, "b", Some(81))),
        (32, "GET /%00", (Origin, "/%00", None, "b", Some(81))),
        (32, "GET //a/x?http://c", (Origin, "//a/x", Some("http://c"), "b", Some(81))),
        (47, &format!("GET {long}"), (Origin, &long, None, "b", Some(81))),
    ];
    for (group, line, expected) in rows {
        let bytes = format!("{line} HTTP/1.1\r\nHost: b:81\r\n\r\n").into_bytes();
        let head = assert_accepted(*group, &bytes);
        let text = |span: TextSpan| std::str::from_utf8(span.of(head.text(&bytes))).unwrap();
        let found =
            (head.target_form(), text(head.path()), head.query().map(text), text(head.host()), head.port());
        assert_eq!(found, *expected, "group {group}: {line}");
        assert_eq!(text(head.target()), line.split_once(' ').unwrap().1);
        assert_eq!(text(head.method_span()), line.split_once(' ').unwrap().0);
    }
}

#[test]
fn encoded_nul_is_refused_by_option() {
    let limits = HeadLimits { refuse_encoded_nul: true, ..HeadLimits::default() };
    assert_eq!(outcome(&parse(&get_target("/a%00"), &limits)), Err(Rule::BadTarget));
    assert!(parse(&get_target("/a%20"), &limits).is_ok());
    assert!(parse(&get_target("/a?%00"), &limits).is_ok());
}

#[test]
fn paths_have_a_normal_form() {
    let rows: &[(&str, &str)] = &[
        ("/", "/"),
        ("/a?b=/../c//d", "/a"),
        ("//admin?x", "/admin"),
        ("/x/../admin", "/admin"),
        ("/%61dmin", "/admin"),
        ("/a/%2e%2e/%2E%2e/admin", "/admin"),
        ("/a%2fb", "/a%2Fb"),
        ("http://a//x/./%41", "/x/A"),
        ("http://a?/../", "/"),
        ("/.hidden", "/.hidden"),
    ];
    for (target, normal) in rows {
        let bytes = get_target(target);
        let head = assert_accepted(32, &bytes);
        let path = head.path().of(&bytes);
        assert_eq!(head.normal_path(&bytes), normal.as_bytes(), "{target}");
        assert_eq!(head.is_path_normal(), path == normal.as_bytes(), "{target}");
        let paths = PathRules { refuse_other_forms: true, ..PathRules::default() };
        let refused = (path != normal.as_bytes()).then_some(Rule::PathNotNormal);
        let limits = HeadLimits { paths, ..HeadLimits::default() };
        assert_eq!(outcome(&parse(&bytes, &limits)).err(), refused, "{target}");
    }
    let paths = |encoded_slash| PathRules { encoded_slash, refuse_other_forms: false };
    let refuse = HeadLimits { paths: paths(EncodedSlashRule::Refuse), ..HeadLimits::default() };
    for target in ["/a%2Fb", "/a%2fb", "http://a/%2F"] {
        assert_eq!(outcome(&parse(&get_target(target), &refuse)), Err(Rule::EncodedSlash), "{target}");
    }
    assert!(parse(&get_target("/a%20b?%2F"), &refuse).is_ok());
    let decode = HeadLimits { paths: paths(EncodedSlashRule::Decode), ..HeadLimits::default() };
    let bytes = get_target("/a%2f..%2Fb%252f");
    assert_eq!(parse(&bytes, &decode).unwrap().0.normal_path(&bytes), b"/b%252f");
}

#[test]
fn hosts() {
    let refused = [
        "a, b",
        "a,b",
        "a/b",
        "u@a",
        "a:99999",
        "a:65536",
        "a:0",
        "a:080",
        "a:+1",
        "a:1:2",
        "a b",
        ":80",
        "[::1",
        "[::1]x",
        "::1",
        "[::g]",
        "[fe80::1%25eth0]",
        "[1.2.3.4]",
        "[v.a]",
        "[v1.]",
        "[v1]",
        "[vg.a]",
        "[v1.a b]",
        "[v1.a,b]",
        "[v1.a/b]",
        "a%zz",
        "a%4",
        "a\\b",
        "a?b",
        "caf\u{e9}",
        "\"a\"",
        "[]",
        "a:http",
    ];
    for host in refused {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_refused(27, bytes.as_bytes(), Rule::BadHost);
    }
    let accepted: &[(&str, &str, Option<u16>)] = &[
        ("a", "a", None),
        ("example.com:8080", "example.com", Some(8080)),
        ("a:", "a", None),
        ("a:65535", "a", Some(65535)),
        ("a:1", "a", Some(1)),
        ("1.2.3.4:80", "1.2.3.4", Some(80)),
        ("[::1]", "[::1]", None),
        ("[v1.fe80::a+en1]", "[v1.fe80::a+en1]", None),
        ("[VF.x]:80", "[VF.x]", Some(80)),
        ("[::ffff:1.2.3.4]:80", "[::ffff:1.2.3.4]", Some(80)),
        ("under_score.example", "under_score.example", None),
        ("a%41", "a%41", None),
        ("xn--caf-dma.example.", "xn--caf-dma.example.", None),
    ];
    for (authority, host, port) in accepted {
        let bytes = format!("GET / HTTP/1.1\r\nHost:  {authority} \r\n\r\n").into_bytes();
        let head = assert_accepted(27, &bytes);
        assert_eq!(head.authority().of(&bytes), authority.as_bytes());
        assert_eq!((head.host().of(&bytes), head.port()), (host.as_bytes(), *port));
    }
    assert_refused(27, b"GET / HTTP/1.1\r\n\r\n", Rule::MissingHost);
    assert_refused(27, b"GET http://a/ HTTP/1.1\r\n\r\n", Rule::MissingHost);
    for line in ["GET / HTTP/1.1", "GET / HTTP/1.0", "OPTIONS * HTTP/1.1"] {
        assert_refused(27, format!("{line}\r\nHost: \r\n\r\n").as_bytes(), Rule::EmptyHost);
    }
    let head = assert_accepted(27, b"GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n");
    assert_eq!(head.authority().len, 1, "the target says it");
    assert_refused(27, b"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", Rule::BadHost);
    assert_refused(27, b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Rule::DuplicateHost);
    let head = assert_accepted(27, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!((head.authority().len, head.port(), head.version()), (0, None, Version::Http10));
}
