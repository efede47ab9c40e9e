"""Programs may give the bit of a group to folders, which hand the group on, and to no file."""

from pathlib import Path
from typing import Literal

import pytest
from tests.integration.confinement.sandbox.test_supervised_calls import (
    OTHER_USER,
    give,
    needs_root,
    read,
    run,
)

from paddock.model.sandbox import Tier

FOLDERS_OF_A_GROUP = """
os.mkdir("one"), os.mkdir("two"), os.symlink("one", "link"), os.symlink(f"{os.getcwd()}/two", "far")
open("file", "w").close()
here, two = os.open(".", os.O_RDONLY), os.open("two", os.O_RDONLY)
found = {
    "folder": result(lambda: os.chmod("one", 0o2750)),
    "path": result(lambda: os.chmod(f"{os.getcwd()}/two", 0o2700)),
    "descriptor": result(lambda: os.fchmod(two, 0o2710)),
    "beside": result(lambda: os.chmod("../two", 0o2711, dir_fd=two)),
    "own": result(lambda: os.chmod(f"/proc/self/fd/{two}", 0o2701)),
    "link": result(lambda: os.chmod("link", 0o2755)),
    "far": result(lambda: os.chmod("far", 0o2755)),
    "young": result(lambda: system("fchmodat2", here, b"one", 0o2770, 0)),
    "in scratch": result(lambda: os.chmod(os.environ["TMPDIR"], 0o2700)),
    "missing": result(lambda: os.chmod("missing", 0o2700)),
    "outside": result(lambda: os.chmod("/usr", 0o2755)) != "done",
    "file": result(lambda: os.chmod("file", 0o2755)),
    "file by a descriptor": result(lambda: os.fchmod(os.open("file", os.O_RDONLY), 0o2700)),
}
os.mkdir("one/below")
found["modes"] = [oct(os.stat(name).st_mode) for name in ("one", "two", "one/below")]
print(json.dumps(found))
"""


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
@pytest.mark.parametrize("user", [0, pytest.param(OTHER_USER, marks=needs_root)])
@pytest.mark.parametrize("network", ["none", "loopback"])
def test_folders_of_a_group_stay_and_no_file_gets_its_powers(
    open_path: Path, tier: Tier, user: int, network: Literal["none", "loopback"]
) -> None:
    if network != "none" and tier != "namespaces":
        pytest.skip("the tier has no network of its own")
    grants = give(open_path / "workspace", user).replace(network=network)
    done = ("folder", "path", "descriptor", "beside", "own", "link", "far", "young", "in scratch")
    expected = dict.fromkeys(done, "done") | dict.fromkeys(("file", "file by a descriptor"), "EPERM")
    assert read(run(FOLDERS_OF_A_GROUP, grants, user, tier=tier)) == expected | {
        "missing": "ENOENT",
        "outside": True,
        "modes": ["0o42770", "0o42755", "0o42755"],
    }
