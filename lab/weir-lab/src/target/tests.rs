//! Descriptions in each product's words, checked by the product itself.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use super::{ConnectionRoom, Description, PathBranch, ReloadableParts, TargetCertificate, Traffic};
use crate::installed::Installed;
use crate::target::render;
use crate::target::search::{Catalogue, ProgramSearch, find_products};
use crate::topology::listener::{CertificateKey, ListenerSetup, Suite, TargetProtocol, Tls};
use crate::topology::product::{PRODUCTS, Product, ProductLacks};
use crate::topology::target::{LabTarget, TargetVariant, TuningClass};
use crate::topology::upstream::{BalancePolicy, HealthProbes, OriginKind, OriginProtocol, UpstreamSetup};

mod golden;

/// The programs on this machine.
static INSTALLED: LazyLock<Catalogue> = LazyLock::new(|| find_products(&ProgramSearch::usual()).unwrap());

#[test]
fn targets_have_names() {
    for name in [
        "direct",
        "weir",
        "nginx/no-reuse",
        "weir/no-reuse",
        "haproxy/round-robin",
        "haproxy/no-persistence",
        "haproxy/copying",
        "envoy/as-shipped",
        "traefik",
        "apache/tuned",
        "caddy",
        "relay/slower",
        "relay/busy",
        "url",
    ] {
        assert_eq!(name.parse::<LabTarget>().unwrap().to_string(), name);
    }
    for wrong in [
        "squid",
        "nginx/slow",
        "direct/no-reuse",
        "url/tuned",
        "relay/tuned",
        "nginx/slower",
        "nginx/busy",
        "weir/copying",
        "nginx/",
        "nginx/no-reuse/round-robin",
        "",
    ] {
        assert!(wrong.parse::<LabTarget>().is_err(), "{wrong}");
    }
}

fn describe<'a>(servers: &'a [SocketAddr], upstream: &'a UpstreamSetup, dir: &'a Path) -> Description<'a> {
    let installed = |product: Product| INSTALLED.get(product.name());
    Description {
        listen: "127.0.0.1:8001".parse().unwrap(),
        listener: &ListenerSetup { protocol: TargetProtocol::Http, tls: None },
        servers,
        upstream,
        class: TuningClass::Tuned,
        variant: TargetVariant::Usual,
        traffic: Traffic::default(),
        room: ConnectionRoom { clients: 9_000, servers: 0 },
        certificate: None,
        stream_module: installed(Product::Nginx).and_then(|nginx| nginx.stream_module.as_deref()),
        has_http3: true,
        module_folder: installed(Product::Apache).and_then(|apache| apache.module_folder.as_deref()),
        is_root: rustix::process::geteuid().is_root(),
        dir,
        extra: &NO_EXTRA,
    }
}

/// Nothing besides.
static NO_EXTRA: ReloadableParts = PLAIN_EXTRA;
const PLAIN_EXTRA: ReloadableParts =
    ReloadableParts { weights: Vec::new(), branches: Vec::new(), admin: None };

/// The rendered configuration of `product` for a description that it supports.
fn words_of(product: Product, description: &Description<'_>) -> String {
    let rendered = render(product, description).unwrap();
    rendered.text + &rendered.second.map(|(_, text)| text).unwrap_or_default()
}

fn addrs(number: u16) -> Vec<SocketAddr> {
    (0..number).map(|index| SocketAddr::from(([127, 0, 0, 1], 8100 + index))).collect()
}

#[test]
fn every_product_gets_the_same_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), UpstreamSetup::default());
    for class in [TuningClass::Tuned, TuningClass::AsShipped] {
        for variant in [TargetVariant::Usual, TargetVariant::NoReuse, TargetVariant::RoundRobin] {
            let description = Description { class, variant, ..describe(&servers, &upstream, dir.path()) };
            for product in PRODUCTS.into_iter().filter(|product| product.is_program()) {
                let text = words_of(product, &description);
                for port in ["8001", "8100"] {
                    assert_eq!(text.matches(port).count(), 1, "{text}");
                }
                check_with_the_product(product, &description);
            }
        }
    }
}

