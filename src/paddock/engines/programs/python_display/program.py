"""The rest for programs that run once: it follows the text of `display.py` and `text.py` in one file."""

import struct
import traceback


class _Program(_Display):
    """Writes frames to a file, which Paddock reads after the program's end: four bytes of length and JSON."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        os.environ.setdefault("MPLBACKEND", "agg")

    def send(self, message):
        body = _encode(message).encode("utf-8", "replace")
        data = struct.pack("<I", len(body)) + body
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)

    def print(self, text):
        if sys.stdout is not None:
            sys.stdout.write(text)

    def explain(self, error):
        traceback.print_exception(type(error), error, error.__traceback__)


importer = _Importer(_Program(path))
