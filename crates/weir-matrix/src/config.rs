//! A case as a `weir.toml`, and the files beside it: certificates, keys of tokens, an error page.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use aws_lc_rs::hmac;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::array::{Case, Client, Event, Feature, Server};
use crate::exchange::{REWRITTEN, USERS};

/// The host of all requests, and the name in the certificate of the listener.
pub(crate) const HOST: &str = "a.test";
/// The name in the certificate of the servers.
pub(crate) const SERVER_NAME: &str = "server.test";
/// The client that headers of the PROXY protocol name.
pub(crate) const NAMED_CLIENT: &str = "192.0.2.7";
/// What the page in place of Weir's own says.
pub(crate) const ERROR_PAGE: &str = "our own page";

/// The connections that the listener takes where they are full.
pub(crate) const CONNECTIONS_MAX: usize = 3;

/// `{SHA}` of `s3cret`, quick to verify.
const PASSWORD_HASH: &str = "{SHA}/vNB+F2HQ559kaLUZbmHHvZrXpg=";
const PASSWORD: &str = "s3cret";
const TOKEN_SECRET: &[u8] = b"a secret of sixty-four bytes, which is enough for HMAC of SHA-256";

/// Addresses of the servers of a case.
pub(crate) struct Addresses {
    /// The two servers of the upstream.
    pub(crate) app: [SocketAddr; 2],
    /// The server of copies.
    pub(crate) copies: SocketAddr,
    /// The server of `forward_auth`.
    pub(crate) judge: SocketAddr,
    /// The registry that names the servers of the upstream.
    pub(crate) registry: SocketAddr,
}

/// A condition that holds for every exchange: of the request, the connection, the client, an upstream.
const HOLDS: &str = "'method in [\"GET\", \"HEAD\", \"POST\"] && !has(header[\"x-never\"]) && path.startsWith(\"/\") && upstream.app.usable >= 0 && \
                     (client_address in [\"127.0.0.0/8\", \"192.0.2.0/24\"] || query.q == \"1\")'";

/// One that holds for none.
const NEVER: &str = "'header[\"x-never\"] == \"1\" || method == \"NEVER\" || content_length > 1000000000'";

/// A key of an inline table, behind others: the condition that holds, where the case has conditions.
fn when(case: &Case) -> String {
    if case.has(Feature::When) { format!(", when = {HOLDS}") } else { String::new() }
}

/// Changes to headers: under a condition that holds, before some that are under none that does.
fn header_rules(case: &Case, key: &str) -> String {
    let rule = "remove = [\"x-secret\"], set = { x-rule = \"1\" }";
    let never = format!("{{ when = {NEVER}, remove = [\"x-id\"], set = {{ x-rule = \"2\" }} }}");
    match (case.has(Feature::HeaderRules), case.has(Feature::When)) {
        (true, true) => format!("{key} = [{{ {rule}{} }}, {never}]", when(case)),
        (true, false) => format!("{key} = {{ {rule} }}"),
        (false, true) => format!("{key} = {never}"),
        (false, false) => String::new(),
    }
}

/// A table that counts every request under this condition.
fn table(when: &str) -> String {
    let counters = ["conn_cur", "http_req_rate(10s)", "http_err_cnt", "gpc0", "bytes_out_cnt"];
    format!("table.seen = {{ store = {counters:?}, increment.gpc0 = 'status >= 400'{when} }}")
}

/// The lists that may be asked, a line each.
fn lists(case: &Case) -> Vec<String> {
    let mut lines = Vec::new();
    if case.has(Feature::Lists) {
        let when = when(case);
        lines.push(format!(
            "list.known = {{ action = \"tag\", entries = [\"127.0.0.0/8 near\", \"192.0.2.0/24 far\"]{when} }}"
        ));
        lines.push(format!(
            "list.bad = {{ action = \"deny\", key = \"{{header.x-bad}}\", entries = [\"yes\"]{when} }}"
        ));
        if case.has(Feature::When) {
            lines.push(format!("list.never = {{ action = \"deny\", when = {NEVER} }}"));
        }
    }
    if is_by_members(case) {
        lines.push(format!(
            "list.members = {{ action = \"allow\", key = \"{{user}}\", entries = {USERS:?} }}"
        ));
        lines.push("list.others = { action = \"deny\", entries = [\"0.0.0.0/0\"] }".to_owned());
    }
    lines
}

