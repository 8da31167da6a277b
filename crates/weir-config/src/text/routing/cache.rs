//! `[cache.NAME]`, and `cache` of a route, in the text.

use std::time::Duration;

use crate::config::IgnoredVaryField;
use crate::key::{
    Bounds, ConfigSection as _, ConfigValue, OneOrMany, Spanned, SpannedTable, TextFormat, TreeReader,
    ValueKind, section, text_values,
};
use crate::source::{Tree, TreeNode};
use crate::text::ConditionText;
use crate::value::{HeaderName, Size, StatusRange, Template, ValueError};

section! {
    /// A store of responses (RFC 9111) that routes name in `cache`: in memory, with files behind it if there is a `disk`. All workers share it,
    /// and it goes on over reloads.
    #[derive(Debug, Clone)]
    pub(crate) struct CacheText at "cache.NAME" {
        /// Memory for responses, metadata included. When it is full, the least requested responses are evicted.
        memory: Spanned<Size> = "128MiB", in 1_048_576..=1_099_511_627_776, like "nginx `keys_zone=`, HAProxy `total-max-size`, Varnish `-s malloc,`";
        /// The largest response that is stored. A larger one is relayed but not stored.
        response_max: Spanned<Size> = "8MiB", in 1_024..=1_099_511_627_776, like "nginx `proxy_cache_max_file`, HAProxy `max-object-size`";
        /// Store on disk, for responses that no longer fit in memory. It survives a restart.
        disk: SpannedTable<CacheDiskText> = optional, like "nginx `proxy_cache_path`";
    }
}

section! {
    /// Files of a cache.
    #[derive(Debug, Clone)]
    pub(crate) struct CacheDiskText at "cache.NAME.disk" {
        /// The folder, relative to the file of the config. It belongs to this cache alone. Files that are not named as those of a cache are left
        /// alone.
        folder: Spanned<Box<str>> = required, like "nginx `proxy_cache_path`";
        /// The size of all files together.
        size: Size = "10GiB", in 1_048_576..=1_125_899_906_842_624, like "nginx `max_size=`";
    }
}

section! {
    /// Responses to GET are stored and used again, as RFC 9111 allows it to a cache that all clients share: `Cache-Control`, `Expires`, `Vary`,
    /// validators and `Age` count. `Cache-Status` (RFC 9211) tells clients what the cache did.
    #[derive(Debug, Clone)]
    pub(crate) struct RouteCacheText at "listener.NAME.route.cache" {
        /// The cache, by its name in `[cache.NAME]`.
        name: Spanned<Box<str>> = required, like "nginx `proxy_cache`, HAProxy `cache-use`";
        /// Cache key, with [placeholders](#placeholders), in addition to `Vary`. In it, `{authority}` and `{host}` are in lower case and
        /// without the default port of the scheme.
        key: Spanned<Template> = "{scheme}://{authority}{path}{query}", like "nginx `proxy_cache_key`, Varnish `vcl_hash`";
        /// Name of a partition of the cache that routes share, on any listener. Without it, a route uses only responses stored for requests
        /// that its own listener, rules (`header`, `source`, `query`, `method`) and upstream have selected, so no client gets a response
        /// that bypasses the rules of another route. With it, clients of all routes with the same `share` get each other's stored
        /// responses.
        share: Spanned<Box<str>> = optional;
        /// Freshness lifetime of responses without one of their own. Without an entry for their status, responses with `Last-Modified` are
        /// fresh for a tenth of their age, at most a day (RFC 9111 section 4.2.2); others are stored only if they can be revalidated
        /// (`ETag`). `no-cache` is still obeyed: such a response is revalidated each time, or not stored when it has no validator.
        ttl: OneOrMany<SpannedTable<CacheTtlText>> = optional, like "nginx `proxy_cache_valid`, HAProxy `max-age`, Varnish `default_ttl`";
        /// Whether `ttl` overrides the headers of responses: `Cache-Control`, `Expires` and `Pragma` are ignored, `private` and `no-store`
        /// included, and only statuses that `ttl` names are stored. `Set-Cookie` and `Vary` are still obeyed.
        override_ttl: bool = false, like "nginx `proxy_ignore_headers Cache-Control Expires`";
        /// How long a stale response is served while it is revalidated in the background (RFC 5861), unless the response sets its own time.
        /// Responses that were never fresh (`max-age=0`, or no freshness lifetime) are not served stale. Off: never.
        stale_while_revalidate: Option<Duration> = "off", in 1..=31_536_000_000, like "nginx `proxy_cache_background_update`, Varnish `grace`";
        /// How long a stale response is served when the server fails: 500, 502, 503, 504, or no response (RFC 5861). `off`: only if the
        /// response itself allows it. `stale_if_error_status` names other statuses. Responses without a freshness lifetime are not served stale.
        stale_if_error: Option<Duration> = "off", in 1..=31_536_000_000, like "nginx `proxy_cache_use_stale`";
        /// The statuses of servers that count as failures for `stale_if_error`, and for `stale-if-error` of responses; no response at all
        /// always does. With 403, 404 or 410 in it, what the server has removed or closed is served for as long as `stale_if_error` says.
        stale_if_error_status: OneOrMany<StatusRange> = ["500", "502-504"], like "nginx `proxy_cache_use_stale http_404`";
        /// How long concurrent requests for the same response wait while one of them fetches it (request collapsing); then they go to the
        /// server themselves. `off`: no collapsing.
        wait: Option<Duration> = "5s", in 1..=3_600_000, like "nginx `proxy_cache_lock_timeout`";
        /// Bypass the cache if any of these has a value that is non-empty and not `0`, such as `{cookie.session}` or `{header.x-preview}`:
        /// the request goes to the server and the response is not stored.
        bypass: Vec<Spanned<Template>> = [], like "nginx `proxy_cache_bypass` and `proxy_no_cache`";
        /// A condition on requests: the cache is used only if it holds; otherwise the request goes to the server and its response is not stored.
        when: ConditionText = optional, like "nginx `proxy_cache_bypass` with `proxy_no_cache`, HAProxy `http-request cache-use ... if`, Varnish `return (pass)`";
        /// A condition on requests: if it holds, what is stored is not used as it is, but confirmed or fetched anew, and stored.
        refresh_when: ConditionText = optional, like "nginx `proxy_cache_bypass`, Varnish `req.hash_always_miss`";
        /// A condition on responses: one is stored only if it holds.
        store_when: ConditionText = optional, like "nginx `proxy_no_cache`, HAProxy `http-response cache-store ... if`, Varnish `beresp.uncacheable`";
        /// Whether responses with `Set-Cookie` are stored, without that header. Only the client whose request fetched the response gets the
        /// cookie.
        ignore_set_cookie: bool = false, like "nginx `proxy_ignore_headers Set-Cookie`";
        /// Headers that `Vary` of a response may name without making variants: the first response that is stored is that of all clients,
        /// whatever they send in these headers. `"*"` is every other one and `Vary: *`, except `Cookie` and `Authorization`, which have to be
        /// named, and what servers get with a value of the exchange. `Accept-Encoding` always counts.
        ignore_vary: Vec<Spanned<IgnoredVaryField>> = [], like "nginx `proxy_ignore_headers Vary`, HAProxy `process-vary`";
        /// Whether a HEAD for what is not stored has the server asked by GET, and the response stored. The HEAD waits until that response
        /// begins, at most for `wait`; if it cannot be stored, the server gets the HEAD, too. `false`: the server gets the HEAD, and nothing
        /// is stored. A HEAD is answered from what is stored in both cases.
        convert_head: bool = false, like "nginx `proxy_cache_convert_head`";
        /// Whether `Cache-Control` of requests is obeyed (`no-cache`, `max-age` and others). Any client can then force requests to the
        /// server.
        obey_clients: bool = false;
    }
}

