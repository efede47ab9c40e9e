"""What stands in vendor/ is what the lock file names, and the lock file names no host."""

import hashlib
import json
from pathlib import Path

from paddock.engines.javascript import parse

SCRIPTS = Path(parse.__file__).parent / "js"


def test_vendored_files_are_those_of_the_lock_file():
    note = json.loads((SCRIPTS / "vendor/VENDOR.json").read_bytes())
    lock = (SCRIPTS / "package-lock.json").read_bytes()
    packages = json.loads(lock)["packages"]
    assert note["made_from"]["package-lock.json"] == hashlib.sha256(lock).hexdigest()
    assert note["packages"] == {
        name.removeprefix("node_modules/"): {"version": package["version"], "license": package["license"]}
        for name, package in packages.items()
        if name
    }
    assert note["files"] == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (SCRIPTS / "vendor").iterdir()
        if path.name != "VENDOR.json"
    }


def test_every_vendored_library_carries_its_licence():
    assert "MIT License" in (SCRIPTS / "vendor/acorn.LICENSE").read_text("utf-8")
    assert "Apache License" in (SCRIPTS / "vendor/swc.LICENSE").read_text("utf-8")


def test_lock_file_pins_exactly_and_names_no_host():
    lock = json.loads((SCRIPTS / "package-lock.json").read_bytes())
    wanted = json.loads((SCRIPTS / "package.json").read_bytes())["dependencies"]
    packages = {
        name.removeprefix("node_modules/"): package for name, package in lock["packages"].items() if name
    }
    assert wanted == {name: package["version"] for name, package in packages.items()}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in json.dumps(lock)
