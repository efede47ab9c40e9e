"""Paddock on a server: the library's interface, sent to the HTTP API of `paddock serve http`.

    RemotePaddock -> execution: work as JSON, events, listeners, cancellation -> connection -> the server
                     answers: JSON as values <---------------------------------------/

The server is not trusted: the size, the structure and the types of its answers are checked, redirects are not followed,
and no error text contains the token. Each execution carries an `Idempotency-Key`, so that a repeated request starts
nothing twice.

`paddock` is the class, `sessions` its sessions.
"""
