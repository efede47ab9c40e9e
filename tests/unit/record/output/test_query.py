"""Questions about stored output, and artifacts that somebody has tampered with."""

import asyncio
import gzip
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.artifact import Handle, OutputQuery, RunFacts
from paddock.model.errors import ArtifactError, ArtifactTooLarge, UnknownArtifact
from paddock.model.limits import MIB
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output import query as queries
from paddock.record.output.artifacts import Artifacts, SweepReport
from paddock.record.output.query import OpenArtifact, query, read_bytes
from paddock.record.output.text import LineSplitter

HOME = Path("/home/u/repo")


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(ArtifactSettings(directory=tmp_path / "artifacts"), Scanner(RedactionSettings()))


def store(artifacts: Artifacts, stdout: str = "", stderr: str = "") -> str:
    recording = artifacts.record()
    recording.stdout(stdout.encode())
    recording.stderr(stderr.encode())
    handle = asyncio.run(recording.finish(RunFacts(workspace=str(HOME), runtime="python")))
    assert handle is not None, recording.refusal
    return handle


def ask(artifacts: Artifacts, handle: str, **asked: object) -> dict[str, object]:
    return query(artifacts, OutputQuery.model_validate({"artifactHandle": handle, **asked}), HOME).to_wire()


def test_s45_the_cursor_leads_to_the_second_match(artifacts: Artifacts) -> None:
    handle = store(artifacts, "one\nthe needle\nthree\nNEEDLE too\nfive\n")
    asked = {"queryTerms": ["Needle"], "maxExcerpts": 1, "contextLines": 0}
    first = ask(artifacts, handle, **asked)
    assert first == {
        "artifactHandle": handle,
        "excerpts": [{"lineStart": 2, "lineEnd": 2, "content": "the needle", "source": "stdout"}],
        "totalLines": 5,
        "totalBytes": 37,
        "searchedStreams": ["stdout"],
        "matchStatus": "matched",
        "matchCount": 2,
        "nextCursor": {"stream": "stdout", "afterLine": 2},
    }
    assert ask(artifacts, handle, **asked, cursor=first["nextCursor"]) == {
        "artifactHandle": handle,
        "excerpts": [{"lineStart": 4, "lineEnd": 4, "content": "NEEDLE too", "source": "stdout"}],
        "totalLines": 5,
        "totalBytes": 37,
        "searchedStreams": ["stdout"],
        "matchStatus": "matched",
        "matchCount": 1,
    }


def test_s46_no_match_is_labelled(artifacts: Artifacts) -> None:
    handle = store(artifacts, "one\ntwo\nthree\n", "err\n")
    assert ask(artifacts, handle, queryTerms=["absent"], maxExcerpts=2) == {
        "artifactHandle": handle,
        "excerpts": [{"lineStart": 1, "lineEnd": 2, "content": "one\ntwo", "source": "stdout"}],
        "totalLines": 4,
        "totalBytes": 18,
        "searchedStreams": ["stdout", "stderr"],
        "matchStatus": "noMatchFallback",
        "matchCount": 0,
    }


def test_s47_a_range_of_lines(artifacts: Artifacts) -> None:
    handle = store(artifacts, "one\ntwo\nthree\nfour")
    span = {"stream": "stdout", "startLine": 2, "endLine": 3}
    assert ask(artifacts, handle, lineRange=span) == {
        "artifactHandle": handle,
        "excerpts": [{"lineStart": 2, "lineEnd": 3, "content": "two\nthree", "source": "stdout"}],
        "totalLines": 4,
        "totalBytes": 18,
        "searchedStreams": ["stdout"],
        "matchStatus": "lineRange",
        "matchCount": 0,
    }
    beyond = ask(artifacts, handle, lineRange={**span, "startLine": 4, "endLine": 9})
    assert beyond["excerpts"] == [{"lineStart": 4, "lineEnd": 4, "content": "four", "source": "stdout"}]
    assert ask(artifacts, handle, lineRange={**span, "startLine": 5, "endLine": 9})["excerpts"] == []


def test_a_long_range_comes_in_pages(artifacts: Artifacts) -> None:
    handle = store(artifacts, "".join(f"{number}\n" for number in range(1, 2501)))
    found = ask(artifacts, handle, lineRange={"stream": "stdout", "startLine": 1, "endLine": 2400})
    assert found["nextCursor"] == {"stream": "stdout", "afterLine": 1000}
    page = ask(artifacts, handle, cursor=found["nextCursor"], maxExcerpts=100)
    assert page["nextCursor"] == {"stream": "stdout", "afterLine": 1100}
    [excerpt] = page["excerpts"]
    assert (excerpt["lineStart"], excerpt["lineEnd"], excerpt["content"][:10]) == (1001, 1100, "1001\n1002\n")
    assert "nextCursor" not in ask(artifacts, handle, cursor={"stream": "stdout", "afterLine": 2495})


