//! Where the gateway listens, and what protects it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::check::tls::usable;
use crate::file::{BlockOr, File, Listener, ListenerTls, SingleOr};
use crate::plan::{AdminPlan, ListenerPlan};
use crate::reading::Check;
use crate::value::{ClientCert, FilePath, Scalar};
use tidegate_net::tls::{
    CertificateFiles, ClientCertificates, ServerFiles, ServerTls, ShownCertificate,
};
use tidegate_yaml::Spanned;
use tidegate_yaml::{Place, Problem};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LISTEN: SocketAddr = SocketAddr::new(LOCALHOST, 8080);
const ADMIN: SocketAddr = SocketAddr::new(LOCALHOST, 9901);

/// Before a certificate ends by so much, people should know.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// An address that is taken, and where it stands.
type TakenAddress = (SocketAddr, Option<Place>);

pub(crate) fn addresses(
    check: &mut Check<'_>,
    file: &File,
) -> (Vec<ListenerPlan>, Option<AdminPlan>) {
    let mut taken = Vec::new();
    let mut listen = Vec::new();
    match &file.listen {
        None => {
            taken.push((LISTEN, None));
            listen.push(ListenerPlan {
                address: LISTEN,
                tls: None,
            });
        }
        Some(SingleOr::Single(scalar)) => listen.extend(plain(check, scalar, &mut taken)),
        Some(SingleOr::Block(block)) => match &block.value {
            BlockOr::Block(listener) => listen.extend(listener_plan(check, listener, &mut taken)),
            BlockOr::List(list) => {
                if list.is_empty() {
                    let problem = Problem::new(block.place, "this list is empty");
                    check.refuse(problem.note(
                        "at least one address is needed; without `listen` it is 127.0.0.1:8080",
                    ));
                }
                for element in list {
                    listen.extend(match element {
                        SingleOr::Single(scalar) => plain(check, scalar, &mut taken),
                        SingleOr::Block(block) => listener_plan(check, &block.value, &mut taken),
                    });
                }
            }
        },
    }
    let admin = admin(check, file, &mut taken);
    (listen, admin)
}

fn plain(
    check: &mut Check<'_>,
    scalar: &Scalar<SocketAddr>,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerPlan> {
    let address = check.read(scalar)?;
    take(check, taken, address, scalar.place);
    Some(ListenerPlan { address, tls: None })
}

fn listener_plan(
    check: &mut Check<'_>,
    listener: &Listener,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerPlan> {
    let plain = plain(check, &listener.address, taken);
    let tls = match &listener.tls {
        Some(written) => Some(Arc::new(listener_tls(check, written)?)),
        None => None,
    };
    Some(ListenerPlan { tls, ..plain? })
}

fn listener_tls(check: &mut Check<'_>, written: &Spanned<ListenerTls>) -> Option<ServerTls> {
    let tls = &written.value;
    let pairs: Vec<(&Scalar<FilePath>, &Scalar<FilePath>)> =
        match (&tls.cert, &tls.key, &tls.certificates) {
            (Some(cert), Some(key), None) => vec![(cert, key)],
            (None, None, Some(several)) if !several.value.is_empty() => {
                let several = several.value.iter();
                several.map(|one| (&one.cert, &one.key)).collect()
            }
            _ => {
                check.refuse(
                Problem::new(
                    written.place,
                    "there is not exactly one kind of certificates",
                )
                .note(
                    "allowed here: `cert` and `key`, or a list of such pairs under `certificates`",
                ),
            );
                return None;
            }
        };
    let mut certificates = Vec::new();
    for (cert, key) in &pairs {
        certificates.push(CertificateFiles {
            certificate: check.file(cert)?,
            key: check.file(key)?,
        });
    }
    let client_cert = check.read_some(tls.client_cert.as_ref());
    if let (Some(scalar), None) = (&tls.client_cert, &tls.client_ca) {
        let problem = Problem::new(scalar.place, "`client_cert` needs `client_ca`");
        check.refuse(
            problem.note("`client_ca` is a file with the authorities of client certificates"),
        );
    }
    let clients = match &tls.client_ca {
        Some(scalar) => Some(ClientCertificates {
            authorities: check.file(scalar)?,
            required: client_cert.unwrap_or_default() == ClientCert::Required,
        }),
        None => None,
    };
    let files = ServerFiles {
        certificates,
        clients,
    };
    let scalars = pairs.iter().flat_map(|(cert, key)| [*cert, *key]);
    let scalars: Vec<_> = scalars.chain(&tls.client_ca).collect();
    let loaded = usable(check, ServerTls::load(files), &scalars)?;
    for ((cert, _), shown) in pairs.into_iter().zip(loaded.shown()) {
        soon_over(check, cert, &shown);
    }
    Some(loaded)
}

/// Warns of a certificate that has ended, or soon will.
fn soon_over(check: &mut Check<'_>, scalar: &Scalar<FilePath>, shown: &ShownCertificate) {
    let Some(ends) = shown.ends else {
        return;
    };
    let day = humantime::format_rfc3339_seconds(ends);
    let message = match ends.duration_since(SystemTime::now()) {
        Err(_) => format!("a certificate in this file has expired, at {day}"),
        Ok(left) if left < SOON => {
            format!("a certificate in this file expires within 14 days, at {day}")
        }
        Ok(_) => return,
    };
    let note = "clients refuse it from then on; replace the file, and the gateway reloads it";
    check.warn(Problem::new(scalar.place, message).note(note));
}

fn admin(check: &mut Check<'_>, file: &File, taken: &mut Vec<TakenAddress>) -> Option<AdminPlan> {
    let (address, token, hosts) = match &file.admin {
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

/// Takes an address, which must not be taken already; port 0 is any that is free.
fn take(
    check: &mut Check<'_>,
    taken: &mut Vec<TakenAddress>,
    address: SocketAddr,
    place: Option<Place>,
) {
    let same = |(other, _): &&TakenAddress| *other == address && address.port() != 0;
    if let Some((_, first)) = taken.iter().find(same) {
        let whose = match first {
            Some(first) => format!("the first is at {}", check.source.at(*first)),
            None => "it is what `listen` is by default".into(),
        };
        let problem = Problem::new(place, "this address is used twice").note(whose);
        check.refuse(problem);
    }
    taken.push((address, place));
}
