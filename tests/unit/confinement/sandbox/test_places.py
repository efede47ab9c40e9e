"""What a kept root was built of is looked at again before each job: no change of a path may go unseen."""

import pytest

from paddock.confinement.sandbox.child import namespaces


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return a folder in the place of /etc, with a file and a link to one elsewhere."""
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "hosts").write_text("one")
    (tmp_path / "resolv").write_text("one")
    (folder / "resolv.conf").symlink_to(tmp_path / "resolv")
    monkeypatch.setattr(namespaces, "_SETTINGS_FOLDER", str(folder))
    return folder


def replace(path):
    """Put another file in its place, as editors do."""
    path.with_suffix(".new").write_text("two")
    path.with_suffix(".new").rename(path)


def paths(settings):
    return [str(settings / name) for name in ("hosts", "resolv.conf", "missing")] + [
        str(settings.parent / "other")
    ]


def test_places_stay_the_same_while_nothing_changes(settings):
    before = namespaces.identify_paths(paths(settings))
    assert namespaces.identify_paths(paths(settings)) == before
    etc, resolv = settings.stat(), (settings / "resolv.conf").stat()
    assert dict(before) == {
        str(settings): (etc.st_dev, etc.st_ino, etc.st_mtime_ns, etc.st_ctime_ns),
        str(settings / "resolv.conf"): (resolv.st_dev, resolv.st_ino),
        str(settings.parent / "other"): None,
    }


@pytest.mark.parametrize("name", ["etc/hosts", "resolv", "etc/missing", "other", "etc/unasked"])
def test_another_file_is_seen(settings, name):
    before = namespaces.identify_paths(paths(settings))
    replace(settings.parent / name)
    assert namespaces.identify_paths(paths(settings)) != before


def test_a_link_that_leads_elsewhere_and_a_file_that_becomes_a_link_are_seen(settings):
    before = namespaces.identify_paths(paths(settings))
    (settings / "hosts").unlink()
    (settings / "hosts").symlink_to(settings.parent / "resolv")
    linked = namespaces.identify_paths(paths(settings))
    replace(settings.parent / "resolv")
    assert len({before, linked, namespaces.identify_paths(paths(settings))}) == 3


def test_a_folder_that_is_gone_is_seen(settings):
    before = namespaces.identify_paths(paths(settings))
    settings.rename(settings.parent / "elsewhere")
    gone = namespaces.identify_paths(paths(settings))
    assert gone != before
    assert gone[0] == (str(settings), None)


def test_a_folder_whose_name_begins_like_that_of_devices_is_shown():
    command = namespaces.build_command(
        readable=["/developer", "/process"],
        writable=[],
        covered=[],
        links=[],
        scratch="/tmp/s/1",
        network=False,
    ).split("\0")
    for path in ("/developer", "/process"):
        assert command[command.index(path) - 1 : command.index(path) + 2] == ["--ro-bind", path, path]
