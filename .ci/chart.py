"""Checks of charts/tidegate: lint, a matrix of values, refused values, and the promises of examples/kubernetes. Run by .ci/chart."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml

TOP = Path(__file__).resolve().parent.parent
CHART = TOP / "charts" / "tidegate"
EXAMPLE = TOP / "examples" / "kubernetes"
# The oldest version that `kubeVersion` allows, and the newest that the checker has.
VERSIONS = ("1.30", "1.37")
# Kinds of other projects, which no schema of Kubernetes has, each with the keys that its `spec` must have.
FOREIGN = {
    "PodMonitor": {"selector", "podMetricsEndpoints", "jobLabel"},
    "ServiceMonitor": {"selector", "endpoints", "jobLabel"},
    "HTTPRoute": {"parentRefs", "rules"},
}

HASH = "sha256:" + "0" * 64
EXTERNAL = {"kind": "external", "url": "redis://tidegate:${REDIS_PASSWORD}@redis.example.com:6379"}

# The configuration of all sets of values, but for the keys that a set has itself.
CONFIG = {
    "limits": {"per-client": {"token_bucket": {"capacity": 20, "refill": "10/s"}}},
    "routes": [{"name": "api", "path": "/**", "upstream": "http://api:9000", "limits": ["per-client"]}],
}
# The template of an alert, which is no template of Helm.
SUMMARY = "{{ $labels.pod }} is down"
NAME, INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"

# Values by name. Each must render, validate, and give a gateway.yaml that `tidegate check` accepts.
GOOD = {
    "defaults": {},
    "one gateway in memory": {"replicas": 1, "redis": {"kind": "none"}, "podDisruptionBudget": {"enabled": False}},
    "external Redis": {"redis": EXTERNAL},
    "external Redis, its URL from a Secret": {"redis": {"kind": "external", "urlSecret": {"name": "redis", "key": "url"}}},
    "Redis with TLS and a private authority": {
        "redis": {
            "kind": "external",
            "url": "rediss://tidegate:${REDIS_PASSWORD}@redis.example.com:6380",
            "settings": {"mode": "leased", "tls": {"ca": "/etc/redis-ca/ca.crt"}},
        },
        "extraVolumes": [{"name": "redis-ca", "configMap": {"name": "redis-ca"}}],
        "extraVolumeMounts": [{"name": "redis-ca", "mountPath": "/etc/redis-ca", "readOnly": True}],
    },
    "Redis without persistence": {"redis": {"persistence": {"enabled": False}, "maxmemoryMB": 64}},
    "a prefix of keys": {"redis": {"settings": {"key_prefix": "edge"}}},
    "behind an ingress controller": {
        "config": {"trusted_proxies": ["10.244.0.0/16"]},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"example.com/note": "yes"},
            "hosts": [{"host": "api.example.com", "paths": [{"path": "/"}, {"path": "/v2", "pathType": "Exact"}]}],
            "tls": [{"secretName": "api-tls", "hosts": ["api.example.com"]}],
        },
        "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}]},
    },
    "behind the Gateway API": {
        "httpRoute": {
            "enabled": True,
            "parentRefs": [{"name": "public", "namespace": "gateways"}],
            "hostnames": ["api.example.com"],
            "filters": [{"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["Server"]}}],
        },
    },
    "IPv6": {"listenAddress": "[::]", "tls": {"secretName": "api-tls"}},
    "Redis by sentinels": {
        "redis": {
            "kind": "external",
            "url": "redis-sentinel://tidegate:${REDIS_PASSWORD}@s1,s2,s3?sentinelServiceName=limits&sentinelPassword=${SENTINEL_PASSWORD}",
        },
        "extraEnv": [{"name": "SENTINEL_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "sentinels", "key": "password"}}}],
    },
    "a long name": {"fullnameOverride": "a-name-with-more-characters-than-kubernetes-allows-in-a-label"},
    "autoscaling by processor time": {"autoscaling": {"enabled": True}},
    "autoscaling by requests": {"autoscaling": {"enabled": True, "cpu": 0, "requestsPerSecond": 500, "behavior": {}}},
    "monitors": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}, "serviceMonitor": {"enabled": True}},
    "no policies": {"networkPolicy": {"enabled": False}, "serviceAccount": {"create": False}},
    "clients connect directly, with TLS": {
        "tls": {"secretName": "api-tls", "clientCa": "ca.crt", "clientCert": "optional"},
        "service": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
    },
    "tokens with roles": {"admin": {"tokens": [{"name": "alice", "hash": HASH, "role": "write"}], "hosts": ["ops.example.com"]}},
    "no admin Service": {"admin": {"service": {"enabled": False}}},
    "a configuration of its own": {
        "config": {
            "clients": [{"api_key": {"keys_file": "/etc/tidegate-keys/keys.yaml"}}, {"ip": {}}],
            "limits": {"daily": {"fixed_window": {"limit": 1000000, "window": "1d"}}},
            "routes": [{"path": "/**", "upstream": "http://${API_HOST}:9000", "limits": ["daily"]}],
            "timeouts": {"connect": "2s"},
            "max_memory": None,
        },
        "extraEnv": [{"name": "API_HOST", "value": "api.default.svc"}],
        "extraVolumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
        "extraVolumeMounts": [{"name": "keys", "mountPath": "/etc/tidegate-keys", "readOnly": True}],
    },
    "gateways in the zone of Redis": {
        "topologySpreadConstraints": [
            {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "topology.kubernetes.io/zone",
                            "labelSelector": {"matchLabels": {INSTANCE: "edge", "app.kubernetes.io/component": "redis"}},
                        },
                    }
                ]
            }
        },
    },
    "all that is about pods": {
        "nameOverride": "gate",
        "commonLabels": {"team": "edge", "app.kubernetes.io/version": "next"},
        "image": {"repository": "registry.example.com/tidegate", "digest": HASH, "pullSecrets": [{"name": "registry"}]},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d", "team": "pods"},
        "priorityClassName": "high",
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "preStopSeconds": 20,
        "drainSeconds": 120,
        "readinessPath": "/readyz",
        "extraEnvFrom": [{"secretRef": {"name": "more"}}],
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}, "data": {"summary": SUMMARY}},
            "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: {{ .Release.Name }}-second }",
        ],
    },
}

# Values that must be refused, each with a part of the message.
BAD = [
    ({"replica": 3}, "replica"),
    ({"replicas": "3"}, "/replicas"),
    ({"image": {"digest": "abc"}}, "/image/digest"),
    ({"config": {"routes": []}}, "config.routes is empty"),
    ({"commonLabels": {INSTANCE: "other"}}, "/commonLabels"),
    ({"podLabels": {NAME: "other"}}, "/podLabels"),
    ({"listenAddress": "127.0.0.1"}, "/listenAddress"),
    ({"config": {"listen": "0.0.0.0:80"}}, "written by the chart: set service, tls"),
    ({"config": {"store": "memory"}}, "written by the chart: set redis"),
    ({"config": {"admin": "0.0.0.0:1"}}, "written by the chart: set admin"),
    ({"config": {"secret": "x"}}, "written by the chart: set secrets.hashes"),
    ({"config": {"timeouts": {"drain": "5s"}}}, "written by the chart: set drainSeconds"),
    ({"redis": {"kind": "memory"}}, "/redis/kind"),
    ({"redis": {"kind": "external"}}, "set redis.url"),
    ({"redis": {"kind": "external", "url": "http://redis:6379"}}, "/redis/url"),
    ({"redis": {"kind": "external", "url": "redis://tidegate:hunter2@redis:6379"}}, "has a password"),
    ({"redis": {"kind": "external", "url": "redis://tidegate:$hunter2@redis:6379"}}, "has a password"),
    ({"redis": {"kind": "external", "url": "redis://tidegate:hun/t@er2@redis:6379"}}, "has a password"),
    ({"redis": {"kind": "external", "url": "redis://tidegate:${REDIS_PASSWORD:-hunter2}@redis:6379"}}, "has a password"),
    ({"redis": {"kind": "external", "url": "redis-sentinel://s1?sentinelServiceName=a&sentinelPassword=hunter2"}}, "has a password"),
    ({"redis": {"url": EXTERNAL["url"]}}, "need redis.kind: external"),
    ({"redis": {"urlSecret": {"name": "redis"}}}, "need redis.kind: external"),
    ({"redis": EXTERNAL | {"urlSecret": {"name": "redis"}}}, "exclude each other"),
    ({"redis": {"settings": {"timeout": 25}}}, "/redis/settings/timeout"),
    ({"redis": {"settings": {"on_failure": "ignore"}}}, "/redis/settings/on_failure"),
    ({"redis": {"kind": "none"}}, "replicas: 1"),
    ({"redis": {"maxmemoryMB": 1}}, "/redis/maxmemoryMB"),
    ({"secrets": {"hashes": {"name": ""}}}, "/secrets/hashes/name"),
    ({"secrets": {"adminToken": "secret-text"}}, "/secrets/adminToken"),
    ({"admin": {"tokens": [{"name": "alice", "token": "x"}]}}, "/admin/tokens"),
    ({"admin": {"service": {"enabled": False}}, "serviceMonitor": {"enabled": True}}, "admin.service.enabled"),
    ({"service": {"port": 80000}}, "/service/port"),
    ({"service": {"type": "ExternalName"}}, "/service/type"),
    ({"tls": {"clientCa": "ca.crt"}}, "tls.secretName"),
    ({"ingress": {"enabled": True}}, "/ingress/hosts"),
    ({"ingress": {"enabled": True, "hosts": [{"host": "https://api.example.com", "paths": [{"path": "/"}]}]}}, "/ingress/hosts"),
    ({"httpRoute": {"enabled": True}}, "/httpRoute/parentRefs"),
    ({"autoscaling": {"enabled": True, "cpu": 0}}, "without a metric"),
    ({"autoscaling": {"enabled": True, "minReplicas": 11}}, "above autoscaling.maxReplicas"),
    ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/podDisruptionBudget/maxUnavailable"),
    ({"drainSeconds": 0}, "/drainSeconds"),
    ({"readinessPath": "/"}, "/readinessPath"),
    ({"extraEnv": [{"value": "x"}]}, "/extraEnv"),
    ({"extraEnv": [{"name": "TIDEGATE_SECRET", "value": "x"}]}, "the chart sets TIDEGATE_SECRET"),
]

wrong = []


def must(is_so, sentence):
    if not is_so:
        wrong.append(sentence)


class Strict(yaml.SafeLoader):
    """Refuses a map in which a key occurs twice."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        must(len(keys) == len(set(keys)), f"a key occurs twice: {sorted(keys)}")
        return super().construct_mapping(node, deep)


