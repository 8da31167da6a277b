//! What varies: protocols, method, body, event, and features that are on or off.

use std::fmt;

/// Declares an enum whose values have names that are printed and read.
macro_rules! factor {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $name { $($(#[$value_doc])* $value,)* }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$value,)*];

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }

            pub(crate) fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.text() == text)
            }
        }
    };
}

factor! {
    /// How the client speaks.
    Client {
        Http1 = "h1",
        /// All requests before the first response.
        Pipelined = "h1-pipelined",
        /// HTTP/2 over TLS.
        H2 = "h2",
        /// HTTP/2 by prior knowledge.
        H2c = "h2c",
        /// HTTP/2 over TLS, with a certificate of the client.
        H2Certificate = "h2-certificate",
        /// HTTP/3, with dynamic tables of QPACK in both directions.
        H3 = "h3",
        /// HTTP/3 without them, with a certificate of the client.
        H3Certificate = "h3-certificate",
        /// gRPC-Web over HTTP/1.
        GrpcWeb = "grpc-web",
        /// HTTP/1 behind a header of the PROXY protocol.
        Proxy = "h1-proxy",
    }
}

factor! {
    /// How the servers speak, and with HTTP/1, how they delimit bodies.
    Server {
        Length = "h1-length",
        Chunked = "h1-chunked",
        /// Until the connection closes.
        Close = "h1-close",
        H2 = "h2",
        H2c = "h2c",
        Fastcgi = "fastcgi",
    }
}

factor! {
    /// The method of the exchange that is tried.
    Method {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
    }
}

factor! {
    /// The body: of the request with POST, else of the response.
    Body {
        /// No body at all; of a response, 204.
        None = "none",
        /// A body of no bytes, where the protocol can say so.
        Zero = "zero",
        /// With the head.
        One = "one-read",
        /// Some time behind the head.
        Late = "late",
        /// In many pieces.
        Many = "many",
        Trailers = "trailers",
        /// Its end comes by itself, with nothing in it.
        EmptyLast = "empty-last",
        /// It breaks off.
        Cut = "cut",
        /// The response comes before the request is complete.
        Early = "early-answer",
        /// Larger than the windows of HTTP/2 are at first, and small enough for a cache.
        BeyondWindow = "beyond-window",
        /// Larger than every buffer.
        Large = "large",
        /// Bytes behind a body of declared length 0; of HEAD, behind its head.
        BehindZero = "behind-zero",
        BehindNoContent = "behind-204",
        BehindNotModified = "behind-304",
    }
}

factor! {
    /// What happens while the exchange is under way.
    Event {
        None = "none",
        Reload = "reload",
        Upgrade = "upgrade",
        /// The server that has the request goes away with all its connections.
        ServerKilled = "server-killed",
        /// The server ends the exchange, and no more: RST_STREAM, or this connection.
        ServerResets = "server-resets",
        ClientGone = "client-gone",
        /// A limit refuses the request.
        LimitReached = "limit-reached",
        /// Clients take all connections that there may be, and another one comes.
        ConnectionsFull = "connections-full",
    }
}

factor! {
    /// What is on or off.
    Feature {
        Cache = "cache",
        Compression = "compression",
        BufferRequests = "buffer-requests",
        BufferResponses = "buffer-responses",
        Mirror = "mirror",
        Limits = "limits",
        Lists = "lists",
        Basic = "basic",
        Jwt = "jwt",
        ForwardAuth = "forward-auth",
        ErrorPages = "error-pages",
        Affinity = "affinity",
        Retries = "retries",
        /// Clients ask for other paths, which a route rewrites.
        Rewrites = "rewrites",
        HeaderRules = "header-rules",
        Tls = "tls-servers",
        /// Servers that compress for every client that names gzip, also when it says that it does not take it.
        CodedServers = "coded-servers",
        /// Another route for the same URLs, told apart by a header.
        TwoRoutes = "two-routes",
        /// What is on is under conditions that hold, beside rules whose conditions do not.
        When = "when",
        /// Servers come from a registry that answers late.
        Discovered = "discovered",
        /// Bodies are rewritten, each match to what it is.
        Rewriting = "rewriting",
        /// What all servers ask of the proxy counts: that it sends no faster than so, and does not buffer.
        Accel = "accel",
        /// Tables count every request, and rules that do not hold ask for the counts.
        Tables = "tables",
        /// Requests of a user stay on the server of the first one, by a header.
        SessionKeys = "session-keys",
    }
}

/// The features of the product (`docs/order.md`, which is generated from its table), and what of the above tries each.
#[cfg(test)]
const TRIED: &[(&str, &[Feature])] = &[
    ("accel", &[Feature::Accel]),
    ("access lists", &[Feature::Lists]),
    ("affinity", &[Feature::Affinity, Feature::SessionKeys]),
    ("authentication", &[Feature::Basic, Feature::Jwt, Feature::ForwardAuth]),
    ("buffering", &[Feature::BufferRequests, Feature::BufferResponses]),
    ("cache", &[Feature::Cache]),
    ("compression", &[Feature::Compression, Feature::CodedServers]),
    ("error pages", &[Feature::ErrorPages]),
    ("headers", &[Feature::HeaderRules]),
    ("limits", &[Feature::Limits]),
    ("tables", &[Feature::Tables]),
    ("mirror", &[Feature::Mirror]),
    ("retries", &[Feature::Retries]),
    ("rewrite", &[Feature::Rewrites]),
    ("rewriting", &[Feature::Rewriting]),
];

