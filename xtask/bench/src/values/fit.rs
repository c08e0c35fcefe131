//! The cost of one, by linear regression over counts (L8): the slope with its 95 % interval and R2. Points far from the
//! line do not bend it, and are counted.
use serde::{Deserialize, Serialize};

/// A count, and the cost of that many units.
pub type Point = (f64, f64);

/// A line fitted through points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The cost of one unit.
    pub slope: f64,
    /// Half the width of its 95 % interval.
    pub within: f64,
    /// Share of the variance that the line explains.
    pub r2: f64,
    /// Number of ignored points: more than [`FAR`] deviations from a line that such points do not affect.
    pub outliers: usize,
}

impl Fit {
    /// Makes the fit of a figure that was read, not fitted.
    pub fn exact(value: f64) -> Fit {
        Fit { slope: value, within: 0.0, r2: 1.0, outliers: 0 }
    }
}

impl Fit {
    /// Returns the median of figures, and half the width of its 95 % interval; `None` if they are too few.
    pub fn of_figures(figures: &[f64]) -> Option<Fit> {
        if figures.len() < POINTS_MIN {
            return None;
        }
        let slope = median(figures.to_vec())?;
        let spread = median(figures.iter().map(|figure| (figure - slope).abs()).collect())?;
        let error = spread * MAD_TO_SIGMA / (figures.len() as f64).sqrt();
        let within = student(figures.len() - 1) * error;
        Some(Fit { slope, within, r2: 1.0, outliers: 0 })
    }
}

/// Deviations (medians of absolute residuals, scaled to a normal distribution's) that are too many.
const FAR: f64 = 5.0;
const MAD_TO_SIGMA: f64 = 1.4826;
/// Least bound of a residual, relative to the greatest value, for points that are mostly exactly on the line.
const ALLOWED: f64 = 1e-3;
/// Least number of points for a line.
const POINTS_MIN: usize = 4;

/// Fits the line through `points`; `None` if they are too few, or all of one count.
pub fn fit(points: &[Point]) -> Option<Fit> {
    if points.len() < POINTS_MIN {
        return None;
    }
    let slopes = points.iter().enumerate().flat_map(|(at, a)| {
        let later = points[at + 1..].iter().filter(move |b| b.0 != a.0);
        later.map(move |b| (b.1 - a.1) / (b.0 - a.0))
    });
    let slope = median(slopes.collect())?;
    let offset = median(points.iter().map(|point| point.1 - slope * point.0).collect())?;
    let residual = |point: &Point| (point.1 - offset - slope * point.0).abs();
    let spread = median(points.iter().map(residual).collect())? * MAD_TO_SIGMA;
    let greatest = points.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
    let most = (FAR * spread).max(ALLOWED * greatest);
    let near: Vec<Point> = points.iter().copied().filter(|point| residual(point) <= most).collect();
    let line = least_squares(&near).or_else(|| least_squares(points))?;
    Some(Fit { outliers: points.len() - near.len(), ..line })
}

/// Fits the line through `points`, and subtracts that through `overhead` if there is one.
pub fn fit_less(points: &[Point], overhead: &[Point]) -> Option<Fit> {
    let all = fit(points)?;
    let Some(less) = fit(overhead) else { return Some(all) };
    Some(Fit {
        slope: all.slope - less.slope,
        within: all.within.hypot(less.within),
        outliers: all.outliers + less.outliers,
        ..all
    })
}

fn least_squares(points: &[Point]) -> Option<Fit> {
    let count = points.len() as f64;
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if points.len() < POINTS_MIN || xx == 0.0 {
        return None;
    }
    let slope = xy / xx;
    let rest = (yy - slope * xy).max(0.0);
    let within = student(points.len() - 2) * (rest / (count - 2.0) / xx).sqrt();
    Some(Fit { slope, within, r2: if yy == 0.0 { 1.0 } else { 1.0 - rest / yy }, outliers: 0 })
}

/// Returns the two-sided 95 % quantile of Student's distribution, by degrees of freedom.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 15] = [
        12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131,
    ];
    freedom.checked_sub(1).and_then(|at| TABLE.get(at)).copied().unwrap_or(2.05)
}

/// Returns the median: the middle value, or the mean of the two middle ones.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_a_line_has_its_slope_and_no_interval() {
        let points: Vec<Point> =
            (1..=5).map(|x| (f64::from(x), 7.0 + 3.0 * f64::from(x))).collect();
        let fit = fit(&points).unwrap();
        assert!((fit.slope - 3.0).abs() < 1e-9 && fit.within < 1e-6);
        assert!((fit.r2 - 1.0).abs() < 1e-9 && fit.outliers == 0);
    }

    #[test]
    fn one_far_point_is_counted_and_does_not_bend_the_line() {
        let mut points: Vec<Point> = (1..=10).map(|x| (f64::from(x), 3.0 * f64::from(x))).collect();
        points[4].1 += 100.0;
        let fit = fit(&points).unwrap();
        assert!((fit.slope - 3.0).abs() < 1e-9 && fit.outliers == 1);
    }

    #[test]
    fn the_interval_holds_the_slope_of_noisy_points() {
        let noise = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0];
        let points: Vec<Point> = (1..=6)
            .zip(noise)
            .map(|(x, noise)| (f64::from(x), 2.0 * f64::from(x) + noise))
            .collect();
        let fit = fit(&points).unwrap();
        assert!(fit.within > 0.0 && (fit.slope - 2.0).abs() <= fit.within, "{fit:?}");
    }

    #[test]
    fn an_overhead_is_taken_off() {
        let line = |slope: f64| {
            (1..=5).map(|x| (f64::from(x), slope * f64::from(x))).collect::<Vec<Point>>()
        };
        assert!((fit_less(&line(5.0), &line(2.0)).unwrap().slope - 3.0).abs() < 1e-9);
        assert_eq!(fit_less(&line(5.0), &[]), fit(&line(5.0)));
    }

    #[test]
    fn of_figures_the_median_counts() {
        let fit = Fit::of_figures(&[5.0, 4.0, 6.0, 5.0, 100.0]).unwrap();
        assert!((fit.slope - 5.0).abs() < 1e-9 && fit.within > 0.0);
        assert_eq!(Fit::of_figures(&[1.0; 3]), None);
    }

    #[test]
    fn too_few_points_or_one_count_give_no_line() {
        assert_eq!(fit(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0, 10.0]), Some(2.5));
    }
}
