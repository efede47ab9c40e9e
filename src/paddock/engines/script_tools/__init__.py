"""Script tools: programs with a schema, in directories beside the prompts that use them."""
