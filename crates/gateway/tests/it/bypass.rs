//! Ways around a rate limit that other gateways have fallen for (docs/attacks.md): none of them works here.

/// B1 to B4: another address.
mod addresses;
/// B5 and B6: another client, or very many.
mod clients;
/// B9 to B12: names that collide with others, or with the store's own.
mod keys;
/// B7, B8 and B25: another spelling, another method, another order.
mod requests;
/// One header in several spellings, and several values of one.
mod spellings;
/// A stranger who has somebody else's name.
mod strangers;
/// Another target, behind an encoded slash or in a header.
mod targets;
/// A refusal by address that costs no signature's verification.
mod tokens;
