//! How long a replay takes: a trace of one million rows is drawn from a seed, written, and decided
//! again by all policies with every choice written, plain and gzip, under both profiles.
//!
//! `cargo bench --bench replay -- [--rows N]`
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use seam::model::Profile;
use seam::replay::{ChoicesCsv, Settings, replay};

const POOLS: u64 = 64;
/// Candidates of a request.
const CANDIDATES: u64 = 4;
const HEADER: &str = "timestamp,request_id,workload_type,pool_id,latency_ms,jitter_ms,drop_rate,occupancy,max_capacity,\
                      soft_capacity_fraction,criticality,sla_ms,jitter_tolerance,is_release_path,\
                      is_prefill_decode_strict,alternate_count,prefix_blocks";
/// The rest of a row after its pool's own columns.
const CLASSES: [(&str, &str); 3] = [
    ("batch", "0.2,200,0.9,false,false"),
    ("interactive", "0.7,30,0.3,false,true"),
    ("release", "0.95,15,0.1,true,true"),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let at = arguments.iter().position(|argument| argument == "--rows");
    let rows: u64 = at.map_or(1_000_000, |at| arguments[at + 1].parse().unwrap());

    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("trace.csv"), folder.path().join("trace.csv.gz"));
    let mut file = BufWriter::new(File::create(&plain).unwrap());
    write(&mut file, rows).unwrap();
    file.into_inner().unwrap();
    let mut encoder = GzEncoder::new(BufWriter::new(File::create(&packed).unwrap()), Compression::fast());
    write(&mut encoder, rows).unwrap();
    encoder.finish().unwrap().into_inner().unwrap();

    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{rows} rows, {CANDIDATES} a request, {} bytes; load {}", plain.metadata().unwrap().len(), load.trim());
    println!("{:10} {:6} {:>8} {:>12} {:>14}", "profile", "input", "s", "rows/s", "most RSS MB");
    for profile in [Profile::Reference, Profile::Mesh] {
        for (input, path) in [("plain", &plain), ("gzip", &packed)] {
            let seconds = run(profile, path, &folder.path().join("choices.csv"), rows);
            println!("{profile:10} {input:6} {seconds:>8.2} {:>12.0} {:>14.1}", rows as f64 / seconds, most_rss_mb());
        }
    }
}

fn run(profile: Profile, trace: &Path, choices: &Path, rows: u64) -> f64 {
    let started = Instant::now();
    let mut choices = ChoicesCsv::new(File::create(choices).unwrap());
    let summary = replay("trace", File::open(trace).unwrap(), Settings::of(profile), &mut choices).unwrap();
    choices.finish().unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(summary.replay_rows, rows);
    seconds
}

/// One request after another, four a millisecond.
fn write(out: &mut impl Write, rows: u64) -> std::io::Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut draw = |below: u64| rng.next_u64() % below;
    writeln!(out, "{HEADER}")?;
    let mut written = 0;
    for request in 0.. {
        let count = CANDIDATES.min(rows - written);
        if count == 0 {
            break;
        }
        let (class, rest) = CLASSES[draw(3) as usize];
        let first = draw(POOLS);
        let prompt = draw(50);
        for pool in 0..count {
            // One in eight is slow, and as many jitter.
            let latency = if draw(8) == 0 { 500 + draw(4_000) } else { 100 + draw(400) };
            let jitter = if draw(8) == 0 { 200 + draw(800) } else { draw(200) };
            let drop = if draw(20) == 0 { draw(60) } else { 0 };
            writeln!(
                out,
                "2026-05-02T09:{:02}:{:02}.{:03}Z,r{request},{class},decode-{},{}.{:02},{}.{:02},0.{drop:03},{},8,0.75,\
                 {rest},{},{} {} {}",
                request / 240_000 % 60,
                request / 4_000 % 60,
                request / 4 % 1_000,
                (first + pool * 7) % POOLS,
                latency / 100,
                latency % 100,
                jitter / 100,
                jitter % 100,
                draw(9),
                count - 1,
                prompt,
                prompt + 1_000,
                prompt + 2_000
            )?;
        }
        written += count;
    }
    Ok(())
}

/// The most that this process has held in memory so far.
fn most_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok()).map_or(f64::NAN, |kib| kib / 1024.0)
}
