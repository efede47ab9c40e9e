"""Redaction: remove secrets from everything that leaves Paddock, the same way at every outlet.

    text, output, JSON value
      | known      values that Paddock itself handed out: the vault, credentials of servers (in promised spellings)
      | rules      `rules.jsonl`: Paddock's own rules (`rules.toml`) and the vendored ones of gitleaks
      | patterns   those of the settings
      v
    the same text with `[REDACTED:rule]` in the place of each secret, and the number of removals

No rule sees beyond the end of a line, so the result never depends on how a text was cut into pieces. Every pattern is
run by RE2, in linear time on any text. RE2 and the rules are loaded when a text contains the keyword of a rule.
"""
