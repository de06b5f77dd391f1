"""Which algorithm serves a call, and why."""
