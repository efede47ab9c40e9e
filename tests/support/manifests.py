"""The manifests of deploy/k8s, built by kustomize and read as values."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "k8s"
FOLDERS = ("base", *(f"overlays/{path.name}" for path in sorted((FOLDER / "overlays").iterdir())))
PAGE = (ROOT / "docs" / "deploy-kubernetes.md").read_text()
CORE_GROUPS = {"v1", "apps/v1", "batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1"}
"""API versions of Kubernetes itself; all others are those of custom resources."""

Document = dict[str, Any]


class Pod(NamedTuple):
    """A pod template: the document that contains it, its metadata, and its spec."""

    owner: Document
    metadata: Document
    spec: Document

    @property
    def container(self) -> Document:
        """The only container."""
        [container] = self.spec["containers"]
        return container

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the container, with the facts of a pod and the keys of Secrets in place of references."""
        values: dict[str, str] = {}
        for each in self.container.get("env", []):
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                value = POD_FACTS[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                value = "{name}/{key}".format_map(source["secretKeyRef"])
            else:
                value = expand(each["value"], values)
            values[each["name"]] = value
        return values

    @property
    def arguments(self) -> list[str]:
        """The arguments of `paddock`, the entry point of the image."""
        assert "command" not in self.container
        return [expand(text, self.variables) for text in self.container["args"]]


POD_FACTS = {"status.podIP": "10.1.2.3", "metadata.name": "paddock-5f7c9d-abcde"}


def expand(text: str, values: dict[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: by earlier variables alone."""
    return re.sub(r"\$\((\w+)\)", lambda found: values.get(found[1], found[0]), text)


def build(tools: Path, folder: Path) -> str:
    """Return what `kubectl kustomize` prints for a directory. Raises CalledProcessError, whose `stderr` says why."""
    done = subprocess.run(
        [tools / "kubectl", "kustomize", folder],
        env={"PATH": "/usr/bin:/bin", "KUBECONFIG": "/dev/null"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""  # such as a warning of a deprecated field
    return done.stdout


@cache
def build_shipped(tools: Path, folder: str) -> str:
    """Return what `kubectl kustomize` prints for a directory of deploy/k8s. Each is built once."""
    return build(tools, FOLDER / folder)


def build_monitoring(tools: Path, folder: Path) -> list[Document]:
    """Return the documents of the base with the component for monitoring; `folder` is an empty directory for them."""
    shutil.copytree(FOLDER, folder / "k8s")
    own = folder / "own"
    own.mkdir()
    [component] = re.findall(r"^components:\n  - \.\./deploy/k8s/(.+)$", PAGE, re.MULTILINE)
    text = f"resources:\n  - ../k8s/base\ncomponents:\n  - ../k8s/{component}\n"
    (own / "kustomization.yaml").write_text(text)
    return read_documents(build(tools, own))


def read_documents(text: str) -> list[Document]:
    """Return the documents of a text in YAML."""
    return [each for each in yaml.safe_load_all(text) if each]


def validate(tools: Path, file: Path, *versions: str) -> list[str]:
    """Return the lines that `kubernetes-validate --strict` prints; those about faults begin with ERROR.

    `versions` of Kubernetes are by default its latest one.
    """
    chosen = [f"--kubernetes-version={version}" for version in versions]
    done = subprocess.run(
        [tools / "kubernetes-validate", "--strict", *chosen, file],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    lines = done.stdout.replace(str(file), file.name).splitlines()
    assert done.returncode == int(any(line.startswith("ERROR") for line in lines)), lines
    return lines


def find(documents: list[Document], kind: str, name: str | None = None) -> Document:
    """Return the only document of a kind, or of a kind and a name."""
    [found] = [
        each for each in documents if each["kind"] == kind and name in {None, each["metadata"]["name"]}
    ]
    return found


def list_pods(documents: list[Document]) -> Iterator[Pod]:
    """Yield the pods that documents describe, also those of custom resources."""
    for each in documents:
        spec = each.get("spec", {})
        match each["kind"]:
            case "Deployment" | "Job":
                templates = [spec["template"]]
            case "SandboxTemplate":
                templates = [spec["podTemplate"]]
            case "RayCluster":
                groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
                templates = [group["template"] for group in groups]
            case _:
                templates = []
        for template in templates:
            yield Pod(each, template["metadata"], template["spec"])


def list_peers(policy: Document, direction: str) -> list[str]:
    """Return what a network policy allows, `PEER:PORTS` for each peer of each rule; `*` for every port."""
    side = "from" if direction == "ingress" else "to"
    return [
        f"{describe_peer(peer)}:{','.join(str(port['port']) for port in rule.get('ports', [])) or '*'}"
        for rule in policy["spec"].get(direction, [])
        for peer in rule[side]
    ]


def describe_peer(peer: Document) -> str:
    """Return a peer of a network policy as text: an address, or labels of namespaces and pods."""
    if "ipBlock" in peer:
        return peer["ipBlock"]["cidr"]
    chosen = [
        ",".join(f"{key}={value}" for key, value in sorted(peer[part]["matchLabels"].items()))
        for part in ("namespaceSelector", "podSelector")
        if part in peer
    ]
    return " ".join(chosen)


def selects(selector: Document, labels: Document) -> bool:
    """Return whether a selector of labels selects an object with these labels."""
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()
