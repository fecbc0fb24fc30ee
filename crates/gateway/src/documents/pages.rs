//! Reads the documents and their blocks.

use std::fs;
use std::path::{Path, PathBuf};

/// A document.
pub(super) struct Page {
    /// Its path from the repository's root.
    pub(super) name: String,
    pub(super) text: String,
}

/// A fenced block of a document.
pub(super) struct Block {
    /// The position of its first line, as `page:line`.
    pub(super) place: String,
    /// The words after the opening fence, such as `yaml fragment`.
    pub(super) kind: String,
    pub(super) text: String,
}

/// Returns the repository's root.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns README.md, CONTRIBUTING.md and the pages in docs/.
pub(super) fn book() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    names.extend(listed("docs"));
    names.into_iter().map(|name| page(&name)).collect()
}

/// Returns the pages of [`book`], and all other documents with links: the changelog, `lua/README.md`, the examples and the load tests.
pub(super) fn all() -> Vec<Page> {
    let mut pages = book();
    let others = ["CHANGELOG.md", "lua/README.md", "loadtest/README.md"];
    pages.extend(others.map(page));
    for folder in fs::read_dir(root().join("examples")).unwrap() {
        let folder = folder.unwrap().file_name().into_string().unwrap();
        pages.push(page(&format!("examples/{folder}/README.md")));
    }
    pages.extend(listed("loadtest/results").iter().map(|name| page(name)));
    pages
}

/// Returns the page with this name.
pub(super) fn page(name: &str) -> Page {
    let text =
        fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Page {
        name: name.to_owned(),
        text,
    }
}

fn listed(folder: &str) -> Vec<String> {
    let files = fs::read_dir(root().join(folder)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| name.ends_with(".md"));
    let mut names: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    names.sort();
    names
}

impl Page {
    /// Returns the fenced blocks of the page. If a block is in a list, its indentation is removed.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut indentation = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            let trimmed = line.trim_start();
            let fence = trimmed.strip_prefix("```");
            match (indentation, fence) {
                (None, Some(kind)) => {
                    indentation = Some(line.len() - trimmed.len());
                    blocks.push(Block {
                        place: format!("{}:{number}", self.name),
                        kind: kind.to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => indentation = None,
                (Some(spaces), None) => {
                    let block = blocks.last_mut().unwrap();
                    block.text += line.get(spaces..).unwrap_or("");
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert_eq!(indentation, None, "{}: a block has no end", self.name);
        blocks
    }

    /// Returns the lines outside of fenced blocks.
    pub(super) fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_block = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            is_block ^= is_fence;
            !is_block && !is_fence
        })
    }

    /// Returns the first column of the tables below this heading, without the header rows.
    pub(super) fn first_column(&self, heading: &str) -> Vec<String> {
        let start = format!("## {heading}");
        let lines = self.prose().skip_while(|line| *line != start).skip(1);
        let lines = lines.take_while(|line| !line.starts_with("## "));
        let rows: Vec<&str> = lines.filter(|line| line.starts_with("| `")).collect();
        assert!(!rows.is_empty(), "{}: no table below {start:?}", self.name);
        rows.iter()
            .map(|row| row[2..].split(" | ").next().unwrap().to_owned())
            .collect()
    }
}

/// Returns the words in backticks in a cell.
pub(super) fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}
