//! What Seam's own choices in a replay were for, and what they cost. The sentences count more than the
//! columns of the table, which compare policies, and therefore say how many the columns have of them.

use seam::replay::Summary;
use seam::rivals::Policy;

use crate::table::count;

pub(super) fn text(summary: &Summary) -> String {
    let row = summary.policy_metrics.iter().find(|(policy, _)| *policy == Policy::Seam).map(|(_, metrics)| metrics);
    let mut text = String::from("What Seam did, and what it cost:\n");
    text.push_str(&format!(
        "  {} of {} got a healthy pool while another candidate was not healthy{}.\n",
        summary.strict_workloads_protected_by_seam,
        count(summary.strict_requests as usize, "strict request"),
        cost(summary.strict_protected_extra_ms, "pool that Seam admits"),
    ));
    if let Some(row) = row {
        text.push_str(&format!(
            "    Of these the column strict protected counts {}: the other candidate was admissible.\n",
            row.strict_protected_count
        ));
    }
    text.push_str(&format!(
        "  {} of {} left the admissible healthy pools to strict work and took a degraded one{}.\n",
        summary.headroom_preserved_by_seam,
        count(summary.tolerant_requests as usize, "tolerant request"),
        cost(summary.headroom_preserved_extra_ms, "of those healthy pools"),
    ));
    if let Some(row) = row {
        text.push_str(&format!(
            "    Of these the column headroom preserved counts {}: such a healthy pool was soft saturated.\n",
            row.headroom_preserved_count
        ));
    }
    if summary.no_pool_by_seam > 0 {
        text.push_str(&format!(
            "  {} got no pool: by Seam's rules none of the candidates may carry it.\n",
            count(summary.no_pool_by_seam as usize, "request")
        ));
    }
    text
}

/// Latency is all that a row says of the cost.
fn cost(extra_ms: Option<f64>, than: &str) -> String {
    match extra_ms {
        Some(extra_ms) if extra_ms < 0.0 => {
            format!(",\n    {:.2} ms faster on average than the fastest {than}", -extra_ms)
        }
        Some(extra_ms) => format!(",\n    {extra_ms:.2} ms slower on average than the fastest {than}"),
        None => String::new(),
    }
}
