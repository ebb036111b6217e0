//! A strict reader of the SVG that charts are, and what a test asks of a page.

use super::WIDTH;
use crate::eval::chart::text;

/// One text on the page.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) content: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A parsed chart.
#[derive(Debug, Default)]
pub(super) struct Page {
    height: f64,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) style: String,
    pub(super) classes: Vec<String>,
    pub(super) texts: Vec<Placed>,
}

impl Page {
    /// Panics on what is no well-formed XML of elements, attributes and the five named entities.
    pub(super) fn parse(svg: &str) -> Self {
        let mut page = Self::default();
        let mut open: Vec<(String, Vec<(String, String)>)> = Vec::new();
        let mut rest = svg.strip_suffix('\n').expect("a line feed at the end");
        assert!(rest.starts_with("<svg "));
        while !rest.is_empty() {
            let Some(markup) = rest.strip_prefix('<') else {
                let end = rest.find('<').expect("no text after the root");
                page.content(open.last().expect("text inside an element"), &unescaped(&rest[..end]));
                rest = &rest[end..];
                continue;
            };
            let (inside, after) = markup.split_once('>').expect("a closed tag");
            rest = after;
            if let Some(name) = inside.strip_prefix('/') {
                assert_eq!(open.pop().expect("an open element").0, name);
                assert!(!open.is_empty() || rest.is_empty(), "one root");
                continue;
            }
            let (inside, empty) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
            let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
            assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()), "{name:?}");
            let attributes = page.attributes(attributes);
            if name == "svg" {
                page.root(&attributes);
            }
            if !empty {
                open.push((name.to_owned(), attributes));
            }
        }
        assert!(open.is_empty(), "{open:?} not closed");
        page
    }

    fn attributes(&mut self, mut rest: &str) -> Vec<(String, String)> {
        let mut attributes: Vec<(String, String)> = Vec::new();
        while !rest.is_empty() {
            let (key, after) = rest.split_once("=\"").expect("a quoted value");
            let (value, after) = after.split_once('"').expect("an end of the value");
            assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{key:?}");
            assert!(!value.contains('<') && attributes.iter().all(|(known, _)| known != key), "{key}={value:?}");
            if key == "class" {
                self.classes.push(value.to_owned());
            }
            attributes.push((key.to_owned(), unescaped(value)));
            rest = after.strip_prefix(' ').unwrap_or(after);
            assert!(rest.is_empty() || after.starts_with(' '));
        }
        self.classes.retain(|class| class != "seam-chart");
        attributes
    }

    fn root(&mut self, attributes: &[(String, String)]) {
        assert_eq!(value(attributes, "role"), Some("img"));
        let (width, height) = (value(attributes, "width").unwrap(), value(attributes, "height").unwrap());
        assert_eq!(value(attributes, "viewBox"), Some(format!("0 0 {width} {height}").as_str()));
        assert_eq!(value(attributes, "font-family"), Some("system-ui, sans-serif"));
        self.height = height.parse().unwrap();
    }

    fn content(&mut self, (name, attributes): &(String, Vec<(String, String)>), content: &str) {
        match name.as_str() {
            "title" => self.title = content.to_owned(),
            "desc" => self.description = content.to_owned(),
            "style" => self.style = content.to_owned(),
            "text" => {
                let number = |key| value(attributes, key).unwrap().parse::<f64>().unwrap();
                let (x, baseline, size) = (number("x"), number("y"), number("font-size"));
                assert!(size >= 12.0, "{content:?} is set in {size}");
                let width = text::width(content, size, value(attributes, "font-weight") == Some("bold"));
                let left = x - match value(attributes, "text-anchor") {
                    None => 0.0,
                    Some("middle") => width / 2.0,
                    Some("end") => width,
                    other => panic!("{other:?}"),
                };
                let (top, bottom) = (baseline - 0.72 * size, baseline + 0.2 * size);
                self.texts.push(Placed { content: content.to_owned(), left, right: left + width, top, bottom });
            }
            _ => assert!(content.trim().is_empty(), "{content:?} in {name}"),
        }
    }

    /// Every text is on the card, and none lies over another, by their estimated widths.
    pub(super) fn assert_apart(&self) {
        for (index, text) in self.texts.iter().enumerate() {
            let inside =
                text.left >= 8.0 && text.right <= WIDTH - 8.0 && text.top >= 8.0 && text.bottom <= self.height - 8.0;
            assert!(inside, "{text:?} on {WIDTH} by {}", self.height);
            for other in &self.texts[..index] {
                let beside = text.right <= other.left + 0.1 || other.right <= text.left + 0.1;
                let below = text.bottom <= other.top + 0.1 || other.bottom <= text.top + 0.1;
                assert!(beside || below, "{text:?} over {other:?}");
            }
        }
    }
}

fn value<'a>(attributes: &'a [(String, String)], key: &str) -> Option<&'a str> {
    attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        let (entity, after) = after.split_once(';').expect("an entity");
        out += before;
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            other => panic!("entity {other:?}"),
        });
        rest = after;
    }
    out += rest;
    let allowed = |c: char| matches!(c, '\n' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert!(out.chars().all(allowed) && !out.contains("]]>"), "{out:?}");
    out
}

/// An element with each colour, class and length left out, but not its dashes.
pub(super) fn without_numbers(line: &str) -> String {
    let dashes = line.split("stroke-dasharray=").nth(1).unwrap_or_default();
    let tag = line.split(' ').next().unwrap_or_default();
    format!("{tag} {dashes}")
}
