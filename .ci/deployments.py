"""What no schema says of examples/kubernetes and examples/compose: that what they point at is there, and that their numbers
fit each other. Run by .ci/deployments."""

import re
import sys
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
KUBERNETES = TOP / "examples" / "kubernetes"
COMPOSE = TOP / "examples" / "compose"

wrong = []


def must(is_so, sentence):
    if not is_so:
        wrong.append(sentence)


def variables(text):
    """The environment variables that a gateway's configuration cannot do without."""
    lines = (line.split("#")[0] for line in text.splitlines())
    return set(re.findall(r"\$\{([A-Z_]+)\}", "\n".join(lines)))


def kubernetes():
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    known = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images"}
    must(set(kustomization) == known, f"kustomization.yaml has {set(kustomization) ^ known}")
    listed = set(kustomization["resources"])
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "gateway.yaml"}
    must(listed == there, f"kustomization.yaml lists {listed}, and there are {there}")

    objects = {}
    for name in sorted(there):
        for one in yaml.safe_load_all((KUBERNETES / name).read_text()):
            objects[one["kind"], one["metadata"]["name"]] = one
    pods = {
        name: objects[kind, name]["spec"]["template"]
        for kind, name in [("Deployment", "tidegate"), ("StatefulSet", "redis")]
    }
    must(("Namespace", kustomization["namespace"]) in objects, "the namespace is not made")

    made = {one["name"]: one for one in kustomization["configMapGenerator"]}
    must(made["tidegate"]["files"] == ["gateway.yaml"], "the ConfigMap is not the gateway.yaml that is checked")
    must(made["tidegate"]["options"]["disableNameSuffixHash"], "a changed ConfigMap would have another name")
    for one in made.values():
        for file in one["files"]:
            must((KUBERNETES / file).exists(), f"there is no {file}")

    secrets = re.findall(r"--from-literal=([a-z-]+)=", (KUBERNETES / "README.md").read_text())
    for name, pod in pods.items():
        [container] = pod["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            for how in ("httpGet", "tcpSocket"):
                port = container[probe].get(how, {}).get("port")
                must(port is None or port in ports, f"{name}: {probe} asks port {port}")
        for kind, of in objects:
            spec = objects[kind, of].get("spec", {})
            selected = spec.get("selector") if kind == "Service" else None
            if kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
                selected = spec["selector"]["matchLabels"]
            if kind == "NetworkPolicy":
                selected = spec["podSelector"]["matchLabels"]
            if of == name and selected is not None:
                must(selected == pod["metadata"]["labels"], f"{kind} {of} selects {selected}")
            if of == name and kind == "Service":
                must({port["targetPort"] for port in spec["ports"]} <= ports, f"Service {of} has a port that no pod has")
            if of == name and kind == "NetworkPolicy":
                allowed = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
                must(allowed <= ports, f"NetworkPolicy {of} has a port that no pod has: {allowed}")
        for entry in container["env"]:
            key = entry.get("valueFrom", {}).get("secretKeyRef", {}).get("key")
            must(key is None or key in secrets, f"{name}: README.md's Secret has no {key}")
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        claims = {claim["metadata"]["name"] for claim in objects.get(("StatefulSet", name), {"spec": {}})["spec"].get("volumeClaimTemplates", [])}
        for mount in container["volumeMounts"]:
            must(mount["name"] in volumes.keys() | claims, f"{name}: there is no volume {mount['name']}")
            must("subPath" not in mount, f"{name}: what is mounted by subPath never changes")
        for volume in volumes.values():
            must(volume["configMap"]["name"] in made, f"{name}: nobody makes the ConfigMap of {volume['name']}")

    gateway = pods["tidegate"]["spec"]
    [container] = gateway["containers"]
    given = {entry["name"] for entry in container["env"]}
    needed = variables((KUBERNETES / "gateway.yaml").read_text())
    must(needed <= given, f"gateway.yaml needs {needed - given}, which pods are not given")
    must(needed == given, f"pods are given {given - needed}, which gateway.yaml does not use")
    path = container["args"][container["args"].index("--config") + 1]
    mounted = {f"{mount['mountPath']}/gateway.yaml" for mount in container["volumeMounts"]}
    must(path in mounted, f"{path} is not where the ConfigMap is mounted")
    drain = int(re.search(r"const DRAIN: Duration = Duration::from_secs\((\d+)\)", (TOP / "crates/gateway/src/server/mod.rs").read_text())[1])
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = gateway["terminationGracePeriodSeconds"]
    must(grace >= before + drain + 5, f"{grace} s are too short for {before} s of preStop and {drain} s of draining")
    strategy = objects["Deployment", "tidegate"]["spec"]["strategy"]["rollingUpdate"]
    must(strategy["maxUnavailable"] == 0, "a rolling update takes a pod away before another is there")
    must(
        [image["name"] for image in kustomization["images"]] == [container["image"]],
        "kustomization.yaml does not say where the gateway's image is",
    )

    redis = (KUBERNETES / "redis.conf").read_text()
    must("\nmaxmemory-policy noeviction\n" in redis, "Redis may evict limits")
    [container] = pods["redis"]["spec"]["containers"]
    room = int(re.search(r"^maxmemory (\d+)mb$", redis, re.MULTILINE)[1])
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    must(limit >= 2 * room, f"{limit} MiB are too little for {room} MB of limits and a copy of what changes")
    commands = next(entry["value"] for entry in container["env"] if entry["name"] == "GATEWAY_COMMANDS")
    documented = re.search(r"ACL SETUSER gateway on >password ~tidegate:\* (.*)", (TOP / "lua/README.md").read_text())[1]
    must(commands.split() == documented.split(), "the commands that Redis allows are not those of lua/README.md")
    must(re.search(r":\d+\.\d+\.\d+", container["image"]), f"{container['image']} has no version")


def compose():
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", (TOP / "Dockerfile").read_text(), re.MULTILINE))
    for name, service in services.items():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            must((COMPOSE / source).exists(), f"{name} mounts {source}, which does not exist")
        for needed in service.get("depends_on", {}):
            must(needed in services, f"{name} depends on {needed}")
        if "build" in service:
            must((COMPOSE / service["build"]["context"] / "Dockerfile").exists(), f"{name} is built from nothing")
            must(service["build"].get("target") in stages | {None}, f"the Dockerfile has no {service['build'].get('target')}")
        else:
            must(re.search(r":v?\d+\.\d+\.\d+", service["image"]), f"{service['image']} has no version")
        for port in service.get("ports", []):
            must(port.startswith("127.0.0.1:"), f"{name} opens {port} to everybody")
    for file, asked in [("gateway.yaml", r"(?:http|redis)://([a-z-]+):(\d+)"), ("prometheus.yml", r'"([a-z-]+):(\d+)"')]:
        for host, _ in re.findall(asked, (COMPOSE / file).read_text()):
            must(host in services, f"{file} asks {host}, which is no service")
    needed = variables((COMPOSE / "gateway.yaml").read_text())
    must(needed <= set(services["gateway"]["environment"]), f"gateway.yaml needs {needed}")


kubernetes()
compose()
for sentence in wrong:
    print(f"not so: {sentence}")
print("deployments: what they point at is there, and their numbers fit" if not wrong else f"{len(wrong)} faults")
sys.exit(bool(wrong))
