"""How checks say what was promised: also under `python -O`, which removes `assert`."""

from collections.abc import Callable


def require_equal(found: object, wanted: object, promise: str) -> None:
    """Raise AssertionError unless two values are equal."""
    if found != wanted:
        raise AssertionError(f"{promise}: got {found!r:.500}, want {wanted!r:.500}")


def require_true(condition: object, promise: str) -> None:
    """Raise AssertionError unless a condition holds."""
    if not condition:
        raise AssertionError(promise)


def require_error(kind: type[Exception], call: Callable[[], object], promise: str) -> None:
    """Raise AssertionError unless a call raises an exception of a kind."""
    try:
        call()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{promise}: got {type(error).__name__}, want {kind.__name__}") from error
    raise AssertionError(f"{promise}: it raised nothing, want {kind.__name__}")
