//! What a chart may hold.

use super::{
    Axis, BarChart, ChartError, Join, LineChart, MAX_GROUPS, MAX_LEVELS, MAX_NAME_CHARS, MAX_POINTS, MAX_SERIES,
    MAX_TEXT_CHARS, MAX_VALUE, Ticks,
};

pub(super) fn line_chart(chart: &LineChart) -> Result<(), ChartError> {
    texts([&chart.title, &chart.subtitle, &chart.footnote])?;
    axis("x axis", &chart.x)?;
    axis("y axis", &chart.y)?;
    if matches!(chart.x.ticks, Ticks::Named(_)) {
        return Err(misfit("x axis, ticks", "names", "numbers"));
    }
    let mut names = Vec::new();
    for series in &chart.series {
        names.push((series.name.as_str(), series.style));
    }
    styles(&names)?;
    for series in &chart.series {
        let name = format!("series {:?}", series.name);
        count(&format!("{name}, points"), series.points.len(), 1, MAX_POINTS)?;
        let mut last_x = None;
        for (index, &(x, y)) in series.points.iter().enumerate() {
            let at = format!("{name}, point {index}");
            on_axis(format!("{at}, x"), x, &chart.x)?;
            on_axis(format!("{at}, y"), y, &chart.y)?;
            if chart.join == Join::Step && last_x.is_some_and(|last| x < last) {
                let allowed = "at least the x of the point before, in a chart of steps".to_owned();
                return Err(ChartError::Value { field: format!("{at}, x"), found: x, allowed });
            }
            last_x = Some(x);
        }
    }
    Ok(())
}

pub(super) fn bar_chart(chart: &BarChart) -> Result<(), ChartError> {
    texts([&chart.title, &chart.subtitle, &chart.footnote])?;
    axis("y axis", &chart.y)?;
    if matches!(chart.y.ticks, Ticks::Named(_)) {
        return Err(misfit("y axis, ticks", "names", "numbers, for bars"));
    }
    if let Some((from, to)) = chart.y.range
        && (from > 0.0 || to < 0.0)
    {
        return Err(misfit("y axis, range", &format!("{from} to {to}"), "a range that holds zero, for bars"));
    }
    count("groups", chart.groups.len(), 1, MAX_GROUPS)?;
    for group in &chart.groups {
        name("name of a group", group)?;
    }
    styles(&chart.series.iter().map(|series| (series.name.as_str(), series.style)).collect::<Vec<_>>())?;
    for series in &chart.series {
        let name = format!("series {:?}", series.name);
        if series.values.len() != chart.groups.len() {
            let allowed = format!("{}, one for each group", chart.groups.len());
            return Err(ChartError::Count { field: format!("{name}, values"), found: series.values.len(), allowed });
        }
        for (value, group) in series.values.iter().zip(&chart.groups) {
            if let Some(value) = value {
                on_axis(format!("{name}, group {group:?}"), *value, &chart.y)?;
            }
        }
    }
    Ok(())
}

/// Names and styles of the series of one chart.
fn styles(series: &[(&str, usize)]) -> Result<(), ChartError> {
    count("series", series.len(), 1, MAX_SERIES)?;
    for (index, &(own, style)) in series.iter().enumerate() {
        name("name of a series", own)?;
        let field = format!("series {own:?}, style");
        if style >= MAX_SERIES {
            return Err(ChartError::Count { field, found: style, allowed: format!("0 to {}", MAX_SERIES - 1) });
        }
        if let Some((other, _)) = series.iter().take(index).find(|(_, taken)| *taken == style) {
            return Err(misfit(&field, &format!("{style}, the style of {other:?} too"), "a style of its own"));
        }
    }
    Ok(())
}

fn axis(field: &str, axis: &Axis) -> Result<(), ChartError> {
    length(&format!("{field}, label"), &axis.label, 1, MAX_TEXT_CHARS)?;
    match &axis.ticks {
        Ticks::Auto => {}
        Ticks::Named(names) => {
            count(&format!("{field}, names"), names.len(), 2, MAX_LEVELS)?;
            for level in names {
                name("name of a level", level)?;
            }
            if axis.range.is_some() {
                return Err(misfit(&format!("{field}, range"), "a range", "none where the ticks are names"));
            }
        }
    }
    if let Some((from, to)) = axis.range {
        number(&format!("{field}, from"), from)?;
        number(&format!("{field}, to"), to)?;
        // A narrower range has no round ticks that can be told apart.
        if to - from < 1e-9 {
            return Err(misfit(&format!("{field}, range"), &format!("{from} to {to}"), "at least 0.000000001 wide"));
        }
    }
    Ok(())
}

fn on_axis(field: String, found: f64, axis: &Axis) -> Result<(), ChartError> {
    number(&field, found)?;
    if let Ticks::Named(names) = &axis.ticks
        && !(0..names.len()).any(|level| level as f64 == found)
    {
        return Err(ChartError::Value { field, found, allowed: format!("a whole number, 0 to {}", names.len() - 1) });
    }
    if let Some((from, to)) = axis.range
        && !(from..=to).contains(&found)
    {
        return Err(ChartError::Value { field, found, allowed: format!("{from} to {to}, the range of the axis") });
    }
    Ok(())
}

fn number(field: &str, found: f64) -> Result<(), ChartError> {
    let allowed = if !found.is_finite() {
        "a finite number".to_owned()
    } else if found.abs() > MAX_VALUE {
        format!("-{MAX_VALUE:e} to {MAX_VALUE:e}")
    } else {
        return Ok(());
    };
    Err(ChartError::Value { field: field.to_owned(), found, allowed })
}

fn texts([title, subtitle, footnote]: [&str; 3]) -> Result<(), ChartError> {
    length("title", title, 1, MAX_TEXT_CHARS)?;
    length("subtitle", subtitle, 0, MAX_TEXT_CHARS)?;
    length("footnote", footnote, 0, MAX_TEXT_CHARS)
}

fn name(field: &str, name: &str) -> Result<(), ChartError> {
    length(&format!("{field}, {name:?}"), name, 1, MAX_NAME_CHARS)
}

fn length(field: &str, text: &str, least: usize, most: usize) -> Result<(), ChartError> {
    let found = text.chars().count();
    if (least..=most).contains(&found) && (least == 0 || !text.trim().is_empty()) {
        return Ok(());
    }
    let blank = if least == 0 { "" } else { ", not all blank" };
    Err(ChartError::Count { field: field.to_owned(), found, allowed: format!("{least} to {most} characters{blank}") })
}

fn count(field: &str, found: usize, least: usize, most: usize) -> Result<(), ChartError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(ChartError::Count { field: field.to_owned(), found, allowed: format!("{least} to {most}") })
}

fn misfit(field: &str, found: &str, allowed: &str) -> ChartError {
    ChartError::Misfit { field: field.to_owned(), found: found.to_owned(), allowed: allowed.to_owned() }
}
