"""Leave a .mcp.json that the user's agent will start servers from.

landlock: closed
namespaces: closed
unconfined: closed
"""

open(FACTS["workspace"] + "/.mcp.json", "w").write("{}")
