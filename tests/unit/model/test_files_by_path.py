"""Input files as texts by path."""

import pytest

from paddock.model.work_files import read_files_by_path


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"a.csv": "x", "b/c": ""}, [{"path": "a.csv", "text": "x"}, {"path": "b/c", "text": ""}]),
        ({}, []),
        ([{"path": "a", "text": "b"}], [{"path": "a", "text": "b"}]),
        ({"path": "a", "text": "b"}, {"path": "a", "text": "b"}),
        ({"a": 1}, {"a": 1}),
        ("a", "a"),
        (None, None),
    ],
)
def test_texts_by_path_are_a_list_of_files(given, files):
    assert read_files_by_path(given) == files
