"""The MCP server for agents. It turns calls into requests and outcomes into results; it makes no decisions.

client -> stdio.py or http/ -> protocol.py -> toolbox.py (one table of tools) -> gate -> replies.py -> client

Read `service`, `protocol` and `toolbox` first; `tools` has the tools, `compat` those of the compat profile, `http` the
other transport.

    arguments    arguments, argument_errors, computation_request
    answers      replies, output_schemas, overflow, tool_results
    a person     client_questions: how a client and its person are asked; pending_calls: if a client cannot ask
    long calls   tasks: they continue without a connection; http/resumption: lost connections are resumed
    resources    resources, output_resources, change_resources, prompts, prompts_resources
    sessions     those of MCP: requests, list_changes, progress, stdio
    guide.md     what agents read first
"""
