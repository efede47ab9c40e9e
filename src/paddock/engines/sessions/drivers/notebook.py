"""The rest of the driver of Python for notebooks that run at once: it follows the text of `python_text.py`."""


class _NotebookDriver(_Driver):
    """Runs all cells of a notebook, and writes what each of them did to standard output as JSON.

    It reads `{"cells": [...]}` from standard input. The cells have the descriptors 1 and 2 of their own.
    """

    def __init__(self):
        self.cells = json.loads(sys.stdin.buffer.read().decode())["cells"]
        empty = os.open(os.devnull, os.O_RDWR)
        os.dup2(empty, 0)
        self.shown = []
        self.traceback = ""
        super().__init__()

    def serve(self):
        done = [self.run_cell(number, code) for number, code in enumerate(self.cells, 1)]
        data = json.dumps({"cells": done}, default=str).encode()
        while data:
            data = data[os.write(self.terminal, data) :]
        os._exit(0)  # threads of cells end with the notebook

    def run_cell(self, number, code):
        streams = [os.memfd_create("stdout"), os.memfd_create("stderr")]
        for descriptor, file in enumerate(streams, 1):
            os.dup2(file, descriptor)
        self.shown = []
        end = self.run({"number": number, "code": code, "stdin": None})
        cell = {name: _take(file) for name, file in zip(("stdout", "stderr"), streams)}
        error = end.get("error")
        errors = [] if error is None else [[error["name"], error["message"], self.traceback]]
        cell.update(display=self.shown, error=errors)
        self.traceback = ""
        return cell

    def restore_descriptor(self, descriptor):
        """Do nothing: each cell has descriptors of its own."""

    def send(self, message):
        self.shown.append(message["display"])

    def print(self, text):
        """Do nothing: a value is shown in its forms, which are no output."""

    def render(self, method, **options):
        before = self.traceback
        try:
            return super().render(method, **options)
        finally:
            self.traceback = before

    def explain(self, error):
        import io

        real, sys.stderr = sys.stderr, io.StringIO()
        try:
            return super().explain(error)
        finally:
            self.traceback = sys.stderr.getvalue()
            sys.stderr = real


def _take(file):
    """Return what was written to a file, and close it."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, encoding="utf-8", errors="replace", newline="") as stream:
        return stream.read()
