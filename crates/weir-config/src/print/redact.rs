//! A document without secrets, for the status page: secrets of cookies, and values of headers and parameters with telling names. Other
//! secrets are in files, of which the config has only the names.

use std::sync::Arc;

use weir_traffic::route::{FieldMatch, QueryMatch, RouteMatch, ValueMatch};

use crate::config::AccessLog;
use crate::key::{ConfigValue, Map, OneOrMany, Spanned, SpannedTable};
use crate::masked_text::{has_drawn_word, is_telling, masked_target};
use crate::text::{
    AcmeText, AskUrl, ConditionText, CookieSecretText, Document, ErrorPagesText, ExpiresText, HeadersText,
    ListenerText, MapText, MirrorText, PasswordHashText, ProbeBytes, RouteAccessLogText, RouteText,
    StorePasswordText, UpstreamText, ValueRule,
};
use crate::value::{HeaderTemplate, HeaderValue, Template, TemplateValue, WhenCondition};

/// Long enough to be read as a secret again.
pub(crate) const LEFT_OUT: &str = "(a secret, left out)";

/// The document with every secret replaced.
pub(crate) fn without_secrets(document: &Document) -> Document {
    let mut document = document.clone();
    for (_, value) in &mut document.traces.value.headers.0 {
        *value = hidden_value();
    }
    hide_of_log(&mut document.access_log.value);
    for (_, listener) in &mut document.listener.0 {
        hide_in_listener(&mut listener.value);
        listener.value.route.iter_mut().for_each(|route| hide_in_route(&mut route.value));
    }
    for (_, store) in &mut document.store.0 {
        let sentinel = store.value.sentinel.as_mut().map(|sentinel| &mut sentinel.value.password);
        for password in [Some(&mut store.value.password), sentinel].into_iter().flatten() {
            *password = password.take().map(|_| StorePasswordText(LEFT_OUT.into()));
        }
    }
    for (_, limit) in &mut document.limit.0 {
        hide_condition(&mut limit.value.when);
    }
    for (_, list) in &mut document.list.0 {
        hide_condition(&mut list.value.when);
        let is_secret = list.value.key.value.values().any(TemplateValue::is_secret);
        for entry in list.value.entries.iter_mut().filter(|_| is_secret) {
            entry.value = LEFT_OUT.into();
        }
    }
    document.map.0.iter_mut().for_each(|(name, map)| hide_map(&name.value, &mut map.value));
    for (_, upstream) in &mut document.upstream.0 {
        hide_in_upstream(&mut upstream.value);
    }
    document
}

/// A listener, without its routes.
fn hide_in_listener(listener: &mut ListenerText) {
    hide_variables(&mut listener.vars);
    listener.access_log.iter_mut().for_each(|log| hide_of_log(&mut log.value));
    hide_changes(&mut listener.request_headers);
    hide_changes(&mut listener.response_headers);
    hide_paths(&mut listener.error_pages);
    if let Some(acme) = listener.tls.as_mut().and_then(|tls| tls.0.value.acme.as_mut()) {
        hide_arguments(&mut acme.value);
        if let Some(Spanned { value: AskUrl(url), .. }) = &mut acme.value.on_demand_ask {
            *url = url.to_string().as_str().into();
        }
    }
}

fn hide_in_route(route: &mut RouteText) {
    for rules in [&mut route.header, &mut route.query] {
        hide(rules, || ValueRule::Exact(LEFT_OUT.into()));
    }
    if let Some(condition) = &mut route.when {
        condition.value = hidden_condition(&condition.value);
    }
    hide_variables(&mut route.vars);
    hide_conditions_of_route(route);
    hide_changes(&mut route.request_headers);
    hide_changes(&mut route.response_headers);
    for part in route.split.iter_mut().flat_map(|parts| &mut parts.0) {
        hide_changes(&mut part.value.request_headers);
        hide_changes(&mut part.value.response_headers);
    }
    if let Some(fastcgi) = &mut route.fastcgi {
        hide(&mut fastcgi.value.params, hidden_template);
    }
    if let Some(basic) = &mut route.basic {
        for (_, hash) in &mut basic.value.users.0 {
            hash.value = PasswordHashText(LEFT_OUT.into());
        }
    }
    if let Some(respond) = &mut route.respond {
        hide(&mut respond.value.headers, hidden_template);
    }
    hide_paths(&mut route.error_pages);
    if let Some(keys) = route.jwt.as_mut().and_then(|jwt| jwt.value.remote_keys.as_mut()) {
        mask(&mut keys.value.path.0);
    }
    if let Some(forward) = &mut route.forward_auth {
        hide(&mut forward.value.headers, hidden_template);
        mask(&mut forward.value.path.0);
    }
}

