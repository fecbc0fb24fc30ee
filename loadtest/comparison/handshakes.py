"""A client that opens a new connection with a full TLS handshake for each request.

    python3 handshakes.py PORT PATH SECONDS CONNECTIONS CERTIFICATE      # prints one line of JSON, times in microseconds

wrk and h2load open new connections, too, but resume the session of the connection before. This client keeps no session. The time of
a request begins before its connection, and ends when the gateway has closed it.
"""

import json
import socket
import ssl
import sys
import threading
import time

PATIENCE = 10  # seconds, for each step of a connection


def main():
    port, path, seconds, connections, certificate = sys.argv[1:]
    print(json.dumps(load(int(port), path, float(seconds), int(connections), certificate)))


def load(port, path, seconds, connections, certificate):
    """Keeps this number of connections open for this time; returns counts and times."""
    context = ssl.create_default_context(cafile=certificate)
    request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode()
    times, refused, broken, offers = [], [], [], set()
    start = time.perf_counter()
    end = start + seconds

    def connect():
        while time.perf_counter() < end:
            begun = time.perf_counter()
            try:
                status, offer = ask(port, context, request)
            except OSError as trouble:
                broken.append(str(trouble))
                continue
            times.append(time.perf_counter() - begun)
            offers.add(offer)
            if status != 200:
                refused.append(status)

    threads = [threading.Thread(target=connect) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    times.sort()
    p50, p99 = (round(times[min(len(times) - 1, int(len(times) * part))] * 1e6) if times else 0 for part in (0.5, 0.99))
    return {
        "requests": len(times),
        "microseconds": round(took * 1e6),
        "refused": len(refused),
        "broken": len(broken),
        "trouble": broken[0] if broken else "",
        "offers": sorted(offers),
        "p50": p50,
        "p99": p99,
    }


def ask(port, context, request):
    """Sends one request on a new connection; returns its status, and the version and cipher suite of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            if connection.session_reused:
                raise OSError("a session was resumed")
            offer = connection.version(), connection.cipher()[0]
            connection.sendall(request)
            answer = b""
            while part := connection.recv(65_536):
                answer += part
    return status(answer), offer


def status(answer):
    """Returns the status of an answer, which must be whole."""
    head, end, body = answer.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
    whole = len(body) == length[0] if length else body.endswith(b"0\r\n\r\n")
    if not end or not whole:
        raise OSError("an answer was cut off")
    return int(lines[0].split()[1])


if __name__ == "__main__":
    main()
