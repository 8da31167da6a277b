//! Both front ends agree: what [`Checked::from_parts`] accepts is read back equal from its TOML, and what it refuses is refused there in the same words.

use std::fmt::Debug;
use std::time::Duration;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::{
    Checked, CheckedParts, Config, KeyLimit, KeyLimitParts, LimitRate, ListenerLimits, ListenerParts,
    ListenerTimeouts, PoolSettings, QueueSettings, RetrySettings, Server, SplitTarget, Upstream,
    UpstreamHttp2, UpstreamLimits, UpstreamParts, UpstreamTimeouts, split_fault,
};
use crate::key::ConfigSection;
use crate::load::CheckedConfig;
use crate::value::{ByteRate, Percent, ProgressLimit, RequestFrequency, Size};

/// The errors of a text, or its configuration.
fn read(listener: &str, upstream: &str, rest: &str) -> Result<Config, Vec<String>> {
    let text = format!(
        "listener.web = {{ address = \":0\", upstream = \"app\", {listener} }}\n\
         upstream.app = {{ servers = [\"a:80\"], {upstream} }}\n{rest}\n"
    );
    let checked = CheckedConfig::parse_alone(&text, "weir.toml", &|_| None);
    let errors = checked.diagnostics.errors().map(|error| error.message.clone()).collect();
    checked.config.ok_or(errors)
}

/// What does not hold of parts, without the place.
fn faults<T: CheckedParts>(parts: T) -> Vec<String> {
    let faults = Checked::from_parts(parts).err().unwrap_or_default();
    faults.iter().map(|fault| fault.fault.to_string()).collect()
}

/// Compares the faults of a section in an upstream with the errors of its text.
fn agree_on_upstream<T: ConfigSection + PartialEq + Debug>(
    key: &str,
    section: &T,
    set: impl Fn(&mut UpstreamParts, &T),
    of: impl Fn(&Upstream) -> &T,
) {
    let mut parts = UpstreamParts::new("app", vec![Server::new("a:80".parse().unwrap())]);
    set(&mut parts, section);
    match read("", &format!("{key} = {}", section.inline()), "") {
        Ok(config) => {
            assert_eq!(faults(parts), Vec::<String>::new());
            assert_eq!(of(&config.upstreams[0]), section);
        }
        Err(errors) => assert_eq!(faults(parts), errors),
    }
}

fn agree_on_listener<T: ConfigSection + PartialEq + Debug>(
    key: &str,
    section: &T,
    set: impl Fn(&mut ListenerParts, &T),
    of: impl Fn(&ListenerParts) -> &T,
) {
    let mut parts = ListenerParts::new("web", vec![":0".parse().unwrap()], Vec::new());
    set(&mut parts, section);
    match read(&format!("{key} = {}", section.inline()), "", "") {
        Ok(config) => {
            assert_eq!(faults(parts), Vec::<String>::new());
            assert_eq!(of(&config.listeners[0]), section);
        }
        Err(errors) => assert_eq!(faults(parts), errors),
    }
}

/// Numbers around the bounds that keys have.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..3_u32,
        90..110_u32,
        250..260_u32,
        390..610_u32,
        9_990..10_010_u32,
        999_990..10_000_010_u32,
        any::<u32>()
    ]
}

fn time() -> impl Strategy<Value = Duration> {
    number().prop_map(|number| Duration::from_millis(u64::from(number)))
}

fn size() -> impl Strategy<Value = Size> {
    number().prop_map(|number| Size::from_bytes(u64::from(number) * 16))
}

fn progress() -> impl Strategy<Value = Option<ProgressLimit>> {
    let rate = number().prop_map(|number| ByteRate::from_bytes_per_second(u64::from(number)));
    let limit = (time(), prop::option::of(rate)).prop_map(|(credit, rate)| match rate {
        Some(rate) => ProgressLimit::with_rate(credit, rate),
        None => ProgressLimit::standstill(credit),
    });
    prop::option::of(limit)
}

fn upstream_timeouts() -> impl Strategy<Value = UpstreamTimeouts> {
    let limits = (progress(), progress(), prop::option::of(time()), prop::option::of(time()));
    (time(), time(), time(), limits).prop_map(|(queue, connect, idle, (send, relay, response, tunnel))| {
        UpstreamTimeouts { queue, connect, send, response, relay, tunnel, idle }
    })
}

fn listener_timeouts() -> impl Strategy<Value = ListenerTimeouts> {
    (time(), time(), time(), progress(), progress(), prop::option::of(time())).prop_map(
        |(request, tls, idle, request_body, send, connection_age)| ListenerTimeouts {
            request,
            request_body,
            send,
            tls,
            idle,
            connection_age,
        },
    )
}

