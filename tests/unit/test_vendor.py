"""What stands in vendor/ is what its lock file names, and the lock file names no host."""

import hashlib
import json
from pathlib import Path

import pytest

import paddock

PACKAGE = Path(paddock.__file__).parent
GUEST, PAGE = PACKAGE / "engines/javascript/js", PACKAGE / "surfaces/web"
VENDORED = pytest.mark.parametrize(
    ("manifests", "vendor"),
    [(GUEST, GUEST / "vendor"), (PAGE, PAGE / "static/vendor")],
    ids=["guest", "page"],
)


@VENDORED
def test_vendored_files_are_those_of_the_lock_file(manifests, vendor):
    note = json.loads((vendor / "VENDOR.json").read_bytes())
    lock = (manifests / "package-lock.json").read_bytes()
    packages = json.loads(lock)["packages"]
    assert note["made_from"]["package-lock.json"] == hashlib.sha256(lock).hexdigest()
    assert note["packages"] == {
        name.removeprefix("node_modules/"): {"version": package["version"], "license": package.get("license")}
        for name, package in packages.items()
        if name
    }
    assert note["files"] == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendor.iterdir()
        if path.name != "VENDOR.json"
    }


def test_every_vendored_library_carries_its_licence():
    vendors = (GUEST / "vendor", PAGE / "static/vendor")
    files = [
        path for vendor in vendors for path in vendor.iterdir() if path.suffix in {".js", ".css", ".wasm"}
    ]
    first_lines = {
        path.name: path.with_suffix(".LICENSE").read_text("utf-8").strip().splitlines()[0].strip()
        for path in files
    }
    assert first_lines == {
        "acorn.js": "MIT License",
        "hashes.js": "@noble/hashes",
        "htmx.js": "Zero-Clause BSD",
        "htmx-sse.js": "BSD Zero Clause License",
        "swc.js": "Apache License",
        "swc.wasm": "Apache License",
        "uplot.css": "The MIT License (MIT)",
        "uplot.js": "The MIT License (MIT)",
        "url.js": "whatwg-url",
    }


@VENDORED
def test_lock_file_pins_exactly_and_names_no_host(manifests, vendor):
    lock = json.loads((manifests / "package-lock.json").read_bytes())
    wanted = json.loads((manifests / "package.json").read_bytes())["dependencies"]
    packages = {
        name.removeprefix("node_modules/"): package for name, package in lock["packages"].items() if name
    }
    assert wanted == {name: package["version"] for name, package in packages.items()}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in json.dumps(lock)
