//! `docs/replay.md` says what the command prints and what the code allows.

use super::*;

const DOCUMENT: &str = include_str!("../../docs/replay.md");

#[test]
fn what_the_document_shows_is_what_the_command_prints() {
    let blocks: Vec<&str> = DOCUMENT.split("```\n$ seamctl replay ").skip(1).collect();
    assert_eq!(blocks.len(), 2, "one of a trace and one of a journal");
    for block in blocks {
        let (args, shown) = block.split("```").next().unwrap().split_once('\n').unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
        command.arg("replay").args(args.split(' ')).current_dir(env!("CARGO_MANIFEST_DIR"));
        let printed = out(&command.env_remove("COLUMNS").stdin(Stdio::null()).output().unwrap());
        let mut printed = printed.lines();
        let shown: Vec<&str> = shown.lines().filter(|line| *line != " …").collect();
        assert!(shown.len() > 10, "{block}");
        for line in shown {
            // In the order printed; only what the ellipsis stands for is left out.
            assert!(printed.any(|found| found == line), "docs/replay.md shows {line:?}, which is not printed there");
        }
    }
}

#[test]
fn the_bounds_in_the_document_are_those_of_the_code() {
    let digits = |text: &str| text.replace(',', "");
    for (what, most) in [
        ("bytes of a line", MAX_LINE_BYTES),
        ("rows of a request", MAX_CANDIDATES as u64),
        ("different pools", MAX_POOLS as u64),
    ] {
        let row = DOCUMENT.lines().find(|line| line.starts_with(&format!("| {what} |"))).unwrap();
        assert_eq!(digits(row), format!("| {what} | {most} |"));
    }
    assert!(digits(DOCUMENT).contains(&format!("each for at least the {REMEMBERED_REQUESTS} requests that follow it")));
}
