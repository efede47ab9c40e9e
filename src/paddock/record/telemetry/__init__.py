"""Telemetry for operators: traces, metrics and log lines of requests. Nothing is loaded unless it is configured.

Every event passes the audit sink; therefore telemetry wraps that sink (`observed_sink`). It exports facts of the
ledger, but no payloads, paths or secrets, and no names that a program made up. Its failures do not fail a request.
"""
