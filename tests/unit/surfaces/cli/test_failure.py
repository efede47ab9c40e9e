"""What the system refuses is told in words that say what to do."""

import tempfile

import pytest

from paddock.surfaces.cli.failure import build_refusal_failure


def test_where_nothing_can_be_written_to_people_are_told_to_name_a_place(tmp_path, monkeypatch):
    nowhere = str(tmp_path / "missing")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [nowhere])
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.gettempdir()
    failure = build_refusal_failure(caught.value, exit_code=125)
    assert (failure.exit_code, failure.message) == (
        125,
        f"No usable temporary directory found in ['{nowhere}']; set TMPDIR to a directory that can be written to",
    )
