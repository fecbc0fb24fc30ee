#!/usr/bin/env python3
"""Has real proxies write the logs in this folder: each one serves the same requests, some of them hostile.

    crates/logs/tests/samples/make.py                # nginx, HAProxy, Envoy and Traefik, as far as they are there
    crates/logs/tests/samples/make.py tidegate       # the gateway in target/debug

`loadtest/compare.py --install` installs the programs. README.md beside this says with which versions the logs were made.
"""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "tidegate-compare" / "bin"


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "slow" in self.path:
            time.sleep(0.25)
        status = 503 if "broken" in self.path else 404 if "missing" in self.path else 200
        body = b"hello\n" * (1000 if "large" in self.path else 1)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PURGE = answer

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that leave are part of it."""


def requests():
    """Heads and bodies, as bytes."""

    def one(target=b"/", method=b"GET", headers=(), body=b"", version=b"HTTP/1.1", host=b"api.example.com"):
        lines = [b" ".join([method, target, version])]
        lines += [b"Host: " + host] if host is not None else []
        lines += [b"Connection: close", *headers]
        lines += [b"Content-Length: %d" % len(body)] if body else []
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    agent = b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"
    yield one(b"/api/rides?city=Z%C3%BCrich&page=2", headers=[agent, b"Referer: https://example.com/a?b=c"])
    yield one(b"/api/rides", b"POST", [agent, b"X-API-Key: demo-key", b"X-Forwarded-For: 203.0.113.7, 198.51.100.9"], b'{"from":"a"}')
    yield one(b"/api/rides/42", b"DELETE", [b"Authorization: Basic YWxpY2U6c2VjcmV0"])
    yield one(b"/slow", headers=[b"X-Forwarded-For: 2001:db8::7"])
    yield one(b"/large")
    yield one(b"/broken")
    yield one(b"/missing", b"HEAD")
    yield one(b"*", b"OPTIONS")
    yield one(b"/purge", b"PURGE")
    yield one(b"/", version=b"HTTP/1.0", host=None)
    yield one(b"http://other.example.com:8080/absolute?x=1")
    yield one(b"api.example.com:443", b"CONNECT")
    # Paths.
    for path in [
        b'/a"b', b'/a" 200 5 "x', b"/%22%20%5C", b"/a\\b", b"/a\\x22b", b"/[x]{y}|z^`", b"/z\xc3\xbcrich", b"/\xff\xfe", b"/a%00b", b"/%ff%fe",
        b"/..//../etc/passwd", b"/a;b=c,d'e", b"/a?b?c=d#e", b"/?", b"//", b"/a#frag", b"/%zz", b"/" + b"long/" * 300,
        b"/?q=" + b"0123456789" * 150, b"/a\tb", b"/a\x01b", b"/a\x7fb", b"/<script>", b"/$host$status", b"/%{x}", b"/a b",
    ]:
        yield one(path, headers=[agent])
    # Headers.
    for value in [
        b'evil" 200 1 "-" "-', b"a\\", b'\\"', b"\\x22", b"emoji \xf0\x9f\x9a\x97", b"\xff\xfe", b"{a}|b", b"-", b"", b"tab\there", b'"', b'" "', b"]] [x]",
        b"a" * 1500,
    ]:
        yield one(b"/agents", headers=[b"User-Agent: " + value, b"Referer: " + value, b"X-Forwarded-For: " + value])
    # Users: `a b`, `a"b`, `a\`, an empty one.
    for user in [b"YSBiOng=", b"YSJiOng=", b"YVw6eA==", b"OnNlY3JldA=="]:
        yield one(b"/users", headers=[b"Authorization: Basic " + user])
    # What is no request.
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64))
    yield b"GET\r\n\r\n"
    yield b"nonsense\x00\xff\r\n\r\n"
    yield b"GET / HTTP/9.9\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nbad header\r\n\r\n"
    yield one(b"/" + b"x" * 20_000)
    yield b""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def serves(port, process):
    for _ in range(200):
        if process.poll() is not None:
            raise SystemExit(f"it ended with {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
                stream.sendall(b"GET /ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                if b" 200 " in stream.recv(100):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("it does not listen")


def send(port):
    for number, request in enumerate(requests()):
        address = "::1" if number % 5 == 4 else "127.0.0.1"
        try:
            with socket.create_connection((address, port), timeout=5) as stream:
                stream.sendall(request)
                if request:
                    stream.shutdown(socket.SHUT_WR) if b"HTTP/" not in request else None
                    while stream.recv(65536):
                        pass
        except OSError:
            pass
    # One who leaves before the answer.
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(b"GET /slow/gone HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.05)
    time.sleep(1.5)
    if shutil.which("curl"):
        for address in ["127.0.0.1", "[::1]"]:
            command = ["curl", "-s", "-o", os.devnull, "--max-time", "5", "--http2-prior-knowledge", f"http://{address}:{port}/h2?a=b"]
            subprocess.run(command, check=False)
    time.sleep(0.3)


def nginx(port, upstream, folder):
    names = """time_local time_iso8601 msec remote_addr remote_port remote_user request request_method request_uri uri args host http_host scheme
        server_protocol status body_bytes_sent bytes_sent request_length request_time http_referer http_user_agent http_x_forwarded_for
        http_x_api_key upstream_addr upstream_status upstream_response_time request_id server_name""".split()
    members = ",".join(f'"{name}":"${name}"' for name in names)
    template = '$remote_addr [$msec] $request_time "$request_method $host$request_uri" $status "$http_x_forwarded_for" "$http_x_api_key" $request_length'
    (folder / "nginx.conf").write_text(f"""
        daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
        events {{ }}
        http {{
            client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
            log_format common '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent';
            log_format members escape=json '{{{members}}}';
            log_format default_escapes '{{{members}}}';
            log_format own '{template}';
            server {{
                listen {port}; listen [::1]:{port};
                access_log {folder}/nginx-combined.log combined;
                access_log {folder}/nginx-common.log common;
                access_log {folder}/nginx-json.log members;
                access_log {folder}/nginx-json-default-escapes.log default_escapes;
                access_log {folder}/nginx-template.log own;
                location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
            }}
        }}
    """)
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], {}


def haproxy(port, upstream, folder):
    (folder / "haproxy.cfg").write_text(f"""
