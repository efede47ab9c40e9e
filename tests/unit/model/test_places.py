"""What programs read of where files are."""

from pathlib import Path

import pytest

from paddock.model.places import in_workspace, without_places

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
    assert without_places(text, WORKSPACE) == told


def test_what_a_program_gave_itself_is_left_alone():
    assert (
        in_workspace("there is no sequence called /etc/x", WORKSPACE) == "there is no sequence called /etc/x"
    )
    assert in_workspace("/tmp/a stays", Path("/")) == "/tmp/a stays"
