"""What people are told where the system's own words tell little."""

import errno
import os

import pytest

from paddock.model.errors import NO_MORE_FILES, NO_MORE_PROCESSES, explain_start_failure


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (f"[Errno 11] {os.strerror(errno.EAGAIN)}", NO_MORE_PROCESSES),
        ("RuntimeError: can't start new thread", NO_MORE_PROCESSES),
        (str(OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/x")), NO_MORE_FILES),
        (os.strerror(errno.ENFILE), NO_MORE_FILES),
        ("the disk is full", "the disk is full"),
        ("", ""),
    ],
)
def test_what_the_system_has_no_more_of_is_named(why, told):
    assert explain_start_failure(why) == told
