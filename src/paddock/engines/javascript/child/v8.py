"""A thin binding of the V8 library that mini-racer ships, for processes that run only one guest.

Theory of operation. mini-racer gives every context its own thread, which takes tasks from a queue (evaluate, call) and
reports each result through one C callback *on that thread*. `py_mini_racer` switches between that thread and an asyncio
thread for every step (0.1 ms each). Here the callback itself waits for the next message, so that no thread is ever
woken. No JavaScript frame is on the stack then, and no lock is held. Therefore the callback may queue the next task and
return, or call V8 itself (`paddock.engines.javascript.child.v8_native`).

Scripts go into V8 as a task's argument, and large strings come out as a task's value. All other text goes through one
ArrayBuffer that both sides share.

This module uses `_thread`, because the `threading` module has a handler that runs in each forked child: it makes
objects there, and the first write to a page that is shared with the parent copies the page.
"""

import _thread
import ctypes
import errno
import mmap
import os
import re
import resource
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

_U64 = ctypes.c_uint64

# Value types of the C interface (py_mini_racer._objects).
_STRING = 5
_ARRAY_BUFFER = 102
_PROMISE = 103
_EXCEPTIONS = range(200, 210)

EXIT_BROKEN, EXIT_MEMORY = 70, 71
"""Exit statuses of a process whose Python code failed, or ran out of memory."""

_TASK_DONE = 1

_MAX_ADDRESS_BYTES = 160 << 30
"""Required address space, in bytes. V8 alone reserves 145 GiB, most of it for C++ objects (measured)."""


_MAP_FIXED = 0x10
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0\b", re.MULTILINE)
"""Address range of a writable mapping of no file in /proc/<pid>/maps (proc(5))."""
_mmap = ctypes.CDLL(None).mmap
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_mmap.restype = ctypes.c_void_p


class _Payload(ctypes.Union):
    _fields_ = (("pointer", ctypes.c_void_p), ("integer", ctypes.c_int64))


