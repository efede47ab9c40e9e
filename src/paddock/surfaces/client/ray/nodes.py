"""The Ray cluster that this process is connected to: what it has, and where a program may run."""

from collections.abc import Iterable, Mapping
from typing import Any

from paddock.model.errors import PaddockError
from paddock.model.texts import install_command

RESOURCE_PREFIX = "paddock:"
"""Prefix of the custom resources of Ray that name the languages of a node."""
RESOURCES_COMMAND = 'ray start --resources "$(paddock runtimes --ray-resources)"'
_AMOUNT = 0.001
"""Amount of a language that a task asks for: it only chooses the node, and the CPUs limit the number of tasks."""

Resources = Mapping[str, float]
"""Amounts by the name of the resource, such as `CPU` or `paddock:rust`."""


def load_ray() -> Any:  # noqa: ANN401 - the module, whose types are not installed with Paddock
    """Return the module `ray`. Raises PaddockError if it is not installed or not connected to a cluster."""
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PaddockError(
            f"Ray is not installed, which runs these programs; run: {install_command('ray')}"
        ) from None
    cluster: Any = ray
    if not cluster.is_initialized():
        raise PaddockError(
            "This process is not connected to a Ray cluster, and Paddock starts none; call `ray.init()` first."
        )
    return cluster


def name_resources(languages: Iterable[str]) -> dict[str, float]:
    """Return the resources of a node that has these languages, as `ray start --resources` takes them."""
    return {f"{RESOURCE_PREFIX}{language}": 1 for language in languages}


def place(languages: Iterable[str], cluster: Resources) -> dict[str, float]:
    """Return the custom resources that a program needs; none if no node declares its languages."""
    if not any(name.startswith(RESOURCE_PREFIX) for name in cluster):
        return {}
    return {f"{RESOURCE_PREFIX}{language}": _AMOUNT for language in languages}


def find_missing(needs: Iterable[str], cluster: Resources) -> list[str]:
    """Return the resources that no node of the cluster has."""
    return [name for name in needs if not cluster.get(name)]


def explain_missing(missing: Iterable[str]) -> str:
    """Return why a program cannot run without these resources, and what to do."""
    names = [name.removeprefix(RESOURCE_PREFIX) for name in missing if name.startswith(RESOURCE_PREFIX)]
    if not names:
        return "the Ray cluster has no node with a CPU; add a node"
    return (
        f"no node of the Ray cluster declares {' and '.join(names)}; install it on a node, and start the node "
        f"with: {RESOURCES_COMMAND}"
    )
