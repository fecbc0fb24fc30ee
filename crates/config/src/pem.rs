//! Files with certificates and keys. An error in a file is reported at the key that names the file.

use std::path::Path;

use crate::yaml::{Place, Problem};
use tidegate_net::tls::{self, Authorities, CertificateFiles, FileError, Trust};

use crate::check::Check;
use crate::value::Scalar;
use crate::value::word::FilePath;

/// Returns the value in `made`, which another function made from files. If a file cannot be used, reports the error at the entry of
/// `scalars` that names the file.
pub(crate) fn usable<'s, T>(
    check: &mut Check<'_>,
    made: Result<T, FileError>,
    scalars: impl IntoIterator<Item = &'s Scalar<FilePath>>,
) -> Option<T> {
    let error = match made {
        Ok(made) => return Some(made),
        Err(error) => error,
    };
    let names = |scalar: &&Scalar<FilePath>| check.file(scalar).as_ref() == Some(&error.path);
    let scalar = scalars.into_iter().find(names);
    let why = error.why.to_string();
    check.refuse(match scalar {
        Some(scalar) => unusable(scalar, &error.path, &why),
        None => Problem::new(None, format!("the file {why}")),
    });
    None
}

/// Reads the certificates of authorities in a file.
pub(crate) fn authorities(check: &mut Check<'_>, scalar: &Scalar<FilePath>) -> Option<Authorities> {
    let path = check.file(scalar)?;
    usable(check, tls::authorities(&path), [scalar])
}

/// Returns the files of the gateway's certificate and its key. `Some(None)` if neither is named. Refuses a certificate or a key alone.
pub(crate) fn identity(
    check: &mut Check<'_>,
    certificate: Option<&Scalar<FilePath>>,
    key: Option<&Scalar<FilePath>>,
) -> Option<Option<CertificateFiles>> {
    match (certificate, key) {
        (None, None) => Some(None),
        (Some(certificate), Some(key)) => Some(Some(CertificateFiles {
            certificate: check.file(certificate)?,
            key: check.file(key)?,
        })),
        (Some(alone), None) | (None, Some(alone)) => {
            let problem = Problem::new(alone.place, "one of `cert` and `key` is missing");
            check.refuse(problem.note("a certificate and its key are given together"));
            None
        }
    }
}

/// Returns the authorities of this system. If the system has none, reports an error with `remedy`.
pub(crate) fn system(check: &mut Check<'_>, place: Option<Place>, remedy: &str) -> Option<Trust> {
    let authorities = Authorities::of_the_system();
    if authorities.is_none() {
        let problem = Problem::new(place, "this system has no certificate authorities");
        check.refuse(problem.note(remedy));
    }
    authorities.map(Trust::Authorities)
}

/// Returns the problem of a file that cannot be used. If the path comes from a variable, the message shows the variable's name, not its
/// value. The value may be the file's content, if someone confused the two.
pub(crate) fn unusable(scalar: &Scalar<FilePath>, path: &Path, why: &str) -> Problem {
    let is_filled = scalar.raw.contains("${");
    let name = match is_filled {
        true => scalar.raw.clone(),
        false => path.display().to_string(),
    };
    let problem = Problem::new(scalar.place, format!("`{name}` {why}"));
    let is_missing = path.is_relative() && !path.exists();
    match is_missing && !is_filled {
        true => problem
            .note("a path that does not begin with `/` starts at the folder of the configuration"),
        false => problem,
    }
}
