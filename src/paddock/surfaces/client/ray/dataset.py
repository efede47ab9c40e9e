"""Programs in the columns of a `ray.data.Dataset`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from paddock.gate.batch.program import Program
from paddock.gate.batch.runner import BatchOrigin
from paddock.model.errors import RequestError
from paddock.model.texts import explain
from paddock.surfaces.client.arguments import read_whole_number
from paddock.surfaces.client.blocking import BlockingPaddock
from paddock.surfaces.client.ray.purity import Purity
from paddock.surfaces.client.ray.worker import find_empty_workspace

RESULT_COLUMNS = ("status", "verdict", "exit_code", "stdout", "stderr", "error")
"""The columns that `PaddockBatch` adds."""


class PaddockBatch:
    """Runs the programs of a dataset: `dataset.map_batches(PaddockBatch, compute=ActorPoolStrategy(size=8))`.

    Each row is a program, and its columns are fields of `Program`, such as `language`, `code`, `stdin` and `tests`.
    Each actor opens one Paddock. The rows come back with the columns `status`, `verdict`, `exit_code`, `stdout`,
    `stderr` and `error`.
    """

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        actor: str = "local",
        max_parallel: int | None = None,
        **fields: Any,  # noqa: ANN401 - those of `Program`
    ) -> None:
        """Open a Paddock in this actor, with the settings of its node and `overrides`.

        `columns` names the column of a field whose name differs; `fields` are fields of `Program` that are the same
        for all rows. At most `max_parallel` programs of an actor run at the same time, by default one. Raises
        RequestError for a name that is not a field, and ConfigurationError for invalid settings.
        """
        self._columns = {**{name: name for name in Program.model_fields}, **(columns or {})}
        if unknown := sorted({*self._columns, *fields} - Program.model_fields.keys()):
            known = ", ".join(Program.model_fields)
            raise RequestError(f"`{unknown[0]}` is not a field of a program; there are {known}")
        self._fields = fields
        self._max_parallel = read_whole_number("max_parallel", max_parallel) or 1
        workspace = find_empty_workspace()
        self._paddock = BlockingPaddock(workspace, overrides=overrides, actor=actor)
        self._purity = Purity(self._paddock.settings, BatchOrigin(workspace, actor, "library"))
        self._paddock.__enter__()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Run the programs of a batch of columns and return the columns with their results.

        A row that is not a program has the status `invalid`. Raises RequestError for a program that may have effects,
        because Ray may run it twice.
        """
        columns = {name: _list_values(values) for name, values in batch.items()}
        rows = max(map(len, columns.values()), default=0)
        results: list[dict[str, Any]] = [{} for _ in range(rows)]
        programs: list[Program] = []
        for number in range(rows):
            given = {
                field: columns[column][number]
                for field, column in self._columns.items()
                if column in columns and columns[column][number] is not None
            }
            try:
                program = Program.model_validate({**self._fields, **given, "id": str(number)})
            except ValidationError as problem:
                results[number] = {"status": "invalid", "error": "; ".join(explain(problem, limit=None))}
                continue
            self._purity.require_pure(program)
            programs.append(program)
        for result in self._paddock.map(programs, max_parallel=self._max_parallel):
            program, error = result.outcome.program, result.outcome.error
            results[int(result.id)] = {
                "status": result.outcome.status.value,
                "verdict": None if result.verdict is None else result.verdict.value,
                "exit_code": None if program is None else program.exit_code,
                "stdout": "" if program is None else program.stdout.text,
                "stderr": "" if program is None else program.stderr.text,
                "error": "" if error is None else error.message,
            }
        return {**batch, **{name: _make_column(results, name) for name in RESULT_COLUMNS}}


def _list_values(values: object) -> list[Any]:
    """Return the values of a column; arrays of numpy have `tolist`."""
    tolist = getattr(values, "tolist", None)
    listed = tolist() if tolist is not None else list(cast("Sequence[Any]", values))
    return [_make_plain(value) for value in listed]


def _make_plain(value: Any) -> Any:  # noqa: ANN401 - whatever a dataset holds
    """Return a value without arrays: Ray Data makes arrays of lists."""
    if (tolist := getattr(value, "tolist", None)) is not None:
        return _make_plain(tolist())
    if isinstance(value, list):
        return [_make_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _make_plain(each) for name, each in cast("dict[Any, Any]", value).items()}
    return value


def _make_column(rows: list[dict[str, Any]], name: str) -> Any:  # noqa: ANN401 - an array
    import numpy as np  # Ray Data has loaded it

    column = np.empty(len(rows), dtype=object)
    column[:] = [row.get(name, "" if name in {"stdout", "stderr"} else None) for row in rows]
    return column
