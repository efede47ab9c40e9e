"""What programs may ask of Paddock itself (`paddock.vault.get()` and the like), seen from the host."""
