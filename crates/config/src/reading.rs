//! What a check of one key needs: to read its values, and to report problems.

use tidegate_yaml::Problem;

use crate::value::{Scalar, Value};

/// Reads values and collects problems. [`Check`](crate::check) implements it for the whole file.
pub(crate) trait Reading {
    /// A value, its variables filled in; none if it is refused, which is then reported.
    fn read<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T>;

    /// As [`read`](Self::read), for a value beside which secrets may stand: no line is shown.
    fn read_hidden<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T>;

    /// Reports a problem that makes the configuration unusable.
    fn refuse(&mut self, problem: Problem);

    /// A value that may be left out; none also if it is refused.
    fn read_some<T: Value>(&mut self, scalar: Option<&Scalar<T>>) -> Option<T> {
        scalar.and_then(|scalar| self.read(scalar))
    }
}
