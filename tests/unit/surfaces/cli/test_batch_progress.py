"""Progress of a batch: seldom, in one line, and never a reason to fail."""

import io

from paddock.surfaces.cli.batch import BatchProgress, Tally


class Stream(io.StringIO):
    """Standard error, on a terminal or not."""

    def __init__(self, *, terminal, broken=False):
        super().__init__()
        self.terminal, self.broken = terminal, broken

    def isatty(self):
        return self.terminal

    def write(self, text):
        if self.broken:
            raise BrokenPipeError
        return super().write(text)


def report(stream, times):
    clock = iter(times)
    now = [0.0]
    progress = BatchProgress(stream, lambda: now[0])
    for number, now[0] in enumerate(clock, 1):
        progress.report(Tally(answered=number, ok=number))
    progress.end(Tally(answered=9, ok=6, unanswered=1, invalid=2), kept=3)
    return stream.getvalue()


END = "9 programs: 6 ok, 2 failed, 1 not run to an end, 2 invalid lines; 3 answers kept from before\n"


def test_a_pipe_gets_a_line_now_and_then():
    assert report(Stream(terminal=False), [1, 9, 11, 12, 22]) == (
        f"3 programs: 3 ok, 0 failed\n5 programs: 5 ok, 0 failed\n{END}"
    )


def test_a_terminal_shows_one_line_that_changes():
    erase = "\r\x1b[K"
    assert report(Stream(terminal=True), [0.1, 0.3, 0.4, 0.6]) == (
        f"2 programs: 2 ok, 0 failed{erase}4 programs: 4 ok, 0 failed{erase}{END}"
    )


def test_a_closed_standard_error_ends_no_batch():
    assert report(Stream(terminal=False, broken=True), [11]) == ""
