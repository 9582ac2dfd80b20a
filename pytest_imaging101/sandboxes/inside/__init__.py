"""Programs that run inside a container, from the standard library alone."""
