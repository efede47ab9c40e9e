"""Decisions on requests, as pure functions of settings and request.

`decision` is the heart. `kinds` is the interface to a kind of work, whose `judge` (`gate/work`) calls the module here:

    guests         programs in V8, and the limits of calls of servers and of the SDK
    programs       programs in other languages, with `environment`, `network`, `package_requests` and `workdir`
    script_tools   script tools

Calls of servers have no file here: `server_call` of `gate/work` judges them by `guests` and `rules`.

`rules` matches `[[policy.rule]]`, and `flow` labels requests for `[[flow.rule]]`. `question_texts` shows a request to
a person, `effects` lists what a decision permits to change. `sentences` describes the settings to a person.
"""
