"""The parent's side of the SDK: methods that Paddock itself provides to programs (`paddock.vault.get()` and others).

`service` is the heart: it answers vault, signals, stored output, the ledger and health itself. `requests` are methods
that become requests of another kind, `commands` those that start a command. `notes`, `notify`, `webhooks` and `events`
keep or send what programs say; `post` sends it. The programs' side is `engines/javascript/js/bootstrap/sdk.js`.
"""
