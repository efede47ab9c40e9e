"""Store results over their limit whole, like the output of programs, instead of returning a replacement."""

from typing import TYPE_CHECKING

from paddock.model.outcome import Decision, RawResult
from paddock.model.request import ExecutionRequest
from paddock.policy.settings.schema import ArtifactSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.record.output.artifacts import Artifacts
    from paddock.record.output.recording import Recording


class Results:
    """Stores results. Calls `artifacts` only for the first one, because most programs return little."""

    def __init__(self, settings: ArtifactSettings, artifacts: "Callable[[], Artifacts]") -> None:
        self._limit = settings.max_read_bytes if settings.enabled else 0
        self.artifacts = artifacts
        """Returns the store."""

    def sink(self) -> "LargeResult":
        """Return a sink for the result of one program, in case it is over its limit."""
        return LargeResult(self._limit, self.artifacts)


class LargeResult:
    """One result that arrives in parts, from which secrets are removed. Ends with `finish` or `discard`."""

    def __init__(self, limit: int, artifacts: "Callable[[], Artifacts]") -> None:
        self.limit = limit
        """Maximum length, in characters; a larger artifact could not be read back."""
        self._artifacts = artifacts
        self._recording: Recording | None = None

    def take(self, text: str) -> None:
        """Store the next part."""
        if self._recording is None:
            self._recording = self._artifacts().record_result()
        self._recording.stdout(text.encode("utf-8", "replace"))

    async def store(
        self, request: ExecutionRequest, decision: Decision, result: RawResult, labels: tuple[str, ...]
    ) -> str | None:
        """Return the handle of the stored result and console; None if it cannot be stored (`refusal`).

        `labels` are those of its run, for flow rules.
        """
        if self._recording is None:
            return None
        for line in result.console:
            self._recording.stderr(f"{line.printed}\n".encode("utf-8", "replace"))
        from paddock.model.artifact import RunFacts  # its models take 7 ms to build

        facts = RunFacts(
            workspace=str(request.workspace),
            runtime="javascript",
            request=request.id,
            status=result.status.value,
            duration_ms=result.usage.wall_ms,
            policy_audit_hash=decision.audit_hash,
            flow_labels=labels,
        )
        return await self._recording.finish(facts)

    async def finish(
        self, request: ExecutionRequest, decision: Decision, result: RawResult, labels: tuple[str, ...]
    ) -> RawResult:
        """Store the parts as `store` does, and return `result` with their handle and a hint."""
        assert result.error is not None
        handle = await self.store(request, decision, result, labels)
        advice = "Return less of it" + (
            f": {self.refusal}" if handle is None else f", or read it with: paddock output show {handle}"
        )
        count = 0 if self._recording is None else self._recording.redactions
        return result.replace(artifact=handle, error=result.error.replace(hint=advice), redactions=count)

    @property
    def refusal(self) -> str:
        """Why the result is not stored."""
        if self._recording is not None:
            return self._recording.refusal
        why = "it is larger than artifacts.max_read_bytes" if self.limit else "artifacts.enabled is false"
        return f"it is not stored, because {why}"

    async def discard(self) -> None:
        """Drop everything that has not been stored."""
        if self._recording is not None:
            await self._recording.discard()
