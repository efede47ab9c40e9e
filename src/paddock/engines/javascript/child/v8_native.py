"""Part of V8's C++ interface, with which a worker and the bootstrap call each other without mini-racer.

mini-racer's C interface has a queue of tasks and copies all data: 25 us for a task, 10 to 20 us for a callback from
JavaScript. Its library also exports V8's interface (v8-isolate.h, v8-function.h, v8-local-handle.h) under mangled
names. These are valid for one version of the library. Therefore that version is pinned exactly, and the fork server
does not start if a name is missing.

A `Local` is a pointer to a slot that contains a value, and so is a global handle. Both are passed as pointers; an empty
one is null.
"""

import ctypes
import mmap
import os
import signal
import struct
from typing import TYPE_CHECKING

from paddock.engines.javascript.child.v8 import LibraryError, give_up

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNAL = signal.SIGUSR1
"""Ends the running JavaScript. It kills a process on a machine for which there are no instructions here."""

_PROT_READ_EXEC = 5
_LOAD_AND_BRANCH = 0x58000080, 0x580000B0, 0xD61F0200, 0xD503201F
_CODE: "dict[str, tuple[str, Callable[[int, int], tuple[int | bytes, ...]]]]" = {
    # mov rdi, ARGUMENT; mov rax, FUNCTION; jmp rax
    "x86_64": ("<2sQ2sQ2s", lambda function, argument: (b"\x48\xbf", argument, b"\x48\xb8", function, b"\xff\xe0")),
    # ldr x0, ARGUMENT; ldr x16, FUNCTION; br x16; nop
    "aarch64": ("<4I2Q", lambda function, argument: (*_LOAD_AND_BRANCH, argument, function)),
}  # fmt: skip
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_LIBC.signal.restype = ctypes.c_void_p
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def call_on_signal(function: int, argument: int) -> mmap.mmap | None:
    """Have the kernel call the function at an address with one argument at each `SIGNAL`.

    Returns the memory of the handler, which must outlive it; None where there can be no handler.
    """
    if (code := _CODE.get(os.uname().machine)) is None:
        return None
    form, order = code
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page.write(struct.pack(form, *order(function, argument)))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if _LIBC.mprotect(address, mmap.PAGESIZE, _PROT_READ_EXEC) != 0:
        return None
    _LIBC.signal(SIGNAL, address)
    return page


POINTER = ctypes.c_void_p
_SLOT = ctypes.c_uint64
_INT = ctypes.c_int

_CONSTRUCTOR_THROWS = 0
_HAS_SIDE_EFFECTS = 0
_NORMAL = 0

_Posted = ctypes.CFUNCTYPE(None, POINTER)

Scope = tuple[int, int]
"""The state before a scope was opened."""


