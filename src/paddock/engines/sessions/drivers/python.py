"""The driver of Python sessions: it runs inside of the sandbox, in the interpreter that the program uses.

It reads requests from standard input, and answers with frames: four bytes of length (little-endian) and JSON. It
follows the text of `display.py` in one file, and uses the standard library alone, of Python 3.8 and later. Whatever a
program does to it harms only its own session: the parent believes nothing of it but what it shows.
"""

import _ast
import _signal
import builtins
import io
import os
import sys
import time
from importlib.machinery import PathFinder

ast, functools, linecache = map(_Lazy, ("ast", "functools", "linecache"))
_PRIVATE = 200
_IS_COROUTINE = 0x80
"""`inspect.CO_COROUTINE`; the module takes longer to import than most programs to run."""
_GRACE_S = 0.3
"""Time in which the tasks of an interrupted program may end; after half a second the interpreter is killed."""
_CELLS = ("In [", "<ipython-input-")
"""How the names of programs begin, as those of files."""
_INSTALLATION = r"\b(?:pip3?|conda|mamba|micromamba|uv)\s.*?\binstall\b(.*)"


def _pack(message):
    body = _encode(message).encode("utf-8", "replace")
    return len(body).to_bytes(4, "little") + body


_READY = _pack({"ready": True})
_NO_END = _pack(
    {
        "done": {
            "exit_code": 1,
            "error": {
                "name": "SystemError",
                "message": "The end of the program cannot be reported, because programs changed the interpreter. "
                "Undo that, or open another session.",
            },
        }
    }
)
"""What is sent when reporting the end of a program fails: the session lives on."""


