"""The HTTP API: executions, sessions, stored output and questions, for clients without MCP.

    connection -> entry: name of the server, number of requests, token -> FastAPI: routes -> executions -> gate

Every answer other than a success is a problem document (RFC 9457). The gate's outcomes are successes, whatever their
status: a program that failed was executed. Needs the extra `http`.
"""