fn hide_in_upstream(upstream: &mut UpstreamText) {
    let retry = &mut upstream.retry.value;
    retry.when = retry.when.take().map(|condition| hidden_condition(&condition));
    if let Some(affinity) = &mut upstream.affinity {
        let secret = &mut affinity.value.secret;
        *secret = secret.take().map(|_| CookieSecretText(LEFT_OUT.into()));
        if let Some(condition) = &mut affinity.value.forget_when {
            condition.value = hidden_condition(&condition.value);
        }
    }
    if let Some(health) = &mut upstream.health {
        hide(&mut health.value.headers, hidden_value);
        if let Some(path) = &mut health.value.path {
            mask(&mut path.0);
        }
        for said in [&mut health.value.send, &mut health.value.quit] {
            *said =
                said.take().map(|said| if said.is_telling() { ProbeBytes::of_text(LEFT_OUT) } else { said });
        }
    }
}

/// Variables without the values of those whose names say that they are secrets.
fn hide_variables(variables: &mut Map<Spanned<Template>>) {
    for (_, text) in variables.0.iter_mut().filter(|(name, _)| is_telling(&name.value)) {
        text.value = Template::of_literal(LEFT_OUT);
    }
}

/// A map without what secrets are looked up in it, and, where its name says so, without its values.
fn hide_map(name: &str, map: &mut MapText) {
    let is_looked_up =
        map.source.iter().flat_map(|source| source.value.values()).any(TemplateValue::is_secret);
    let kinds =
        [&mut map.exact, &mut map.host, &mut map.prefix, &mut map.suffix, &mut map.network, &mut map.regex];
    for (place, (key, value)) in kinds.into_iter().flat_map(|entries| &mut entries.0).enumerate() {
        if is_looked_up {
            key.value = format!("{LEFT_OUT}-{place}").into();
        }
        if is_telling(name) {
            value.value = Template::of_literal(LEFT_OUT);
        }
    }
}

/// A condition without what secrets are compared with; one that never holds where that leaves none.
fn hidden_condition(condition: &WhenCondition) -> WhenCondition {
    let shown = condition.shown(LEFT_OUT).parse();
    shown.unwrap_or_else(|_| "false".parse().expect("it is a condition"))
}

/// The conditions of a route as they are shown: with the values that a shown config has.
pub fn shown_conditions(conditions: &Arc<RouteMatch>) -> String {
    let mut shown = Arc::clone(conditions);
    let is_secret = |name: &str, value: &ValueMatch| {
        is_telling(name) && !matches!(value, ValueMatch::Present | ValueMatch::Absent)
    };
    let hidden = || ValueMatch::Exact(LEFT_OUT.into());
    for at in 0..conditions.headers.len() {
        let rule = &conditions.headers[at];
        if is_secret(rule.name(), rule.value()) {
            Arc::make_mut(&mut shown).headers[at] =
                FieldMatch::new(rule.name(), hidden()).expect("a rule has this name");
        }
    }
    for at in 0..conditions.query.len() {
        let rule = &conditions.query[at];
        if is_secret(rule.name(), rule.value()) {
            Arc::make_mut(&mut shown).query[at] =
                QueryMatch::new(rule.name(), hidden()).expect("a rule has this name");
        }
    }
    if let Some(condition) = conditions.condition.as_ref().and_then(|text| text.parse::<WhenCondition>().ok())
    {
        Arc::make_mut(&mut shown).condition = Some(condition.shown(LEFT_OUT).into());
    }
    shown.to_string()
}

/// Masks a path that Weir asks.
fn mask(path: &mut Box<str>) {
    *path = masked_target(path).into();
}

/// The same of the paths of pages.
fn hide_paths(pages: &mut Option<ErrorPagesText>) {
    for page in pages.iter_mut().flat_map(|pages| &mut pages.0) {
        hide_condition(&mut page.value.when);
        let path = &mut page.value.path.0;
        // A mask has no placeholder, and takes away none.
        if let Ok(masked) = masked_target(&path.to_string()).parse() {
            *path = masked;
        }
    }
}

/// What follows the program: a credential belongs into a file that it reads, but may be here.
fn hide_arguments(acme: &mut AcmeText) {
    for argument in acme.dns_command.iter_mut().flat_map(|command| command.0.iter_mut().skip(1)) {
        let hidden = match argument.value.split_once('=') {
            Some((name, _)) if name.starts_with('-') => Some(format!("{name}={LEFT_OUT}")),
            _ if argument.value.starts_with('-') => None,
            _ => Some(LEFT_OUT.to_owned()),
        };
        if let Some(hidden) = hidden {
            argument.value = hidden.into();
        }
    }
}

fn hide_changes(changes: &mut HeadersText) {
    for table in &mut changes.0 {
        hide(&mut table.value.set, hidden_template);
        hide(&mut table.value.add, hidden_template);
        hide_condition(&mut table.value.when);
    }
}

fn hide_condition(condition: &mut Option<ConditionText>) {
    if let Some(condition) = condition {
        condition.value = hidden_condition(&condition.value);
    }
}

fn hide_mirrors(mirrors: &mut Option<OneOrMany<SpannedTable<MirrorText>>>) {
    for mirror in mirrors.iter_mut().flat_map(|mirrors| &mut mirrors.0) {
        hide_condition(&mut mirror.value.when);
        // A mask has no placeholder, and takes away none.
        if let Some(path) = &mut mirror.value.path
            && let Ok(masked) = masked_target(&path.0.to_string()).parse()
        {
            path.0 = masked;
        }
    }
}

