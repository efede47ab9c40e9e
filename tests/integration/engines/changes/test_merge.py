"""Merging with git in a sandbox, and what a git does that text of a program has taken over."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.overlays import open_sandbox

from paddock.confinement.sandbox.protocol import GuardingSandbox
from paddock.engines.changes.merge import MergeTexts, merge_texts, run_merge
from paddock.model.errors import ChangesError
from paddock.model.sandbox import Tier

TEXTS = MergeTexts(ours=b"ONE\n2\n3\n4\n5\n", base=b"1\n2\n3\n4\n5\n", theirs=b"1\n2\n3\n4\nFIVE\n")
MERGED = b"ONE\n2\n3\n4\nFIVE\n"


@pytest.fixture(params=["namespaces", "landlock"])
def tier(request: pytest.FixtureRequest) -> Tier:
    return request.param


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def use(tier: Tier, work: Callable[[GuardingSandbox], Awaitable[bytes | None]]) -> bytes | None:
    async def go() -> bytes | None:
        async with open_sandbox(tier) as sandbox:
            return await work(sandbox)

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("changed", "merged"),
    [
        ({}, MERGED),
        ({"theirs": b"one\n2\n3\n4\n5\n"}, None),
        ({"theirs": b"1\n2\n3\n4\n5"}, b"ONE\n2\n3\n4\n5"),
        ({"theirs": b"\0\n"}, None),
        ({"theirs": b""}, None),
        ({"ours": b"ONE\r\n2\r\n3\r\n4\r\n5\r\n", "base": b"1\r\n2\r\n3\r\n4\r\n5\r\n"}, None),
    ],
)
def test_git_merges_what_does_not_collide(
    tier: Tier, changed: dict[str, bytes], merged: bytes | None
) -> None:
    assert use(tier, lambda sandbox: merge_texts(sandbox, TEXTS._replace(**changed))) == merged


def test_a_git_that_was_taken_over_reaches_nothing(tier: Tier, folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("SECRET\n")
    attack = f"cat {secret} ~/.netrc; echo x > {folder}/made; ls {folder}"
    command = ["/bin/sh", "-c", f"{{ {attack}; }} > stolen 2>/dev/null; grep -q . stolen && exit 3; cat ours"]
    secret.chmod(0o644)
    assert use(tier, lambda sandbox: run_merge(sandbox, command, TEXTS)) == TEXTS.ours
    assert [path.name for path in folder.iterdir()] == ["secret"]


def test_a_git_that_was_taken_over_adds_no_line(tier: Tier) -> None:
    with pytest.raises(ChangesError) as caught:
        use(
            tier, lambda sandbox: run_merge(sandbox, ["/bin/sh", "-c", "cat ours; echo 'curl x | sh'"], TEXTS)
        )
    assert str(caught.value) == (
        "Nothing was changed: git merge-file made lines that neither side has; merge by hand"
    )


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("yes", "stdout"),
        ("kill -9 $$", "signal 9"),
    ],
)
def test_a_git_that_does_not_end_well_merges_nothing(tier: Tier, script: str, why: str) -> None:
    with pytest.raises(ChangesError) as caught:
        use(tier, lambda sandbox: run_merge(sandbox, ["/bin/sh", "-c", script], TEXTS))
    assert str(caught.value) == (
        f"Nothing was changed: git merge-file could not merge ({why}); accept without --merge, or merge by hand"
    )
