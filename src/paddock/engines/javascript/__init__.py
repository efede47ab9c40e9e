"""JavaScript and TypeScript programs in locked V8 workers."""
