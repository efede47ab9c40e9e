"""Find promises that were rejected and have no handler.

JavaScript cannot list them, and neither can mini-racer's C interface; V8's C++ interface can (v8-promise.h, see
`v8_native`). This module runs no guest code: a guest can make promises, but their values are not examined here.
"""

import ctypes
from typing import TYPE_CHECKING

from paddock.engines.javascript.child.v8 import give_up
from paddock.engines.javascript.child.v8_native import POINTER, NativeIsolate

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_PENDING_REJECTIONS = 256
"""Maximum rejected promises that are kept until they may get a handler. If there are more, later ones are dropped."""

_MAX_REPORTED_REJECTIONS = 5

_REJECTED_WITHOUT_HANDLER = 0


class _Message(ctypes.Structure):
    """v8::PromiseRejectMessage."""

    _fields_ = (("promise", POINTER), ("event", ctypes.c_int), ("value", POINTER))


_Callback = ctypes.CFUNCTYPE(None, _Message)


class UnhandledRejections:
    """The rejected promises of an isolate. Every method, and every callback, runs on V8's thread."""

    def __init__(self, native: NativeIsolate) -> None:
        """Bind V8's functions. Raises LibraryError if one is missing."""
        self._native = native
        self._kept: list[int] = []
        self._has_handler = native.bind("_ZNK2v87Promise10HasHandlerEv", POINTER, result=ctypes.c_bool)
        self._result = native.bind("_ZN2v87Promise6ResultEv", POINTER)
        self._set_callback = native.bind(
            "_ZN2v87Isolate24SetPromiseRejectCallbackEPFvNS_20PromiseRejectMessageEE",
            POINTER, _Callback, result=None,
        )  # fmt: skip

    def listen(self, claims: "Callable[[int], bool]") -> None:
        """Listen to the isolate that `native` has entered.

        `claims` gets the reason of each rejection, and returns True for one that is not the program's.
        """
        self._claims = claims
        self._callback = _Callback(self._on_callback)  # must outlive the isolate
        self._set_callback(self._native.isolate, self._callback)

    def _on_callback(self, message: _Message) -> None:
        try:
            if message.event != _REJECTED_WITHOUT_HANDLER or self._claims(message.value):
                return
            self._kept.append(self._native.keep(message.promise))
            if len(self._kept) == _MAX_PENDING_REJECTIONS:
                self._let_go_of_handled()
                # Drop half of them: otherwise each further rejection would check all of them again.
                while len(self._kept) > _MAX_PENDING_REJECTIONS // 2:
                    self._native.dispose(self._kept.pop())
        except BaseException as error:  # noqa: BLE001 - give_up says why
            give_up(error)

    def _let_go_of_handled(self) -> None:
        kept, self._kept = self._kept, []
        for promise in kept:
            if self._has_handler(promise):
                self._native.dispose(promise)
            else:
                self._kept.append(promise)

    def give(self, container: int) -> None:
        """Put the reasons into an object at the indexes from 0, and drop the promises."""
        self._let_go_of_handled()
        for index, promise in enumerate(self._kept):
            if index < _MAX_REPORTED_REJECTIONS:
                self._native.put(container, index, self._result(promise))
            self._native.dispose(promise)
        self._kept.clear()
