#!/usr/bin/env python3
"""A collector for trying: takes OTLP over HTTP on 127.0.0.1:4318 and prints each trace as a tree.

    pip install opentelemetry-proto
    python3 collector.py

It stores no traces. It prints a trace when a second has passed without another span of it.
"""

import gzip
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

ADDRESS = ("127.0.0.1", 4318)
SHOWN = (
    "http.route",
    "http.response.status_code",
    "error.type",
    "server.address",
    "server.port",
    "tidegate.limit",
    "tidegate.verdict",
    "tidegate.decided_by",
)


class Traces:
    """Spans by trace, until they are printed."""

    def __init__(self):
        self.lock, self.waiting = threading.Lock(), {}

    def add(self, request):
        with self.lock:
            for of_resource in request.resource_spans:
                service = attributes(of_resource.resource.attributes).get("service.name", "?")
                for of_scope in of_resource.scope_spans:
                    for span in of_scope.spans:
                        found = self.waiting.setdefault(span.trace_id, {"spans": []})
                        found["spans"].append((service, span))
                        found["at"] = time.monotonic()

    def quiet(self):
        """Takes the traces that got no span for a second."""
        with self.lock:
            due = [trace for trace, found in self.waiting.items() if time.monotonic() - found["at"] > 1]
            return [(trace, self.waiting.pop(trace)["spans"]) for trace in due]


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


def tree(trace, spans):
    """Returns the lines of a trace: its spans, each below its parent, with their durations."""
    known = {span.span_id for _, span in spans}
    roots = [entry for entry in spans if entry[1].parent_span_id not in known]
    lines = [f"trace {trace.hex()}"]

    def below(entry, depth):
        service, span = entry
        took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000
        told = attributes(span.attributes)
        shown = " ".join(f"{key}={told[key]}" for key in SHOWN if key in told)
        lines.append(f"{'  ' * depth}{service}: {span.name} {took:,.0f} us {shown}")
        children = [child for child in spans if child[1].parent_span_id == span.span_id]
        for child in sorted(children, key=lambda child: child[1].start_time_unix_nano):
            below(child, depth + 1)

    for root in roots:
        below(root, 1)
    return lines


def handler(traces):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            traces.add(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    return Handler


def main():
    traces = Traces()
    server = ThreadingHTTPServer(ADDRESS, handler(traces))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"takes spans at http://{ADDRESS[0]}:{ADDRESS[1]}/v1/traces", flush=True)
    try:
        while True:
            time.sleep(0.2)
            for trace, spans in traces.quiet():
                print("\n".join(tree(trace, spans)), flush=True)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
