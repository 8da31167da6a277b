//! Simulation files: which are accepted, which are rejected, and that the guide describes every key.

use super::*;

const LEAST: &str = r#"
question = "?"
length = "1m"
[[servers]]
[[clients]]
name = "all"
service = "20ms"
[[variant]]
name = "default"
"#;

fn mistakes(text: &str) -> String {
    read("wrong.toml", text).expect_err("it is wrong")
}

#[test]
fn the_least_file_has_the_defaults_of_the_product() {
    let model = read("least.toml", LEAST).unwrap();
    assert_eq!((model.length, model.warm_up, model.balancers), (60 * SECOND, 0, 1));
    assert_eq!(model.servers, [ServerGroup { count: 1, slots: Some(1), speed: 1.0, weight: 1 }]);
    assert_eq!(model.variants[0].upstream, UpstreamModel::default());
    assert_eq!(model.clients[0].service, Distribution::Constant(20 * MILLISECOND));
    let ClassLoad::Closed { think, pause } = &model.clients[0].load else {
        panic!("no rate is a closed load")
    };
    assert_eq!((think, *pause), (&Distribution::Constant(0), SECOND));
}

#[test]
fn variants_override_keys_of_the_upstream() {
    let text = format!(
        "{LEAST}queue = {{ length_max = 7 }}\nhealth = \"off\"\n[[variant]]\nname = \"other\"\nmax_requests = \"off\"\n\
         [upstream]\nmax_requests = 3\nqueue = {{ fair_share = true }}\nhealth = {{ fall = 1 }}\n"
    );
    let model = read("variants.toml", &text).unwrap();
    let [first, second] = &model.variants[..] else { panic!("two variants") };
    assert_eq!((first.upstream.max_requests, second.upstream.max_requests), (3, 0));
    let queue = QueueModel { length_max: 7, fair_share: true, ..UpstreamModel::default().queue };
    assert_eq!(first.upstream.queue, queue);
    assert_eq!(second.upstream.queue.length_max, 10_000);
    assert!(first.upstream.health.is_none());
    assert_eq!(second.upstream.health.map(|health| health.thresholds.fall), Some(1));
}

#[test]
fn all_mistakes_are_reported_with_place_cause_and_hint() {
    let text = r#"question = "?"
length = "ten seconds"
balancers = 5000
[[servers]]
slots = 0
[[clients]]
name = "all"
servcie = "20ms"
think = "1s"
rate = 10
[[event]]
at = "1s"
servers = "2-4"
action = "stopp"
[[variant]]
name = "a"
balance = "least-request"
hash_load_factor = "110%"
[[variant]]
name = "a"
retry = { attempts_max = 0 }
"#;
    let rendered = mistakes(text);
    for (place, cause) in [
        ("2:10", "`ten seconds` is no length of time"),
        ("3:13", "`balancers` is 5000; it is 1 to 1000"),
        ("5:9", "a server without slots never answers"),
        ("6:1", "`service` is missing in class of clients"),
        ("8:1", "class of clients has no key `servcie`"),
        ("9:9", "`think` has no place here"),
        ("13:11", "there is no server 4"),
        ("14:10", "there is no `stopp` here"),
        ("17:11", "there is no policy `least-request`"),
        ("18:20", "`hash_load_factor` means nothing to `least-requests`"),
        ("20:8", "there is another variant `a`"),
        ("21:26", "`attempts_max` is 0; it is 1 to 100"),
    ] {
        let found = rendered
            .split("error: ")
            .any(|part| part.starts_with(cause) && part.contains(&format!("wrong.toml:{place}")));
        assert!(found, "{cause} at {place} in\n{rendered}");
    }
    for hint in [
        "did you mean `service`?",
        "did you mean `stop`?",
        "did you mean `least-requests`?",
        "such as \"20ms\"",
    ] {
        assert!(rendered.contains(hint), "{hint} in\n{rendered}");
    }
    assert!(rendered.ends_with("12 mistakes in wrong.toml"), "{rendered}");
}

#[test]
fn syntax_errors_of_toml_are_reported_too() {
    let rendered = mistakes("question = \nlength = \"1s\"\n");
    assert!(rendered.contains("wrong.toml:1:"), "{rendered}");
    for empty in ["", "\u{feff}", "# ä"] {
        assert!(mistakes(empty).contains("`question` is missing"));
    }
}

#[test]
fn distributions_are_read() {
    let service = |text: &str| {
        read("service.toml", &LEAST.replace("\"20ms\"", text)).map(|model| model.clients[0].service.clone())
    };
    for (text, expected) in [
        ("\"1.5s\"", Distribution::Constant(1_500 * MILLISECOND)),
        (
            "{ uniform = [\"1ms\", \"2ms\"] }",
            Distribution::Uniform { min: MILLISECOND, max: 2 * MILLISECOND },
        ),
        ("{ exponential = \"1ms\" }", Distribution::Exponential { mean: MILLISECOND }),
        ("{ log_normal = \"1ms\", sigma = 2 }", Distribution::LogNormal { median: MILLISECOND, sigma: 2.0 }),
        ("{ pareto = \"1ms\", shape = 1.5 }", Distribution::Pareto { min: MILLISECOND, shape: 1.5 }),
        ("{ one_of = [\"1ms\", \"2ms\"] }", Distribution::OneOf(vec![MILLISECOND, 2 * MILLISECOND])),
    ] {
        assert_eq!(service(text).as_ref(), Ok(&expected), "{text}");
    }
    for (text, cause) in [
        ("20", "a length of time is a text, not integer"),
        ("\"-20ms\"", "`-20ms` is no length of time"),
        ("\"0ms\"", "with a service time of 0 time does not pass"),
        ("{}", "this names no distribution"),
        ("{ normal = \"1ms\" }", "this names no distribution"),
        ("{ exponential = \"1ms\", sigma = 1 }", "`sigma` has no place beside `exponential`"),
        ("{ log_normal = \"1ms\" }", "`sigma` is missing"),
        ("{ pareto = \"1ms\", shape = 0 }", "`shape` is a number above 0"),
        ("{ uniform = [\"2ms\", \"1ms\"] }", "`uniform` is the least and the largest"),
        ("{ one_of = [] }", "`one_of` is empty"),
    ] {
        let rendered = service(text).expect_err("it is wrong");
        assert!(rendered.contains(cause), "{text}: {rendered}");
    }
}

#[test]
fn shipped_simulations_are_right() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/simulations");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            read(&path.display().to_string(), &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            count += 1;
        }
    }
    assert!(count >= 6);
}

/// A file with a key that does not exist in each table lists all keys that do.
#[test]
fn the_guide_describes_every_key() {
    let guide = include_str!("../../../../docs/simulator.md");
    let text = r#"
x = 1
[[servers]]
x = 1
[[clients]]
x = 1
slow = { x = 1 }
[[clients]]
x = 1
rate = 1
steps = [{ x = 1 }]
[[event]]
x = 1
[upstream]
x = 1
queue = { x = 1 }
timeouts = { x = 1 }
retry = { x = 1 }
health = { x = 1 }
ejection = { x = 1 }
pool = { x = 1 }
source = { x = 1 }
[[variant]]
x = 1
"#;
    let rendered = mistakes(text);
    let lists = rendered.lines().filter_map(|line| line.trim().strip_prefix("= help: there are "));
    let mut keys = 0;
    for list in lists {
        for key in list.split('`').skip(1).step_by(2) {
            assert!(guide.contains(&format!("| `{key}` |")), "`{key}` is missing in docs/simulator.md");
            keys += 1;
        }
    }
    assert!(keys > 50, "{keys} keys were found");
}