def test_s38_stdout_comes_first_and_ten_excerpts_at_most(artifacts: Artifacts) -> None:
    many = "".join("x\n" * 9 + "hit\n" for _ in range(50))
    handle = store(artifacts, many, "hit\n")
    found = ask(artifacts, handle, queryTerms=["hit"])
    assert [(each["source"], each["lineStart"], each["lineEnd"]) for each in found["excerpts"]] == [
        ("stdout", 10 * number - 3, 10 * number + 3) for number in range(1, 11)
    ]
    assert (found["matchCount"], found["nextCursor"]) == (51, {"stream": "stdout", "afterLine": 103})
    only = ask(artifacts, handle, queryTerms=["hit"], stream="stderr")
    assert [each["source"] for each in only["excerpts"]] == ["stderr"]
    assert (only["totalLines"], only["searchedStreams"]) == (1, ["stderr"])


def test_a_cursor_crosses_from_one_stream_to_the_other(artifacts: Artifacts) -> None:
    handle = store(artifacts, "hit\n" * 3, "no\nhit\n")
    asked = {"queryTerms": ["hit"], "maxExcerpts": 1, "contextLines": 0}
    seen, cursor = [], None
    while True:
        found = ask(artifacts, handle, **asked, **({"cursor": cursor} if cursor else {}))
        seen += [(each["source"], each["lineStart"]) for each in found["excerpts"]]
        if (cursor := found.get("nextCursor")) is None:
            break
    assert seen == [("stdout", 1), ("stdout", 2), ("stdout", 3), ("stderr", 2)]


def test_s35_long_lines_are_cut_in_queries(artifacts: Artifacts) -> None:
    handle = store(artifacts, "needle" + "x" * 1990 + "\n" + "y" * 2000)
    found = ask(artifacts, handle, queryTerms=["needle"])
    assert found["excerpts"] == [
        {
            "lineStart": 1,
            "lineEnd": 2,
            "content": "needle" + "x" * 494 + "[truncated]\n" + "y" * 500 + "[truncated]",
            "source": "stdout",
        }
    ]
    assert found["lineCursor"] == {"stream": "stdout", "afterLine": 0, "afterChar": 500}


def test_of_progress_the_last_frame_is_shown(artifacts: Artifacts) -> None:
    frames = "".join(f"\rframe {number}" for number in range(1, 301))
    handle = store(artifacts, stdout=f"begin\n{frames}\nend\n")
    for asked in (
        {"query_terms": ["begin"], "context_lines": 2},
        {"line_range": {"stream": "stdout", "start_line": 1, "end_line": 3}},
    ):
        [excerpt] = ask(artifacts, handle, **asked)["excerpts"]
        assert excerpt["content"] == "begin\nframe 300\nend"
    [excerpt] = ask(artifacts, handle, query_terms=["FRAME 17"], context_lines=0)["excerpts"]
    assert (excerpt["lineStart"], excerpt["content"]) == (2, "frame 179")


def test_of_frames_of_several_lines_the_last_one_is_shown(artifacts: Artifacts) -> None:
    """Lines are numbered as they are shown, also where a long one is read on."""
    frames = "".join(f"\x1b[2A\x1b[2Ka {number}\n\x1b[2Kb {number}\n" for number in range(1, 301))
    handle = store(artifacts, stdout=f"begin\n\n\n{frames}{'x' * 600}\nend\n")
    found = ask(artifacts, handle, query_terms=["b 300"], context_lines=1)
    [excerpt] = found["excerpts"]
    assert (excerpt["lineStart"], excerpt["content"]) == (2, f"a 300\nb 300\n{'x' * 500}[truncated]")
    assert (found["totalLines"], found["lineCursor"]["afterLine"]) == (5, 3)
    [rest] = ask(artifacts, handle, cursor=found["lineCursor"])["excerpts"]
    assert (rest["lineStart"], rest["content"]) == (4, "x" * 100)


def test_a_match_far_into_a_long_line_is_shown(artifacts: Artifacts) -> None:
    found = ask(artifacts, store(artifacts, "a\n" + "x" * 1990 + "needle\n"), queryTerms=["needle"])
    [excerpt] = found["excerpts"]
    assert excerpt["content"] == "a\n[truncated]" + "x" * 100 + "needle"
    assert found["lineCursor"] == {"stream": "stdout", "afterLine": 1, "afterChar": 0}


