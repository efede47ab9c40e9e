"""The parent's side of the SDK: methods that Paddock itself provides to programs (`paddock.vault.get()` and others)."""
