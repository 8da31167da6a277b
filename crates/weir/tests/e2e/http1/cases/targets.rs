//! Rows 27 to 34: Host, the forms of the target, its bytes, the version, and other protocols on this port.

use super::{BAD_REQUEST, Case, Forwarded, Want, case, forwarded_get, judge};

/// Row 27.
#[test]
fn rejects_a_host_that_is_missing_repeated_or_malformed() {
    let mut cases = vec![
        case(27, "no Host in 1.1", "GET / HTTP/1.1\r\n\r\n", BAD_REQUEST),
        case(27, "no Host in 1.1, other fields", "GET / HTTP/1.1\r\nX: y\r\n\r\n", BAD_REQUEST),
        case(27, "two Host lines", "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", BAD_REQUEST),
        case(
            27,
            "two equal Host lines",
            "GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
            BAD_REQUEST,
        ),
        case(
            27,
            "two Host lines apart",
            "GET / HTTP/1.1\r\nHost: a.test\r\nX: y\r\nhost: b.test\r\n\r\n",
            BAD_REQUEST,
        ),
        case(27, "an empty Host", "GET / HTTP/1.1\r\nHost: \r\n\r\n", BAD_REQUEST),
        case(27, "an empty Host in 1.0", "GET / HTTP/1.0\r\nHost:\r\n\r\n", BAD_REQUEST),
    ];
    let bad = [
        "a, b",
        "a/b",
        "u@a",
        "a.test:99999",
        "a.test:-1",
        "a.test:x",
        "a.test:80:80",
        "[::1",
        "::1",
        "[::1]x",
        "[zz]",
        "a b",
        "a\\b",
        "a?b",
        "a#b",
        "<a>",
        "a\"b",
        "http://a.test",
        "a.test:+80",
    ];
    cases.extend(bad.iter().map(|host| {
        case(27, format!("Host `{host}`"), format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), BAD_REQUEST)
    }));
    let good = [
        "a.test",
        "a.test:8080",
        "127.0.0.1",
        "127.0.0.1:80",
        "[::1]",
        "[::1]:8080",
        "A-b_c.test",
        "xn--bcher-kva.test",
    ];
    cases.extend(good.iter().map(|host| {
        let line = format!("Host: {host}");
        let want = Want::Forwarded(forwarded_get("/", &[&line]));
        case(27, format!("Host `{host}` is fine"), format!("GET / HTTP/1.1\r\n{line}\r\n\r\n"), want)
    }));
    judge(&cases);
}

/// Rows 28 and 29.
#[test]
fn sends_absolute_form_by_its_own_authority() {
    let to_a = |target: &str| Want::Either(&[400], forwarded_get(target, &["Host: a.test"]));
    let with_host_b = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: b.test\r\n\r\n");
    let mut cases = vec![
        case(28, "Host differs", with_host_b("http://a.test/"), to_a("/")),
        case(28, "Host differs, path and query", with_host_b("http://a.test/p?q=1"), to_a("/p?q=1")),
        case(28, "no path", with_host_b("http://a.test"), to_a("/")),
        case(28, "no path but a query", with_host_b("http://a.test?q=1"), to_a("/?q=1")),
        case(28, "upper-case scheme", "GET HTTP://a.test/p HTTP/1.1\r\nHost: a.test\r\n\r\n", to_a("/p")),
        case(
            28,
            "same Host",
            "GET http://a.test/p HTTP/1.1\r\nHost: a.test\r\n\r\n",
            Want::Forwarded(forwarded_get("/p", &["Host: a.test"])),
        ),
        case(28, "no Host at all", "GET http://a.test/p HTTP/1.1\r\n\r\n", BAD_REQUEST),
    ];
    let bad = [
        "ftp://a.test/",
        "ws://a.test/",
        "file:///etc/passwd",
        "http:///p",
        "http://",
        "http:a.test",
        "http:/p",
        "http://u@a.test/",
        "http://u:p@a.test/",
        "http://a.test:99999/",
        "http://a,b/",
        "http://[::1/",
        "://a.test/",
        "http//a.test/",
    ];
    cases.extend(bad.iter().map(|target| case(29, format!("`{target}`"), with_host_b(target), BAD_REQUEST)));
    judge(&cases);
}

