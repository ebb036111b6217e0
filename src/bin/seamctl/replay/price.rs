//! What Seam's own choices in a replay were for, and what they cost.

use seam::replay::Summary;

use crate::table::count;

pub(super) fn text(summary: &Summary) -> String {
    let mut text = String::from("What Seam did, and what it cost:\n");
    text.push_str(&format!(
        "  {} of {} got a healthy pool while another candidate was not healthy{}.\n",
        summary.strict_workloads_protected_by_seam,
        count(summary.strict_requests as usize, "strict request"),
        cost(summary.strict_protected_extra_ms, "pool that Seam admits"),
    ));
    text.push_str(&format!(
        "  {} of {} left the admissible healthy pools to strict work and took a degraded one{}.\n",
        summary.headroom_preserved_by_seam,
        count(summary.tolerant_requests as usize, "tolerant request"),
        cost(summary.headroom_preserved_extra_ms, "of those healthy pools"),
    ));
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
