"""For tests of programs that use Paddock, and of what they pass to it.

`MemoryAudit` and `MemoryArtifacts` keep record and output in memory, `FakeSandbox` runs nothing. The checks are what
Paddock's own sinks, stores and sandboxes are tested with; run them on your own:

    @pytest.mark.parametrize("check", AUDIT_SINK_CHECKS)
    def test_my_sink(check, tmp_path):
        check(MySink(tmp_path))

A check raises AssertionError, which says what was promised. Each needs a new, empty object.
"""

from paddock.testing.artifact_store import ARTIFACT_STORE_CHECKS
from paddock.testing.audit_sink import AUDIT_SINK_CHECKS
from paddock.testing.fakes import FakeSandbox, MemoryArtifacts, MemoryAudit
from paddock.testing.sandbox import SANDBOX_CHECKS

__all__ = [
    "ARTIFACT_STORE_CHECKS",
    "AUDIT_SINK_CHECKS",
    "SANDBOX_CHECKS",
    "FakeSandbox",
    "MemoryArtifacts",
    "MemoryAudit",
]