#[test]
fn a_limit_of_idle_server_connections_has_room_for_all_busy_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), UpstreamSetup::default());
    let plain = describe(&servers, &upstream, dir.path());
    for (clients, keepalive) in [(0, "keepalive 256;"), (5_000, "keepalive 5000;")] {
        let description = Description { room: ConnectionRoom { clients: 5_000, servers: clients }, ..plain };
        assert!(words_of(Product::Nginx, &description).contains(keepalive), "{clients}");
        check_with_the_product(Product::Nginx, &description);
        // Of HAProxy's descriptors the clients alone hold more than the fifth from which on it keeps none.
        let text = words_of(Product::Haproxy, &description);
        assert!(text.contains("tune.pool-low-fd-ratio 100\n"), "{text}");
    }
}

#[test]
fn every_product_is_configured_for_several_servers() {
    let dir = tempfile::tempdir().unwrap();
    let servers = addrs(3);
    let second = Duration::from_secs(1);
    let full = UpstreamSetup {
        errors: None,
        burn: None,
        origin: OriginKind::Own,
        servers: 3,
        protocol: OriginProtocol::Http1,
        one_process: false,
        slots: Some(1),
        balance: Some(BalancePolicy::LeastRequests),
        persistence_cookie: false,
        max_requests: Some(7),
        queue_timeout: Some(11 * second),
        response_timeout: Some(12 * second),
        retry: true,
        health: Some(HealthProbes { interval: second, timeout: second / 4, fall: 2, rise: 3 }),
    };
    for (product, words) in [
        (
            Product::Weir,
            &[
                "balance = \"least-requests\"",
                "max_requests = 7",
                "timeouts.queue = \"11000ms\"",
                "timeouts.response = \"12000ms\"",
                "interval = \"1000ms\"",
                "timeout = \"250ms\"",
                "fall = 2",
                "rise = 3",
            ][..],
        ),
        (
            Product::Haproxy,
            &[
                "balance leastconn",
                " maxconn 7 check inter 1000ms fastinter 250ms fall 2 rise 3",
                "timeout queue 11000ms",
                "timeout server 12000ms",
                "timeout check 250ms",
                "retry-on",
            ],
        ),
        (Product::Nginx, &["least_conn;", " max_conns=7;", "proxy_read_timeout 12000ms;"]),
    ] {
        let description = describe(&servers, &full, dir.path());
        let text = words_of(product, &description);
        for word in words.iter().copied().chain(["127.0.0.1:8100", "127.0.0.1:8101", "127.0.0.1:8102"]) {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        check_with_the_product(product, &description);
        // The variant takes limit and choice away, and nothing else.
        let in_turn = Description { variant: TargetVariant::RoundRobin, ..description };
        let text = words_of(product, &in_turn);
        assert!(!text.contains(words[0]) && !text.contains("= 7") && !text.contains("maxconn 7"), "{text}");
        assert!(!text.contains("max_conns"), "{text}");
        check_with_the_product(product, &in_turn);
        let hash = UpstreamSetup { balance: Some(BalancePolicy::ConsistentHash), ..full };
        let by_key = describe(&servers, &hash, dir.path());
        let text = words_of(product, &by_key).to_lowercase().replace('_', "-");
        assert!(text.contains("x-client"), "{text}");
        check_with_the_product(product, &by_key);
    }
}

#[test]
fn a_cookie_binds_clients_unless_the_variant_takes_it_away() {
    let dir = tempfile::tempdir().unwrap();
    let upstream = UpstreamSetup { servers: 2, persistence_cookie: true, ..UpstreamSetup::default() };
    for servers in [addrs(1), addrs(2)] {
        let usual = describe(&servers, &upstream, dir.path());
        let without = Description { variant: TargetVariant::NoPersistence, ..usual };
        let plain = UpstreamSetup { persistence_cookie: false, ..upstream };
        for (product, words) in [
            (Product::Weir, &["affinity = { mode = \"insert\" }"][..]),
            (Product::Haproxy, &["cookie SRV insert indirect nocache", ":8100 cookie origin"]),
        ] {
            let text = words_of(product, &usual);
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            check_with_the_product(product, &usual);
            let same = render(product, &describe(&servers, &plain, dir.path())).unwrap();
            assert_eq!(render(product, &without).unwrap(), same);
            check_with_the_product(product, &without);
        }
    }
    // Each server has a value of its own.
    let servers = addrs(2);
    let text = words_of(Product::Haproxy, &describe(&servers, &upstream, dir.path()));
    assert!(text.contains("8100 cookie origin-1\n") && text.contains("8101 cookie origin-2\n"), "{text}");
}

#[test]
fn bytes_tunnels_and_large_bodies_have_lines_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), UpstreamSetup::default());
    let plain = describe(&servers, &upstream, dir.path());
    let tcp = Description { listener: &ListenerSetup { protocol: TargetProtocol::Tcp, tls: None }, ..plain };
    let tunnels = Description { traffic: Traffic { upgrades: true, ..Traffic::default() }, ..plain };
    let old = Description { traffic: Traffic { is_http_1_0: true, ..Traffic::default() }, ..plain };
    let bulk = Description { traffic: Traffic { is_bulk: true, ..Traffic::default() }, ..plain };
    for (description, product, words) in [
        (tcp, Product::Weir, "protocol = \"tcp\"\n"),
        (tcp, Product::Nginx, "stream {"),
        (tcp, Product::Haproxy, "mode tcp\n"),
        (tunnels, Product::Nginx, "proxy_set_header Connection $connection_upgrade;"),
        (tunnels, Product::Nginx, "map $http_upgrade $connection_upgrade {"),
        (tunnels, Product::Haproxy, "timeout tunnel 300s\n"),
        (bulk, Product::Nginx, "proxy_max_temp_file_size 0;"),
        (bulk, Product::Haproxy, "option splice-response\n"),
        (old, Product::Envoy, "accept_http_10: true"),
        (tcp, Product::Envoy, "envoy.filters.network.tcp_proxy"),
        (tunnels, Product::Envoy, "upgrade_type: websocket"),
        (tcp, Product::Traefik, "HostSNI(`*`)"),
        (tunnels, Product::Apache, " upgrade=websocket\n"),
        (bulk, Product::Apache, "ProxyIOBufferSize 65536\n"),
    ] {
        let text = words_of(product, &description);
        assert!(text.contains(words), "{text}");
        assert!(!words_of(product, &plain).contains(words), "{words}");
        for port in ["8001", "8100"] {
            assert_eq!(text.matches(port).count(), 1, "{text}");
        }
        check_with_the_product(product, &description);
    }
    let copying = Description { variant: TargetVariant::Copying, ..bulk };
    assert!(!words_of(Product::Haproxy, &copying).contains("splice"));
}

