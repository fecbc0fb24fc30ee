//! The gateway at the edge: TLS towards clients and upstreams, HTTP/2 upstreams, gRPC, tunnels.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each binary uses its own part")]
mod support;

/// What all subjects need: certificates on disk, gateways that show them, metrics as numbers.
mod bench;
/// An upstream of HTTP/2 whose handler decides about single frames.
mod h2c;
/// An upstream of HTTP/2 made of frames, which sends what no library would.
mod raw_h2c;

// Towards clients.
mod certificate_names;
mod client_certificates;
mod denied;
mod descriptors;
mod flow_control;
mod frames;
mod handshakes;
mod hostile;
mod http2_abuse;
mod http2_figures;
mod http2_refused;
mod overload;
mod renewal;
mod stops;
mod tls_in;

// Towards upstreams.
mod grpc;
mod http2_bodiless;
mod http2_cold;
mod http2_faults;
mod http2_out;
mod http2_resets;
mod http2_shared;
mod tls_out;

// What is no HTTP any more.
mod tunnels;
mod tunnels_end;
