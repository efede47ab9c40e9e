"""How programs in Python show values: rich forms of objects, figures, and `.show()` of libraries that open windows.

It runs inside of the sandbox, in the interpreter that the program uses, and uses the standard library alone, of Python
3.8 and later. Sessions have it from the start; other programs load it once they import a library that shows something.

A bare interpreter starts in the time that a few modules take to import. Therefore those that not every program of a
session needs are imported when they are used first.
"""

import builtins
import importlib
import itertools
import os
import sys
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
_LINE_CHARS = 79
_MAX_ITEMS = 1000
_MAX_DIGITS = 4000
"""Maximum length of a whole number in JSON; of a longer one, the digits are text."""
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
_STAND_INS = {
    "IPython": True,
    "IPython.display": False,
    "IPython.core": True,
    "IPython.core.display": False,
    "IPython.lib": True,
    "IPython.lib.latextools": False,
    "IPython.lib.pretty": False,
    "IPython.terminal": True,
    "IPython.terminal.interactiveshell": False,
}
"""Modules of IPython that programs use where it is not installed, and whether each is a package."""
_NO_BROWSER = "there is no browser here; show a page with display(HTML(filename=...)) of IPython.display"
_STANDARD = frozenset(
    "collections copyreg enum functools heapq itertools json keyword operator re reprlib sre_compile sre_constants "
    "sre_parse types".split()
)
"""Modules of the standard library that this text uses, with those that they use: no file of a program replaces them."""
_SEARCH = {"meta_path": list(sys.meta_path), "path": sys.path[1:], "path_hooks": list(sys.path_hooks)}
"""How modules of the standard library are found, whatever programs do to `sys`: as at the start, and not beside the
program."""
_ESCAPES = {**{code: "\\u%04x" % code for code in range(32)}, ord('"'): '\\"', ord("\\"): "\\\\"}
"""Characters that a text in JSON cannot have as they are."""
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


class _Lazy:
    """A module of the standard library that is imported when it is used first."""

    def __init__(self, name):
        self._module = name

    def __getattr__(self, name):
        value = getattr(_import_standard(self._module), name)
        setattr(self, name, value)
        return value


base64, json, re = map(_Lazy, ("base64", "json", "re"))


class _Display:
    """Shows values. Subclasses say how: `send` a frame, `print` text in its place, `explain` an error."""

    def __init__(self):
        self.room = _MAX_RESULTS_BYTES
        self.formatters = {kind: _Formatter() for kind in ("text/plain", *dict(_METHODS))}

    def display(self, *values, raw=False, **_options):
        """Show values, rich where they can be; with `raw`, they are dictionaries of forms by media type."""
        for value in values:
            self.show({"text/plain": "", **value} if raw else self.describe(value))

    def show(self, bundle):
        bundle = {
            str(kind): base64.b64encode(data).decode() if isinstance(data, (bytes, bytearray)) else data
            for kind, data in bundle.items()
        }
        bundle = {kind: data if isinstance(data, str) else _plain(data) for kind, data in bundle.items()}
        text = bundle["text/plain"] = bundle["text/plain"][:_MAX_TEXT_CHARS]
        is_image = "image/png" in bundle or "image/jpeg" in bundle
        size = sum(
            len((data if isinstance(data, str) else json.dumps(data)).encode("utf-8", "replace"))
            for data in bundle.values()
        )
        if size > min(_MAX_RESULT_BYTES, self.room):
            shorter = text[:1000] + " [too large to be shown in other forms]"
            text = shorter if is_image else text
            bundle, size, is_image = {"text/plain": shorter}, len(shorter), False
        if not is_image:
            self.print(text + "\n")
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
                form = self.formatters[kind].bind(value) or getattr(value, method, None)
                if kind not in bundle and callable(form):
                    data = self.render(form)
                    if isinstance(data, tuple):
                        data = data[0] if data else None
                    if data is not None:
                        bundle[kind] = data
            if _is_figure(value) and (value.axes or value.lines):
                bundle["image/png"] = _draw(value)
        if not isinstance(bundle.get("text/plain"), str):
            bundle["text/plain"] = self.print_plain(value)
        return bundle

    def print_plain(self, value):
        """Return the text of a value: by the printer of a library for its class, or as Python writes it."""
        form = None if isinstance(value, type) else self.formatters["text/plain"].bind(value)
        if form is not None:
            printer = _TextPrinter()
            self.render(form, p=printer, cycle=False)
            if printer.parts:
                return "".join(printer.parts)
        return _format(value)

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
        """Display all open figures of matplotlib that were not shown as they are, and close them."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not _is_ours(pyplot):
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure.stale or not getattr(figure, "_paddock_shown", False):
                self.display(figure)
        pyplot.close("all")


class _Formatter:
    """The printers of classes for one media type, by the interface of IPython's formatters."""

    def __init__(self):
        self.type_printers = {}

    def for_type(self, typ, func=None):
        """Let `func` print the values of a class, or of "module.Class"; return the printer of before."""
        before = self.type_printers.get(typ)
        if func is not None:
            self.type_printers[typ] = func
        return before

    def for_type_by_name(self, type_module, type_name, func=None):
        return self.for_type("%s.%s" % (type_module, type_name), func)

    def pop(self, typ, default=None):
        return self.type_printers.pop(typ, default)

    def bind(self, value):
        """Return a function that prints a value by the printer of its nearest class; None without one."""
        if not self.type_printers:
            return None
        for each in type(value).__mro__:
            for key in (each, "%s.%s" % (each.__module__, each.__name__)):
                if key in self.type_printers:
                    printer = self.type_printers[key]
                    return lambda p=None, **rest: printer(value) if p is None else printer(value, p, **rest)
        return None