#[test]
fn everybody_gets_the_same_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), UpstreamSetup::default());
    for key in [CertificateKey::EcdsaP256, CertificateKey::Rsa2048] {
        let certificate = TargetCertificate::make(key, dir.path()).unwrap();
        let plain = describe(&servers, &upstream, dir.path());
        let secure = Description { certificate: Some(&certificate), ..plain };
        for (product, words) in [
            (Product::Weir, "[listener.bench.tls]"),
            (Product::Nginx, "ssl_protocols TLSv1.2 TLSv1.3;"),
            (Product::Haproxy, " ssl crt "),
        ] {
            let text = words_of(product, &secure);
            assert!(text.contains(words) && text.contains(&dir.path().display().to_string()), "{text}");
            assert!(!words_of(product, &plain).contains(words));
            check_with_the_product(product, &secure);
        }
    }
}

#[test]
fn a_limit_of_handshakes_reaches_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), UpstreamSetup::default());
    let certificate = TargetCertificate::make(CertificateKey::EcdsaP256, dir.path()).unwrap();
    let tls = Tls {
        suite: Suite::Tls13Aes256,
        key: CertificateKey::EcdsaP256,
        resume: false,
        handshake_timeout: Some(Duration::from_millis(2_500)),
    };
    let limited = Description {
        listener: &ListenerSetup { protocol: TargetProtocol::Http, tls: Some(tls) },
        certificate: Some(&certificate),
        ..describe(&servers, &upstream, dir.path())
    };
    for (product, words) in [
        (Product::Weir, "tls = \"2500ms\""),
        (Product::Nginx, "client_header_timeout 2500ms;"),
        (Product::Haproxy, "timeout client 2500ms\n"),
        (Product::Envoy, "transport_socket_connect_timeout: 2.5s\n"),
        (Product::Traefik, "readTimeout: 2500ms\n"),
        (Product::Apache, "RequestReadTimeout handshake=3\n"),
        (Product::Caddy, "read_header 2500ms\n"),
    ] {
        let text = words_of(product, &limited);
        assert!(text.contains(words), "{text}");
        check_with_the_product(product, &limited);
    }
}

