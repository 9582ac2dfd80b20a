"""Files in, commands run, files out: bubblewrap, local; environment.py builds the task environments."""
