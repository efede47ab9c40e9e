"""The compiler comes from npm, in one version, with a pinned hash."""

import json

import pytest

from paddock.engines.programs import directories
from paddock.engines.types import installation
from paddock.engines.types.installation import CompilerPackageError, find_compiler, verify_installation

PACKAGE = "@typescript/typescript-linux-x64"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A directory of toolchains with a package of the compiler, as npm makes it."""
    monkeypatch.setattr(installation, "find_package", lambda: PACKAGE)
    monkeypatch.setattr(directories, "list_search_directories", lambda _user: (tmp_path,))
    (tmp_path / "node_modules" / PACKAGE / "lib").mkdir(parents=True)
    write(tmp_path)
    return tmp_path


def write(root, *, version=installation.VERSION, integrity=installation._INTEGRITY["x64"]):
    (root / "node_modules" / PACKAGE / "package.json").write_text(json.dumps({"version": version}))
    lock = {"packages": {f"node_modules/{PACKAGE}": {"integrity": integrity}}}
    (root / "node_modules/.package-lock.json").write_text(json.dumps(lock))


def test_the_pinned_version_is_found(root):
    verify_installation(root)
    assert find_compiler(None) == root / "node_modules" / PACKAGE / "lib/tsc"
    write(root, version="7.0.3")
    assert find_compiler(None) is None


def test_another_package_is_removed(root):
    write(root, integrity="sha512-other")
    with pytest.raises(CompilerPackageError) as caught:
        verify_installation(root)
    assert str(caught.value) == (
        f"{PACKAGE}@7.0.2 has the hash sha512-other, and Paddock knows it as {installation._INTEGRITY['x64']}; it was "
        "removed. Check the registry that npm uses: npm config get registry"
    )
    assert find_compiler(None) is None


def test_the_command_names_the_version_and_the_directory(root, monkeypatch):
    monkeypatch.setattr(installation.shutil, "which", lambda name: f"/usr/bin/{name}")
    command = installation.make_install_command(root)
    assert (command[:2], command[-3:]) == (("npm", "install"), ("--prefix", str(root), f"{PACKAGE}@7.0.2"))
    monkeypatch.setattr(installation.shutil, "which", lambda _name: None)
    with pytest.raises(CompilerPackageError, match="needs npm, which this machine lacks"):
        installation.make_install_command(root)
    monkeypatch.setattr(installation, "find_package", lambda: None)
    with pytest.raises(CompilerPackageError, match="it needs Linux on x86_64 or aarch64"):
        installation.make_install_command(root)
