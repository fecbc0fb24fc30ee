"""What no schema says of examples/kubernetes and examples/compose: that what they point at is there, and that their numbers
fit each other; and that each alert of examples/observability has tests. Run by .ci/deployments."""

import re
import sys
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
KUBERNETES = TOP / "examples" / "kubernetes"
COMPOSE = TOP / "examples" / "compose"
# A version to the last figure: what is deployed tomorrow is what was tried today.
VERSION = re.compile(r":v?\d+\.\d+\.\d+")

wrong = []


def must(is_so, sentence):
    if not is_so:
        wrong.append(sentence)


def read(path):
    return (TOP / path).read_text(encoding="utf-8")


def found(pattern, text):
    return re.search(pattern, text, re.MULTILINE)[1]


def variables(configuration):
    """The environment variables that a gateway's configuration cannot do without."""
    lines = [line.split("#")[0] for line in configuration.splitlines()]
    return set(re.findall(r"\$\{([A-Z_]+)\}", "\n".join(lines)))


def kubernetes():
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "gateway.yaml"}
    objects = {}
    for name in sorted(files):
        for one in yaml.safe_load_all((KUBERNETES / name).read_text()):
            objects[one["kind"], one["metadata"]["name"]] = one
    gateways, redis = objects["Deployment", "tidegate"], objects["StatefulSet", "redis"]

    configmaps = kustomized(kustomization, files, objects)
    for owner in (gateways, redis):
        selected(owner, objects)
        connected(owner, objects)
        mounted(owner, configmaps)
    gateway_is_configured(gateways)
    updates_lose_nothing(gateways)
    redis_keeps_limits(redis)
    [container] = gateways["spec"]["template"]["spec"]["containers"]
    images = [image["name"] for image in kustomization["images"]]
    must(images == [container["image"]], "kustomization.yaml does not say where the gateway's image is")


def kustomized(kustomization, files, objects):
    """There is no schema of it here. Gives the ConfigMaps that it makes, by their names."""
    known = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images"}
    must(set(kustomization) == known, f"kustomization.yaml: unexpected or missing {set(kustomization) ^ known}")
    listed = set(kustomization["resources"])
    must(listed == files, f"kustomization.yaml lists {listed}, and there are {files}")
    must(("Namespace", kustomization["namespace"]) in objects, "nothing makes the namespace")
    made = {one["name"]: one for one in kustomization["configMapGenerator"]}
    for one in made.values():
        for file in one["files"]:
            must((KUBERNETES / file).exists(), f"there is no {file}")
    must(made["tidegate"]["files"] == ["gateway.yaml"], "the ConfigMap is not the gateway.yaml that is checked")
    must(made["tidegate"]["options"]["disableNameSuffixHash"], "a changed ConfigMap would be another, and reach no pod")
    return made


def selected(owner, objects):
    """All that is named like it selects its pods."""
    name, labels = owner["metadata"]["name"], owner["spec"]["template"]["metadata"]["labels"]
    for (kind, of), one in objects.items():
        if of == name and "spec" in one:
            selector = one["spec"].get("selector") or one["spec"].get("podSelector")
            must(selector.get("matchLabels", selector) == labels, f"{kind} {of} selects {selector}")


