"""What operators see of requests: traces, metrics and log lines. Nothing here is loaded unless it is configured.

Whatever happens passes the audit sink, so telemetry stands around it (`watched`). It tells facts of the record, and of
those no payloads, paths or secrets, nor names that a program made up. What goes wrong here fails no request.
"""
