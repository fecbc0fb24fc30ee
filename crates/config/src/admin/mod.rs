//! The admin port (`admin`).

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::host::HostPattern;
use tidegate_yaml::Problem;

use crate::check::Check;
use crate::listeners::{LOCALHOST, TakenAddress, is_any, take};
use crate::secret::Secret;
use crate::shape::SingleOr;
use crate::value::{Fault, Scalar, Value};

/// An admin port that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admin {
    /// Where it is. Default: 127.0.0.1:9901.
    pub(crate) address: Option<Scalar<SocketAddr>>,
    /// What whoever asks about clients shows as `Authorization: Bearer`. Default: none, and on loopback no need.
    pub(crate) token: Option<Scalar<TokenText>>,
    /// Names under which it may be asked, such as gateway or *.example.com, beside addresses and localhost. Default: none.
    pub(crate) hosts: Option<Vec<Scalar<HostPattern>>>,
}

/// The token of the admin port; empty: none.
pub(crate) struct TokenText(pub(crate) Option<Secret>);

impl Value for TokenText {
    const NAME: &'static str = "Token";
    const WHAT: &'static str = "a token";
    const ALLOWED: &'static str =
        "letters, digits and signs that a header can carry, without spaces; empty is none";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::Form);
        }
        Ok(Self((!text.is_empty()).then(|| Secret::new(text))))
    }
}

/// The admin port.
#[derive(Debug, Clone)]
pub struct AdminPlan {
    /// Where it is.
    pub address: SocketAddr,
    /// The token that requests about clients must carry.
    pub token: Option<Secret>,
    /// The names under which it may be asked, beside addresses and `localhost`.
    pub hosts: Vec<HostPattern>,
}

const ADMIN: SocketAddr = SocketAddr::new(LOCALHOST, 9901);

pub(crate) fn admin(
    check: &mut Check<'_>,
    written: Option<&SingleOr<SocketAddr, Admin>>,
    taken: &mut Vec<TakenAddress>,
) -> Option<AdminPlan> {
    let (address, token, hosts) = match written {
        None => (None, None, None),
        Some(SingleOr::Single(address)) => (Some(address), None, None),
        Some(SingleOr::Block(block)) => {
            let admin = &block.value;
            (
                admin.address.as_ref(),
                admin.token.as_ref(),
                admin.hosts.as_ref(),
            )
        }
    };
    let token = check.read_some(token).and_then(|token| token.0);
    let hosts = hosts.into_iter().flatten();
    let hosts = hosts.filter_map(|host| check.read(host)).collect();
    let address = match address {
        None => ADMIN,
        Some(scalar) => {
            let address = check.read(scalar)?;
            take(check, taken, address, scalar.place);
            address
        }
    };
    Some(AdminPlan {
        address,
        token,
        hosts,
    })
}

pub(crate) fn open_admin(
    check: &mut Check<'_>,
    written: Option<&SingleOr<SocketAddr, Admin>>,
    admin: Option<&AdminPlan>,
) {
    let is_open = admin.is_some_and(|admin| admin.token.is_none() && is_any(admin.address));
    if is_open {
        let place = match written {
            Some(SingleOr::Single(scalar)) => scalar.place,
            Some(SingleOr::Block(block)) => block.place,
            None => None,
        };
        let problem = Problem::new(
            place,
            "the admin port is open on all addresses, without a token",
        );
        check.warn(problem.note(
            "who reaches it can read metrics and health; clients and the configuration are served with a token only. Set \
             `token`, or listen on 127.0.0.1",
        ));
    }
}

#[cfg(test)]
mod tests;