def test_a_cut_line_is_read_on_to_its_end(artifacts: Artifacts) -> None:
    long = "".join(f"é{number} " for number in range(12_000))
    handle = store(artifacts, f"short\n{long}\nlast\n", "x" * 600)
    found = ask(artifacts, handle, lineRange={"stream": "stdout", "startLine": 1, "endLine": 3})
    text = found["excerpts"][0]["content"].split("\n")[1].removesuffix("[truncated]")
    cursor = found["lineCursor"]
    while "afterChar" in cursor:
        page = ask(artifacts, handle, cursor=cursor)
        [excerpt] = page["excerpts"]
        assert (excerpt["lineStart"], excerpt["lineEnd"], len(excerpt["content"]) <= 20_000) == (2, 2, True)
        assert (page["totalLines"], page["searchedStreams"], "lineCursor" in page) == (3, ["stdout"], False)
        text += excerpt["content"]
        cursor = page["nextCursor"]
    assert text == long
    assert cursor == {"stream": "stdout", "afterLine": 2}
    assert ask(artifacts, handle, cursor=cursor)["excerpts"][0]["content"] == "last"


def test_beyond_the_end_of_a_line_and_of_all_lines(artifacts: Artifacts) -> None:
    handle = store(artifacts, "one\ntwo")
    after = {"stream": "stdout", "afterLine": 0, "afterChar": 3}
    found = ask(artifacts, handle, cursor=after)
    assert (found["excerpts"], found["nextCursor"]) == ([], {"stream": "stdout", "afterLine": 1})
    for place in ({**after, "afterLine": 1}, {**after, "afterLine": 9}, {**after, "stream": "stderr"}):
        found = ask(artifacts, handle, cursor=place)
        assert (found["excerpts"], "nextCursor" in found) == ([], False)


def test_output_without_a_byte_can_be_asked_about(artifacts: Artifacts) -> None:
    found = ask(artifacts, store(artifacts), queryTerms=["x"])
    assert (found["excerpts"], found["totalLines"], found["searchedStreams"]) == ([], 0, [])


def test_bytes_of_a_stream(artifacts: Artifacts) -> None:
    reading = OpenArtifact(artifacts, store(artifacts, "0123456789"), HOME)
    assert [read_bytes(reading, "stdout", start, 4) for start in (0, 3, 8, 20)] == [
        b"0123",
        b"3456",
        b"89",
        b"",
    ]


def test_s49_an_unknown_handle_is_an_error(artifacts: Artifacts) -> None:
    handle = f"runtime-repo-{datetime.now(UTC).timestamp() * 1000:.0f}-{'0' * 16}"
    with pytest.raises(UnknownArtifact):
        ask(artifacts, handle, queryTerms=["x"])


def tampered(artifacts: Artifacts, handle: str, data: bytes) -> None:
    (artifacts.settings.directory / handle / "stdout.gz").write_bytes(data)


def without_manifest(artifacts: Artifacts, handle: str) -> None:
    (artifacts.settings.directory / handle / "manifest.json").write_bytes(b"{")


def test_s50_a_corrupt_manifest_does_not_keep_from_searching(artifacts: Artifacts) -> None:
    handle = store(artifacts, "a needle\n")
    without_manifest(artifacts, handle)
    assert ask(artifacts, handle, queryTerms=["needle"])["matchCount"] == 1


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_manifest_that_is_no_file_keeps_nobody_from_the_others(artifacts: Artifacts, kind: str) -> None:
    good, handle = store(artifacts, "a"), store(artifacts, "a needle\n")
    manifest = artifacts.settings.directory / handle / "manifest.json"
    manifest.unlink()
    if kind == "link":
        manifest.symlink_to("/etc/passwd")
    else:
        manifest.mkdir()
    found = {str(each.handle): each.manifest is not None for each in artifacts.readable(None)}
    assert found == {good: True, handle: False}
    assert ask(artifacts, handle, queryTerms=["needle"])["matchCount"] == 1
    assert artifacts.sweep() == SweepReport(0, 1)
    later = datetime.now(UTC) + timedelta(days=400)
    swept = Artifacts(artifacts.settings, Scanner(RedactionSettings()), clock=lambda: later).sweep()
    assert swept == SweepReport(2, 0)
    assert list(artifacts.list()) == []


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
def test_s51_a_gzip_bomb_ends_in_an_error_and_costs_no_memory(artifacts: Artifacts, layers: int) -> None:
    handle = store(artifacts, "small")
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(packer.compress(bytes(MIB)) for _ in range(60)), packer.flush()])
    tampered(artifacts, handle, bomb if layers == 1 else bomb[:-8] + bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactTooLarge) as caught:
            ask(artifacts, handle, queryTerms=["x"])
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert str(caught.value) == (
        f"The artifact {handle} decompresses to more than artifacts.max_read_bytes = {50 * MIB}"
    )


