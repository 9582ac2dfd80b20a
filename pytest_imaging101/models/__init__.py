"""Messages in, a reply and its usage out: endpoint, broker, client, replay."""
