"""A program that Ray runs reaches nothing of the cluster: no port, no socket, no memory, no file, no variable.

The same probe runs without confinement on the same machine, and must reach what there is.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ray_cluster import Cluster, open_cluster

PROBE = r"""
import json, os, socket, sys

given, reached = json.load(sys.stdin), []

def attempt(name, work):
    try:
        work()
    except OSError:
        return
    reached.append(name)

def connect(family, kind, address):
    with socket.socket(family, kind) as client:
        client.settimeout(10)
        client.connect(address)

def read(path):
    with open(path, "rb") as file:
        return file.read(65536)

for port in given["ports"]:
    attempt(f"port {port}", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)))
for name in given["sockets"]:
    address = "\0" + name[1:] if name.startswith("@") else name
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        attempt(f"socket {name}", lambda: connect(socket.AF_UNIX, kind, address))
for path in given["files"]:
    attempt(f"file {path}", lambda: read(path))
for pid in filter(str.isdecimal, os.listdir("/proc")):
    for name in ("cmdline", "environ", "maps"):
        try:
            data = read(f"/proc/{pid}/{name}") if int(pid) != os.getpid() else b""
        except OSError:
            continue
        reached += [f"{name} of {each}" for each in given["processes"] if each.encode() in data]
for number in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        continue
    if int(number) > 2 and ("socket:" in target or "plasma" in target or "shm" in target):
        reached.append(f"descriptor {target}")
reached += [f"variable {name}" for name in os.environ if name.startswith(("RAY", "PADDOCK"))]
print(json.dumps(sorted(set(reached))))
"""


@pytest.fixture(scope="module")
def dashboard_cluster(toolchain_path: str) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="paddock-reach-") as folder:
        Path(folder).chmod(0o755)  # programs of the tier `landlock` run as another user
        with open_cluster(Path(folder), toolchain_path, dashboard=True) as cluster:
            yield cluster


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_a_program_reaches_nothing_of_its_cluster(dashboard_cluster: Cluster, tier: str) -> None:
    found = dashboard_cluster.call("reach", probe=PROBE, tier=tier)
    facts, free = found["facts"], {*found["free"]}
    assert {f"port {port}" for port in facts["ports"]} <= free
    assert {f"file {path}" for path in facts["files"]} <= free
    assert [name for name in free if re.fullmatch(r"socket .*/plasma_store(\.\d+)?", name)]
    assert [name for name in free if re.fullmatch(r"socket .*/raylet(\.\d+)?", name)]
    assert {f"{name} of {each}" for each in ("raylet", "gcs_server") for name in ("cmdline", "maps")} <= free
    # The tier `landlock` gives a program no network of its own: it is refused there.
    networks = ["loopback", "none"] if tier == "namespaces" else ["none"]
    assert [row for row in found["confined"] if row[1] != "invalid"] == [
        [network, "ok", "[]\n", None, tier] for network in networks
    ]
