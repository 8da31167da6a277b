//! The course of a round: second by second, request by request, and server by server.

use weir_stats::estimate;
use weir_stats::plot::{Chart, PlotLine, PlotMarks, bounds, draw};

use super::{Plot, good, lines, titled};
use crate::results::measurement::Measurement;
use crate::results::run::Run;

/// A series shorter than this shows nothing.
const SECONDS_MIN: usize = 3;

/// Answers and P99 second by second, the median of all rounds; and errors, where there are any.
pub(super) fn seconds(run: &Run, case: &str) -> anyhow::Result<Vec<Plot>> {
    type Value = fn(&crate::load::Second) -> f64;
    let figures: [(&str, &str, Value); 3] = [
        ("Answers in each second", "answers", |second| second.requests as f64),
        ("P99 latency in each second", "P99, ms", |second| second.p99 / 1000.0),
        ("Errors in each second", "errors", |second| second.errors as f64),
    ];
    let mut plots = Vec::new();
    for (what, y, value) in figures {
        let lines = lines(run, |target| {
            let own: Vec<&Measurement> = of(run, case, target).collect();
            let count = own.iter().map(|it| it.seconds.len()).min().unwrap_or(0);
            let at = |index: usize| {
                let values: Vec<f64> = own.iter().map(|it| value(&it.seconds[index])).collect();
                Some((index as f64 + 1.0, estimate::median(&values)?))
            };
            if count < SECONDS_MIN { Vec::new() } else { (0..count).filter_map(at).collect() }
        });
        let is_flat = lines.iter().all(|(_, points)| points.iter().all(|(_, value)| *value == 0.0));
        if !is_flat {
            plots.push(from_zero(titled(what, case), "second of the window", y, lines, PlotMarks::Points)?);
        }
    }
    Ok(plots)
}

/// The response time of each of the first requests, one after the other, in the first round.
pub(super) fn responses(run: &Run, case: &str) -> anyhow::Result<Option<Plot>> {
    let lines = lines(run, |target| {
        let Some(first) = of(run, case, target).find(|it| !it.responses.is_empty()) else {
            return Vec::new();
        };
        let times = first.responses.iter().enumerate();
        times.map(|(index, micros)| (index as f64 + 1.0, f64::from(*micros) / 1000.0)).collect()
    });
    if lines.is_empty() {
        return Ok(None);
    }
    let what = titled("Response time of each request, in the order in which they were sent", case);
    from_zero(what, "request", "response time, ms", lines, PlotMarks::Dots).map(Some)
}

/// The share of requests that each server got, in all rounds together.
pub(super) fn shares(run: &Run, case: &str) -> anyhow::Result<Option<Plot>> {
    let lines = lines(run, |target| {
        let mut sums: Vec<u64> = Vec::new();
        for measurement in of(run, case, target) {
            sums.resize(sums.len().max(measurement.shares.len()), 0);
            sums.iter_mut().zip(&measurement.shares).for_each(|(sum, share)| *sum += share);
        }
        let all: u64 = sums.iter().sum();
        let percent = |count: u64| 100.0 * count as f64 / all.max(1) as f64;
        sums.into_iter().zip(1_u32..).map(|(count, server)| (f64::from(server), percent(count))).collect()
    });
    if lines.iter().all(|(_, points)| points.len() < 2) {
        return Ok(None);
    }
    let what = titled("Share of the requests that each server got", case);
    from_zero(what, "server", "requests, %", lines, PlotMarks::Points).map(Some)
}

fn of<'a>(run: &'a Run, case: &'a str, target: &'a str) -> impl Iterator<Item = &'a Measurement> {
    good(run).filter(move |it| it.case == case && it.target == target)
}

/// A plot whose values begin at 0.
fn from_zero(what: String, x: &str, y: &str, lines: Vec<PlotLine>, marks: PlotMarks) -> anyhow::Result<Plot> {
    let ((first, last), (_, most)) = bounds(&lines);
    let figure = Chart { title: String::new(), x, y, lines, marks };
    let room = (last - first) * 0.02;
    Ok((what, draw(&figure, first - room..last + room, 0.0..most * 1.1)?))
}

#[cfg(test)]
mod tests {
    use super::{responses, seconds, shares};
    use crate::load::Second;
    use crate::results::measurement::Measurement;
    use crate::results::run::Run;
    use crate::scenario::{RunLength, catalogue};

    fn run(measurement: &Measurement) -> Run {
        let scenario = catalogue::find("queue-single-slot").unwrap();
        let machine = crate::machine::Machine::look();
        let mut run = Run::new(&scenario, machine, None, RunLength::Full);
        for round in 1..=3 {
            run.measurements.push(Measurement { round, target: "weir".to_owned(), ..measurement.clone() });
        }
        run
    }

    #[test]
    fn each_second_each_request_and_each_server_is_drawn() {
        let second = Second { requests: 100, errors: 0, p50: 1000.0, p99: 2000.0 };
        let all = run(&Measurement {
            seconds: vec![second; 4],
            responses: vec![20_000; 5],
            shares: vec![1, 2, 1],
            ..Measurement::default()
        });
        let plots = seconds(&all, "").unwrap();
        assert_eq!(plots.len(), 2, "without errors there is no plot of them");
        for (what, svg) in &plots {
            assert_eq!(svg.matches("<circle").count(), 4, "{what}");
        }
        let (_, svg) = responses(&all, "").unwrap().unwrap();
        // One line in the colour of the first target: the one beside its name.
        let coloured = svg.lines().filter(|line| line.contains("polyline") && line.contains("#0072B2"));
        assert_eq!((svg.matches("<circle").count(), coloured.count()), (5, 1));
        assert_eq!(shares(&all, "").unwrap().unwrap().1.matches("<circle").count(), 3);
        let wrong = Second { errors: 3, ..second };
        let failing = run(&Measurement { seconds: vec![second, wrong, second], ..Measurement::default() });
        assert_eq!(seconds(&failing, "").unwrap().len(), 3);
    }

    #[test]
    fn figures_that_were_not_noted_are_not_drawn() {
        let none = run(&Measurement { seconds: vec![Second::default(); 2], ..Measurement::default() });
        assert!(seconds(&none, "").unwrap().is_empty());
        assert!(responses(&none, "").unwrap().is_none() && shares(&none, "").unwrap().is_none());
    }
}
