mod page;

use proptest::prelude::*;

use super::canvas::WIDTH;
use super::*;
use page::Page;

fn lines() -> LineChart {
    LineChart::new("Slowdown & throughput", Axis::new("time (s)"), Axis::new("slowdown (ratio)"))
        .subtitle("one path of two turns gray")
        .series(Series::new("Seam", 0, [(0.0, 1.0), (10.0, 1.4), (20.0, 1.1)]))
        .series(Series::new("<round robin>", 4, [(0.0, 1.0), (10.0, 3.5), (20.0, 3.25)]))
        .footnote("n = 3; one run, not a benchmark")
}

fn states() -> LineChart {
    let names = ["HEALTHY", "RESTORED", "DEGRADED_USABLE"];
    LineChart::steps("State of one path", Axis::new("sample number"), Axis::named("state", names))
        .series(Series::new("Seam", 0, [(0.0, 0.0), (4.0, 2.0), (9.0, 1.0), (12.0, 0.0)]))
        .series(Series::new("prototype", 1, [(0.0, 0.0), (6.0, 2.0), (12.0, 2.0)]))
}

fn bars() -> BarChart {
    BarChart::new("Right choices", Axis::new("requests (%)").range(0.0, 100.0))
        .groups(["gray failure", "flapping_link", "congestion"])
        .series(BarSeries::new("Seam", 0, [Some(95.5), Some(82.6), Some(100.0)]))
        .series(BarSeries::new("round robin", 1, [Some(50.0), None, Some(0.0)]))
        .footnote("n = 67, 23, 4; continuity with the published prototype, not a benchmark")
}

