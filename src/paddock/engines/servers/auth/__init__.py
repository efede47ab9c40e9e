"""Authorization at upstream servers: bearer tokens and the OAuth authorization code flow.

`code_flow` is the heart: a person's login. It uses `client_config`, `loopback`, `sdk_flow` and `guarded_http`, and
leaves `tokens`, which `bearer` puts into requests and renews.
"""
