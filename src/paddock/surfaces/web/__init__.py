"""The page `paddock ui`: what runs, what waits for a person, and what happened, for a browser.

    connection -> entry: Host, Origin, Sec-Fetch-Site, cookie, CSRF token -> app: routes -> pages -> templates

`app` has the table of pages; read it and one module of `pages` first. `login` keeps who is logged in, `viewer` finds
what a person who is logged in may see, `render` makes HTML of values. `service` serves the pages alone (`paddock ui`)
or beside the API (`paddock serve http --ui`). `events` keeps a part of a page current, `inert` sends files of programs,
`record_export` writes records as a file. `static` has the style, the script and, in `vendor`, the libraries.

Every page works without script: links, and forms that are sent with POST and answered with a redirect. A page asks
query functions of the floors below, as the command line does, and keeps nothing.
"""
