//! Axes with numbers at round values.
use super::drawing::{Anchor, Drawing, Point, label_area};

/// Least distance of two numbers of an axis in pixels.
const APART: f64 = 8.0;
/// The greatest number of steps of an axis with evenly spaced values.
const STEPS_MAX: f64 = 6.0;
const TICK: f64 = 4.0;

/// The map of values to a line of pixels.
#[derive(Clone, Debug)]
pub struct Axis {
    least: f64,
    most: f64,
    /// Base of a logarithmic axis.
    base: Option<f64>,
    from: f64,
    to: f64,
    /// Round values on the axis.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// Makes an axis from 0 to the least round value that is at least `most`.
    pub fn even(most: f64, (from, to): Point) -> Axis {
        let step = round_step(most.max(f64::MIN_POSITIVE) / STEPS_MAX);
        let steps = (most / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|tick| f64::from(tick) * step).collect();
        Axis { least: 0.0, most: steps * step, base: None, from, to, ticks }
    }

    /// Returns the powers of `base` around all of `values`.
    pub fn powers(base: f64, values: impl Iterator<Item = f64>, (from, to): Point) -> Axis {
        let values = values.filter(|value| *value > 0.0).map(|value| value.log(base));
        let (least, most) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (it.min(a), it.max(b)));
        let (least, most) = if least > most { (0.0, 1.0) } else { (least, most) };
        let first = (least + 1e-9).floor();
        let last = (most - 1e-9).ceil().max(first + 1.0);
        let ticks = (first as i32..=last as i32).map(|power| base.powi(power)).collect();
        Axis { least: first, most: last, base: Some(base), from, to, ticks }
    }

    /// Returns the pixel of a value, cut to the ends of the axis.
    pub fn place(&self, value: f64) -> f64 {
        let value = match self.base {
            Some(base) => value.max(f64::MIN_POSITIVE).log(base),
            None => value,
        };
        let part = ((value - self.least) / (self.most - self.least)).clamp(0.0, 1.0);
        self.from + part * (self.to - self.from)
    }

    /// Returns whether the axis ends below `value`.
    pub fn is_below(&self, value: f64) -> bool {
        value > self.ticks.last().copied().unwrap_or(self.most) * (1.0 + 1e-9)
    }

    /// Draws the axis along `y` with a rule up or down to `across` at each tick, and with as many numbers as
    /// there is room for.
    pub fn draw_flat(
        &self,
        drawing: &mut Drawing,
        (y, across): Point,
        say: impl Fn(f64) -> String,
    ) {
        let is_above = across > y;
        let mut free = f64::NEG_INFINITY;
        for &tick in &self.ticks {
            let x = self.place(tick);
            drawing.line(&[(x, y), (x, across)], "grid");
            let (text, base) = (say(tick), if is_above { y - TICK } else { y + TICK + 9.0 });
            let area = label_area((x, base), Anchor::Middle, &text);
            if area.left >= free {
                drawing.label((x, base), Anchor::Middle, &text, "dim");
                free = area.right + APART;
            }
        }
        drawing.line(&[(self.from, y), (self.to, y)], "axis");
    }

    /// Draws it along `x` with a rule to `across` at each tick and its number left of it.
    pub fn draw_upright(
        &self,
        drawing: &mut Drawing,
        (x, across): Point,
        say: impl Fn(f64) -> String,
    ) {
        for &tick in &self.ticks {
            let y = self.place(tick);
            drawing.line(&[(x, y), (across, y)], "grid");
            drawing.label((x - TICK, y + 4.0), Anchor::End, &say(tick), "dim");
        }
        drawing.line(&[(x, self.from), (x, self.to)], "axis");
    }
}

/// Returns the least number of 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|times| times * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{
        text::{plain, said},
        unit::Unit,
    };

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let axis = Axis::even(1.13, (0.0, 120.0));
        assert_eq!(axis.ticks.iter().copied().map(plain).collect::<Vec<_>>().join(" "), {
            "0 0.2 0.4 0.6 0.8 1 1.2"
        });
        assert!((axis.place(0.6) - 60.0).abs() < 1e-9 && axis.place(9.0) == 120.0);
        assert!(axis.is_below(1.21) && !axis.is_below(1.2));
        let axis = Axis::powers(10.0, [130.0, 4200.0].into_iter(), (0.0, 100.0));
        assert_eq!(axis.ticks, [100.0, 1000.0, 10_000.0]);
        let sizes = Axis::powers(4.0, [5000.0, 70_000.0].into_iter(), (0.0, 100.0));
        assert_eq!(sizes.ticks, [4096.0, 16_384.0, 65_536.0, 262_144.0]);
        assert!((axis.place(1000.0) - 50.0).abs() < 1e-9);
        assert_eq!(Axis::powers(10.0, std::iter::empty(), (0.0, 1.0)).ticks, [1.0, 10.0]);
    }

    #[test]
    fn numbers_that_have_no_room_are_left_out() {
        for most in [0.3, 7.0, 123_456.0] {
            let mut drawing = Drawing::default();
            let axis = Axis::even(most, (40.0, 110.0));
            axis.draw_flat(&mut drawing, (30.0, 80.0), |it| said(it, Unit::Clock));
            axis.draw_flat(&mut drawing, (80.0, 30.0), |it| said(it, Unit::Clock));
            assert_eq!(drawing.collisions(), Vec::<String>::new());
        }
    }
}
