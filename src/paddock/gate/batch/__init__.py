"""Many programs at a time, and programs that are judged by tests: above the gate, below every surface.

`runner` is the heart: it runs many at a time, and each run and each test is one request. `program` are its values,
`compare` judges, `lines` and `answer_file` are what `paddock batch` reads and keeps.
`surfaces/client/ray` runs batches on a Ray cluster. A *worker* is a task of `map_concurrently` here, and a process of
Ray there. A *batch* is all programs of one run; one Ray task gets a *share* of it.
"""
