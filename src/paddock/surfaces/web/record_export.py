"""Records as a file to download: JSON lines for programs, CSV for spreadsheets.

A spreadsheet may execute a cell that begins with `=`, `+`, `-` or `@`, also after a separator that this file does not
use (https://owasp.org/www-community/attacks/CSV_Injection). Such a text gets an apostrophe before that character. JSON
lines are not changed.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator

from paddock.record.ledger.sink import AuditRecord
from paddock.surfaces.web.render import show_visible

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
"""Media type of each format."""
_CHUNK_CHARS = 64 * 1024
_FACTS = ("actor", "surface", "kind", "name", "status", "rule", "ms")
"""Facts with a separate column."""
COLUMNS = ("seq", "time", "event", "id", "request", "parent", *_FACTS, "facts", "prev", "hash")
"""Columns of a CSV file. `facts` has all facts as JSON."""
_FORMULA = re.compile(r"(^|[,;|\t\r\n])(?=\s*[=+\-@＝＋－＠])")  # noqa: RUF001 - spreadsheets read wide ones, too


def export_records(records: Iterator[AuditRecord], form: str) -> Iterator[bytes]:
    """Yield a file in one of `FORMATS`, in pieces of about 64 kB."""
    piece = io.StringIO(newline="")
    write = _open_writer(piece, form)
    for record in records:
        write(record)
        if piece.tell() >= _CHUNK_CHARS:
            yield piece.getvalue().encode()
            piece.seek(0)
            piece.truncate()
    yield piece.getvalue().encode()


def neutralize(value: object) -> object:
    """Return the value of a CSV cell; a text that a spreadsheet would execute is changed, and controls are visible."""
    return _FORMULA.sub(r"\1'", show_visible(value)) if isinstance(value, str) else value


def _open_writer(file: io.StringIO, form: str) -> Callable[[AuditRecord], object]:
    if form == "jsonl":
        return lambda record: file.write(json.dumps(record.model_dump(mode="json")) + "\n")
    table = csv.writer(file, quoting=csv.QUOTE_ALL)
    table.writerow(COLUMNS)
    return lambda record: table.writerow(map(neutralize, _make_row(record)))


def _make_row(record: AuditRecord) -> list[object]:
    facts = record.fields
    place = (record.seq, record.ts, record.event, record.id, record.request, record.parent or "")
    return [
        *place,
        *(facts.get(name, "") for name in _FACTS),
        json.dumps(facts),
        record.prev,
        record.hash,
    ]
