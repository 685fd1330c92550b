"""Values that all layers exchange, and protocols for objects that callers pass in."""