fn small_charts() -> [(&'static str, String); 3] {
    [("lines", lines().to_svg().unwrap()), ("states", states().to_svg().unwrap()), ("bars", bars().to_svg().unwrap())]
}

#[test]
fn small_charts_look_as_before() {
    for (name, svg) in small_charts() {
        insta::assert_snapshot!(name, svg);
    }
}

#[test]
fn equal_charts_give_equal_bytes_and_other_data_gives_others() {
    assert_eq!(small_charts(), small_charts());
    let mut other = bars();
    other.series[0].values[0] = Some(95.6);
    assert_ne!(bars().to_svg(), other.to_svg());
}

#[test]
fn every_text_that_was_given_can_be_read_and_heard() {
    let chart = lines();
    let page = Page::parse(&chart.to_svg().unwrap());
    let read = page.texts.iter().map(|text| text.content.as_str()).collect::<Vec<_>>();
    for text in [&chart.title, &chart.subtitle, &chart.footnote, &chart.x.label, &chart.y.label] {
        assert!(read.contains(&text.as_str()), "{text:?} in {read:?}");
    }
    for series in &chart.series {
        // In the legend and at the end of its line.
        assert_eq!(read.iter().filter(|text| **text == series.name).count(), 2, "{read:?}");
    }
    assert_eq!(page.title, chart.title);
    for text in [&chart.subtitle, &chart.footnote, &chart.x.label, &chart.series[1].name] {
        assert!(page.description.contains(text.as_str()), "{text:?} in {:?}", page.description);
    }
}

#[test]
fn every_bar_carries_its_value_and_a_missing_one_says_so() {
    let page = Page::parse(&bars().to_svg().unwrap());
    let read = page.texts.iter().map(|text| text.content.as_str()).collect::<Vec<_>>();
    for value in ["95.5", "82.6", "100.0", "50.0", "n/a", "0.0"] {
        assert_eq!(read.iter().filter(|text| **text == value).count(), 1, "{value} in {read:?}");
    }
    assert!(page.description.contains("flapping_link: Seam 82.6, round robin n/a."), "{}", page.description);
}

#[test]
fn the_light_scheme_needs_no_style_sheet_and_the_dark_one_has_its_rule() {
    for (_, svg) in small_charts() {
        let page = Page::parse(&svg);
        assert!(page.style.contains("@media (prefers-color-scheme: dark)"), "{}", page.style);
        assert!(page.style.contains(".seam-chart .f-card { fill: #13181e; }"), "{}", page.style);
        let card = svg.find(r##"fill="#ffffff" class="f-card""##).unwrap();
        assert!(card < svg.find("<text").unwrap());
        for class in &page.classes {
            assert!(page.style.contains(&format!(".seam-chart .{class} {{")), "{class} has no dark colour");
        }
    }
}

#[test]
fn series_differ_without_their_colours() {
    let colourless = |svg: &str, style: usize| {
        let of_series = |line: &&str| line.contains(&format!("series-{style}\""));
        svg.lines().filter(of_series).map(page::without_numbers).collect::<Vec<_>>()
    };
    let mut lines = lines();
    lines.series[1].points = lines.series[0].points.clone();
    let svg = lines.to_svg().unwrap();
    assert_ne!(colourless(&svg, 0), colourless(&svg, 4));
    let svg = bars().to_svg().unwrap();
    assert!(svg.contains("url(#seam-hatch-1)") && svg.contains(r#"<pattern id="seam-hatch-1""#));
}

#[test]
fn an_axis_of_whole_numbers_has_whole_ticks() {
    let ticks = |points: [(f64, f64); 3]| {
        let chart = LineChart::new("t", Axis::new("alternates"), Axis::new("y").range(10.0, 20.0));
        let svg = chart.series(Series::new("a", 0, points)).to_svg().unwrap();
        ["0.5", "1.5", "2"].map(|tick| svg.contains(&format!(">{tick}<")))
    };
    assert_eq!(ticks([(0.0, 12.0), (1.0, 13.0), (3.0, 14.0)]), [false, false, true]);
    assert_eq!(ticks([(0.0, 12.0), (1.25, 13.0), (3.0, 14.0)]), [true, true, false]);
}

#[test]
fn a_step_holds_its_value_until_the_next_point() {
    let chart = LineChart::steps("t", Axis::new("x"), Axis::named("y", ["a", "b"])).series(Series::new(
        "s",
        0,
        [(0.0, 0.0), (10.0, 1.0)],
    ));
    let svg = chart.to_svg().unwrap();
    // The last, since the legend comes before.
    let line = svg.lines().rfind(|line| line.contains("s-series-0")).unwrap();
    let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let points = points.split(' ').map(|point| point.split_once(',').unwrap()).collect::<Vec<_>>();
    assert_eq!(points.len(), 3, "{points:?}");
    assert!(points[0].1 == points[1].1 && points[1].0 == points[2].0, "{points:?}");
    // The first name is at the top.
    assert!(points[0].1.parse::<f64>().unwrap() < points[2].1.parse::<f64>().unwrap());
}

#[test]
fn bars_stand_on_zero() {
    let chart = BarChart::new("t", Axis::new("y")).groups(["g"]).series(BarSeries::new("s", 0, [Some(950.0)]));
    let page = Page::parse(&chart.to_svg().unwrap());
    assert!(page.texts.iter().any(|text| text.content == "0"));
    let cut = BarChart { y: Axis::new("y").range(900.0, 1000.0), ..chart };
    assert_eq!(
        cut.to_svg().unwrap_err().to_string(),
        "y axis, range: found 900 to 1000, allowed a range that holds zero, for bars"
    );
}

#[test]
fn what_cannot_be_drawn_is_refused_by_name() {
    let with = |point| LineChart { series: vec![Series::new("a", 0, [(0.0, 0.0), point])], ..lines() }.to_svg();
    let said = |chart: Result<String, ChartError>| chart.unwrap_err().to_string();
    assert_eq!(said(with((1.0, f64::NAN))), "series \"a\", point 1, y: found NaN, allowed a finite number");
    assert_eq!(said(with((f64::INFINITY, 1.0))), "series \"a\", point 1, x: found inf, allowed a finite number");
    assert!(said(with((1.0, 2e12))).ends_with("allowed -1e12 to 1e12"));
    let mut chart = bars();
    chart.series[1].values[2] = Some(f64::NEG_INFINITY);
    assert_eq!(
        said(chart.to_svg()),
        "series \"round robin\", group \"congestion\": found -inf, allowed a finite number"
    );
    chart.series[1].values[2] = Some(100.5);
    assert!(said(chart.to_svg()).ends_with("found 100.5, allowed 0 to 100, the range of the axis"));
    chart.series[1].values.pop();
    assert_eq!(said(chart.to_svg()), "series \"round robin\", values: found 2, allowed 3, one for each group");
    let mut chart = states();
    chart.series[0].points[1].1 = 1.5;
    assert_eq!(said(chart.to_svg()), "series \"Seam\", point 1, y: found 1.5, allowed a whole number, 0 to 2");
    chart.series[0].points[1] = (-1.0, 1.0);
    assert!(said(chart.to_svg()).starts_with("series \"Seam\", point 1, x: found -1, allowed at least the x of"));
    let twice = lines().series(Series::new("third", 0, [(0.0, 0.0)]));
    assert_eq!(
        said(twice.to_svg()),
        "series \"third\", style: found 0, the style of \"Seam\" too, allowed a style of its own"
    );
    let wide = (0..6).fold(BarChart::new("t", Axis::new("y")).groups(["g"]), |chart, style| {
        chart.series(BarSeries::new("s", style, [Some(-1e12)]))
    });
    assert!(said(wide.to_svg()).starts_with("values, as text: found \"-1,000,000,000,000\""));
}

#[test]
fn limits_hold_at_the_limit_and_not_past_it() {
    let points = |count: usize| {
        LineChart::new("t", Axis::new("x"), Axis::new("y"))
            .series(Series::new("s", 5, (0..count).map(|index| (index as f64, (index % 7) as f64))))
            .to_svg()
    };
    assert!(points(MAX_POINTS).is_ok());
    assert_eq!(
        points(MAX_POINTS + 1).unwrap_err().to_string(),
        "series \"s\", points: found 10001, allowed 1 to 10000"
    );
    assert_eq!(points(0).unwrap_err().to_string(), "series \"s\", points: found 0, allowed 1 to 10000");
    let bars = |groups: usize, series: usize| {
        let chart = BarChart::new("t", Axis::new("y")).groups((0..groups).map(|group| format!("group {group}")));
        (0..series)
            .fold(chart, |chart, style| chart.series(BarSeries::new("s", style, vec![Some(1.0); groups])))
            .to_svg()
    };
    assert!(bars(MAX_GROUPS, MAX_SERIES).is_ok());
    assert_eq!(bars(MAX_GROUPS + 1, 1).unwrap_err().to_string(), "groups: found 33, allowed 1 to 32");
    assert_eq!(bars(1, MAX_SERIES + 1).unwrap_err().to_string(), "series: found 7, allowed 1 to 6");
    assert!(bars(1, 0).is_err() && bars(0, 1).is_err());
    let named = |name: String| lines().series(Series::new(name, 2, [(0.0, 1.0)])).to_svg();
    assert!(named("x".repeat(MAX_NAME_CHARS)).is_ok());
    assert!(named("x".repeat(MAX_NAME_CHARS + 1)).is_err() && named(" ".to_owned()).is_err());
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}(_[a-z]{1,10}){0,3}",
        "[A-Za-z0-9 %&<>'\"/().-]{0,58}[a-z]",
        "[mW]{60}",
        any::<char>().prop_map(|c| format!("a{c}b")),
    ]
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![-2.0..2.0, -1e-6..1e-6, 0.0..1e6, Just(0.0), -1e9..1e9, (0_u32..100).prop_map(f64::from)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bars_of_any_data_are_well_formed_and_no_text_meets_another(
        title in name(),
        label in name(),
        groups in prop::collection::vec(name(), 1..12),
        series in prop::collection::vec((name(), prop::collection::vec(prop::option::weighted(0.9, value()), 12)), 1..=MAX_SERIES),
    ) {
        let chart = BarChart::new(title, Axis::new(label)).groups(groups.clone());
        let chart = series.into_iter().enumerate().fold(chart, |chart, (style, (name, values))| {
            chart.series(BarSeries::new(name, style, values.into_iter().take(groups.len())))
        });
        match chart.to_svg() {
            Ok(svg) => Page::parse(&svg).assert_apart(),
            // Six series of values like -999,999,999.999 find no room.
            Err(error) => prop_assert!(error.to_string().starts_with("values, as text: "), "{error}"),
        }
    }

    #[test]
    fn lines_of_any_data_are_well_formed_and_no_text_meets_another(
        texts in [name(), name(), name(), name(), name()],
        levels in prop::option::of(prop::collection::vec(name(), 2..6)),
        join in prop_oneof![Just(Join::Straight), Just(Join::Step)],
        series in prop::collection::vec((name(), prop::collection::vec((value(), value()), 1..40)), 1..=MAX_SERIES),
    ) {
        let [title, subtitle, footnote, x, y] = texts;
        let y = match &levels {
            Some(levels) => Axis::named(y, levels.clone()),
            None => Axis::new(y),
        };
        let chart = LineChart { join, ..LineChart::new(title, Axis::new(x), y) };
        let chart = chart.subtitle(subtitle).footnote(footnote);
        let chart = series.into_iter().enumerate().fold(chart, |chart, (style, (name, mut points))| {
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            if let Some(levels) = &levels {
                points.iter_mut().for_each(|point| point.1 = (point.1.abs() as usize % levels.len()) as f64);
            }
            chart.series(Series::new(name, style, points))
        });
        let svg = chart.to_svg().map_err(|error| TestCaseError::fail(error.to_string()))?;
        Page::parse(&svg).assert_apart();
    }
}
