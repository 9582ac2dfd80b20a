"""Outcomes in, journal, junit, terminal and statistics out."""
