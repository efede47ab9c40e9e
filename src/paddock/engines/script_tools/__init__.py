"""Script tools: programs with a schema, in directories beside the prompts that use them.

`engine` is the heart: one tool's directory, one confined process, one result. Before it: `library` finds and loads
tools, `manifest` is their format, `yaml` parses it, `inputs` checks arguments.
`authoring` is for the authors of tools, `prompts` runs tools when a prompt names them.
"""