class _Driver(_Display):
    def __init__(self):
        super().__init__()
        self.pid = os.getpid()
        # A program may close or replace descriptors 0 to 2, but has no reason to touch these.
        self.channel, self.terminal, self.null = _PRIVATE, _PRIVATE + 1, _PRIVATE + 2
        os.dup2(0, self.channel, inheritable=False)
        os.dup2(1, self.terminal, inheritable=False)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, self.null, inheritable=False)
        os.dup2(null, 0)
        os.close(null)
        self.main = type(sys)("__main__")
        self.main.__dict__["__builtins__"] = builtins
        self.names = self.main.__dict__
        sys.modules["__main__"] = self.main
        self.loop = None
        self.programs = {}
        """Entries of `linecache.cache`, which few programs need."""
        self.told = None
        """The error that was printed already."""
        self.encoding = getattr(sys.stdout, "encoding", "utf-8")
        self.abandoned = []
        """Loops that run no more, with tasks that did not end when they were interrupted."""
        builtins.display = self.display
        shell = _Shell(self.formatters)
        builtins.get_ipython = lambda: shell
        _signal.signal(_signal.SIGINT, _ignore)
        sys.argv = [""]
        sys.path[0] = ""
        os.environ.setdefault("MPLBACKEND", "agg")  # for the processes of programs too
        hooks = {
            "asyncio": self.prepare_asyncio,
            "inspect": self.prepare_inspect,
            "linecache": self.prepare_linecache,
            "multiprocessing.spawn": self.prepare_spawn,
            "subprocess": self.prepare_subprocess,
        }
        sys.meta_path.insert(0, _Importer(self, hooks))

    def serve(self):
        self.write(_READY)
        while True:
            request = self.receive()
            if request is None:
                return
            try:
                frame = _pack({"done": self.run(request)})
            except BaseException:
                if os.getpid() != self.pid:
                    os._exit(1)
                frame = _NO_END
            self.write(frame)

    def receive(self):
        head = self.read(4)
        if head is None:
            return None
        body = self.read(int.from_bytes(head, "little"))
        if body is None:
            return None
        line, _, rest = body.partition(b"\n")
        number, size = map(int, line.split())
        given = max(size, 0)
        return {"number": number, "stdin": rest[:given] if size >= 0 else None, "code": rest[given:].decode()}

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
        self.write(_pack(message))

    def write(self, data):
        while data:
            data = data[os.write(self.channel, data) :]

    def run(self, request):
        number, code = request["number"], request["code"]
        name = "In [%d]" % number
        self.restore_streams()
        self.give_input(request.get("stdin"))
        self.room = _MAX_RESULTS_BYTES
        lines = code.splitlines(True)
        self.programs[name] = (len(code), None, lines, name)
        end = {"exit_code": 0}
        try:
            try:
                _signal.signal(_signal.SIGINT, _signal.default_int_handler)
                try:
                    self.carry_out(code, name)
                except (Exception, SystemExit):
                    self.render(self.show_figures)
                    raise
                self.show_figures()
            finally:
                _signal.signal(_signal.SIGINT, _ignore)
        except SystemExit as error:
            try:
                end = self.leave(error)
            except Exception as fault:  # its code has no text
                end = self.explain(fault)
        except BaseException as error:
            end = self.explain(error)
            if isinstance(error, KeyboardInterrupt):
                self.end_tasks()
        self.close_figures()
        if os.getpid() != self.pid:  # a fork that ran to the end of its code
            os._exit(end["exit_code"])
        self.flush()
        return end

    def restore_streams(self):
        """Give the program output that it can write to, whatever an earlier one did with descriptors and `sys`."""
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            self.restore_descriptor(descriptor)
            for key in (name, "__%s__" % name):
                if not hasattr(sys, key) or _is_closed(getattr(sys, key)):
                    file = io.FileIO(descriptor, "w", closefd=False)
                    stream = io.TextIOWrapper(file, self.encoding, "backslashreplace", write_through=True)
                    setattr(sys, key, stream)

    def restore_descriptor(self, descriptor):
        try:
            if os.path.samestat(os.fstat(descriptor), os.fstat(self.terminal)):
                return
        except OSError:  # it is closed
            pass
        os.dup2(self.terminal, descriptor)

    def flush(self):
        """Flush what the program has for output, which may be any object."""
        for name in ("stdout", "stderr"):
            try:
                getattr(sys, name).flush()
            except Exception:
                pass

    def give_input(self, data):
        """Let standard input be `data`, or empty."""
        if data is None:
            os.dup2(self.null, 0)
        else:
            file = os.memfd_create("stdin")
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, 0)
            os.close(file)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)

    def carry_out(self, code, name):
        flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = _parse(code, name, flags)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        if last is not None and _is_quiet(code, last):
            tree.body.append(last)
            last = None
        if tree.body:
            self.evaluate(compile(tree, name, "exec", flags, dont_inherit=True))
        if last is not None:
            value = self.evaluate(
                compile(_ast.Expression(last.value), name, "eval", flags, dont_inherit=True)
            )
            if value is not None:
                self.names["_"] = value
                self.display(value)
        self.begin_tasks()

    def evaluate(self, compiled):
        if compiled.co_flags & _IS_COROUTINE:
            return self.find_loop().run_until_complete(eval(compiled, self.names))
        return eval(compiled, self.names)

    def find_loop(self):
        """Return the event loop of the session."""
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop

    def begin_tasks(self):
        """Let tasks that the program created begin; they go on while a later program waits."""
        if self.loop is not None and not self.loop.is_closed():
            import asyncio

            if asyncio.all_tasks(self.loop):
                self.loop.run_until_complete(asyncio.sleep(0))

    def end_tasks(self):
        """Cancel the tasks of an interrupted program, and wait for them: no later program runs the rest of them."""
        if self.loop is None or self.loop.is_closed():
            return
        import asyncio

        until, cancelled = time.monotonic() + _GRACE_S, set()
        while True:
            tasks = asyncio.all_tasks(self.loop)
            left = until - time.monotonic()
            if not tasks or left < 0:
                break
            for task in tasks - cancelled:
                task.cancel()
            cancelled |= tasks
            try:
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=left))
            except BaseException:  # the interrupt that ended one of them
                pass
        for task in cancelled - tasks:
            if not task.cancelled():
                task.exception()  # looked at, so that nothing reports it later
        if tasks:
            self.abandoned.append((self.loop, tasks))
            self.loop = None
            asyncio.set_event_loop(None)

    def prepare_asyncio(self, asyncio):
        """Let programs create tasks outside of coroutines, as in a notebook."""
        create = asyncio.create_task

        @functools.wraps(create)
        def create_task(coro, **options):
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                if sys.modules["threading"].current_thread() is sys.modules["threading"].main_thread():
                    return self.find_loop().create_task(coro, **options)
            return create(coro, **options)

        asyncio.create_task = create_task

    def prepare_inspect(self, inspect):
        """Let `getsource` find classes of the session."""
        find = inspect.getfile

        @functools.wraps(find)
        def getfile(object):
            is_own = isinstance(object, type) and object.__module__ == "__main__"
            return (is_own and _find_class(object.__name__)) or find(object)

        inspect.getfile = getfile

    def prepare_linecache(self, linecache):
        """Let tracebacks and `inspect` find the lines of programs."""
        linecache.cache.update(self.programs)
        self.programs = linecache.cache

    def prepare_spawn(self, spawn):
        """Give processes that are started anew what programs of the session defined."""
        prepare = spawn.get_preparation_data

        @functools.wraps(prepare)
        def get_preparation_data(name):
            return {"init_main_from_path": _write_definitions(), **prepare(name)}

        spawn.get_preparation_data = get_preparation_data

    def prepare_subprocess(self, subprocess):
        """Say of a command that installs packages how a session gets them, which has no network by default."""
        start = subprocess.Popen.__init__

        @functools.wraps(start)
        def start_and_advise(process, args, *more, **options):
            words = args if isinstance(args, (list, tuple)) else [args]
            line = " ".join(map(str, words))
            if re.search(_INSTALLATION, line):
                sys.stderr.write("A running session gets no packages: %s\n" % _advise(line))
            start(process, args, *more, **options)

        subprocess.Popen.__init__ = start_and_advise

    def print(self, text):
        self.flush()
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self.terminal, data) :]

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
        trace = _cut_trace(error.__traceback__)
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


