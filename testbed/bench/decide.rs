//! What a decision costs: alone, with its record, and with the record's JSON.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "a program, not a library")]

mod fabric;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use seam::health::Thresholds;
use seam::model::Profile;
use seam::policy::decide::{Terms, decide};
use seam::policy::record::DecisionRecord;

fn bench(criterion: &mut Criterion) {
    let thresholds = Thresholds::default();
    let workload = fabric::interactive();
    let context = fabric::context(&workload);
    for count in [1, 8, 64, 256, 1024] {
        let candidates = fabric::candidates(count);
        let decided = || decide(&Terms::new(Profile::Reference, &thresholds, &workload), black_box(&candidates));
        let recorded = || DecisionRecord::new(context.clone(), &candidates, &decided());
        let mut group = criterion.benchmark_group("decide");
        group.bench_function(BenchmarkId::new("alone", count), |bencher| bencher.iter(decided));
        group.bench_function(BenchmarkId::new("record", count), |bencher| bencher.iter(recorded));
        group.bench_function(BenchmarkId::new("json", count), |bencher| {
            bencher.iter(|| serde_json::to_vec(&recorded()));
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
