//! Finds the configuration that a command reads without `-c`.

use std::path::{Path, PathBuf};

/// The environment variable with the path of the configuration.
const VARIABLE: &str = "TIDEGATE_CONFIG";
/// The configuration in the current directory.
const LOCAL: &str = "gateway.yaml";
/// The configuration that packages install.
const SYSTEM: &str = "/etc/tidegate/gateway.yaml";

/// Returns the files that `-c` names. Without `-c`, returns the file that [`VARIABLE`] names. Without either, returns [`LOCAL`], or
/// [`SYSTEM`] if only this file exists.
pub(super) fn to_read(named: Vec<PathBuf>) -> Vec<PathBuf> {
    to_read_with(named, super::environment, Path::exists)
}

/// Returns the file that `init` writes. `init` writes [`SYSTEM`] only if `-c` or [`VARIABLE`] names it.
pub(super) fn to_write(named: Vec<PathBuf>) -> Vec<PathBuf> {
    to_read_with(named, super::environment, |path| path == Path::new(LOCAL))
}

fn to_read_with(
    named: Vec<PathBuf>,
    environment: impl Fn(&str) -> Option<String>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    if !named.is_empty() {
        return named;
    }
    if let Some(path) = environment(VARIABLE).filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let path = match !exists(Path::new(LOCAL)) && exists(Path::new(SYSTEM)) {
        true => SYSTEM,
        false => LOCAL,
    };
    vec![path.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_with_a_file_is_read() {
        let read = |named: &[&str], variable: Option<&str>, there: &[&str]| {
            let named = named.iter().map(PathBuf::from).collect();
            let environment = |name: &str| {
                assert_eq!(name, "TIDEGATE_CONFIG");
                variable.map(str::to_owned)
            };
            let exists = |path: &Path| there.iter().any(|it| path == Path::new(it));
            let files = to_read_with(named, environment, exists);
            let names = files.iter().map(|file| file.to_str().unwrap().to_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        let both = &[LOCAL, SYSTEM];
        assert_eq!(read(&["a.yaml"], Some("b.yaml"), both), "a.yaml");
        assert_eq!(read(&["a.yaml", "c.yaml"], None, both), "a.yaml c.yaml");
        assert_eq!(read(&[], Some("b.yaml"), both), "b.yaml");
        assert_eq!(read(&[], Some(""), both), "gateway.yaml");
        assert_eq!(read(&[], None, both), "gateway.yaml");
        assert_eq!(read(&[], None, &[SYSTEM]), "/etc/tidegate/gateway.yaml");
        assert_eq!(read(&[], None, &[]), "gateway.yaml");
    }
}
