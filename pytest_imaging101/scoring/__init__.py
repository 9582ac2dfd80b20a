"""Files in, scores out: reconstructions, unit tests, plans."""
