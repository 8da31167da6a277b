//! A run: everything that it found, in one type for people (Markdown, HTML) and machines (JSON).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::capacity::Capacity;
use super::measurement::Measurement;
use super::record::TargetRecord;
use crate::clock;
use crate::machine::Machine;
use crate::measure::metric::Metric;
use crate::placement::Placement;
use crate::profile::Profile;
use crate::scenario::{RunLength, Scenario};
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TargetVariant};

/// Everything a run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scenario, as it was run.
    pub scenario: Scenario,
    /// When it began.
    pub started: jiff::Timestamp,
    /// Where.
    pub machine: Machine,
    /// Which process ran on which CPU; nothing when the kernel chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Only a few seconds long: its figures mean nothing.
    pub short: bool,
    /// With fewer rounds and shorter windows than the scenario has.
    #[serde(default)]
    pub brief: bool,
    /// The lab itself was built for debugging: its figures mean nothing.
    pub debug_build: bool,
    /// Version of the lab.
    pub version: String,
    /// The command line.
    pub command: String,
    /// How each target was run.
    pub targets: BTreeMap<String, TargetRecord>,
    /// Versions of the load tools.
    pub tools: BTreeMap<String, String>,
    /// All measurements, in the order in which they were made.
    pub measurements: Vec<Measurement>,
    /// Where targets spend their CPU time, if that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, Profile>,
    /// Targets that lack a feature of the scenario, and the feature.
    #[serde(default)]
    pub cannot: BTreeMap<String, String>,
    /// Targets, or single loads on them, that failed, and how.
    pub failed: BTreeMap<String, String>,
    /// The capacity of client and origin without a target, if it could be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The command line without the folders of this machine, which mean nothing elsewhere.
fn command_line(args: impl Iterator<Item = String>) -> String {
    args.fold("weir-lab".to_owned(), |line, arg| {
        let (option, value) =
            arg.split_once('=').map_or(("", arg.as_str()), |(option, value)| (option, value));
        let value = if value.starts_with('/') { value.rsplit('/').next().unwrap_or_default() } else { value };
        let equals = if option.is_empty() { "" } else { "=" };
        format!("{line} {option}{equals}{value}")
    })
}

impl Run {
    /// A run that has measured nothing yet.
    pub fn new(
        scenario: &Scenario,
        machine: Machine,
        placement: Option<Placement>,
        length: RunLength,
    ) -> Self {
        Self {
            scenario: scenario.clone(),
            started: clock::today(),
            machine,
            placement,
            short: length == RunLength::Trial,
            brief: length == RunLength::Brief,
            debug_build: cfg!(debug_assertions),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(std::env::args().skip(1)),
            targets: BTreeMap::new(),
            tools: BTreeMap::new(),
            measurements: Vec::new(),
            profiles: BTreeMap::new(),
            cannot: BTreeMap::new(),
            failed: BTreeMap::new(),
            capacity: None,
            notes: Vec::new(),
        }
    }

    /// Adds each measurement's throughput relative to direct, and the CPU that its requests cost relative to the same target
    /// without persistence, in the same round and case.
    pub fn note_ratios(&mut self) {
        let direct = LabTarget::of(Product::Direct);
        self.note_ratio(Metric::OfDirect, Metric::RequestsPerSecond, |_| Some(direct));
        self.note_ratio(Metric::OfNoPersistence, Metric::CpuPerRequest, |target| {
            (target.variant == TargetVariant::Usual)
                .then_some(LabTarget { variant: TargetVariant::NoPersistence, ..target })
        });
    }

    /// Adds `ratio` of each measurement: its `figure` relative to that of the target that `base` says.
    fn note_ratio(&mut self, ratio: Metric, figure: Metric, base: impl Fn(LabTarget) -> Option<LabTarget>) {
        let key =
            |measurement: &Measurement, target: String| (measurement.case.clone(), measurement.round, target);
        let figures: BTreeMap<_, f64> = self
            .measurements
            .iter()
            .filter_map(|it| Some((key(it, it.target.clone()), *it.values.get(&figure)?)))
            .collect();
        for measurement in &mut self.measurements {
            let base = measurement.target.parse().ok().and_then(&base);
            let base = base.and_then(|base| figures.get(&key(measurement, base.to_string())));
            if let (Some(own), Some(base)) = (measurement.values.get(&figure), base)
                && *base > 0.0
            {
                measurement.values.insert(ratio, own / base);
            }
        }
    }

    /// Number of measurements during which others had a share of the CPUs.
    pub fn disturbed(&self) -> usize {
        self.measurements.iter().filter(|measurement| measurement.is_disturbed()).count()
    }

    /// Whether its figures show that everything works, and nothing else. No bar is held against them.
    pub fn means_nothing(&self) -> bool {
        self.debug_build || self.short
    }

    /// Why its figures must not be quoted, if so.
    pub fn caveat(&self) -> Option<&'static str> {
        if self.debug_build {
            Some("The lab was built for debugging: these figures mean nothing.")
        } else if self.short {
            Some("A short run, to see that everything works: these figures mean nothing.")
        } else if self.disturbed() * 2 > self.measurements.len() {
            Some("Other processes used the CPUs during most measurements: repeat on a quiet machine.")
        } else if self.brief {
            Some("A brief run, with few rounds and short windows: a first impression, not a verdict.")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::command_line;

    #[test]
    fn command_lines_are_saved_without_folders() {
        let args = [
            "run",
            "l7-short",
            "--weir",
            "/opt/build/weir",
            "--save=/srv/runs",
            "--targets",
            "nginx/no-reuse",
        ];
        let line = command_line(args.into_iter().map(str::to_owned));
        assert_eq!(line, "weir-lab run l7-short --weir weir --save=runs --targets nginx/no-reuse");
    }
}
