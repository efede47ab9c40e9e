"""Lets programs show values: Paddock puts the folder of this file first on the path of Python.

Nothing more is loaded before the program imports a library that shows something.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = {"matplotlib", "plotly", "bokeh", "PIL", "IPython", "webbrowser"}


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in _LIBRARIES:
            return None
        sys.meta_path.remove(self)
        file = os.path.join(_FOLDER, "display.py")
        names = {"__name__": "paddock_display", "path": os.path.join(_FOLDER, "shown")}
        with open(file, encoding="utf-8") as stream:
            exec(compile(stream.read(), file, "exec"), names)
        sys.meta_path.insert(0, names["importer"])
        return names["importer"].find_spec(name, path)


def _leave_no_trace():
    """Let path, variables and `sitecustomize` be what they are without this file."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _FOLDER]
    sys.path_importer_cache.pop(_FOLDER, None)
    rest = os.environ.pop("PYTHONPATH", "").split(os.pathsep)[1:]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    own = sys.modules.pop(__name__)
    try:
        import sitecustomize
    except ModuleNotFoundError as error:
        sys.modules[__name__] = own
        if error.name != __name__:
            raise


sys.meta_path.insert(0, _Finder())
_leave_no_trace()
