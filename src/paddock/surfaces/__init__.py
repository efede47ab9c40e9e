"""The ways in: they translate requests and render outcomes, and hold no rules."""
