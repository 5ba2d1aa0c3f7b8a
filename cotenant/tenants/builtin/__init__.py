"""The built-in servers: a streaming voice, a talking head and an LLM that do real work in the real order."""
