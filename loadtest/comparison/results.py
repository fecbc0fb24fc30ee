"""The results of a run: each row's figures of each round, and the page, the chart and the file made from them."""

import json
import statistics

from comparison import bars
from comparison.gateways import OTHERS
from comparison.load import OTHER
from comparison.rows import ALONE, GROUPS

# The row that the rows of a group are compared with.
BESIDE = {
    "default admitted": "nginx logged admitted",
    "default refused": "nginx logged refused",
    "admitted": "nginx admitted",
    "refused": "nginx refused",
    "redis admitted": "nginx admitted",
    "redis refused": "nginx refused",
    "price": "memory admitted",
    **{group: f"nginx {group}" for group in OTHER},
}

# Units of groups without small answers on kept connections. The chart leaves these groups out.
UNITS = {"megabyte": "MB/s", "megabyte tls": "MB/s", "handshakes": "handshakes/s"}

# Rows that give a capacity, and the share of a core that is used at the busiest time.
CARRIED = {
    "memory admitted": "admitted in memory",
    "exact admitted": "admitted, `exact`",
    "three limits": "admitted, `exact`, three limits",
    "leased admitted": "admitted, `leased`, few clients",
    "memory refused": "refused in memory",
    "exact refused": "refused on Redis",
}
SHARE = 0.6


