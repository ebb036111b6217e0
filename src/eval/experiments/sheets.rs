//! The experiments as tables.

use super::{Report, Stability};
use crate::eval::sheet::{Column, Sheet, pct};
use crate::model::{PathState, Profile};

/// One table an experiment, in the published order, with the profiles below one another.
#[must_use]
pub fn sheets(reports: &[(Profile, Report)]) -> [Sheet; 5] {
    [boundary(reports), tradeoff(reports), hysteresis(reports), scarcity(reports), baselines(reports)]
}

fn boundary(reports: &[(Profile, Report)]) -> Sheet {
    let rows = reports.iter().flat_map(|(profile, report)| {
        report.admissibility_boundary.points.iter().map(move |point| {
            let of = |rates: &std::collections::BTreeMap<String, f64>, class| pct(rates.get(class).copied());
            vec![
                profile.to_string(),
                point.severity.to_string(),
                format!("{:.3}", point.mean_gfs),
                format!("{:.1}", point.mean_p99_latency_ms),
                format!("{:.1}", point.mean_jitter_ms),
                point.dominant_path_state.map(|state| state.to_string()).unwrap_or_default(),
                of(&point.admissibility_rate_pct, "batch"),
                of(&point.admissibility_rate_pct, "interactive"),
                of(&point.admissibility_rate_pct, "release"),
                of(&point.chosen_rate_pct, "batch"),
                of(&point.chosen_rate_pct, "interactive"),
                of(&point.chosen_rate_pct, "release"),
            ]
        })
    });
    Sheet {
        name: "admissibility_boundary",
        title: "Admissibility boundary",
        about: "One path gets worse in six steps, beside a healthy one; 18 trials a step. The share of trials in which \
                each class may use the degraded path: the stricter the class, the sooner it leaves.",
        columns: vec![
            Column::new("profile", "profile"),
            Column::new("severity", "step"),
            Column::new("mean_gfs", "GFS"),
            Column::new("mean_p99_latency_ms", "p99 ms"),
            Column::new("mean_jitter_ms", "jitter ms"),
            Column::new("dominant_path_state", "state most often"),
            Column::new("batch_admissible_pct", "batch %"),
            Column::new("interactive_admissible_pct", "interactive %"),
            Column::new("release_admissible_pct", "release %"),
            Column::csv("batch_chosen_pct"),
            Column::csv("interactive_chosen_pct"),
            Column::csv("release_chosen_pct"),
        ],
        rows: rows.collect(),
    }
}

fn tradeoff(reports: &[(Profile, Report)]) -> Sheet {
    let rows = reports.iter().flat_map(|(profile, report)| {
        report.capacity_tradeoff.points.iter().map(move |point| {
            vec![
                profile.to_string(),
                point.healthy_active_sessions.to_string(),
                pct(Some(point.batch_on_degraded_rate_pct)),
                pct(Some(point.strict_on_healthy_rate_pct)),
                pct(Some(point.reroute_rate_pct)),
            ]
        })
    });
    Sheet {
        name: "capacity_tradeoff",
        title: "Capacity trade-off",
        about: "A healthy pool fills while a degraded one stays roomy; 18 trials of a batch, an interactive-sync and a \
                release request at each fill. Batch leaves the healthy pool to the other two.",
        columns: vec![
            Column::new("profile", "profile"),
            Column::new("healthy_active_sessions", "healthy sessions of 8"),
            Column::new("batch_on_degraded_pct", "batch on degraded %"),
            Column::new("strict_on_healthy_pct", "strict on healthy %"),
            Column::new("rerouted_pct", "rerouted %"),
        ],
        rows: rows.collect(),
    }
}

fn hysteresis(reports: &[(Profile, Report)]) -> Sheet {
    let row = |profile: &Profile, thresholds: &str, stability: &Stability| {
        let samples = |state| stability.state_distribution.get(&state).copied().unwrap_or(0).to_string();
        vec![
            profile.to_string(),
            thresholds.to_owned(),
            stability.transition_count.to_string(),
            stability.oscillation_count.to_string(),
            samples(PathState::Healthy),
            samples(PathState::Restored),
            samples(PathState::DegradedUsable),
        ]
    };
    let rows = reports.iter().flat_map(|(profile, report)| {
        let found = &report.hysteresis_stability;
        [row(profile, "default", &found.default), row(profile, "no hysteresis", &found.no_hysteresis_baseline)]
    });
    Sheet {
        name: "hysteresis_stability",
        title: "Hysteresis",
        about: "One noisy path, 38 samples, judged with the default persistence and clean windows, and with one window \
                for each. An oscillation: HEALTHY entered and left within three samples, or RESTORED left at the next.",
        columns: vec![
            Column::new("profile", "profile"),
            Column::new("thresholds", "thresholds"),
            Column::new("transition_count", "changes"),
            Column::new("oscillation_count", "oscillations"),
            Column::new("healthy_samples", "samples healthy"),
            Column::new("restored_samples", "restored"),
            Column::new("degraded_usable_samples", "degraded_usable"),
        ],
        rows: rows.collect(),
    }
}

