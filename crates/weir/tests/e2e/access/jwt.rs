//! Signed tokens: which ones let a request in, and what servers learn of them.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use data_encoding::BASE64URL_NOPAD;

use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// In the year 2100.
const LATER: &str = "4102444800";

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}

/// Who makes tokens: with a key of Ed25519 named `d`, and one of P-256 without a name.
struct Issuer {
    ed25519: Ed25519KeyPair,
    p256: EcdsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        Self {
            ed25519: Ed25519KeyPair::generate().expect("a key"),
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"),
        }
    }

    fn public(&self) -> String {
        encode(self.ed25519.public_key())
    }

    fn keys(&self) -> String {
        let point = &self.p256.public_key().as_ref()[1..];
        format!(
            "{{\"keys\": [{{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"kid\": \"d\", \"x\": \"{}\"}},
             {{\"kty\": \"EC\", \"crv\": \"P-256\", \"use\": \"sig\", \"x\": \"{}\", \"y\": \"{}\"}}]}}",
            self.public(),
            encode(&point[..32]),
            encode(&point[32..])
        )
    }

    fn signed(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = if header.contains("ES256") {
            self.p256.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature").as_ref().to_vec()
        } else {
            self.ed25519.sign(signed.as_bytes()).as_ref().to_vec()
        };
        format!("{signed}.{}", encode(signature))
    }

    /// A token with these claims and an end in the far future.
    fn token(&self, claims: &str) -> String {
        self.signed(r#"{"alg": "EdDSA", "kid": "d"}"#, &format!("{{\"exp\": {LATER}, {claims}}}"))
    }
}

/// Weir with the route `/` for tokens of the issuer.
fn start(origin: &Origin, issuer: &Issuer, keys: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("jwks.json"), issuer.keys())
        .expect("the folder of the test takes a file");
    let config = config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.access_log.format = \"{{user}} {{jwt.role}} {{status}} {{reason}}\"
             listener.web.access_log.output = \"file:{{dir}}/access.log\"
             listener.web.http2.prior_knowledge = \"allowed\"
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             request_headers = {{ set = {{ x-user = \"{{user}}\", x-roles = \"{{jwt.realm_access.roles}}\" }} }}
             [listener.web.route.jwt]
             keys_file = \"jwks.json\"
             {keys}"
        ),
    );
    Weir::start_in(folder, &config)
}

fn fetch(weir: &Weir, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn a_token_that_is_valid_comes_in_and_its_claims_go_to_the_server() {
    let (origin, issuer) = (Origin::serving("fine"), Issuer::new());
    let weir = start(&origin, &issuer, "issuer = \"https://id.test\"\naudience = [\"shop\", \"shop-admin\"]");
    let claims = r#""sub": "ann", "iss": "https://id.test", "aud": ["x", "shop"], "role": "admin", "realm_access": {"roles": ["a", "b"]}"#;
    let tokens = [
        issuer.token(claims),
        issuer.signed(r#"{"alg": "ES256"}"#, &format!("{{\"exp\": {LATER}.5, {claims}}}")),
        issuer.signed(
            r#"{"alg": "ES256", "kid": "other"}"#,
            &format!("{{\"exp\": {LATER}, \"nbf\": 1000, {claims}}}"),
        ),
    ];
    // Twice each: verified, and remembered.
    for token in tokens.iter().chain(&tokens) {
        let spoofed = "X-User: root\r\nX-Roles: root\r\n";
        assert_eq!(fetch(&weir, &format!("{}{spoofed}", bearer(token))).status, 200, "{token}");
        let request = origin.last_request();
        assert_eq!(
            (request.fields().all("x-user"), request.fields().all("x-roles")),
            (vec!["ann"], vec!["a,b"])
        );
        assert!(request.field("authorization").is_some());
    }
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..2 {
        let stream = client.get_with("/", &[("authorization", &format!("bearer {}", tokens[0]))]);
        assert_eq!(client.response(stream).status, 200);
    }
    assert!(weir.access_log(8).iter().all(|line| line == "ann admin 200 -"));
}

#[test]
fn tokens_that_prove_nothing() {
    let (origin, issuer, other) = (Origin::serving("fine"), Issuer::new(), Issuer::new());
    let weir = start(&origin, &issuer, "issuer = \"https://id.test\"\naudience = \"shop\"\nrealm = \"shop\"");
    let claims = r#""sub": "ann", "iss": "https://id.test", "aud": "shop""#;
    let good = issuer.token(claims);
    let (signed, signature) = good.rsplit_once('.').expect("it has a signature");
    let whole = format!("{{\"exp\": {LATER}, {claims}}}");
    let of_secret = |header: &str| {
        // The public key as the secret of HMAC.
        let signed = format!("{}.{}", encode(header), encode(&whole));
        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.public().as_bytes());
        format!("{signed}.{}", encode(hmac::sign(&key, signed.as_bytes())))
    };
    let with_header = |header: &str| issuer.signed(header, &whole);
    let unsigned = |header: &str| format!("{}.{}.", encode(header), encode(&whole));
    for (token, reason) in [
        (unsigned(r#"{"alg": "none"}"#), "token-untrusted"),
        (unsigned(r#"{"alg": "None", "kid": "d"}"#), "token-untrusted"),
        (format!("{signed}."), "token-untrusted"),
        (of_secret(r#"{"alg": "HS256", "kid": "d"}"#), "token-untrusted"),
        (of_secret(r#"{"alg": "EdDSA", "kid": "d"}"#), "token-untrusted"),
        (with_header(r#"{"alg": "RS256", "kid": "d"}"#), "token-untrusted"),
        (with_header(r#"{"alg": "ES384"}"#), "token-untrusted"),
        (with_header(r#"{"alg": "EdDSA", "kid": "../../jwks.json"}"#), "token-untrusted"),
        (with_header(r#"{"alg": "EdDSA", "kid": ["d"]}"#), "token-malformed"),
        (with_header(r#"{"alg": "EdDSA", "kid": "d", "crit": ["exp"]}"#), "token-malformed"),
        (with_header(r#"{"kid": "d"}"#), "token-malformed"),
        (other.token(claims), "token-untrusted"),
        (
            with_header(&format!(
                "{{\"alg\": \"EdDSA\", \"kid\": \"x\", \"jwk\": {{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"{}\"}}}}",
                issuer.public()
            )),
            "token-untrusted",
        ),
        (
            format!("{}.{signature}", signed.replace(&encode(&whole), &encode(whole.replace("ann", "root")))),
            "token-untrusted",
        ),
        (format!("{good}.{signature}"), "token-malformed"),
        ("x.y.z".to_owned(), "token-malformed"),
        ("a".repeat(4000), "token-malformed"),
        (issuer.signed(r#"{"alg": "EdDSA"}"#, &format!("{{\"exp\": 1000, {claims}}}")), "token-expired"),
        (issuer.signed(r#"{"alg": "EdDSA"}"#, &format!("{{{claims}}}")), "token-expired"),
        (
            issuer.signed(r#"{"alg": "EdDSA"}"#, &format!("{{\"exp\": \"{LATER}\", {claims}}}")),
            "token-malformed",
        ),
        (issuer.token(&format!("\"nbf\": {LATER}, {claims}")), "token-early"),
        (issuer.token(r#""iss": "https://other.test", "aud": "shop""#), "token-for-others"),
        (issuer.token(r#""iss": "https://id.test", "aud": ["other", "shop2"]"#), "token-for-others"),
        (
            issuer.token(r#""iss": ["https://id.test", "https://other.test"], "aud": "shop""#),
            "token-for-others",
        ),
        (issuer.token(r#""iss": ["https://id.test"], "aud": "shop""#), "token-for-others"),
        (issuer.token(r#""iss": "https://id.test""#), "token-for-others"),
    ] {
        let response = fetch(&weir, &bearer(&token));
        assert_eq!((response.status, response.reason()), (401, Some(reason)), "{token}");
        let challenge = response.field("www-authenticate").unwrap_or_default();
        assert!(
            challenge.starts_with("Bearer realm=\"shop\", error=\"invalid_token\", error_description=\""),
            "{challenge}"
        );
    }
    for (fields, status, reason) in [
        (String::new(), 401, "token-missing"),
        ("Authorization: Basic YTpi\r\n".to_owned(), 401, "token-missing"),
        ("Authorization: Bearer \r\n".to_owned(), 401, "token-missing"),
        (format!("Authorization: {good}\r\n"), 401, "token-missing"),
        (format!("{}{}", bearer(&good), bearer(&other.token(claims))), 400, "credentials-malformed"),
    ] {
        let response = fetch(&weir, &fields);
        assert_eq!((response.status, response.reason()), (status, Some(reason)), "{fields}");
        let expected = (status == 401).then_some("Bearer realm=\"shop\"");
        assert_eq!(response.field("www-authenticate"), expected);
    }
    assert_eq!(fetch(&weir, &bearer(&"a".repeat(100_000))).status, 431);
    assert_eq!(origin.connections(), 0);
    assert_eq!(fetch(&weir, &bearer(&good)).status, 200);
}

#[test]
fn claims_and_scopes_that_are_missing_are_forbidden() {
    let (origin, issuer) = (Origin::serving("fine"), Issuer::new());
    let keys = "scopes = [\"read\", \"write\"]\nclaims = { role = [\"admin\", \"owner\"] }\nforward_credentials = false";
    let weir = start(&origin, &issuer, keys);
    for (claims, status) in [
        (r#""role": "admin", "scope": "write read""#, 200),
        (r#""role": ["x", "owner"], "scp": ["read", "write"]"#, 200),
        (r#""role": "admin", "scope": "read""#, 403),
        (r#""role": "administrator", "scope": "read write""#, 403),
        (r#""scope": "read write""#, 403),
        (r#""role": {"admin": true}, "scope": "read write""#, 403),
    ] {
        let response = fetch(&weir, &bearer(&issuer.token(claims)));
        assert_eq!(response.status, status, "{claims}");
        if status == 403 {
            assert_eq!(response.reason(), Some("token-insufficient"));
            let expected = "Bearer realm=\"Restricted\", error=\"insufficient_scope\", scope=\"read write\"";
            assert_eq!(response.field("www-authenticate"), Some(expected));
        }
    }
    assert_eq!(origin.requests().len(), 2);
    assert_eq!(origin.last_request().field("authorization"), None);
}

#[test]
fn a_token_in_a_cookie_a_header_or_the_query() {
    let issuer = Issuer::new();
    let token = issuer.token(r#""sub": "ann""#);
    for (from, target, fields) in [
        ("cookie.session", "/".to_owned(), format!("Cookie: a=b; session={token}; c=d\r\n")),
        ("header.x-token", "/".to_owned(), format!("X-Token: {token}\r\n")),
        ("query.t", format!("/?a=b&t={token}"), String::new()),
    ] {
        let origin = Origin::serving("fine");
        let weir = start(&origin, &issuer, &format!("from = \"{from}\""));
        let get = |target: &str, fields: &str| {
            Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
        };
        assert_eq!(get(&target, &fields).status, 200, "{from}");
        assert_eq!(origin.last_request().field("x-user"), Some("ann"));
        assert_eq!(get("/", &bearer(&token)).reason(), Some("token-missing"), "{from}");
    }
}

/// Weir and the server might not believe the same one.
#[test]
fn two_tokens_are_none() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let (good, evil) = (issuer.token(r#""sub": "ann""#), other.token(r#""sub": "root""#));
    for (from, target, fields) in [
        ("cookie.t", "/".to_owned(), format!("Cookie: t={good}; t={evil}\r\n")),
        ("cookie.t", "/".to_owned(), format!("Cookie: t={good}\r\nCookie: t={evil}\r\n")),
        ("cookie.t", "/".to_owned(), format!("Cookie: t={good}; t=\r\n")),
        ("query.t", format!("/?t={good}&t={evil}"), String::new()),
        ("query.t", format!("/?t={good}&%74={evil}"), String::new()),
        ("header.x-t", "/".to_owned(), format!("X-T: {good}\r\nX-T: {evil}\r\n")),
    ] {
        let origin = Origin::serving("fine");
        let weir = start(&origin, &issuer, &format!("from = \"{from}\""));
        let head = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        let refused = Client::exchange(weir.web(), &head);
        assert_eq!(
            (refused.status, refused.reason()),
            (400, Some("credentials-malformed")),
            "{from} {fields}"
        );
        if from == "cookie.t" {
            // Crumbs of HTTP/2 (RFC 9113 section 8.2.3).
            let mut client = Http2Client::connect(weir.web());
            let crumbs = [format!("t={good}"), format!("t={evil}")];
            let stream = client.get_with("/", &[("cookie", &crumbs[0]), ("cookie", &crumbs[1])]);
            assert_eq!(client.response(stream).status, 400);
            let stream = client.get_with("/", &[("cookie", "a=b"), ("cookie", &crumbs[0])]);
            assert_eq!(client.response(stream).status, 200);
        }
    }
}

#[test]
fn changed_keys_count() {
    let (origin, issuer, next) = (Origin::serving("fine"), Issuer::new(), Issuer::new());
    let weir = start(&origin, &issuer, "reload = \"100ms\"");
    let write = |keys: &str| std::fs::write(weir.folder().join("jwks.json"), keys).expect("it is written");
    let status = |token: &str| fetch(&weir, &bearer(token)).status;
    let (old, new) = (issuer.token("\"sub\": \"ann\""), next.token("\"sub\": \"ann\""));
    assert_eq!((status(&old), status(&new)), (200, 401));
    write("{\"keys\": [{\"kty\": \"RSA\"}]}");
    eventually("the log names the key", || {
        let log = weir.stderr();
        log.contains("key 1") && log.contains("cannot be used")
    });
    assert_eq!(status(&old), 200);
    write(&next.keys());
    eventually("the new keys count", || status(&new) == 200);
    assert_eq!(status(&old), 401, "what was remembered of the old keys is forgotten");
}
