"""Promises that a program has forgotten: they were rejected, and nobody asks how they ended.

JavaScript cannot ask for them, and mini-racer's C interface has no word for them. But its library exports V8's own
interface (v8-isolate.h, v8-promise.h), of which these are the compilers' names. A `Local` is a pointer to a slot that
holds a value, and so is a global handle; both are passed like any pointer. Nothing in here runs guest code: the guest
can make promises, and nothing of what it makes is looked into. Only the standard library may be imported here.
"""

import ctypes
import os
from typing import TYPE_CHECKING

from paddock.guest.v8 import EXIT_BROKEN, EXIT_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 256
"""Rejected promises that are kept until it is known whether somebody asks. Of more the later ones are forgotten."""

_MOST_TOLD = 5

_REJECTED_WITHOUT_HANDLER = 0
_POINTER = ctypes.c_void_p


class _Message(ctypes.Structure):
    """v8::PromiseRejectMessage."""

    _fields_ = (("promise", _POINTER), ("event", ctypes.c_int), ("value", _POINTER))


_Callback = ctypes.CFUNCTYPE(None, _Message)


class Rejections:
    """The rejected promises of an isolate. Every method is called on V8's thread, and so is `gathers`."""

    def __init__(self, library: ctypes.CDLL, gathers: "Callable[[], bool]") -> None:
        """Listen from now on. A promise that is rejected while `gathers()` is none of a program: see `_give`."""
        self._gathers = gathers
        self._kept: list[int] = []
        bind = _binder(library)
        self._globalize = bind(
            "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEm", _POINTER, ctypes.c_uint64
        )
        self._dispose = bind("_ZN2v812api_internal13DisposeGlobalEPm", _POINTER)
        self._has_handler = bind("_ZNK2v87Promise10HasHandlerEv", _POINTER, result=ctypes.c_bool)
        self._result = bind("_ZN2v87Promise6ResultEv", _POINTER)
        self._context = bind("_ZN2v87Isolate17GetCurrentContextEv", _POINTER)
        self._put = bind(
            "_ZN2v86Object3SetENS_5LocalINS_7ContextEEEjNS1_INS_5ValueEEE",
            _POINTER, _POINTER, ctypes.c_uint32, _POINTER, result=ctypes.c_uint16,
        )  # fmt: skip
        self._isolate = bind("_ZN2v87Isolate10GetCurrentEv")()
        self._callback = _Callback(self._called)  # must outlive the isolate
        listen = bind(
            "_ZN2v87Isolate24SetPromiseRejectCallbackEPFvNS_20PromiseRejectMessageEE", _POINTER, _Callback
        )
        listen(self._isolate, self._callback)

    def _called(self, message: _Message) -> None:
        try:
            if message.event == _REJECTED_WITHOUT_HANDLER:
                self._rejected(message)
        except MemoryError:
            os._exit(EXIT_MEMORY)
        except BaseException as error:  # noqa: BLE001  (ctypes would print it and go on)
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(EXIT_BROKEN)

    def _rejected(self, message: _Message) -> None:
        if self._gathers():
            self._give(message.value)
            return
        value = ctypes.c_uint64.from_address(message.promise).value
        self._kept.append(self._globalize(self._isolate, value))
        if len(self._kept) == _MOST:
            self._let_go_of_handled()
            while len(self._kept) > _MOST // 2:  # or each further one would have all of them looked at
                self._dispose(self._kept.pop())

    def _let_go_of_handled(self) -> None:
        kept, self._kept = self._kept, []
        for promise in kept:
            if self._has_handler(promise):
                self._dispose(promise)
            else:
                self._kept.append(promise)

    def _give(self, container: int) -> None:
        """Put the reasons into the object by which the glue asks: the reason of a promise that it rejects for this."""
        self._let_go_of_handled()
        context = self._context(self._isolate)
        for index, promise in enumerate(self._kept):
            if index < _MOST_TOLD:
                self._put(container, context, index, self._result(promise))
            self._dispose(promise)
        self._kept.clear()


def _binder(library: ctypes.CDLL) -> "Callable[..., Callable[..., int]]":
    def bind(name: str, *arguments: object, result: object = _POINTER) -> "Callable[..., int]":
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
        return function

    return bind
