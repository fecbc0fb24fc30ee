"""The gateways of the comparison: the configuration of each for the same work, and its start.

Each has one token bucket per client address, or its nearest substitute, and keeps connections open on both sides. It writes no
access log. If `logs` is true, it writes an access log with default settings into a file. `tls` has the certificate of a gateway
that offers HTTP/2 and HTTP/1.1 over TLS. `ADMITS` is too large to be reached, `REFUSES` lets through ten requests a second.
"""

import json
import ssl
from dataclasses import dataclass
from pathlib import Path

from comparison.programs import LUA
from kit.processes import Trouble, answers, fetched, free_port, until

PEERS = Path(__file__).resolve().parent / "peers"
PATH = "/api/rides/1001"
MEGABYTE = "/api/megabyte"  # an answer of 1,000,000 bytes
BARE = "bare-proxy"  # of this repository, and built with the gateway


@dataclass(frozen=True)
class Limit:
    capacity: int
    rate: int


ADMITS, REFUSES = Limit(1_000_000, 1_000_000), Limit(20, 10)


@dataclass(frozen=True)
class Gateway:
    """Another gateway: the programs that it needs, and whether its limit is in Redis."""

    label: str
    needs: tuple
    start: object
    redis: bool = False


def nginx(run, limit, port, _redis, logs=False, tls=None):
    access_log = f"access_log {run.folder}/nginx-{port}.access combined;" if logs else "access_log off;"
    listens, certificate = "", ""
    if tls:
        # nginx 1.22 has TLS 1.3 off by default.
        listens = " ssl http2"
        certificate = f"ssl_protocols TLSv1.3; ssl_certificate {tls.certificate}; ssl_certificate_key {tls.key};"
    config = written(run, "nginx.conf", limit, port=port, access_log=access_log, listens=listens, certificate=certificate)
    return [run.programs["nginx"], "-c", config], {}


def nginx_redis(run, limit, port, redis):
    config = written(run, "nginx-redis.conf", limit, port=port, redis=redis, peers=PEERS)
    return [run.programs["nginx"], "-c", config], {}


def haproxy(run, limit, port, _redis, logs=False, tls=None):
    # HAProxy cannot log to a named file, so its standard output is a file.
    log = {"access_log": "  log stdout format raw local0", "logs_requests": "log global\n  option httplog"}
    log = log if logs else dict.fromkeys(log, "")
    binds = f" ssl crt {tls.both} alpn h2,http/1.1" if tls else ""
    return [run.programs["haproxy"], "-f", written(run, "haproxy.cfg", limit, port=port, binds=binds, **log)], {}


def envoy(run, limit, port, _redis, logs=False, tls=None):
    kind = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"
    settings = {"@type": kind, "path": f"{run.folder}/envoy-{port}.access"}
    access_log = f"access_log: {json.dumps([{'name': 'envoy.access_loggers.file', 'typed_config': settings}])}"
    options = {"access_log": access_log if logs else "", "tls": ""}
    if tls:
        kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
        pair = {"certificate_chain": {"filename": str(tls.certificate)}, "private_key": {"filename": str(tls.key)}}
        context = {"@type": kind, "common_tls_context": {"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": [pair]}}
        options["tls"] = f"transport_socket: {json.dumps({'name': 'envoy.transport_sockets.tls', 'typed_config': context})}"
    config = written(run, "envoy.yaml", limit, port=port, **options)
    return [run.programs["envoy"], "-c", config, "--concurrency", 1, "--disable-hot-restart", "-l", "off"], {}


def traefik(run, limit, port, redis, logs=False, tls=None):
    on_redis = f', redis: {{ endpoints: ["127.0.0.1:{redis}"] }}' if redis else ""
    certificate, routers = "", ""
    if tls:
        pair = {"certFile": str(tls.certificate), "keyFile": str(tls.key)}
        certificate = f"tls: {json.dumps({'stores': {'default': {'defaultCertificate': pair}}})}"
        routers = ", http: { tls: {} }"
    routes = written(run, "traefik-routes.yaml", limit, on_redis=on_redis, certificate=certificate)
    access_log = f'accessLog: {{ filePath: "{run.folder}/traefik-{port}.access" }}' if logs else ""
    config = written(run, "traefik.yaml", limit, port=port, routes=routes, access_log=access_log, routers=routers)
    # Go may start more threads than taskset allows cores, so it gets as many threads as the others.
    return [run.programs["traefik"], f"--configfile={config}"], {"GOMAXPROCS": "1"}


def bare(run, limit, port, redis):
    command = [run.programs[BARE], "--listen", f"127.0.0.1:{port}", "--upstream", f"127.0.0.1:{run.upstream_port}"]
    command += ["--redis", f"redis://127.0.0.1:{redis}"] if redis else []
    return command + (["--admit", limit.capacity] if limit is REFUSES else []), {}


