"""Where adapters meet: the only room that knows every part. Each part is made when it is first used."""
