#!/usr/bin/env python3
"""Three small servers to put a gateway in front of: gRPC, WebSocket, and pages with events.

Needs the packages grpcio and websockets. Messages of gRPC are plain bytes, so no code has to be generated.
"""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve


PAGE = Path(__file__).with_name("page.html")


class Echo(grpc.GenericRpcHandler):
    """demo.Echo: One answers once, Many three times, Chat once per message."""

    def service(self, call):
        return {
            "/demo.Echo/One": grpc.unary_unary_rpc_method_handler(lambda message, _: message),
            "/demo.Echo/Many": grpc.unary_stream_rpc_method_handler(lambda message, _: iter([message] * 3)),
            "/demo.Echo/Chat": grpc.stream_stream_rpc_method_handler(lambda messages, _: messages),
            "/demo.Echo/Sleep": grpc.unary_unary_rpc_method_handler(self.sleep),
        }.get(call.method)

    @staticmethod
    def sleep(message, context):
        threading.Event().wait(float(message))
        return message


class Pages(BaseHTTPRequestHandler):
    """/ is a page for browsers, which POSTs its results to /seen. /events sends an event, and another one after each
    POST to /next."""

    protocol_version = "HTTP/1.1"
    next = threading.Semaphore(0)
    seen = queue.SimpleQueue()

    def do_GET(self):
        if self.path == "/events":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for number in range(1, 4):
                self.wfile.write(f"data: {number}\n\n".encode())
                self.wfile.flush()
                self.next.acquire()
            self.close_connection = True
            return
        if self.path == "/":
            kind, body = "text/html", PAGE.read_bytes()
        else:
            kind, body = "text/plain", f"{self.headers['X-Forwarded-Proto']} {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/seen":
            self.seen.put(body)
        else:
            self.next.release()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """Has room for many connections at once."""

    request_queue_size = 1024


def start(calls=9001, chat=9002, pages=9003):
    """Starts all three on 127.0.0.1, each in threads of its own; returns their ports."""
    server = grpc.server(ThreadPoolExecutor(64))
    server.add_generic_rpc_handlers([Echo()])
    calls = server.add_insecure_port(f"127.0.0.1:{calls}")
    server.start()

    def echo(socket):
        try:
            for message in socket:
                socket.send(message)
        except ConnectionClosed:
            pass  # without a word, as when a gateway stops

    sockets = serve(echo, "127.0.0.1", chat, max_size=None)
    http = Server(("127.0.0.1", pages), Pages)
    for forever in (sockets.serve_forever, http.serve_forever):
        threading.Thread(target=forever, daemon=True).start()
    return server, calls, sockets.socket.getsockname()[1], http.server_address[1]


if __name__ == "__main__":
    server, *ports = start()
    print("gRPC, WebSocket and pages on the ports", *ports)
    server.wait_for_termination()