fn limit() -> impl Strategy<Value = (u32, Duration, Option<u32>, Option<u32>, u16, u32, [bool; 3])> {
    let status = prop_oneof![Just(429), 390..610_u16];
    let concurrent = prop::option::of(number());
    (
        1..1_000_u32,
        (1..90_000_u64).prop_map(Duration::from_millis),
        prop::option::of(number()),
        concurrent,
        status,
        number(),
        any::<[bool; 3]>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn times_of_upstreams(section in upstream_timeouts()) {
        agree_on_upstream("timeouts", &section, |to, section| to.timeouts = section.clone(), |of| &of.timeouts);
    }

    #[test]
    fn sizes_of_upstreams(sizes in [size(), size(), size()], headers in number()) {
        let [head_size, trailer_size, chunk_extension_size] = sizes;
        let section = UpstreamLimits { head_size, headers: headers as usize, trailer_size, chunk_extension_size };
        agree_on_upstream("limits", &section, |to, section| to.limits = section.clone(), |of| &of.limits);
    }

    #[test]
    fn queues(length_max in number(), times in (time(), prop::option::of(time()), prop::option::of(time()))) {
        let (delay_interval, delay_target, affinity_wait) = times;
        let section =
            QueueSettings { length_max: length_max as usize, delay_target, delay_interval, affinity_wait, ..QueueSettings::default() };
        agree_on_upstream("queue", &section, |to, section| to.queue = section.clone(), |of| &of.queue);
    }

    #[test]
    fn pools_and_streams(age_max in prop::option::of(time()), requests in prop::option::of(number()), streams in [number(), number()]) {
        let pool = PoolSettings { age_max, requests_max: requests.map(u64::from), ..PoolSettings::default() };
        agree_on_upstream("pool", &pool, |to, section| to.pool = section.clone(), |of| &of.pool);
        let [streams_max, connections_max] = streams;
        let http2 = UpstreamHttp2 { streams_max, connections_max, ..UpstreamHttp2::default() };
        agree_on_upstream("http2", &http2, |to, section| to.http2 = section.clone(), |of| &of.http2);
    }

    #[test]
    fn retries(attempts_max in number(), status in prop::collection::vec(390..610_u16, 0..3), backoff in prop::option::of(time()), percent in number()) {
        let budget = Percent::new(percent);
        let section = RetrySettings { attempts_max, on_status: status, backoff, budget, ..RetrySettings::default() };
        agree_on_upstream("retry", &section, |to, section| to.retry = section.clone(), |of| &of.retry);
    }

    #[test]
    fn times_and_sizes_of_listeners(timeouts in listener_timeouts(), sizes in [size(), size()], count in prop::option::of(number())) {
        agree_on_listener("timeouts", &timeouts, |to, section| to.timeouts = section.clone(), |of| &of.timeouts);
        let [head_size, target_size] = sizes;
        let requests_per_connection = count.map(u64::from);
        let limits = ListenerLimits { head_size, target_size, requests_per_connection, ..ListenerLimits::default() };
        agree_on_listener("limits", &limits, |to, section| to.limits = section.clone(), |of| &of.limits);
    }

    #[test]
    fn limits_by_key((requests, period, burst, concurrent, status, keys_max, [delays, blocks, fields]) in limit()) {
        let rate = RequestFrequency::new(requests, period).unwrap();
        let time = |wanted: bool| wanted.then_some(Duration::from_secs(1));
        let Ok(limit_rate) = LimitRate::new(rate, burst.unwrap_or(requests), time(delays), time(blocks)) else {
            return Ok(());
        };
        let mut parts = KeyLimitParts::new("all", keys_max as usize);
        (parts.rate, parts.concurrent, parts.status) = (Some(limit_rate), concurrent, status);
        (parts.fields, parts.fields_in_responses) = (fields, true);
        let optional = |key: &str, value: Option<u32>| value.map(|value| format!("{key} = {value}\n")).unwrap_or_default();
        let timed = |key: &str, wanted: bool| if wanted { format!("{key} = \"1s\"\n") } else { String::new() };
        let text = format!(
            "[limit.all]\nrate = \"{rate}\"\n{}{}{}{}status = {status}\nfields = {fields}\nfields_in_responses = true\nkeys_max = {keys_max}\n",
            optional("burst", burst), optional("concurrent", concurrent), timed("delay", delays), timed("block", blocks),
        );
        match read("", "", &text) {
            Ok(config) => prop_assert_eq!(&*config.limits[0], &KeyLimit::from_parts(parts).unwrap()),
            Err(mut errors) => {
                let mut found = faults(parts);
                errors.sort();
                found.sort();
                prop_assert_eq!(found, errors);
            }
        }
    }

    #[test]
    fn weights(weights in prop::collection::vec(prop_oneof![Just(0_u16), 0..300_u16], 1..4)) {
        let server = |(place, weight): (usize, &u16)| {
            let mut server = Server::new(format!("s{place}:80").parse().unwrap());
            server.weight = *weight;
            server
        };
        let servers: Vec<Server> = weights.iter().enumerate().map(server).collect();
        let text: Vec<String> =
            servers.iter().map(|server| format!("{{ address = \"{}\", weight = {} }}", server.address, server.weight)).collect();
        let found = faults(UpstreamParts::new("b", servers.clone()));
        match read("", "", &format!("upstream.b.servers = [{}]", text.join(", "))) {
            Ok(config) => prop_assert_eq!((found, &config.upstreams[1].servers), (Vec::new(), &servers)),
            Err(errors) => prop_assert_eq!(found, errors),
        }
    }

    #[test]
    fn shares(weights in prop::collection::vec(prop_oneof![Just(0_u32), number()], 1..4)) {
        let target = |weight: &u32| SplitTarget::to_upstream(super::UpstreamIndex(0), *weight);
        let targets: Vec<SplitTarget> = weights.iter().map(target).collect();
        let text: Vec<String> = weights.iter().map(|weight| format!("{{ respond = 500, weight = {weight} }}")).collect();
        let route = format!("route = [{{ path = \"/split\", split = [{}] }}]", text.join(", "));
        prop_assert_eq!(read(&route, "", "").is_ok(), split_fault(&targets).is_none());
    }
}
