//! Descriptions in each product's words, checked by the product itself where it is installed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::installed::find_products;
use super::{Certificate, Class, Description, PRODUCTS, Product, Room, Target, Traffic, Variant, render};
use crate::scenario::listener::{Key, Listener, Protocol, Suite, Tls};
use crate::scenario::upstream::{Balance, Health, Upstream};

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
    ] {
        assert_eq!(name.parse::<Target>().unwrap().to_string(), name);
    }
    for wrong in [
        "apache",
        "nginx/slow",
        "direct/no-reuse",
        "weir/copying",
        "nginx/",
        "nginx/no-reuse/round-robin",
        "",
    ] {
        assert!(wrong.parse::<Target>().is_err(), "{wrong}");
    }
}

fn describe<'a>(servers: &'a [SocketAddr], upstream: &'a Upstream, dir: &'a Path) -> Description<'a> {
    Description {
        listen: "127.0.0.1:8001".parse().unwrap(),
        listener: &Listener { protocol: Protocol::Http, tls: None },
        servers,
        upstream,
        class: Class::Tuned,
        variant: Variant::Usual,
        traffic: Traffic::default(),
        room: Room { clients: 9_000, servers: 0 },
        certificate: None,
        stream_module: None,
        dir,
    }
}

fn addrs(number: u16) -> Vec<SocketAddr> {
    (0..number).map(|index| SocketAddr::from(([127, 0, 0, 1], 8100 + index))).collect()
}

#[test]
fn every_product_gets_the_same_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), Upstream::default());
    for class in [Class::Tuned, Class::AsShipped] {
        for variant in [Variant::Usual, Variant::NoReuse, Variant::RoundRobin] {
            let description = Description { class, variant, ..describe(&servers, &upstream, dir.path()) };
            for product in PRODUCTS {
                let Some(rendered) = render(product, &description) else { continue };
                for addr in ["127.0.0.1:8001", "127.0.0.1:8100"] {
                    assert_eq!(rendered.text.matches(addr).count(), 1, "{}", rendered.text);
                }
                check_with_the_product(product, &description);
            }
        }
    }
}

#[test]
fn every_product_is_told_what_to_do_with_several_servers() {
    let dir = tempfile::tempdir().unwrap();
    let servers = addrs(3);
    let second = Duration::from_secs(1);
    let full = Upstream {
        servers: 3,
        one_process: false,
        slots: Some(1),
        balance: Some(Balance::LeastRequests),
        persistence_cookie: false,
        max_requests: Some(7),
        queue_timeout: Some(11 * second),
        response_timeout: Some(12 * second),
        retry: true,
        health: Some(Health { interval: second, timeout: second / 4, fall: 2, rise: 3 }),
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
        let text = render(product, &description).unwrap().text;
        for word in words.iter().copied().chain(["127.0.0.1:8100", "127.0.0.1:8101", "127.0.0.1:8102"]) {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        check_with_the_product(product, &description);
        // The variant takes limit and choice away, and nothing else.
        let in_turn = Description { variant: Variant::RoundRobin, ..description };
        let text = render(product, &in_turn).unwrap().text;
        assert!(!text.contains(words[0]) && !text.contains("= 7") && !text.contains("maxconn 7"), "{text}");
        assert!(!text.contains("max_conns"), "{text}");
        check_with_the_product(product, &in_turn);
        let hash = Upstream { balance: Some(Balance::ConsistentHash), ..full };
        let by_key = describe(&servers, &hash, dir.path());
        let text = render(product, &by_key).unwrap().text.to_lowercase().replace('_', "-");
        assert!(text.contains("x-client"), "{text}");
        check_with_the_product(product, &by_key);
    }
}

#[test]
fn a_cookie_binds_clients_unless_the_variant_takes_it_away() {
    let dir = tempfile::tempdir().unwrap();
    let upstream = Upstream { servers: 2, persistence_cookie: true, ..Upstream::default() };
    for servers in [addrs(1), addrs(2)] {
        let usual = describe(&servers, &upstream, dir.path());
        let without = Description { variant: Variant::NoPersistence, ..usual };
        let plain = Upstream { persistence_cookie: false, ..upstream };
        for (product, words) in [
            (Product::Weir, &["persistence = { mode = \"insert\" }"][..]),
            (Product::Haproxy, &["cookie SRV insert indirect nocache", ":8100 cookie origin"]),
        ] {
            let text = render(product, &usual).unwrap().text;
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            check_with_the_product(product, &usual);
            let same = render(product, &describe(&servers, &plain, dir.path())).unwrap();
            assert_eq!(render(product, &without).unwrap(), same);
            check_with_the_product(product, &without);
        }
    }
    // Each server has a value of its own.
    let servers = addrs(2);
    let text = render(Product::Haproxy, &describe(&servers, &upstream, dir.path())).unwrap().text;
    assert!(text.contains("8100 cookie origin-1\n") && text.contains("8101 cookie origin-2\n"), "{text}");
}

#[test]
fn bytes_tunnels_and_large_bodies_have_lines_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), Upstream::default());
    let installed = find_products(&[]).unwrap();
    let stream_module = installed.get("nginx").and_then(|nginx| nginx.stream_module.as_deref());
    let plain = Description { stream_module, ..describe(&servers, &upstream, dir.path()) };
    let tcp = Description { listener: &Listener { protocol: Protocol::Tcp, tls: None }, ..plain };
    let tunnels = Description { traffic: Traffic { upgrades: true, ..Traffic::default() }, ..plain };
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
    ] {
        let text = render(product, &description).unwrap().text;
        assert!(text.contains(words), "{text}");
        assert!(!render(product, &plain).unwrap().text.contains(words), "{words}");
        for addr in ["127.0.0.1:8001", "127.0.0.1:8100"] {
            assert_eq!(text.matches(addr).count(), 1, "{text}");
        }
        check_with_the_product(product, &description);
    }
    let copying = Description { variant: Variant::Copying, ..bulk };
    assert!(!render(Product::Haproxy, &copying).unwrap().text.contains("splice"));
}

