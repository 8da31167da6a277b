//! A line through points: its slope, and the interval of the slope of points that follow each other in time.

use crate::estimate::Estimate;

/// Slope of the line through `points` with the least squared error; `None` when there are not two different abscissas.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

/// Points are put together to so many at most before the interval of a slope is found: what lies close together is alike, and would
/// count as if it were not.
const BLOCKS: usize = 12;

/// 97.5 % of Student's distribution for 2 to 10 degrees of freedom.
const STUDENT: [f64; 9] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// Slope of the line through `points`, which follow each other in time, with its 95 % interval by the scatter of the means of
/// blocks around it; `None` of fewer than four points.
pub fn trend(points: &[(f64, f64)]) -> Option<Estimate> {
    let blocks = points.len().min(BLOCKS);
    if blocks < 4 {
        return None;
    }
    let mean = |points: &[(f64, f64)]| {
        let count = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        (x / count, y / count)
    };
    let bound = |block: usize| block * points.len() / blocks;
    let means: Vec<(f64, f64)> =
        (0..blocks).map(|block| mean(&points[bound(block)..bound(block + 1)])).collect();
    let slope = slope(&means)?;
    let (mean_x, mean_y) = mean(&means);
    let off = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
    let scatter = means.iter().map(off).sum::<f64>() / (blocks - 2) as f64;
    let spread: f64 = means.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let reach = STUDENT[blocks - 4] * (scatter / spread).sqrt();
    Some(Estimate { median: slope, low: slope - reach, high: slope + reach })
}

#[cfg(test)]
mod tests {
    use super::{slope, trend};
    use crate::random::{Purpose, RandomStream};

    /// Noise around a line, its neighbours alike: each is half of the one before it.
    fn noisy(slope: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = RandomStream::new(seed, Purpose::Service, [0, 0]);
        let mut noise = 0.0;
        (0..120)
            .map(|x| {
                noise = 0.5 * noise + random.below(1000) as f64 - 499.5;
                (f64::from(x), slope * f64::from(x) + noise)
            })
            .collect()
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        assert_eq!(trend(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), None);
        let flat = |seed: &u64| trend(&noisy(0.0, *seed)).is_some_and(|it| it.low <= 0.0 && it.high >= 0.0);
        let flat = (0..400).filter(flat).count();
        // 95 %, and a little less since blocks are not quite independent.
        assert!((360..=395).contains(&flat), "{flat} of 400");
        let steep = (0..400).filter(|seed| trend(&noisy(20.0, *seed)).is_some_and(|it| it.low > 0.0)).count();
        assert!(steep >= 396, "{steep} of 400");
        let line: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), 3.0 * f64::from(x))).collect();
        let exact = trend(&line).unwrap();
        assert!((exact.median - 3.0).abs() < 1e-9 && (exact.high - exact.low).abs() < 1e-6, "{exact:?}");
    }

    #[test]
    fn slopes_of_known_lines() {
        let exact = slope(&[(1000.0, 5.0e6), (2000.0, 7.0e6), (8000.0, 19.0e6)]).unwrap();
        assert!((exact - 2000.0).abs() < 1e-6, "{exact}");
        // Anscombe's first quartet: y = 3.00 + 0.500 x.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        assert!((slope(&points).unwrap() - 0.500).abs() < 0.001);
        assert_eq!(slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(slope(&[]), None);
    }
}
