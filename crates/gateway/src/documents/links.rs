//! Checks that every link between documents leads to a file, and to a heading in that file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::pages::{Page, all, root};

/// Returns the anchor of a heading: in lower case, without punctuation, and with `-` for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let text: String = kept.collect();
    text.to_lowercase().replace(' ', "-")
}

fn anchors(page: &Page) -> BTreeSet<String> {
    let headings = page.prose().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim_start()))
        .collect()
}

/// Returns the targets of links and images outside of code.
fn targets(page: &Page) -> Vec<String> {
    let text: Vec<&str> = page.prose().collect();
    let text = text.join("\n");
    let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join("");
    let behind = text.split("](").skip(1);
    behind
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_link_leads_somewhere() {
    let (mut followed, mut wrong) = (0, Vec::new());
    let pages = all();
    for page in &pages {
        let folder = Path::new(&page.name).parent().unwrap();
        for target in targets(page) {
            if target.contains("://") {
                continue;
            }
            followed += 1;
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => PathBuf::from(&page.name),
                file => plain(&folder.join(file)),
            };
            if !root().join(&file).exists() {
                wrong.push(format!("{}: there is no {target}", page.name));
                continue;
            }
            let other = pages.iter().find(|other| Path::new(&other.name) == file);
            let is_there = other.is_none_or(|other| anchors(other).contains(heading));
            if !heading.is_empty() && !is_there {
                wrong.push(format!("{}: there is no heading {target}", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(followed >= 100, "{followed} links were found");
}
