//! Runs every target for a while with seeded mutations of its seeds, without a fuzzer: no coverage
//! guides it, so it finds less, but it runs wherever Seam builds. Arguments: seconds for each
//! target (default 2), seed (default 1), names of targets (default all). `smoke seeds DIR` writes
//! the seeds as files instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use seam_fuzz::{TARGETS, Target};

const MAX_BYTES: usize = 16 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, folder] = arguments.as_slice()
        && command == "seeds"
    {
        return write_seeds(Path::new(folder));
    }
    let number = |index: usize, default: u64| match arguments.get(index).map(|text| text.parse()) {
        Some(Err(_)) => {
            eprintln!("smoke: argument {} is no number", index + 1);
            std::process::exit(2);
        }
        Some(Ok(number)) => number,
        None => default,
    };
    let (seconds, seed) = (number(0, 2), number(1, 1));
    let names = arguments.get(2..).unwrap_or_default();
    if let Some(unknown) = names.iter().find(|name| TARGETS.iter().all(|target| target.name != *name)) {
        eprintln!("smoke: no target {unknown}");
        return ExitCode::from(2);
    }
    let chosen = TARGETS.iter().filter(|target| names.is_empty() || names.iter().any(|name| name == target.name));
    let mut failed = false;
    for target in chosen {
        failed |= !run(target, Duration::from_secs(seconds), seed);
    }
    ExitCode::from(u8::from(failed))
}

/// Whether nothing was found.
fn run(target: &Target, time: Duration, seed: u64) -> bool {
    let seeds = (target.seeds)();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let started = Instant::now();
    let mut count = 0_u64;
    let mut slowest = Duration::ZERO;
    while started.elapsed() < time {
        let mut input = seeds[rng.random_range(0..seeds.len())].clone();
        // The seeds themselves come first.
        if let Some(seed) = usize::try_from(count).ok().and_then(|index| seeds.get(index)) {
            input.clone_from(seed);
        } else {
            for _ in 0..rng.random_range(1..=8) {
                mutate(&mut input, &seeds, &mut rng);
            }
        }
        let before = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            let path = std::env::temp_dir().join(format!("seam-fuzz-{}-{seed}-{count}", target.name));
            match std::fs::write(&path, &input) {
                Ok(()) => println!("{:8} FAILED at input {count}, kept as {}", target.name, path.display()),
                Err(error) => println!("{:8} FAILED at input {count}: {input:?} ({error})", target.name),
            }
            return false;
        }
        slowest = slowest.max(before.elapsed());
        count += 1;
    }
    println!("{:8} ok, {count} inputs, slowest {:.1} ms", target.name, slowest.as_secs_f64() * 1e3);
    true
}

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut ChaCha8Rng) {
    const TOKENS: [&[u8]; 16] = [
        b"1e999",
        b"-0",
        b"NaN",
        b"18446744073709551616",
        b"null",
        b"\"",
        b"[",
        b"{",
        b"\xff\xff\xff\xff",
        b"\xfc",
        b"\xfd",
        b"\0\0\0\0",
        b"\n",
        b",",
        b"0.1",
        b"\x80",
    ];
    let at = rng.random_range(0..=input.len());
    let length = rng.random_range(0..=16).min(input.len() - at);
    match rng.random_range(0..8) {
        0 | 1 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
        2 if at < input.len() => input[at] = rng.random(),
        3 => drop(input.drain(at..at + length)),
        4 => {
            let copy = input[at..at + length].to_vec();
            input.splice(at..at, copy);
        }
        5 => drop(input.splice(at..at + length, TOKENS[rng.random_range(0..TOKENS.len())].iter().copied())),
        6 => {
            let other = &seeds[rng.random_range(0..seeds.len())];
            let from = rng.random_range(0..=other.len());
            let to = rng.random_range(from..=other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        _ => input.truncate(at.max(1)),
    }
    input.truncate(MAX_BYTES);
}

fn write_seeds(folder: &Path) -> ExitCode {
    for target in &TARGETS {
        let folder = folder.join(target.name);
        let written = std::fs::create_dir_all(&folder).and_then(|()| {
            let mut seeds = (target.seeds)().into_iter().enumerate();
            seeds.try_for_each(|(index, seed)| std::fs::write(folder.join(format!("seed-{index}")), seed))
        });
        if let Err(error) = written {
            eprintln!("smoke: {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
