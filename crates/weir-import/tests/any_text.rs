//! Whatever a file says: no panic, an account of every statement, and a result that is TOML.

use std::io;

use proptest::prelude::*;
use weir_config::CheckedConfig;
use weir_import::{ResultFault, SourceFiles, SourceFormat, import};

/// One file, by whatever name.
struct OneFile(String);

impl SourceFiles for OneFile {
    fn read(&self, path: &str) -> io::Result<String> {
        if path == "haproxy.cfg" { Ok(self.0.clone()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn matching(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

fn check(text: &str) {
    if let Ok(imported) = import(SourceFormat::Haproxy, &["haproxy.cfg"], &OneFile(text.to_owned())) {
        let faults = CheckedConfig::faults(&imported.toml);
        assert!(faults.is_empty(), "{faults:?}\n{}\nof\n{text}", imported.toml);
        let accounted = imported.report.findings().len();
        let lines =
            text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#')).count();
        assert!(accounted <= lines, "{accounted} of {lines}");
    }
}

/// Words that configs are made of, in any order.
const WORDS: &str = "global defaults frontend backend listen userlist cache peers resolvers web app a bind :80 *:443 ssl crt /a.pem \
    mode http tcp default_backend use_backend if unless or ! || { } acl path path_beg path_reg /a /b/ ^/(a|b)$ hdr(host) -i a.test \
    src 10.0.0.0/8 ssl_fc req.ssl_sni http-request http-response tcp-request content connection deny deny_status 429 redirect scheme \
    https code 301 location prefix return status 200 string set-header X-A %[src] %[req.hdr(x)] track-sc0 sc_http_req_rate(0) gt 5 \
    stick-table type ip size 1m expire 10s store http_req_rate(10s),gpc0 server 10.0.0.1:80 check inter 2s weight 5 backup maxconn \
    balance roundrobin source cookie insert option httpchk forwardfor except httplog GET /x timeout client server connect 5s log \
    global 127.0.0.1 local0 replace-path (.*) \\1 set-path /x%[path] auth realm http_auth(users) user ann password $5$a monitor-uri \
    monitor fail stats enable uri auth a:b compression algo gzip errorloc 503 .if .else .endif defined(A) log-format %ci \"%{+Q}r\" \
    from no allow tarpit reject accept inspect-delay stick on map(/a,b),lower nbsrv(app) lt 1 tcp-check expect rstring http-check";

fn word() -> impl Strategy<Value = String> {
    let words: Vec<String> = WORDS.split_whitespace().map(str::to_owned).collect();
    proptest::sample::select(words)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_an_error_or_a_config(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn any_lines_of_words_are_an_error_or_a_config(lines in prop::collection::vec(prop::collection::vec(word(), 1..9), 1..30)) {
        let text: Vec<String> = lines.iter().map(|words| words.join(" ")).collect();
        check(&text.join("\n"));
    }

    #[test]
    fn any_section_is_an_error_or_a_config(lines in prop::collection::vec(prop::collection::vec(word(), 1..9), 1..30)) {
        let text: Vec<String> = lines.iter().map(|words| words.join(" ")).collect();
        let begin = "defaults\nmode http\nfrontend web\nbind :80\n";
        check(&format!("{begin}{}\ndefault_backend app\nbackend app\nserver a 10.0.0.1:80\n", text.join("\n")));
    }
}
