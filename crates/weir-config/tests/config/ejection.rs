//! The meaning of the keys of ejection.

use std::time::Duration;

use weir_config::{OutlierEjection, Upstream};
use weir_traffic::ejection::{EjectionRules, LatencyRule, MaxFailsRules, OutlierRules};

use crate::{checked, config};

/// An upstream of two servers with more lines.
fn text(more: &str) -> String {
    format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\n\
         servers = [\"a:80\", {{ address = \"b:80\", ejection = false }}]\n{more}\n"
    )
}

fn upstream(more: &str) -> Upstream {
    Upstream::clone(&config(&text(more)).upstreams[0])
}

fn ejection(more: &str) -> OutlierEjection {
    upstream(more).ejection.clone().expect("it is on")
}

#[test]
fn it_is_on_where_nothing_is_said() {
    let seconds = Duration::from_secs;
    let expected = OutlierRules {
        consecutive_failures: Some(5),
        error_rate_percent: Some(50),
        latency: None,
        requests_min: 50,
        base_time: seconds(10),
        max_time: seconds(60),
        servers_max_percent: 50,
    };
    for more in ["", "ejection = {}"] {
        let ejection = ejection(more);
        assert_eq!(ejection.rules, EjectionRules::Outliers(expected));
        assert_eq!((ejection.on_status, ejection.interval), (vec![502, 503, 504], seconds(10)));
    }
    let off = checked(&text("ejection = \"off\"")).config.expect("it is no mistake");
    assert_eq!(off.upstreams[0].ejection, None);
    let upstream = upstream("");
    assert_eq!(upstream.servers.iter().map(|server| server.ejection).collect::<Vec<_>>(), [true, false]);
    assert_eq!(upstream.panic_threshold, None);
}

#[test]
fn every_key_has_its_place() {
    let ejection = ejection(
        "ejection = { consecutive_failures = \"off\", error_rate = \"20%\", latency_factor = 4, latency_difference_min = \"50ms\", \
         interval = \"5s\", requests_min = 7, base_time = \"3s\", max_time = \"9s\", servers_max = \"30%\", on_status = [504, 429] }",
    );
    let expected = OutlierRules {
        consecutive_failures: None,
        error_rate_percent: Some(20),
        latency: Some(LatencyRule { factor: 4, difference_min: Duration::from_millis(50) }),
        requests_min: 7,
        base_time: Duration::from_secs(3),
        max_time: Duration::from_secs(9),
        servers_max_percent: 30,
    };
    assert_eq!(ejection.rules, EjectionRules::Outliers(expected));
    assert_eq!((&ejection.on_status[..], ejection.interval), (&[429, 504][..], Duration::from_secs(5)));
    assert!(ejection.compares());
    assert_eq!(
        upstream("panic_threshold = \"40%\"").panic_threshold.map(|percent| percent.percent()),
        Some(40)
    );
}

#[test]
fn max_fails_means_the_same_as_in_nginx() {
    let rules = |seconds, max_fails| {
        EjectionRules::MaxFails(MaxFailsRules { max_fails, fail_timeout: Duration::from_secs(seconds) })
    };
    let usual = ejection("ejection = { max_fails = 1 }");
    assert_eq!((usual.rules, &usual.on_status[..], usual.compares()), (rules(10, 1), &[][..], false));
    let retried =
        ejection("ejection = { max_fails = 2, fail_timeout = \"30s\" }\nretry.on_status = [503, 500]");
    assert_eq!((retried.rules, &retried.on_status[..]), (rules(30, 2), &[500, 503][..]));
    let own = ejection("ejection = { max_fails = 2, on_status = [] }\nretry.on_status = [503]");
    assert!(own.on_status.is_empty());
}

#[test]
fn keys_without_effect_are_reported_and_accepted() {
    for (more, warning) in [
        ("ejection = { interval = \"5s\", error_rate = \"off\" }", "`interval` has no effect without"),
        ("ejection = \"off\"", "`ejection` has no effect: no server of the upstream is ejected"),
        (
            "ejection = \"off\"\npanic_threshold = \"50%\"",
            "`panic_threshold` has no effect without `health` or `ejection`",
        ),
    ] {
        let checked = checked(&text(more));
        assert!(checked.config.is_some(), "{}", checked.diagnostics);
        assert!(checked.diagnostics.to_string().contains(warning), "{}", checked.diagnostics);
    }
    for more in ["slow_start = \"10s\"", "panic_threshold = \"50%\"", "ejection = { max_time = \"10s\" }"] {
        let checked = checked(&text(more));
        assert!(checked.diagnostics.is_empty(), "{more}: {}", checked.diagnostics);
    }
}
