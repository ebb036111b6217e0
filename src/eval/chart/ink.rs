//! The colours, each with its part in the chart.
//!
//! Colours are written twice: as attributes for the light card, which any viewer understands, and
//! in a style sheet for readers who prefer dark, which overrides them.

use std::fmt::Write as _;

use plotters::style::RGBColor;

use super::MAX_SERIES;

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The ground that the chart lies on.
    Card,
    /// The card's edge.
    Edge,
    /// Lines at the ticks.
    Grid,
    /// The axes, and the baseline of bars.
    Axis,
    /// Names, values, the title.
    Text,
    /// Ticks, labels, the subtitle and the footnote.
    Muted,
    /// A series, by its style below [`MAX_SERIES`].
    Series(usize),
}

/// On a light card: Okabe and Ito's blue, orange, reddish purple, bluish green, sky blue and
/// vermillion ("Color universal design", 2008), each with its hue kept and its linear light scaled to
/// a luminance between 0.135 and 0.294. There a colour keeps a contrast of 3 to either card, so that
/// a picture with half of its style sheet applied can still be read. Within that band the luminances
/// are chosen for the largest difference between the closest two, also as seen with protanopia and
/// deuteranopia by Machado, Oliveira and Fernandes' matrices (2009).
const ON_LIGHT: [RGBColor; MAX_SERIES] = [
    RGBColor(0x00, 0x6c, 0xa9),
    RGBColor(0xc5, 0x88, 0x00),
    RGBColor(0xb2, 0x69, 0x91),
    RGBColor(0x00, 0x76, 0x55),
    RGBColor(0x4a, 0x9c, 0xca),
    RGBColor(0xab, 0x4a, 0x00),
];

/// On a dark card: the same hues near the originals, the two blues and the vermillion lighter.
const ON_DARK: [RGBColor; MAX_SERIES] = [
    RGBColor(0x3c, 0x8f, 0xd6),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0x7c, 0xc7, 0xf2),
    RGBColor(0xdd, 0x6e, 0x23),
];

/// Dashes and gaps of each style's line, in pixels.
const DASHES: [&str; MAX_SERIES] = ["", "8 4", "2 3", "9 3 2 3", "14 5", "5 2 1.5 2 1.5 2"];

