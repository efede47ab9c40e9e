"""Redaction: remove secrets from everything that leaves Paddock, in the same way at every outlet.

    text, output, JSON value
      | known      values that Paddock itself passed on: the vault, credentials of servers (in the documented spellings)
      | rules      `rules.jsonl`: Paddock's own rules (`rules.toml`) and the vendored ones of gitleaks
      | patterns   those of the settings
      v
    the same text with `[REDACTED:rule]` instead of each secret, and the number of removals

A rule matches only within a line, so that the result never depends on how a text is split into chunks. RE2 runs every
pattern, in linear time for any text. RE2 and the rules are loaded when a text contains the keyword of a rule.
"""
