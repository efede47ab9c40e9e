"""Programs in other languages: recipes, toolchains, and the engine that runs them."""
