"""The task kit: make a task folder, and prove that a task is a good one."""
