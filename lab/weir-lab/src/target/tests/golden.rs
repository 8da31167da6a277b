//! The configuration of every product in both classes, kept as files, so that a change of any line shows in review. The first
//! case is there as a whole, of the others the lines that differ from it.
//!
//! `UPDATE=1 cargo test -p weir-lab golden` writes them anew.

use super::*;
use crate::target::render;

/// One thing to describe.
struct GoldenCase {
    name: &'static str,
    listener: ListenerSetup,
    upstream: UpstreamSetup,
    traffic: Traffic,
    variant: TargetVariant,
    extra: ReloadableParts,
}

const PLAIN: GoldenCase = GoldenCase {
    name: "http",
    listener: ListenerSetup { protocol: TargetProtocol::Http, tls: None },
    upstream: UpstreamSetup {
        servers: 1,
        one_process: false,
        burn: None,
        origin: OriginKind::Own,
        protocol: OriginProtocol::Http1,
        slots: None,
        balance: None,
        errors: None,
        persistence_cookie: false,
        max_requests: None,
        queue_timeout: None,
        response_timeout: None,
        retry: false,
        health: None,
    },
    traffic: HTTP1,
    variant: TargetVariant::Usual,
    extra: PLAIN_EXTRA,
};

const HTTP1: Traffic = Traffic {
    is_bulk: false,
    is_upload: false,
    upgrades: false,
    is_http_1_0: false,
    is_http2: false,
    is_http3: false,
    is_reloaded: false,
};

const HTTP2: Traffic = Traffic { is_http2: true, ..HTTP1 };

const HTTP3: Traffic = Traffic { is_http3: true, ..HTTP1 };

const TLS: Tls =
    Tls { suite: Suite::Tls13Aes256, key: CertificateKey::EcdsaP256, resume: false, handshake_timeout: None };

const HEALTH: HealthProbes =
    HealthProbes { interval: Duration::from_secs(1), timeout: Duration::from_millis(250), fall: 2, rise: 3 };

fn cases() -> Vec<GoldenCase> {
    let limits = UpstreamSetup {
        servers: 2,
        slots: Some(1),
        balance: Some(BalancePolicy::LeastRequests),
        max_requests: Some(7),
        queue_timeout: Some(Duration::from_secs(11)),
        response_timeout: Some(Duration::from_secs(12)),
        retry: true,
        health: Some(HEALTH),
        ..PLAIN.upstream
    };
    let cookie = UpstreamSetup { servers: 2, persistence_cookie: true, ..PLAIN.upstream };
    let balance =
        |balance| UpstreamSetup { servers: 2, balance: Some(balance), retry: true, ..PLAIN.upstream };
    // As a scenario that reloads tells it.
    let reloaded = GoldenCase {
        name: "weights, paths, tunnels",
        upstream: UpstreamSetup {
            response_timeout: Some(Duration::from_secs(400)),
            ..balance(BalancePolicy::LeastRequests)
        },
        traffic: Traffic { upgrades: true, is_reloaded: true, ..PLAIN.traffic },
        extra: ReloadableParts {
            weights: vec![2, 3],
            branches: vec![PathBranch { path: "/still", name: "still", servers: addrs(3)[2..].to_vec() }],
            admin: Some(SocketAddr::from(([127, 0, 0, 1], 8002))),
        },
        ..PLAIN
    };
    let http2 = |name, protocol| GoldenCase {
        name,
        upstream: UpstreamSetup { protocol, ..PLAIN.upstream },
        traffic: HTTP2,
        ..PLAIN
    };
    let http3 = |name, traffic| GoldenCase {
        name,
        listener: ListenerSetup { tls: Some(TLS), ..PLAIN.listener },
        traffic,
        ..PLAIN
    };
    vec![
        PLAIN,
        GoldenCase { name: "tls", listener: ListenerSetup { tls: Some(TLS), ..PLAIN.listener }, ..PLAIN },
        GoldenCase {
            name: "tcp",
            listener: ListenerSetup { protocol: TargetProtocol::Tcp, tls: None },
            ..PLAIN
        },
        GoldenCase { name: "limits, queue, retries, health checks", upstream: limits, ..PLAIN },
        GoldenCase { name: "in turn", upstream: balance(BalancePolicy::RoundRobin), ..PLAIN },
        GoldenCase { name: "consistent hash", upstream: balance(BalancePolicy::ConsistentHash), ..PLAIN },
        GoldenCase { name: "cookie", upstream: cookie, ..PLAIN },
        GoldenCase { name: "tunnels", traffic: Traffic { upgrades: true, ..PLAIN.traffic }, ..PLAIN },
        GoldenCase { name: "HTTP/2 from clients", traffic: HTTP2, ..PLAIN },
        GoldenCase {
            name: "HTTP/2 from clients, TLS",
            listener: ListenerSetup { tls: Some(TLS), ..PLAIN.listener },
            traffic: HTTP2,
            ..PLAIN
        },
        http3("HTTP/3 from clients", HTTP3),
        http3("HTTP/3 from clients, large bodies", Traffic { is_bulk: true, ..HTTP3 }),
        http3("HTTP/3 from clients, uploads", Traffic { is_bulk: true, is_upload: true, ..HTTP3 }),
        http2("HTTP/2 to servers", OriginProtocol::Http2),
        http2("gRPC", OriginProtocol::Grpc),
        GoldenCase { name: "large bodies", traffic: Traffic { is_bulk: true, ..PLAIN.traffic }, ..PLAIN },
        GoldenCase { name: "no reuse of server connections", variant: TargetVariant::NoReuse, ..PLAIN },
        reloaded,
    ]
}

