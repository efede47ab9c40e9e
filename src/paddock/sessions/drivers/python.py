"""The driver of Python sessions: it runs inside of the sandbox, in the interpreter that the program uses.

It reads requests from descriptor 3, and answers with frames: four bytes of length (little-endian) and JSON. It uses the
standard library alone, of Python 3.8 and later. Whatever a program does to it harms only its own session: the parent
believes nothing of it but what it shows.
"""

import ast
import base64
import builtins
import collections
import fcntl
import importlib
import itertools
import json
import linecache
import os
import re
import signal
import struct
import sys
import types
from importlib.machinery import ModuleSpec, PathFinder

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
_IS_COROUTINE = 0x80
"""`inspect.CO_COROUTINE`; the module takes longer to import than most programs to run."""
_BACKEND = "paddock_figures"
_LINE_CHARS = 79
_MAX_ITEMS = 1000
_FORMS = {
    "HTML": "text/html",
    "Markdown": "text/markdown",
    "Latex": "text/latex",
    "Math": "text/latex",
    "SVG": "image/svg+xml",
    "JSON": "application/json",
    "Pretty": "text/plain",
    "Code": "text/plain",
    "Image": "image/png",
}


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
        self.told = None
        """The error that was printed already."""
        self.room = 0
        builtins.display = self.display
        builtins.get_ipython = _Shell
        signal.signal(signal.SIGINT, _ignore)
        sys.argv = [""]
        sys.path[0] = ""
        os.environ.setdefault("MPLBACKEND", "agg")  # for the processes of programs too
        sys.meta_path.insert(0, _Importer(self))

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
        body = json.dumps(message, default=str, ensure_ascii=False).encode("utf-8", "replace")
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
                try:
                    self.carry_out(code, name)
                except (Exception, SystemExit):
                    self.render(self.show_figures)
                    raise
                self.show_figures()
            finally:
                signal.signal(signal.SIGINT, _ignore)
        except SystemExit as error:
            try:
                end = self.leave(error)
            except Exception as fault:  # its code has no text
                end = self.explain(fault)
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
            data = text.encode("latin-1")
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, 0)
            os.close(file)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)

    def carry_out(self, code, name):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = _parse(code, name, flags)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None and _is_quiet(code, last):
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
        if compiled.co_flags & _IS_COROUTINE:
            if self.loop is None:
                import asyncio

                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            return self.loop.run_until_complete(eval(compiled, self.names))
        return eval(compiled, self.names)

    def display(self, *values, raw=False, **_options):
        """Show values, rich where they can be; with `raw`, they are dictionaries of forms by media type."""
        for value in values:
            self.show({"text/plain": "", **value} if raw else self.describe(value))

    def show(self, bundle):
        bundle = {
            str(kind): base64.b64encode(data).decode() if isinstance(data, (bytes, bytearray)) else data
            for kind, data in bundle.items()
        }
        bundle["text/plain"] = bundle["text/plain"][:_MAX_TEXT_CHARS]
        if "image/png" not in bundle and "image/jpeg" not in bundle:
            self.print(bundle["text/plain"] + "\n")
        self.send_bundle(bundle)

    def print(self, text):
        if sys.stdout is not None:
            sys.stdout.flush()
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self.terminal, data) :]

    def send_bundle(self, bundle):
        bundle = {kind: data if isinstance(data, str) else _plain(data) for kind, data in bundle.items()}
        size = sum(
            len((data if isinstance(data, str) else json.dumps(data)).encode("utf-8", "replace"))
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
            found = self.render(whole, include=None, exclude=None) if callable(whole) else None
            if isinstance(found, tuple):
                found = found[0] if found else None
            if isinstance(found, dict):
                bundle.update(found)
            for kind, method in _METHODS:
                form = getattr(value, method, None)
                if kind not in bundle and callable(form):
                    data = self.render(form)
                    if isinstance(data, tuple):
                        data = data[0] if data else None
                    if data is not None:
                        bundle[kind] = data
            if type(value).__name__ == "Figure" and type(value).__module__ == "matplotlib.figure":
                if value.axes or value.lines:
                    bundle["image/png"] = _draw(value)
        if not isinstance(bundle.get("text/plain"), str):
            bundle["text/plain"] = _format(value)
        return bundle

    def render(self, method, **options):
        """Return what a method for a form of an object returns; None if it fails, which is reported."""
        try:
            return method(**options)
        except NotImplementedError:
            return None
        except Exception as error:
            self.explain(error)
            return None

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
        text = str(code)
        try:
            sys.stderr.write(text + "\n")
        except Exception:
            self.print(text + "\n")
        return {"exit_code": 1, "error": {"name": "SystemExit", "message": text[:2000]}}

    def explain(self, error):
        """Print the traceback of the user's lines, and return the error."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        try:
            traceback = _import_standard("traceback")
            text = "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))
            entries = traceback.extract_tb(trace)
        except BaseException:
            text, entries = type(error).__name__ + "\n", []
        if error is not self.told:
            try:
                sys.stderr.write(text)
            except Exception:
                self.print(text)
        own = [entry.lineno for entry in entries if entry.filename.startswith(("In [", "<ipython-input-"))]
        try:
            message = str(error)[:2000]
        except BaseException:
            message = ""
        line = own[-1] if own else getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
        return {"exit_code": 1, "error": {"name": type(error).__name__, "message": message, "line": line}}


def _plain(data):
    """Return data as every reader of JSON takes it: without NaN, infinities and integers of endless length."""
    text = json.dumps(data, default=str)
    return json.loads(
        text, parse_constant=lambda _: None, parse_int=lambda it: int(it) if len(it) < 300 else it
    )


def _import_standard(name):
    """Return a module of the standard library, whatever the program has in its working directory."""
    own = sys.path.pop(0) if sys.path and sys.path[0] == "" else None
    try:
        return importlib.import_module(name)
    finally:
        if own is not None:
            sys.path.insert(0, own)


def _move(descriptor):
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _PRIVATE)


def _ignore(_number, _frame):
    """Do nothing at an interrupt that comes too late."""


class _Shell:
    """What programs find that ask whether they run in a notebook."""

    kernel = None

    def run_line_magic(self, name, line="", *_):
        if name != "matplotlib":  # figures are shown anyway
            raise RuntimeError("%%%s is a command of IPython: %s" % (name, _advise("%s %s" % (name, line))))

    run_cell_magic = run_line_magic

    def magic(self, line):
        self.run_line_magic(*line.split(None, 1))


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


class _Importer:
    """Prepares modules, right after their import, for showing values and figures."""

    def __init__(self, driver):
        self.hooks = {"matplotlib.pyplot": self.prepare_pyplot, "IPython.display": self.prepare_display}
        self.driver = driver

    def find_spec(self, name, path=None, _target=None):
        if name not in self.hooks and name != "IPython":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None and name.startswith("IPython"):
            return ModuleSpec(name, self, is_package=name == "IPython")
        if spec is not None and name in self.hooks:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), self.hooks[name](module))
        return spec

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        """Make what programs use of IPython where it is not installed."""
        if module.__name__ == "IPython":
            module.get_ipython = lambda: None
            return
        for name, kind in _FORMS.items():
            setattr(module, name, type(name, (_Form,), {"kind": kind, "__module__": "IPython.core.display"}))
        self.prepare_display(module)

    def prepare_display(self, module):
        module.display = self.driver.display
        module.clear_output = lambda *_, **__: None

    def prepare_pyplot(self, pyplot):
        """Let Agg draw figures, and `show` display them."""
        if os.environ.get("MPLBACKEND") == "agg":
            module = sys.modules[_BACKEND] = types.ModuleType(_BACKEND)
            agg = importlib.import_module("matplotlib.backends.backend_agg")
            vars(module).update(vars(agg), show=lambda *_, **__: self.driver.show_figures())
            pyplot.rcParams["backend"] = "module://" + _BACKEND


class _Form:
    """A value that is shown in one form."""

    def __init__(self, data=None, url=None, filename=None, **_options):
        if filename is None and self.kind == "image/png" and isinstance(data, str):
            filename, data = data, None
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        if isinstance(data, bytes) and self.kind != "image/png":
            data = data.decode()
        self.data, self.url, self.filename = data, url, filename

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.kind == "image/png" and self.data and self.data.startswith(b"\xff\xd8"):
            return {"image/jpeg": self.data}
        return {} if self.data is None else {self.kind: self.data}

    def __repr__(self):
        return "<IPython.core.display.%s object>" % type(self).__name__


def _parse(code, name, flags):
    """Return the syntax tree of a text. Its commands `%matplotlib` do nothing: figures are shown anyway."""
    while True:
        try:
            return compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        except SyntaxError as error:
            lines = code.split("\n")
            line = lines[error.lineno - 1] if 0 < (error.lineno or 0) <= len(lines) else ""
            word = line.split()[0] if line.strip() else ""
            if word != "%matplotlib":
                if word.startswith(("%", "!")):
                    error.msg = "%s is a command of IPython: %s" % (word, _advise(line))
                raise
            lines[error.lineno - 1] = line[: line.index("%")] + "pass"
            code = "\n".join(lines)


def _advise(line):
    """Return what to do instead of a command of IPython."""
    if re.search(r"\b(pip3?|conda|mamba|uv)\s.*install\b", line):
        return 'open a session with packages=["pandas"], or paddock repl --package pandas'
    return 'open a session with kernel="ipython", or paddock repl --kernel ipython'


def _is_quiet(code, last):
    """Return whether a semicolon follows the last expression."""
    lines = [line.encode("utf-8", "surrogatepass") for line in code.split("\n")[last.end_lineno - 1 :]]
    lines[0] = lines[0][last.end_col_offset :]
    return b"\n".join(lines).lstrip(b" \t\r\n)").startswith(b";")
