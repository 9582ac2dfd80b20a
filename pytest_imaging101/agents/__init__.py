"""A brief, a sandbox and a budget in, a transcript out."""
