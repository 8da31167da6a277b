//! Authentication of a route: users with passwords, tokens, external authorization.

use std::path::Path;
use std::sync::Arc;

use weir_access::{PasswordHash, Users};

use super::headers::{FRAMING, check_question};
use crate::check::scope::CheckScope;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::{
    Access, BasicAuth, ForwardAuth, ForwardAuthCache, ForwardHost, JwtAuth, RemoteKeys, RouteSettings,
    Satisfy, TokenKeys, TokenSource, UpstreamIndex,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{
    BasicText, ForwardAuthCacheText, ForwardAuthText, JwtText, PasswordHashText, RemoteKeysText, RouteText,
};
use crate::value::HeaderName;
use crate::watched_files::{doubt_about_users, load_keys, load_users};

/// Lines of a file that are reported.
const PROBLEMS_MAX: usize = 20;

/// How a hash is made.
const HELP: &str = "`htpasswd -B FILE USER` writes a line with bcrypt";

pub(in crate::check) fn check(
    route: &RouteText,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Access> {
    let basic = route.basic.as_ref().map(|basic| check_basic(basic, around, diagnostics));
    let jwt = route.jwt.as_ref().map(|jwt| check_jwt(jwt, around, diagnostics));
    if let (Some(_), Some(JwtAuth { source: TokenSource::Authorization, .. }), Some(text)) =
        (&basic, &jwt, &route.jwt)
    {
        let message = "`basic` and `jwt` cannot both be in `Authorization`";
        let help = "leave one out, or have the token in a cookie: `from = \"cookie.NAME\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at("from"), message).help(help));
    }
    let forward = route.forward_auth.as_ref().map(|forward| check_forward(forward, around, diagnostics));
    let asks = basic.is_some() || jwt.is_some() || forward.is_some();
    asks.then_some(Access { basic, jwt, forward, satisfy: route.satisfy })
}

/// Reports an alternative that is none, or that would let in what nothing has admitted.
pub(in crate::check) fn check_satisfy(
    text: &SpannedTable<RouteText>,
    settings: &RouteSettings,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(at) = text.written("satisfy").filter(|_| text.value.satisfy == Satisfy::Any) else { return };
    let value = &text.value;
    let kinds = [value.basic.is_some(), value.jwt.is_some(), value.forward_auth.is_some()];
    let kinds = kinds.into_iter().filter(|is_there| *is_there).count();
    if kinds == 0 {
        let message = "`satisfy` has no alternative: the route has no `basic`, `jwt` or `forward_auth`";
        let help = "a list with `action = \"deny\"` refuses a request in any case then";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    } else if kinds == 1 && !settings.may_be_allowed_by_list() && text.is_sound {
        let message = "`satisfy` has no alternative: there is one kind of authentication, and no list before it with `action = \"allow\"`";
        let help =
            "name one in `lists` whose key has neither `{user}` nor `{jwt.NAME}`, such as one of networks";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    if let Some(forward) = value.forward_auth.as_ref().filter(|forward| forward.value.fail_open) {
        let message =
            "`fail_open` does not go with `satisfy = \"any\"`: a client that a list refuses would pass";
        let help = "leave one of them out: with an alternative, something has to admit a request";
        let at_satisfy = at;
        let at = forward.written("fail_open").unwrap_or(forward.span);
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
        diagnostics.push(diagnostic.label(at_satisfy, "one of several").help(help));
    }
}

fn check_basic(
    text: &SpannedTable<BasicText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BasicAuth {
    let BasicText { realm, users_file, users, reload, remember, forward_credentials } = &text.value;
    let file: Option<Arc<Path>> = users_file.as_ref().map(|file| around.files.path(file).into());
    let users = match (users_file, text.written("users")) {
        (Some(file), Some(at)) => {
            let message = "`users_file` and `users` exclude each other";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
            diagnostics.push(diagnostic.label(file.span, "the file"));
            None
        }
        (Some(named), None) => file.as_deref().and_then(|file| users_in(named, file, around, diagnostics)),
        (None, Some(at)) => Some(Arc::new(users_of(&users.0, at, text.is_sound, diagnostics))),
        (None, None) => {
            if text.is_missing("users_file") && text.is_missing("users") {
                let message = "`basic` has no users";
                let help = "write `users_file = \"FILE\"`, or `users = { NAME = \"HASH\" }`";
                let diagnostic = Diagnostic::new(DiagnosticKind::MissingKey, text.span, message);
                diagnostics.push(diagnostic.help(help));
            }
            None
        }
    };
    if users_file.is_none()
        && let Some(at) = text.changed("reload")
    {
        let message = "`reload` has no effect without `users_file`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    BasicAuth {
        realm: realm.0.clone(),
        users: users.unwrap_or_default(),
        file,
        reload: *reload,
        remember: *remember,
        forward_credentials: *forward_credentials,
    }
}

/// The users of the config itself.
fn users_of(
    users: &[(Spanned<Box<str>>, Spanned<PasswordHashText>)],
    at: SourceSpan,
    is_sound: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Users {
    let mut hashes: Vec<(Box<[u8]>, PasswordHash)> = Vec::new();
    for (name, hash) in users {
        if name.value.is_empty() || name.value.contains(':') || name.value.chars().any(char::is_control) {
            let message = format!("{:?} cannot be the name of a user", &*name.value);
            let help = "it has no colon and no control characters (RFC 7617)";
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
        }
        match PasswordHash::parse(&hash.value.0) {
            Ok(parsed) => hashes.push((name.value.as_bytes().into(), parsed)),
            Err(error) => {
                let diagnostic = Diagnostic::new(DiagnosticKind::Credentials, hash.span, error.to_string());
                diagnostics.push(diagnostic.help("`htpasswd -nB USER` prints one with bcrypt"));
            }
        }
    }
    let is_whole = is_sound && hashes.len() == users.len();
    let users = Users::from_into_iterator(hashes);
    if let Some(doubt) = doubt_about_users(&users).filter(|_| is_whole) {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, doubt));
    }
    users
}

/// The users of a file, each file read once.
fn users_in(
    named: &Spanned<Box<str>>,
    file: &Path,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<Users>> {
    if !around.files.may_read {
        return None;
    }
    around.files.users(file, || {
        let users =
            load_users(file).map_err(|problems| report(named, file, &problems, HELP, diagnostics)).ok()?;
        if let Some(doubt) = doubt_about_users(&users) {
            let message = format!("`{}`: {doubt}", file.display());
            diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, named.span, message).help(HELP));
        }
        Some(users)
    })
}

/// Reports what is wrong with a file.
fn report(
    named: &Spanned<Box<str>>,
    file: &Path,
    problems: &[String],
    help: &str,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let shown = file.display();
    for problem in problems.iter().take(PROBLEMS_MAX) {
        let message = format!("`{shown}`: {problem}");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Credentials, named.span, message).help(help));
    }
    if problems.len() > PROBLEMS_MAX {
        let message = format!("`{shown}`: {} more lines cannot be used", problems.len() - PROBLEMS_MAX);
        diagnostics.push(Diagnostic::new(DiagnosticKind::Credentials, named.span, message));
    }
}