/// The same in the access log, which is read as it is used.
fn hide_of_log(log: &mut AccessLog) {
    log.when = log.when.take().map(|condition| hidden_condition(&condition));
}

/// The same in the cache, `expires`, the mirrors and the log of a route.
fn hide_conditions_of_route(route: &mut RouteText) {
    if let Some(cache) = &mut route.cache {
        let cache = &mut cache.0.value;
        let conditions = [&mut cache.when, &mut cache.refresh_when, &mut cache.store_when];
        conditions.into_iter().for_each(hide_condition);
    }
    if let Some(ExpiresText::Rules(rules)) = &mut route.expires {
        rules.iter_mut().for_each(|rule| hide_condition(&mut rule.value.when));
    }
    hide_mirrors(&mut route.mirror);
    route
        .split
        .iter_mut()
        .flat_map(|parts| &mut parts.0)
        .for_each(|part| hide_mirrors(&mut part.value.mirror));
    if let RouteAccessLogText::Own(log) = &mut route.access_log {
        hide_of_log(&mut log.value);
    }
}

fn hidden_template() -> HeaderTemplate {
    HeaderTemplate::of_literal(&hidden_value())
}

fn hidden_value() -> HeaderValue {
    LEFT_OUT.parse().expect("it is the value of a header")
}

/// Hides values whose names say that they are secrets, and such that look like ones.
fn hide<T: ConfigValue>(map: &mut Map<T>, hidden: impl Fn() -> T) {
    for (name, value) in &mut map.0 {
        if is_telling(&name.value) || has_drawn_word(&value.write()) {
            *value = hidden();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::CheckedConfig;

    #[test]
    fn what_is_shown_has_no_secret() {
        let text = r#"
            [traces]
            endpoint = "http://127.0.0.1:4318/v1/traces?api_key=hush-11&tier=2"
            headers = { tenant = "hush-7" }
            [listener.web]
            address = "127.0.0.1:0"
            [[listener.web.route]]
            path = "/"
            header = { "X-Api-Key" = "hush-1", "X-Colour" = "red" }
            query = { access_token = "hush-2" }
            upstream = "app"
            lists = "stolen"
            forward_auth = { upstream = "app", path = "/hooks/f3a9c01b77aa?token=hush-13" }
            jwt = { remote_keys = { upstream = "app", path = "/f3a9c01b77aa/jwks.json" } }
            error_pages = [{ status = 503, upstream = "app", path = "/f3a9c01b77aa/{status}.html" }]
            request_headers = { set = { Authorization = "Bearer hush-3" }, add = { "X-Secret" = "hush-4" } }
            [list.stolen]
            action = "deny"
            key = "{header.x-api-key}"
            entries = ["hush-8"]
            [store.nodes]
            address = "redis://mymaster"
            password = "hush-9"
            sentinel = { addresses = ["redis://127.0.0.1"], password = "hush-10" }
            [upstream.app]
            servers = ["127.0.0.1:1"]
            affinity = { secret = "hush-5-hush-5-hush-5" }
            health = { path = "/f3a9c01b77aa/alive?token=hush-12&full=1", headers = { Cookie = "hush-6" } }
        "#;
        let checked = CheckedConfig::parse_alone(text, "weir.toml", &|_| None);
        assert!(checked.print().contains("hush-5"), "`weir check --print` reads the file itself");
        let shown = checked.into_result().unwrap().dump.to_string();
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(shown.matches("(a secret, left out)").count(), 10, "{shown}");
        assert!(shown.contains("red"), "{shown}");
        assert!(shown.contains("http://127.0.0.1:4318/v1/traces?api_key=left-out&tier=2"), "{shown}");
        for path in [
            "/left-out/alive?token=left-out&full=1",
            "/hooks/left-out?token=left-out",
            "/left-out/jwks.json",
            "/left-out/{status}.html",
        ] {
            assert!(shown.contains(path), "{path}: {shown}");
        }
    }

    #[test]
    fn conditions_are_shown_without_the_same_secrets() {
        let text = r#"
            [listener.web]
            address = "127.0.0.1:0"
            [[listener.web.route]]
            path = "/a"
            header = { "X-Api-Key" = "hush-1", "X-Colour" = "red", Authorization = true, Cookie = { regex = "hush-2" } }
            query = { access_token = "hush-3", page = "1" }
            respond = {}
        "#;
        let config = CheckedConfig::parse_alone(text, "weir.toml", &|_| None).into_result().unwrap();
        assert_eq!(
            super::shown_conditions(&config.listeners[0].routes[0].matches),
            "path prefix /a, header x-api-key exactly \"(a secret, left out)\", header x-colour exactly \"red\", \
             header authorization present, header cookie exactly \"(a secret, left out)\", \
             query parameter access_token exactly \"(a secret, left out)\", query parameter page exactly \"1\""
        );
    }
}