/// Row 30.
#[test]
fn rejects_target_forms_that_do_not_fit_the_method() {
    let star = Forwarded {
        start_line: "OPTIONS * HTTP/1.1".to_owned(),
        fields: vec!["Host: a.test".to_owned()],
        ..Forwarded::default()
    };
    judge(&[
        case(30, "OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", Want::Forwarded(star)),
        case(30, "GET *", "GET * HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(30, "OPTIONS *x", "OPTIONS *x HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(
            30,
            "CONNECT",
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
            Want::Refused(&[405, 501]),
        ),
        case(
            30,
            "CONNECT with bytes behind it",
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            Want::Refused(&[405, 501]),
        ),
        case(30, "authority-form GET", "GET a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(30, "GET of a bare word", "GET p HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(30, "GET of a query alone", "GET ?q=1 HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
    ]);
}

/// Rows 31 and 32.
#[test]
fn encodes_or_rejects_unsafe_bytes_and_forwards_normal_paths() {
    let get = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
    let bad: &[(&str, &[u8])] = &[
        ("fragment", b"/a#frag"),
        ("fragment in the query", b"/a?b#frag"),
        ("SP", b"/a b"),
        ("two SP before the version", b"/a "),
        ("HTAB", b"/a\tb"),
        ("DEL", b"/a\x7fb"),
        ("0x01", b"/a\x01b"),
        ("percent without digits", b"/a%"),
        ("percent with other bytes", b"/a%zz"),
        ("empty", b""),
    ];
    let mut cases: Vec<Case> =
        bad.iter().map(|(variant, target)| case(31, *variant, get(target), BAD_REQUEST)).collect();
    let encoded: &[(&str, &[u8], &str)] = &[
        ("quote", b"/a\"b?\"", "/a%22b?%22"),
        ("less-than", b"/a<b", "/a%3Cb"),
        ("greater-than", b"/a>b", "/a%3Eb"),
        ("raw UTF-8", "/café".as_bytes(), "/caf%C3%A9"),
        ("raw Latin-1", b"/caf\xe9", "/caf%E9"),
        ("braces", b"/{a}?{b}", "/%7Ba%7D?%7Bb%7D"),
        ("bar, circumflex and backquote", b"/a|b?^`", "/a%7Cb?%5E%60"),
    ];
    cases.extend(encoded.iter().map(|(variant, target, normal)| {
        let want = Want::Forwarded(forwarded_get(normal, &["Host: a.test"]));
        case(31, format!("{variant} is encoded"), get(target), want)
    }));
    let normal = [
        ("/a/../b", "/b"),
        ("/../../etc/passwd", "/etc/passwd"),
        ("/a/./b", "/a/b"),
        ("/a/%2e%2e/b", "/b"),
        ("/a/%2E%2E/b", "/b"),
        ("//x", "/x"),
        ("//x//y", "/x/y"),
        ("/a%2fb", "/a%2Fb"),
        ("/a\\b", "/a%5Cb"),
    ];
    cases.extend(normal.iter().map(|(target, normal)| {
        let want = Want::Forwarded(forwarded_get(normal, &["Host: a.test"]));
        case(32, format!("`{target}` goes on in its normal form"), get(target.as_bytes()), want)
    }));
    let same = [
        "/a;/..;/b",
        "/a%2Fb",
        "/a%00b",
        "/a%5Cb",
        "/%252e%252e/",
        "/?a=b&c=/../d",
        "/a?b?c",
        "/a:b@c",
        "/~a!$&'()*+,;=-._",
    ];
    cases.extend(same.iter().map(|target| {
        let want = Want::Forwarded(forwarded_get(target, &["Host: a.test"]));
        case(32, format!("`{target}` goes on as it stands"), get(target.as_bytes()), want)
    }));
    judge(&cases);
}

/// Row 33.
#[test]
fn rejects_other_versions_and_malformed_request_lines() {
    let refused = Want::Refused(&[400, 505]);
    let mut cases = vec![
        case(33, "HTTP/0.9", "GET /\r\n", refused.clone()),
        case(33, "HTTP/0.9 with fields", "GET /\r\nHost: a.test\r\n\r\n", refused.clone()),
    ];
    let versions = [
        "HTTP/9.9",
        "HTTP/2.0",
        "HTTP/0.9",
        "http/1.1",
        "HTTP/1.1x",
        "HTTP/01.1",
        "HTTP/1.01",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/11",
        "HTTP /1.1",
        "HTTP/ 1.1",
        "HTP/1.1",
        "HTTPS/1.1",
        "HTTP/1.1 ",
        "HTTP/1,1",
        "ICAP/1.0",
        "RTSP/1.0",
    ];
    cases.extend(versions.iter().map(|version| {
        case(33, format!("`{version}`"), format!("GET / {version}\r\nHost: a.test\r\n\r\n"), refused.clone())
    }));
    let later = Want::Forwarded(forwarded_get("/", &["Host: a.test"]));
    cases.push(case(33, "a later minor version", "GET / HTTP/1.2\r\nHost: a.test\r\n\r\n", later));
    cases.push(case(33, "no target and no version", "GET\r\nHost: a.test\r\n\r\n", BAD_REQUEST));
    cases.push(case(33, "no method", "/ HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST));
    cases.push(case(33, "method that is no token", "GE(T / HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST));
    cases.push(case(33, "two SP after the method", "GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST));
    cases.push(case(33, "HTAB after the method", "GET\t/ HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST));
    judge(&cases);
}

/// Row 34.
#[test]
fn rejects_other_protocols_at_once() {
    let client_hello: &[u8] = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03abcdefghijklmnopqrstuvwxyz012345\x00\x00\x02\x13\x01\x01\x00\x00\x00";
    judge(&[
        case(
            34,
            "HTTP/2 preface",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            Want::Refused(&[400, 505]),
        ),
        case(34, "TLS ClientHello", client_hello, BAD_REQUEST),
        case(34, "TLS record header and no more", &client_hello[..6], BAD_REQUEST),
        case(34, "SSH banner", "SSH-2.0-OpenSSH_9.2\r\n", BAD_REQUEST),
    ]);
}
