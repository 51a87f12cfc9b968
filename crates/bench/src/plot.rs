//! Charts as SVG, with a logarithmic scale.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1_200, 700);
/// Colours that colour-blind people can distinguish (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
];

/// A line.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) across: &'static str,
    pub(crate) up: &'static str,
    pub(crate) series: Vec<Series>,
}

impl Chart {
    /// `path` with `.svg`.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let svg = path.with_extension("svg");
        self.draw(&SVGBackend::new(&svg, SIZE).into_drawing_area())
            .map_err(|error| anyhow!("{}: {error}", svg.display()))?;
        Ok(())
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, plotters::coord::Shift>) -> anyhow::Result<()>
    where
        B::ErrorType: 'static,
    {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let (left, right) =
            (least(&mut points().map(|point| point.0)), most(&mut points().map(|point| point.0)));
        let top = most(&mut points().map(|point| up_of(point.1)));
        let bottom = least(&mut points().map(|point| up_of(point.1))).floor();
        if !(left < right && top.is_finite()) {
            anyhow::bail!("nothing to draw");
        }
        let top = top.ceil().max(bottom + 1.0);
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 24))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(80)
            .build_cartesian_2d(left..right, bottom..top)?;
        chart
            .configure_mesh()
            .x_desc(self.across)
            .y_desc(self.up)
            .y_label_formatter(&|value| label(*value))
            .label_style(("sans-serif", 16))
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let points: Vec<(f64, f64)> =
                series.points.iter().map(|(across, up)| (*across, up_of(*up))).collect();
            let line = LineSeries::new(points, colour.stroke_width(2));
            chart
                .draw_series(line)?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 16))
            .draw()?;
        Ok(area.present()?)
    }
}

fn up_of(value: f64) -> f64 {
    value.max(1e-3).log10()
}

fn label(value: f64) -> String {
    let value = 10_f64.powf(value);
    if value < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}
