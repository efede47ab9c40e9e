"""What is put off until its first use has no fault: every pattern compiles, and every model can validate."""

import importlib
import pkgutil
import re
import subprocess
import sys

import pytest

import paddock
from paddock.model.late_pattern import LatePattern, compile_late

_OPTIONAL = ("paddock.integrations.", "paddock.cluster.", "paddock.surfaces.client.ray.")
"""Modules that need libraries which may not be installed."""


def load_all():
    for found in pkgutil.walk_packages(paddock.__path__, "paddock."):
        if not (
            found.name.startswith(_OPTIONAL) or ".child." in found.name or found.name.endswith("__main__")
        ):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as missing:
                if (missing.name or "").startswith("paddock"):
                    raise
    return [module for name, module in sorted(sys.modules.items()) if name.startswith("paddock.")]


def find_patterns(value):
    if isinstance(value, LatePattern):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from find_patterns(each)
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from find_patterns(each)


def test_every_late_pattern_compiles():
    found = [
        pattern
        for module in load_all()
        for value in list(vars(module).values())
        for pattern in find_patterns(value)
    ]
    assert len(found) > 100
    for pattern in found:
        assert pattern.groups >= 0


def test_a_late_pattern_is_a_compiled_one():
    late = compile_late("(?P<digits>[0-9]+)", re.ASCII)
    assert late.sub(r"<\g<digits>>", "a1b22") == "a<1>b<22>"
    assert (late.pattern, late.groups, late.flags) == (
        "(?P<digits>[0-9]+)",
        1,
        re.compile("", re.ASCII).flags,
    )
    with pytest.raises(AttributeError):
        late.searches  # noqa: B018 - the look is the test
    with pytest.raises(re.error):
        compile_late("(").search("")


def test_every_model_can_validate():
    """Models are built at their first use, so that a fault of a definition would show only then."""
    code = """
from tests.unit.model.test_late import load_all
from pydantic import BaseModel
load_all()
waiting, seen = [BaseModel], set()
while waiting:
    for kind in waiting.pop().__subclasses__():
        if kind not in seen:
            seen.add(kind)
            waiting.append(kind)
own = [kind for kind in seen if kind.__module__.startswith("paddock.") and not kind.__pydantic_generic_metadata__["parameters"]]
assert len(own) > 150, len(own)
for kind in own:
    kind.model_rebuild(raise_errors=True)
    assert kind.__pydantic_complete__, kind
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
