//! Peers that send the headers of proxies without being trusted, for the operator who may have forgotten one.

use tidegate_server::{ConnectionInfo, ProxyHeader};
use tidegate_tower::AddressFrom;

use super::Stack;

impl Stack {
    /// Notes a peer that sent this header and is not trusted, once per connection. With `from: proxy_protocol` the gateway reads no such
    /// headers.
    pub(super) fn report_proxy(&self, header: ProxyHeader, connection: &ConnectionInfo) {
        let is_read = self.clients.address_from != AddressFrom::Connection;
        if !connection.is_trusted() && is_read && connection.report_untrusted() {
            let proxies = self.metrics.connections().untrusted_proxies();
            proxies.add(connection.peer().ip(), header);
        }
    }
}
