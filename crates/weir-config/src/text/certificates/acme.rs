//! `[listener.NAME.tls.acme]` in the text.

use std::time::Duration;

use weir_traffic::route::HostPattern;

use crate::config::AcmeChallenge;
use crate::key::{NonEmpty, Spanned, SpannedTable, TextFormat, section, text_values};
use crate::masked_text::MaskedText;
use crate::text::DnsUpdateText;
use crate::text::routing::route::is_host_with_port;
use crate::value::ValueError;

section! {
    /// Certificates that Weir obtains and renews by itself, from an authority that speaks ACME (RFC 8555) such as Let's Encrypt: one for each
    /// host. `acme = {}` is sufficient. [docs/acme.md](acme.md) explains what happens when.
    #[derive(Debug, Clone)]
    pub(crate) struct AcmeText at "listener.NAME.tls.acme" {
        /// An address for mail from the authority, for its account.
        email: Spanned<Box<str>> = optional, like "Caddy `email`, Traefik `certificatesResolvers.NAME.acme.email`, HAProxy `acme` `contact`";
        /// The hosts that get a certificate. Without it, those that the routes of the listener name. A wildcard needs `dns_update` or
        /// `dns_command`.
        hosts: Vec<Spanned<HostPattern>> = optional, like "Traefik `domains`, HAProxy `crt-store` `domains`";
        /// The directories of the authorities, by their URLs. The second one is asked when the first one fails, and so on.
        ca: NonEmpty<Spanned<Box<str>>> = ["https://acme-v02.api.letsencrypt.org/directory"],
            like "Caddy `acme_ca`, Traefik `caServer`, HAProxy `acme` `directory`";
        /// A PEM file with the certificates that the server of the authority itself is verified by, for one within a company or a test.
        /// Without it, those that the system trusts.
        ca_root: Spanned<Box<str>> = optional, like "Caddy `acme_ca_root`, Traefik `caCertificates`";
        /// The folder for accounts, keys and certificates, readable for the user of Weir only. Several nodes may share it: one of them orders,
        /// the others take what it got.
        directory: Spanned<Box<str>> = "/var/lib/weir/acme", like "Caddy `storage`, Traefik `storage`";
        /// How hosts are proved, in the order in which attempts use them. Without it, `["tls-alpn-01", "http-01"]`; with `dns_update` or
        /// `dns_command`, `["dns-01"]`.
        challenges: NonEmpty<AcmeChallenge> = optional, like "Traefik `tlsChallenge`, `httpChallenge`, `dnsChallenge`, HAProxy `challenge`";
        /// The profile of the certificates, one of those that the authority offers, such as `shortlived`.
        profile: Box<str> = optional, like "Caddy `profile`";
        /// The accounts at authorities that require one of their own (external account binding).
        external_account: Vec<SpannedTable<ExternalAccountText>> = [], like "Caddy `acme_eab`, Traefik `eab`";
        /// How long the first handshakes for a host wait for its certificate; then they fail, with an alert and a line in the log.
        wait: Duration = "10s", in 0..=120_000;
        /// Hosts beyond those of `hosts` that get a certificate when a client first asks for one: patterns such as `*.customers.example`.
        on_demand: Vec<Spanned<HostPattern>> = [], like "Caddy `on_demand_tls`";
        /// A URL that decides for which hosts of `on_demand` a certificate is ordered or renewed: a GET with the parameter `domain=HOST`, which a 2xx
        /// permits. Without it, every host that matches gets one.
        on_demand_ask: Spanned<AskUrl> = optional, like "Caddy `on_demand_tls { ask }`";
        /// The maximum number of hosts with a certificate of `on_demand`. A further one takes the place of a host that was refused a minute ago or
        /// longer, or else of the one that no client has asked for the longest, for an hour at least; else its handshakes fail.
        on_demand_max: u32 = 1000, in 1..=100_000;
        /// The maximum number of orders in three hours at one authority. Hosts of `on_demand` without a certificate may use three fifths of it, so that
        /// clients who invent names leave the rest to `hosts` and to renewals. Let's Encrypt permits 300; raise it for an authority within a company.
        orders_max: u32 = 250, in 5..=1_000_000;
        /// A name server that takes dynamic updates with a key, for `dns-01`. In place of `dns_command`.
        dns_update: SpannedTable<DnsUpdateText> = optional, like "Caddy `dns rfc2136`, Traefik `dnsChallenge.provider = \"rfc2136\"`";
        /// A program that sets and removes TXT records, for `dns-01`, with its arguments. It is started without a shell, with `present` or
        /// `cleanup`, the name of the record and its value behind them.
        dns_command: NonEmpty<Spanned<Box<str>>> = optional, like "Traefik `dnsChallenge.provider = \"exec\"`, certbot `--manual-auth-hook`";
        /// Whether the record is set where `_acme-challenge.HOST` leads, when that is a CNAME into another zone, as the resolvers of `[dns]` say. A CNAME by a
        /// wildcard for all names does not count.
        dns_follow_cname: bool = true, like "Traefik `LEGO_DISABLE_CNAME_SUPPORT`, Caddy `dns_challenge_override_domain`";
        /// How long `dns_command`, or an exchange with the server of `dns_update`, may take.
        dns_timeout: Duration = "60s", in 1_000..=600_000;
        /// How long a record needs to reach all servers of its zone: the time between its change and the check of the authority.
        dns_wait: Duration = "10s", in 0..=600_000, like "Traefik `delayBeforeChecks`, Caddy `propagation_delay`";
    }
}

/// The URL that is asked about hosts on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskUrl(pub(crate) MaskedText);

text_values! {
    AskUrl, parse_ask_url, |value: &AskUrl| value.0.exposed().to_owned(), TextFormat {
        name: "URL",
        article: "a URL",
        examples: &["http://127.0.0.1:9123/allowed", "https://ask.example.com/?zone=eu"],
        pattern: r#"^https?://[^/\s@?#"<>]+(/[^\s#"<>]*)?$"#,
        about: "An `http` or `https` URL with a host, a port if it is not the usual one, and a path.",
    };
}

fn parse_ask_url(text: &str) -> Result<AskUrl, ValueError> {
    let is_of_url = |c: char| c.is_ascii_graphic() && !"\"#<>\\^`{|}".contains(c);
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let authority = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    match is_host_with_port(authority) && text.chars().all(is_of_url) && text.len() <= URL_BYTES_MAX {
        true => Ok(AskUrl(text.into())),
        false => Err(ValueError::new(format!("`{text}` is not a URL that can be asked"))
            .help("write the whole URL, such as `http://127.0.0.1:9123/allowed`, without a user")),
    }
}

/// The longest URL, far below what clients of HTTP take.
pub(crate) const URL_BYTES_MAX: usize = 4096;

section! {
    /// An account at an authority that requires one.
    #[derive(Debug, Clone)]
    pub(crate) struct ExternalAccountText at "listener.NAME.tls.acme.external_account" {
        /// The authority, as in `ca`. Without it, the first one.
        ca: Spanned<Box<str>> = optional;
        /// The id of the key, from the authority.
        key_id: Box<str> = required, like "Traefik `eab.kid`, Caddy `key_id`";
        /// A file with the key from the authority, in base64 as it comes.
        key_file: Spanned<Box<str>> = required, like "Traefik `eab.hmacEncoded`, Caddy `mac_key`";
    }
}
