"""What leads to a path."""

import pytest

from paddock.confinement.sandbox.child.paths import list_above, list_links


def test_links_on_the_way_are_told_by_where_they_stand(tmp_path):
    real = tmp_path.resolve()
    (real / "3.12.1" / "bin").mkdir(parents=True)
    (real / "3.12").symlink_to("3.12.1")
    (real / "deep").mkdir()
    (real / "deep" / "up").symlink_to("../3.12/../3.12")
    (real / "python").symlink_to(real / "deep" / "up" / "bin" / "python")
    ways = ["deep/up", "3.12"]
    assert list_links(f"{real}/3.12.1/bin") == []
    assert list_links(f"{real}//3.12/./bin/nothing") == [f"{real}/3.12"]
    assert list_links(f"{real}/deep/up/x") == [f"{real}/{way}" for way in (*ways, "3.12")]
    assert list_links(f"{real}/python") == [f"{real}/{way}" for way in ("python", *ways, "3.12")]


def test_a_circle_has_an_end(tmp_path):
    real = tmp_path.resolve()
    (real / "circle").symlink_to("circle")
    assert list_links(f"{real}/circle") == [f"{real}/circle"] * 40


@pytest.mark.parametrize(
    ("path", "top", "above"),
    [
        ("/a/b/c", "", ["/a", "/a/b"]),
        ("/a/b/c", "/a", ["/a/b"]),
        ("/a/b/c", "/x", []),
        ("/a", "", []),
        ("/", "", []),
        ("//srv/app/.env", "", ["//srv", "//srv/app"]),
        ("//", "", []),
    ],
)
def test_the_directories_above_end_at_the_root(path, top, above):
    assert list_above(path, top) == above
