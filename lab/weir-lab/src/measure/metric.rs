//! The figures the lab knows: name, unit, and which way is better. One list for scenarios, tables and raw data.

use serde::{Deserialize, Serialize};

/// A figure. Base units: microseconds, bytes, requests per second, percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Correct answers per second.
    RequestsPerSecond,
    /// CPU time of the target's process tree per request, µs.
    CpuPerRequest,
    /// CPU time of the target's process tree per GiB of bodies, µs.
    CpuPerGib,
    /// CPU time of the target's process tree per second and 1 000 tunnels while each has a heartbeat, µs.
    HeartbeatCpu,
    /// The part of it in user mode, µs.
    CpuUser,
    /// The part of it in the kernel, µs.
    CpuSystem,
    /// Median latency, µs.
    P50,
    /// 99 % of the answers came within it, µs.
    P99,
    /// 99.9 % of the answers came within it, µs.
    #[serde(rename = "p99.9")]
    P999,
    /// The longest latency, µs.
    Longest,
    /// Throughput relative to the same load without a target, in the same round.
    OfDirect,
    /// CPU time per request relative to the same target without persistence, in the same round.
    OfNoPersistence,
    /// Resident memory of the target's process tree under load, bytes.
    Rss,
    /// The same with shared pages divided, bytes.
    Pss,
    /// User memory per idle client connection, bytes.
    MemoryPerClient,
    /// Correct answers of all that were asked for, percent.
    Availability,
    /// Requests that failed.
    Failed,
    /// Context switches of the target per request.
    SwitchesPerRequest,
    /// Connections the origin accepted in the run.
    OriginConnections,
    /// Connections in TIME_WAIT on the machine after the run.
    TimeWait,
    /// How busy the CPU of client and origin was, percent.
    ClientCpu,
    /// The origin's use of its CPU, percent.
    OriginCpu,
    /// The load tool's use of the same CPU, percent.
    DriverCpu,
    /// CPU time of the origin per request, µs.
    OriginPerRequest,
    /// Heap of the target's process tree, bytes.
    MemoryHeap,
    /// Stacks of all its threads, bytes.
    MemoryStack,
    /// Memory that its processes share, bytes.
    MemoryShared,
    /// Pages of files in it, bytes.
    MemoryFile,
    /// The rest of its memory, bytes.
    MemoryOther,
    /// Descriptors that the target has open.
    OpenDescriptors,
    /// How busy the target's CPU was with the target, percent.
    TargetCpu,
    /// The use of the two CPUs by other processes than the lab and its children, percent of one.
    ForeignCpu,
    /// The time of the two CPUs taken by the hypervisor, percent.
    Stolen,
    /// 99 % of the requests of a constant rate went out so soon after they were due, µs.
    LatenessP99,
    /// Throughput relative to the capacity of the servers, by the service time they measured.
    OfCapacity,
    /// The longest response relative to the longest that an ideal queue in order of arrival would have.
    LongestOfIdeal,
    /// Requests whose service began clearly after that of one that came clearly later.
    Overtaken,
    /// Requests that came to a server whose slots were all taken.
    Overlaps,
    /// How long servers worked on a request, mean, µs.
    ServiceTime,
    /// 95 % of the answers came within it, µs.
    P95,
    /// The same when no request is slow, µs.
    P95Plain,
    /// P95 of the requests that are not slow, relative to that when none is.
    P95OfPlain,
    /// Requests that failed and cannot have reached the server before it was killed.
    FailedUnsent,
    /// From the moment a server hangs until the last request is sent to it, µs.
    Detection,
    /// From the moment a server works again until the first request is sent to it, µs.
    Recovery,
    /// Probes that all servers together got per second.
    ProbesPerSecond,
    /// The 10 ms with the most probes, relative to the mean.
    ProbeBurst,
    /// The longest wait of a request, answered or not, relative to the limit of the queue.
    LongestOfLimit,
    /// Correct answers of all requests after the overload, percent.
    AvailabilityAfter,
    /// From the last unfinished handshake to the moment when the target has closed all of them, relative to its time limit.
    GoneOfLimit,
    /// Clients whose requests all went to one server while nothing happened, percent.
    Kept,
    /// Clients of other servers that changed theirs when one was removed, percent.
    MovedOnRemoval,
    /// Clients that changed their server when it returned and had not been its before, percent.
    MovedOnReturn,
    /// Bytes of answers' bodies per second.
    BytesPerSecond,
    /// Tunnels that were open at once.
    Tunnels,
    /// CPU of the target for each 1 000 tunnels with a heartbeat, percent of a CPU.
    CpuOfThousand,
    /// Memory that the scenario's large number of clients would take, by the slope, bytes.
    MemoryOfMany,
    /// CPU that they would take, percent of a CPU.
    CpuOfMany,
    /// How far the time between two probes of a server is from the configured one, mean, µs.
    ProbeOff,
    /// P99 of the usual clients relative to that without slow or hostile ones.
    P99OfPlain,
    /// Attacking connections that the target ended, percent.
    CutOff,
    /// Frames of an attack, or requests with the frame that makes them one, before the target ended the connection, mean.
    UnitsUntilCutOff,
    /// Exchanges of slow clients that were carried to the end, percent.
    SlowWhole,
    /// Exchanges of slow clients that the target ended by a rule of its own.
    SlowEnded,
    /// Answers to slow clients that were wrong.
    SlowWrong,
    /// Tunnels that were open and did not outlive the reloads.
    LostTunnels,
    /// From telling the target its new configuration until the first request goes where only that one sends it, the longest, µs.
    TakesEffect,
    /// Resident memory after the last reload, less that before the first, bytes.
    RssGrowth,
    /// Resident memory after the last reload, less that after the tenth, bytes.
    RssGrowthLater,
    /// Growth of resident memory for each reload after the tenth, bytes.
    RssPerReload,
    /// Requests that failed because the connection was reset, or broken off while they were sent.
    Resets,
    /// Kept connections of clients that the target ended between two requests.
    ClosedConnections,
    /// Tunnels through servers that reloads took away, which did not outlive them.
    LostTouched,
    /// Configurations that were not in effect when the next one was given.
    LateConfigurations,
    /// Failed requests for which the target has no explanation.
    Unexplained,
    /// Growth of resident memory per minute, bytes.
    RssPerMinute,
    /// The lower end of where it is with 95 % confidence, bytes.
    RssPerMinuteLow,
    /// The upper end of it, bytes.
    RssPerMinuteHigh,
    /// Descriptors that the target had open at the beginning, under load.
    DescriptorsBefore,
    /// Descriptors that it had open at the end, under the same load.
    DescriptorsAfter,
    /// Growth of their number per minute: the lower end of where it is with 95 % confidence.
    DescriptorsPerMinuteLow,
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

    /// Heading in tables, with the unit.
    pub fn heading(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "req/s",
            Self::CpuPerRequest => "CPU µs/req",
            Self::CpuPerGib => "CPU ms/GiB",
            Self::HeartbeatCpu => "CPU ms/s of 1000",
            Self::CpuUser => "user",
            Self::CpuSystem => "system",
            Self::P50 => "P50 µs",
            Self::P99 => "P99 µs",
            Self::P999 => "P99.9 µs",
            Self::Longest => "longest ms",
            Self::OfDirect => "of direct",
            Self::OfNoPersistence => "of no persistence",
            Self::Rss => "RSS MiB",
            Self::Pss => "PSS MiB",
            Self::MemoryPerClient => "bytes/client",
            Self::Availability => "available %",
            Self::Failed => "failed",
            Self::SwitchesPerRequest => "switches/req",
            Self::OriginConnections => "server conns",
            Self::TimeWait => "TIME_WAIT",
            Self::ClientCpu => "client CPU %",
            Self::OriginCpu => "origin's CPU %",
            Self::DriverCpu => "client's CPU %",
            Self::OriginPerRequest => "origin µs/req",
            Self::MemoryHeap => "heap MiB",
            Self::MemoryStack => "stack MiB",
            Self::MemoryShared => "shared MiB",
            Self::MemoryFile => "files MiB",
            Self::MemoryOther => "other MiB",
            Self::OpenDescriptors => "descriptors",
            Self::TargetCpu => "target CPU %",
            Self::ForeignCpu => "foreign CPU %",
            Self::Stolen => "stolen %",
            Self::LatenessP99 => "late P99 µs",
            Self::OfCapacity => "of capacity",
            Self::LongestOfIdeal => "longest of ideal",
            Self::Overtaken => "overtaken",
            Self::Overlaps => "overlaps",
            Self::ServiceTime => "service ms",
            Self::P95 => "P95 µs",
            Self::P95Plain => "plain P95 µs",
            Self::P95OfPlain => "P95 of plain",
            Self::FailedUnsent => "failed unsent",
            Self::Detection => "detection ms",
            Self::Recovery => "recovery ms",
            Self::ProbesPerSecond => "probes/s",
            Self::ProbeBurst => "burst",
            Self::LongestOfLimit => "longest of limit",
            Self::AvailabilityAfter => "available after %",
            Self::GoneOfLimit => "gone of limit",
            Self::Kept => "kept %",
            Self::MovedOnRemoval => "moved %",
            Self::MovedOnReturn => "moved back %",
            Self::BytesPerSecond => "MiB/s",
            Self::Tunnels => "tunnels",
            Self::CpuOfThousand => "CPU % of 1000",
            Self::MemoryOfMany => "GiB of many",
            Self::CpuOfMany => "CPU % of many",
            Self::ProbeOff => "probe off ms",
            Self::P99OfPlain => "P99 of plain",
            Self::CutOff => "cut off %",
            Self::UnitsUntilCutOff => "until cut off",
            Self::SlowWhole => "slow whole %",
            Self::SlowEnded => "slow ended",
            Self::SlowWrong => "slow wrong",
            Self::LostTunnels => "lost tunnels",
            Self::TakesEffect => "in effect ms",
            Self::RssGrowth => "RSS more MiB",
            Self::RssGrowthLater => "after 10 MiB",
            Self::RssPerReload => "KiB/reload",
            Self::Resets => "reset",
            Self::ClosedConnections => "closed conns",
            Self::LostTouched => "lost touched",
            Self::LateConfigurations => "late configs",
            Self::Unexplained => "unexplained",
            Self::RssPerMinute => "RSS KiB/min",
            Self::RssPerMinuteLow => "from",
            Self::RssPerMinuteHigh => "to",
            Self::DescriptorsBefore => "descr. before",
            Self::DescriptorsAfter => "descr. after",
            Self::DescriptorsPerMinuteLow => "descr./min from",
        }
    }

    /// Name in a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests per second",
            Self::CpuPerRequest => "CPU per request",
            Self::CpuPerGib => "CPU per GiB",
            Self::HeartbeatCpu => "CPU of 1 000 tunnels with a heartbeat",
            Self::CpuUser => "user CPU per request",
            Self::CpuSystem => "system CPU per request",
            Self::P50 => "median latency",
            Self::P99 => "P99 latency",
            Self::P999 => "P99.9 latency",
            Self::Longest => "longest latency",
            Self::OfDirect => "throughput relative to direct",
            Self::OfNoPersistence => "CPU per request relative to that without persistence",
            Self::Rss => "resident memory",
            Self::Pss => "proportional resident memory",
            Self::MemoryPerClient => "user memory per idle client",
            Self::Availability => "availability",
            Self::Failed => "failed requests",
            Self::SwitchesPerRequest => "context switches per request",
            Self::OriginConnections => "server connections",
            Self::TimeWait => "connections in TIME_WAIT",
            Self::ClientCpu => "use of the client's CPU",
            Self::OriginCpu => "the origin's use of its CPU",
            Self::DriverCpu => "the client's use of its CPU",
            Self::OriginPerRequest => "the origin's CPU per request",
            Self::MemoryHeap => "heap",
            Self::MemoryStack => "stacks",
            Self::MemoryShared => "shared memory",
            Self::MemoryFile => "resident pages of files",
            Self::MemoryOther => "other memory",
            Self::OpenDescriptors => "open descriptors",
            Self::TargetCpu => "use of the target's CPU",
            Self::ForeignCpu => "foreign use of the CPUs",
            Self::Stolen => "stolen time",
            Self::LatenessP99 => "P99 lateness of requests",
            Self::OfCapacity => "throughput relative to the servers' capacity",
            Self::LongestOfIdeal => "longest response relative to an ideal queue's",
            Self::Overtaken => "requests overtaken by later ones",
            Self::Overlaps => "requests at a server that was full",
            Self::ServiceTime => "service time",
            Self::P95 => "P95 latency",
            Self::P95Plain => "P95 latency without slow requests",
            Self::P95OfPlain => "P95 latency of the others relative to that without slow requests",
            Self::FailedUnsent => "failed requests that the killed server never had",
            Self::Detection => "time until nothing more is sent to a server that hangs",
            Self::Recovery => "time until a server that is back gets requests",
            Self::ProbesPerSecond => "probes per second",
            Self::ProbeBurst => "largest 10 ms of probes relative to the mean",
            Self::LongestOfLimit => "longest wait relative to the queue's limit",
            Self::AvailabilityAfter => "availability after the overload",
            Self::GoneOfLimit => "time until all unfinished handshakes are gone relative to their limit",
            Self::Kept => "clients that stay with one server",
            Self::MovedOnRemoval => "clients of other servers that move when one is removed",
            Self::MovedOnReturn => "clients that move without need when the server returns",
            Self::BytesPerSecond => "bytes of bodies per second",
            Self::Tunnels => "tunnels open at once",
            Self::CpuOfThousand => "CPU of 1 000 tunnels with a heartbeat",
            Self::MemoryOfMany => "memory of the large number of clients, extrapolated",
            Self::CpuOfMany => "CPU of the large number of clients, extrapolated",
            Self::ProbeOff => "distance of probes from their interval",
            Self::P99OfPlain => "P99 latency of usual clients relative to that without the others",
            Self::CutOff => "attacking connections that were ended",
            Self::UnitsUntilCutOff => "frames of an attacking connection until it was ended",
            Self::SlowWhole => "exchanges of slow clients that were carried to their end",
            Self::SlowEnded => "exchanges of slow clients that the target ended",
            Self::SlowWrong => "wrong answers to slow clients",
            Self::LostTunnels => "tunnels lost",
            Self::TakesEffect => "time until a new configuration is in effect",
            Self::RssGrowth => "growth of resident memory",
            Self::RssGrowthLater => "growth of resident memory after the tenth reload",
            Self::RssPerReload => "growth of resident memory for each reload after the tenth",
            Self::Resets => "requests whose connection was reset",
            Self::ClosedConnections => "kept connections that the target closed between requests",
            Self::LostTouched => "tunnels lost whose servers were taken away",
            Self::LateConfigurations => "configurations not in effect when the next one was given",
            Self::Unexplained => "failed requests without an explanation",
            Self::RssPerMinute => "growth of resident memory per minute",
            Self::RssPerMinuteLow => "least growth of resident memory per minute that its noise allows",
            Self::RssPerMinuteHigh => "largest growth of resident memory per minute that its noise allows",
            Self::DescriptorsBefore => "descriptors at the beginning",
            Self::DescriptorsAfter => "descriptors at the end",
            Self::DescriptorsPerMinuteLow => "least growth of descriptors per minute that their noise allows",
        }
    }

    /// A value as a table shows it.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::RequestsPerSecond
            | Self::P50
            | Self::P99
            | Self::P999
            | Self::LatenessP99
            | Self::Failed
            | Self::OriginConnections
            | Self::TimeWait
            | Self::MemoryPerClient
            | Self::Overtaken
            | Self::Overlaps
            | Self::P95
            | Self::P95Plain
            | Self::FailedUnsent
            | Self::OpenDescriptors
            | Self::Tunnels
            | Self::SlowEnded
            | Self::UnitsUntilCutOff
            | Self::SlowWrong
            | Self::LostTunnels
            | Self::Resets
            | Self::ClosedConnections
            | Self::LostTouched
            | Self::LateConfigurations
            | Self::Unexplained
            | Self::DescriptorsBefore
            | Self::DescriptorsAfter
            | Self::ProbesPerSecond => grouped(value),
            Self::RssPerReload | Self::RssPerMinute | Self::RssPerMinuteLow | Self::RssPerMinuteHigh => {
                format!("{:.1}", value / 1024.0)
            }
            Self::DescriptorsPerMinuteLow => format!("{value:.2}"),
            Self::Detection | Self::Recovery | Self::TakesEffect => grouped(value / 1000.0),
            Self::CpuPerRequest | Self::CpuUser | Self::CpuSystem | Self::OriginPerRequest => {
                format!("{value:.2}")
            }
            Self::Longest | Self::CpuPerGib | Self::ProbeOff => format!("{:.1}", value / 1000.0),
            Self::HeartbeatCpu => format!("{:.3}", value / 1000.0),
            Self::ServiceTime => format!("{:.2}", value / 1000.0),
            Self::MemoryOfMany => format!("{:.2}", value / 1_073_741_824.0),
            Self::OfDirect | Self::SwitchesPerRequest | Self::ProbeBurst | Self::CpuOfThousand => {
                format!("{value:.2}")
            }
            Self::OfNoPersistence
            | Self::OfCapacity
            | Self::LongestOfIdeal
            | Self::P95OfPlain
            | Self::P99OfPlain
            | Self::GoneOfLimit
            | Self::LongestOfLimit => format!("{value:.3}"),
            Self::Rss
            | Self::Pss
            | Self::RssGrowth
            | Self::RssGrowthLater
            | Self::BytesPerSecond
            | Self::MemoryHeap
            | Self::MemoryStack
            | Self::MemoryShared
            | Self::MemoryFile
            | Self::MemoryOther => format!("{:.1}", value / 1_048_576.0),
            // Not rounded up: 100 means that nothing failed.
            Self::Availability | Self::AvailabilityAfter | Self::Kept | Self::SlowWhole | Self::CutOff => {
                format!("{:.3}", (value * 1000.0).floor() / 1000.0)
            }
            Self::MovedOnRemoval | Self::MovedOnReturn => format!("{value:.2}"),
            Self::ClientCpu
            | Self::OriginCpu
            | Self::DriverCpu
            | Self::TargetCpu
            | Self::ForeignCpu
            | Self::CpuOfMany
            | Self::Stolen => format!("{value:.1}"),
        }
    }

    /// A value as a sentence shows it, with its unit.
    pub fn format_with_unit(self, value: f64) -> String {
        let number = self.format(value);
        match self {
            Self::RequestsPerSecond => format!("{number} req/s"),
            Self::CpuPerRequest | Self::CpuUser | Self::CpuSystem => format!("{number} µs"),
            Self::P50 | Self::P95 | Self::P95Plain | Self::P99 | Self::P999 | Self::LatenessP99 => {
                format!("{number} µs")
            }
            Self::Longest
            | Self::ServiceTime
            | Self::Detection
            | Self::Recovery
            | Self::TakesEffect
            | Self::ProbeOff
            | Self::CpuPerGib => format!("{number} ms"),
            Self::BytesPerSecond => format!("{number} MiB/s"),
            Self::MemoryOfMany => format!("{number} GiB"),
            Self::HeartbeatCpu => format!("{number} ms per second"),
            Self::Rss | Self::Pss | Self::RssGrowth | Self::RssGrowthLater => format!("{number} MiB"),
            Self::RssPerReload | Self::RssPerMinute | Self::RssPerMinuteLow | Self::RssPerMinuteHigh => {
                format!("{number} KiB")
            }
            Self::MemoryPerClient => format!("{number} bytes"),
            Self::Availability
            | Self::AvailabilityAfter
            | Self::Kept
            | Self::MovedOnRemoval
            | Self::MovedOnReturn
            | Self::SlowWhole
            | Self::CutOff
            | Self::CpuOfThousand
            | Self::CpuOfMany
            | Self::ClientCpu
            | Self::TargetCpu
            | Self::ForeignCpu
            | Self::Stolen => format!("{number} %"),
            _ => number,
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