section! {
    /// How long responses with some statuses are fresh.
    #[derive(Debug, Clone)]
    pub(crate) struct CacheTtlText at "listener.NAME.route.cache.ttl" {
        /// The statuses: `404`, `"300-399"`, or a list of both.
        status: OneOrMany<StatusRange> = required;
        /// The time.
        time: Duration = required, in 0..=31_536_000_000;
    }
}

text_values! {
    IgnoredVaryField, parse_ignored_vary, |field: &IgnoredVaryField| field.as_str().to_owned(), TextFormat {
        name: "vary header",
        article: "the name of a header, or `*`",
        examples: &["user-agent", "origin", "*"],
        pattern: r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        about: "The name of a header that `Vary` may have; `*`: every other one but `Cookie` and `Authorization`.",
    };
}

fn parse_ignored_vary(text: &str) -> Result<IgnoredVaryField, ValueError> {
    if text == "*" {
        return Ok(IgnoredVaryField::Others);
    }
    let name: HeaderName = text.parse()?;
    if &*name == "accept-encoding" {
        let error = ValueError::new(
            "`Accept-Encoding` always counts: a client has to be able to decode the response",
        );
        return Err(error
            .help("leave it out: only the codings that Weir knows make variants, not how they are written"));
    }
    Ok(IgnoredVaryField::Named(name))
}

/// The name of a cache, or a table.
#[derive(Debug, Clone)]
pub(crate) struct RouteCacheChoice(pub(crate) Box<SpannedTable<RouteCacheText>>);

impl ConfigValue for RouteCacheChoice {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![Box::<str>::kind(bounds), RouteCacheText::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Table(_) => SpannedTable::read(node, bounds, reader).map(|text| Self(Box::new(text))),
            tree if Box::<str>::kind(bounds).accepts(tree) => {
                let name = Spanned::<Box<str>>::read(node, bounds, reader)?;
                let value = RouteCacheText { name: Some(name), ..RouteCacheText::default() };
                Some(Self(Box::new(SpannedTable::unwritten(value, node.span))))
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        self.0.value.inline()
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.0.value.lines(path, lines);
    }
}
