"""What programs read of where files are."""

from pathlib import Path

import pytest

from paddock.model.path_privacy import hide_paths, shorten_paths

WORKSPACE = Path("/srv/ada/project")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "the key /var/lib/p/vault/key is missing; delete /var/lib/x.y",
            "the key key is missing; delete x.y",
        ),
        ("cannot be used: Permission denied (/srv/state)", "cannot be used: Permission denied (state)"),
        ("/srv/ada/project/.paddock/tools/a: tool.yaml: no", ".paddock/tools/a: tool.yaml: no"),
        (f"{Path.home()}/.paddock/sequences/*.toml", "~/.paddock/sequences/*.toml"),
        ("see https://a.example/b/c and text/plain, 1/2", "see https://a.example/b/c and text/plain, 1/2"),
        ("'/etc/paddock/paddock.toml'", "'paddock.toml'"),
        ("/ and /a stay", "/ and /a stay"),
    ],
)
def test_only_places_in_the_workspace_are_told(text: str, told: str):
    assert hide_paths(text, WORKSPACE) == told


def test_what_a_program_gave_itself_is_left_alone():
    assert (
        shorten_paths("there is no sequence called /etc/x", WORKSPACE) == "there is no sequence called /etc/x"
    )
    assert shorten_paths("/tmp/a stays", Path("/")) == "/tmp/a stays"
