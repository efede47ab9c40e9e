"""The network of an installation: the hosts of its registries, and those that a rule adds."""

import asyncio

from paddock import BlockingPaddock, Paddock, Settings, Status
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.policy.settings.schema import NetworkSettings, RuntimeSettings

from .conftest import GRANTED, Registry


def test_the_installation_reaches_its_registry_and_nothing_else(user, registry):
    """The record has each connection, below the program that wanted the package."""
    registry.add_wheel("upper")
    with BlockingPaddock(user.workspace, overrides=GRANTED) as p:
        outcome = p.exec("python", "import upper; print(upper.version)", packages=["upper"])
        assert (outcome.status, outcome.text) == (Status.OK, "1.0\n")
        found = {(each.host, each.port, each.verdict) for each in outcome.network}
        assert found == {("127.0.0.1", registry.port, "allowed")}
        recorded = p.find_records(event="connected")
        assert {(each.parent, each.fields["port"]) for each in recorded} == {(outcome.id, registry.port)}


def test_an_installation_that_leaves_its_registry_is_refused(user, registry):
    """A page of an index may link to files anywhere; a rule of the user allows more hosts."""
    registry.add_wheel("upper")
    elsewhere = Registry(registry.root.with_name("elsewhere"))
    try:
        wheel = "upper-1.0-py3-none-any.whl"
        folder = registry.root / "simple" / "upper"
        (elsewhere.root / wheel).write_bytes((folder / wheel).read_bytes())
        address = f"http://127.0.0.1:{elsewhere.port}/{wheel}"
        (folder / "index.html").write_text(f'<a href="{address}">{wheel}</a>')
        code = "import upper; print(upper.version)"
        refused = user.execute("python", code, packages=["upper"])
        assert (refused.status, refused.program) == (Status.UNAVAILABLE, None)
        assert {(each.port, each.verdict) for each in refused.network} == {
            (registry.port, "allowed"),
            (elsewhere.port, "refused"),
        }
        rule = {"host": "127.0.0.1", "ports": [elsewhere.port], "effect": "allow"}
        settings = Settings(
            network=NetworkSettings(rule=[rule]), runtimes=RuntimeSettings(timeout_ms=120_000)
        )
        with BlockingPaddock(user.workspace, settings=settings) as p:
            assert p.exec("python", code, packages=["upper"]).text == "1.0\n"
    finally:
        elsewhere.stop()


def test_the_network_of_an_installation_needs_namespaces(user, registry):
    registry.add_wheel("upper")

    async def main():
        async with (
            KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox,
            Paddock(user.workspace, overrides=GRANTED, sandbox=sandbox) as p,
        ):
            return await p.exec("python", "1", packages=["upper"])

    outcome = asyncio.run(main())
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message) == (
        Status.UNAVAILABLE,
        "upper must be installed first, and its network, the hosts of the registries, needs the tier namespaces, not "
        "landlock",
    )
