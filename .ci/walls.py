#!/usr/bin/env python3
"""Rules for files that the compiler does not check, read from the `use` lines of each crate:

- no circle of modules: what two children of one module have below them does not lead from one to the other and back. A module
  and its own children may use each other.
- no `impl` of a type outside the file that defines it and that file's children
- a module of .ci/walls-modules uses no other modules of its crate than those listed there
- no product file of more than 400 lines
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / ".ci" / "walls-modules"
MAX_FILE = 400
# Programs that are one file each, and what only tests use.
LEFT_OUT = {"bare-proxy", "fuzz"}


def is_test(path):
    return path.name == "tests.rs" or "tests" in path.parts or "documents" in path.parts or path.name == "documents.rs"


def without_tests(text):
    """A file without its tests, comments and strings."""
    text = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.M)[0]
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text, flags=re.S)
    return re.sub(r"//.*", "", text)


def expand(tree, prefix=()):
    """The paths of a `use` tree, each with the name that it binds."""
    tree = tree.strip()
    depth, start, parts = 0, 0, []
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = tree.partition(" as ")
        path = tuple(part.strip() for part in path.split("::"))
        full = prefix + path
        if full[-1] == "self":
            full = full[:-1]
        yield full, alias.strip() or full[-1]
        return
    head = tuple(part.strip() for part in tree[:brace].rstrip(": \n").split("::") if part.strip())
    inner = tree[brace + 1 : tree.rindex("}")]
    for at, char in enumerate(inner + ","):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(inner[start:at])
            start = at + 1
    for part in parts:
        if part.strip():
            yield from expand(part, prefix + head)


class Crate:
    def __init__(self, folder):
        self.name = folder.name
        self.folder = folder / "src"
        self.modules = {}  # path of a module, as names -> its file
        for file in sorted(self.folder.rglob("*.rs")):
            relative = file.relative_to(self.folder)
            if is_test(relative) or relative.parts[0] == "bin":
                continue
            parts = list(relative.with_suffix("").parts)
            if parts in (["lib"], ["main"]):
                if parts == ["main"] and (self.folder / "lib.rs").exists():
                    continue
                parts = []
            elif parts[-1] == "mod":
                parts.pop()
            self.modules[tuple(parts)] = file
        self.texts = {module: without_tests(file.read_text()) for module, file in self.modules.items()}
        self.bindings = {module: dict(self.uses(module)) for module in self.modules}

    def uses(self, module):
        """What the `use` lines of a module bind: a name, and the path that it stands for, from the crate's root."""
        for tree in re.findall(r"^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", self.texts[module], flags=re.M):
            for path, name in expand(tree):
                path = self.absolute(path, module)
                if path is not None:
                    yield name, path

    def absolute(self, path, module):
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                path, module = path[1:], module[:-1]
            return module + path
        # A child of this module, or of its own crate's root in a binary.
        return module + path if module + path[:1] in self.modules else None

    def home(self, path, seen=()):
        """The module that defines what a path leads to."""
        module = path
        while module not in self.modules:
            module = module[:-1]
        rest = path[len(module) :]
        if rest and rest[0] != "*" and (module, rest[0]) not in seen:
            target = self.bindings[module].get(rest[0])
            if target is not None and target != path:
                return self.home(target + rest[1:], (*seen, (module, rest[0])))
        return module

    def edges(self):
        """Each module with the modules that it uses."""
        for module in self.modules:
            paths = set(self.bindings[module].values())
            for path in re.findall(r"\b((?:crate|super)(?:::\w+)+)", self.texts[module]):
                path = self.absolute(tuple(path.split("::")), module)
                paths.add(path)
            for path in paths:
                home = self.home(path)
                if home != module:
                    yield module, home

    def strays(self):
        """What modules of .ci/walls-modules use beside what is listed there."""
        for line in MODULES.read_text().splitlines():
            row = re.fullmatch(r"(\w+) ([\w:]+\w):(.*)", line)
            if not row or row[1] != self.name:
                continue
            name, allowed = row[2], row[3].split()
            own = tuple(name.split("::"))
            if own not in self.modules:
                yield f"module {self.name} {name} is in .ci/walls-modules, and no more in the crate"
            for module, home in sorted(self.edges()):
                if module[: len(own)] == own and home[: len(own)] != own and home:
                    used = "::".join(home)
                    if not any(used == one or used.startswith(one + "::") for one in allowed):
                        yield f"module {self.name} {'::'.join(module)} must not use {used}"

    def circles(self):
        """Circles among the children of one module, each child with all that is below it."""
        graphs = {}
        for one, other in self.edges():
            common = 0
            while common < min(len(one), len(other)) and one[common] == other[common]:
                common += 1
            if len(one) == common or len(other) == common:
                continue
            graph = graphs.setdefault(one[:common], {})
            graph.setdefault(one[common], set()).add(other[common])
        for parent, graph in graphs.items():
            for group in strongly_connected(graph):
                names = ["::".join((*parent, child)) for child in sorted(group)]
                yield f"circle {self.name} {' '.join(names)}"

    def impls(self):
        """Types with an `impl` outside their own file and its children."""
        homes = {}
        for module, text in self.texts.items():
            for name in re.findall(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union)\s+(\w+)", text, flags=re.M):
                homes.setdefault(name, set()).add(module)
        found = set()
        for module, text in self.texts.items():
            for head in re.findall(r"^impl\b([^{;]*?)\{", text, flags=re.M):
                name = implemented(head)
                defined = homes.get(name, set())
                if name in self.bindings[module]:
                    defined = {self.home(self.bindings[module][name])} & defined or defined
                if defined and not any(module[: len(home)] == home for home in defined if home or module == ()):
                    home = "::".join(sorted(defined)[0])
                    found.add(f"impl {self.name} {home}::{name} in {'::'.join(module)}")
        yield from sorted(found)

    def sizes(self):
        for file in self.modules.values():
            lines = file.read_text().count("\n")
            if lines > MAX_FILE:
                yield f"file {self.name} {file.relative_to(self.folder)} has more than {MAX_FILE} lines: {lines}"


