//! The version of a program and its TLS library, from its own output.

use memchr::memmem;

use crate::installed::first_with_digit;
use crate::topology::product::Product;

/// The arguments that print it.
pub(super) fn question(product: Product) -> &'static str {
    match product {
        Product::Weir | Product::Envoy => "--version",
        Product::Nginx => "-V",
        Product::Haproxy => "-vv",
        Product::Traefik | Product::Caddy => "version",
        Product::Direct | Product::Apache | Product::Relay | Product::Url => "-v",
    }
}

/// The version in the output of a program; `None` when there is none.
pub(super) fn version(product: Product, said: &str) -> Option<String> {
    let version = match product {
        // Commit, version, state of the tree, kind of build, TLS library, between slashes.
        Product::Envoy => said.trim().rsplit('/').nth(3).map(|version| format!("envoy {version}")),
        // A binary that was built without the makefile calls itself "dev".
        Product::Traefik => return after(said, "Version:").map(|version| format!("traefik {version}")),
        Product::Caddy => {
            said.split_whitespace().next().map(|version| format!("caddy {}", version.trim_start_matches('v')))
        }
        Product::Apache => after(said, "Server version:").map(str::to_owned),
        _ => first_with_digit(said),
    };
    version.filter(|version| version.chars().any(|letter| letter.is_ascii_digit()))
}

/// The TLS library in the output of a program; `None` when there is none.
pub(super) fn tls_library(product: Product, said: &str) -> Option<String> {
    match product {
        Product::Weir => Some("rustls with AWS-LC".to_owned()),
        Product::Nginx => {
            let built = after(said, "built with")?;
            let running = built.split_once("(running with ").map(|(_, rest)| rest.trim_end_matches(')'));
            Some(running.unwrap_or(built).to_owned())
        }
        Product::Haproxy => after(said, "Running on OpenSSL version :")
            .or(after(said, "Running on SSL library version :"))
            .map(str::to_owned),
        Product::Envoy => said.trim().rsplit('/').next().map(str::to_owned),
        // Both in their output about how they were built.
        Product::Traefik => after(said, "Go version:").map(|go| format!("crypto/tls of {go}")),
        Product::Caddy => after(said, "go\t").map(|go| format!("crypto/tls of {go}")),
        Product::Direct | Product::Apache | Product::Relay | Product::Url => None,
    }
}

/// Whether a program with this output can speak HTTP/3 with clients.
pub(super) fn has_http3(product: Product, said: &str) -> bool {
    match product {
        Product::Weir => after(said, "features:").is_some_and(|names| names.contains("http3")),
        Product::Nginx => said.contains("--with-http_v3_module"),
        Product::Haproxy => said.contains("+QUIC "),
        // Since 2.6, 1.28 and 3.0.
        Product::Caddy | Product::Envoy | Product::Traefik => true,
        Product::Direct | Product::Apache | Product::Relay | Product::Url => false,
    }
}

/// The version of OpenSSL that is written in the bytes of its library.
pub(super) fn openssl_in(library: &[u8]) -> Option<String> {
    let start = memmem::find_iter(library, b"OpenSSL ")
        .find(|at| library.get(at + 8).is_some_and(u8::is_ascii_digit))?;
    let text = &library[start..];
    let end = text.iter().position(|byte| !(b' '..=b'~').contains(byte))?;
    Some(String::from_utf8_lossy(&text[..end.min(40)]).into_owned())
}

