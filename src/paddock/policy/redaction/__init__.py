"""Redaction: remove secrets from everything that leaves Paddock, in the same way at every outlet.

    text, output, JSON value
      | known      values of the vault that Paddock passed on, in the documented spellings (`known.KnownSecrets`)
      | rules      `rules.jsonl`: Paddock's own rules (`rules.toml`) and the vendored ones of gitleaks
      | patterns   those of the settings
      v
    the same text with `[REDACTED:rule]` instead of each secret, and the number of removals

Where that happens:

* streams of programs while they arrive, also if they are not stored (`record/output/recording.py`, by
  `stream.StreamRedactor`)
* files that programs leave, if they are texts (`record/output/artifacts.py`)
* values, console, errors and calls when the outermost request ends (`outgoing`, called by the gate)
* values that an execution in a session shows (`engines/sessions/bundles.py`)
* answers of the MCP server, once more (`surfaces/mcp_server/toolbox.py`)
* connections in the record and in outcomes (`Gate._hide_secrets`)
* questions to a person (`policy/decisions/question_texts.py`)
* facts of the record (`outgoing.OutgoingRedaction.facts`, called by `record/ledger/sink_wrappers.RedactedSink`)

`scanner.Scanner` finds the secrets. The hub (`engines/servers`) removes a server's own credentials from its answers
(`known.ServerSecrets`). A program gets the rest of such an answer unredacted.

A rule matches only within a line, so that the result never depends on how a text is split into chunks. RE2 runs every
pattern, in linear time for any text. RE2 and the rules are loaded when a text contains the keyword of a rule.

Read `scanner` first. Outlets: `outgoing`, `stream`, `structured`. Finding: `known` with `spellings`,
`rules`, `values`, `private_keys`, `colours`.
"""