fn description<'a>(
    case: &'a GoldenCase,
    class: TuningClass,
    servers: &'a [SocketAddr],
    certificate: &'a TargetCertificate,
    dir: &'a Path,
) -> Description<'a> {
    Description {
        listener: &case.listener,
        class,
        variant: case.variant,
        traffic: case.traffic,
        certificate: case.listener.tls.map(|_| certificate),
        extra: &case.extra,
        ..describe(&servers[..case.upstream.servers as usize], &case.upstream, dir)
    }
}

/// All configurations of `product` as text: the first case as a whole, of the others the lines that differ from it.
fn rendered_texts(product: Product, class: TuningClass, certificate: &TargetCertificate) -> String {
    let servers = addrs(2);
    let mut text = String::new();
    let mut plain: Option<String> = None;
    for case in cases() {
        let description = Description {
            stream_module: Some(Path::new("/modules/ngx_stream_module.so")),
            // The lines that load them would hide the others.
            module_folder: None,
            is_root: false,
            ..description(&case, class, &servers, certificate, Path::new("/run"))
        };
        text.push_str(&format!("======== {}\n", case.name));
        match (rendered_text(product, &description), &plain) {
            (Err(ProductLacks(why)), _) => text.push_str(&format!("cannot: it {why}\n")),
            (Ok(own), None) => text.push_str(plain.insert(own)),
            (Ok(own), Some(plain)) => text.push_str(&differences(plain, &own)),
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// The command line and the files of one case.
fn rendered_text(product: Product, description: &Description<'_>) -> Result<String, ProductLacks> {
    let rendered = render(product, description)?;
    let env = rendered.env.iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>();
    let args = rendered.args.join(" ");
    let mut text = format!("$ {env}{} {args}\n-------- {}\n{}", product.name(), rendered.file, rendered.text);
    if let Some((file, second)) = rendered.second {
        text.push_str(&format!("-------- {file}\n{second}"));
    }
    Ok(text)
}

/// The lines of `one` that `other` has not, and the other way round, each with its number: the longest common subsequence is left out.
fn differences(one: &str, other: &str) -> String {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let mut common = vec![vec![0_usize; other.len() + 1]; one.len() + 1];
    for i in (0..one.len()).rev() {
        for j in (0..other.len()).rev() {
            let longer = common[i + 1][j].max(common[i][j + 1]);
            common[i][j] = if one[i] == other[j] { common[i + 1][j + 1] + 1 } else { longer };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < one.len() || j < other.len() {
        if i < one.len() && j < other.len() && one[i] == other[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == other.len() || (i < one.len() && common[i + 1][j] >= common[i][j + 1]) {
            text.push_str(&format!("{:>4} - {}\n", i + 1, one[i]));
            i += 1;
        } else {
            text.push_str(&format!("{:>4} + {}\n", j + 1, other[j]));
            j += 1;
        }
    }
    // An empty line has no blank at its end.
    text.replace(" \n", "\n")
}

#[test]
fn the_configurations_of_every_product_are_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let made = TargetCertificate::make(CertificateKey::EcdsaP256, dir.path()).unwrap();
    let certificate = TargetCertificate {
        certificate: "/run/certificate.pem".into(),
        key: "/run/key.pem".into(),
        both: "/run/both.pem".into(),
        ..made
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/target/golden");
    for product in PRODUCTS.into_iter().filter(|product| product.is_program()) {
        for class in [TuningClass::Tuned, TuningClass::AsShipped] {
            let word = if class == TuningClass::Tuned { "tuned" } else { "as-shipped" };
            let file = folder.join(format!("{}-{word}.txt", product.name()));
            let text = rendered_texts(product, class, &certificate);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&file, &text).unwrap();
            }
            let kept = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(text, kept, "{} is not as kept; UPDATE=1 writes it anew", file.display());
        }
    }
}

#[test]
fn every_product_accepts_its_configurations() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = TargetCertificate::make(CertificateKey::EcdsaP256, dir.path()).unwrap();
    let servers = addrs(2);
    for case in cases() {
        for class in [TuningClass::Tuned, TuningClass::AsShipped] {
            let description = description(&case, class, &servers, &certificate, dir.path());
            for product in PRODUCTS.into_iter().filter(|product| product.is_program()) {
                // Those of a distribution may be older than HTTP/3.
                let knows =
                    !case.traffic.is_http3 || INSTALLED.get(product.name()).is_some_and(|it| it.has_http3);
                if knows && render(product, &description).is_ok() {
                    check_with_the_product(product, &description);
                }
            }
        }
    }
}
