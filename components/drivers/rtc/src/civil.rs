//! A date and time of day of the Gregorian calendar, UTC.

/// A date and time that exist in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    year: u16,
    month: u8,
    day: u8,
    seconds: u32,
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Civil {
    /// Returns the date, if it exists; `time` is hour, minute, second.
    pub(crate) fn new(year: u16, month: u8, day: u8, time: (u8, u8, u8)) -> Option<Civil> {
        let (hour, minute, second) = time;
        let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
        let is_time = hour < 24 && minute < 60 && second < 60;
        let seconds = (u32::from(hour) * 60 + u32::from(minute)) * 60 + u32::from(second);
        (is_date && is_time).then_some(Civil { year, month, day, seconds })
    }

    /// Returns the seconds since 1970-01-01; `None` for an earlier date.
    pub(crate) fn unix_seconds(self) -> Option<u64> {
        let years = 1970..self.year;
        if self.year < 1970 {
            return None;
        }
        let whole_years: u64 = years.map(|year| if is_leap(year) { 366 } else { 365 }).sum();
        let whole_months: u64 =
            (1..self.month).map(|month| u64::from(days_in_month(self.year, month))).sum();
        let days = whole_years + whole_months + u64::from(self.day) - 1;
        Some(days * 86_400 + u64::from(self.seconds))
    }
}
