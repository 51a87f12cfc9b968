//! All panels in one PNG. How a panel looks in Grafana is not imitated; that its query brings something to look at is.

use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::prometheus::Series;
use crate::expiry::plot::{COLOURS, write_png};

const COLUMNS: usize = 4;
const PANEL: (u32, u32) = (480, 290);
/// Longer names would cover the lines.
const NAME_CHARS_MAX: usize = 28;
/// With more series than this, those that are zero all the time are left out of the picture.
const NAMES_MAX: usize = 6;

/// A panel with what its queries brought.
pub(super) struct Drawn<'a> {
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    pub(super) series: Vec<Series>,
}

/// Draws the panels from left to right, from top to bottom.
pub(super) fn write(panels: &[Drawn<'_>], path: &Path) -> anyhow::Result<()> {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let size = (PANEL.0 * u32::try_from(COLUMNS)?, PANEL.1 * u32::try_from(rows)?);
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    {
        let whole = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        whole.fill(&WHITE)?;
        for (panel, area) in panels.iter().zip(whole.split_evenly((rows, COLUMNS))) {
            draw(panel, &area).map_err(|error| anyhow!("panel {:?}: {error}", panel.title))?;
        }
        whole.present()?;
    }
    write_png(path, size, &pixels)
}

fn draw(panel: &Drawn<'_>, area: &DrawingArea<BitMapBackend<'_>, Shift>) -> anyhow::Result<()> {
    let ((left, right), (bottom, top)) = bounds(&panel.series);
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(22)
        .y_label_area_size(56)
        .build_cartesian_2d(left..right, bottom..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(6)
        .y_labels(5)
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|value| label(*value, panel.unit))
        .label_style(("sans-serif", 11))
        .draw()?;
    let is_crowded = panel.series.len() > NAMES_MAX;
    let shown = panel
        .series
        .iter()
        .filter(|series| !is_crowded || series.points.iter().any(|(_, value)| *value != 0.0));
    for (series, colour) in shown.zip(COLOURS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)))?
            .label(series.name.chars().take(NAME_CHARS_MAX).collect::<String>())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2)));
    }
    if !panel.series.is_empty() {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .legend_area_size(16)
            .background_style(WHITE.mix(0.7))
            .label_font(("sans-serif", 10))
            .draw()?;
    }
    Ok(())
}

/// From where to where a panel goes, across and up, never empty; zero is always in it, and a fifth of the height is left for
/// names.
fn bounds(series: &[Series]) -> ((f64, f64), (f64, f64)) {
    let points = || series.iter().flat_map(|series| &series.points);
    let (left, right) = points()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(left, right), (at, _)| (left.min(*at), right.max(*at)));
    let top = points().fold(0.0, |top: f64, (_, value)| top.max(*value));
    let bottom = points().fold(0.0, |bottom: f64, (_, value)| bottom.min(*value));
    let across = if left < right { (left, right) } else { (0.0, 1.0) };
    let up = if top > bottom { (bottom, top + (top - bottom) * 0.25) } else { (0.0, 1.0) };
    (across, up)
}

/// A value in its unit, short enough for the side of a panel.
fn label(value: f64, unit: &str) -> String {
    match unit {
        "percentunit" => format!("{:.0} %", value * 100.0),
        "s" if value.abs() < 0.001 => format!("{:.0} µs", value * 1e6),
        "s" if value.abs() < 1.0 => format!("{:.1} ms", value * 1e3),
        "s" => format!("{value:.1} s"),
        "bytes" | "Bps" if value.abs() >= 1024.0 * 1024.0 => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        "bytes" | "Bps" if value.abs() >= 1024.0 => format!("{:.1} KiB", value / 1024.0),
        _ if value.abs() >= 1000.0 => format!("{:.1}k", value / 1000.0),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_in_their_unit() {
        assert_eq!(label(0.5, "percentunit"), "50 %");
        assert_eq!(label(0.000_25, "s"), "250 µs");
        assert_eq!(label(0.25, "s"), "250.0 ms");
        assert_eq!(label(2048.0, "Bps"), "2.0 KiB");
        assert_eq!(label(1500.0, "reqps"), "1.5k");
    }

    #[test]
    fn nothing_one_sample_and_zeros_have_room_to_be_drawn_in() {
        let of = |points: Vec<(f64, f64)>| bounds(&[Series { name: String::new(), points }]);
        assert_eq!(bounds(&[]), ((0.0, 1.0), (0.0, 1.0)));
        assert_eq!(of(vec![(3.0, 8.0)]), ((0.0, 1.0), (0.0, 10.0)));
        assert_eq!(of(vec![(3.0, 0.0), (5.0, 0.0)]), ((3.0, 5.0), (0.0, 1.0)));
    }
}