class NativeIsolate:
    """V8's functions for one isolate. It can be made on any thread; its methods run on V8's thread, after `enter`.

    The functions hold Python's lock while they run, so that their callbacks enter Python at once.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Bind every function. Raises LibraryError if one is missing."""
        self._library = library
        bind = self.bind
        self._current = bind("_ZN2v87Isolate10GetCurrentEv")
        self._cancel_termination = bind("_ZN2v87Isolate24CancelTerminateExecutionEv", POINTER, result=None)
        self._terminate = "_ZN2v87Isolate18TerminateExecutionEv"
        bind(self._terminate, POINTER, result=None)
        self._current_context = bind("_ZN2v87Isolate17GetCurrentContextEv", POINTER)
        self._checkpoint = bind("_ZN2v87Isolate26PerformMicrotaskCheckpointEv", POINTER, result=None)
        self._globalize = bind(
            "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEm", POINTER, _SLOT
        )
        self.dispose = bind("_ZN2v812api_internal13DisposeGlobalEPm", POINTER, result=None)
        self._get = bind("_ZN2v86Object3GetENS_5LocalINS_7ContextEEEj", POINTER, POINTER, ctypes.c_uint32)
        self._put = bind(
            "_ZN2v86Object3SetENS_5LocalINS_7ContextEEEjNS1_INS_5ValueEEE",
            POINTER, POINTER, ctypes.c_uint32, POINTER, result=ctypes.c_uint16,
        )  # fmt: skip
        self._new_function = bind(
            "_ZN2v88Function3NewENS_5LocalINS_7ContextEEEPFvRKNS_20FunctionCallbackInfoINS_5ValueEEEENS1_INS_4DataEEE"
            "iNS_19ConstructorBehaviorENS_14SideEffectTypeE",
            POINTER, _Posted, POINTER, _INT, _INT, _INT,
        )  # fmt: skip
        self._call = bind(
            "_ZN2v88Function4CallENS_5LocalINS_7ContextEEENS1_INS_5ValueEEEiPS5_",
            POINTER, POINTER, POINTER, _INT, POINTER,
        )  # fmt: skip
        self._new_text = bind(
            "_ZN2v86String14NewFromOneByteEPNS_7IsolateEPKhNS_13NewStringTypeEi",
            POINTER, ctypes.c_char_p, _INT, _INT,
        )  # fmt: skip
        self._compile = bind(
            "_ZN2v86Script7CompileENS_5LocalINS_7ContextEEENS1_INS_6StringEEEPNS_12ScriptOriginE",
            POINTER, POINTER, POINTER,
        )  # fmt: skip
        self._run = bind("_ZN2v86Script3RunENS_5LocalINS_7ContextEEE", POINTER, POINTER)
        of_scopes = "_ZN2v88internal11HandleScope"
        self._next_address = bind(f"{of_scopes}20current_next_addressEPNS0_7IsolateE", POINTER)
        self._limit_address = bind(f"{of_scopes}21current_limit_addressEPNS0_7IsolateE", POINTER)
        self._level_address = bind(f"{of_scopes}21current_level_addressEPNS0_7IsolateE", POINTER)
        self._delete_extensions = bind(f"{of_scopes}16DeleteExtensionsEPNS0_7IsolateE", POINTER, result=None)

    def bind(self, name: str, *arguments: object, result: object = POINTER) -> "Callable[..., int]":
        """Return an exported function of the library. Raises LibraryError if it is missing."""
        prototype = ctypes.PYFUNCTYPE(result, *arguments)  # pyright: ignore[reportArgumentType] # as `argtypes` takes
        try:
            return prototype((name, self._library))
        except AttributeError:
            raise LibraryError(name) from None

    def enter(self) -> None:
        """Find the isolate of this thread, which must be V8's."""
        self.isolate = self._current()
        self._next = _SLOT.from_address(self._next_address(self.isolate))
        self._limit = _SLOT.from_address(self._limit_address(self.isolate))
        self._level = _INT.from_address(self._level_address(self.isolate))
        terminate = ctypes.cast(getattr(self._library, self._terminate), POINTER).value
        self._handler = call_on_signal(terminate or 0, self.isolate)

    def introduce(self, container: int, on_post: "Callable[[], None]") -> None:
        """Keep the function at index 0 of an object for `step`; put a function that calls `on_post` at index 1.

        Call it while JavaScript runs.
        """

        def on_posted(_: int) -> None:
            try:
                on_post()
            except BaseException as error:  # noqa: BLE001 - give_up says why
                give_up(error)

        self._posted = _Posted(on_posted)  # must outlive the isolate
        context = self._current_context(self.isolate)
        poster = self._new_function(context, self._posted, None, 0, _CONSTRUCTOR_THROWS, _HAS_SIDE_EFFECTS)
        self._put(container, context, 1, poster)
        self._context = self.keep(context)
        self._step = self.keep(self._get(container, context, 0))

    def keep(self, local: int) -> int:
        """Return a handle of the same value that is valid until `dispose`."""
        return self._globalize(self.isolate, _SLOT.from_address(local).value)

    def run(self, source: "ctypes.Array[ctypes.c_char]") -> int:
        """Run an ASCII script and return a permanent handle of its value; 0 if it throws.

        The exception is then thrown in the calling JavaScript. Call it while JavaScript runs.
        """
        context = self._current_context(self.isolate)
        text = self._new_text(self.isolate, source, _NORMAL, len(source))
        script = self._compile(context, text, None) if text else 0
        value = self._run(script, context) if script else 0
        return self.keep(value) if value else 0

    def put(self, container: int, index: int, value: int) -> None:
        """Set an indexed property of an object. Call it while JavaScript runs."""
        self._put(container, self._current_context(self.isolate), index, value)

    def step(self) -> bool:
        """Call the function that `introduce` kept; return False if it threw. The exception is lost."""
        # It ignores its `this`; `undefined` is not available here.
        return bool(self._call(self._step, self._context, self._step, 0, None))

    def checkpoint(self) -> None:
        """Run all microtasks. Call it while no JavaScript runs."""
        self._checkpoint(self.isolate)

    def cancel_termination(self) -> None:
        """Let JavaScript run again after a signal has ended it (`interrupt`). Call it while no JavaScript runs."""
        self._cancel_termination(self.isolate)

    def open_scope(self) -> Scope:
        """Open a handle scope, as the constructor of v8::HandleScope does, which is inline and so not exported."""
        self._level.value += 1
        return self._next.value, self._limit.value

    def close_scope(self, scope: Scope) -> None:
        """Free the handles that were made since `scope` was opened."""
        self._level.value -= 1
        self._next.value, limit = scope
        if self._limit.value != limit:
            self._limit.value = limit
            self._delete_extensions(self.isolate)
