"""The HTTP API: executions, sessions, stored output and questions, for clients without MCP.

    connection -> http_server: names, token -> entry: number of requests -> FastAPI: routes -> executions -> gate

Every answer other than a success is a problem document (RFC 9457). The gate's outcomes are successes, whatever their
status: a program that failed was executed.

Read `entry`, `app` and `executions` first. Routes: `sessions`, `artifacts`, `approvals`, `changes`, `service_routes`,
and the folder `sandboxfusion`. Their values: `models`, `bodies`, `events`, `downloads`, `openapi`; what they
share: `context`, `running`, `idempotency`. Several replicas: `forwarding`, `relay`, `elsewhere`. `service` runs it
all, and MCP beside it.
"""
