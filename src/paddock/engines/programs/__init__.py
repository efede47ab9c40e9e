"""Programs in other languages: recipes, toolchains, and the engine that runs them.

`engine` is the heart: a recipe, a toolchain, one or two confined steps, one raw result.

    before      recipe -> toolchain (toolchain_cache, inventory, environments, package_environment, install)
    a program   task: the interface to the gate -> running_task -> styles, steps, workdir, cache
    its result  outcome_mapping, shown_values, safe_copy; hints: closed_files, package_hints
    around it   warm, directories: what makes starts fast

`recipes.toml` has the languages as data; `python_display` runs in the programs themselves.
"""