def implemented(head):
    """The name of the type of `impl … for TYPE`."""
    head = head.strip()
    if head.startswith("<"):
        depth = 0
        for at, char in enumerate(head):
            depth += {"<": 1, ">": -1}.get(char, 0) if head[at - 1 : at + 1] != "->" else 0
            if depth == 0:
                head = head[at + 1 :].strip()
                break
    head = re.split(r"\bwhere\b", head)[0]
    if " for " in head:
        head = head.rsplit(" for ", 1)[1]
    head = head.strip().lstrip("&").removeprefix("mut ").strip()
    match = re.match(r"(?:\w+::)*(\w+)", head)
    return match.group(1) if match else ""


def strongly_connected(graph):
    """The groups of more than one node that lead to each other."""
    order, seen = [], set()

    def visit(node, edges, out):
        stack = [(node, iter(edges.get(node, ())))]
        seen.add(node)
        while stack:
            here, rest = stack[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    stack.append((other, iter(edges.get(other, ()))))
                    break
            else:
                stack.pop()
                out.append(here)

    for node in sorted(graph):
        if node not in seen:
            visit(node, graph, order)
    back = {}
    for node, others in graph.items():
        for other in others:
            back.setdefault(other, set()).add(node)
    seen.clear()
    for node in reversed(order):
        if node not in seen:
            group = []
            visit(node, back, group)
            if len(group) > 1:
                yield group


def main():
    broken = []
    for folder in sorted((ROOT / "crates").iterdir()):
        if folder.name in LEFT_OUT or not (folder / "src").is_dir():
            continue
        crate = Crate(folder)
        broken += [*crate.circles(), *crate.impls(), *crate.strays(), *crate.sizes()]
    for rule in broken:
        print(rule)
    return 1 if broken else 0


sys.exit(main())
