"""What .ci/openapi runs: a gateway with a listener for decisions, and tools that read its OpenAPI document. Each check is one line.

schemathesis makes calls from the document, and compares the answers with the document. Most of its calls name limits that do not exist.
A second run therefore names the limits, routes and clients of the gateway only, and the gateway must accept each of its calls.
"""

import copy
import hashlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True

from openapi_spec_validator import OpenAPIV31SpecValidator

DOCUMENT = Path(__file__).parent.parent / "crates" / "doors" / "openapi.json"
TOOLS = Path(sys.executable).parent
TOKEN = "a-token-for-decisions"
SECONDS = 60

# The names of the document's examples, and a limit of each kind.
CONFIGURATION = """
listen: 127.0.0.1:0
admin: 127.0.0.1:0
log: { format: json }
trusted_proxies: [127.0.0.1]
decisions: { listen: "127.0.0.1:%d", token: %s }
clients:
  - api_key: { keys: [{ name: acme, hash: "sha256:%s" }, { name: shut, hash: "sha256:%s" }], unknown: reject }
  - user_id: { header: X-User-Id }
  - ip: {}
deny: ["api_key:shut"]
limits:
  login: { fixed_window: { limit: 3, window: 1h }, per: [ip] }
  daily: { token_bucket: { capacity: 1000, refill: 1000/d } }
  month: { fixed_window: { limit: 100000, window: 1mo } }
  exact: { sliding_window_log: { limit: 50, window: 1m } }
  about: { sliding_window_counter: { limit: 50, window: 1m }, per: [] }
  queue: { leaky_bucket: { queue: 10, drain: 2/s } }
  blocked: { fixed_window: { limit: 2, window: 1s }, block: 1h, per: [ip] }
  watched: { fixed_window: { limit: 1, window: 1h }, action: observe }
  late: { fixed_window: { limit: 5, window: 1s }, action: { delay: { max: 2s } } }
  user: { fixed_window: { limit: 5, window: 1h }, per: [user_id] }
  key: { fixed_window: { limit: 5, window: 1h }, per: [api_key] }
  tenant: { fixed_window: { limit: 5, window: 1h }, per: ["header:X-Tenant", "cookie:c", "query:q", "path:p", method, host] }
  device: { fixed_window: { limit: 5, window: 1h }, per: ["descriptor:device"] }
  jobs: { concurrency: { limit: 50 } }
  single: { concurrency: { limit: 1 }, per: [] }
  failures: { fixed_window: { limit: 100, window: 1h }, count: { status: [4xx] } }
  tokens: { token_bucket: { capacity: 5000, refill: 5000/h }, cost: { response_json: usage.total_tokens, reserve: 100 } }
routes:
  - { name: pages, path: /pages/**, upstream: "http://127.0.0.1:1", limits: [daily, exact] }
"""
PLAIN = ["login", "daily", "month", "exact", "about", "queue", "blocked", "watched", "late", "user", "key", "tenant", "device"]
HOLDING = ["jobs", "failures", "tokens"]
CLIENTS = ["api_key:acme", "api_key:shut", "user_id:u-17", "ip:203.0.113.7", "2001:db8::7"]
PER = {
    "ip": "203.0.113.7",
    "api_key": "acme",
    "user_id": "u-17",
    "method": "GET",
    "host": "www.example.com",
    "header:X-Tenant": "t1",
    "cookie:c": "c1",
    "query:q": "q1",
    "path:p": "p1",
    "descriptor:device": "d1",
}

# A wrong name is 400, and the document cannot list the names. /v1/ask accepts all methods, and with `refuse=403` most refusals are 403.
AS_WRITTEN = """
continue-on-failure = true
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "400"]
[[operations]]
include-path = "/v1/ask"
checks.unsupported_method.enabled = false
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "403", "429"]
"""
AS_CONFIGURED = """
continue-on-failure = true
[checks]
positive_data_acceptance.expected-statuses = ["200"]
"""


class Gateway:
    """A gateway with the limits above, on ports that the system picks."""

    def __init__(self, binary, folder):
        with socket.create_server(("127.0.0.1", 0)) as picked:
            port = picked.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        hashes = [hashlib.sha256(key).hexdigest() for key in (b"acme", b"shut")]
        config = folder / "gateway.yaml"
        config.write_text(CONFIGURATION % (port, TOKEN, *hashes))
        self.process = subprocess.Popen([binary, "run", "-c", config], stderr=subprocess.PIPE, text=True)
        lines = iter(self.process.stderr.readline, "")
        seen = []
        for line in lines:
            seen.append(line)
            if "admin port" in line:
                break
        else:
            sys.exit("".join(seen))
        threading.Thread(target=lambda: [None for _ in lines], daemon=True).start()
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "the listener for decisions is not open"
                time.sleep(0.05)

    def call(self, path, body=None, **headers):
        body = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            answer = urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.headers, json.loads(answer.read())

    def served(self):
        status, headers, document = self.call("/v1/openapi.json", Authorization=f"Bearer {TOKEN}")
        assert status == 200 and headers["Content-Type"] == "application/json", (status, headers)
        return document


