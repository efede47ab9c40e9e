"""Promises that a program has forgotten: they were rejected, and nobody asks how they ended.

JavaScript cannot ask for them, and mini-racer's C interface has no word for them: V8's own has (v8-promise.h, see
`v8_native`). Nothing in here runs guest code: the guest can make promises, and nothing of what it makes
is looked into.
"""

import ctypes
from typing import TYPE_CHECKING

from paddock.javascript.child.v8 import give_up
from paddock.javascript.child.v8_native import POINTER, NativeIsolate

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_PENDING_REJECTIONS = 256
"""Rejected promises that are kept until it is known whether somebody asks. Of more the later ones are forgotten."""

_MAX_REPORTED_REJECTIONS = 5

_REJECTED_WITHOUT_HANDLER = 0


class _Message(ctypes.Structure):
    """v8::PromiseRejectMessage."""

    _fields_ = (("promise", POINTER), ("event", ctypes.c_int), ("value", POINTER))


_Callback = ctypes.CFUNCTYPE(None, _Message)


class UnhandledRejections:
    """The rejected promises of an isolate. Every method is called on V8's thread, and so is what it calls."""

    def __init__(self, native: NativeIsolate) -> None:
        """Find V8's functions. Raises LibraryError when one is missing."""
        self._native = native
        self._kept: list[int] = []
        self._has_handler = native.bind("_ZNK2v87Promise10HasHandlerEv", POINTER, result=ctypes.c_bool)
        self._result = native.bind("_ZN2v87Promise6ResultEv", POINTER)
        self._set_callback = native.bind(
            "_ZN2v87Isolate24SetPromiseRejectCallbackEPFvNS_20PromiseRejectMessageEE",
            POINTER, _Callback, result=None,
        )  # fmt: skip

    def listen(self, claims: "Callable[[int], bool]") -> None:
        """Listen from now on to the isolate that `native` has entered.

        A rejection is none of a program if `claims`, which is given its reason, returns that it is somebody else's.
        """
        self._claims = claims
        self._callback = _Callback(self._on_callback)  # must outlive the isolate
        self._set_callback(self._native.isolate, self._callback)

    def _on_callback(self, message: _Message) -> None:
        try:
            if message.event == _REJECTED_WITHOUT_HANDLER:
                self._on_rejection(message)
        except BaseException as error:  # noqa: BLE001 - give_up says why
            give_up(error)

    def _on_rejection(self, message: _Message) -> None:
        if self._claims(message.value):
            return
        self._kept.append(self._native.keep(message.promise))
        if len(self._kept) == _MAX_PENDING_REJECTIONS:
            self._let_go_of_handled()
            while (
                len(self._kept) > _MAX_PENDING_REJECTIONS // 2
            ):  # or each further one would have all of them looked at
                self._native.dispose(self._kept.pop())

    def _let_go_of_handled(self) -> None:
        kept, self._kept = self._kept, []
        for promise in kept:
            if self._has_handler(promise):
                self._native.dispose(promise)
            else:
                self._kept.append(promise)

    def give(self, container: int) -> None:
        """Put the reasons into an object, by their number, and forget the promises."""
        self._let_go_of_handled()
        for index, promise in enumerate(self._kept):
            if index < _MAX_REPORTED_REJECTIONS:
                self._native.put(container, index, self._result(promise))
            self._native.dispose(promise)
        self._kept.clear()
