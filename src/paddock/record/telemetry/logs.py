"""Log lines: one JSON object per line, and one line for each request that ended and each answer of a person."""

import json
import logging
import sys
from pathlib import PurePath
from traceback import extract_tb

from paddock.model.printable import make_printable
from paddock.policy.settings.schema import LogSettings
from paddock.record.ledger.sink import Facts, Field, timestamp
from paddock.record.telemetry.observed_sink import find_language

REQUESTS = logging.getLogger("paddock.requests")
"""Logs at level `info` how each request ended."""

_LOGGED_FACTS = (
    *("actor", "kind", "language", "surface", "status", "ms", "queue_ms", "claim_ms"),
    *("cpu_ms", "peak_bytes", "calls"),
)
_OWN_LOGGERS = ("paddock", "uvicorn")


class RequestLog:
    """Logs how requests end, with Paddock's own names and numbers, and the caller."""

    def on_start(self, request: str, parent: str | None, facts: Facts) -> None:
        """Do nothing."""

    def on_end(self, request: str, parent: str | None, facts: Facts) -> None:
        """Log how a request ended."""
        facts = {**facts, "language": find_language(facts) or None}
        known = {name: facts[name] for name in _LOGGED_FACTS if facts.get(name) is not None}
        self._log_event("ended", request, parent, known)

    def on_answer(self, request: str, parent: str | None, facts: Facts) -> None:
        """Log what a person answered, and after how long."""
        self._log_event("answered", request, parent, {"answer": facts["answer"], "ms": facts["ms"]})

    def _log_event(self, event: str, request: str, parent: str | None, facts: Facts) -> None:
        logged = {"request": request, **({"parent": parent} if parent else {}), **facts}
        text = " ".join(f"{name}={_quote(value)}" for name, value in logged.items())
        REQUESTS.info("%s %s", event, text, extra={"event": event, "facts": logged})


def _quote(value: Field) -> str:
    """Return a value for a line; a client may have chosen its own name, the actor."""
    text = make_printable(str(value))
    return json.dumps(text) if set(text) & set(' "=') else text


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object.

    Messages of libraries, and texts of exceptions, may contain payloads. Unless `all_text` is set, they are left out,
    and the line has only their origin.
    """

    def __init__(self, *, all_text: bool) -> None:
        super().__init__()
        self._all_text = all_text

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            line |= {"message": getattr(record, "event", ""), **facts}
        elif self._all_text or record.name.partition(".")[0] in _OWN_LOGGERS:
            line["message"] = record.getMessage()
        else:
            line["where"] = f"{record.module}:{record.lineno}"
        if record.exc_info and (fault := record.exc_info[1]) is not None:
            line["exception"] = type(fault).__name__
            frames = extract_tb(fault.__traceback__)
            line["frames"] = [
                f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames
            ]
        return json.dumps(line, ensure_ascii=True, default=str)


def start_logging(settings: LogSettings, level: str) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.format == "json":
        handler.setFormatter(JsonFormatter(all_text=level == "debug"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