def _cut_trace(trace):
    """Return a traceback without the lines of this file."""
    own = _cut_trace.__code__.co_filename
    entries = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != own:
            entries.append(trace)
        trace = trace.tb_next
    for entry in reversed(entries):
        entry.tb_next, trace = trace, entry
    return trace


def _is_closed(stream):
    """Return whether a stream, which may be any object, was closed or detached."""
    try:
        return getattr(stream, "closed", False) is True
    except Exception:
        return True


def _find_class(name):
    """Return the name of the last program that has the definition of a class, or ""."""
    pattern = re.compile(r"^[ \t]*class[ \t]+%s\b" % re.escape(name), re.MULTILINE)
    return next((cell for cell, text in reversed(_list_programs()) if pattern.search(text)), "")


def _list_programs():
    """Return the names and texts of the programs of this session, the first one first."""
    found = []
    for name, entry in list(linecache.cache.items()):
        if name.startswith(_CELLS) and len(entry) > 2:
            found.append((name, "".join(entry[2])))
    return found


def _write_definitions():
    """Write a module with the imports, functions, classes and plain values of all programs, and return its path."""
    parts = [_MISSING_NAMES]
    for name, text in _list_programs():
        try:
            tree = _parse(text, name, _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            continue
        parts += [_cut_statement(text, node) for node in tree.body if _is_definition(node)]
    parts.sort(key=lambda part: not part.startswith("from __future__"))
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "paddock_session.py")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(parts) + "\n")
    return path


def _is_definition(node):
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        try:
            ast.literal_eval(node.value)
        except Exception:
            return False
        return True
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _cut_statement(text, node):
    """Return the text of a statement, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    if not decorators:
        return ast.get_source_segment(text, node)
    return "\n".join(text.split("\n")[decorators[0].lineno - 1 : node.end_lineno])


_MISSING_NAMES = """
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    def missing(*_, **__):
        raise NameError(
            "%r of the session is not known in a process that was started by `spawn`: define it by `def` or `class` at "
            'the beginning of a line, or use multiprocessing.get_context("fork")' % name
        )
    return missing
"""
"""What a name is that has no definition. An error would end the process, and a pool would wait for it forever."""


def _ignore(_number, _frame):
    """Do nothing at an interrupt that comes too late."""


class _Shell:
    """What programs and libraries find that ask whether they run in a notebook: pandas, sympy and tqdm, for example."""

    kernel = None
    config = ()
    colors = "nocolor"

    def __init__(self, formatters):
        self.display_formatter = type("DisplayFormatter", (), {"formatters": formatters})()

    def run_line_magic(self, name, line="", *_):
        if name != "matplotlib":  # figures are shown anyway
            raise RuntimeError("%%%s is a command of IPython: %s" % (name, _advise("%s %s" % (name, line))))

    run_cell_magic = run_line_magic

    def magic(self, line):
        self.run_line_magic(*line.split(None, 1))

    def __getattr__(self, name):
        raise AttributeError("no IPython runs here, so its shell has no %r: %s" % (name, _advise("")))


def _parse(code, name, flags):
    """Return the syntax tree of a text. Its commands `%matplotlib` do nothing: figures are shown anyway."""
    while True:
        try:
            return compile(code, name, "exec", flags | _ast.PyCF_ONLY_AST, dont_inherit=True)
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
    """Return what to do instead of a command of IPython, or of one that installs packages."""
    command = re.search(_INSTALLATION, line)
    if command:
        names = [word for word in command[1].split() if re.match(r"[A-Za-z0-9][^/]*$(?<!\.txt)", word)] or [
            "NAME"
        ]
        flags = " ".join("--package " + name for name in names)
        return "open a session with packages=%s, or paddock repl %s" % (json.dumps(names), flags)
    return 'open a session with kernel="ipython", or paddock repl --kernel ipython'


def _is_quiet(code, last):
    """Return whether a semicolon follows the last expression."""
    lines = [line.encode("utf-8", "surrogatepass") for line in code.split("\n")[last.end_lineno - 1 :]]
    lines[0] = lines[0][last.end_col_offset :]
    return b"\n".join(lines).lstrip(b" \t\r\n)").startswith(b";")
