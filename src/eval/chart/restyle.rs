//! plotters' SVG made into the document that is handed out.
//!
//! plotters draws on whole numbers, in fixed colours and without classes. Charts are therefore drawn
//! ten times as large, in the colours of the light card; here lengths are divided again, each colour
//! gets its class, and lines and bars of a series get its dashes and its hatching.

use std::fmt::Write as _;

use super::canvas::{UNITS, WIDTH};
use super::ink::{self, Ink};
use super::{ChartError, text};

/// The whole document around what plotters drew.
pub(super) fn document(title: &str, description: &str, height: f64, drawn: &str) -> Result<String, ChartError> {
    let body = body(drawn)?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"seam-chart\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"system-ui, sans-serif\">\n\
         <title>{}</title>\n<desc>{}</desc>\n",
        text::escape(title),
        text::escape(description)
    );
    svg += &ink::style_sheet();
    if body.contains("url(#") {
        svg += &ink::hatches();
    }
    let edge = format!(r#"x="0.5" y="0.5" width="{}" height="{}" rx="8""#, WIDTH - 1.0, height - 1.0);
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<rect {edge} {}/>", Ink::Card.fill());
    let _ = writeln!(svg, r#"<rect {edge} fill="none" {}/>"#, Ink::Edge.stroke());
    Ok(svg + &body + "</svg>\n")
}

/// Every element that plotters drew, one a line.
fn body(drawn: &str) -> Result<String, ChartError> {
    let mut out = String::with_capacity(drawn.len());
    let mut lines = drawn.lines();
    while let Some(line) = lines.next() {
        let unknown = || ChartError::Drawing(format!("unknown output {line:?}"));
        if line.starts_with("<svg") || line == "</svg>" {
            continue;
        }
        let element = line.strip_prefix('<').and_then(|line| line.strip_suffix('>')).ok_or_else(unknown)?;
        let (tag, attributes) = element.trim_end_matches('/').split_once(' ').ok_or_else(unknown)?;
        let element = Element::new(tag, attributes).ok_or_else(unknown)?;
        match tag {
            "text" => {
                let content = lines.next().ok_or_else(unknown)?;
                if lines.next() != Some("</text>") {
                    return Err(unknown());
                }
                let _ = writeln!(out, "<text{}{}>{content}</text>", element.shape, element.paint);
            }
            "polyline" => {
                let dashes = element.series.map(ink::dashes).unwrap_or_default();
                let _ = write!(out, r#"<polyline{}{} stroke-linejoin="round""#, element.shape, element.paint);
                if !dashes.is_empty() {
                    let _ = write!(out, r#" stroke-dasharray="{dashes}""#);
                }
                out.push_str("/>\n");
            }
            "rect" => {
                let _ = writeln!(out, "<rect{}{}/>", element.shape, element.paint);
                if element.filled
                    && let Some(hatch) = element.series.and_then(ink::hatch)
                {
                    let _ = writeln!(out, r#"<rect{} fill="{hatch}"/>"#, element.shape);
                }
            }
            _ => {
                let _ = writeln!(out, "<{tag}{}{}/>", element.shape, element.paint);
            }
        }
    }
    Ok(out)
}

/// The attributes of one element, each with a blank before it.
struct Element {
    shape: String,
    paint: String,
    filled: bool,
    series: Option<usize>,
}

impl Element {
    fn new(tag: &str, attributes: &str) -> Option<Self> {
        let mut element = Self { shape: String::new(), paint: String::new(), filled: false, series: None };
        // Quotes inside values are escaped, so each attribute ends at the next quote.
        for attribute in attributes.strip_suffix('"')?.split("\" ") {
            let (key, value) = attribute.split_once("=\"")?;
            match (key, value) {
                // Baselines and faces are ours, and these are the defaults.
                ("dy" | "font-family", _) | ("opacity", "1") | ("text-anchor", "start") | ("stroke", "none") => {}
                ("fill", "none") => element.paint += r#" fill="none""#,
                ("fill" | "stroke", colour) => {
                    let ink = Ink::from_hex(colour)?;
                    element.filled = key == "fill";
                    element.series = if let Ink::Series(style) = ink { Some(style) } else { None };
                    element.paint.push(' ');
                    element.paint += &if element.filled { ink.fill() } else { ink.stroke() };
                }
                ("stroke-width", _) if tag == "circle" && element.filled => {}
                ("points", points) => {
                    let points = points.split_ascii_whitespace().map(|point| {
                        let (x, y) = point.split_once(',')?;
                        Some(format!("{},{}", shrunk(x)?, shrunk(y)?))
                    });
                    let _ = write!(element.shape, r#" points="{}""#, points.collect::<Option<Vec<_>>>()?.join(" "));
                }
                ("text-anchor" | "font-weight", _) => {
                    let _ = write!(element.shape, r#" {key}="{value}""#);
                }
                (_, number) => {
                    let _ = write!(element.shape, r#" {key}="{}""#, shrunk(number)?);
                }
            }
        }
        Some(element)
    }
}

/// A length in pixels, to a tenth.
fn shrunk(number: &str) -> Option<f64> {
    Some(number.parse::<f64>().ok()?.round() / UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_shrunk_and_gets_its_class() {
        let drawn =
            "<line opacity=\"1\" stroke=\"#E6E9ED\" stroke-width=\"10\" x1=\"5\" y1=\"15\" x2=\"100\" y2=\"15\"/>\n";
        assert_eq!(
            body(drawn).unwrap(),
            "<line stroke-width=\"1\" x1=\"0.5\" y1=\"1.5\" x2=\"10\" y2=\"1.5\" stroke=\"#e6e9ed\" class=\"s-grid\"/>\n"
        );
    }

    #[test]
    fn a_bar_gets_the_hatching_of_its_series_and_a_line_its_dashes() {
        let bar = body(
            "<rect x=\"10\" y=\"20\" width=\"30\" height=\"40\" opacity=\"1\" fill=\"#C58800\" stroke=\"none\"/>\n",
        );
        assert_eq!(
            bar.unwrap(),
            "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" fill=\"#c58800\" class=\"f-series-1\"/>\n\
             <rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" fill=\"url(#seam-hatch-1)\"/>\n"
        );
        let line = body(
            "<polyline fill=\"none\" opacity=\"1\" stroke=\"#C58800\" stroke-width=\"20\" points=\"1,2 30,40 \"/>\n",
        );
        let line = line.unwrap();
        assert!(line.contains("points=\"0.1,0.2 3,4\"") && line.contains("stroke-dasharray=\"8 4\""), "{line}");
    }

    #[test]
    fn output_that_is_not_known_is_refused_not_passed_on() {
        for drawn in ["<line stroke=\"#123456\"/>\n", "<line x1=\"a\"/>\n", "word\n", "<text x=\"1\">\nword\n"] {
            assert!(matches!(body(drawn), Err(ChartError::Drawing(_))), "{drawn:?}");
        }
    }
}
