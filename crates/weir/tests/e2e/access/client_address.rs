//! Who the client is: by a header of trusted proxies, whose networks may be in files, and by nothing that another peer says.

use crate::harness::origin::ok;
use crate::harness::scripts::echo;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// Weir that believes 127.0.0.0/8 in `header`, and shows the client in a response header, its log and to servers.
fn start(origin: &Origin, header: &str, keys: &str) -> Weir {
    Weir::start(&config(origin, header, "[\"127.0.0.0/8\"]", keys))
}

fn config(origin: &Origin, header: &str, trusted: &str, keys: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.trusted_proxies = {trusted}
             listener.web.client_address_header = \"{header}\"
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.access_log.format = \"{{client_address}} {{status}} {{reason}}\"
             listener.web.access_log.output = \"file:{{dir}}/access.log\"
             listener.web.response_headers.set.x-client = \"{{client_address}}\"
             listener.web.request_headers.set.x-real-client = \"{{client_address}}\"
             {keys}"
        ),
    )
}

fn get(weir: &Weir, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

#[test]
fn any_header_of_a_trusted_proxy_names_the_client() {
    for (header, sent, client) in [
        ("x-real-ip", "X-Real-IP: 192.0.2.1\r\n", "192.0.2.1"),
        ("cf-connecting-ip", "CF-Connecting-IP: 2001:db8::7\r\n", "2001:db8::7"),
        ("true-client-ip", "True-Client-IP: 192.0.2.1\r\nX-Forwarded-For: 6.6.6.6\r\n", "192.0.2.1"),
        ("forwarded", "Forwarded: for=6.6.6.6, for=192.0.2.1, for=127.0.0.9\r\n", "192.0.2.1"),
        ("x-forwarded-for", "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\nX-Real-IP: 7.7.7.7\r\n", "192.0.2.1"),
        ("off", "X-Forwarded-For: 6.6.6.6\r\n", "127.0.0.1"),
        // A health check of the proxy itself has none.
        ("cf-connecting-ip", "X-Forwarded-For: 6.6.6.6\r\n", "127.0.0.1"),
    ] {
        let origin = echo();
        let weir = start(&origin, header, "");
        let response = get(&weir, sent);
        assert_eq!((response.status, response.field("x-client")), (200, Some(client)), "{header}");
        assert_eq!(origin.last_request().field("x-real-client"), Some(client), "{header}");
        let fields: Vec<(String, &str)> = sent
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, *value)).collect();
        let mut second = Http2Client::connect(weir.web());
        let stream = second.get_with("/", &fields);
        let response = second.response(stream);
        assert_eq!((response.status, response.field("x-client")), (200, Some(client)), "{header}");
        assert_eq!(weir.access_log(2), vec![format!("{client} 200 -"); 2], "{header}");
    }
}

/// Not the address of the proxy: it may be one that is allowed more than any client.
#[test]
fn what_cannot_be_read_is_answered_400() {
    let keys = "listener.web.lists = \"proxies\"\nlist.proxies = { action = \"allow\", entries = [\"127.0.0.0/8\"] }";
    for (header, sent) in [
        ("cf-connecting-ip", "CF-Connecting-IP: 192.0.2.1\r\ncf-connecting-ip: 192.0.2.2\r\n"),
        ("cf-connecting-ip", "CF-Connecting-IP: 192.0.2.1, 192.0.2.2\r\n"),
        ("x-real-ip", "X-Real-IP: localhost\r\n"),
        ("x-real-ip", "X-Real-IP:\r\n"),
        ("forwarded", "Forwarded: for=\"x, for=192.0.2.1\r\n"),
    ] {
        let origin = echo();
        let weir = start(&origin, header, keys);
        let refused = get(&weir, sent);
        assert_eq!((refused.status, refused.reason()), (400, Some("client-address-bad")), "{sent}");
        let mut second = Http2Client::connect(weir.web());
        let fields: Vec<(String, &str)> = sent
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
            .collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, *value)).collect();
        let stream = second.get_with("/", &fields);
        assert_eq!(second.response(stream).status, 400, "{sent}");
        assert_eq!(origin.requests().len(), 0, "{sent}");
        assert_eq!(weir.access_log(2), vec!["127.0.0.1 400 client-address-bad"; 2]);
    }
}

