"""Sessions: an interpreter that lives across requests and is paused between them."""
