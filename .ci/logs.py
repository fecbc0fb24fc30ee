"""Checks the files for the access log in examples/observability against lines of a real gateway. Run by .ci/deployments.

The field list comes from `tidegate schema`, so a new field fails this check until the index template has it.
"""

import ipaddress
import json
import re
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import yaml

import log_lines

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "observability"
# Each line also has these. Fluent Bit sends `timestamp` as `@timestamp`.
ADDED = {"@timestamp", "level", "target", "message"}
# Fields with few values. Any other field as a label gives Loki too many streams.
LABELS = {"outcome", "route", "level", "door"}
# Fields with an entry of a list: an address, a network, a name or `allow`.
ENTRIES = {"exempt", "denied_by"}
BITS = {"short": 16, "integer": 32, "long": 64}
UTC = "%Y-%m-%dT%H:%M:%S.%fZ"
COMMON = "%d/%b/%Y:%H:%M:%S %z"

wrong = []


def must(is_so, sentence):
    if not is_so:
        wrong.append(sentence)


def fits(name, value, mapping):
    """Returns whether the index takes the value, and can sort and compare it as its type."""
    kind = mapping["type"]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind in BITS:
        return is_number and -(1 << BITS[kind] - 1) <= value < 1 << BITS[kind] - 1
    if is_number or not isinstance(value, str):
        return False
    try:
        if kind == "ip":
            ipaddress.ip_address(value)
        if kind in ("date", "date_nanos"):
            datetime.strptime(value, COMMON if "format" in mapping else UTC)
    except ValueError:
        return False
    # Addresses and times must not be plain words, because a range of them would be wrong.
    is_address = kind == "keyword" and re.fullmatch(r"[\d.]+\.\d+|[\da-f:]*::[\da-f:]*", value)
    is_time = kind == "keyword" and re.fullmatch(r"\d{4}-\d\d-\d\dT.*|\d\d/\w{3}/\d{4}:.*", value)
    return kind in {"keyword", "text", "ip", "date", "date_nanos"} and (name in ENTRIES or not is_address and not is_time)


def template(fields, lines):
    """The template maps each field that a line can have, with a fitting type. Returns the mappings."""
    whole = json.loads((FOLDER / "access-log-template.json").read_text())
    mappings = whole["template"]["mappings"]
    properties = mappings["properties"]
    must(mappings["dynamic"] is False, "the template is not `dynamic: false`: a line with a new field adds a mapping or is lost")
    must(whole["data_stream"] == {} and whole["index_patterns"] == ["tidegate-access*"], "the template is not for the data stream")
    for field in set(properties) ^ (set(fields) | ADDED):
        must(False, f"access-log-template.json and the access log do not both have `{field}`")
    seen = set()
    for line in lines:
        for name, value in line.items():
            name = "@timestamp" if name == "timestamp" else name
            seen.add(name)
            if name in properties:
                must(fits(name, value, properties[name]), f"`{name}` is {value!r}, and the template has {properties[name]}")
    must(seen == set(fields) | ADDED, f"no line of the gateway has {(set(fields) | ADDED) - seen}")
    return properties