/// The config.
pub(crate) fn text(case: &Case, addresses: &Addresses) -> String {
    let mut text = String::from("process.workers = 2\n");
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    if case.has(Feature::Cache) {
        line("cache.store = { memory = \"8MiB\", response_max = \"256KiB\" }");
    }
    if case.has(Feature::Limits) {
        let when = when(case);
        line(&format!(
            "limit.all = {{ rate = \"100000/s\", concurrent = 1000, bandwidth = \"200MB/s\"{when} }}"
        ));
    }
    if case.has(Feature::Tables) {
        line(&table(&when(case)));
        line(
            "list.counted = { action = \"deny\", when = 'table.seen.http_req_rate > 100000 || table.seen.gpc0 > 100000' }",
        );
    }
    if case.event == Event::LimitReached {
        // Each client asks once that is not to be refused.
        let key = if case.names_users() { "{user}" } else { "{header.x-counted}" };
        line(&format!("limit.counted = {{ key = \"{key}\", rate = \"1/h\"{} }}", when(case)));
    }
    lists(case).iter().for_each(|list| line(list));
    if case.has(Feature::Discovered) {
        line(&format!("discovery.consul.url = \"http://{}\"", addresses.registry));
    }
    line("\n[listener.web]\naddress = \"127.0.0.1:0\"");
    if case.event == Event::ConnectionsFull {
        line(&format!("connections_max = {CONNECTIONS_MAX}"));
    }
    if case.client.has_certificate() {
        line("tls.client_certificates = { ca = \"ca.pem\", verify = \"required\" }");
    }
    if case.client.has_tls() {
        line("tls.certificates = [{ certificate = \"web.pem\", key = \"web.key\" }]");
    }
    match case.client {
        Client::H3 | Client::H3Certificate => line("http3 = {}"),
        Client::H2c => line("http2.prior_knowledge = \"allowed\""),
        Client::Proxy => line("proxy_protocol.from = [\"127.0.0.0/8\"]"),
        Client::Http1 | Client::Pipelined | Client::GrpcWeb | Client::H2 | Client::H2Certificate => {}
    }
    if case.has(Feature::Rewrites) {
        text.push_str(&format!(
            "\n[[listener.web.route]]\npath = \"{REWRITTEN}\"\nrespond.status = 500\n\
             rewrite = [{{ pattern = '^{REWRITTEN}(/.*)$', replacement = \"$1\", flag = \"last\" }}]\n"
        ));
    }
    text.push_str(&route(case, "all"));
    if case.has(Feature::TwoRoutes) {
        text.push_str(&route(case, "other"));
        text.push_str("header = { x-route = \"other\" }\n");
    }
    text.push_str(&upstreams(case, addresses));
    text
}

/// Whether only known users may pass. An `allow` goes before all limits.
fn is_by_members(case: &Case) -> bool {
    case.has(Feature::Lists) && case.names_users() && case.event != Event::LimitReached
}

fn route(case: &Case, name: &str) -> String {
    let mut text = format!("\n[[listener.web.route]]\nname = \"{name}\"\nupstream = \"app\"\n");
    let limits: Vec<&str> =
        [(case.has(Feature::Limits), "\"all\""), (case.event == Event::LimitReached, "\"counted\"")]
            .into_iter()
            .filter_map(|(is_on, name)| is_on.then_some(name))
            .collect();
    if case.has(Feature::Tables) {
        text.push_str("track = \"seen\"\n");
    }
    if !limits.is_empty() {
        writeln!(text, "limited_by = [{}]", limits.join(", ")).expect("a string takes it");
    }
    let when = when(case);
    let cache =
        format!("cache = {{ name = \"store\"{when}, refresh_when = {NEVER}, store_when = 'status < 600' }}");
    let mirror = format!("mirror = {{ upstream = \"copies\"{when} }}");
    let members = if is_by_members(case) { ", \"members\", \"others\"" } else { "" };
    let never = if case.has(Feature::When) { ", \"never\"" } else { "" };
    let counted = if case.has(Feature::Tables) { "\"counted\", " } else { "" };
    let lists = match case.has(Feature::Lists) {
        true => format!("lists = [{counted}\"known\", \"bad\"{never}{members}]"),
        false => "lists = [\"counted\"]".to_owned(),
    };
    let error_pages = format!(
        "error_pages = [{{ status = \"500-599\", html = \"page.html\", json = \"page.html\", of_servers = true{when} }}]"
    );
    let lines: [(bool, &str); _] = [
        (case.client == Client::GrpcWeb, "grpc_web = true"),
        (
            case.server == Server::Fastcgi,
            "fastcgi = { root = \"/srv\", script = \"/index.php\", check_script = false }",
        ),
        (case.has(Feature::Cache) && !case.has(Feature::When), "cache = \"store\""),
        (case.has(Feature::Cache) && case.has(Feature::When), &*cache),
        (case.has(Feature::Compression), "compression = { algorithms = [\"gzip\"], min_length = \"16B\" }"),
        (
            case.has(Feature::Rewriting),
            "rewrite_body = { types = [\"*\"], rules = [{ text = \"[\", to = \"[\" }] }",
        ),
        (case.has(Feature::Accel), "x_accel = [\"limit_rate\", \"buffering\"]"),
        (case.has(Feature::BufferRequests), "buffer_requests = { memory = \"16KiB\", file = \"64KiB\" }"),
        (case.has(Feature::BufferResponses), "buffer_responses = { memory = \"16KiB\", file = \"64KiB\" }"),
        (case.has(Feature::Mirror), &*mirror),
        (case.has(Feature::Lists) || case.has(Feature::Tables), &*lists),
        (
            case.has(Feature::ForwardAuth),
            "forward_auth = { upstream = \"judge\", path = \"/verify\", response_headers = [\"remote-user\"] }",
        ),
        (
            case.has(Feature::Jwt),
            "jwt = { keys_file = \"jwks.json\", algorithms = [\"HS256\"], from = \"header.x-token\" }",
        ),
        (case.has(Feature::ErrorPages), &*error_pages),
        (true, &*header_rules(case, "request_headers")),
        (true, &*header_rules(case, "response_headers")),
    ];
    for (_, line) in lines.iter().filter(|(is_on, _)| *is_on) {
        text.push_str(line);
        text.push('\n');
    }
    if case.has(Feature::Basic) {
        let users = USERS.map(|user| format!("{user} = \"{PASSWORD_HASH}\"")).join(", ");
        writeln!(text, "basic = {{ users = {{ {users} }} }}").expect("a string takes it");
    }
    text
}