class _TextPrinter:
    """Collects text, by the interface of IPython's printer."""

    def __init__(self):
        self.parts = []
        self.text = self.parts.append

    def pretty(self, obj):
        self.text(_format(obj))

    def breakable(self, sep=" "):
        self.text(sep)


class _Importer:
    """Prepares modules, right after their import, for showing values and figures."""

    def __init__(self, driver, more=None):
        self.driver = driver
        self.hooks = {
            "matplotlib.backend_bases": self.prepare_backends,
            "matplotlib.pyplot": self.prepare_pyplot,
            "IPython.display": self.prepare_display,
            "plotly.io._renderers": self.prepare_plotly,
            "bokeh.io.showing": self.prepare_bokeh,
            "bokeh.io.output": self.prepare_bokeh_notebook,
            "PIL.ImageShow": self.prepare_pillow,
            "webbrowser": self.prepare_browser,
            **(more or {}),
        }
        _SEARCH["meta_path"].insert(0, self)
        for name in [name for name in self.hooks if name in sys.modules]:
            self.prepare(sys.modules[name])

    def find_spec(self, name, path=None, _target=None):
        if name in _STANDARD:
            path = _SEARCH["path"]
        elif name not in self.hooks and name not in _STAND_INS:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None and name in _STAND_INS:
            return ModuleSpec(name, self, is_package=_STAND_INS[name])
        if spec is not None and name in self.hooks:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), self.prepare(module))
        return spec

    def prepare(self, module):
        try:
            self.hooks[module.__name__](module)
        except Exception as error:  # a version that is built otherwise; the program may not need it
            sys.stderr.write("Values of %s are not shown (%s)\n" % (module.__name__, error))

    def create_module(self, spec):
        return type(sys)(spec.name)

    def exec_module(self, module):
        """Make what programs use of IPython where it is not installed."""
        if module.__name__ == "IPython":
            module.version_info = (8, 0, 0, "")
            module.__version__ = "8.0.0"
            module.get_ipython = lambda: None
        elif module.__name__ == "IPython.lib":
            module.pretty = importlib.import_module("IPython.lib.pretty")
        elif module.__name__ == "IPython.lib.pretty":
            module.pretty = lambda obj, *_, **__: _format(obj)
        elif module.__name__ == "IPython.lib.latextools":
            module.latex_to_png = lambda *_, **__: (
                None
            )  # nothing draws formulas here; readers have their LaTeX
        elif module.__name__ == "IPython.terminal.interactiveshell":
            module.TerminalInteractiveShell = type("TerminalInteractiveShell", (), {})  # no session is one
        if not module.__name__.endswith("display"):
            return
        for name, kind in _FORMS.items():
            setattr(module, name, type(name, (_Form,), {"kind": kind, "__module__": "IPython.core.display"}))
            if name in ("HTML", "Markdown", "Latex", "SVG", "JSON", "Pretty"):
                setattr(module, "display_" + name.lower(), self.make_display(getattr(module, name)))
        module.publish_display_data = lambda data, *_, **__: self.driver.display(data, raw=True)
        module.set_matplotlib_formats = lambda *_, **__: None
        module.__getattr__ = _refuse_name
        self.prepare_display(module)

    def make_display(self, form):
        def display_form(*values, raw=False, **_options):
            self.driver.display(*[form(each) if raw else each for each in values])

        return display_form

    def prepare_display(self, module):
        module.display = self.driver.display
        module.clear_output = lambda *_, **__: None

    def prepare_backends(self, bases):
        """Let `show` of a figure display it, as its window would. Only a backend without windows comes here."""
        bases.FigureManagerBase.show = lambda manager: self.driver.display(manager.canvas.figure)

    def prepare_pyplot(self, pyplot):
        """Let `show` of pyplot display all figures once, and close them."""
        original = pyplot.show

        def show(*args, **options):
            return self.driver.show_figures() if _is_ours(pyplot) else original(*args, **options)

        pyplot.show = show

    def prepare_plotly(self, renderers):
        def show(fig, renderer=None, validate=True, **options):
            render = importlib.import_module("plotly.io").to_html
            page = render(fig, include_plotlyjs="cdn", full_html=False)
            self.driver.display(_Page("a figure of plotly", page))

        renderers.show = show

    def prepare_bokeh(self, showing):
        def show(obj, *_args, **_options):
            embed, resources = map(importlib.import_module, ("bokeh.embed", "bokeh.resources"))
            page = embed.file_html(obj, resources.CDN, "bokeh")
            self.driver.display(_Page("a figure of bokeh", page))

        showing.show = show

    def prepare_bokeh_notebook(self, output):
        output.output_notebook = lambda *_args, **_options: None

    def prepare_pillow(self, image_show):
        def show(image, **_options):
            self.driver.display(image if image.mode in _PNG_MODES else image.convert("RGB"))
            return 1

        viewer = image_show.Viewer()
        viewer.show = show
        image_show.register(viewer, 0)

    def prepare_browser(self, browser):
        """Show a page that lies in a file; say of any other that nobody sees it."""

        def open_page(url, *_args, **_options):
            path = re.sub("^file://", "", str(url))
            if not os.path.isfile(path):
                sys.stderr.write("webbrowser cannot open %s: %s\n" % (url, _NO_BROWSER))
                return False
            with open(path, encoding="utf-8", errors="replace") as file:
                self.driver.display(_Page("the page " + os.path.basename(path), file.read()))
            return True

        browser.open = browser.open_new = browser.open_new_tab = open_page


