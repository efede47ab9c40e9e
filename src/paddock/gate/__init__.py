"""The application: the gate, sessions, approvals, and the adapters between engines and record."""
