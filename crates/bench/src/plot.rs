//! Charts as SVG and PNG from the same description. Text uses a font file of the system (`DejaVuSans.ttf`), so no font
//! library is linked. A missing font is reported before the measurement.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (1_200, 700);
const FONTS: [&str; 3] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
];
/// Colours that colour-blind people can distinguish (Okabe and Ito, 2008).
pub(crate) const COLOURS: [RGBColor; 6] = [
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

/// How values go up the side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// A chart.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) across: &'static str,
    pub(crate) up: &'static str,
    pub(crate) scale: Scale,
    /// Names of the whole numbers across, from 0 on: points are marked, since nothing lies between them. Empty where
    /// numbers are numbers.
    pub(crate) names: Vec<String>,
    pub(crate) series: Vec<Series>,
}

/// Registers a font for the drawing. `given` comes before the usual paths.
pub(crate) fn register_font(given: Option<&Path>) -> anyhow::Result<()> {
    let usual = FONTS.iter().map(PathBuf::from).find(|path| path.exists());
    let path = given.map(Path::to_path_buf).or(usual);
    let path =
        path.context("no DejaVuSans.ttf for the plots: apt-get install fonts-dejavu-core, or --font")?;
    let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    // Registered fonts live as long as the process, because the drawing needs a static font.
    plotters::style::register_font("sans-serif", FontStyle::Normal, Vec::leak(bytes))
        .map_err(|_| anyhow!("{} is no font", path.display()))
}

/// Writes pixels of three bytes each.
pub(crate) fn write_png(path: &Path, size: (u32, u32), pixels: &[u8]) -> anyhow::Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("write {}", path.display()))?;
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    Ok(encoder.write_header()?.write_image_data(pixels)?)
}

impl Chart {
    /// `path` with `.svg` and with `.png`.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let svg = path.with_extension("svg");
        self.draw(&SVGBackend::new(&svg, SIZE).into_drawing_area())
            .map_err(|error| anyhow!("{}: {error}", svg.display()))?;
        let mut pixels = vec![0; SIZE.0 as usize * SIZE.1 as usize * 3];
        self.draw(&BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area())
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        write_png(&path.with_extension("png"), SIZE, &pixels)
    }

    fn up_of(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(1e-3).log10(),
        }
    }

    /// Half a place beside the first name and behind the last.
    #[expect(clippy::cast_precision_loss, reason = "a few names")]
    fn ends(&self) -> (f64, f64) {
        (-0.5, self.names.len() as f64 - 0.5)
    }

    /// Whether a line goes from one point to the next: where a name between them has no point, nothing is known of it.
    fn joins(&self, one: (f64, f64), next: (f64, f64)) -> bool {
        self.names.is_empty() || next.0 - one.0 < 1.5
    }

    /// The name of a whole number; nothing between two.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among a few names")]
    fn name(&self, value: f64) -> String {
        let is_place = value > -0.01 && (value - value.round()).abs() < 0.01;
        let name = is_place.then(|| self.names.get(value.round() as usize)).flatten();
        name.cloned().unwrap_or_default()
    }

    fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Linear => format!("{value:.0}"),
            Scale::Logarithmic => {
                let value = 10_f64.powf(value);
                if value < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") }
            }
        }
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
        let top = most(&mut points().map(|point| self.up_of(point.1)));
        let bottom = match self.scale {
            Scale::Linear => 0.0,
            Scale::Logarithmic => least(&mut points().map(|point| self.up_of(point.1))).floor(),
        };
        let (left, right) = if self.names.is_empty() { (left, right) } else { self.ends() };
        if !(left < right && top.is_finite()) {
            anyhow::bail!("nothing to draw");
        }
        let top = match self.scale {
            Scale::Linear => top.max(1.0) * 1.05,
            Scale::Logarithmic => top.ceil().max(bottom + 1.0),
        };
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 24))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(80)
            .build_cartesian_2d(left..right, bottom..top)?;
        let (mut mesh, name) = (chart.configure_mesh(), |value: &f64| self.name(*value));
        if !self.names.is_empty() {
            mesh.x_labels(self.names.len()).x_label_formatter(&name).disable_x_mesh();
        }
        mesh.x_desc(self.across)
            .y_desc(self.up)
            .y_label_formatter(&|value| self.label(*value))
            .label_style(("sans-serif", 16))
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let points: Vec<(f64, f64)> =
                series.points.iter().map(|(across, up)| (*across, self.up_of(*up))).collect();
            for (number, run) in points.chunk_by(|one, next| self.joins(*one, *next)).enumerate() {
                let line = LineSeries::new(run.iter().copied(), colour.stroke_width(2));
                let drawn = chart.draw_series(line)?;
                if number == 0 {
                    drawn.label(&series.name).legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2))
                    });
                }
            }
            if !self.names.is_empty() {
                chart.draw_series(points.iter().map(|at| Circle::new(*at, 4, colour.filled())))?;
            }
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