/// Neither in a head nor behind a body, in no spelling, on no listener: servers take it for the word of the proxy.
#[test]
fn no_other_peer_says_who_the_client_is() {
    let origin = echo();
    let keys = "listener.other = { address = \"127.0.0.1:0\", upstream = \"app\" }";
    let weir = Weir::start(&config(&origin, "cf-connecting-ip", "[\"10.0.0.0/8\"]", keys));
    let forged = "CF-Connecting-IP: 10.0.0.1\r\nCF_Connecting_IP: 10.0.0.1\r\nX-Real-IP: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\n";
    let several = format!("{forged}CF-Connecting-IP: nonsense\r\n");
    let body = "Transfer-Encoding: chunked\r\nTrailer: CF-Connecting-IP\r\n\r\n2\r\nhi\r\n0\r\nCF-Connecting-IP: 10.0.0.1\r\nX-Kept: 1\r\n\r\n";
    for (address, is_listener) in [(weir.web(), true), (weir.address("other"), false)] {
        let request = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{several}{body}");
        let response = Client::exchange(address, &request);
        assert_eq!(response.status, 200);
        assert_eq!(response.field("x-client"), is_listener.then_some("127.0.0.1"));
        let seen = origin.last_request();
        assert_eq!(seen.fields().all("cf-connecting-ip"), Vec::<&str>::new(), "{seen:?}");
        for name in ["cf_connecting_ip", "x-real-ip", "forwarded"] {
            assert_eq!(seen.field(name), None, "{name}: {seen:?}");
        }
        assert!(!format!("{seen:?}").contains("10.0.0.1"), "{seen:?}");
    }
    let mut second = Http2Client::connect(weir.web());
    let stream = second.get_with("/", &[("cf-connecting-ip", "10.0.0.1")]);
    assert_eq!(second.response(stream).field("x-client"), Some("127.0.0.1"));
    assert_eq!(origin.last_request().field("cf-connecting-ip"), None);
}

/// The peer is who a PROXY header names: a proxy behind a balancer is trusted by its own address.
#[test]
fn a_proxy_behind_a_balancer_is_trusted_by_the_address_that_the_balancer_names() {
    let origin = echo();
    let keys =
        "listener.web.proxy_protocol.from = [\"list.balancers\"]\nlist.balancers.entries = [\"127.0.0.1\"]";
    let weir = Weir::start(&config(&origin, "x-real-ip", "[\"192.0.2.0/24\"]", keys));
    for (proxy, client) in [("192.0.2.7", "203.0.113.5"), ("198.51.100.7", "198.51.100.7")] {
        let mut connection = Client::connect(weir.web());
        connection.send(format!(
            "PROXY TCP4 {proxy} 198.51.100.2 4660 443\r\nGET / HTTP/1.1\r\nHost: a\r\nX-Real-IP: 203.0.113.5\r\n\r\n"
        ));
        assert_eq!(connection.response().field("x-client"), Some(client), "{proxy}");
    }
}

/// A network that leaves the file is not believed from the next request on, on connections that are open as well.
#[test]
fn a_list_of_trusted_networks_is_followed() {
    let origin = echo();
    let folder = temporary_folder();
    let file = folder.path().join("cdn.txt");
    std::fs::write(&file, "# the networks of the CDN\n127.0.0.2   # one\n127.0.0.3\n").unwrap();
    let keys = "process.reload = \"on-change\"\nlist.cdn.file = \"cdn.txt\"";
    let config = config(&origin, "cf-connecting-ip", "[\"list.cdn\"]", keys);
    let weir = Weir::start_in(folder, &config);
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nCF-Connecting-IP: 192.0.2.1\r\n\r\n";
    let mut clients =
        ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(|from| Client::connect_from(from, weir.web()));
    let mut seen = move || {
        clients.each_mut().map(|client| {
            client.send(request);
            let response = client.response();
            assert_eq!(response.status, 200);
            response.field("x-client").expect("it is set").to_owned()
        })
    };
    assert_eq!(seen(), ["192.0.2.1", "192.0.2.1", "127.0.0.4"]);
    assert_eq!(origin.requests()[0].field("cf-connecting-ip"), Some("192.0.2.1"), "of the proxy, it passes");
    assert_eq!(origin.requests()[2].field("cf-connecting-ip"), None);
    std::fs::write(&file, "127.0.0.3\n127.0.0.4\n").unwrap();
    eventually("the file is read again", || seen() == ["127.0.0.2", "192.0.2.1", "192.0.2.1"]);
    // A file with an error is not used, and the one before stays.
    std::fs::write(&file, "127.0.0.3\n127.0.0.1/8\n").unwrap();
    eventually("the error is told", || weir.stderr().contains("has bits set beyond"));
    assert_eq!(seen(), ["127.0.0.2", "192.0.2.1", "192.0.2.1"]);
}

