//! One sentence per bar: Weir's figure, the bar, whether it is met, and whether noise could decide.

use super::summary::{Ratio, SummaryRow};
use crate::measure::metric::Metric;
use crate::results::run::Run;
use crate::scenario::Bar;
use crate::scenario::bar::BarBase;

/// A bar held against the figures.
#[derive(Debug, Clone, PartialEq)]
pub struct BarVerdict {
    /// The sentence.
    pub sentence: String,
    /// Whether the bar is met; `None` when there is nothing to judge.
    pub is_met: Option<bool>,
    /// Whether noise could have decided otherwise: the bar is inside the interval, or there are too few rounds for one.
    pub is_inside_noise: bool,
}

/// The verdicts of a run, bar by bar, case by case.
pub fn verdicts(run: &Run, rows: &[SummaryRow]) -> Vec<BarVerdict> {
    let of =
        |bar: &Bar| rows.iter().filter(|row| row.target == bar.subject().to_string()).collect::<Vec<_>>();
    let judged = run.scenario.bars.iter().flat_map(|bar| verdicts_on(bar, run, &of(bar)));
    if !run.means_nothing() {
        return judged.collect();
    }
    let judged = judged.map(|verdict| match verdict.is_met {
        Some(_) => BarVerdict { sentence: unjudged(&verdict.sentence), is_met: None, ..verdict },
        None => verdict,
    });
    judged.collect()
}

/// The sentence of a verdict without the remark about figures that mean nothing.
fn unjudged(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches(": met").trim_end_matches(": missed");
    let sentence = sentence.replace(" met in all ", " in all ");
    format!("{sentence}: not judged, since these figures mean nothing")
}

fn verdicts_on(bar: &Bar, run: &Run, own: &[&SummaryRow]) -> Vec<BarVerdict> {
    let own: Vec<&SummaryRow> = own.iter().copied().filter(|row| is_about(bar, &row.case)).collect();
    if own.is_empty() {
        let subject = bar.subject().to_string();
        let why = run.failed.get(&subject).map_or("was not measured", String::as_str);
        let sentence =
            format!("{}: {subject} {why}; bar {}: not judged", capital(bar.metric.phrase()), bound(bar));
        return vec![BarVerdict { sentence, is_met: None, is_inside_noise: false }];
    }
    let mut judged: Vec<BarVerdict> = own.iter().map(|row| judge(bar, row)).collect();
    let prefix = format!("{}, ", bar.subject());
    let lost =
        run.failed.keys().filter(|name| name.strip_prefix(&prefix).is_some_and(|case| is_about(bar, case)));
    judged.extend(lost.map(|name| BarVerdict {
        sentence: format!("{} ({name}) was not measured: not judged", capital(bar.metric.phrase())),
        is_met: None,
        is_inside_noise: false,
    }));
    let all_met = judged.len() > 1 && judged.iter().all(|verdict| verdict.is_met == Some(true));
    if !all_met {
        return judged;
    }
    let noisy = judged.iter().filter(|verdict| verdict.is_inside_noise).count();
    let doubt = if noisy > 0 { format!(", but inside the noise in {noisy}") } else { String::new() };
    let (phrase, cases) = (capital(bar.metric.phrase()), judged.len());
    let sentence = format!("{phrase}: bar {} met in all {cases} cases{doubt}", bound(bar));
    vec![BarVerdict { sentence, is_met: Some(true), is_inside_noise: noisy > 0 }]
}

fn is_about(bar: &Bar, case: &str) -> bool {
    bar.case.as_deref().is_none_or(|only| only == case)
}

fn judge(bar: &Bar, row: &SummaryRow) -> BarVerdict {
    let named = bar.target.map(|target| target.to_string());
    let case = [named.as_deref(), Some(&*row.case).filter(|case| !case.is_empty())];
    let case = case.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let case = if case.is_empty() { case } else { format!(" ({case})") };
    let phrase = capital(bar.metric.phrase());
    let result = match bar.of {
        BarBase::Itself => judge_itself(bar, row).map(|(is_met, text)| (is_met, text, false)),
        BarBase::BestPeer => row.ratios.get(&bar.metric).map(|ratio| judge_ratio(bar, ratio)),
        BarBase::Target(other) => row.others.get(&(bar.metric, other)).map(|ratio| judge_ratio(bar, ratio)),
    };
    match result {
        Some((is_met, text, is_inside_noise)) => {
            let word = if is_met { "met" } else { "missed" };
            let sentence = format!("{phrase}{case} {text}; bar {}: {word}", bound(bar));
            BarVerdict { sentence, is_met: Some(is_met), is_inside_noise }
        }
        None => {
            let sentence = format!("{phrase}{case}: nothing to compare; bar {}: not judged", bound(bar));
            BarVerdict { sentence, is_met: None, is_inside_noise: false }
        }
    }
}

/// Whether the bar is met, the words for it, and whether noise could have decided otherwise.
fn judge_ratio(bar: &Bar, ratio: &Ratio) -> (bool, String, bool) {
    let better = if bar.of == BarBase::BestPeer { ", the better peer" } else { "" };
    let text = format!("{:.2} of {}'s{better}", ratio.estimate.median, ratio.peer);
    let (text, is_inside_noise) = match ratio.interval() {
        Err(rounds) => (format!("{text} ({rounds}: too few for an interval)"), true),
        Ok((low, high)) => {
            let is_between = bar.is_between(low, high);
            let noise = if is_between { ", but inside the noise" } else { "" };
            (format!("{text} (95 % interval {low:.2} to {high:.2}){noise}"), is_between)
        }
    };
    (bar.is_met_by(ratio.estimate.median), text, is_inside_noise)
}

/// Without noise to weigh: the worst round decides.
fn judge_itself(bar: &Bar, row: &SummaryRow) -> Option<(bool, String)> {
    let spread = row.spreads.get(&bar.metric)?;
    let worst = if bar.at_most.is_some() { spread.max } else { spread.min };
    let figure = bar.metric.format_with_unit(spread.median);
    let text = if spread.count > 1 && spread.min < spread.max {
        format!("{figure} (worst of {} rounds {})", spread.count, bar.metric.format_with_unit(worst))
    } else {
        figure
    };
    Some((bar.is_met_by(worst), text))
}

fn bound(bar: &Bar) -> String {
    let word = if bar.at_most.is_some() { "at most" } else { "at least" };
    match bar.of {
        BarBase::Itself if matches!(bar.metric, Metric::Availability | Metric::AvailabilityAfter) => {
            format!("{word} {} %", bar.bound())
        }
        BarBase::Itself => format!("{word} {}", bar.metric.format_with_unit(bar.bound())),
        BarBase::BestPeer => format!("{word} {:.2} of the better peer", bar.bound()),
        BarBase::Target(other) => format!("{word} {:.2} of {other}", bar.bound()),
    }
}

fn capital(phrase: &str) -> String {
    let mut letters = phrase.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