class _Page:
    """A page of HTML that has no form as text."""

    def __init__(self, what, page):
        self.what, self._repr_html_ = what, lambda: page

    def __repr__(self):
        return "[%s, shown as HTML]" % self.what


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


def _refuse_name(name):
    """Say of a name of IPython that has no stand-in how to get it."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError('IPython.display.%s needs IPython, which is not installed: packages=["ipython"]' % name)


def _is_figure(value):
    return any(
        (each.__module__, each.__name__) == ("matplotlib.figure", "Figure") for each in type(value).__mro__
    )


def _is_ours(pyplot):
    return pyplot.get_backend().lower() == "agg"


def _draw(figure):
    """Return a figure as PNG, as a notebook shows it, and mark it as shown."""
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
    figure._paddock_shown, figure.stale = True, False
    return file.getvalue()


def _plain(data):
    """Return data as every reader of JSON takes it: without NaN, infinities and integers of endless length."""
    text = json.dumps(data, default=str)
    return json.loads(
        text, parse_constant=lambda _: None, parse_int=lambda it: int(it) if len(it) <= _MAX_DIGITS else it
    )


def _encode(value, depth=3):
    """Return a value in JSON. A frame of texts and whole numbers needs no module, which could fail to load."""
    if value is None or value is True:
        return "true" if value else "null"
    if type(value) is int:
        return repr(value)
    if isinstance(value, str):
        return '"%s"' % str.translate(value, _ESCAPES)
    if type(value) is dict and depth:
        pairs = ("%s: %s" % (_encode(str(key)), _encode(item, depth - 1)) for key, item in value.items())
        return "{%s}" % ", ".join(pairs)
    return json.dumps(value, default=str, ensure_ascii=False)


def _import_standard(name):
    """Return a module of the standard library, whatever the program did to the search for modules.

    A thread that comes while another one is here finds the search of `_SEARCH`, and leaves it to the other to restore.
    """
    if name in sys.modules:
        return importlib.import_module(name)
    kept = {key: getattr(sys, key, own) for key, own in _SEARCH.items()}
    vars(sys).update(_SEARCH)
    try:
        return importlib.import_module(name)
    finally:
        vars(sys).update({key: value for key, value in kept.items() if value is not _SEARCH[key]})
