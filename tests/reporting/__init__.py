"""Reports are made from records alone, and survive whatever happens to their writers."""
