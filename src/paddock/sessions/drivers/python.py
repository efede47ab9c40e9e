"""The driver of Python sessions: it runs inside of the sandbox, in the interpreter that the program uses.

It reads requests from descriptor 3, and answers with frames: four bytes of length (little-endian) and JSON. It uses the
standard library alone, of Python 3.8 and later. Whatever a program does to it harms only its own session: the parent
believes nothing of it but what it shows.
"""

import ast
import base64
import builtins
import fcntl
import inspect
import json
import linecache
import os
import signal
import struct
import sys
import traceback
import types

__builtins__ = dict(vars(builtins))  # programs replace them
_MAX_RESULT_BYTES = 5 * 1024 * 1024
_MAX_RESULTS_BYTES = 20 * 1024 * 1024
_MAX_TEXT_CHARS = 256 * 1024
_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/json", "_repr_json_"),
)
_PRIVATE = 200
_BACKEND = "paddock_figures"


class _Driver:
    def __init__(self):
        self.pid = os.getpid()
        # A program may close or replace descriptors 0 to 2, but has no reason to touch these.
        self.channel = _move(3)
        self.terminal = _move(1)
        self.null = _move(0)
        os.close(3)
        self.main = types.ModuleType("__main__")
        self.main.__dict__["__builtins__"] = builtins
        self.names = self.main.__dict__
        sys.modules["__main__"] = self.main
        self.loop = None
        self.room = 0
        builtins.display = self.display
        builtins.get_ipython = _Shell
        signal.signal(signal.SIGINT, _ignore)
        sys.argv = [""]
        sys.path[0] = ""
        os.environ.setdefault("MPLBACKEND", "module://" + _BACKEND)
        sys.modules[_BACKEND] = _make_backend(self)

    def serve(self):
        self.send({"ready": True})
        while True:
            request = self.receive()
            if request is None:
                return
            self.send({"done": self.run(request)})

    def receive(self):
        head = self.read(4)
        if head is None:
            return None
        body = self.read(struct.unpack("<I", head)[0])
        return None if body is None else json.loads(body.decode("utf-8", "surrogatepass"))

    def read(self, count):
        parts = []
        while count:
            part = os.read(self.channel, min(count, 65536))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def send(self, message):
        body = json.dumps(message, default=str).encode("utf-8", "replace")
        data = struct.pack("<I", len(body)) + body
        while data:
            data = data[os.write(self.channel, data) :]

    def run(self, request):
        number, code = request["number"], request["code"]
        name = "In [%d]" % number
        self.give_input(request.get("stdin"))
        self.room = _MAX_RESULTS_BYTES
        lines = code.splitlines(True)
        linecache.cache[name] = (len(code), None, lines, name)
        end = {"exit_code": 0}
        try:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                self.carry_out(code, name)
                self.show_figures()
            finally:
                signal.signal(signal.SIGINT, _ignore)
        except SystemExit as error:
            end = self.leave(error)
        except BaseException as error:
            end = self.explain(error)
        self.close_figures()
        if os.getpid() != self.pid:  # a fork that ran to the end of its code
            os._exit(end["exit_code"])
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        return end

    def give_input(self, text):
        """Let standard input be `text`, or empty."""
        if text is None:
            os.dup2(self.null, 0)
        else:
            file = os.memfd_create("stdin")
            data = text.encode("utf-8", "surrogateescape")
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, 0)
            os.close(file)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)

    def carry_out(self, code, name):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None and code.rstrip().endswith(";"):
            tree.body.append(last)
            last = None
        if tree.body:
            self.evaluate(compile(tree, name, "exec", flags, dont_inherit=True))
        if last is not None:
            value = self.evaluate(compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True))
            if value is not None:
                self.names["_"] = value
                self.display(value)

    def evaluate(self, compiled):
        if compiled.co_flags & inspect.CO_COROUTINE:
            if self.loop is None:
                import asyncio

                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            return self.loop.run_until_complete(eval(compiled, self.names))
        return eval(compiled, self.names)

    def display(self, *values, **_options):
        """Show values, rich where they can be."""
        for value in values:
            bundle = self.describe(value)
            if "image/png" not in bundle and "image/jpeg" not in bundle:
                self.print(bundle["text/plain"] + "\n")
            self.send_bundle(bundle)

    def print(self, text):
        sys.stdout.flush()
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self.terminal, data) :]

    def send_bundle(self, bundle):
        size = sum(
            len(data) if isinstance(data, str) else len(json.dumps(data, default=str))
            for data in bundle.values()
        )
        if size > min(_MAX_RESULT_BYTES, self.room):
            bundle = {"text/plain": bundle["text/plain"][:1000]}
            bundle["text/plain"] += " [too large to be shown in other forms]"
            size = len(bundle["text/plain"])
        self.room -= size
        if self.room > 0:
            self.send({"display": bundle})

    def describe(self, value):
        """Return the forms in which a value can be shown, by media type."""
        bundle = {}
        if not isinstance(value, type):
            whole = getattr(value, "_repr_mimebundle_", None)
            found = _call(whole, include=None, exclude=None) if callable(whole) else None
            if isinstance(found, tuple):
                found = found[0] if found else None
            if isinstance(found, dict):
                bundle.update(found)
            for kind, method in _METHODS:
                form = getattr(value, method, None)
                if kind not in bundle and callable(form):
                    data = _call(form)
                    if isinstance(data, tuple):
                        data = data[0] if data else None
                    if data is not None:
                        bundle[kind] = data
            if type(value).__name__ == "Figure" and type(value).__module__ == "matplotlib.figure":
                bundle["image/png"] = _draw(value)
        bundle = {
            str(kind): base64.b64encode(data).decode() if isinstance(data, (bytes, bytearray)) else data
            for kind, data in bundle.items()
        }
        text = bundle.get("text/plain")
        bundle["text/plain"] = (text if isinstance(text, str) else repr(value))[:_MAX_TEXT_CHARS]
        return bundle

    def show_figures(self):
        """Display all open figures of matplotlib, and close them."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not _is_ours(pyplot):
            return
        for number in pyplot.get_fignums():
            self.display(pyplot.figure(number))
        pyplot.close("all")

    def close_figures(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            try:
                if _is_ours(pyplot):
                    pyplot.close("all")
            except Exception:
                pass

    def leave(self, error):
        code = error.code
        if code is None or code == 0:
            return {"exit_code": 0}
        if isinstance(code, int):
            return {"exit_code": code & 255, "error": {"name": "SystemExit", "message": str(code)}}
        sys.stderr.write("%s\n" % (code,))
        return {"exit_code": 1, "error": {"name": "SystemExit", "message": str(code)[:2000]}}

    def explain(self, error):
        """Print the traceback of the user's lines, and return the error."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        try:
            text = "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))
        except BaseException:
            text = type(error).__name__ + "\n"
        try:
            sys.stderr.write(text)
        except Exception:
            self.print(text)
        last = traceback.extract_tb(trace)
        own = [entry.lineno for entry in last if entry.filename.startswith("In [")]
        try:
            message = str(error)[:2000]
        except BaseException:
            message = ""
        line = own[-1] if own else getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
        return {"exit_code": 1, "error": {"name": type(error).__name__, "message": message, "line": line}}


