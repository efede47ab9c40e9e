"""How requests end: every status, and every exit code of the command line."""

from paddock.model.computation import code
from paddock.model.outcome import ErrorInfo, Outcome, Status
from paddock.model.program import ProgramEnd
from paddock.surfaces.cli.exec import exit_code
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE
from pages.text import described, spoken, table

EXIT_CODES = {
    "0": "success; a program ended with exit code 0",
    "1": "the command or the program failed; a check found a problem (`audit verify`, `doctor`)",
    "2": "invalid command line or request; nothing ran",
    "3": "`paddock policy check`: the request would ask a person",
    "124": "`paddock exec`: the program was ended at its time limit",
    "125": "`paddock exec`: Paddock failed, or its worker died",
    "126": "`paddock exec`: policy refused, nothing ran; `paddock policy check`: policy would refuse",
    "127": "`paddock exec`: this machine has no such runtime",
    "128 + N": "ended by signal N: 130 after Ctrl-C, 141 when the reader of standard output is gone",
    "any other": "`paddock exec`: the program's own",
}
"""Meaning of each exit code. The test that nothing is missing: tests/docs/test_reference.py."""

_SIGNAL = 9

HEAD = """\
# Statuses and exit codes

<!-- Written by scripts/reference.py from src/paddock/model/outcome.py; `make check` compares. Change the texts
there. -->

The result of every request is an outcome. Its status says where the cause lies: in the program, in a limit or
the caller, in the request, or in Paddock. Refusals, timeouts and failing programs are values, not exceptions.

## Statuses

"""


def page() -> str:
    """Return the page."""
    texts = described(Status)
    statuses = table(
        ("status", "what it means", "`run`", "`exec`", "code of `compute`"),
        [
            (
                f"`{status}`",
                spoken(texts[status.name]),
                *exits(status),
                f"`{code(status)}`" if status is not Status.OK else "",
            )
            for status in Status
        ],
    )
    codes = table(("exit code", "what it means"), [(f"`{key}`", text) for key, text in EXIT_CODES.items()])
    parts = [
        HEAD + statuses,
        "`run` and `exec` have the exit codes of `paddock run` and `paddock exec`. N is the signal number.\n",
    ]
    return "\n".join([*parts, "## Exit codes\n", codes])


def exits(status: Status) -> tuple[str, str]:
    """Return the exit codes of `paddock run` and `paddock exec` for a status."""
    if status in (Status.OK, Status.FAILED):
        return ("0" if status is Status.OK else "1"), "the program's"
    ends = [
        Outcome(id="", status=status, program=ProgramEnd(runtime="shell", signal=signal), error=error)
        for signal in (None, _SIGNAL)
        for error in (ErrorInfo(name="", message=""), ErrorInfo(name="Unavailable", message=""))
    ]
    codes = sorted({exit_code(end) for end in ends})
    return "1", " or ".join("128 + N" if code == EXIT_SIGNAL_BASE + _SIGNAL else str(code) for code in codes)
