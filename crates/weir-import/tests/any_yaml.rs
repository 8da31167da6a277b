//! Whatever a config of Traefik says: no panic, an account of every key, and a result that is TOML.

use std::io;

use proptest::prelude::*;
use weir_config::CheckedConfig;
use weir_import::{ResultFault, SourceFiles, SourceFormat, import};

/// One file, which the folders of `providers.file` lead to as well.
struct OneFile(String);

impl SourceFiles for OneFile {
    fn read(&self, path: &str) -> io::Result<String> {
        if path == "traefik.yml" { Ok(self.0.clone()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn matching(&self, _pattern: &str) -> Vec<String> {
        vec!["traefik.yml".to_owned()]
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

fn check(text: &str) {
    if let Ok(imported) = import(SourceFormat::Traefik, &["traefik.yml"], &OneFile(text.to_owned())) {
        let faults = CheckedConfig::faults(&imported.toml);
        assert!(faults.is_empty(), "{faults:?}\n{}\nof\n{text}", imported.toml);
    }
}

/// Keys of routers, services and middlewares, at any depth.
const KEYS: &str = "http tcp tls entryPoints routers services middlewares app rule service entryPoints priority certResolver options \
    loadBalancer servers url weight sticky cookie name healthCheck path interval weighted mirroring mirrors percent failover fallback \
    redirectRegex regex replacement redirectScheme scheme permanent stripPrefix prefixes addPrefix prefix replacePath replacePathRegex headers \
    customRequestHeaders X-A stsSeconds basicAuth users usersFile forwardAuth address ipAllowList sourceRange ipStrategy depth rateLimit \
    average burst period inFlightReq amount compress retry attempts buffering maxRequestBodyBytes chain errors status query plugin - web \
    websecure http redirections entryPoint to forwardedHeaders trustedIPs providers file directory certificates certFile keyFile clientAuth \
    passthrough serversTransport insecureSkipVerify";

/// Values of keys.
const VALUES: &str = "app web websecure :80 :443 Host(`a.test`) PathPrefix(`/a`)&&!Path(`/b`) HostRegexp(`{x:.+}.a`) HostSNI(`*`) \
    Host(`a`)||Path(`/b`) http://10.0.0.1:80 https://a.test h2c://b 10 true false 10s /x ^/a/(.*) https?://(.*)/b https://${1}/c $1 10.0.0.0/8 \
    ann:$2y$05$abc 500-599 [a,b] [] {} ~ &x *x letsencrypt app@docker api@internal noop@internal a:b \"\" VersionTLS13";

fn words(text: &'static str) -> impl Strategy<Value = String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    proptest::sample::select(words)
}

/// A line with a key, deeper than the one before, as deep, or less.
fn line() -> impl Strategy<Value = (i8, String, Option<String>)> {
    (-2_i8..=1, words(KEYS), prop::option::weighted(0.5, words(VALUES)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_an_error_or_a_config(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn any_keys_are_an_error_or_a_config(lines in prop::collection::vec(line(), 1..40)) {
        let (mut text, mut depth, mut has_value) = (String::new(), 0_usize, true);
        for (step, key, value) in lines {
            depth = match step {
                1 if has_value => depth,
                1 => depth + 1,
                step => depth.saturating_sub(usize::from(step.unsigned_abs())),
            };
            has_value = value.is_some();
            let key = if key == "-" { "- name".to_owned() } else { key };
            text.push_str(&format!("{}{key}: {}\n", "  ".repeat(depth), value.unwrap_or_default()));
        }
        check(&text);
    }

    #[test]
    fn any_values_are_an_error_or_a_config(values in prop::collection::vec(words(VALUES), 12)) {
        let v = &values;
        check(&format!(
            "http:\n  routers:\n    a:\n      rule: {}\n      service: {}\n      entryPoints: {}\n      middlewares: [m, n]\n      tls: {}\n\
             \x20 middlewares:\n    m:\n      redirectRegex:\n        regex: {}\n        replacement: {}\n    n:\n      stripPrefix:\n        prefixes: {}\n\
             \x20 services:\n    app:\n      loadBalancer:\n        servers:\n          - url: {}\n            weight: {}\n        healthCheck:\n          \
             interval: {}\n          path: {}\n        sticky:\n          cookie:\n            name: {}\n",
            v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11],
        ));
    }
}
