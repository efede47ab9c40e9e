"""Sessions of Python print values by the printers that libraries register for classes, as in IPython."""

from pathlib import Path

from paddock import BlockingPaddock, Outcome, Status

PATIENT = {"runtimes": {"timeout_ms": 120_000}}

AS_SYMPY_ASKS = """
import sys; sys.path[:] = [path for path in sys.path if "-packages" not in path]
from IPython.terminal.interactiveshell import TerminalInteractiveShell
import IPython
class Term:
    pass
def print_plain(arg, p, cycle):
    p.text("a term" if isinstance(arg, Term) else IPython.lib.pretty.pretty(arg))
def print_png(o):
    from IPython.lib.latextools import latex_to_png
    return latex_to_png("$x$", color="Gray", scale=1.0)
ip = get_ipython()
formatters = ip.display_formatter.formatters
for cls in (int, list, Term):
    formatters["text/plain"].for_type(cls, print_plain)
    formatters["text/latex"].for_type(cls, lambda o: "$x$" if isinstance(o, Term) else None)
    formatters["image/png"].for_type(cls, print_png)
    if cls in formatters["image/svg+xml"].type_printers:
        formatters["image/svg+xml"].type_printers.pop(cls)
isinstance(ip, TerminalInteractiveShell), ip.colors, get_ipython() is ip
"""


def run_all(workspace: Path, *programs: str) -> list[Outcome]:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        return [s.run(program) for program in programs]


def test_printers_of_classes_as_sympy_gives_them_to_ipython(workspace: Path) -> None:
    programs = (
        "Term()",
        "[1, True, {'a': None}]",
        "class Sum(Term):\n    def _repr_latex_(self): return '$y$'\nSum()",
        "int",
        "formatters['text/html'].for_type_by_name('__main__', 'Term', lambda o: '<b>x</b>')\nTerm()",
        "_ = formatters['text/plain'].pop(Term), formatters['text/latex'].for_type(Term, lambda o: 1 / 0)\nTerm()",
    )
    asked, *outcomes = run_all(workspace, AS_SYMPY_ASKS, *programs)
    assert (asked.status, asked.text) == (Status.OK, "(False, 'nocolor', True)\n")
    assert [result.data for outcome in outcomes[:5] for result in outcome.results] == [
        {"text/plain": "a term", "text/latex": "$x$"},
        {"text/plain": "[1, True, {'a': None}]"},
        {"text/plain": "a term", "text/latex": "$x$"},
        {"text/plain": "int"},
        {"text/plain": "a term", "text/latex": "$x$", "text/html": "<b>x</b>"},
    ]
    assert outcomes[5].status is Status.OK
    assert "ZeroDivisionError: division by zero\n<__main__.Term at" in outcomes[5].text