/// What follows from the client: limits, lists, hashing, mirrors, caches by it.
#[test]
fn all_that_asks_for_the_client_asks_for_this_one() {
    let (origins, copies) =
        ([Origin::serving("0"), Origin::serving("1"), Origin::serving("2")], Origin::serving("copy"));
    let servers: Vec<String> =
        origins.iter().zip(["a", "b", "c"]).map(|(origin, name)| origin.named(name)).collect();
    let weir = Weir::start(&config_with(
        &servers,
        &format!(
            "listener.web.trusted_proxies = [\"127.0.0.0/8\"]
             listener.web.client_address_header = \"x-real-ip\"
             listener.web.lists = \"bad\"
             list.bad = {{ action = \"deny\", entries = [\"203.0.113.0/24\"] }}
             listener.web.limited_by = \"each\"
             limit.each = {{ rate = \"6/h\" }}
             upstream.app.balance = \"consistent-hash\"
             upstream.app.hash_key = \"client-address\"
             upstream.app.hash_load_factor = \"off\"
             upstream.copy.servers = [\"{}\"]
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             request_headers.set.x-client = \"{{client_address}}\"
             mirror = {{ upstream = \"copy\" }}",
            copies.address()
        ),
    ));
    let from = |client: &str| get(&weir, &format!("X-Real-IP: {client}\r\n"));
    assert_eq!(from("203.0.113.7").status, 403);
    let mut servers = Vec::new();
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"] {
        let seen: Vec<String> = (0..6).map(|_| from(client).text()).collect();
        assert!(seen.iter().all(|one| *one == seen[0]), "{client}: {seen:?}");
        servers.push(seen[0].clone());
        assert_eq!(from(client).status, 429, "{client}");
    }
    servers.dedup();
    assert!(servers.len() > 1, "clients are on several servers: {servers:?}");
    eventually("the copies have come", || copies.requests().len() == 36);
    assert!(copies.requests().iter().all(|copy| copy.field("x-client") == copy.field("x-real-ip")));
}

#[test]
fn a_stored_response_is_of_the_client_that_its_key_names() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let body = request.field("x-real-client").unwrap_or_default().to_owned();
            conn.send(ok(&body).replacen("\r\n", "\r\nCache-Control: public, max-age=60\r\n", 1))?;
        }
    });
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "listener.web.trusted_proxies = [\"127.0.0.0/8\"]
         listener.web.client_address_header = \"true-client-ip\"
         cache.pages.memory = \"16MiB\"
         [[listener.web.route]]
         path = \"/\"
         upstream = \"app\"
         request_headers.set.x-real-client = \"{client_address}\"
         cache = { name = \"pages\", key = \"{path} {client_address}\" }",
    ));
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"] {
        assert_eq!(get(&weir, &format!("True-Client-IP: {client}\r\n")).text(), client);
    }
    assert_eq!(origin.requests().len(), 2);
}

/// The last address is the client, whatever it is; of other peers, none is.
#[test]
fn the_last_address_alone_counts_where_that_is_wanted() {
    let keys = "listener.web.client_address_recursive = false";
    for (header, sent, trusted, client) in [
        ("x-forwarded-for", "X-Forwarded-For: 192.0.2.1, 127.0.0.7\r\n", "127.0.0.0/8", "127.0.0.7"),
        (
            "x-forwarded-for",
            "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 127.0.0.9, 127.0.0.7\r\n",
            "127.0.0.0/8",
            "127.0.0.7",
        ),
        ("x-forwarded-for", "X-Forwarded-For: 127.0.0.9, 192.0.2.1\r\n", "127.0.0.0/8", "192.0.2.1"),
        ("forwarded", "Forwarded: for=192.0.2.1, for=127.0.0.7\r\n", "127.0.0.0/8", "127.0.0.7"),
        ("x-forwarded-for", "", "127.0.0.0/8", "127.0.0.1"),
        ("x-forwarded-for", "X-Forwarded-For: 192.0.2.1, 127.0.0.7\r\n", "192.0.2.0/24", "127.0.0.1"),
    ] {
        let origin = echo();
        let weir = Weir::start(&config(&origin, header, &format!("[\"{trusted}\"]"), keys));
        assert_eq!(get(&weir, sent).field("x-client"), Some(client), "{sent}");
        let mut second = Http2Client::connect(weir.web());
        let fields = sent.lines().filter_map(|line| line.split_once(": "));
        let fields: Vec<(String, &str)> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, *value)).collect();
        let stream = second.get_with("/", &fields);
        assert_eq!(second.response(stream).field("x-client"), Some(client), "{sent}");
    }
}
