"""Programs in other languages: recipes of their toolchains, and what is made of them."""
