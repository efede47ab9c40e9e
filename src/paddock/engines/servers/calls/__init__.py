"""Calls to tools of upstream servers, over as few processes as possible."""