def fluent_bit(properties, access, other):
    """Fluent Bit reads the time, keeps other lines apart, and sends to the data stream, or to Loki with few labels."""
    text = (FOLDER / "fluent-bit.yaml").read_text()
    head, mark, loki = text.partition("    # ---- Loki")
    must(mark, "fluent-bit.yaml has no output to Loki")
    alternative = yaml.safe_load(re.sub(r"^    # ", "    ", "outputs:\n" + loki.partition("\n")[2], flags=re.MULTILINE))
    configuration = yaml.safe_load(head)
    [parser] = configuration["parsers"]
    [source] = configuration["pipeline"]["inputs"]
    [rewrite] = configuration["pipeline"]["filters"]
    must(source["parser"] == parser["name"], "the input does not use the parser")
    must(source["tag"] == rewrite["match"], "the filter does not match the input")
    format = parser["time_format"].replace("%L", "%f")
    key, pattern, tag, keep = rewrite["rule"].split()
    must(keep == "false", "access lines also stay among the other lines")
    for line, is_access in [*((line, True) for line in access), *((line, False) for line in other)]:
        try:
            datetime.strptime(line[parser["time_key"]], format)
        except (KeyError, ValueError):
            must(False, f"fluent-bit.yaml does not find the time of {line}")
        must(bool(re.search(pattern, line.get(key[1:], ""))) == is_access, f"fluent-bit.yaml takes this line for another kind: {line}")
    outputs = configuration["pipeline"]["outputs"]
    for of_one in (outputs, alternative["outputs"]):
        must([output["match"] for output in of_one] == [tag, source["tag"]], "an output matches no tag, or a tag has no output")
    must(outputs[0]["index"] == "tidegate-access", "access lines go to another index than the template is for")
    must(outputs[0]["write_operation"] == "create", "a data stream takes the operation `create` only")
    must(outputs[0]["time_key"] == "@timestamp", "the time of a data stream is `@timestamp`")
    must(not outputs[1]["logstash_prefix"].startswith("tidegate-access"), "other lines go to the index of access lines")
    for output in alternative["outputs"]:
        labels = set(re.findall(r"\$(\w+)", output["labels"]))
        must(labels <= LABELS and labels <= set(properties), f"Loki gets the labels {labels}")


def dashboard(properties):
    """Each object is valid, each reference leads to an object, and each field is in the template with a type for its use."""
    objects = [json.loads(line) for line in (FOLDER / "access-log-dashboard.ndjson").read_text().splitlines()]
    names = {(one["type"], one["id"]) for one in objects}
    must(len(names) == len(objects), "two objects of the dashboard have one ID")
    must([one["type"] for one in objects].count("index-pattern") == 1, "the dashboard has not exactly one data view")
    shown = set()
    for one in objects:
        title, attributes = one["id"], one["attributes"]
        for reference in one["references"]:
            must((reference["type"], reference["id"]) in names, f"{title}: there is no {reference['id']}")
        given = {reference["name"] for reference in one["references"]}
        if one["type"] == "index-pattern":
            must(attributes["title"] == "tidegate-access*", "the data view is of another index than the template")
            fields = {attributes["timeFieldName"], *json.loads(attributes["fieldFormatMap"])}
            must(fields <= set(properties), f"{title}: no fields {fields - set(properties)}")
            continue
        search = json.loads(attributes["kibanaSavedObjectMeta"]["searchSourceJSON"])
        fields = set(re.findall(r"([\w@]+)\s*:", search["query"]["query"]))
        must(fields <= set(properties), f"{title}: the query has no fields {fields - set(properties)}")
        if one["type"] == "dashboard":
            panels = {panel["panelRefName"] for panel in json.loads(attributes["panelsJSON"])}
            must(panels == given, f"{title}: the panels are not the references")
            shown = {(reference["type"], reference["id"]) for reference in one["references"]}
            continue
        must(search["indexRefName"] in given, f"{title}: no data view")
        state = json.loads(attributes["visState"])
        must(state["title"] == attributes["title"], f"{title}: two titles")
        for part in state["aggs"]:
            field, kind = part["params"].get("field"), part["type"]
            if kind == "count":
                continue
            kinds = {"percentiles": set(BITS), "date_histogram": {"date", "date_nanos"}}.get(kind, {"keyword", "ip"} | set(BITS))
            must(properties.get(field, {}).get("type") in kinds, f"{title}: `{field}` is no field for {kind}")
    must(shown == {name for name in names if name[0] == "visualization"}, "the dashboard does not show each visualization")


binary = Path(sys.argv[1]).resolve()
schema = json.loads(subprocess.check_output([binary, "schema"]))
fields = schema["$defs"]["AccessField"]["anyOf"][0]["enum"]
with tempfile.TemporaryDirectory() as folder:
    access, other = (list(map(json.loads, lines)) for lines in log_lines.produce(binary, Path(folder), fields))
properties = template(fields, access)
fluent_bit(properties, access, other)
dashboard(properties)
for sentence in wrong:
    print(f"not so: {sentence}")
right = f"access log: {len(access)} lines with {len(properties)} fields fit the template, Fluent Bit and the dashboard"
print(f"{len(wrong)} faults" if wrong else right)
sys.exit(bool(wrong))