class _V8Value(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # the default with `_pack_`; Python 3.14 requires it to be explicit
    _fields_ = (("payload", _Payload), ("length", ctypes.c_size_t), ("type", ctypes.c_uint8))


_Handle = ctypes.POINTER(_V8Value)
_Pointer: TypeAlias = "ctypes._Pointer[_V8Value]"  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - has no public name
_Callback = ctypes.CFUNCTYPE(None, _U64, _Handle)


class PromiseHandle(NamedTuple):
    """The promise that a script evaluated to. It is never freed, because a process runs one program and then ends."""

    handle: object


class ScriptError(Exception):
    """A script that Paddock evaluates failed; the text is V8's."""


class LoadError(Exception):
    """V8 cannot be loaded; the text has the reason, for the person who installed or started Paddock."""


class LibraryError(LoadError):
    """The library is another version than the one that Paddock needs."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"mini-racer's library has no {name}: reinstall Paddock with the version of mini-racer that it requires"
        )


def give_up(error: BaseException) -> NoReturn:
    """End the process. ctypes would only print a callback's exception and continue, and the guest would hang."""
    if isinstance(error, MemoryError):
        os._exit(EXIT_MEMORY)
    os.write(2, f"{type(error).__name__}: {error}\n".encode())
    os._exit(EXIT_BROKEN)


def load(directory: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Load the library from mini-racer's package `directory` and start V8 with `flags`.

    With `--single-threaded` among the flags there is no other thread afterwards, and the process may fork. Raises
    OSError if there is no library; LoadError if it is another version or V8 could not start.
    """
    library = ctypes.CDLL(f"{directory}/libmini_racer.so")
    signatures: dict[str, tuple[list[object], object]] = {
        "mr_init_v8": ([ctypes.c_char_p, ctypes.c_char_p], None),
        "mr_init_context": ([_Callback], _U64),
        "mr_eval": ([_U64, _Handle, _U64], _U64),
        "mr_call_function": ([_U64, _Handle, _Handle, _Handle, _U64], _U64),
        "mr_alloc_string_val": ([_U64, ctypes.c_char_p, _U64, ctypes.c_uint8], _Handle),
        "mr_free_value": ([_U64, _Handle], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name, None)
        if function is None:
            raise LibraryError(name)
        function.argtypes = arguments
        function.restype = result
    _check_limits()
    icu_data = f"{directory}/icudtl.dat"
    library.mr_init_v8(" ".join(flags).encode(), icu_data.encode())
    _map_icu_data(icu_data)
    return library


def _map_icu_data(path: str) -> None:
    """Replace V8's copy of the data for ICU, 10 MiB, by a mapping of the file.

    A fork copies no page table entries for such a mapping, and all processes share its memory. V8 has read the file
    into an anonymous mapping, which it only frees, at exit(3) (icu_util.cc). Does nothing if there is no such mapping.
    """
    with open(path, "rb") as file, open("/proc/self/maps") as maps:
        beginning = file.read(mmap.PAGESIZE)
        size = os.fstat(file.fileno()).st_size
        for mapping in _MAPPING.finditer(maps.read()):
            start, end = int(mapping[1], 16), int(mapping[2], 16)
            is_copy = 0 <= end - start - size < mmap.PAGESIZE
            if is_copy and ctypes.string_at(start, mmap.PAGESIZE) == beginning:
                protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED
                _mmap(start, size, protection, flags, file.fileno(), 0)


def _check_limits() -> None:
    """Raise LoadError under limits with which V8 would abort during its start, without an error text."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _MAX_ADDRESS_BYTES:
        raise LoadError(
            f"V8 reserves {_MAX_ADDRESS_BYTES >> 30} GiB of address space, whatever memory it uses, and this "
            f"process may have {limit / (1 << 30):.1f} (ulimit -v); run Paddock without that limit: "
            "limits.script.memory_bytes bounds the memory"
        )
    ended = _thread.allocate_lock()
    ended.acquire()
    try:
        _thread.start_new_thread(ended.release, ())
    except RuntimeError:
        raise LoadError(os.strerror(errno.EAGAIN)) from None
    ended.acquire()


def keep_thread() -> None:
    """Register the calling thread with Python permanently, not only during a callback.

    Otherwise a forked child could not call into Python again on its only thread (CPython 3.11, init_threadstate).
    """
    ctypes.pythonapi.PyGILState_Ensure()


class Isolate:
    """One V8 isolate with one context.

    During set-up, `evaluate` blocks the caller's thread. When `on_turn` is set, everything happens on V8's thread:
    `on_turn` is called after each task, when no JavaScript runs. An exception in it ends the process.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self._callback = _Callback(self._on_callback)  # must outlive the context
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        self._result: object = None
        self.on_turn: Callable[[object], None] | None = None
        self._script: object = None
        self._context = library.mr_init_context(self._callback)
        self._undefined = self.evaluate("undefined", keep=True)

    def evaluate(self, source: str, *, keep: bool = False) -> object:
        """Evaluate a script and wait for it; return its value.

        A string is returned as `bytes`, an array buffer as a writable memoryview, everything else as None. With `keep`,
        returns an opaque handle. Raises ScriptError if the script throws.
        """
        argument = self._string(source)
        self._keep = keep
        self.library.mr_eval(self._context, argument, _TASK_DONE)
        self._ended.acquire()
        self.library.mr_free_value(self._context, argument)
        if isinstance(self._result, ScriptError):
            raise self._result
        return self._result

    def call(self, function: object, arguments: object) -> object:
        """Call `function` during set-up and wait for it; return its value. Raises ScriptError if it throws."""
        self._keep = False
        self.queue(function, arguments)
        self._ended.acquire()
        if isinstance(self._result, ScriptError):
            raise self._result
        return self._result

    def queue(self, function: object, arguments: object) -> None:
        """Queue a call of `function`; its end is reported to `on_turn`."""
        self.library.mr_call_function(self._context, function, self._undefined, arguments, _TASK_DONE)

    def follow(self, function: object, promised: PromiseHandle, arguments: object) -> None:
        """Queue a call of `function` with the promise as `this`; its end is reported to `on_turn`."""
        self.library.mr_call_function(self._context, function, promised.handle, arguments, _TASK_DONE)

    def queue_script(self, source: bytes) -> None:
        """Queue the evaluation of a script given as UTF-8; its end is reported to `on_turn`."""
        if self._script is not None:
            self.library.mr_free_value(self._context, self._script)
        self._script = self.library.mr_alloc_string_val(self._context, source, len(source), _STRING)
        self.library.mr_eval(self._context, self._script, _TASK_DONE)

    def _string(self, text: str) -> object:
        data = text.encode("utf-8", "surrogatepass")
        return self.library.mr_alloc_string_val(self._context, data, len(data), _STRING)

    def _on_callback(self, _: int, handle: _Pointer) -> None:
        try:
            if self.on_turn is not None:
                self.on_turn(self._read_value(handle))
                return
            is_kept = self._keep and handle.contents.type not in _EXCEPTIONS
            self._result = handle if is_kept else self._read_value(handle)
            self._ended.release()
        except BaseException as error:  # noqa: BLE001 - give_up says why
            give_up(error)

    def _read_value(self, handle: _Pointer) -> object:
        value = handle.contents
        kind, pointer, length = value.type, value.payload.pointer, value.length
        result: object = None
        if kind == _STRING:
            result = ctypes.string_at(pointer, length) if length else b""
        elif kind == _ARRAY_BUFFER and self.on_turn is None:  # not a program's buffer
            # The bootstrap keeps the buffer as long as the context lives. Its handle is not freed either.
            return memoryview((ctypes.c_uint8 * length).from_address(pointer)).cast("B")
        elif kind == _PROMISE and self.on_turn is not None:
            return PromiseHandle(handle)
        elif kind in _EXCEPTIONS:
            result = ScriptError(ctypes.string_at(pointer, length).decode("utf-8", "replace"))
        self.library.mr_free_value(self._context, handle)
        return result
