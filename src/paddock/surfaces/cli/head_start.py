"""A head start for programs at the command line: what they need comes up while the rest of Paddock is imported."""

from typing import TYPE_CHECKING

from paddock.guest.launch import Launcher

if TYPE_CHECKING:
    import click

_KEY = "paddock.launcher"


def begin(context: "click.Context", *, jit: bool, reader: bool) -> None:
    """Start a zygote, and perhaps a reader of programs; they end with the context, if not before."""
    launcher = context.meta[_KEY] = Launcher()
    context.call_on_close(launcher.close)
    launcher.begin("guest-jit" if jit else "guest", reader=reader)


def launcher(context: "click.Context") -> Launcher | None:
    """Return what has begun in this context or one around it."""
    found: Launcher | None = context.meta.get(_KEY)
    return found