/// Those that are no feature to be switched on here, and why.
#[cfg(test)]
const NOT_TRIED: &[(&str, &str)] = &[
    ("acme challenge", "it answers before any route, and meets no other feature"),
    ("cors", "it changes heads alone, and browsers are no clients of the matrix"),
    ("files", "no server and no body of a peer is involved; scripts are tried as servers of FastCGI"),
    ("forwarded", "every exchange has it"),
    ("grpc", "a value of the factor client"),
    ("telemetry", "every exchange has it"),
];

/// How many features there are.
pub(crate) const FEATURES: usize = Feature::ALL.len();

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Case {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) method: Method,
    pub(crate) body: Body,
    pub(crate) event: Event,
    /// A bit for each of [`Feature::ALL`].
    pub(crate) features: u32,
}

impl Client {
    pub(crate) fn is_h2(self) -> bool {
        matches!(self, Self::H2 | Self::H2c | Self::H2Certificate)
    }

    pub(crate) fn is_h3(self) -> bool {
        matches!(self, Self::H3 | Self::H3Certificate)
    }

    /// Whether its requests are on streams, which end one by one.
    pub(crate) fn has_streams(self) -> bool {
        self.is_h2() || self.is_h3()
    }

    pub(crate) fn has_tls(self) -> bool {
        self.has_certificate() || matches!(self, Self::H2 | Self::H3)
    }

    pub(crate) fn has_certificate(self) -> bool {
        matches!(self, Self::H2Certificate | Self::H3Certificate)
    }
}

impl Server {
    pub(crate) fn is_h2(self) -> bool {
        matches!(self, Self::H2 | Self::H2c)
    }
}

impl Case {
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features & (1 << feature as u32) != 0
    }

    /// Whether clients have to prove who they are.
    pub(crate) fn has_users(&self) -> bool {
        self.names_users() || self.has(Feature::ForwardAuth) || self.client.has_certificate()
    }

    /// Whether Weir knows their names, which lists and limits can be by.
    pub(crate) fn names_users(&self) -> bool {
        self.has(Feature::Basic) || self.has(Feature::Jwt)
    }

    /// The values of all factors, as numbers.
    pub(super) fn values(&self) -> Vec<usize> {
        let mut values = vec![
            self.client as usize,
            self.server as usize,
            self.method as usize,
            self.body as usize,
            self.event as usize,
        ];
        values.extend(Feature::ALL.iter().map(|feature| usize::from(self.has(*feature))));
        values
    }

    /// The case with this name, as it is printed.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [client, server, method, body, event, features] = parts.as_slice() else { return None };
        let features = features.split('+').filter(|name| !name.is_empty() && *name != "plain");
        Some(Self {
            client: Client::named(client)?,
            server: Server::named(server)?,
            method: Method::named(method)?,
            body: Body::named(body)?,
            event: Event::named(event)?,
            features: features
                .map(|name| Feature::named(name).map(|it| 1 << it as u32))
                .sum::<Option<u32>>()?,
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, body, event) = (self.method.text(), self.body.text(), self.event.text());
        write!(f, "{}/{}/{method}/{body}/{event}/", self.client.text(), self.server.text())?;
        let on: Vec<&str> =
            Feature::ALL.iter().filter(|feature| self.has(**feature)).map(|feature| feature.text()).collect();
        f.write_str(if on.is_empty() { "plain" } else { "" })?;
        f.write_str(&on.join("+"))
    }
}

/// The names of a factor and of its values, by their numbers.
#[cfg(test)]
pub(super) fn describe(factor: usize, value: usize) -> String {
    match factor {
        0 => format!("client {}", Client::ALL[value].text()),
        1 => format!("server {}", Server::ALL[value].text()),
        2 => format!("method {}", Method::ALL[value].text()),
        3 => format!("body {}", Body::ALL[value].text()),
        4 => format!("event {}", Event::ALL[value].text()),
        _ => format!("{} {}", Feature::ALL[factor - 5].text(), if value == 1 { "on" } else { "off" }),
    }
}

/// How many values each factor has.
#[cfg(test)]
pub(super) fn levels() -> Vec<usize> {
    let mut levels =
        vec![Client::ALL.len(), Server::ALL.len(), Method::ALL.len(), Body::ALL.len(), Event::ALL.len()];
    levels.extend([2; FEATURES]);
    levels
}

#[cfg(test)]
mod tests {
    use super::{Feature, NOT_TRIED, TRIED};

    #[test]
    fn each_feature_of_the_product_is_tried_or_says_why_not() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/order.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let (_, table) = page.split_once("### Features").expect("it lists the features");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
        let names = rows.filter_map(|row| row.split_once(" |")).map(|(name, _)| name);
        let mut product: Vec<&str> = names.filter(|name| *name != "feature").collect();
        let mut known: Vec<&str> = TRIED.iter().map(|(name, _)| *name).collect();
        known.extend(NOT_TRIED.iter().map(|(name, _)| *name));
        product.sort_unstable();
        known.sort_unstable();
        assert_eq!(product, known, "docs/order.md and the matrix have other features");
        assert!(TRIED.iter().all(|(_, tried)| tried.iter().all(|one| Feature::ALL.contains(one))));
    }
}
