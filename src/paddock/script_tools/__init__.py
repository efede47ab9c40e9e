"""Script tools: programs with a schema, kept as directories beside the prompts that use them."""