def document(gateway):
    """the document is served as it is written, and is valid OpenAPI 3.1"""
    served = gateway.served()
    assert served == json.loads(DOCUMENT.read_text()), "the binary serves another document"
    errors = list(OpenAPIV31SpecValidator(served).iter_errors())
    assert not errors, errors
    operations = [operation for path in served["paths"].values() for operation in path.values()]
    names = {operation["operationId"] for operation in operations}
    assert names == {"look", "check", "settle", "ask", "getDocument"}, names
    sentences = [sentence for text in texts(served) for sentence in re.split(r"(?<=[.!?])\s+|\n", text)]
    long = [sentence for sentence in sentences if len(sentence.split()) > 25]
    assert not long, long


def texts(node):
    """Returns all descriptions and summaries."""
    if isinstance(node, list):
        return [text for part in node for text in texts(part)]
    if not isinstance(node, dict):
        return []
    own = [node[name] for name in ("description", "summary") if isinstance(node.get(name), str)]
    return own + [text for part in node.values() for text in texts(part)]


def doors(gateway):
    """calls without the token, with a wrong token, and of web pages are refused as the document says"""
    for headers, status, error in [
        ({}, 401, "decisions_token_needed"),
        ({"Authorization": "Bearer wrong"}, 401, "decisions_token_wrong"),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://www.example.com"}, 403, "not_for_pages"),
    ]:
        answer = gateway.call("/v1/check?limit=daily&client=api_key:acme", **headers)
        assert (answer[0], answer[2]["error"]) == (status, error), answer
        assert status != 401 or answer[1].get("WWW-Authenticate", "").startswith("Bearer"), answer[1].items()


