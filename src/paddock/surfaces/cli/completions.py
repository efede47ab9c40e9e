"""`paddock completion`, and the names that a shell completes. Nothing is started, and no network is used.

Errors give no completions, because a shell cannot display them.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from paddock.model.errors import PaddockError
from paddock.surfaces.cli.help import render_examples

if TYPE_CHECKING:
    from paddock.policy.settings.schema import Settings

_MAX_HANDLES = 50


class _Completion(Protocol):
    """The callable that click uses as `shell_complete`."""

    def __call__(
        self, context: click.Context, parameter: click.Parameter, incomplete: str, /
    ) -> list[str]: ...


def _complete_from(look: "Callable[[Settings, Path], Iterable[str]]") -> _Completion:
    """Return a completion with the names that `look` finds for the settings of a workspace."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str, /) -> list[str]:
        # Imported here because shells run `paddock completion` at each start.
        from paddock.policy.settings.loader import load

        workspace: Path = context.params.get("workspace") or Path()
        try:
            settings = load(workspace, flags=context.params.get("flags") or {}).settings
            return [name for name in look(settings, workspace) if name.startswith(incomplete)]
        except (PaddockError, OSError):
            return []

    return complete


def _list_servers(settings: "Settings", workspace: Path) -> Iterable[str]:
    from paddock.gate.servers import ServerService

    return ServerService(settings, workspace).config.servers


def _list_script_tools(settings: "Settings", workspace: Path) -> Iterable[str]:
    from paddock.gate.script_tool_service import open_library

    return open_library(settings.tools, workspace).tools()


def _list_handles(settings: "Settings", workspace: Path) -> Iterable[str]:
    from paddock.gate.stored_output import open_artifacts

    if settings.artifacts.url is not None:
        return ()
    readable = open_artifacts(settings).readable(workspace)
    return [str(each.handle) for each in islice(readable, _MAX_HANDLES)]


runtimes = _complete_from(lambda settings, _workspace: settings.runtimes.languages)
servers = _complete_from(_list_servers)
script_tools = _complete_from(_list_script_tools)
handles = _complete_from(_list_handles)


@click.command(
    "completion",
    epilog=render_examples(
        'eval "$(paddock completion bash)"',
        'paddock completion zsh > "${fpath[1]}/_paddock"',
        "paddock completion fish > ~/.config/fish/completions/paddock.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from paddock.surfaces.cli import root  # imports this module to run the command

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(root.command, {}, "paddock", "_PADDOCK_COMPLETE").source())
