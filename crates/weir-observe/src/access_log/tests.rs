//! Whole lines of every format, and that no peer can break one.

use std::net::SocketAddr;

use proptest::prelude::*;
use weir_http::Rule;

use super::*;
use crate::failure::{Cause, Failure, Party};
use crate::words::affinity::AffinityOutcome;
use crate::words::phase::{Phase, PhaseTimes};

/// Fields of request and response, as a list each.
#[derive(Default)]
struct TestFields {
    request: Vec<(&'static str, Vec<u8>)>,
    response: Vec<(&'static str, Vec<u8>)>,
}

impl FieldSource for TestFields {
    fn request_field(&self, name: &str) -> Option<&[u8]> {
        self.request.iter().find(|(field, _)| *field == name).map(|(_, value)| &value[..])
    }

    fn response_field(&self, name: &str) -> Option<&[u8]> {
        self.response.iter().find(|(field, _)| *field == name).map(|(_, value)| &value[..])
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        (name == "id").then_some(b"7 \"of\" 9")
    }

    fn query_parameter(&self, name: &str) -> Option<&[u8]> {
        (name == "q").then_some(b"a%20b")
    }
}

fn browser() -> TestFields {
    TestFields {
        request: vec![
            ("user-agent", b"Mozilla/5.0 (\"X11\")".to_vec()),
            ("referer", b"http://a.example/".to_vec()),
        ],
        response: vec![("content-type", b"text/html".to_vec())],
    }
}

fn addr(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

fn phases(times: &[(Phase, u64)]) -> PhaseTimes {
    let mut phases = PhaseTimes::ZERO;
    for (phase, micros) in times {
        phases.add(*phase, *micros);
    }
    phases
}

/// An exchange that went well, on its second attempt.
fn good(fields: &TestFields) -> ExchangeRecord<'_> {
    ExchangeRecord {
        time: UnixMicros(971_186_136_123_456),
        listener: "web",
        client: addr("203.0.113.7:49152"),
        peer: addr("10.1.1.1:1024"),
        local: addr("[2001:db8::1]:443"),
        exchange_number: 3,
        method: b"GET",
        target: b"/search?q=a%20b",
        version: b"HTTP/1.1",
        host: b"www.example",
        authority: b"www.example:8443",
        scheme: "https",
        path: b"/search",
        request_id: b"01J9ZK",
        trace_id: b"4bf92f3577b34da6a3ce929d0e0e4736",
        user: b"",
        auth: None,
        cache: None,
        cache_reason: None,
        fields,
        status: Some(200),
        grpc_status: None,
        failure: None,
        bytes_in: 300,
        bytes_out: 2_750,
        body_bytes_in: 0,
        body_bytes_out: 2_326,
        compression: Some("br"),
        body_bytes_uncompressed: Some(7_815),
        route: "search",
        upstream: "api",
        server: "10.0.0.1:80",
        attempts: 2,
        reused: Some(true),
        tag: b"",
        limit: "",
        queue_position: 4,
        content_length: Some(9),
        kept: Some(AffinityOutcome::Moved),
        tls: Some(TlsRecord {
            early: true,
            round_trip_micros: Some(12_500),
            version: "1.3",
            cipher_suite: "TLS_AES_128_GCM_SHA256",
            server_name: "www.example",
            resumed: true,
            client_subject: "CN=ann",
            client_fingerprint: "9f86",
        }),
        ended_by: Some(Party::Client),
        phases: phases(&[
            (Phase::Accept, 900),
            (Phase::Request, 10_500),
            (Phase::Queue, 7_000),
            (Phase::Connect, 30_999),
            (Phase::Send, 1_000),
            (Phase::Response, 68_000),
            (Phase::Relay, 2_000),
        ]),
        load: OpenConnections { process: 9, listener: 8, upstream: 7, server: 6 },
    }
}

/// A request that could not be read.
fn bad() -> ExchangeRecord<'static> {
    ExchangeRecord {
        time: UnixMicros(971_186_136_123_456),
        listener: "web",
        client: addr("203.0.113.7:49152"),
        status: Some(400),
        failure: Some(Failure::client(Phase::Request, Cause::Rule(Rule::BareLf))),
        phases: phases(&[(Phase::Request, 5_000)]),
        ..ExchangeRecord::default()
    }
}

fn line(format: &str, record: &ExchangeRecord<'_>) -> String {
    let mut out = Vec::new();
    LogTemplate::parse(format).expect(format).render(record, &mut out);
    String::from_utf8(out).expect("a line is valid UTF-8")
}

/// HAProxy 2.6, `option tcplog`: `%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq`.
#[test]
fn httplog_of_connections_is_tcplog() {
    let fields = browser();
    let good = ExchangeRecord { method: b"", target: b"", version: b"", status: None, ..good(&fields) };
    let cut = ExchangeRecord { failure: Some(Failure::server(Phase::Relay, Cause::Reset)), ..good };
    let refused = ExchangeRecord {
        failure: Some(Failure::server(Phase::Connect, Cause::Refused)),
        phases: phases(&[(Phase::Connect, 5_000)]),
        ..good
    };
    let format = LogTemplate::parse("httplog").unwrap().of_connections();
    for (record, end) in [
        (good, "7/30/120 2750 -- 9/8/7/6/1 0/4"),
        (cut, "7/30/120 2750 SD 9/8/7/6/1 0/4"),
        (refused, "0/-1/5 2750 SC 9/8/7/6/1 0/4"),
    ] {
        let mut out = Vec::new();
        format.render(&record, &mut out);
        let start = "203.0.113.7:49152 [10/Oct/2000:13:55:36.123] web api/10.0.0.1:80 ";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{start}{end}\n"));
    }
    let own = LogTemplate::parse("{status} {listener}").unwrap();
    assert_eq!(own.of_connections(), own);
}

#[test]
fn named_formats_are_rendered_to_the_letter() {
    let fields = browser();
    let good = good(&fields);
    let failed = ExchangeRecord {
        status: None,
        failure: Some(Failure::client(Phase::Response, Cause::Reset)),
        client: addr("[2001:db8::7]:5000"),
        ..good
    };
    let cases = [
        (
            "common",
            good,
            r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /search?q=a%20b HTTP/1.1" 200 2326"#,
        ),
        ("common", bad(), r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "-" 400 0"#),
        (
            "combined",
            good,
            r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /search?q=a%20b HTTP/1.1" 200 2326 "http://a.example/" "Mozilla/5.0 (\x22X11\x22)""#,
        ),
        ("combined", bad(), r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "-" 400 0 "-" "-""#),
        (
            "httplog",
            good,
            r#"203.0.113.7:49152 [10/Oct/2000:13:55:36.123] web api/10.0.0.1:80 10/7/30/69/119 200 2750 - - ---- 9/8/7/6/1 0/4 "GET /search?q=a%20b HTTP/1.1""#,
        ),
        (
            "httplog",
            failed,
            r#"2001:db8::7:5000 [10/Oct/2000:13:55:36.123] web api/10.0.0.1:80 10/7/30/-1/119 499 2750 - - CH-- 9/8/7/6/1 0/4 "GET /search?q=a%20b HTTP/1.1""#,
        ),
        (
            "httplog",
            bad(),
            r#"203.0.113.7:49152 [10/Oct/2000:13:55:36.123] web web/<NOSRV> -1/-1/-1/-1/5 400 0 - - PR-- 0/0/0/0/0 0/0 "<BADREQ>""#,
        ),
        (
            "json",
            good,
            r#"{"time":"2000-10-10T13:55:36.123456Z","listener":"web","client_address":"203.0.113.7","client_port":49152,"local_address":"2001:db8::1","local_port":443,"request_id":"01J9ZK","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","method":"GET","host":"www.example","target":"/search?q=a%20b","version":"HTTP/1.1","user_agent":"Mozilla/5.0 (\"X11\")","referer":"http://a.example/","status":200,"status_sent":200,"bytes_in":300,"bytes_out":2750,"body_bytes_in":0,"body_bytes_out":2326,"route":"search","upstream":"api","server":"10.0.0.1:80","attempts":2,"retries":1,"server_connection":"reused","queue_position":4,"affinity":"moved","duration":120399,"phase.accept":900,"phase.tls":0,"phase.request":10500,"phase.route":0,"phase.queue":7000,"phase.connect":30999,"phase.send":1000,"phase.response":68000,"phase.relay":2000,"phase.finish":0,"reason":null,"failure.phase":null,"failure.party":null,"failure.cause":null,"termination":"----"}"#,
        ),
    ];
    for (format, record, expected) in cases {
        assert_eq!(line(format, &record), format!("{expected}\n"), "{format}");
    }
}

#[test]
fn every_placeholder_has_its_value() {
    let fields = browser();
    let good = good(&fields);
    let cases = [
        ("{time}", "2000-10-10T13:55:36.123456Z"),
        ("{time.seconds} {time.us}", "971186136.123456 971186136123456"),
        ("{peer_address} {peer_port}", "10.1.1.1 1024"),
        ("{connection_requests} {path} {query}", r"3 /search ?q=a%20b"),
        ("{scheme} {authority} {host}", "https www.example:8443 www.example"),
        ("{args} {port}", "q=a%20b 8443"),
        ("{query.q} {query.none} {cookie.id} {cookie.none}", r"a%20b - 7\x20\x22of\x22\x209 -"),
        (
            "{host} {request_id} {trace_id} {route}",
            "www.example 01J9ZK 4bf92f3577b34da6a3ce929d0e0e4736 search",
        ),
        ("{duration} {duration.ms} {duration.seconds}", "120399 120 0.120399"),
        ("{phase.connect}us", "30999us"),
        ("{header.User-Agent}", r"Mozilla/5.0\x20(\x22X11\x22)"),
        ("{response.header.content-type} {response.header.x}", "text/html -"),
        ("{request_line}", r"GET\x20/search?q=a%20b\x20HTTP/1.1"),
        ("{load.process},{load.listener},{load.upstream},{load.server}", "9,8,7,6"),
        ("{{{status}}} {{}}", "{200} {}"),
        ("{reason} {failure}", "- -"),
        ("{compression} {compression.ratio}", "br 3.35"),
        (
            "json {duration.seconds}, {request_line} {client_port}",
            r#"{"duration.seconds":0.120399,"request_line":"GET /search?q=a%20b HTTP/1.1","client_port":49152}"#,
        ),
    ];
    for (format, expected) in cases {
        assert_eq!(line(format, &good), format!("{expected}\n"), "{format}");
    }
    let format = "{reason} {failure} {failure.phase} {failure.party} {failure.cause} {server_connection} {query} {status_sent}";
    assert_eq!(line(format, &bad()), "bare-lf request/client/bare-lf request client bare-lf - - 400\n");
    assert_eq!(line("{client_address}:{client_port}", &ExchangeRecord::default()), "unix:-\n");
    let new = ExchangeRecord { reused: Some(false), ..good };
    assert_eq!(line("{server_connection}", &new), "new\n");
    let empty = ExchangeRecord { body_bytes_out: 0, ..good };
    assert_eq!(line("{compression.ratio}", &empty), "-\n");
    let plain = ExchangeRecord { compression: None, body_bytes_uncompressed: None, ..good };
    assert_eq!(line("{compression} {compression.ratio}", &plain), "- -\n");
    assert_eq!(line("{tls.client.subject} {tls.client.fingerprint}", &good), "CN=ann 9f86\n");
    let tls = "{tls.version} {tls.cipher_suite} {tls.server_name} {tls.session}";
    assert_eq!(line(tls, &bad()), "- - - -\n");
}

#[test]
fn every_listed_placeholder_is_understood_and_never_blank() {
    let fields = browser();
    for (name, meaning) in LogTemplate::placeholders() {
        let name = name.replace("NAME", "x-test");
        assert!(meaning.ends_with('.'), "{name}: {meaning}");
        for record in [good(&fields), bad(), ExchangeRecord::default()] {
            let text = line(&format!("{{{name}}}"), &record);
            assert!(text.len() > 1, "{name} is blank");
            let json: serde_json::Value =
                serde_json::from_str(&line(&format!("json {{{name}}}"), &record)).unwrap();
            assert!(json.get(&name).is_some(), "{name} is not a key");
        }
    }
}

#[test]
fn mistakes_are_reported_with_column_and_hint() {
    let cases: &[(&str, usize, &str, Option<&str>)] = &[
        (
            "",
            1,
            "the format has no placeholder",
            Some("write for example `{client_address} {method} {target} {status}`"),
        ),
        ("combind", 1, "the format has no placeholder", Some("did you mean `combined`?")),
        (
            "{{status}}",
            1,
            "the format has no placeholder",
            Some("write for example `{client_address} {method} {target} {status}`"),
        ),
        ("{method} {statsu}", 10, "there is no placeholder `statsu`", Some("did you mean `{status}`?")),
        (
            "é {client_adress}",
            3,
            "there is no placeholder `client_adress`",
            Some("did you mean `{client_address}`?"),
        ),
        (
            "{phase.conect}",
            1,
            "there is no placeholder `phase.conect`",
            Some("did you mean `{phase.connect}`?"),
        ),
        (
            "{quite something else entirely}",
            1,
            "there is no placeholder `quite something else entirely`",
            None,
        ),
        ("{}", 1, "the braces are empty", Some("write for example `{status}`, or `{{}}` for braces")),
        ("{status} {", 10, "this brace is never closed", Some("write `{{` for a brace")),
        ("{status} }", 10, "this brace was never opened", Some("write `}}` for a brace")),
        ("{status}\n{method}", 9, "a control character would break the line", None),
        (
            "{header.}",
            1,
            "`` cannot be the name of a header",
            Some("write for example `{header.user-agent}`"),
        ),
        (
            "{response.header.a b}",
            1,
            "`a b` cannot be the name of a header",
            Some("write for example `{header.user-agent}`"),
        ),
        (
            "{request.header.referer}",
            1,
            "there is no placeholder `request.header.referer`",
            Some("write `{header.referer}`"),
        ),
        ("{cookie.a\"b}", 1, "`a\"b` cannot be the name of a cookie or a parameter", None),
        (
            "json {status} and {method}",
            14,
            "text between the placeholders of a JSON format",
            Some("a JSON format is `json` and placeholders with spaces between"),
        ),
        ("json {status} {status}", 15, "`status` stands here twice", None),
        ("json {status} {statsu}", 15, "there is no placeholder `statsu`", Some("did you mean `{status}`?")),
    ];
    for (text, column, what, hint) in cases {
        let error = LogTemplate::parse(text).expect_err(text);
        assert_eq!(
            (error.column, error.what.as_str(), error.hint.as_deref()),
            (*column, *what, *hint),
            "{text:?}"
        );
    }
    let error = LogTemplate::parse("{method} {statsu}").unwrap_err();
    assert_eq!(error.to_string(), "column 10: there is no placeholder `statsu`; did you mean `{status}`?");
}

#[test]
fn a_format_tells_which_fields_it_will_ask_for() {
    let format = LogTemplate::parse("{user_agent} {header.X-A} {response.header.Server} {status}").unwrap();
    assert_eq!(format.request_fields().collect::<Vec<_>>(), ["user-agent", "x-a"]);
    assert_eq!(format.response_fields().collect::<Vec<_>>(), ["server"]);
    assert_eq!(LogTemplate::parse("common").unwrap().request_fields().count(), 0);
    for (text, shows) in
        [("json", true), ("httplog", false), ("{local_port}", true), ("{peer_address}", false)]
    {
        assert_eq!(LogTemplate::parse(text).unwrap().shows_local(), shows, "{text}");
    }
}

#[test]
fn a_warm_buffer_means_no_allocation() {
    let fields = browser();
    let (good, bad) = (good(&fields), bad());
    for name in LogTemplate::names().chain(["{failure} {duration.seconds} {header.user-agent}"]) {
        let format = LogTemplate::parse(name).unwrap();
        let mut out = Vec::with_capacity(8192);
        let info = allocation_counter::measure(|| {
            format.render(&good, &mut out);
            format.render(&bad, &mut out);
        });
        assert_eq!(info.count_total, 0, "{name}");
        assert!(!out.is_empty());
    }
}

const HOSTILE_FORMATS: &[&str] = &[
    "common",
    "combined",
    "httplog",
    "tcplog",
    "{method} {target} {version} {host} {request_id} \"{header.x}\" [{response.header.x}] {listener} {route} {upstream} {server}",
    "\"{method}\"{target}\"{version}\" {path} {query} {request_line} \"{request_line}\"",
];

/// Input from a peer: any bytes, with characters that could break out more often than by chance.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(b"\n\r\t \"\\{}\x00\x1b\x7f\x85\xe2\x80\xa8,:[]x-".to_vec())
    ];
    prop::collection::vec(byte, 0..40)
}

fn utf8_names() -> impl Strategy<Value = String> {
    "[a-z \\n\"\\\\\u{2028}é]{0,8}"
}

/// Splits a line at spaces that stand outside quotes.
fn columns(line: &str) -> usize {
    let mut quoted = false;
    let spaces = line.bytes().filter(|byte| {
        quoted ^= *byte == b'"';
        *byte == b' ' && !quoted
    });
    1 + spaces.count()
}

/// Undoes `\xHH`.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'\\' {
            let hex = std::str::from_utf8(&tail[1..3]).unwrap();
            out.push(u8::from_str_radix(hex, 16).unwrap());
            rest = &tail[3..];
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}

