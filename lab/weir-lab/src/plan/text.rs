//! The answer in words, with the arithmetic behind each number and the parts that it leaves out.

use super::arithmetic::{BUSY_MAX, Nodes, PORTS_SHARE, SizingAnswer, bytes_each};
use super::measure::Measured;
use super::{ClientKeepAlive, PlannedLoad};

const MIB: f64 = 1_048_576.0;

pub(super) fn page(planned: &PlannedLoad, measured: &Measured, answer: &SizingAnswer) -> String {
    let mut text = format!("**Will it hold: {}?**\n\n", question(planned));
    if let Some(caveat) = measured.caveat {
        text.push_str(&format!("> {caveat}\n\n"));
    }
    text.push_str(&format!("{}\n\n", verdict(answer, measured)));
    for (what, how) in lines(planned, measured, answer) {
        text.push_str(&format!("- **{what}**: {how}\n"));
    }
    text.push_str(&limits(answer));
    text.push_str(&format!(
        "\nMeasured here with {} on one core of {}; {} rounds each.\n",
        measured.version,
        measured.machine.sentence(),
        measured.cost_full.count
    ));
    text.push_str(
        "Not measured: the network and its card (all of this went over loopback), other hardware, what the servers take, memory of the \
         kernel for connections and for data that waits in them, logging, and anything that the traffic has and this load had not.\n",
    );
    text
}

fn question(planned: &PlannedLoad) -> String {
    let body = match planned.message {
        Some(len) => format!("messages of {len} bytes in WebSocket tunnels"),
        None if planned.body > 0 => format!("POST of {} bytes", planned.body),
        None => format!("GET of {} bytes", planned.answer),
    };
    let tls = match (planned.http3, planned.tls) {
        (true, _) => " over HTTP/3",
        (false, true) => " over TLS 1.3",
        (false, false) => "",
    };
    let kept = match planned.keepalive {
        ClientKeepAlive::Yes => "kept connections",
        ClientKeepAlive::No => "a connection for each request",
    };
    format!(
        "{} requests per second ({body}{tls}) from {} clients with {kept}, through {}",
        planned.rate, planned.clients, planned.target
    )
}

/// The recommendation; none where the measurements behind it failed.
fn verdict(answer: &SizingAnswer, measured: &Measured) -> String {
    if !measured.is_sound {
        return "No answer: it would rest on figures that mean nothing. Below is how one is made of them."
            .to_owned();
    }
    let mut doubts = measured.missed.clone();
    if measured.faults > 0 {
        doubts.push(format!("{} requests failed", measured.faults));
    }
    if !doubts.is_empty() {
        return format!(
            "No answer: while this was measured, {}. What one core does not hold here, no number of cores is recommended for. Find out why \
             (`weir-lab run l7-keepalive` shows what the limit is), or repeat on a quiet machine.",
            doubts.join("; ")
        );
    }
    let cpus = measured.machine.cpus as f64;
    let busy = answer.cores_full / cpus * 100.0;
    match answer.nodes {
        Nodes::Pair => format!(
            "One machine like this one holds it, with {busy:.0} % of its {cpus:.0} CPUs. Take two, so that one may fail: each carries all of it alone."
        ),
        Nodes::Cluster(nodes) => {
            let spared = nodes - 1;
            format!(
                "One machine like this one does not hold it: it would need {:.1} of its {cpus:.0} CPUs. Take {nodes}: {spared} carry it, and one may fail.",
                answer.cores_full
            )
        }
    }
}

