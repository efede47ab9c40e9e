"""What the owner allows and what may not leave: decisions, settings, redaction.

settings    what the owner wrote: the schema, the files, and how they narrow each other
decisions   pure functions of settings and request, which the gate asks
redaction   removal of secrets from everything that leaves Paddock
"""