/// The text that JSON shows for bytes: UTF-8 as it is, each other byte as the character with its number.
fn as_json_text(bytes: &[u8]) -> String {
    bytes
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().chain(chunk.invalid().iter().map(|byte| char::from(*byte))))
        .collect()
}

proptest! {
    /// Whatever a peer sends, a line of text is one line of printable ASCII with the columns that its format has.
    #[test]
    fn text_lines_cannot_be_injected_into(
        values in prop::collection::vec(hostile(), 7),
        name in utf8_names(),
        status in prop::option::of(any::<u16>()),
    ) {
        let fields = TestFields {
            request: vec![("x", values[0].clone()), ("user-agent", values[1].clone()), ("referer", values[2].clone())],
            response: vec![("x", values[0].clone())],
        };
        let no_fields = TestFields::default();
        let plain = good(&no_fields);
        let record = ExchangeRecord {
            method: &values[3], target: &values[4], version: &values[5], host: &values[6], request_id: &values[0],
            listener: &name, route: &name, upstream: &name, server: &name,
            fields: &fields, status, ..plain
        };
        for format in HOSTILE_FORMATS {
            let text = line(format, &record);
            let body = text.strip_suffix('\n').unwrap();
            prop_assert!(body.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{}: {:?}", format, body);
            prop_assert_eq!(body.matches('"').count(), format_quotes(format), "{}: {:?}", format, body);
            prop_assert_eq!(columns(body), columns(&line(format, &plain)), "{}: {:?}", format, body);
        }
    }

    /// A value can be read back from its line.
    #[test]
    fn text_values_round_trip(value in hostile()) {
        let record = ExchangeRecord { host: &value, ..ExchangeRecord::default() };
        for (format, trim) in [("{host}", ""), ("\"{host}\"", "\"")] {
            let text = line(format, &record);
            let text = text.trim_end_matches('\n').strip_prefix(trim).unwrap().strip_suffix(trim).unwrap();
            prop_assert_eq!(unescape(text), if value.is_empty() { b"-".to_vec() } else { value.clone() });
        }
    }

    /// A JSON line is one line, parses, always has the same keys, and contains the values sent.
    #[test]
    fn json_lines_round_trip(values in prop::collection::vec(hostile(), 5), micros in any::<u64>(), name in utf8_names()) {
        let no_fields = TestFields::default();
        let fields = TestFields { request: vec![("user-agent", values[3].clone())], ..TestFields::default() };
        let record = ExchangeRecord {
            time: UnixMicros(micros), method: &values[0], target: &values[1], host: &values[2], request_id: &values[4],
            fields: &fields, server: &name, ..good(&no_fields)
        };
        let text = line("json", &record);
        let breaks_line = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
        let body = text.strip_suffix('\n').unwrap();
        prop_assert_eq!(body.find(breaks_line), None, "{}", body);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(json.as_object().unwrap().len(), format::NAMED[4].1.matches('{').count());
        let expected = [("method", &values[0]), ("target", &values[1]), ("host", &values[2]), ("user_agent", &values[3]), ("request_id", &values[4])];
        for (key, value) in expected {
            let expected = (!value.is_empty()).then(|| as_json_text(value));
            prop_assert_eq!(json[key].as_str(), expected.as_deref(), "{}", key);
        }
        prop_assert_eq!(json["server"].as_str().unwrap_or_default(), name);
    }

    /// No text of a format makes the parser panic, and whatever it accepts renders one line.
    #[test]
    fn any_format_is_refused_or_renders_one_line(text in "(json )?([a-z {}\"\\\\é\u{2028}\\n]|\\{status\\}|\\{target\\}){0,12}") {
        if let Ok(format) = LogTemplate::parse(&text) {
            let mut out = Vec::new();
            format.render(&ExchangeRecord { target: b"a\nb", ..ExchangeRecord::default() }, &mut out);
            prop_assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(out.last(), Some(&b'\n'));
        } else {
            let error = LogTemplate::parse(&text).unwrap_err();
            prop_assert!(error.column >= 1 && error.column <= text.chars().count().max(1), "{}", error);
        }
    }
}

/// Quotes in the text of a format, a named one resolved.
fn format_quotes(format: &str) -> usize {
    let text = format::NAMED.iter().find(|(name, _)| *name == format).map_or(format, |(_, text)| text);
    text.matches('"').count()
}
