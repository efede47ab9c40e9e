"""What a jail's first process says in the end is read as if the program had written it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.confinement.sandbox.child.jail import JailReport
from paddock.model.process import ProcessUsage

TOLD = {"status": 3 << 8, "left": 1, "user_ms": 1.5, "system_ms": 0.5, "peak_bytes": 4096}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(sorted(TOLD)) | st.text(), inner),
)


def test_what_is_told_comes_through():
    report = JailReport(768, 1, 1.5, 0.5, 4096)
    assert JailReport.from_bytes(json.dumps(TOLD).encode()) == report
    assert JailReport.from_bytes(report.to_bytes()) == report


@pytest.mark.parametrize(
    "change",
    [
        {"status": -1},
        {"status": 1 << 40},
        {"status": 0x137F},  # stopped: that is no end
        {"status": 1.5},
        {"status": "0"},
        {"left": -1},
        {"user_ms": float("inf")},
        {"user_ms": float("nan")},
        {"peak_bytes": None},
        {"peak_bytes": 2**53 + 0.5},
        {"peak_bytes": 1 << 80},
        {"peak_bytes": 4096.5},
        {"left": True},
        {"left": 0.5},
        {"more": 1},
    ],
)
def test_what_nobody_of_ours_would_tell_is_nothing(change):
    assert JailReport.from_bytes(json.dumps({**TOLD, **change}).encode()) is None


@given(st.binary() | ANYTHING.map(json.dumps).map(str.encode))
def test_no_bytes_do_harm(message):
    told = JailReport.from_bytes(message)
    assert told is None or set(json.loads(message)) == set(TOLD)
    if told is not None:
        ProcessUsage(cpu_user_ms=told.user_ms, cpu_system_ms=told.system_ms, peak_bytes=told.peak_bytes)
