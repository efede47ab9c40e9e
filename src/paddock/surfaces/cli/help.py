"""Help pages and usage errors, common to all commands."""

import click

from paddock.model.texts import find_nearest

_COMMANDS_ELSEWHERE = {
    **dict.fromkeys(("remove", "rm", "revoke", "unregister"), ("delete", "close")),
    **dict.fromkeys(("add", "create"), ("set", "register", "new", "install")),
    **dict.fromkeys(("ls", "get"), ("list", "show")),
}
"""Commands of other tools, and the commands that may do the same here."""


class CommandGroup(click.Group):
    """A group of commands whose help has whole sentences. The error for an unknown command names the nearest one."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command, whatever its length, without its full stop."""
        rows: list[tuple[str, str]] = []
        for name in self.list_commands(ctx):
            if (found := self.get_command(ctx, name)) is not None:
                first = (found.help or "").partition("\n\n")[0].replace("\n", " ").split(". ")[0]
                rows.append((name, " ".join(first.split()).removesuffix(".")))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command at the start of the arguments. Raises UsageError, with the nearest name or the help."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            same = (each for each in _COMMANDS_ELSEWHERE.get(args[0], ()) if each in known)
            if near := [*find_nearest(args[0], known), *same]:
                hint = f"Did you mean '{near[0]}'?"
            else:
                hint = f"See `{ctx.command_path} --help`."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


_OPTIONS_ELSEWHERE = {
    "--with": "--package",
    "--install-completion": "paddock completion bash",
    "--show-completion": "paddock completion bash",
    "--output-file": "--output-dir",
    "--cpu": "--cpu-time",
    "--verbose": "--json",
    "--net": "--network",
    "--workdir": "--cwd",
}
"""Options of other tools, and what does the same here: an option, or a command."""


def suggest_option(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return an error that says what to write instead of an option of other tools, if the command can do the same."""
    wanted = _OPTIONS_ELSEWHERE.get(error.option_name, "")
    params = [] if error.ctx is None else error.ctx.command.params
    if any(wanted in param.opts for param in params):
        hint = f"Did you mean '{wanted}'?"
    elif wanted and not wanted.startswith("--"):
        hint = f"Run `{wanted}`."
    else:
        return error
    return click.NoSuchOption(error.option_name, f"{error.message} {hint}", ctx=error.ctx)


def render_examples(*lines: str) -> str:
    """Return the end of a help page: command lines, one per line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
