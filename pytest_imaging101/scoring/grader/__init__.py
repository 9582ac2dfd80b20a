"""Files that run inside grading sandboxes; they import the standard library, numpy, pytest and each other only."""
