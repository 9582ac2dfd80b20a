"""Tests of models: endpoint, broker, client, replay, against real HTTP servers on loopback."""
