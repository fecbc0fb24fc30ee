//! Detects two mistakes of operators: an untrusted peer sends the headers of proxies, or a trusted proxy sends no such header.

use tidegate_identity::AddressFrom;
use tidegate_server::{ConnectionInfo, ProxyHeader};

use super::Stack;
use crate::request::target::Target;

impl Stack {
    /// Reports an untrusted peer that sends a header of proxies, once per connection. Returns whether the peer is trusted and sends no
    /// header that names the client. With `from: proxy_protocol` the gateway reads no such headers, and this function does no check.
    pub(super) fn check_proxy(&self, target: &Target<'_>, connection: &ConnectionInfo) -> bool {
        let (has_list, has_forwarded) = (target.has_x_forwarded_for, target.has_forwarded);
        let has_own = match self.clients.address_from {
            AddressFrom::XForwardedFor => has_list,
            AddressFrom::Forwarded => has_forwarded,
            AddressFrom::Connection => return false,
        };
        if connection.is_trusted() {
            return !has_own;
        }
        let header = match (has_list, has_forwarded) {
            (true, _) => ProxyHeader::XForwardedFor,
            (false, true) => ProxyHeader::Forwarded,
            (false, false) => return false,
        };
        self.report_proxy(header, connection);
        false
    }

    /// Reports a peer to the operator, once per connection.
    pub(super) fn report_proxy(&self, header: ProxyHeader, connection: &ConnectionInfo) {
        if connection.report_proxy() {
            let proxies = self.metrics.connections().untrusted_proxies();
            proxies.add(connection.peer().address.ip(), header);
        }
    }
}
