//! Checks that the program accepts each command in `console` blocks, that each script exists, and that `tidegate explain` prints the output
//! that the page shows.

use clap::Parser as _;
use clap::error::ErrorKind;

use super::configurations::Folder;
use super::pages::{all, book, root};
use crate::commands::Cli;

/// Splits a line into words as a shell does, up to the end of its first command.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        let word = words.last_mut().unwrap();
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '|' | '>' | '&' | ';') => break,
            (None, ' ') => words.push(String::new()),
            _ => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the arguments of a line that runs `tidegate`, with the program's name. `None` if the line runs another program.
fn of_tidegate(words: &[String]) -> Option<Vec<String>> {
    let is_set = |word: &&String| word.contains('=') && !word.starts_with('-');
    let words: Vec<&String> = words.iter().skip_while(is_set).collect();
    let arguments = match words.split_first()? {
        (first, arguments) if *first == "tidegate" => arguments,
        (first, arguments) if *first == "cargo" && *arguments.first()? == "run" => {
            let at = arguments.iter().position(|word| *word == "--")?;
            let (options, arguments) = arguments.split_at(at);
            if options.iter().any(|option| *option == "-p") {
                return None;
            }
            &arguments[1..]
        }
        _ => return None,
    };
    let name = "tidegate".to_owned();
    Some(
        std::iter::once(name)
            .chain(arguments.iter().map(|word| (*word).clone()))
            .collect(),
    )
}

/// Returns the reason why the program refuses these arguments; `None` if it accepts them.
fn refusal(arguments: &[String]) -> Option<String> {
    let error = Cli::try_parse_from(arguments).err()?;
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    (!is_help).then(|| error.to_string())
}

#[test]
fn every_command_is_accepted() {
    let (mut tried, mut wrong) = (0, String::new());
    for page in all() {
        let console = page
            .blocks()
            .into_iter()
            .filter(|block| block.kind == "console");
        let fenced = console.flat_map(|block| {
            let lines = block
                .text
                .lines()
                .filter_map(|line| line.strip_prefix("$ "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        // In the README.md of each example, commands are in indented blocks.
        let indented = page.prose().filter_map(|line| line.strip_prefix("    "));
        let lines: Vec<String> = fenced.chain(indented.map(str::to_owned)).collect();
        for line in lines {
            let words = words(line.trim_start_matches("$ "));
            let script = words.iter().find(|word| !word.contains('='));
            let script = script.filter(|word| {
                [".ci/", "loadtest/"]
                    .iter()
                    .any(|folder| word.starts_with(folder))
            });
            if let Some(script) = script {
                tried += 1;
                assert!(
                    root().join(script).exists(),
                    "{}: there is no {script}",
                    page.name
                );
            }
            let Some(arguments) = of_tidegate(&words) else {
                continue;
            };
            tried += 1;
            if let Some(error) = refusal(&arguments) {
                wrong += &format!("{}: {line}\n{error}\n", page.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(tried >= 30, "{tried} commands were found");
}

/// Runs each command with the last configuration that its page shows before the command.
#[test]
fn explain_prints_what_the_pages_show() {
    let folder = Folder::new();
    let mut compared = 0;
    for page in book() {
        let mut configuration = None;
        for block in page.blocks() {
            if block.kind == "yaml" && block.text.contains("\nroutes:") {
                configuration = Some(folder.parse(&block.text).unwrap());
            }
            let command = block
                .text
                .strip_prefix("$ ")
                .filter(|_| block.kind == "console");
            let Some((line, shown)) = command.and_then(|text| text.split_once('\n')) else {
                continue;
            };
            let Some(arguments) = of_tidegate(&words(line)).filter(|_| !shown.is_empty()) else {
                continue;
            };
            let (Ok(cli), Some(plan)) = (Cli::try_parse_from(&arguments), &configuration) else {
                continue;
            };
            if let Some(printed) = cli.explained(plan) {
                compared += 1;
                assert_eq!(shown, printed, "{}", block.place);
            }
        }
    }
    assert!(compared >= 1);
}
