"""Progress of servers on a terminal: standard error, and nothing below a question or beside JSON."""

import sys

from paddock.model.outcome import CallProgress
from paddock.surfaces.cli.run_request import _ConsolePrinter
from paddock.surfaces.cli.terminal import Terminal


def test_progress_is_printed_on_standard_error_for_people(capsys, monkeypatch):
    terminal = Terminal()
    people = _ConsolePrinter(terminal, quiet=False, has_console=True)
    shown = people.shows_progress
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    programs = _ConsolePrinter(terminal, quiet=True, has_console=True)
    assert (shown, people.shows_progress, programs.shows_progress) == (False, True, False)
    people.on_progress(CallProgress("lib", "work", 1, 3, "compiling"))
    terminal.asking = True
    people.on_progress(CallProgress("lib", "work", 2, 3))
    assert capsys.readouterr() == ("", "lib.work: 1 of 3: compiling\n")