/// The hatching laid over each style's bars, drawn in the colour of the card: the side of a square
/// tile, the turn of the tiles in degrees, and what is on a tile. The first style has none.
const HATCHES: [(u8, u8, &str); MAX_SERIES - 1] = [
    (7, 45, r#"<rect width="2" height="7" INK/>"#),
    (6, 0, r#"<circle cx="3" cy="3" r="1.3" INK/>"#),
    (6, 0, r#"<rect width="6" height="1.6" INK/>"#),
    (8, 45, r#"<rect width="1.5" height="8" INK/><rect width="8" height="1.5" INK/>"#),
    (6, 0, r#"<rect width="1.6" height="6" INK/>"#),
];

impl Ink {
    /// The colour on a light card.
    pub(crate) fn light(self) -> RGBColor {
        match self {
            Self::Card => RGBColor(0xff, 0xff, 0xff),
            Self::Edge => RGBColor(0xd3, 0xd8, 0xde),
            Self::Grid => RGBColor(0xe6, 0xe9, 0xed),
            Self::Axis => RGBColor(0x7d, 0x86, 0x90),
            Self::Text => RGBColor(0x1e, 0x23, 0x29),
            Self::Muted => RGBColor(0x55, 0x5e, 0x68),
            Self::Series(style) => ON_LIGHT.get(style).copied().unwrap_or(RGBColor(0x1e, 0x23, 0x29)),
        }
    }

    /// The colour on a dark card. A series keeps its hue, so that it can be spoken of.
    pub(crate) fn dark(self) -> RGBColor {
        match self {
            Self::Card => RGBColor(0x13, 0x18, 0x1e),
            Self::Edge => RGBColor(0x33, 0x3b, 0x44),
            Self::Grid => RGBColor(0x29, 0x30, 0x38),
            Self::Axis => RGBColor(0x7d, 0x87, 0x92),
            Self::Text => RGBColor(0xe8, 0xea, 0xed),
            Self::Muted => RGBColor(0xa6, 0xaf, 0xb9),
            Self::Series(style) => ON_DARK.get(style).copied().unwrap_or(RGBColor(0xe8, 0xea, 0xed)),
        }
    }

    /// The name of its class in the style sheet.
    fn class(self) -> String {
        match self {
            Self::Card => "card".to_owned(),
            Self::Edge => "edge".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Axis => "axis".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Muted => "muted".to_owned(),
            Self::Series(style) => format!("series-{style}"),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let parts = [Self::Card, Self::Edge, Self::Grid, Self::Axis, Self::Text, Self::Muted];
        parts.into_iter().chain((0..MAX_SERIES).map(Self::Series))
    }

    /// The ink drawn in this colour of the light card, as `#RRGGBB`.
    pub(crate) fn from_hex(hex: &str) -> Option<Self> {
        Self::all().find(|ink| hex.eq_ignore_ascii_case(&to_hex(ink.light())))
    }

    /// The attributes that fill with this ink.
    pub(crate) fn fill(self) -> String {
        self.attributes("fill", "f")
    }

    /// The attributes that draw lines with this ink.
    pub(crate) fn stroke(self) -> String {
        self.attributes("stroke", "s")
    }

    fn attributes(self, attribute: &str, prefix: &str) -> String {
        format!(r#"{attribute}="{}" class="{prefix}-{}""#, to_hex(self.light()), self.class())
    }
}

/// The dashes of a style's line; empty for a line without gaps.
pub(crate) fn dashes(style: usize) -> &'static str {
    DASHES.get(style).copied().unwrap_or_default()
}

/// The reference to a style's hatching, where it has one.
pub(crate) fn hatch(style: usize) -> Option<String> {
    (1..MAX_SERIES).contains(&style).then(|| format!("url(#seam-hatch-{style})"))
}

/// The definitions of the hatchings.
pub(crate) fn hatches() -> String {
    let mut defs = String::from("<defs>\n");
    for (style, (side, turn, tile)) in (1..).zip(HATCHES) {
        let tile = tile.replace("INK", &Ink::Card.fill());
        // Writing to a string cannot fail.
        let _ = writeln!(
            defs,
            r#"<pattern id="seam-hatch-{style}" width="{side}" height="{side}" patternUnits="userSpaceOnUse" patternTransform="rotate({turn})">{tile}</pattern>"#
        );
    }
    defs + "</defs>\n"
}

/// The style sheet: the dark scheme alone, since the light one is in the attributes.
pub(crate) fn style_sheet() -> String {
    let mut sheet = String::from("<style>\n@media (prefers-color-scheme: dark) {\n");
    for ink in Ink::all() {
        let (class, colour) = (ink.class(), to_hex(ink.dark()));
        let _ = writeln!(sheet, ".seam-chart .f-{class} {{ fill: {colour}; }}");
        let _ = writeln!(sheet, ".seam-chart .s-{class} {{ stroke: {colour}; }}");
    }
    sheet + "}\n</style>\n"
}

fn to_hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance in [0, 1] of an sRGB colour: WCAG 2.2, "relative luminance".
    fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { libm::pow((share + 0.055) / 1.055, 2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    /// Contrast of two colours, 1 to 21: WCAG 2.2, "contrast ratio".
    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn contrast_is_21_between_black_and_white_and_as_published_for_a_grey() {
        assert!((contrast(RGBColor(0, 0, 0), RGBColor(255, 255, 255)) - 21.0).abs() < 1e-9);
        // #767676 is known as the lightest grey that passes 4.5 on white.
        assert!((contrast(RGBColor(0x76, 0x76, 0x76), RGBColor(255, 255, 255)) - 4.54).abs() < 0.005);
    }

    #[test]
    fn every_series_keeps_a_contrast_of_3_to_either_card_and_more_in_the_dark_scheme() {
        for style in 0..MAX_SERIES {
            let ink = Ink::Series(style);
            for card in [Ink::Card.light(), Ink::Card.dark()] {
                assert!(contrast(ink.light(), card) >= 3.0, "{ink:?} on {card:?}: {}", contrast(ink.light(), card));
            }
            assert!(contrast(ink.dark(), Ink::Card.dark()) >= 4.5, "{ink:?}, dark");
        }
    }

    #[test]
    fn text_keeps_a_contrast_of_4_5_to_its_card_and_axes_3() {
        for (ink, least) in [(Ink::Text, 4.5), (Ink::Muted, 4.5), (Ink::Axis, 3.0)] {
            assert!(contrast(ink.light(), Ink::Card.light()) >= least, "{ink:?}, light");
            assert!(contrast(ink.dark(), Ink::Card.dark()) >= least, "{ink:?}, dark");
        }
    }

    #[test]
    fn gridlines_stay_faint() {
        assert!(contrast(Ink::Grid.light(), Ink::Card.light()) < 1.5);
        assert!(contrast(Ink::Grid.dark(), Ink::Card.dark()) < 1.5);
    }

    #[test]
    fn an_ink_is_found_again_by_its_colour() {
        for ink in Ink::all() {
            assert_eq!(Ink::from_hex(&to_hex(ink.light()).to_uppercase()), Some(ink));
        }
        assert_eq!(Ink::from_hex("#010203"), None);
    }

    #[test]
    fn dashes_and_hatchings_differ_between_styles() {
        for style in 0..MAX_SERIES {
            for other in 0..style {
                assert_ne!(dashes(style), dashes(other));
                assert_ne!(HATCHES.get(style.wrapping_sub(1)), HATCHES.get(other.wrapping_sub(1)));
            }
            assert_eq!(hatch(style).is_some(), style > 0);
        }
        assert_eq!(hatch(MAX_SERIES), None);
    }
}
