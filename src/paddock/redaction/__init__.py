"""Redaction: remove secrets from everything that leaves Paddock, in the same way at every outlet.

    text, output, JSON value
      | known      values that Paddock itself passed on: the vault, credentials of servers (in the documented spellings)
      | rules      `rules.jsonl`: Paddock's own rules (`rules.toml`) and the vendored ones of gitleaks
      | patterns   those of the settings
      v
    the same text with `[REDACTED:rule]` instead of each secret, and the number of removals

Where that happens: to the streams of programs while they arrive (`output.recorder`, by `stream.StreamRedactor`), also
if they are not stored; to values, console, errors and calls when the outermost request ends (`outgoing`, called by the
gate); to answers of the MCP server once more. `scanner.Scanner` finds the secrets. A server's own credentials are
removed from its answers by the hub.

A rule matches only within a line, so that the result never depends on how a text is split into chunks. RE2 runs every
pattern, in linear time for any text. RE2 and the rules are loaded when a text contains the keyword of a rule.
"""