fn scarcity(reports: &[(Profile, Report)]) -> Sheet {
    let rows = reports.iter().flat_map(|(profile, report)| {
        report.alternate_scarcity.points.iter().map(move |point| {
            vec![
                profile.to_string(),
                point.alternate_count.to_string(),
                format!("{:.3}", point.batch_prs),
                format!("{:.2}", point.batch_fae),
                format!("{:.3}", point.release_prs),
                format!("{:.2}", point.release_fae),
                pct(Some(point.batch_admissible_rate_pct)),
                pct(Some(point.batch_chosen_rate_pct)),
            ]
        })
    });
    Sheet {
        name: "alternate_scarcity",
        title: "Scarcity of alternates",
        about: "The same degraded path with no, one and three healthy alternates; 12 trials each. The fewer ways out, \
                the further a failure would spread (PRS) and grow (FAE).",
        columns: vec![
            Column::new("profile", "profile"),
            Column::new("alternate_count", "alternates"),
            Column::new("batch_prs", "batch PRS"),
            Column::new("batch_fae", "batch FAE"),
            Column::new("release_prs", "release PRS"),
            Column::new("release_fae", "release FAE"),
            Column::csv("batch_admissible_pct"),
            Column::csv("batch_chosen_pct"),
        ],
        rows: rows.collect(),
    }
}

fn baselines(reports: &[(Profile, Report)]) -> Sheet {
    let rows = reports.iter().flat_map(|(profile, report)| {
        report.baseline_comparison.standings.iter().map(move |(policy, found)| {
            vec![
                profile.to_string(),
                policy.to_string(),
                pct(Some(found.strict_workload_success_rate_pct)),
                pct(Some(found.tolerant_degraded_utilization_rate_pct)),
                pct(Some(found.healthy_headroom_preservation_rate_pct)),
                format!("{:.1}", found.strict_mean_p99_ms),
                format!("{:.1}", found.tolerant_mean_p99_ms),
                found.seeds.to_string(),
                found.trials.to_string(),
                found.admissions.to_string(),
                found.rejections.to_string(),
                found.admitted_despite_degradation.to_string(),
                format!("{:.3}", found.mean_prs),
                format!("{:.3}", found.mean_fae),
                found.strict_trials.to_string(),
                found.tolerant_trials.to_string(),
                found.headroom_trials.to_string(),
            ]
        })
    });
    Sheet {
        name: "baseline_comparison",
        title: "Seam beside other policies",
        about: "90 trials of one request each. Strict: requests from criticality 0.7 on that a HEALTHY path got. \
                Tolerant: requests up to 0.35 that a DEGRADED_USABLE path got. Headroom: of the tolerant requests that \
                could spare a crowded HEALTHY pool, those that did. The other policies choose among all pools that are \
                neither quarantined nor full; those that draw played all trials once for each of 20 seeds. \
                Mean p99: over the paths that such requests were given.",
        columns: vec![
            Column::new("profile", "profile"),
            Column::new("policy", "policy"),
            Column::new("strict_on_healthy_pct", "strict %"),
            Column::new("tolerant_on_degraded_pct", "tolerant %"),
            Column::new("headroom_preserved_pct", "headroom %"),
            Column::new("strict_mean_p99_ms", "strict mean p99 ms"),
            Column::new("tolerant_mean_p99_ms", "tolerant mean p99 ms"),
            Column::csv("seeds"),
            Column::csv("trials"),
            Column::csv("admissions"),
            Column::csv("rejections"),
            Column::csv("admitted_despite_degradation"),
            Column::csv("mean_prs"),
            Column::csv("mean_fae"),
            Column::csv("strict_trials"),
            Column::csv("tolerant_trials"),
            Column::csv("headroom_trials"),
        ],
        rows: rows.collect(),
    }
}