fn upstreams(case: &Case, addresses: &Addresses) -> String {
    let [a, b] = addresses.app;
    let protocol = match case.server {
        Server::Length | Server::Chunked | Server::Close => "http1",
        Server::H2 => "h2",
        Server::H2c => "h2c",
        Server::Fastcgi => "fastcgi",
    };
    let mut text = format!(
        "\n[upstream.app]\nprotocol = \"{protocol}\"\nbalance = \"consistent-hash\"\nhash_key = \"path\"\ntimeouts.response = \"10s\"\n"
    );
    text.push_str(&match case.has(Feature::Discovered) {
        true => "discovery = { consul = \"app\" }\n".to_owned(),
        false => format!(
            "servers = [{{ name = \"a\", address = \"{a}\" }}, {{ name = \"b\", address = \"{b}\" }}]\n"
        ),
    });
    if case.has(Feature::Tls) {
        writeln!(text, "tls = {{ ca = \"ca.pem\", server_name = \"{SERVER_NAME}\" }}")
            .expect("a string takes it");
    }
    text.push_str(&match case.has(Feature::Retries) {
        true => format!("retry = {{ attempts_max = 3, budget_per_second = 1000{} }}\n", when(case)),
        false => "retry = { attempts_max = 1 }\n".to_owned(),
    });
    text.push_str(match (case.has(Feature::SessionKeys), case.has(Feature::Affinity)) {
        (true, _) => "affinity = { mode = \"stick\", key = \"{header.x-user}\" }\n",
        (false, true) => "affinity = {}\n",
        (false, false) => "",
    });
    if case.has(Feature::Mirror) {
        writeln!(text, "\n[upstream.copies]\nservers = [\"{}\"]", addresses.copies)
            .expect("a string takes it");
    }
    if case.has(Feature::ForwardAuth) {
        writeln!(text, "\n[upstream.judge]\nservers = [\"{}\"]", addresses.judge).expect("a string takes it");
    }
    text
}

/// `Authorization` of a user, for `basic`.
pub(crate) fn basic_credentials(user: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{PASSWORD}").as_bytes()))
}

/// A token of a user, for `jwt`; it is valid until the year 2100.
pub(crate) fn token(user: &str) -> String {
    let claims = format!("{{\"exp\": 4102444800, \"sub\": \"{user}\"}}");
    let header = BASE64URL_NOPAD.encode(br#"{"alg": "HS256"}"#);
    let signed = format!("{header}.{}", BASE64URL_NOPAD.encode(claims.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, TOKEN_SECRET);
    format!("{signed}.{}", BASE64URL_NOPAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref()))
}

/// Writes what configs name into `folder`.
pub(crate) fn write_files(folder: &Path) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
    };
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    write("ca.pem", &authority.pem())?;
    for (stem, name) in [("web", HOST), ("server", SERVER_NAME), ("client", "alice.test")] {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &authority)?;
        write(&format!("{stem}.pem"), &certificate.pem())?;
        write(&format!("{stem}.key"), &key.serialize_pem())?;
    }
    let secret = BASE64URL_NOPAD.encode(TOKEN_SECRET);
    write("jwks.json", &format!("{{\"keys\": [{{\"kty\": \"oct\", \"k\": \"{secret}\"}}]}}"))?;
    write("page.html", ERROR_PAGE)
}