def test_s51_both_streams_share_the_limit(artifacts: Artifacts) -> None:
    handle = store(artifacts, "x" * 600, "y" * 600)
    artifacts.settings = artifacts.settings.model_copy(update={"max_read_bytes": 1100})
    assert ask(artifacts, handle, queryTerms=["x"], stream="stdout")["matchCount"] == 1
    with pytest.raises(ArtifactTooLarge):
        ask(artifacts, handle, queryTerms=["x"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it ends too early"),
        (b"plain", "Error -3 while decompressing data: incorrect header check"),
        (gzip.compress(b"hello" * 1000, mtime=0)[:-9], "it ends too early"),
        (gzip.compress(b"other", mtime=0), "its SHA-256 is not that of the manifest"),
    ],
    ids=["empty", "no gzip", "cut", "other"],
)
def test_a_damaged_stream_is_an_error(artifacts: Artifacts, data: bytes, why: str) -> None:
    handle = store(artifacts, "small")
    tampered(artifacts, handle, data)
    with pytest.raises(ArtifactError) as caught:
        ask(artifacts, handle, queryTerms=["x"])
    assert str(caught.value) == f"The stdout of the artifact {handle} is damaged: {why}"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300), st.integers(0, 300), st.sampled_from(["whole", "broken"]))
def test_hostile_bytes_are_an_answer_or_an_artifact_error(
    artifacts: Artifacts, noise: bytes, place: int, manifest: str
) -> None:
    handle = store(artifacts, "hello\n" * 50)
    good = (artifacts.settings.directory / handle / "stdout.gz").read_bytes()
    tampered(artifacts, handle, good[:place] + noise + good[place:])
    if manifest == "broken":
        without_manifest(artifacts, handle)
    try:
        found = ask(artifacts, handle, queryTerms=["hello"])
    except ArtifactError:
        return
    assert found["totalBytes"] <= 50 * MIB


def test_names_in_the_store_that_are_no_handles_are_not_listed(artifacts: Artifacts) -> None:
    handle = store(artifacts, "x")
    (artifacts.settings.directory / "notes").mkdir()
    (artifacts.settings.directory / "notes" / "manifest.json").write_text("{}")
    assert list(artifacts.list()) == [Handle.parse(handle)]


PLACES = st.fixed_dictionaries({"stream": st.just("stdout"), "afterLine": st.integers(0, 25)})
QUESTIONS = st.one_of(
    st.fixed_dictionaries(
        {"queryTerms": st.lists(st.sampled_from(["a", "B", "ab", "zz"]), min_size=1, max_size=3)},
        optional={"cursor": PLACES},
    ),
    st.fixed_dictionaries({"cursor": PLACES}),
    st.tuples(PLACES, st.integers(0, 700)).map(lambda both: {"cursor": {**both[0], "afterChar": both[1]}}),
    st.tuples(st.integers(1, 25), st.integers(0, 9)).map(
        lambda span: {"lineRange": {"stream": "stdout", "startLine": span[0], "endLine": sum(span)}}
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "\n", "\n\n\n", "ab", "x" * 600, "c\n" * 5]), max_size=30).map(
        "".join
    ),
    QUESTIONS,
    st.fixed_dictionaries({"maxExcerpts": st.integers(1, 4), "contextLines": st.integers(0, 3)}),
    st.integers(1, 50),
)
def test_in_which_pieces_output_is_read_makes_no_difference(
    artifacts: Artifacts, text: str, question: dict[str, object], sizes: dict[str, object], piece: int
) -> None:
    handle = store(artifacts, text, "a\n")
    asked = question | sizes
    whole = ask(artifacts, handle, **asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "_PIECE_BYTES", piece)
        assert ask(artifacts, handle, **asked) == whole


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"queryTerms": ["x"]}, 2),
        ({"queryTerms": ["a"]}, 2),
        ({"lineRange": {"stream": "stdout", "startLine": 2_000_000, "endLine": 2_000_000}}, 1),
        ({"cursor": {"stream": "stdout", "afterLine": 2_000_000}}, 1),
    ],
)
def test_millions_of_lines_are_not_looked_at_one_by_one(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch, asked: dict[str, object], most: int
) -> None:
    handle = store(artifacts, "a\n" * 2_500_000)
    fed: list[str] = []
    feed = LineSplitter.feed
    monkeypatch.setattr(LineSplitter, "feed", lambda lines, text: (fed.append(text), feed(lines, text))[1])
    assert ask(artifacts, handle, **asked)["totalLines"] == 2_500_000
    assert len(fed) <= most