#[test]
fn server_connections_of_their_own_need_room_in_nginx() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), UpstreamSetup::default());
    let room = ConnectionRoom { clients: 8_000, servers: 8_000 };
    let text = words_of(Product::Nginx, &Description { room, ..describe(&servers, &upstream, dir.path()) });
    // 16 000, a fifteenth more, and the reserve; more than the limit of most systems it must not need.
    assert!(text.contains("worker_connections 17579;") && text.contains("nofile 18091;"), "{text}");
}

/// Has the product itself check its configuration, where it can do that without starting to serve.
fn check_with_the_product(product: Product, description: &Description<'_>) {
    let Some(installed) = installed(product) else { return };
    let rendered = render(product, description).unwrap();
    std::fs::write(description.dir.join(rendered.file), &rendered.text).unwrap();
    let args = match product {
        Product::Nginx => [&["-t".to_owned()], &rendered.args[..]].concat(),
        Product::Haproxy => [&["-c".to_owned()], &rendered.args[..]].concat(),
        Product::Apache => [&rendered.args[..], &["-t".to_owned()]].concat(),
        Product::Envoy => [&rendered.args[..], &["--mode", "validate"].map(str::to_owned)].concat(),
        Product::Caddy => [&["validate".to_owned()], &rendered.args[1..]].concat(),
        // Weir's own tests check its config; Traefik checks nothing except by serving.
        Product::Direct | Product::Weir | Product::Traefik | Product::Relay | Product::Url => return,
    };
    let output = Command::new(&installed.program).args(args).envs(rendered.env).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{}: {said}\n{}", product.name(), rendered.text);
    // Versions from 1.25.1 on have another word for it, which earlier ones do not know.
    let said = said.replace("[warn] the \"listen ... http2\" directive is deprecated", "");
    // Caddy warns of settings that it discourages.
    for bad in ["WARNING", "[warn]", "[warning]", ":warn]", "deprecated", "not formatted"] {
        assert!(!said.contains(bad), "{}: {said}\n{}", product.name(), rendered.text);
    }
}

/// Where `product` is. Fails if one that `cargo xtask setup` installs is missing; prints a message about others.
fn installed(product: Product) -> Option<&'static Installed> {
    let found = INSTALLED.get(product.name());
    if found.is_none()
        && matches!(product, Product::Nginx | Product::Haproxy | Product::Apache | Product::Caddy)
    {
        panic!("{} is missing: {}", product.name(), product.how_to_get());
    }
    if found.is_none() && matches!(product, Product::Envoy) {
        // Past the harness, which would keep it to itself.
        writeln!(std::io::stderr(), "not checked, since envoy is missing: {}", product.how_to_get()).unwrap();
    }
    found
}
