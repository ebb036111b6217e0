//! The experiments as charts.

use super::{BoundaryPoint, Report, ScarcityPoint, Stability, TradeoffPoint};
use crate::eval::chart::{Axis, BarChart, BarSeries, ChartError, LineChart, Series};
use crate::model::{PathState, Profile};
use crate::rivals::Policy;

/// Where the numbers come from, below every chart.
const SOURCE: &str = "Episodes of the published prototype; continuity with it, no benchmark of a network.";

/// One chart an experiment, as SVG, in the order of [`super::sheets`].
///
/// # Errors
/// A chart cannot hold the numbers.
pub fn charts(reports: &[(Profile, Report)]) -> Result<[String; 5], ChartError> {
    Ok([boundary(reports)?, tradeoff(reports)?, hysteresis(reports)?, scarcity(reports)?, baselines(reports)?])
}

/// A line's name and its point for one of an experiment's points.
type Line<P> = (&'static str, fn(&P) -> Option<(f64, f64)>);

/// A line for each of `names` and each profile.
fn lines<'a, P: 'a>(
    chart: LineChart,
    reports: &'a [(Profile, Report)],
    names: &[Line<P>],
    points: fn(&'a Report) -> &'a [P],
) -> LineChart {
    let mut chart = chart.footnote(SOURCE);
    for (at, (profile, report)) in reports.iter().enumerate() {
        for (index, (name, of)) in names.iter().enumerate() {
            let style = index + at * names.len();
            let line = points(report).iter().filter_map(of);
            chart = chart.series(Series::new(format!("{name}, {profile}"), style, line));
        }
    }
    chart
}

fn boundary(reports: &[(Profile, Report)]) -> Result<String, ChartError> {
    fn rate(point: &BoundaryPoint, class: &str) -> Option<(f64, f64)> {
        Some((point.severity as f64, *point.admissibility_rate_pct.get(class)?))
    }
    let chart = LineChart::new(
        "How degraded a path each class still uses",
        Axis::new("degradation (step)"),
        Axis::new("trials with the degraded path admissible (%)").range(0.0, 100.0),
    );
    let names: [Line<BoundaryPoint>; 3] = [
        ("batch", |point| rate(point, "batch")),
        ("interactive", |point| rate(point, "interactive")),
        ("release", |point| rate(point, "release")),
    ];
    lines(chart, reports, &names, |report| &report.admissibility_boundary.points).to_svg()
}

fn tradeoff(reports: &[(Profile, Report)]) -> Result<String, ChartError> {
    let chart = LineChart::new(
        "Who keeps the healthy pool as it fills",
        Axis::new("sessions in use on the healthy pool (of 8)"),
        Axis::new("requests (%)").range(0.0, 100.0),
    );
    let names: [Line<TradeoffPoint>; 2] = [
        ("strict on healthy", |point| {
            Some((f64::from(point.healthy_active_sessions), point.strict_on_healthy_rate_pct))
        }),
        ("rerouted", |point| Some((f64::from(point.healthy_active_sessions), point.reroute_rate_pct))),
    ];
    lines(chart, reports, &names, |report| &report.capacity_tradeoff.points)
        .subtitle("rerouted: not on the healthiest admissible pool, as all batch should be (a third of the requests)")
        .to_svg()
}

fn hysteresis(reports: &[(Profile, Report)]) -> Result<String, ChartError> {
    let names = PathState::ALL.iter().map(|state| state.as_str());
    let chart =
        LineChart::steps("One noisy path, judged four ways", Axis::new("sample"), Axis::named("path state", names));
    let line = |name: String, style: usize, stability: &Stability| {
        let place = |state: &PathState| PathState::ALL.iter().position(|one| one == state).unwrap_or(0) as f64;
        let points = stability.states.iter().enumerate();
        Series::new(name, style, points.map(|(sample, state)| ((sample + 1) as f64, place(state))))
    };
    let mut chart = chart.footnote(SOURCE);
    for (at, (profile, report)) in reports.iter().enumerate() {
        let found = &report.hysteresis_stability;
        chart = chart.series(line(format!("default, {profile}"), 2 * at, &found.default)).series(line(
            format!("no hysteresis, {profile}"),
            2 * at + 1,
            &found.no_hysteresis_baseline,
        ));
    }
    chart.to_svg()
}

fn scarcity(reports: &[(Profile, Report)]) -> Result<String, ChartError> {
    let chart = LineChart::new(
        "A failure grows as ways out run short",
        Axis::new("healthy alternates"),
        Axis::new("mean FAE of the degraded path"),
    );
    let names: [Line<ScarcityPoint>; 2] = [
        ("batch", |point| Some((point.alternate_count as f64, point.batch_fae))),
        ("release", |point| Some((point.alternate_count as f64, point.release_fae))),
    ];
    lines(chart, reports, &names, |report| &report.alternate_scarcity.points).to_svg()
}

/// Seam under each profile, then the others under the first.
fn baselines(reports: &[(Profile, Report)]) -> Result<String, ChartError> {
    let seam = reports.iter().rev().map(|(profile, report)| (format!("seam {profile}"), report, Policy::Seam));
    let others = reports.iter().take(1).flat_map(|(_, report)| {
        let rivals = report.baseline_comparison.standings.iter().filter(|(policy, _)| *policy != Policy::Seam);
        rivals.map(move |(policy, _)| (policy.to_string(), report, *policy))
    });
    let shown: Vec<_> = seam
        .chain(others)
        .filter_map(|(name, report, policy)| Some((name, report.baseline_comparison.of(policy)?)))
        .collect();
    let n = shown.first().map(|(_, found)| (found.strict_trials, found.tolerant_trials, found.headroom_trials));
    let (strict, tolerant, headroom) = n.unwrap_or_default();
    BarChart::new("Strict on healthy, tolerant on degraded, headroom kept", Axis::new("requests (%)").range(0.0, 100.0))
        .groups(shown.iter().map(|(name, _)| name.clone()))
        .series(BarSeries::new(
            "strict on healthy",
            0,
            shown.iter().map(|(_, found)| Some(found.strict_workload_success_rate_pct)),
        ))
        .series(BarSeries::new(
            "tolerant on degraded",
            1,
            shown.iter().map(|(_, found)| Some(found.tolerant_degraded_utilization_rate_pct)),
        ))
        .series(BarSeries::new(
            "headroom kept",
            2,
            shown.iter().map(|(_, found)| Some(found.healthy_headroom_preservation_rate_pct)),
        ))
        .subtitle(format!("n = {strict} strict, {tolerant} tolerant, {headroom} of them beside a crowded healthy pool"))
        .footnote(SOURCE)
        .to_svg()
}
