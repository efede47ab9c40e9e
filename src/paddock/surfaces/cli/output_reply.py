"""Print excerpts like `grep -n`, and the response of a program for people."""

import sys
from collections.abc import Iterable

import click

from paddock.model.base import Json, count
from paddock.surfaces.rendering.terminal import escape_except_colour, make_encodable


def print_excerpts(excerpts: Iterable[Json]) -> None:
    """Print the excerpts of a response, with stream and number before each line."""
    for number, excerpt in enumerate(excerpts):
        if number:
            click.echo("--")
        for line_number, line in enumerate(excerpt["content"].split("\n"), excerpt["lineStart"]):
            _print_text(f"{excerpt['source']}:{line_number}: {line}")


def print_response(response: Json) -> None:
    """Print a response: standard error's part to standard error, and finally the command that shows the rest."""
    if "outputBytes" in response:
        _print_text(f"{response['status']}: {count(response['outputBytes'], 'byte')} of output")
    for key, err in (("stdoutSummary", False), ("stderrSummary", True)):
        if response.get(key):
            _print_text(response[key], err=err)
    for failure in response.get("digest", {}).get("failures", ()):
        place = ":".join(str(failure[key]) for key in ("file", "line") if key in failure)
        _print_text("  " + ": ".join(filter(None, (place, failure.get("name"), failure["message"]))))
    print_excerpts(response.get("excerpts", ()))
    if "notKept" in response:
        _print_text(response["notKept"], err=True)
    if response["artifactHandle"]:
        click.echo(f"all of it: paddock output show {response['artifactHandle']}", err=True)


def _print_text(text: str, *, err: bool = False) -> None:
    shown = escape_except_colour(text) if (sys.stderr if err else sys.stdout).isatty() else text
    click.echo(make_encodable(shown), err=err)
