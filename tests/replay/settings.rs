//! The policies and thresholds that are asked for, and the choices as CSV.

use super::*;

#[test]
fn kv_load_joins_where_there_are_prefix_blocks_and_says_what_it_needs_where_not() {
    let policies = |summary: &Summary| summary.policy_metrics.iter().map(|(policy, _)| *policy).collect::<Vec<_>>();
    let (summary, _) = run(trace(&[row(&[])]), &reference()).unwrap();
    let without: Vec<Policy> = Policy::ALL.iter().copied().filter(|policy| *policy != Policy::KvLoad).collect();
    assert_eq!(policies(&summary), without);

    let error = run(trace(&[row(&[])]), &only(&[Policy::Seam, Policy::KvLoad])).unwrap_err().to_string();
    let expected = "t.csv, line 1, the header: found no column prefix_blocks, allowed that column, which kv_load needs";
    assert_eq!(error, expected);

    let blocks = |rows: &[&str]| {
        let rows: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(pool, blocks)| format!("{},{blocks}", row(&[("pool_id", &format!("p{pool}"))])))
            .collect();
        format!("{HEADER},prefix_blocks\n{}\n", rows.join("\n"))
    };
    let (summary, choices) =
        run(blocks(&["1 2 18446744073709551615", "1  2 18446744073709551615"]), &reference()).unwrap();
    assert_eq!(policies(&summary), Policy::ALL);
    assert!(choices.0["r1"].0["kv_load"].is_some());
    assert!(run(blocks(&["", ""]), &only(&[Policy::KvLoad])).is_ok());
    for (rows, expected) in [
        (blocks(&["1 x"]), "t.csv, line 2, prefix_blocks: found \"x\", allowed whole numbers with blanks between them"),
        (
            blocks(&["1 2", "1 3"]),
            "t.csv, line 3, prefix_blocks: found \"1 3\", allowed \"1 2\" as in the first row of r1",
        ),
    ] {
        assert_eq!(run(rows, &reference()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn policies_are_compared_in_the_order_asked_for_each_once() {
    let asked = [Policy::CapacityOnly, Policy::Seam, Policy::CapacityOnly];
    let (summary, _) = run(TRACE, &only(&asked)).unwrap();
    let policies: Vec<Policy> = summary.policy_metrics.iter().map(|(policy, _)| *policy).collect();
    assert_eq!(policies, asked[..2]);
    // What Seam did is counted whether it is among them or not.
    let (summary, choices) = run(TRACE, &only(&[Policy::LowestLatency])).unwrap();
    assert_eq!((summary.strict_workloads_protected_by_seam, summary.headroom_preserved_by_seam), (4, 2));
    assert_eq!(choices.0["r004"].1, Outcome::NoAdmissiblePool);
}

#[test]
fn thresholds_out_of_range_are_refused_before_anything_is_read() {
    let mut settings = reference();
    settings.thresholds.drop_quarantine = 0.0;
    let error = run(TRACE, &settings).unwrap_err().to_string();
    assert_eq!(error, "thresholds.drop_quarantine: found 0, allowed above 0, at most 1");
}

#[test]
fn choices_are_written_as_csv_that_reads_back() {
    let odd = row(&[("request_id", "\"r,\"\"1\"\"\"")]);
    let full = row(&[("request_id", "r2"), ("occupancy", "8")]);
    let mut choices = ChoicesCsv::new(Vec::new());
    let settings = only(&[Policy::Seam, Policy::CapacityOnly]);
    replay("t.csv", Cursor::new(trace(&[odd, full])), settings, &mut choices).unwrap();
    let text = String::from_utf8(choices.finish().unwrap()).unwrap();
    let expected = "request_id,workload,seam,capacity_only,seam_outcome\n\
                    \"r,\"\"1\"\"\",interactive,a,a,admitted\n\
                    r2,interactive,,,no_admissible_pool\n";
    assert_eq!(text, expected);
}
