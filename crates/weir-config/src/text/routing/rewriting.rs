//! `rewrite_body`, `rewrite_location` and `rewrite_cookies` of a listener or a route in the text.

use crate::config::MediaPattern;
use crate::key::{Spanned, SpannedTable, choice, section};
use crate::value::{GroupTemplate, Size};

section! {
    /// Rewriting of the bodies of responses, of servers, files, the cache and Weir itself, as they pass. What a server has compressed is decompressed
    /// first, and compressed again where the route has `compression`. Bodies in another coding, with `Cache-Control: no-transform`, or that are
    /// part of one (206) pass as they are, and so do those of gRPC. Servers see neither `Accept-Encoding` nor `Range` on such a route.
    #[derive(Debug, Clone)]
    pub(crate) struct BodyRewriteText at "listener.NAME.route.rewrite_body" {
        /// The rules. At each place the first one that matches counts; what it puts in is not searched again. None: bodies pass as they are.
        rules: Vec<SpannedTable<BodyRuleText>> = [], like "nginx `sub_filter`, Apache httpd `Substitute`";
        /// The media types of bodies that are rewritten: `text/css`, `text/*`, `application/*+json`, or `*` for all, and for bodies without one.
        types: Vec<MediaPattern> = ["text/html"], like "nginx `sub_filter_types`";
        /// The longest match of a regular expression. Up to twice as much of a body waits in memory, if one of the rules is a regular expression; with
        /// texts alone, only what may be the beginning of a match.
        match_max: Size = "1KiB", in 1..=65_536, like "Apache httpd `SubstituteMaxLineLength`";
    }
}

section! {
    /// A rule: what is searched for, and what replaces it.
    #[derive(Debug, Clone)]
    pub(crate) struct BodyRuleText at "listener.NAME.route.rewrite_body.rules" {
        /// This text.
        text: Spanned<Box<str>> = optional;
        /// What matches this regular expression, in place of `text`: in the syntax of Rust's `regex` crate, on bytes. `^` and `$` need `(?m)`: a
        /// body is never whole.
        regex: Spanned<Box<str>> = optional;
        /// What replaces it, with [placeholders](#placeholders), whose values are escaped where the type is HTML or JSON, and the groups of `regex` as
        /// `{1}`. Braces around anything else are text, and so are braces behind a `$`.
        to: Spanned<Box<str>> = required;
        /// Whether only the first match is replaced.
        once: bool = false, like "nginx `sub_filter_once` (on by default there)";
        /// Whether letters match in either case; of `text`, those of ASCII.
        ignore_case: bool = false;
    }
}

section! {
    /// Rewriting of a URL in `Location` or `Refresh` of a server, be its response stored or not. Redirects of Weir itself stay as they are.
    #[derive(Debug, Clone)]
    pub(crate) struct LocationRuleText at "listener.NAME.route.rewrite_location" {
        /// URLs that begin with this: `http://app.internal:8080/`, or a path. The host matches in either case and whole.
        from: Spanned<Box<str>> = optional, like "nginx `proxy_redirect`, Apache httpd `ProxyPassReverse`";
        /// URLs in which this regular expression matches, in place of `from`.
        regex: Spanned<Box<str>> = optional, like "nginx `proxy_redirect ~`, Apache httpd `Header edit Location`";
        /// Whether it is for URLs of the servers of the route, by their addresses in the config and by `forward_host`: scheme and host become those that
        /// the client has used, and what `strip_prefix` or `replace_prefix` has taken off the path is put back.
        server: bool = false, like "nginx `proxy_redirect default`, Apache httpd `ProxyPassReverse`";
        /// What replaces the match, with [placeholders](#placeholders), percent-encoded as a URL needs it, and the groups of `regex` as `{1}`. Not with
        /// `server`.
        to: Spanned<Box<str>> = optional;
    }
}

section! {
    /// Changes of cookies that servers set, be the response stored or not. Every rule that is for a cookie is applied, in their order; cookies
    /// of Weir itself (`affinity`) stay as they are.
    #[derive(Debug, Clone)]
    pub(crate) struct CookieRuleText at "listener.NAME.route.rewrite_cookies" {
        /// The name of the cookie; with a `*` at its end, all that begin so. Without it, all cookies.
        name: Spanned<Box<str>> = optional;
        /// The domain.
        domain: SpannedTable<AttributeText> = optional, like "nginx `proxy_cookie_domain`, Apache httpd `ProxyPassReverseCookieDomain`";
        /// The path.
        path: SpannedTable<AttributeText> = optional, like "nginx `proxy_cookie_path`, Apache httpd `ProxyPassReverseCookiePath`";
        /// Whether the cookie has `Secure`. Without it, as the server says.
        secure: bool = optional, like "nginx `proxy_cookie_flags secure`";
        /// Whether it has `HttpOnly`. Without it, as the server says.
        http_only: bool = optional, like "nginx `proxy_cookie_flags httponly`";
        /// Whether it has `Partitioned`. Without it, as the server says.
        partitioned: bool = optional;
        /// Its `SameSite`. Without it, as the server says.
        same_site: CookieSameSite = optional, like "nginx `proxy_cookie_flags samesite`";
    }
}

section! {
    /// A change of an attribute of a cookie. A cookie without the attribute gets none.
    #[derive(Debug, Clone)]
    pub(crate) struct AttributeText at "listener.NAME.route.rewrite_cookies.attribute" {
        /// The domain that is replaced, or the beginning of the path. Without it and `regex`, any.
        from: Spanned<Box<str>> = optional;
        /// What is replaced of it, in place of `from`: what matches this regular expression, in the syntax of Rust's `regex` crate. A domain matches in
        /// either case, a path with `(?i)`.
        regex: Spanned<Box<str>> = optional, like "nginx `proxy_cookie_domain ~`, `proxy_cookie_path ~`";
        /// What replaces it, with [placeholders](#placeholders), and the groups of `regex` as `{1}`. If nothing is left, the attribute is removed.
        to: Spanned<GroupTemplate> = required;
    }
}

choice! {
    /// Which requests of other sites have a cookie.
    pub(crate) enum CookieSameSite {
        /// none
        Strict = "strict",
        /// those that lead to the site
        #[default]
        Lax = "lax",
        /// all; browsers want `secure` then
        None = "none",
        /// the attribute is removed: browsers decide
        Off = "off",
    }
}