global
    log stdout len 8192 format {os.environ['SYSLOG']} local0
    tune.http.logurilen 4096
defaults
    mode http
    option httplog
    log global
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend www
    bind 127.0.0.1:{port}
    bind [::1]:{port}
    http-request capture req.hdr(User-Agent) len 64
    http-request capture req.hdr(X-Forwarded-For) len 64
    default_backend api
backend api
    server s1 127.0.0.1:{upstream}
""")
    return ["haproxy", "-f", str(folder / "haproxy.cfg")], {"stdout": f"haproxy-{os.environ['SYSLOG']}.log"}


def envoy(port, upstream, folder):
    kind = "type.googleapis.com/envoy.extensions"
    log = {"name": "log", "typed_config": {"@type": f"{kind}.access_loggers.file.v3.FileAccessLog", "path": f"{folder}/envoy.log"}}
    manager = {
        "@type": f"{kind}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in", "codec_type": "AUTO", "access_log": [log], "use_remote_address": True,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "api"}}]}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{kind}.filters.http.router.v3.Router"}}],
    }
    listeners = []
    for name, address in [("four", "127.0.0.1"), ("six", "::1")]:
        chain = {"filters": [{"name": "http", "typed_config": manager}]}
        listeners.append({"name": name, "address": {"socket_address": {"address": address, "port_value": port}}, "filter_chains": [chain]})
    endpoint = {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": upstream}}}}
    cluster = {"name": "api", "type": "STATIC", "load_assignment": {"cluster_name": "api", "endpoints": [{"lb_endpoints": [endpoint]}]}}
    config = {"static_resources": {"listeners": listeners, "clusters": [cluster]}}
    (folder / "envoy.json").write_text(json.dumps(config))
    return ["envoy", "-c", str(folder / "envoy.json"), "--concurrency", "1", "--disable-hot-restart", "-l", "off"], {}


def traefik(port, upstream, folder):
    kind = os.environ["TRAEFIK_FORMAT"]
    routes = {
        "http": {
            "routers": {"all": {"rule": "PathPrefix(`/`) || Method(`OPTIONS`)", "service": "api", "entryPoints": ["web"]}},
            "services": {"api": {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{upstream}"}]}}},
        }
    }
    (folder / "routes.yaml").write_text(json.dumps(routes))
    log = {"filePath": f"{folder}/traefik-{kind}.log", "format": kind, "fields": {"headers": {"defaultMode": "drop", "names": {"User-Agent": "keep", "X-Api-Key": "keep", "X-Forwarded-For": "keep", "Referer": "keep"}}}}
    config = {"entryPoints": {"web": {"address": f":{port}"}}, "providers": {"file": {"filename": str(folder / "routes.yaml")}}, "accessLog": log}
    (folder / "traefik.yaml").write_text(json.dumps(config))
    return ["traefik", f"--configfile={folder}/traefik.yaml"], {}


def tidegate(port, upstream, folder):
    kind = os.environ["TIDEGATE_FORMAT"]
    config = {
        "listen": f"127.0.0.1:{port}", "admin": f"127.0.0.1:{free_port()}",
        "trusted_proxies": ["127.0.0.1"],
        "clients": [{"api_key": {"keys": [{"name": "demo", "hash": f"sha256:{hashlib.sha256(b'demo-key').hexdigest()}"}]}}, {"user_id": {}}, {"ip": {}}],
        "limits": {"burst": {"token_bucket": {"capacity": 30, "refill": "1/s"}}, "seen": {"fixed_window": {"limit": 10, "window": "1h"}, "action": "observe"}},
        "routes": [{"path": "/**", "upstream": f"http://127.0.0.1:{upstream}", "limits": ["burst", "seen"]}],
        "log": {"format": kind if kind in ("text", "json") else "text"},
    }
    if kind == "combined":
        config["log"]["access"] = {"file": f"{folder}/tidegate-combined.log", "format": "combined"}
    (folder / "gateway.yaml").write_text(json.dumps(config))
    gateway = HERE.parents[3] / "target" / "debug" / "tidegate"
    output = {} if kind == "combined" else {"stderr": f"tidegate-{kind}.log"}
    return [os.environ.get("TIDEGATE", str(gateway)), "run", "-c", str(folder / "gateway.yaml")], output


PROXIES = [
    (nginx, {}), (haproxy, {"SYSLOG": "raw"}), (haproxy, {"SYSLOG": "rfc3164"}), (haproxy, {"SYSLOG": "rfc5424"}), (envoy, {}),
    (traefik, {"TRAEFIK_FORMAT": "common"}), (traefik, {"TRAEFIK_FORMAT": "json"}),
]
OURS = [(tidegate, {"TIDEGATE_FORMAT": kind}) for kind in ["text", "json", "combined"]]


def main():
    os.environ["PATH"] = f"{os.environ['PATH']}:/usr/sbin:{CACHE}"
    upstream = Server(("127.0.0.1", 0), Api)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    wanted = sys.argv[1:] or ["nginx", "haproxy", "envoy", "traefik"]
    for proxy, variables in PROXIES + OURS:
        if proxy.__name__ not in wanted:
            continue
        os.environ.update(variables)
        with tempfile.TemporaryDirectory() as name:
            folder, port = Path(name), free_port()
            command, output = proxy(port, upstream.server_port, folder)
            streams = {stream: (folder / file).open("wb") for stream, file in output.items()}
            process = subprocess.Popen(command, **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams})
            try:
                serves(port, process)
                send(port)
            finally:
                process.terminate()
                process.wait()
            for log in sorted(folder.glob(f"{proxy.__name__}*.log")):
                (HERE / log.name).write_bytes(log.read_bytes())
                print(f"{log.name}: {log.read_bytes().count(10)} lines")


if __name__ == "__main__":
    main()
