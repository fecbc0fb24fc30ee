"""TLS of the comparison: one certificate for all gateways, and one offer of all clients.

The clients offer one version, one cipher suite and one group, so all gateways use the same.
"""

import os
from pathlib import Path
from subprocess import run as call
from types import SimpleNamespace

from kit.processes import Trouble

VERSION, SUITE, GROUP = "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519"
# Settings of OpenSSL for wrk and Python. h2load has options in their place.
OFFER = f"""\
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = offer
[offer]
MinProtocol = {VERSION}
Ciphersuites = {SUITE}
Groups = {GROUP}
"""


def files(folder):
    """Returns the paths of the files that `make` writes."""
    names = {"certificate": "certificate.pem", "key": "key.pem", "both": "both.pem", "offer": "offer.cnf"}
    return SimpleNamespace(**{name: Path(folder) / file for name, file in names.items()})


def make(openssl, made):
    """Writes a self-signed certificate with an ECDSA key (P-256), and the settings of the clients."""
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-keyout", made.key, "-out", made.certificate]
    done = call([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"openssl made no certificate: {done.stderr}")
    made.both.write_text(made.certificate.read_text(encoding="utf-8") + made.key.read_text(encoding="utf-8"), encoding="utf-8")
    made.offer.write_text(OFFER, encoding="utf-8")


def environment(made):
    """Returns the environment of a client."""
    return {**os.environ, "OPENSSL_CONF": str(made.offer)}
