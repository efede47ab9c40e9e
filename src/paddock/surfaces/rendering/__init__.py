"""Outcomes and answers as text. Every surface uses this package, so that they all print the same.

Read `render` first: programs in JavaScript and single calls.

    answers        program_response, computation, answers: as data, with their types
    for people     terminal, images
"""