def _move(descriptor):
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _PRIVATE)


def _ignore(_number, _frame):
    """Do nothing at an interrupt that comes too late."""


class _Shell:
    """What programs find that ask whether they run in a notebook."""

    kernel = None

    def run_line_magic(self, name, *_):
        if name != "matplotlib":  # figures are shown anyway
            raise RuntimeError("%%%s is a magic of IPython, and this is plain Python" % name)

    run_cell_magic = run_line_magic

    def magic(self, line):
        self.run_line_magic(*line.split(None, 1))


def _call(method, **options):
    """Return what a method for a form of an object returns; None if it fails."""
    try:
        return method(**options)
    except Exception:
        return None


def _is_ours(pyplot):
    backend = pyplot.get_backend().lower()
    return backend == "agg" or _BACKEND in backend


def _draw(figure):
    """Return a figure as PNG, as a notebook shows it."""
    from io import BytesIO

    file = BytesIO()
    figure.savefig(
        file,
        format="png",
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
        dpi=figure.dpi,
        bbox_inches="tight",
    )
    return file.getvalue()


def _make_backend(driver):
    """Return the module of matplotlib's backend: figures are drawn by Agg, and `show` displays them."""
    module = types.ModuleType(_BACKEND)

    def load(name):
        if name.startswith("__"):
            raise AttributeError(name)
        from matplotlib.backends import backend_agg

        return getattr(backend_agg, name)

    module.__getattr__ = load
    module.show = lambda *_, **__: driver.show_figures()
    return module


if __name__ == "__main__":
    _Driver().serve()
