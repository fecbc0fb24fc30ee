//! Files with certificates and keys: what is wrong with one is told where it is named.

use std::sync::Arc;

use rustls::RootCertStore;

use super::Check;
use crate::report::Problem;
use crate::value::{FilePath, Leaf};
use tidegate_net::tls::{self, FileError};

impl Check<'_> {
    /// What was made of files, or none; then it is told at the one of `leaves` that names the file at fault.
    pub(super) fn usable<T>(
        &mut self,
        made: Result<T, FileError>,
        leaves: &[&Leaf<FilePath>],
    ) -> Option<T> {
        let error = match made {
            Ok(made) => return Some(made),
            Err(error) => error,
        };
        let names = |leaf: &&&Leaf<FilePath>| self.file(leaf).as_ref() == Some(&error.path);
        let leaf = leaves.iter().find(names);
        let place = leaf.and_then(|leaf| leaf.place);
        self.refuse(Problem::new(place, error.why.to_string()));
        None
    }

    /// The certificates of authorities in a file.
    pub(super) fn authorities(&mut self, leaf: &Leaf<FilePath>) -> Option<Arc<RootCertStore>> {
        let path = self.file(leaf)?;
        let roots = self.usable(tls::authorities(&path), &[leaf])?;
        Some(Arc::new(roots))
    }
}
