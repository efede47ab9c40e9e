"""`repoId`: workspaces that the user registered, each with its own jail and its own policy (spec 5, 6.4)."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.mcp_server import Place

from .test_seed_programs import in_seed, text

EXECUTE, QUERY = "sdl.runtime.execute", "sdl.runtime.queryOutput"


@pytest.fixture
def site(place: Place, tmp_path: Path) -> Path:
    """A directory that is registered as `site`."""
    root = tmp_path / "elsewhere"
    (root / "inside").mkdir(parents=True)
    (root / "inside/mark").write_text("of the site")
    register(place, site=root)
    return root


def register(place: Place, **roots: Path) -> None:
    tables = [f'[[mcp.repos]]\nrepo_id = "{name}"\nroot_path = "{root}"\n' for name, root in roots.items()]
    place.settings("".join(tables))


def shell(code: str, repo: str = "site", **arguments: Any) -> tuple[str, dict[str, Any]]:
    return EXECUTE, {"repoId": repo, "runtime": "shell", "code": code, "outputMode": "summary", **arguments}


def test_a_program_runs_in_the_workspace_that_repo_id_names(place: Place, site: Path) -> None:
    (place.workspace / "mark").write_text("of the workspace")
    there, here = in_seed(place, shell("cat mark", relativeCwd="inside"), shell("cat mark", "ws"))
    assert [json.loads(text(each))["stdoutSummary"] for each in (there, here)] == [
        "of the site",
        "of the workspace",
    ]
    handle = json.loads(text(there))["artifactHandle"]
    asked = {"artifactHandle": handle, "queryTerms": ["site"]}
    named, unnamed, other = in_seed(
        place, (QUERY, {**asked, "repoId": "site"}), (QUERY, asked), (QUERY, {**asked, "repoId": "ws"})
    )
    assert [json.loads(text(each))["matchCount"] for each in (named, unnamed)] == [1, 1]
    assert (text(other), other.is_error) == (
        f"Artifact not found in this workspace: {handle}; read it from its own workspace, or set "
        "artifacts.cross_workspace = true",
        True,
    )
    assert site.is_dir()


def test_programs_of_two_workspaces_run_side_by_side_and_end_with_the_server(
    place: Place, site: Path
) -> None:
    async def main() -> list[Any]:
        async with place.client("--tool-names", "compat") as client:
            calls = [client.call_tool(*shell("echo $PWD", repo)) for repo in ("site", "ws", "site")]
            return await asyncio.gather(*calls)

    places = [json.loads(text(each))["stdoutSummary"].strip() for each in asyncio.run(main())]
    assert places == [str(site), str(place.workspace), str(site)]


def test_s9_s10_s12_the_jail_is_that_of_the_workspace_that_is_named(place: Place, site: Path) -> None:
    (site / "out").symlink_to(place.workspace)
    up, out, missing, reach = in_seed(
        place,
        shell("true", relativeCwd="../ws"),
        shell("true", relativeCwd="out"),
        shell("true", relativeCwd="nowhere"),
        shell(f"cat {place.workspace}/.mcp.json"),
    )
    assert "path traversal" in text(up)
    assert [json.loads(text(each))["policyDecision"]["deniedReasons"] for each in (out, missing)] == [
        ["Path traversal detected: target escapes repository root"],
        ["Working directory does not exist: nowhere"],
    ]
    end = json.loads(text(reach))
    assert (end["status"], end["stdoutSummary"]) == ("failure", "")


def test_s1_a_workspace_has_its_own_policy(place: Place, site: Path) -> None:
    (site / "paddock.toml").write_text("[runtimes]\nenabled = false\n")
    denied, done = in_seed(place, shell("echo a"), shell("echo a", "ws"))
    assert json.loads(text(denied))["status"] == "denied"
    assert "disabled" in json.loads(text(denied))["policyDecision"]["deniedReasons"][0]
    assert json.loads(text(done))["status"] == "success"


def test_s15_an_unknown_repository_whatever_the_settings_of_others(place: Place, site: Path) -> None:
    (site / "paddock.toml").write_text("[[mcp.repos]]\nrepo_id = 'etc'\nroot_path = '/etc'\n")
    unknown, broken, own = in_seed(place, shell("true", "etc"), shell("true"), shell("true", "ws"))
    assert [(text(each), each.is_error) for each in (unknown, broken)] == [
        ("Repository etc not found", True),
        ("Repository site cannot be used: its settings are wrong; the server's log says how", True),
    ]
    assert json.loads(text(own))["status"] == "success"


def test_a_directory_that_has_gone_is_denied_and_the_next_call_looks_again(place: Place, site: Path) -> None:
    gone = str(site.with_name("gone"))

    async def main() -> list[str]:
        async with place.client("--tool-names", "compat") as client:
            os.rename(site, gone)  # noqa: PTH104
            first = await client.call_tool(*shell("true"))
            os.rename(gone, site)  # noqa: PTH104
            return [
                json.loads(text(each))["status"] for each in (first, await client.call_tool(*shell("true")))
            ]

    assert asyncio.run(main()) == ["denied", "success"]


def test_a_registered_name_is_not_taken_by_the_directory_that_is_served(place: Place, tmp_path: Path) -> None:
    root = tmp_path / "other"
    root.mkdir()
    register(place, ws=root)
    [done] = in_seed(place, shell("echo $PWD", "ws"))
    assert json.loads(text(done))["stdoutSummary"].strip() == str(root)


def test_a_name_registered_twice_is_told_at_the_start(place: Place) -> None:
    table = '[[mcp.repos]]\nrepo_id = "a"\nroot_path = "/usr"\n'
    place.settings(table * 2)

    async def main() -> tuple[int, str]:
        async with place.lines() as lines:
            _, errors = await lines.process.communicate()
            return lines.process.returncode, errors.decode()

    code, errors = asyncio.run(main())
    assert code != 0
    assert "[[mcp.repos]]: a is registered more than once; keep one of them" in errors
