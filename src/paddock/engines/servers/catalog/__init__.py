"""The tools of all upstream servers: search, TypeScript signatures, and servers that can be provisioned."""