def connected(owner, objects):
    """Ports are named as the pods name them."""
    name = owner["metadata"]["name"]
    [container] = owner["spec"]["template"]["spec"]["containers"]
    asked = {port["targetPort"] for port in objects["Service", name]["spec"]["ports"]}
    for rule in objects["NetworkPolicy", name]["spec"]["ingress"]:
        asked |= {port["port"] for port in rule["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked |= {how["port"] for how in container[probe].values() if isinstance(how, dict) and "port" in how}
    unknown = asked - {port["name"] for port in container["ports"]}
    must(not unknown, f"{name}: no pod has a port named {unknown}")


def mounted(owner, configmaps):
    """Volumes, and the keys of the Secret that README.md makes, are there."""
    name, pod = owner["metadata"]["name"], owner["spec"]["template"]["spec"]
    [container] = pod["containers"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", [])}
    for mount in container["volumeMounts"]:
        must(mount["name"] in volumes, f"{name}: there is no volume {mount['name']}")
        must("subPath" not in mount, f"{name}: what is mounted by subPath never changes")
    for volume in pod["volumes"]:
        must(volume["configMap"]["name"] in configmaps, f"{name}: nothing makes the ConfigMap of {volume['name']}")
    keys = re.findall(r"--from-literal=([a-z-]+)=", read("examples/kubernetes/README.md"))
    for entry in container["env"]:
        key = entry.get("valueFrom", {}).get("secretKeyRef", {}).get("key")
        must(key is None or key in keys, f"{name}: README.md's Secret has no {key}")


def gateway_is_configured(deployment):
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    given, needed = {entry["name"] for entry in container["env"]}, variables(read("examples/kubernetes/gateway.yaml"))
    must(given == needed, f"gateway.yaml needs {needed}, and pods are given {given}")
    path = container["args"][container["args"].index("--config") + 1]
    folders = [mount["mountPath"] for mount in container["volumeMounts"]]
    must(path in [f"{folder}/gateway.yaml" for folder in folders], f"no ConfigMap is mounted at {path}")


def updates_lose_nothing(deployment):
    must(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0, "a pod goes before another is there")
    pod = deployment["spec"]["template"]["spec"]
    before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(found(r"drain: Some\(Duration::from_secs\((\d+)\)\)", read("crates/config/src/bounds/timeouts.rs")))
    grace = pod["terminationGracePeriodSeconds"]
    must(grace >= before + drain + 5, f"{grace} s are too short for {before} s of preStop and {drain} s of draining")


def redis_keeps_limits(owner):
    conf = read("examples/kubernetes/redis.conf")
    [container] = owner["spec"]["template"]["spec"]["containers"]
    must("\nmaxmemory-policy noeviction\n" in conf, "Redis may evict limits")
    room = int(found(r"^maxmemory (\d+)mb$", conf))
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    must(limit >= 2 * room, f"{limit} MiB are too little for {room} MB of limits and a copy of what changes")
    [commands] = [entry["value"] for entry in container["env"] if entry["name"] == "GATEWAY_COMMANDS"]
    documented = found(r"ACL SETUSER gateway on >password ~tidegate:\* (.*)", read("lua/README.md"))
    must(commands.split() == documented.split(), "the commands that Redis allows are not those of lua/README.md")
    must(VERSION.search(container["image"]), f"{container['image']} has no version")


def compose():
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", read("Dockerfile"), re.MULTILINE))
    for name, service in services.items():
        for mount in service.get("volumes", []):
            source = COMPOSE / mount.split(":")[0]
            must(source.exists(), f"{name} mounts {source}, which does not exist")
        if "build" in service:
            built = service["build"]
            must((COMPOSE / built["context"] / "Dockerfile").exists(), f"{name} is built from nothing")
            must(built.get("target") in stages | {None}, f"the Dockerfile has no {built.get('target')}")
        else:
            must(VERSION.search(service["image"]), f"{service['image']} has no version")
        for needed in service.get("depends_on", {}):
            must(needed in services, f"{name} depends on {needed}, which is no service")
        for port in service.get("ports", []):
            must(port.startswith("127.0.0.1:"), f"{name} opens {port} to everybody")

    asked = re.findall(r"(?:http|redis)://([a-z-]+):\d", read("examples/compose/gateway.yaml"))
    asked += re.findall(r'"([a-z-]+):\d', read("examples/compose/prometheus.yml"))
    asked += re.findall(r"http://([a-z-]+):\d", read("examples/compose/grafana/datasource.yaml"))
    must(len(asked) == 4 and set(asked) <= set(services), f"not all of {asked} are services")
    published = [port.split(":")[-1] for port in services["gateway"]["ports"]]
    must(published == ["8080", "9901"], f"the gateway publishes {published}, without the API or the status page")
    must("token:" in read("examples/compose/gateway.yaml"), "the status page answers 403 without a token")
    must("token:" in read("examples/kubernetes/gateway.yaml"), "the status page answers 403 without a token")
    needed, given = variables(read("examples/compose/gateway.yaml")), services["gateway"]["environment"]
    must(needed <= set(given), f"gateway.yaml needs {needed}")


def alerts():
    """Each alert has a test in which it fires and one in which it does not."""
    [group] = yaml.safe_load(read("examples/observability/alerts.yml"))["groups"]
    fires, quiet = set(), set()
    for case in yaml.safe_load(read("examples/observability/alerts_test.yml"))["tests"]:
        for test in case["alert_rule_test"]:
            (fires if test["exp_alerts"] else quiet).add(test["alertname"])
    documented = set(re.findall(r"^\| (`.*?`) \|", read("examples/observability/README.md"), re.MULTILINE))
    documented = {name for names in documented for name in re.findall(r"`(\w+)`", names)}
    for alert in (rule["alert"] for rule in group["rules"]):
        must(alert in fires, f"no test in which {alert} fires")
        must(alert in quiet, f"no test in which {alert} does not fire")
        must(alert in documented, f"README.md of examples/observability does not list {alert}")


kubernetes()
compose()
alerts()
for sentence in wrong:
    print(f"not so: {sentence}")
print(f"{len(wrong)} faults" if wrong else "deployments: what they point at is there, and their numbers fit")
sys.exit(bool(wrong))
