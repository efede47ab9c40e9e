"""Packages for Node.js from a registry of the tests' own, by the real npm."""

import json

from tests.integration.engines.packages.conftest import Registry, User

from paddock import Status


def test_a_program_gets_its_packages_and_their_dependencies(user: User, registry: Registry) -> None:
    registry.add_module(
        "upper", "1.2.0", {"index.js": "exports.lower = require('lower')"}, dependencies={"lower": "^1"}
    )
    registry.add_module("lower", "1.0.1", {"index.js": "module.exports = 'from lower'"})
    code = "console.log(require('upper').lower)"
    outcome = user.execute("node", code, packages=["upper@^1"])
    assert (outcome.status, outcome.error) == (Status.OK, None)
    assert outcome.program.stdout.text == "from lower\n"
    assert outcome.program.packages == ("lower==1.0.1", "upper==1.2.0")
    registry.stop()
    again = user.execute("node", code, packages=["upper@^1"], overrides={"packages": {"network": "none"}})
    assert again.program.stdout.text == "from lower\n"


def test_install_scripts_do_not_run_without_builds(user: User, registry: Registry) -> None:
    scripts = {"postinstall": "echo module.exports=true > ran.js"}
    registry.add_module(
        "upper",
        "1.0.0",
        {"index.js": "try { require('./ran.js'); console.log('ran') } catch { console.log('did not run') }"},
        scripts=scripts,
    )
    outcome = user.execute("node", "require('upper')", packages=["upper"])
    assert outcome.program.stdout.text == "did not run\n"
    granted = {"packages": {"network": "hosts", "builds": True}}
    assert (
        user.execute("node", "require('upper')", packages=["upper"], overrides=granted).program.stdout.text
        == "ran\n"
    )


def test_a_package_file_and_its_lock_name_packages(user: User, registry: Registry) -> None:
    registry.add_module("upper", "1.0.0", {"index.js": "module.exports = 1"})
    registry.add_module("upper", "1.1.0", {"index.js": "module.exports = 2"})
    known = json.loads((registry.root / "upper").read_text())["versions"]["1.0.0"]
    manifest = {
        "name": "own",
        "version": "1.0.0",
        "dependencies": {"upper": "^1"},
        "scripts": {"preinstall": "exit 9"},
    }
    entry = {
        "version": "1.0.0",
        "resolved": "http://127.0.0.1:1/elsewhere.tgz",
        "integrity": known["dist"]["integrity"],
    }
    lock = {
        "name": "own",
        "version": "1.0.0",
        "lockfileVersion": 3,
        "packages": {"": {**manifest}, "node_modules/upper": entry},
    }
    code = "console.log(require('upper'))"
    newest = user.execute("node", code, files={"package.json": json.dumps(manifest)})
    assert (newest.status, newest.program.stdout.text) == (Status.OK, "2\n")
    locked = user.execute(
        "node", code, files={"package.json": json.dumps(manifest), "package-lock.json": json.dumps(lock)}
    )
    assert (locked.status, locked.program.stdout.text) == (Status.OK, "1\n")


def test_a_lock_names_packages_of_the_registry_only(user: User, registry: Registry) -> None:
    manifest = {"name": "own", "version": "1.0.0", "dependencies": {"upper": "^1"}}
    for entry, message in (
        (
            {"resolved": "../elsewhere", "link": True},
            "package-lock.json: upper is not a package of a registry",
        ),
        (
            {"version": "1.0.0", "resolved": "git+ssh://git@127.0.0.1/a.git#1"},
            "package-lock.json: upper has no checksum (`integrity`)",
        ),
    ):
        lock = {"lockfileVersion": 3, "packages": {"node_modules/upper": entry}}
        files = {"package.json": json.dumps(manifest), "package-lock.json": json.dumps(lock)}
        outcome = user.execute("node", "0", files=files)
        assert (outcome.status, outcome.error.message) == (Status.INVALID, message)
    assert registry.requests("/") == 0
