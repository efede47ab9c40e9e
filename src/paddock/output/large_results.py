"""Results over their limit: stored whole, like the output of programs, so that nothing stands in a value's place."""

from typing import TYPE_CHECKING

from paddock.model.outcome import Decision, RawResult
from paddock.model.request import ExecutionRequest
from paddock.settings.schema import ArtifactSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.artifact import RunFacts
    from paddock.output.artifacts import Artifacts
    from paddock.output.recorder import Recording


class Results:
    """Stores results. The artifacts are asked for at the first one: most programs return little."""

    def __init__(self, settings: ArtifactSettings, artifacts: "Callable[[], Artifacts]") -> None:
        self._limit = settings.max_read_bytes if settings.enabled else 0
        self._artifacts = artifacts

    def sink(self) -> "LargeResult":
        """Return what takes the result of one program, should that be over its limit."""
        return LargeResult(self._limit, self._artifacts)


class LargeResult:
    """One result on its way: its secrets are removed as its pieces come. Ends with `finish` or `discard`."""

    def __init__(self, limit: int, artifacts: "Callable[[], Artifacts]") -> None:
        self.limit = limit
        """Maximum length, in characters: more bytes could not be read again."""
        self._artifacts = artifacts
        self._recording: Recording | None = None

    def take(self, text: str) -> None:
        """Take the next piece."""
        if self._recording is None:
            self._recording = self._artifacts().record_result()
        self._recording.stdout(text.encode("utf-8", "replace"))

    async def store(self, request: ExecutionRequest, decision: Decision, result: RawResult) -> str | None:
        """Return the handle of what came, with the console beside it; None when it cannot be stored: see `refusal`."""
        if self._recording is None:
            return None
        for line in result.console:
            self._recording.stderr(f"{line.printed}\n".encode("utf-8", "replace"))
        return await self._recording.finish(_run_facts(request, decision, result))

    async def finish(self, request: ExecutionRequest, decision: Decision, result: RawResult) -> RawResult:
        """Store what came, and return `result` with its handle and with what to do."""
        assert result.error is not None
        handle = await self.store(request, decision, result)
        advice = "Return less of it" + (
            f": {self.refusal}" if handle is None else f", or read it with: paddock output show {handle}"
        )
        count = 0 if self._recording is None else self._recording.redactions
        return result.replace(artifact=handle, error=result.error.replace(hint=advice), redactions=count)

    @property
    def refusal(self) -> str:
        """Why it is not stored."""
        if self._recording is not None:
            return self._recording.refusal
        why = "it is larger than artifacts.max_read_bytes" if self.limit else "artifacts.enabled is false"
        return f"it is not stored, because {why}"

    async def discard(self) -> None:
        """Keep nothing that is not stored yet."""
        if self._recording is not None:
            await self._recording.discard()


def _run_facts(request: ExecutionRequest, decision: Decision, result: RawResult) -> "RunFacts":
    from paddock.model.artifact import RunFacts  # its models take 7 ms to build

    return RunFacts(
        workspace=str(request.workspace),
        runtime="javascript",
        request=request.id,
        status=result.status.value,
        duration_ms=result.usage.wall_ms,
        policy_audit_hash=decision.audit_hash,
    )