#[test]
fn everybody_gets_the_same_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), Upstream::default());
    for key in [Key::EcdsaP256, Key::Rsa2048] {
        let certificate = Certificate::make(key, dir.path()).unwrap();
        let plain = describe(&servers, &upstream, dir.path());
        let secure = Description { certificate: Some(&certificate), ..plain };
        for (product, words) in [
            (Product::Weir, "[listener.bench.tls]"),
            (Product::Nginx, "ssl_protocols TLSv1.2 TLSv1.3;"),
            (Product::Haproxy, " ssl crt "),
        ] {
            let text = render(product, &secure).unwrap().text;
            assert!(text.contains(words) && text.contains(&dir.path().display().to_string()), "{text}");
            assert!(!render(product, &plain).unwrap().text.contains(words));
            check_with_the_product(product, &secure);
        }
    }
}

#[test]
fn a_limit_of_handshakes_reaches_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), Upstream::default());
    let certificate = Certificate::make(Key::EcdsaP256, dir.path()).unwrap();
    let tls = Tls {
        suite: Suite::Tls13Aes256,
        key: Key::EcdsaP256,
        resume: false,
        handshake_timeout: Some(Duration::from_millis(2_500)),
    };
    let limited = Description {
        listener: &Listener { protocol: Protocol::Http, tls: Some(tls) },
        certificate: Some(&certificate),
        ..describe(&servers, &upstream, dir.path())
    };
    for (product, words) in [
        (Product::Weir, "tls = \"2500ms\""),
        (Product::Nginx, "client_header_timeout 2500ms;"),
        (Product::Haproxy, "timeout client 2500ms\n"),
    ] {
        let text = render(product, &limited).unwrap().text;
        assert!(text.contains(words), "{text}");
        check_with_the_product(product, &limited);
    }
}

#[test]
fn server_connections_of_their_own_need_room_in_nginx() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, upstream) = (addrs(1), Upstream::default());
    let room = Room { clients: 8_000, servers: 8_000 };
    let text = render(Product::Nginx, &Description { room, ..describe(&servers, &upstream, dir.path()) })
        .unwrap()
        .text;
    // 16 000, a fifteenth more, and the reserve; more than the limit of most systems it must not need.
    assert!(text.contains("worker_connections 17579;") && text.contains("nofile 18091;"), "{text}");
}

/// nginx and HAProxy can check a configuration without using it.
fn check_with_the_product(product: Product, description: &Description<'_>) {
    let (Some(rendered), Some(installed)) =
        (render(product, description), find_products(&[]).unwrap().remove(product.name()))
    else {
        return;
    };
    std::fs::write(description.dir.join(rendered.file), &rendered.text).unwrap();
    let check: &[&str] = match product {
        Product::Nginx => &["-t"],
        Product::Haproxy => &["-c"],
        Product::Direct | Product::Weir => return,
    };
    let output = Command::new(installed.program).args(check).args(rendered.args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}\n{}", product.name(), rendered.text);
    assert!(!said.contains("WARNING") && !said.contains("[warn]"), "{}: {said}", product.name());
}
