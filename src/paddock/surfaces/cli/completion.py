"""`paddock completion`: scripts that teach a shell to complete our commands."""

import click
from click.shell_completion import get_completion_class

from paddock.surfaces.cli import root
from paddock.surfaces.cli.help import render_examples


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
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(root.command, {}, "paddock", "_PADDOCK_COMPLETE").source())