fn lines(planned: &PlannedLoad, measured: &Measured, answer: &SizingAnswer) -> Vec<(String, String)> {
    let (rate, busy) = measured.usual;
    let spread = measured.cost_usual;
    let mut lines = vec![
        (
            format!("{} cores", answer.cores),
            format!(
                "{} requests/s × {:.1} µs = {:.2} cores; at most {:.0} % busy: {:.2}, rounded up. The cost is the larger of {:.1} µs with a full core ({:.0}/s) and \
                 {:.1} µs ({:.1}-{:.1}) at half of that ({rate:.0}/s, {busy:.0} % busy).",
                planned.rate,
                answer.cost_us,
                answer.cores_full,
                BUSY_MAX * 100.0,
                answer.cores_full / BUSY_MAX,
                measured.cost_full.median,
                measured.peak,
                spread.median,
                spread.min,
                spread.max,
            ),
        ),
        (
            format!("{:.0} MiB of memory", (answer.memory / MIB).ceil()),
            format!(
                "{} clients × {:.1} KiB and what the program needs anyway. From {:.1} MiB with {:.0} clients and {:.1} MiB with {:.0}, all of them in use.",
                planned.clients,
                answer.bytes_per_client / 1024.0,
                measured.memory[0].1 / MIB,
                measured.memory[0].0,
                measured.memory[1].1 / MIB,
                measured.memory[1].0,
            ),
        ),
        (
            format!("{} descriptors", answer.descriptors),
            format!(
                "{} clients, {} connections to servers ({} requests/s × {} ms that servers take), and some of its own.",
                planned.clients,
                answer.under_way,
                planned.rate,
                planned.server_time.as_millis()
            ),
        ),
        (
            format!("{} source ports", answer.server_ports),
            format!(
                "the connections to servers, if all of these had one address; connections are kept, so few ports wait in TIME_WAIT. There are {}, of which {:.0} % are easy to find.",
                answer.ports,
                PORTS_SHARE * 100.0
            ),
        ),
    ];
    lines.push(traffic(planned, answer));
    lines.push(price(planned, answer));
    if planned.keepalive == ClientKeepAlive::No {
        let waiting = planned.rate as f64 * super::arithmetic::TIME_WAIT_S;
        let how = format!(
            "{} connections/s for 60 s each at the side that closes first, which is the balancer here. They take no descriptor.",
            planned.rate
        );
        lines.push((format!("{waiting:.0} connections in TIME_WAIT"), how));
    }
    lines
}

/// What passes through the network card.
fn traffic(planned: &PlannedLoad, answer: &SizingAnswer) -> (String, String) {
    let how = format!(
        "{} requests/s × {:.0} bytes, bodies and heads; in each direction, as what clients send goes on to servers and back. Packets and TLS \
         add some 5 to 10 %.",
        planned.rate,
        bytes_each(planned)
    );
    (format!("{:.0} Mbit/s", (answer.bandwidth * 8.0 / 1e6).ceil()), how)
}

/// What a million requests take of a core, and what that costs.
fn price(planned: &PlannedLoad, answer: &SizingAnswer) -> (String, String) {
    let seconds = answer.core_seconds;
    let how = format!(
        "{:.1} µs each, of a core that is {:.0} % busy. The spare machine, memory and traffic are not in it.",
        answer.cost_us,
        BUSY_MAX * 100.0
    );
    match planned.core_hour {
        None => (format!("{seconds:.1} core-seconds per million requests"), how),
        Some(price) => {
            let cost = price * seconds / 3600.0;
            (
                format!("{cost:.6} per million requests"),
                format!("{seconds:.1} core-seconds at {price} an hour: {how}"),
            )
        }
    }
}

fn limits(answer: &SizingAnswer) -> String {
    if answer.raise.is_empty() {
        return "- **Limits of this system**: all are high enough.\n".to_owned();
    }
    let mut text = String::from("- **Limits of this system to raise**:\n");
    for (name, present, needed) in &answer.raise {
        text.push_str(&format!("  - {name}: {present} here, {needed} needed\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::arithmetic::answer;
    use super::super::arithmetic::tests::{measured, planned};
    use super::super::{ClientKeepAlive, PlannedLoad};
    use super::{Measured, page};

    fn said(measured: &Measured) -> String {
        let planned = planned(25_000, 5000, ClientKeepAlive::Yes);
        page(&planned, measured, &answer(&planned, measured))
    }

    #[test]
    fn traffic_and_price_are_answers_too() {
        let planned = PlannedLoad { core_hour: Some(0.09), ..planned(25_000, 5000, ClientKeepAlive::Yes) };
        let text = page(&planned, &measured(), &answer(&planned, &measured()));
        assert!(text.contains("**365 Mbit/s**: 25000 requests/s × 1824 bytes"), "{text}");
        // 40 seconds at 9 cents an hour.
        assert!(
            text.contains("**0.001000 per million requests**: 40.0 core-seconds at 0.09 an hour"),
            "{text}"
        );
        assert!(said(&measured()).contains("**40.0 core-seconds per million requests**"), "{text}");
    }

    #[test]
    fn nothing_is_recommended_after_a_failed_measurement() {
        let recommends = |text: &str| text.contains("One machine like this one") || text.contains("Take ");
        assert!(recommends(&said(&measured())));
        let missed = vec!["of 25000 requests per second from 4000 clients it held 17000".to_owned()];
        for (doubtful, why) in [
            (Measured { missed, ..measured() }, "from 4000 clients it held 17000"),
            (Measured { faults: 3, ..measured() }, "3 requests failed"),
            (Measured { is_sound: false, ..measured() }, "figures that mean nothing"),
        ] {
            let text = said(&doubtful);
            assert!(!recommends(&text) && text.contains("No answer") && text.contains(why), "{text}");
        }
    }
}