/// The text after `label` in the line that begins with it.
fn after<'a>(said: &'a str, label: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::{Product, has_http3, openssl_in, tls_library, version};

    #[test]
    fn the_output_of_each_product_is_understood() {
        let nginx = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22 25 Aug 2026 (running with OpenSSL 3.0.19 27 Jan 2026)\nTLS SNI support enabled\n";
        let haproxy = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\nBuilt with OpenSSL version : OpenSSL 3.0.22 25 Aug 2026\nRunning on OpenSSL version : OpenSSL 3.0.19 27 Jan 2026\n";
        let envoy = "\n/opt/envoy/bin/envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        let traefik_of_ones_own = "Version:      dev\nCodename:     cheddar\nGo version:   go1.26.8\nBuilt:        I don't remember exactly\nOS/Arch:      linux/amd64\n";
        let traefik = "Version:      3.5.0\nCodename:     chabichou\nGo version:   go1.24.5\nBuilt:        2025-07-23T14:02:03Z\nOS/Arch:      linux/amd64\n";
        let apache = "Server version: Apache/2.4.71 (Debian)\nServer built:   2026-11-12T08:58:41\n";
        let caddy = "2.6.2\ngo\tgo1.19.8\npath\tgithub.com/caddyserver/caddy/v2/cmd/caddy\n";
        for (product, said, is, with) in [
            (Product::Weir, "weir 0.1.0\n", "weir 0.1.0", Some("rustls with AWS-LC")),
            (Product::Nginx, nginx, "nginx version: nginx/1.22.1", Some("OpenSSL 3.0.19 27 Jan 2026")),
            (
                Product::Haproxy,
                haproxy,
                "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
                Some("OpenSSL 3.0.19 27 Jan 2026"),
            ),
            (Product::Envoy, envoy, "envoy 1.40.0", Some("BoringSSL")),
            (Product::Traefik, traefik, "traefik 3.5.0", Some("crypto/tls of go1.24.5")),
            (Product::Traefik, traefik_of_ones_own, "traefik dev", Some("crypto/tls of go1.26.8")),
            (Product::Apache, apache, "Apache/2.4.71 (Debian)", None),
            (Product::Caddy, caddy, "caddy 2.6.2", Some("crypto/tls of go1.19.8")),
            (Product::Caddy, "v2.8.4 h1:q3pe0wpBj1OcHFZ3n/1nl4V4bxBrYoSoab7rL9BMYNk=\n", "caddy 2.8.4", None),
        ] {
            assert_eq!(version(product, said).as_deref(), Some(is));
            assert_eq!(tls_library(product, said).as_deref(), with, "{is}");
        }
        let plain = "nginx version: nginx/1.29.7\nbuilt with OpenSSL 3.5.0 8 Apr 2025\n";
        assert_eq!(tls_library(Product::Nginx, plain).as_deref(), Some("OpenSSL 3.5.0 8 Apr 2025"));
    }

    #[test]
    fn a_program_without_a_version_is_not_accepted() {
        for product in crate::topology::product::PRODUCTS {
            assert_eq!(version(product, ""), None);
            assert_eq!(version(product, "usage: something else\n"), None);
        }
    }

    #[test]
    fn programs_say_whether_they_speak_http3() {
        for (product, with, without) in [
            (Product::Weir, "weir 0.1.0\nfeatures: geoip, http3, top\n", "weir 0.1.0\nleft out: http3\n"),
            (
                Product::Nginx,
                "configure arguments: --with-http_v2_module --with-http_v3_module\n",
                "--with-http_v2_module\n",
            ),
            (
                Product::Haproxy,
                "Feature list : +PROMEX +QUIC -QUIC_OPENSSL_COMPAT +SSL\n",
                "Feature list : +PROMEX -QUIC +SSL\n",
            ),
        ] {
            assert!(has_http3(product, with) && !has_http3(product, without), "{with}");
        }
        assert!(has_http3(Product::Caddy, "2.6.2\n") && !has_http3(Product::Apache, "Apache/2.4.71"));
    }

    #[test]
    fn a_library_says_which_one_it_is() {
        let library = b"\0OpenSSL default\0xx\0OpenSSL 3.0.19 27 Jan 2026\0rest";
        assert_eq!(openssl_in(library).as_deref(), Some("OpenSSL 3.0.19 27 Jan 2026"));
        assert_eq!(openssl_in(b"OpenSSL default\0"), None);
    }
}