OTHERS = {
    "hyper": Gateway("hyper alone: no limits, no timeouts, no more headers", (BARE,), bare),
    "nginx": Gateway("nginx `limit_req`", ("nginx",), nginx),
    "haproxy": Gateway("HAProxy stick table", ("haproxy",), haproxy),
    "envoy": Gateway("Envoy `local_ratelimit`", ("envoy",), envoy),
    "traefik": Gateway("Traefik `rateLimit`", ("traefik",), traefik),
    "hyper-redis": Gateway("hyper and fred alone: one small script per request", (BARE, "redis-server"), bare, True),
    "nginx-redis": Gateway("nginx + Lua, a script per request", ("nginx", LUA, "redis-server"), nginx_redis, True),
    "traefik-redis": Gateway("Traefik `rateLimit` on Redis", ("traefik", "redis-server"), traefik, True),
}


def tidegate(
    run, limit, port, redis, *, mode="exact", limits=1, headers="x-ratelimit", access=False, logs=False, traces=None, keys=(),
    trusted=(), tls=None, binary=None,
):
    """Returns tidegate's command, with the options that are measured. With `logs` the log has its default settings."""
    store = "memory"
    if redis:
        # A late decision is better than none: every request must have its full cost.
        store = {"redis": {"url": f"redis://127.0.0.1:{redis}", "mode": mode, "timeout": "1s", "on_failure": "closed"}}
    bucket = {"token_bucket": {"capacity": limit.capacity, "refill": f"{limit.rate}/s"}}
    named = {f"per-client-{number + 1}": bucket for number in range(limits)}
    config = {
        "listen": f"127.0.0.1:{port}",
        "admin": f"127.0.0.1:{free_port()}",
        "trusted_proxies": list(trusted),
        "store": store,
        "secret": "the comparison's own, of no use elsewhere",
        "limits": named,
        "routes": [{"path": "/**", "upstream": f"http://127.0.0.1:{run.upstream_port}", "limits": list(named)}],
        "headers": headers,
        "timeouts": {"idle": "1h"},
        "max_connections": 12_000,
        "log": {"access": access},
    }
    if tls:
        config["listen"] = {"address": config["listen"], "tls": {"cert": str(tls.certificate), "key": str(tls.key)}}
    if logs:
        del config["log"]
    if traces:
        # The API takes the spans, too.
        collector = f"http://127.0.0.1:{run.upstream_port}"
        config["tracing"] = {"otlp": collector, "sample": traces, "max_per_second": 10_000}
    if keys:
        config["clients"] = [{"api_key": {"keys": list(keys)}}, {"ip": {}}]
    file = run.folder / f"tidegate-{port}.yaml"
    file.write_text(json.dumps(config, indent=1), encoding="utf-8")  # JSON is YAML
    return [binary or run.binaries.gateway, "run", "-c", file], {}


def upstream(run, processes):
    """Starts the API behind all of them."""
    run.upstream_port = free_port()
    (run.folder / "megabyte").write_bytes(bytes(1_000_000))
    config = written(run, "upstream.conf", ADMITS, port=run.upstream_port)
    process = processes.start("upstream", pinned(run.cores.load, [run.programs["nginx"], "-c", config]))
    serves(process, run.upstream_port)
    return process


def redis(run, processes):
    """Starts a Redis for one measurement; returns the process and its port."""
    port = free_port()
    command = [run.programs["redis-server"], "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = processes.start("redis", pinned(run.cores.load, command + ["--dir", run.folder]))
    if not answers(process, port):
        raise Trouble(f"redis-server does not start: see {process.log}")
    return process, port


def pinned(cores, command):
    return ["taskset", "-c", ",".join(map(str, cores)), *command]


def serves(process, port, tls=None):
    """Waits until it answers a request, and fails if it ends instead."""
    address = f"http{'s' if tls else ''}://127.0.0.1:{port}{PATH}"
    trust = ssl.create_default_context(cafile=tls.certificate) if tls else None

    def it_does():
        if process.poll() is not None:
            text = process.log.read_text(encoding="utf-8", errors="replace")
            raise Trouble(f"{' '.join(map(str, process.args))} ended:\n{text}")
        return fetched(address, trust) is not None

    until(it_does, f"{Path(process.args[3]).name} does not answer: see {process.log}")


def written(run, template, limit, **values):
    """Writes a filled-in configuration to the run's folder, and returns its path."""
    text = (PEERS / template).read_text(encoding="utf-8")
    values |= {
        "folder": run.folder,
        "upstream": getattr(run, "upstream_port", ""),
        "capacity": limit.capacity,
        "rate": limit.rate,
        "ten_seconds": limit.capacity if limit is REFUSES else 10 * limit.rate,
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", str(value))
    file = run.folder / f"{values.get('port', 'any')}-{template}"
    file.write_text(text, encoding="utf-8")
    return file
