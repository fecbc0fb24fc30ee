//! One broken file per rule, each with its exact message beside it. The file is in the folder of its subject, or in `tests/broken`
//! if the file as a whole is broken.

use super::*;

fn names(extension: &str) -> BTreeSet<PathBuf> {
    // A folder that cannot be read has too few files for the tests below.
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let subjects = list(Path::new("src")).map(|folder| folder.path().join("broken"));
    let folders = subjects.chain([PathBuf::from("tests/broken")]);
    let files: Vec<_> = folders.flat_map(|folder| list(&folder)).collect();
    files
        .into_iter()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.with_extension(""))
        .collect()
}

#[test]
fn every_file_is_refused_with_its_message() {
    let update = std::env::var_os("UPDATE_BROKEN").is_some();
    let mut wrong = Vec::new();
    for path in names("yaml") {
        let (yaml, txt) = (path.with_extension("yaml"), path.with_extension("txt"));
        let message = match config::load(&yaml, env) {
            Ok(_) => panic!("{} is accepted", yaml.display()),
            Err(error) => format!("{error}\n"),
        };
        assert!(!message.contains(SECRET), "a secret is told: {message}");
        if update {
            fs::write(&txt, &message).unwrap();
        } else if fs::read_to_string(&txt).unwrap_or_default() != message {
            wrong.push(format!("--- {}\n{message}", txt.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_has_its_message_and_every_message_its_file() {
    if std::env::var_os("UPDATE_BROKEN").is_none() {
        assert_eq!(names("yaml"), names("txt"));
    }
    assert!(names("yaml").len() >= 360);
}