fn check_jwt(
    text: &SpannedTable<JwtText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> JwtAuth {
    let value = &text.value;
    for scope in value.scopes.iter().filter(|scope| !is_scope(&scope.value)) {
        let message = format!("`{}` is not one scope (RFC 6749 section 3.3)", scope.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, scope.span, message));
    }
    JwtAuth {
        keys: check_keys(text, around, diagnostics),
        algorithms: value.algorithms.0.iter().map(|algorithm| algorithm.value.to_algorithm()).collect(),
        issuers: value.issuer.iter().flat_map(|issuers| issuers.0.clone()).collect(),
        audiences: value.audience.iter().flat_map(|audiences| audiences.0.clone()).collect(),
        leeway: value.leeway,
        expiry_required: value.expiry_required,
        source: value.from.clone(),
        claims: value.claims.0.iter().map(|(name, values)| (name.value.clone(), values.0.clone())).collect(),
        scopes: value.scopes.iter().map(|scope| scope.value.clone()).collect(),
        realm: value.realm.0.clone(),
        forward_credentials: value.forward_credentials,
    }
}

/// Where the keys are from: one of a file and a server.
fn check_keys(
    text: &SpannedTable<JwtText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> TokenKeys {
    let value = &text.value;
    if let (Some(remote), Some(at)) = (&value.remote_keys, text.written("keys_file")) {
        let message = "`keys_file` and `remote_keys` exclude each other";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
        diagnostics.push(diagnostic.label(remote.span, "the keys of a server"));
    }
    if let Some(remote) = &value.remote_keys {
        if let Some(at) = text.changed("reload") {
            let message = "`reload` has no effect without `keys_file`";
            let help = "`remote_keys.refresh` says how often keys are fetched";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
        return TokenKeys::Remote(check_remote_keys(remote, around, diagnostics));
    }
    if text.is_missing("keys_file") && text.is_missing("remote_keys") {
        let message = "`jwt` has no keys";
        let help = "write `keys_file = \"FILE\"`, or `remote_keys = { upstream = \"NAME\" }`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
    }
    keys_of_file(value, around, diagnostics)
}

fn keys_of_file(value: &JwtText, around: &CheckScope<'_>, diagnostics: &mut Vec<Diagnostic>) -> TokenKeys {
    const HELP: &str = "write a JWK Set: `{\"keys\": [...]}`, as issuers publish it below `jwks_uri`";
    let file: Arc<Path> =
        value.keys_file.as_ref().map(|file| around.files.path(file)).unwrap_or_default().into();
    let keys = value.keys_file.as_ref().filter(|_| around.files.may_read).and_then(|named| {
        around.files.keys(&file, || {
            load_keys(&file).map_err(|problems| report(named, &file, &problems, HELP, diagnostics)).ok()
        })
    });
    let names_secrets = value.algorithms.0.iter().any(|algorithm| algorithm.value.name().starts_with("HS"));
    if let (Some(keys), Some(named)) = (&keys, &value.keys_file)
        && keys.has_secret()
        && !names_secrets
    {
        let message =
            format!("`{}`: secrets in it are of no use: `algorithms` has none of HMAC", file.display());
        let help = "name them if tokens are signed by a secret, as in `algorithms = [\"HS256\"]`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, named.span, message).help(help));
    }
    TokenKeys::File { keys: keys.unwrap_or_default(), file, reload: value.reload }
}

fn check_remote_keys(
    text: &SpannedTable<RemoteKeysText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> RemoteKeys {
    let RemoteKeysText { upstream, path, forward_host, refresh, cooldown, timeout, body_size } = &text.value;
    let found = upstream.as_ref().map(|upstream| around.upstreams.find_fixed(upstream, diagnostics));
    if *forward_host == ForwardHost::Keep {
        let message = "there is no client whose host could be kept";
        let help = "write `\"server\"`, or the name of the issuer";
        let at = text.key_at("forward_host");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
    }
    RemoteKeys {
        upstream: found.unwrap_or(UpstreamIndex(0)),
        upstream_name: upstream.as_ref().map(|upstream| upstream.value.clone()).unwrap_or_default(),
        path: path.0.clone().into(),
        forward_host: forward_host.clone(),
        refresh: *refresh,
        cooldown: *cooldown,
        timeout: *timeout,
        body_size: *body_size,
    }
}

/// Whether a text is one scope, which can stand between quotes.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

fn check_forward(
    text: &SpannedTable<ForwardAuthText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ForwardAuth {
    let ForwardAuthText {
        upstream,
        path,
        forward_host,
        request_headers,
        headers,
        response_headers,
        body_size,
        timeout,
        cache,
        fail_open,
    } = &text.value;
    let found = upstream.as_ref().map(|upstream| around.upstreams.find_fixed(upstream, diagnostics));
    for name in response_headers.iter().filter(|name| is_of_connection(name)) {
        let message =
            format!("`{}` cannot be taken from an answer: it is about framing or the connection", &**name);
        let at = text.key_at("response_headers");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message));
    }
    ForwardAuth {
        upstream: found.unwrap_or(UpstreamIndex(0)),
        path: path.0.clone().into(),
        forward_host: forward_host.clone(),
        request_headers: request_headers.clone(),
        headers: check_question(headers, diagnostics),
        response_headers: response_headers.clone(),
        body_size: *body_size,
        timeout: *timeout,
        cache: cache
            .as_ref()
            .zip(upstream.as_ref())
            .and_then(|(cache, upstream)| check_kept(cache, &upstream.value, &text.value, diagnostics))
            .map(Box::new),
        fail_open: *fail_open,
    }
}

/// How answers are kept; `None` where the key would give one client the answer for another.
fn check_kept(
    text: &SpannedTable<ForwardAuthCacheText>,
    upstream: &str,
    question: &ForwardAuthText,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ForwardAuthCache> {
    let ForwardAuthCacheText { key, time, denied_time, entries } = &text.value;
    let key = key.as_ref()?;
    let place = TemplatePlace { stage: Stage::Route, ..TemplatePlace::SHARED };
    templates::check(&key.value, key.span, &place, diagnostics);
    let cache = ForwardAuthCache {
        upstream: upstream.into(),
        key: key.value.clone(),
        time: time.unwrap_or_default(),
        denied_time: *denied_time,
        entries: *entries,
    };
    let is_sent = |name: &str| {
        let has = |names: &[HeaderName]| names.iter().any(|one| **one == *name);
        question.request_headers.as_deref().is_none_or(has)
            && !has(&question.response_headers)
            && !question.headers.0.iter().any(|(own, _)| own.value.eq_ignore_ascii_case(name))
    };
    if !cache.has_credentials(is_sent) {
        let message = "the key has no credentials of the client that the server gets: what is answered for one would be the answer for all";
        let help = "name what the server decides by, such as `{header.authorization}` or `{cookie.session}`, and `{path}` if it goes by that";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, key.span, message).help(help));
        return None;
    }
    time.map(|_| cache)
}

/// Whether a header is written anew for each connection.
fn is_of_connection(name: &HeaderName) -> bool {
    const OF_MESSAGE: [&str; 3] = ["host", "expect", "content-encoding"];
    FRAMING.contains(&&**name) || OF_MESSAGE.contains(&&**name)
}
