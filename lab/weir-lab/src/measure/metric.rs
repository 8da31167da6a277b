//! The figures the lab knows: name, unit, and which way is better. One list for scenarios, tables and raw data.

use serde::{Deserialize, Serialize};

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    /// Divided by the first, with so many digits behind the point.
    Rounded(f64, usize),
    /// Divided by it, whole, with its digits in groups.
    Whole(f64),
    /// With three digits, never rounded up: 100 means that nothing failed.
    RoundedDown,
}

use Number::{Rounded, RoundedDown, Whole};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// What a figure is called and how it is written.
struct MetricRow {
    heading: &'static str,
    phrase: &'static str,
    number: Number,
    unit: &'static str,
}

/// One row for each figure: heading in tables, name in sentences, number, unit in sentences.
macro_rules! metrics {
    ($($(#[$attribute:meta])* $name:ident => ($heading:literal, $phrase:literal, $number:expr, $unit:literal),)*) => {
        /// A figure. Base units: microseconds, bytes, requests per second, percent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Metric {
            $($(#[$attribute])* $name,)*
        }

        const ROWS: &[MetricRow] = &[
            $(MetricRow { heading: $heading, phrase: $phrase, number: $number, unit: $unit },)*
        ];
    };
}

metrics! {
    /// Correct answers per second.
    RequestsPerSecond => ("req/s", "requests per second", Whole(1.0), " req/s"),
    /// CPU time of the target's process tree per request, µs.
    CpuPerRequest => ("CPU µs/req", "CPU per request", Rounded(1.0, 2), " µs"),
    /// CPU time of the target's process tree per GiB of bodies, µs.
    CpuPerGib => ("CPU ms/GiB", "CPU per GiB", Rounded(1000.0, 1), " ms"),
    /// CPU time of the target's process tree per second and 1 000 tunnels while each has a heartbeat, µs.
    HeartbeatCpu => ("CPU ms/s of 1000", "CPU of 1 000 tunnels with a heartbeat", Rounded(1000.0, 3), " ms per second"),
    /// The part of it in user mode, µs.
    CpuUser => ("user", "user CPU per request", Rounded(1.0, 2), " µs"),
    /// The part of it in the kernel, µs.
    CpuSystem => ("system", "system CPU per request", Rounded(1.0, 2), " µs"),
    /// Median latency, µs.
    P50 => ("P50 µs", "median latency", Whole(1.0), " µs"),
    /// 99 % of the answers came within it, µs.
    P99 => ("P99 µs", "P99 latency", Whole(1.0), " µs"),
    /// 99.9 % of the answers came within it, µs.
    #[serde(rename = "p99.9")]
    P999 => ("P99.9 µs", "P99.9 latency", Whole(1.0), " µs"),
    /// The longest latency, µs.
    Longest => ("longest ms", "longest latency", Rounded(1000.0, 1), " ms"),
    /// Throughput relative to the same load without a target, in the same round.
    OfDirect => ("of direct", "throughput relative to direct", Rounded(1.0, 2), ""),
    /// CPU time per request relative to the same target without persistence, in the same round.
    OfNoPersistence => ("of no persistence", "CPU per request relative to that without persistence", Rounded(1.0, 3), ""),
    /// Resident memory of the target's process tree under load, bytes.
    Rss => ("RSS MiB", "resident memory", Rounded(MIB, 1), " MiB"),
    /// The same with shared pages divided, bytes.
    Pss => ("PSS MiB", "proportional resident memory", Rounded(MIB, 1), " MiB"),
    /// User memory per idle client connection, bytes.
    MemoryPerClient => ("bytes/client", "user memory per idle client", Whole(1.0), " bytes"),
    /// Correct answers of all that were asked for, percent.
    Availability => ("available %", "availability", RoundedDown, " %"),
    /// Requests that failed.
    Failed => ("failed", "failed requests", Whole(1.0), ""),
    /// Context switches of the target per request.
    SwitchesPerRequest => ("switches/req", "context switches per request", Rounded(1.0, 2), ""),
    /// Connections the origin accepted in the run.
    OriginConnections => ("server conns", "server connections", Whole(1.0), ""),
    /// Connections in TIME_WAIT on the machine after the run.
    TimeWait => ("TIME_WAIT", "connections in TIME_WAIT", Whole(1.0), ""),
    /// How busy the CPU of client and origin was, percent.
    ClientCpu => ("client CPU %", "use of the client's CPU", Rounded(1.0, 1), " %"),
    /// The origin's use of its CPU, percent.
    OriginCpu => ("origin's CPU %", "the origin's use of its CPU", Rounded(1.0, 1), ""),
    /// The load tool's use of the same CPU, percent.
    DriverCpu => ("client's CPU %", "the client's use of its CPU", Rounded(1.0, 1), ""),
    /// CPU time of the origin per request, µs.
    OriginPerRequest => ("origin µs/req", "the origin's CPU per request", Rounded(1.0, 2), ""),
    /// Heap of the target's process tree, bytes.
    MemoryHeap => ("heap MiB", "heap", Rounded(MIB, 1), ""),
    /// Stacks of all its threads, bytes.
    MemoryStack => ("stack MiB", "stacks", Rounded(MIB, 1), ""),
    /// Memory that its processes share, bytes.
    MemoryShared => ("shared MiB", "shared memory", Rounded(MIB, 1), ""),
    /// Pages of files in it, bytes.
    MemoryFile => ("files MiB", "resident pages of files", Rounded(MIB, 1), ""),
    /// The rest of its memory, bytes.
    MemoryOther => ("other MiB", "other memory", Rounded(MIB, 1), ""),
    /// Descriptors that the target has open.
    OpenDescriptors => ("descriptors", "open descriptors", Whole(1.0), ""),
    /// How busy the target's CPU was with the target, percent.
    TargetCpu => ("target CPU %", "use of the target's CPU", Rounded(1.0, 1), " %"),
    /// The use of the two CPUs by other processes than the lab and its children, percent of one.
    ForeignCpu => ("foreign CPU %", "foreign use of the CPUs", Rounded(1.0, 1), " %"),
    /// The time of the two CPUs taken by the hypervisor, percent.
    Stolen => ("stolen %", "stolen time", Rounded(1.0, 1), " %"),
    /// 99 % of the requests of a constant rate went out so soon after they were due, µs.
    LatenessP99 => ("late P99 µs", "P99 lateness of requests", Whole(1.0), " µs"),
    /// Throughput relative to the capacity of the servers, by the service time they measured.
    OfCapacity => ("of capacity", "throughput relative to the servers' capacity", Rounded(1.0, 3), ""),
    /// The longest response relative to the longest that an ideal queue in order of arrival would have.
    LongestOfIdeal => ("longest of ideal", "longest response relative to an ideal queue's", Rounded(1.0, 3), ""),
    /// Requests whose service began clearly after that of one that came clearly later.
    Overtaken => ("overtaken", "requests overtaken by later ones", Whole(1.0), ""),
    /// Requests that came to a server whose slots were all taken.
    Overlaps => ("overlaps", "requests at a server that was full", Whole(1.0), ""),
    /// How long servers worked on a request, mean, µs.
    ServiceTime => ("service ms", "service time", Rounded(1000.0, 2), " ms"),
    /// 95 % of the answers came within it, µs.
    P95 => ("P95 µs", "P95 latency", Whole(1.0), " µs"),
    /// The same when no request is slow, µs.
    P95Plain => ("plain P95 µs", "P95 latency without slow requests", Whole(1.0), " µs"),
    /// P95 of the requests that are not slow, relative to that when none is.
    P95OfPlain => ("P95 of plain", "P95 latency of the others relative to that without slow requests", Rounded(1.0, 3), ""),
    /// Requests that failed and cannot have reached the server before it was killed.
    FailedUnsent => ("failed unsent", "failed requests that the killed server never had", Whole(1.0), ""),
    /// From the moment a server hangs until the last request is sent to it, µs.
    Detection => ("detection ms", "time until nothing more is sent to a server that hangs", Whole(1000.0), " ms"),
    /// From the moment a server works again until the first request is sent to it, µs.
    Recovery => ("recovery ms", "time until a server that is back gets requests", Whole(1000.0), " ms"),
    /// Probes that all servers together got per second.
    ProbesPerSecond => ("probes/s", "probes per second", Whole(1.0), ""),
    /// The 10 ms with the most probes, relative to the mean.
    ProbeBurst => ("burst", "largest 10 ms of probes relative to the mean", Rounded(1.0, 2), ""),
    /// The longest wait of a request, answered or not, relative to the limit of the queue.
    LongestOfLimit => ("longest of limit", "longest wait relative to the queue's limit", Rounded(1.0, 3), ""),
    /// Correct answers of all requests after the overload, percent.
    AvailabilityAfter => ("available after %", "availability after the overload", RoundedDown, " %"),
    /// From the last unfinished handshake to the moment when the target has closed all of them, relative to its time limit.
    GoneOfLimit => ("gone of limit", "time until all unfinished handshakes are gone relative to their limit", Rounded(1.0, 3), ""),
    /// Clients whose requests all went to one server while nothing happened, percent.
    Kept => ("kept %", "clients that stay with one server", RoundedDown, " %"),
    /// Clients of other servers that changed theirs when one was removed, percent.
    MovedOnRemoval => ("moved %", "clients of other servers that move when one is removed", Rounded(1.0, 2), " %"),
    /// Clients that changed their server when it returned and had not been its before, percent.
    MovedOnReturn => ("moved back %", "clients that move without need when the server returns", Rounded(1.0, 2), " %"),
    /// Bytes of answers' bodies per second.
    BytesPerSecond => ("MiB/s", "bytes of bodies per second", Rounded(MIB, 1), " MiB/s"),
    /// Tunnels that were open at once.
    Tunnels => ("tunnels", "tunnels open at once", Whole(1.0), ""),
    /// CPU of the target for each 1 000 tunnels with a heartbeat, percent of a CPU.
    CpuOfThousand => ("CPU % of 1000", "CPU of 1 000 tunnels with a heartbeat", Rounded(1.0, 2), " %"),
    /// Memory that the scenario's large number of clients would take, by the slope, bytes.
    MemoryOfMany => ("GiB of many", "memory of the large number of clients, extrapolated", Rounded(GIB, 2), " GiB"),
    /// CPU that they would take, percent of a CPU.
    CpuOfMany => ("CPU % of many", "CPU of the large number of clients, extrapolated", Rounded(1.0, 1), " %"),
    /// How far the time between two probes of a server is from the configured one, mean, µs.
    ProbeOff => ("probe off ms", "distance of probes from their interval", Rounded(1000.0, 1), " ms"),
    /// P99 of the usual clients relative to that without slow or hostile ones.
    P99OfPlain => ("P99 of plain", "P99 latency of usual clients relative to that without the others", Rounded(1.0, 3), ""),
    /// Attacking connections that the target ended, percent.
    CutOff => ("cut off %", "attacking connections that were ended", RoundedDown, " %"),
    /// Frames of an attack, or requests with the frame that makes them one, before the target ended the connection, mean.
    UnitsUntilCutOff => ("until cut off", "frames of an attacking connection until it was ended", Whole(1.0), ""),
    /// Exchanges of slow clients that were carried to the end, percent.
    SlowWhole => ("slow whole %", "exchanges of slow clients that were carried to their end", RoundedDown, " %"),
    /// Exchanges of slow clients that the target ended by a rule of its own.
    SlowEnded => ("slow ended", "exchanges of slow clients that the target ended", Whole(1.0), ""),
    /// Answers to slow clients that were wrong.
    SlowWrong => ("slow wrong", "wrong answers to slow clients", Whole(1.0), ""),
    /// Tunnels that were open and did not outlive the reloads.
    LostTunnels => ("lost tunnels", "tunnels lost", Whole(1.0), ""),
    /// From telling the target its new configuration until the first request goes where only that one sends it, the longest, µs.
    TakesEffect => ("in effect ms", "time until a new configuration is in effect", Whole(1000.0), " ms"),
    /// Resident memory after the last reload, less that before the first, bytes.
    RssGrowth => ("RSS more MiB", "growth of resident memory", Rounded(MIB, 1), " MiB"),
    /// Resident memory after the last reload, less that after the tenth, bytes.
    RssGrowthLater => ("after 10 MiB", "growth of resident memory after the tenth reload", Rounded(MIB, 1), " MiB"),
    /// Growth of resident memory for each reload after the tenth, bytes.
    RssPerReload => ("KiB/reload", "growth of resident memory for each reload after the tenth", Rounded(KIB, 1), " KiB"),
    /// Requests that failed because the connection was reset, or broken off while they were sent.
    Resets => ("reset", "requests whose connection was reset", Whole(1.0), ""),
    /// Kept connections of clients that the target ended between two requests.
    ClosedConnections => ("closed conns", "kept connections that the target closed between requests", Whole(1.0), ""),
    /// Tunnels through servers that reloads took away, which did not outlive them.
    LostTouched => ("lost touched", "tunnels lost whose servers were taken away", Whole(1.0), ""),
    /// Configurations that were not in effect when the next one was given.
    LateConfigurations => ("late configs", "configurations not in effect when the next one was given", Whole(1.0), ""),
    /// Failed requests for which the target has no explanation.
    Unexplained => ("unexplained", "failed requests without an explanation", Whole(1.0), ""),
    /// Growth of resident memory per minute, bytes.
    RssPerMinute => ("RSS KiB/min", "growth of resident memory per minute", Rounded(KIB, 1), " KiB"),
    /// The lower end of where it is with 95 % confidence, bytes.
    RssPerMinuteLow => ("from", "least growth of resident memory per minute that its noise allows", Rounded(KIB, 1), " KiB"),
    /// The upper end of it, bytes.
    RssPerMinuteHigh => ("to", "largest growth of resident memory per minute that its noise allows", Rounded(KIB, 1), " KiB"),
    /// Descriptors that the target had open at the beginning, under load.
    DescriptorsBefore => ("descr. before", "descriptors at the beginning", Whole(1.0), ""),
    /// Descriptors that it had open at the end, under the same load.
    DescriptorsAfter => ("descr. after", "descriptors at the end", Whole(1.0), ""),
    /// Growth of their number per minute: the lower end of where it is with 95 % confidence.
    DescriptorsPerMinuteLow => ("descr./min from", "least growth of descriptors per minute that their noise allows", Rounded(1.0, 2), ""),
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower the better.
    Lower,
    /// The higher the better.
    Higher,
}

impl Metric {
    /// Which way it is better.
    pub fn better(self) -> Better {
        match self {
            Self::RequestsPerSecond
            | Self::OfDirect
            | Self::OfCapacity
            | Self::Availability
            | Self::AvailabilityAfter
            | Self::BytesPerSecond
            | Self::Tunnels
            | Self::SlowWhole
            | Self::CutOff
            | Self::Kept => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// Whether it is worse where CPUs are farther apart: busy times and rates.
    pub fn follows_distance(self) -> bool {
        matches!(
            self,
            Self::RequestsPerSecond
                | Self::CpuPerRequest
                | Self::CpuUser
                | Self::CpuSystem
                | Self::CpuPerGib
                | Self::BytesPerSecond
                | Self::HeartbeatCpu
                | Self::CpuOfThousand
                | Self::CpuOfMany
                | Self::P50
                | Self::P95
                | Self::P99
                | Self::P999
        )
    }

    const fn row(self) -> &'static MetricRow {
        &ROWS[self as usize]
    }

    /// Heading in tables, with the unit.
    pub const fn heading(self) -> &'static str {
        self.row().heading
    }

    /// Name in a sentence.
    pub const fn phrase(self) -> &'static str {
        self.row().phrase
    }

    /// A value as a table shows it.
    pub fn format(self, value: f64) -> String {
        match self.row().number {
            Rounded(divisor, digits) => format!("{:.digits$}", value / divisor),
            Whole(divisor) => grouped(value / divisor),
            RoundedDown => format!("{:.3}", (value * 1000.0).floor() / 1000.0),
        }
    }

    /// A value as a sentence shows it, with its unit.
    pub fn format_with_unit(self, value: f64) -> String {
        let number = self.format(value);
        match self.row().unit {
            "" => number,
            unit => format!("{number}{unit}"),
        }
    }
}

/// A whole number with a thin grouping: `71 250`.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::{Metric, grouped};

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in
            [(0.0, "0"), (999.4, "999"), (1000.0, "1 000"), (71250.2, "71 250"), (-1234567.0, "-1 234 567")]
        {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn one_failure_in_a_million_is_not_full_availability() {
        assert_eq!(Metric::Availability.format(100.0 * 999_999.0 / 1_000_000.0), "99.999");
        assert_eq!(Metric::Availability.format(100.0), "100.000");
        assert_eq!(Metric::CpuPerGib.format_with_unit(412_345.0), "412.3 ms");
        assert_eq!(Metric::HeartbeatCpu.format_with_unit(1_234.0), "1.234 ms per second");
        assert_eq!(Metric::Rss.format_with_unit(3.0 * 1_048_576.0), "3.0 MiB");
    }
}
