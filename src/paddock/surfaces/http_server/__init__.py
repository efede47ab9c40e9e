"""What every server over HTTP has before its application: `paddock serve http`, and `paddock serve mcp --http`.

    endpoint -> serving: uvicorn -> entry: names, token, problems -> the application

`entry` is the heart. `endpoint` opens the address and reads the token, before anything slow is loaded; `hosts` are the
names of a server. `serving` and `idle_connections` bound what connections cost. `problems` are the errors of all
servers over HTTP, `readiness` is their answer to `/readyz`, and `asgi` has the types of
applications. What an application does for a caller is not here.
"""