def with_config(values):
    """Returns the values with a limit and a route, if they have none."""
    return values | {"config": CONFIG | values.get("config", {})}


def rendered(chart, values, name="edge"):
    """The objects of a release by kind and name."""
    objects = {}
    for path, text in chart.render(with_config(values), name=name, namespace="prod").items():
        if path.endswith(".txt"):
            continue
        for one in yaml.load_all(text, Strict):
            if one:
                key = one["kind"], one["metadata"]["name"]
                must(key not in objects, f"{key} is rendered twice")
                objects[key] = one
    return objects


def validate(case, objects):
    for (kind, name), one in objects.items():
        if kind in FOREIGN:
            missing = FOREIGN[kind] - set(one["spec"])
            must(not missing, f"{case}: {kind} {name} lacks {missing}")
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                must(False, f"{case}: {kind} {name} in {version}: {error.message}")


def gateway_of(objects):
    [deployment] = [one for (kind, _), one in objects.items() if kind == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return deployment, container


def connected(case, objects):
    """Names lead to objects: ports, selectors, volumes, variables."""
    deployment, container = gateway_of(objects)
    pods = [one["spec"]["template"] for one in objects.values() if one["kind"] in ("Deployment", "StatefulSet")]
    for template in pods:
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        labels = template["metadata"]["labels"].items()
        for (kind, name), one in objects.items():
            spec = one.get("spec", {})
            selector = spec.get("selector") if kind == "Service" else spec.get("podSelector", {}).get("matchLabels")
            if not selector or not selector.items() <= labels:
                continue
            asked = {port["targetPort"] for port in spec.get("ports", [])}
            asked |= {port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]}
            must(asked <= ports, f"{case}: {kind} {name} asks for {asked - ports}")
    for (kind, name), one in objects.items():
        if kind not in ("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
            continue
        spec = one["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        selector = selector.get("matchLabels", selector).items()
        must(any(selector <= pod["metadata"]["labels"].items() for pod in pods), f"{case}: {kind} {name} selects no pod")
    for constraint in deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]:
        selector = constraint.get("labelSelector", {}).get("matchLabels", {}).items()
        spread = selector and selector <= deployment["spec"]["template"]["metadata"]["labels"].items()
        must(spread, f"{case}: a topologySpreadConstraint selects no pod")
    for (kind, name), one in objects.items():
        if "app.kubernetes.io/managed-by" in one["metadata"].get("labels", {}):
            must(one["metadata"].get("namespace") == "prod", f"{case}: {kind} {name} has no namespace")
        # Its pods have a label of this name, "-" and a hash of ten characters.
        must(kind != "StatefulSet" or len(name) <= 63 - 11, f"{case}: the name of {kind} {name} is too long")
    volumes = {volume["name"] for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    must(mounts == volumes, f"{case}: volumes {volumes} and mounts {mounts}")
    given = {entry["name"] for entry in container["env"]}
    needed = set(re.findall(r"\$\{([A-Z_]+)\}", gateway_yaml(objects)))
    must(given == needed, f"{case}: gateway.yaml needs {needed}, and pods are given {given}")
    pod = deployment["spec"]["template"]["spec"]
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(yaml.safe_load(gateway_yaml(objects))["timeouts"]["drain"].removesuffix("s"))
    must(pod["terminationGracePeriodSeconds"] >= before + drain + 5, f"{case}: the grace period is too short")


def gateway_yaml(objects):
    [text] = [one["data"]["gateway.yaml"] for one in objects.values() if "gateway.yaml" in (one.get("data") or {})]
    return text


def accepted(case, objects, folder):
    """`tidegate check` of the configuration, with files in the place of those that pods mount."""
    text = gateway_yaml(objects)
    text = re.sub("/etc/(tidegate-tls|tidegate-keys|redis-ca)/", f"{folder}/", text)
    file = folder / "gateway.yaml"
    file.write_text(text, encoding="utf-8")
    variables = dict.fromkeys(re.findall(r"\$\{([A-Z_]+)\}", text), "0123456789abcdef" * 4)
    if "REDIS_URL" in variables:
        variables["REDIS_URL"] = "redis://redis.example.com:6379"
    check = subprocess.run(
        [os.environ["TIDEGATE_BINARY"], "check", "-c", file], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    must(check.returncode == 0, f"{case}: tidegate check: {check.stdout}{check.stderr}")
    warnings = [line for line in check.stdout.splitlines() if line.startswith("warning")]
    # About this machine, not about the chart.
    warnings = [line for line in warnings if "file descriptors" not in line]
    must(not warnings, f"{case}: tidegate check: {warnings}")


def certificate(folder):
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=api.example.com "
        f"-keyout {folder}/tls.key -out {folder}/tls.crt".split(),
        check=True,
        capture_output=True,
    )
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())
    (folder / "keys.yaml").write_text(f"- {{ name: acme, hash: '{HASH}' }}\n", encoding="utf-8")


def refused(chart):
    for values, part in BAD:
        try:
            chart.render(with_config(values), name="edge", namespace="prod")
            must(False, f"{values} is accepted")
        except helm.HelmError as error:
            must(part in str(error), f"{values}: the message lacks {part!r}: {error}")


def reloads(chart):
    """A key that a gateway reloads restarts no pod; a key that only a restart changes does."""
    before, _ = gateway_of(rendered(chart, {}))
    for values, restarts in (
        ({"config": {"limits": {"per-client": {"token_bucket": {"capacity": 9}}}}}, False),
        ({"config": {"trusted_proxies": ["10.0.0.0/8"]}}, False),
        ({"redis": {"settings": {"timeout": "50ms"}}}, True),
        ({"config": {"log": {"level": "debug"}}}, True),
    ):
        after, _ = gateway_of(rendered(chart, values))
        must((after != before) == restarts, f"{values} {'restarts no' if restarts else 'restarts'} pod")


def placed(chart):
    """Objects of values pass unchanged; labels and the place of pods are those of the values."""
    values = GOOD["all that is about pods"]
    objects = rendered(chart, values)
    must(objects["ConfigMap", "first"]["data"] == {"summary": SUMMARY}, "a map of extraObjects is rendered as a template")
    labels = gateway_of(objects)[0]["spec"]["template"]["metadata"]["labels"]
    must(labels["team"] == "pods", f"podLabels do not come before commonLabels: {labels}")
    [redis] = [one["spec"]["template"]["spec"] for (kind, _), one in objects.items() if kind == "StatefulSet"]
    for key in ("priorityClassName", "nodeSelector", "tolerations"):
        must(redis.get(key) == values[key], f"the bundled Redis has no {key}")
    must(redis.get("imagePullSecrets") == values["image"]["pullSecrets"], "the bundled Redis has no imagePullSecrets")
    hosts = yaml.safe_load(gateway_yaml(objects))["admin"]["hosts"]
    inside = "edge-gate-admin.prod"
    must({inside, f"{inside}.svc", f"{inside}.svc.cluster.local"} <= set(hosts), f"names of the admin Service are missing in {hosts}")


def promises(chart):
    """The promises of examples/kubernetes hold for the chart."""
    objects = rendered(chart, {"secrets": {}}, name="tidegate")
    example = {}
    for name in ("deployment", "redis", "disruption-budget"):
        for one in yaml.safe_load_all((EXAMPLE / f"{name}.yaml").read_text(encoding="utf-8")):
            example[one["kind"]] = one
    ours, container = gateway_of(objects)
    theirs, model = gateway_of({("Deployment", ""): example["Deployment"]})
    for key in ("strategy", "minReadySeconds", "replicas"):
        must(ours["spec"][key] == theirs["spec"][key], f"the gateway's {key} is not that of the example")
    for key in ("args", "ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "resources", "securityContext"):
        must(container[key] == model[key], f"the gateway's {key} is not that of the example")
    pods = [one["spec"]["template"]["spec"] for one in (ours, theirs)]
    for key in ("terminationGracePeriodSeconds", "automountServiceAccountToken"):
        must(pods[0][key] == pods[1][key], f"the pod's {key} is not that of the example")
    spread = [[(one["topologyKey"], one["whenUnsatisfiable"]) for one in pod["topologySpreadConstraints"]] for pod in pods]
    must(spread[0] == spread[1], "pods are not spread as in the example")
    redis = objects["StatefulSet", "tidegate-redis"]["spec"]["template"]["spec"]
    model = example["StatefulSet"]["spec"]["template"]["spec"]
    must(redis["securityContext"] == model["securityContext"], "the securityContext of Redis is not that of the example")
    redis, model = redis["containers"][0], model["containers"][0]
    for key in ("image", "command", "env", "livenessProbe", "resources", "securityContext"):
        must(redis[key] == model[key], f"the {key} of Redis is not that of the example")
    conf = objects["ConfigMap", "tidegate-redis"]["data"]["redis.conf"]
    directives = [
        {line for line in text.splitlines() if line and not line.startswith("#")}
        for text in (conf, (EXAMPLE / "redis.conf").read_text(encoding="utf-8"))
    ]
    must(directives[0] == directives[1], f"redis.conf differs from the example: {directives[0] ^ directives[1]}")


def leaves(values, before=""):
    """The names of values as README.md has them: `config` as a whole, and no part of an empty map."""
    for key, value in values.items():
        name = f"{before}{key}"
        whole = name == "config" or name in ("redis.settings", "resources", "redis.resources", "autoscaling.behavior")
        if isinstance(value, dict) and value and not whole and set(value) != {"name", "key"}:
            yield from leaves(value, f"{name}.")
        else:
            yield name


def documented(chart):
    rows = set()
    for line in re.findall(r"^\| (`[^|]*) \|", (CHART / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        rows |= set(re.findall(r"`([a-zA-Z.]+)`", line))
    values = set(leaves(chart.values))
    must(rows == values, f"README.md of the chart: undocumented {values - rows}, unknown {rows - values}")
    cargo = (TOP / "Cargo.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.*)"$', cargo, re.MULTILINE)[1]
    must(chart.version == version == chart.metadata["appVersion"], f"the chart is {chart.version}, and the workspace {version}")


def main():
    if sys.argv[1:2] == ["--render"]:
        with helm.Chart.load(CHART) as chart:
            values = yaml.safe_load(Path(sys.argv[2]).read_text(encoding="utf-8")) if sys.argv[2:] else {}
            for text in chart.render(with_config(values), name="tidegate", namespace="default").values():
                print(text)
        return
    for case, values in GOOD.items():
        report = helm.lint(CHART, with_config(values), strict=True, kube_version=f"v{VERSIONS[0]}.0")
        # Severity 1 is advice, such as an icon.
        must(not report["errors"], f"{case}: lint: {report['errors']}")
        for message in report["messages"]:
            must(message["severity"] <= 1, f"{case}: lint: {message['error']}")
    with helm.Chart.load(CHART) as chart, tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        certificate(folder)
        for case, values in GOOD.items():
            objects = rendered(chart, values)
            validate(case, objects)
            connected(case, objects)
            accepted(case, objects, folder)
        refused(chart)
        reloads(chart)
        placed(chart)
        promises(chart)
        documented(chart)
    for sentence in wrong:
        print(f"not so: {sentence}")
    print(f"{len(wrong)} faults" if wrong else f"chart: {len(GOOD)} sets of values rendered and accepted, {len(BAD)} refused")
    sys.exit(bool(wrong))


main()