def forbidden(gateway):
    """calls that schemathesis does not make: arrays in place of objects, and parameters that are there twice"""
    allowed = {"limits": ["about"], "cost": 1}
    for path, body, status in [
        ("/v1/check", {"checks": [allowed]}, 200),
        ("/v1/check", [[allowed]], 400),
        ("/v1/check", {"checks": [[["about"]]]}, 400),
        ("/v1/settle", {"settlements": [{"receipt": "x"}]}, 200),
        ("/v1/settle", [[{"receipt": "x"}]], 400),
        ("/v1/settle", {"settlements": [["x"]]}, 400),
        ("/v1/check?limit=about&cost=1", None, 200),
        ("/v1/check?limit=about&cost=1&cost=2", None, 400),
        ("/v1/check?route=pages&route=pages&client=api_key:acme", None, 400),
        ("/v1/check?limit=daily&client=api_key:acme&client=user_id:u-17", None, 400),
        ("/v1/check?limit=login&per=ip%3D203.0.113.7&per=ip%3D203.0.113.8", None, 400),
    ]:
        answer = gateway.call(path, body, **{"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
        assert answer[0] == status, (path, body, answer[0], answer[2])


def as_written(gateway):
    """schemathesis: calls that the document allows, and calls that it forbids"""
    served = gateway.served()
    # This gateway has a token, so it is needed.
    served["security"] = [{"bearer": []}]
    return schemathesis(gateway, served, AS_WRITTEN, "all")


def as_configured(gateway):
    """schemathesis: calls with the limits, routes and clients of the gateway, which are all accepted"""
    served = gateway.served()
    served["security"] = [{"bearer": []}]
    del served["paths"]["/v1/ask"]
    schemas = served["components"]["schemas"]
    per = {
        "type": "object",
        "properties": {name: {"enum": [value, value + "x" if ":" in name else value]} for name, value in PER.items()},
        "required": list(PER),
        "additionalProperties": False,
    }
    # Listed, because 5.0 is an integer of JSON Schema, too, and the gateway refuses it.
    hold, cost = {"enum": [1, 60, 3600]}, {"enum": [1, 5, 1000, 2**53 - 1, None]}
    schemas["Settlement"]["properties"]["cost"] = {"enum": [0, *cost["enum"]]}
    check = schemas["Check"]
    for name in ("if", "then", "else"):
        del check[name]
    check["properties"] |= {"client": {"enum": CLIENTS}, "per": per, "cost": cost}
    check["required"] = ["client", "per"]

    def variant(without, required, **properties):
        made = copy.deepcopy(check)
        made["properties"] |= properties
        made["required"] += required
        for name in without:
            del made["properties"][name]
        return made

    def limits(names):
        return {"type": "array", "minItems": 1, "maxItems": 16, "uniqueItems": True, "items": {"enum": names}}

    schemas["Check"] = {
        "anyOf": [
            variant(["route", "hold"], ["limits"], limits=limits(PLAIN)),
            variant(["route"], ["limits", "hold"], limits=limits(HOLDING), hold=hold),
            variant(["limits", "hold"], ["route"], route={"const": "pages"}),
        ]
    }
    look = served["paths"]["/v1/check"]["get"]
    look["parameters"] = [parameter for parameter in look["parameters"] if parameter["name"] != "route"]
    every = [f"{name}={value}" for name, value in PER.items()]
    for parameter in look["parameters"]:
        match parameter["name"]:
            case "limit":
                parameter |= {"required": True, "schema": limits(PLAIN + HOLDING)}
            case "client":
                parameter |= {"required": True, "schema": {"enum": CLIENTS}}
            case "per":
                del parameter["example"]
                parameter |= {"required": True, "schema": {"enum": [every, every[::-1]]}}
    return schemathesis(gateway, served, AS_CONFIGURED, "positive")


def schemathesis(gateway, served, settings, mode):
    file = gateway.folder / "openapi.json"
    file.write_text(json.dumps(served))
    config = gateway.folder / "schemathesis.toml"
    config.write_text(settings)
    command = [TOOLS / "schemathesis", "--config-file", config, "run", file, "--url", gateway.url, "--mode", mode]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--max-time", str(gateway.seconds), "--no-color"]
    command += ["--generation-database", "none", "--output-truncate", "false"]
    found = subprocess.run(command, cwd=gateway.folder, capture_output=True, text=True, timeout=2 * gateway.seconds + 300)
    counted = re.search(r"(\d+) generated", found.stdout)
    assert found.returncode == 0 and counted, found.stdout + found.stderr
    assert gateway.process.poll() is None, "the gateway has ended"
    return f"{counted[1]} calls"


def client(gateway):
    """a generated Python client: check, hold, settle, look, and a refused call"""
    file = gateway.folder / "client.json"
    file.write_text(json.dumps(gateway.served()))
    config = gateway.folder / "client.yaml"
    config.write_text("post_hooks: []\n")
    command = [TOOLS / "openapi-python-client", "generate", "--path", file, "--config", config, "--meta", "none"]
    command += ["--output-path", gateway.folder / "decisions", "--fail-on-warning"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr
    sys.path.insert(0, str(gateway.folder))

    from decisions import AuthenticatedClient, Client
    from decisions.api.decisions import check, look, settle
    from decisions.models import Check, CheckCall, PerValues, Problem, SettleCall, Settlement

    caller = AuthenticatedClient(base_url=gateway.url, token=TOKEN)

    def asked(**question):
        return check.sync(client=caller, body=CheckCall(checks=[Check(**question)])).results[0]

    def settled(receipt, **cost):
        body = SettleCall(settlements=[Settlement(receipt=receipt, **cost)])
        return settle.sync(client=caller, body=body).results[0]

    # An address and a client that no other check of this script names.
    address = PerValues(ip="198.51.100.77")
    found = [asked(limits=["login"], per=address) for _ in range(4)]
    assert [result.admitted for result in found] == [True, True, True, False], found
    assert found[3].refused_by == ["login"] and 1 <= found[3].retry_after <= 3600, found[3]
    assert found[3].limits[0].reset > time.time() and found[3].decided_by in ("store", "remembered"), found[3]

    tenant = {**PER, "header:X-Tenant": "of the client"}
    assert asked(limits=["tenant"], per=PerValues.from_dict(tenant)).limits[0].remaining == 4

    user = "user_id:of the client"
    held = asked(limits=["tokens"], client=user, cost=500, hold=60)
    assert held.admitted and held.limits[0].remaining == 4500, held
    assert settled(held.receipt, cost=312).settled
    again = settled(held.receipt, cost=312)
    assert not again.settled and again.error == "unknown_receipt", again
    seen = look.sync(client=caller, limit=["tokens", "daily"], client_query=user, cost=5)
    assert seen.admitted and [limit.remaining for limit in seen.limits] == [4688, 1000], seen

    running = asked(limits=["single"], hold=60)
    assert running.admitted and not asked(limits=["single"], hold=60).admitted, running
    assert settled(running.receipt).settled and asked(limits=["single"], hold=1).admitted

    costly = asked(limits=["daily"], client=user, cost=2000)
    assert not costly.admitted and costly.error == "cost_exceeds_limit", costly
    wrong = check.sync(client=caller, body=CheckCall(checks=[Check(limits=["hourly"], client=user)]))
    assert isinstance(wrong, Problem) and (wrong.status, wrong.error) == (400, "unknown_limit"), wrong
    stranger = look.sync(client=Client(base_url=gateway.url), limit=["daily"], client_query=user)
    assert isinstance(stranger, Problem) and stranger.error == "decisions_token_needed", stranger


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(sys.argv[1], Path(folder))
        # Two runs of schemathesis.
        gateway.seconds = max(int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS, 2) // 2
        try:
            for check in (document, client, doors, forbidden, as_configured, as_written):
                counted = check(gateway)
                print("ok:", check.__doc__, f"({counted})" if counted else "", flush=True)
        finally:
            gateway.process.kill()
