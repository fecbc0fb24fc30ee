//! What a route may say, by subject: how a key is written, its values, its checks and its plan.

pub(crate) mod cors;
pub(crate) mod edits;

use http::Method;
use tidegate_yaml::Problem;

use crate::reading::Check;
use crate::value::Scalar;

/// Methods, each once, and all of them among those that are served; none: any is.
pub(crate) fn methods(
    check: &mut Check<'_>,
    scalars: &[Scalar<Method>],
    served: Option<&[Method]>,
) -> Vec<Method> {
    let mut methods = Vec::new();
    for scalar in scalars {
        let Some(method) = check.read(scalar) else {
            continue;
        };
        if methods.contains(&method) {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        if let Some(served) = served.filter(|served| !served.contains(&method)) {
            let served: Vec<_> = served.iter().map(Method::as_str).collect();
            let message = format!("this route does not serve {method}");
            let note = format!("its methods are {}", served.join(", "));
            check.refuse(Problem::new(scalar.place, message).note(note));
        }
        methods.push(method);
    }
    methods
}
