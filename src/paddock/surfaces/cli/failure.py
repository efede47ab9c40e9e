"""The exception for whatever keeps a command from being done."""

from typing import IO, Any

import click


class Failure(click.ClickException):
    """A command cannot be done; the message is printed to standard error as it is, the exit code is 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(self.message, file=file, err=True)