class Results:
    def __init__(self, rows):
        self.rows = {row.name: row for row in rows}
        self.full, self.half, self.idle = {}, {}, {}
        self.left_out, self.failed = [], []
        self.rate = None

    @staticmethod
    def median(rounds):
        return {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}

    def medians(self, part):
        return {name: self.median(rounds) for name, rounds in part.items() if rounds}

    def times(self, first, second, part="full", key="cpu_us"):
        """Returns the first divided by the second, as the median of the ratios of all rounds, or None."""
        pairs = list(zip(getattr(self, part).get(first, []), getattr(self, part).get(second, [])))
        return statistics.median(one[key] / other[key] for one, other in pairs) if pairs else None

    def kept(self):
        """Returns the failures, without the path of their log on this machine."""
        return [sentence.split(": see ")[0] for sentence in self.failed]

    def write(self, folder, day, facts, verdict):
        """Writes all three, and returns the path of the page."""
        folder.mkdir(parents=True, exist_ok=True)
        chart = folder / f"{day}-compare.svg"
        chart.write_text(self.chart(day, facts), encoding="utf-8")
        page = folder / f"{day}-compare.md"
        page.write_text(self.page(day, facts, verdict, chart.name), encoding="utf-8")
        whole = {
            "date": day,
            **facts,
            "left_out": self.left_out,
            "failed": self.kept(),
            "verdict": [{"is_so": is_so, "sentence": sentence} for is_so, sentence in verdict.findings],
            "steady_rate": self.rate,
            "medians": {part: self.medians(getattr(self, part)) for part in ("full", "half", "idle")},
            "rounds": {part: getattr(self, part) for part in ("full", "half", "idle")},
        }
        (folder / f"{day}-compare.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        return page

    def chart(self, day, facts):
        groups = []
        for group, title in GROUPS.items():
            if group in UNITS:
                continue
            drawn = []
            for name, of in self.medians(self.full).items():
                if self.named(name).group == group:
                    spread = [figures["cpu_us"] for figures in self.full[name]]
                    ours = self.rows[name].gateway not in OTHERS
                    drawn.append((self.rows[name].label, of["cpu_us"], of["redis_cpu_us"], min(spread), max(spread), ours))
            if drawn:
                groups.append((title, sorted(drawn, key=lambda bar: bar[1] + bar[2])))
        under = f"{day}, {facts['machine']['processor']}; medians of {facts['rounds']} rounds; lines: least and most"
        return bars.chart("CPU time per request: the gateway's, and Redis's (orange)", under, groups)

    def named(self, name):
        return self.rows[name] if name in self.rows else _Nobody

    def page(self, day, facts, verdict, chart):
        lines = [
            f"# tidegate beside other gateways, {day}",
            "",
            f"One core for the gateway, one for the load, the API and Redis; {facts['connections']} kept connections; small JSON "
            f"answers where a table has no other; medians, of figures and of ratios alike, of {facts['rounds']} rounds of "
            f"{facts['seconds']} s in which all rows take turns. [How it is measured, and what the rows "
            "mean](../../docs/performance.md). Compare within this page only.",
            "",
            f"![CPU time per request]({chart})",
            "",
        ]
        for group, title in GROUPS.items():
            lines += self.table(group, title)
        lines += self.builds() + self.alone() + self.steady() + self.silent(facts) + self.carried()
        lines += ["## What was to be shown", ""]
        lines += [f"- {'' if is_so else '**not so:** '}{sentence}" for is_so, sentence in verdict.findings]
        lines += ["", "## Versions and machine", ""]
        lines += [f"- {name}: {value}" for name, value in {**facts["versions"], **facts["machine"]}.items()]
        lines += [f"- load of the machine before: {facts['load_before']:.1f}"]
        if others := [figures["others"] for rounds in self.full.values() for figures in rounds if "others" in figures]:
            least, most = min(others), max(others)
            lines += [f"- of the gateway's core others took {statistics.median(others):.1%} ({least:.1%} to {most:.1%})"]
        lines += [f"- left out: {label}" for label in self.left_out]
        lines += [f"- failed: {sentence}" for sentence in self.kept()]
        return "\n".join([*lines, ""])

    def table(self, group, title):
        medians = {name: of for name, of in self.medians(self.full).items() if self.named(name).group == group}
        if not medians:
            return []
        against = "times " + {"nginx": "nginx", "memory": "tidegate above"}[BESIDE[group].split()[0]]
        redis = group.startswith("redis")
        head = ["", "CPU us", "least – most", against] + (["Redis CPU us", "scripts a request"] if redis else [])
        rows = []
        for name, of in sorted(medians.items(), key=lambda entry: entry[1]["cpu_us"]):
            spread = [figures["cpu_us"] for figures in self.full[name]]
            times = self.times(name, BESIDE[group])
            cells = [
                self.rows[name].label if self.rows[name].gateway in OTHERS else f"**{self.rows[name].label}**",
                f"{of['cpu_us']:.1f}",
                f"{min(spread):.1f} – {max(spread):.1f}",
                f"{times:.2f}" if times else "–",
            ]
            if redis:
                cells += [f"{of['redis_cpu_us']:.1f}", f"{of['scripts_per_request']:.4f}"]
            rows.append([*cells, f"{of['per_second']:,.0f}", f"{of['busy']:.0%}", f"{of['p50_us']:,.0f}", f"{of['p99_us']:,.0f}"])
        return [f"## {title}", "", *table([*head, UNITS.get(group, "requests/s"), "of its core", "p50 us", "p99 us"], rows), ""]

    def builds(self):
        """Compares each row of tidegate with the same row of another build."""
        rows = []
        for name, other in ((name, f"{name} against") for name in self.full):
            times = self.times(name, other)
            if times:
                this, that = (statistics.median(figures["cpu_us"] for figures in self.full[row]) for row in (name, other))
                rows.append([name, f"{this:.2f}", f"{that:.2f}", f"{times:.3f}"])
        head = ["CPU us", "this build", "other build", "times the other"]
        return ["## This build and another", "", *table(head, rows), ""] if rows else []

    def alone(self):
        of = self.medians(self.full).get(ALONE)
        if not of:
            return []
        return [
            f"The API with no gateway before it: {of['per_second']:,.0f} requests/s, p50 {of['p50_us']:,.0f} us, "
            f"p99 {of['p99_us']:,.0f} us.",
            "",
        ]

    def steady(self):
        medians = self.medians(self.half)
        if not medians:
            return []
        rows = []
        for name, of in medians.items():
            label = "no gateway" if name == ALONE else {"memory admitted": "tidegate, memory"}.get(name, self.named(name).label)
            times = [f"{of[key]:,.0f}" for key in ("p50_us", "p99_us", "p999_us")]
            taken = ["–" if name == ALONE else f"{of[key]:.1f}" for key in ("cpu_us", "redis_cpu_us")]
            rows.append([label, *times, *taken])
        head = ["", "p50 us", "p99 us", "p99.9 us", "CPU us", "Redis CPU us"]
        words = f"## At half of the top rate: {self.rate:,} requests a second, sent when they are due"
        return [words, "", *table(head, rows), ""]

    def silent(self, facts):
        medians = self.medians(self.idle)
        if not medians:
            return []
        rows = [
            [self.named(name).label, f"{of['bytes_each'] / 1024:.1f}", f"{of['resident_bytes'] / 2**20:.0f}"]
            for name, of in sorted(medians.items(), key=lambda entry: entry[1]["bytes_each"])
        ]
        return [f"## {facts['idle_connections']:,} idle connections", "", *table(["", "KB each", "MB in all"], rows), ""]


    def carried(self):
        """Returns the figures for the size of a fleet: docs/capacity.md uses them."""
        rows = []
        for name, of in self.medians(self.full).items():
            if name in CARRIED:
                redis = f"{SHARE * 1e6 / of['redis_cpu_us']:,.0f}" if of["scripts_per_request"] > 0.5 else "–"
                rows.append([CARRIED[name], f"{SHARE * 1e6 / of['cpu_us']:,.0f}", redis])
        if not rows:
            return []
        title = f"## What a core carries, {SHARE:.0%} of it used"
        return [title, "", *table(["requests/s, at most", "of the gateway", "of Redis"], rows), ""]


class _Nobody:
    group, label = None, "no gateway"


def table(head, rows):
    return [
        "| " + " | ".join(head) + " |",
        "|---|" + "--:|" * (len(head) - 1),
        *("| " + " | ".join(cells) + " |" for cells in rows),
    ]
