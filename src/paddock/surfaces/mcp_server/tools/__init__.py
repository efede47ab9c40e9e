"""The tools of the MCP server in the default profile.

execute_code  execute_code
call_tool     call_tool
programs      run_program, query_output
compute       compute
discovery     search_tools, describe_tools
script_tools  one tool for each script tool
provision     provision_server
"""
