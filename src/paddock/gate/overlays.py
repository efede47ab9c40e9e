"""The gate's side of programs with the access `overlay`: their changes become a change set, with a summary."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paddock.gate.change_sets import open_store
from paddock.model.changes import ChangesSummary, DirectoryChanges
from paddock.model.errors import ChangesError
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.model.path_privacy import hide_paths
from paddock.model.printable import make_printable
from paddock.model.request import ExecutionRequest
from paddock.policy.settings.overlay import OverlaySettings

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.changes.capture import CaptureRules, Overlaid
    from paddock.engines.changes.opening import OverlayRun
    from paddock.model.change_set import ChangeSet

_MAX_DIFF_CHARS = 4000
_MAX_SHOWN = 20
"""Maximum number of paths of each kind in a summary."""
LIMIT = "changes"
"""Name of the limit that a program exceeds which changes too much."""


class OverlayChanges:
    """Keeps the changes of one program to its overlays, a change set for each directory."""

    def __init__(
        self,
        settings: OverlaySettings,
        request: ExecutionRequest,
        hide: Callable[[str], str],
        list_labels: Callable[[], tuple[str, ...]],
    ) -> None:
        """Keep the changes of a request; `hide` removes secrets from what is shown, never from what is kept.

        `list_labels` returns what its run has read, for flow rules.
        """
        self._hide = hide
        self._list_labels = list_labels
        self._settings = settings
        self._request = request
        self._summaries: dict[Path, ChangesSummary] = {}
        """By real path."""
        self._fault = ""

    def make_run(self) -> "OverlayRun":
        """Return what the engine needs to run the program."""
        from paddock.engines.changes.opening import OverlayBounds, OverlayRun

        return OverlayRun(OverlayBounds(self._settings.copy_bytes, self._settings.copy_files), self._take)

    def add_summary(self, result: RawResult) -> RawResult:
        """Return the result of the program with its changes, if it ran."""
        if self._fault:
            from paddock.gate.work.changes import is_person

            if not is_person(self._request):
                self._fault = hide_paths(self._fault, self._request.workspace)
            error = ErrorInfo(name="Changes", message=self._fault, phase="run")
            result = result.replace(status=Status.ERROR, error=error)
        cut = next((each for each in self._summaries.values() if each.incomplete), None)
        if cut is not None and result.status is Status.OK:
            hint = "let it change less, or raise the setting in the user's paddock.toml"
            error = ErrorInfo(
                name="Changes",
                message=f"Its changes are incomplete: {cut.incomplete}",
                hint=f"{hint}; `paddock changes show` lists what was found" if cut.id else hint,
                phase="run",
            )
            program = None if result.program is None else result.program.replace(limit=LIMIT)
            result = result.replace(status=Status.OUTPUT_LIMIT, error=error, program=program)
        beside = dict(self._summaries)
        own = beside.pop(self._request.workspace.resolve(), None)
        changed = tuple(
            DirectoryChanges(**each.model_dump(), directory=make_printable(self._hide(str(path))))
            for path, each in beside.items()
        )
        return result.replace(changes=own, directory_changes=changed)

    def _take(self, overlaid: "Overlaid", rules: "CaptureRules") -> None:
        from paddock.engines.changes.capture import CaptureLimits, capture_changes
        from paddock.engines.changes.differ import Differ

        try:
            is_empty = not any(overlaid.folder.iterdir())
        except OSError:  # the program did not start
            return
        if is_empty and overlaid.method == "overlayfs":
            self._summaries[overlaid.workspace] = ChangesSummary(id="", method="overlayfs")
            return
        store = open_store(self._settings)
        limits = CaptureLimits(self._settings.bytes, self._settings.changes)
        try:
            with store.begin() as new:
                found = capture_changes(overlaid, new, self._request.id, rules, limits).replace(
                    flow_labels=self._list_labels()
                )
                set_id = new.finish(found) if found.changes else ""
            diff = Differ(store, set_id, self._hide).render(found.changes, _MAX_DIFF_CHARS) if set_id else ""
            self._summaries[overlaid.workspace] = summarize_changes(set_id, found, diff, self._hide)
            store.purge_when_due(self._settings.keep_days, self._settings.keep_bytes)
        except ChangesError as error:
            self._fault = f"its changes are lost: {error}"
        except OSError as error:
            self._fault = f"its changes are lost: they cannot be read: {error.strerror}"


def summarize_changes(
    set_id: str, found: "ChangeSet", diff: str, hide: Callable[[str], str]
) -> ChangesSummary:
    """Return the summary of a change set for the outcome of its program; `hide` removes secrets from names."""
    kinds = [change.kind for change in found.changes]
    named = [change.path for change in found.changes if change.protected or change.outward]

    def show(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(make_printable(hide(path)) for path in paths[:_MAX_SHOWN])

    return ChangesSummary(
        id=set_id,
        method=found.method,
        added=kinds.count("added"),
        modified=kinds.count("modified") + kinds.count("mode"),
        deleted=kinds.count("deleted"),
        protected=show(named),
        left_out=show(found.left_out),
        incomplete=found.incomplete,
        diff=diff,
    )
