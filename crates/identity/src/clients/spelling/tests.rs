use super::*;
use CertificateName::{Cn, Fingerprint, SanDns, SanUri};

fn clients(sources: Vec<ClientSource>) -> Clients {
    Clients {
        sources,
        ..Clients::default()
    }
}

#[test]
fn a_certificates_name_is_spelt_as_it_is_read() {
    let digits = "0123456789ABCDEF".repeat(4);
    let pairs: Vec<_> = digits.as_bytes().chunks(2).collect();
    let colons = String::from_utf8(pairs.join(&b':')).unwrap();
    let lower = digits.to_lowercase();
    let (long, longest) = ("a".repeat(257), "a".repeat(256));
    for (kinds, name, read) in [
        (&[SanDns][..], "Billing.Internal", Some("billing.internal")),
        (&[SanDns], "billing.internal.", Some("billing.internal")),
        (&[SanDns], "*.a_b.internal", Some("*.a_b.internal")),
        (&[SanDns], "spiffe://a/b", None),
        (&[SanDns], "a b", None),
        (&[SanDns], ".", None),
        (&[SanDns], &longest, Some(&longest)),
        (&[SanDns], &long, None),
        (&[SanDns], &colons, None),
        (&[Fingerprint], &colons, Some(&lower)),
        (&[Fingerprint], &digits, Some(&lower)),
        (&[Fingerprint], "billing.internal", None),
        (&[Fingerprint], &digits[1..], None),
        (&[Fingerprint, SanDns], &colons, Some(&lower)),
        (&[Fingerprint, SanDns], "Billing", Some("billing")),
        (&[Cn], "Billing, Inc.", Some("Billing, Inc.")),
        (&[Cn, SanDns], "Billing.Internal", Some("Billing.Internal")),
        (&[SanUri, Fingerprint], &colons, Some(&colons)),
        (&[SanUri], &long, None),
        (&[], "billing", None),
    ] {
        let sources = kinds.iter().copied().map(ClientSource::Certificate);
        let clients = clients(sources.collect());
        let spelling = clients.certificate_name(name);
        assert_eq!(spelling.as_deref(), read, "{kinds:?} {name}");
    }
}

#[test]
fn a_header_names_no_user_with_blanks_at_the_ends() {
    let header = http::HeaderName::from_static("x-user-id");
    let clients = clients(vec![ClientSource::UserId { header }]);
    assert!(clients.can_name_user("42") && clients.can_name_user("a user"));
    assert!(!clients.can_name_user(" 42") && !clients.can_name_user("42 "));
}
