"""What every floor needs and no concept owns.

`files` has locks and atomic replacement, `own_files` checks Paddock's own files at each use, `large_json` decodes in
slices, `side_by_side` compares texts, `cancellation` and `forced_exit` end work in order and at once, `fair_slots`
bounds what runs and lets callers take turns, `seldom` bounds log lines, `store_threads` calls stores that block,
`schema` checks values with JSON Schema.
"""
